"""What the configurations of all algorithms have in common, in layers: the run, and who shares networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Literal

from jaxrl import registry
from jaxrl.checked import (
    COUNT,
    NOT_NEGATIVE,
    SHARE,
    Allowed,
    CheckedConfig,
    Effect,
    check_log_info,
)
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.fields import Name, Pairs
from jaxrl.methods import check_methods
from jaxrl.nn.sharing import number_param_sets
from jaxrl.returned import check_agents, check_spaces
from jaxrl.wrappers import OtherPlay, RandomParams, SharedReward, as_multi_agent
from jaxrl.wrappers.players import ambiguous_names, as_pairs, named_param_sets, with_fixed

__all__ = ["RunLayer", "SharingLayer", "TeamLayer", "instead"]

_MOST_UPDATES = 2**31 - 1  # they are counted in int32


def _has_pool(config: Any, _: Any) -> bool:
    return config.reset == "pool"


def _is_shared(_: Any, env: Callable[[], Environment]) -> bool:
    return as_multi_agent(env()).num_agents > 1


def _has_symmetries(_: Any, env: Callable[[], Environment]) -> bool:
    return env().symmetries is not None


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
    """Start of new episodes: a newly made state, or one drawn from a pool; see `VectorEnv`."""
    pool_size: int = 0
    """Starts in the pool; 0 means num_envs, or the smallest multiple of it that is at least 128."""
    pool_refresh: float = 0.25
    """Share of the pool that is renewed before every rollout, the oldest first."""
    num_shards: int = 8
    """Maximum number of shards, each with its own random numbers; the actual number divides environments and
    minibatches evenly, and any divisor of it can be the number of devices."""
    log_info: tuple[str, ...] = ()
    """Names of numbers in the environment's info to log: the mean, over episodes, of their values at the end."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("total_timesteps", "num_envs", "num_steps", "num_shards"), COUNT),
        "pool_refresh": SHARE,
        "pool_size": NOT_NEGATIVE,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("pool_size", ("reset",), _has_pool, "choose reset=pool"),
        Effect("pool_refresh", ("reset",), _has_pool, "choose reset=pool"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", registry.name_of(self.env))
        super().__post_init__()
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
        """Environment steps in one update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates in the whole run."""
        return self.total_timesteps // self.steps_per_update

    @property
    def starts(self) -> int:
        """P, the starts in the pool."""
        return self.pool_size or -(-128 // self.num_envs) * self.num_envs

    def warnings(self) -> list[str]:
        """What the user should know when a run begins, one sentence each."""
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
        check_spaces(env)
        self.refuse_idle(env)
        check_log_info(env, self.log_info)
        return env

    def _named_env(self) -> Environment:
        env = registry.make(self.env)
        check_methods(env)
        return RandomParams(env, registry.own_params(self.params)) if self.params else env

    def idle(
        self, env: Callable[[], Environment] | None = None, because: Collection[str] | None = None
    ) -> list[Effect]:
        """See `CheckedConfig.idle`; `env` defaults to the one that the config names."""
        return super().idle(env or self._named_env, because)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharingLayer(RunLayer):
    """Which agents share which networks; put it before the layers of the algorithm."""

    sharing: Literal["all", "roles", "none"] | tuple[int, ...] = "roles"
    """Which agents share parameters: all, those with the same role, none, or a group number for each agent."""
    policies: Pairs = ()
    """PATTERN=POLICY: the agents whose whole name matches the regular expression share the policy A, B or whatever
    name it has; or RUN, the folder of a run, random or scripted plays them and does not learn. Of a run with several
    seeds, and of several runs with commas between them, one is drawn for every episode. In Python also a dict. Other
    agents learn as `sharing` says."""
    other_play: bool = False
    """Let every agent see and act under its own symmetry of the environment, drawn for each episode, such as renamed
    colours in Hanabi; see `jaxrl.wrappers.OtherPlay`."""

    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("sharing", ("env",), _is_shared, "choose an environment with several agents"),
        Effect("policies", ("env",), _is_shared, "choose an environment with several agents"),
        Effect("other_play", ("env",), _has_symmetries, "choose an environment with symmetries, such as hanabi/2p"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", as_pairs(self.policies))
        super().__post_init__()

    def warnings(self) -> list[str]:
        """What the user should know when a run begins, one sentence each."""
        return super().warnings() + ambiguous_names(self.policies)

    def make_env(self) -> Environment:
        """The environment that `env` names, for the agents that learn.

        Raises:
            ValueError: See `RunLayer.make_env`, or a policy does not fit.
            TypeError: It has no agents, or does not say the team, the role and the spaces of each.
        """
        env = super().make_env()
        check_agents(env)
        if self.policies:
            env = with_fixed(as_multi_agent(env), self.policies)
            check_log_info(env, self.log_info)  # who won is told to the first team alone
        return OtherPlay(as_multi_agent(env)) if self.other_play else env

    def param_sets(self, env: MultiAgentEnvironment) -> tuple[int, ...]:
        """The number of the parameter set of each agent in what `make_env` made, from 0."""
        shared = number_param_sets(self.sharing, env.roles)
        return named_param_sets(env, self.policies, shared) if self.policies else shared


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeamLayer(RunLayer):
    """Algorithms for teams; put it first among the bases."""

    shared_reward: bool = False
    """Make all agents one team, in which each gets the mean of what they earn; see `jaxrl.wrappers.SharedReward`."""

    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("shared_reward", ("env",), _is_shared, "choose an environment with several agents"),
    )

    def make_env(self) -> MultiAgentEnvironment:
        """The environment that `env` names; a single-agent one becomes a team of one."""
        team = as_multi_agent(super().make_env())
        return as_multi_agent(SharedReward(team)) if self.shared_reward and team.num_agents > 1 else team


def instead(env: Environment, *fitting: str) -> str:
    """The algorithms to use in an environment instead, for a message; PPO and IPPO take any actions.

    Args:
        env: The environment; PPO trains one agent.
        fitting: The others that take its actions.
    """
    *most, last = (*fitting, *(() if isinstance(env, MultiAgentEnvironment) else ("ppo",)), "ippo")
    return f"{', '.join(most)} or {last}" if most else last
