"""Layers of all configurations: the run, who shares networks, teams, and policies of continuous actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jaxrl import registry
from jaxrl.algos.config import rules
from jaxrl.config import CheckedConfig, Effect, Name, Pairs
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.nn.heads import policy_head
from jaxrl.nn.sharing import number_param_sets
from jaxrl.wrappers import OtherPlay, RandomParams, RewardFunction, SharedReward, as_multi_agent
from jaxrl.wrappers.base import nested
from jaxrl.wrappers.players import ambiguous_names, as_pairs, named_param_sets, with_fixed

if TYPE_CHECKING:
    from jaxrl.levels.curriculum import Curriculum

__all__ = ["ActorLayer", "RunLayer", "SharingLayer", "TeamLayer", "instead"]

_MOST_UPDATES = 2**31 - 1  # they are counted in int32


def _has_own_code(env: Environment) -> bool:
    """True if an environment, one that it wraps or a reward is not the library's, so that it must be checked."""
    kinds = [each.function if isinstance(each, RewardFunction) else type(each) for each in nested(env)]
    return any(not getattr(kind, "__module__", "").startswith("jaxrl.") for kind in kinds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunLayer(CheckedConfig):
    """The run: the environment, its copies, and for how long."""

    env: Name = "smax/3m"
    """Environment; `jaxrl envs` lists them. In Python also an environment or a class of your own."""
    params: str = ""
    """Parameters drawn anew for every episode, by a function in a file or module of your own, such as
    `./worlds.py:draw`; see `jaxrl.wrappers.RandomParams`."""
    seed: int = 0
    """Seed of all random numbers."""
    total_timesteps: int = 1_000_000
    """Environment steps in total, rounded down to whole updates."""
    num_envs: int = 128
    """Environments stepped in parallel."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    reset: Literal["fresh", "pool"] = "fresh"
    """Start of new episodes: a newly made state, or one drawn from a pool; see `VectorEnv`. `levels` makes it fresh."""
    pool_size: int = 0
    """Starts in the pool; 0 means num_envs, or the smallest multiple of it that is at least 128."""
    pool_refresh: float = 0.25
    """Share of the pool that is renewed before every rollout, the oldest first."""
    levels: str = "dr"
    """Which levels to play: dr, random ones; plr, accel or sfl, with options such as plr?share=0.5&score=maxmc; see
    docs/levels.md."""
    num_shards: int = 8
    """Maximum number of shards, each with its own random numbers; the actual number divides environments and
    minibatches evenly, and any divisor of it can be the number of devices."""
    log_info: tuple[str, ...] = ()
    """Names of numbers in the environment's info to log: the mean, over episodes, of their values at the end."""

    level_options: ClassVar[Any] = None
    """What `levels` says, see `jaxrl.levels.options`; None for random ones."""

    allowed, effects = rules.RUN

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", registry.name_of(self.env))
        super().__post_init__()
        self._check_levels()
        if self.num_updates < 1:
            raise ValueError(
                f"total_timesteps={self.total_timesteps} is less than one update of num_envs * num_steps = "
                f"{self.steps_per_update} steps; use at least total_timesteps={self.steps_per_update}."
            )
        if self.num_updates > _MOST_UPDATES:
            raise ValueError(
                f"total_timesteps={self.total_timesteps} makes {self.num_updates} updates, more than can be counted; "
                f"use at most total_timesteps={_MOST_UPDATES * self.steps_per_update}."
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps in one update, with those that only judge levels."""
        judging = self.level_options.scoring_steps(self.num_envs) if self.level_options else 0
        return self.num_envs * self.num_steps + judging

    @property
    def num_updates(self) -> int:
        """Updates in the whole run."""
        return self.total_timesteps // self.steps_per_update

    @property
    def starts(self) -> int:
        """P, the starts in the pool."""
        return self.pool_size or -(-128 // self.num_envs) * self.num_envs

    def curriculum(self, env: Environment) -> Curriculum | None:
        """What chooses levels of an environment, None for random ones; raises as `Curriculum.of`."""
        if self.level_options is None:
            return None
        from jaxrl.levels.curriculum import Curriculum

        return Curriculum.of(self.level_options, env)

    def _check_levels(self) -> None:
        """Raise ValueError unless `levels` names a method that the other fields allow."""
        if self.levels in ("", "dr"):
            return
        from jaxrl.levels.options import levels_of

        if (levels := levels_of(self.levels)) is None:
            return
        object.__setattr__(self, "level_options", levels)
        object.__setattr__(self, "reset", "fresh")  # new levels are; a preset may ask for a pool
        shards: int = getattr(self, "shards", 1)
        if levels.size % shards:
            works, word = -(-levels.size // shards) * shards, "keep" if levels.kind == "sfl" else "size"
            raise ValueError(
                f"levels: a pool of {levels.size} levels is not divisible by the {shards} shards of the environments; "
                f"use {word}={works}."
            )
        if 0 < levels.batches(self.num_envs) * self.num_envs < levels.size:
            raise ValueError(f"levels: {levels.candidates} candidates do not fill a pool of {levels.size}; seek more.")
        if levels.needs_critic and not hasattr(self, "gae_lambda"):
            raise ValueError(
                f"levels: score={levels.score} needs the critic of ppo, ippo or mappo; use learnability or variance."
            )
        if levels.robust and hasattr(self, "buffer_size"):
            raise ValueError(
                "levels: a replay buffer learns from all it holds; use robust=false, or ippo, mappo or ppo."
            )

    def warnings(self) -> list[str]:
        """Sentences that the user should know when a run begins."""
        return []

    def check_sweepable(self) -> None:
        """Raise ValueError if runs with this config cannot be points of a sweep or a search."""

    def make_env(self) -> Environment:
        """The environment that `env` names, with parameters drawn as `params` says.

        Raises:
            ValueError: There is none, or a field has no effect in it; the message says which.
            TypeError: It has no parameters, or they cannot be drawn like that; or a method or a space is wrong.
        """
        env = self._named_env()
        if _has_own_code(env):
            from jaxrl.check.quick import quick_check  # the library's own need no check

            quick_check(env)
        self.refuse_idle(env)
        self._check_log_info(env)
        return env

    def _check_log_info(self, env: Environment) -> None:
        if self.log_info:
            from jaxrl.check.quick import check_log_info

            check_log_info(env, self.log_info)

    def _named_env(self) -> Environment:
        env = registry.make(self.env)
        if _has_own_code(env):
            from jaxrl.check.quick import check_methods

            check_methods(env)
        return RandomParams(env, registry.own_params(self.params)) if self.params else env

    def idle(
        self, env: Callable[[], Environment] | None = None, because: Collection[str] | None = None
    ) -> list[Effect]:
        """See `CheckedConfig.idle`; `env` defaults to the one that the config names."""
        return super().idle(env or self._named_env, because)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharingLayer(RunLayer):
    """The agents that share networks. As a base, it comes before the layers of the algorithm."""

    sharing: Literal["all", "roles", "none"] | tuple[int, ...] = "roles"
    """Agents that share parameters: all, those with the same role, none, or a group number for each agent."""
    policies: Pairs = ()
    """PATTERN=POLICY: the agents whose whole name matches the regular expression share the policy A, B or whatever
    name it has; or RUN, the folder of a run, random or scripted plays them and does not learn. Of a run with several
    seeds, and of several runs with commas between them, one is drawn for every episode. In Python also a dict. Other
    agents learn as `sharing` says."""
    other_play: bool = False
    """Let every agent see and act under its own symmetry of the environment, drawn for each episode, such as renamed
    colours in Hanabi; see `jaxrl.wrappers.OtherPlay`."""

    allowed, effects = rules.SHARING

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", as_pairs(self.policies))
        super().__post_init__()

    def warnings(self) -> list[str]:
        """Sentences that the user should know when a run begins."""
        return super().warnings() + ambiguous_names(self.policies)

    def make_env(self) -> Environment:
        """The environment that `env` names, for the agents that learn.

        Raises:
            ValueError: See `RunLayer.make_env`, or a policy does not fit.
            TypeError: It has no agents, or does not say the team, the role and the spaces of each.
        """
        env = super().make_env()
        if self.policies:
            env = with_fixed(as_multi_agent(env), self.policies)
            self._check_log_info(env)  # who won is told to the first team alone
        return OtherPlay(as_multi_agent(env)) if self.other_play else env

    def param_sets(self, env: MultiAgentEnvironment) -> tuple[int, ...]:
        """The number of the parameter set of each agent in what `make_env` made, from 0."""
        shared = number_param_sets(self.sharing, env.roles)
        return named_param_sets(env, self.policies, shared) if self.policies else shared


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeamLayer(RunLayer):
    """Teams. It comes first among the bases."""

    shared_reward: bool = False
    """Make all agents one team, in which each gets the mean of what they earn; see `jaxrl.wrappers.SharedReward`."""

    allowed, effects = rules.TEAM

    def make_env(self) -> MultiAgentEnvironment:
        """The environment that `env` names; a single-agent one becomes a team of one."""
        team = as_multi_agent(super().make_env())
        return as_multi_agent(SharedReward(team)) if self.shared_reward and team.num_agents > 1 else team


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorLayer(RunLayer):
    """Policies of continuous actions."""

    squash: bool = False
    """Keep continuous actions within bounds by tanh, instead of letting the environment clip them."""

    allowed, effects = rules.ACTOR

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field has no effect or makes no sense in it; the message says which.
        """
        env = super().make_env()
        policy_head(env.action_space(), squash=self.squash)  # refuses what it cannot make
        return env


def instead(env: Environment, *fitting: str) -> str:
    """The algorithms to use in an environment instead, for a message; PPO and IPPO take any actions.

    Args:
        env: The environment; PPO trains one agent.
        fitting: The others that take its actions.
    """
    *most, last = (*fitting, *(() if isinstance(env, MultiAgentEnvironment) else ("ppo",)), "ippo")
    return f"{', '.join(most)} or {last}" if most else last
