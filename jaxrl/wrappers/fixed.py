"""Policies that do not learn play some agents of an environment: partners, opponents, populations of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Script, Step, with_own
from jaxrl.spaces import Discrete, Space
from jaxrl.wrappers.base import Wrapped, Wrapper, along_frames
from jaxrl.wrappers.seats import Seat, act_from, seated_player

__all__ = ["FixedPolicies", "matching", "random_policy", "random_policy_in"]


class FixedPolicies(Wrapper):
    """The environment for the learning agents alone: fixed policies play the others.

    Observations, rewards, masks and the environment's `agent_info` are those of the agents that are left;
    `global_state` still describes everything.

    Args:
        env: An environment with several agents.
        policies: Maps a regular expression, which must match the whole name of an agent, to who plays these agents: the
            `policy` of a run, `act(obs[n, D], action_mask[n, A], key) -> action[n]`, or a sequence of such policies,
            one of which is drawn for every episode. A policy was trained for these agents alone, or for all of them.
            Each step asks policies of different algorithms or configurations in turn; seeds of one run cost no more
            than one.

    Raises:
        TypeError: `env` has a single agent.
        ValueError: A pattern matches nobody, two match the same agent, nobody is left, or a policy does not fit.
    """

    keeps_observation = True
    kinds = MultiAgentEnvironment.kinds

    def __init__(self, env: MultiAgentEnvironment, policies: Mapping[str, Any]) -> None:
        if not isinstance(env, MultiAgentEnvironment):
            raise TypeError(f"FixedPolicies needs an environment with several agents, and {env.name} has one.")
        super().__init__(env)
        self._inner = env
        matched = matching(env, policies)
        self._learners = np.array([i for i, pattern in enumerate(matched) if pattern is None], int)
        if not self._learners.size:
            raise ValueError(f"Nobody is left to act in {env.name}: {', '.join(policies)} match all agents.")
        self._players = tuple(
            seated_player(env, policy, np.array([i for i, own in enumerate(matched) if own == pattern]))
            for pattern, policy in policies.items()
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that are left."""
        return tuple(self._inner.agents[i] for i in self._learners)

    @property
    def teams(self) -> tuple[int, ...]:
        """Their teams, numbered anew."""
        return self._numbered(self._inner.teams)

    @property
    def roles(self) -> tuple[int, ...]:
        """Their roles, numbered anew."""
        return self._numbered(self._inner.roles)

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        """The observation spaces of the agents that are left."""
        return {agent: self._inner.agent_observation_spaces[agent] for agent in self.agents}

    @property
    def agent_action_spaces(self) -> dict[str, Space]:
        """The action spaces of the agents that are left."""
        return {agent: self._inner.agent_action_spaces[agent] for agent in self.agents}

    def env_state(self, state: Wrapped) -> Any:
        return state.env

    def action_mask(self, state: Wrapped, params: Any = None) -> jax.Array:
        return self._inner.action_mask(state.env, self._params(params))[self._learners]

    def agent_mask(self, state: Wrapped, params: Any = None) -> jax.Array:
        """Which of the agents that are left are alive and acting: bool `[N]`."""
        return self._inner.agent_mask(state.env, self._params(params))[self._learners]

    def against_script(self, share: float | None = None) -> MultiAgentEnvironment:
        """Raise NotImplementedError: fixed policies play some agents already."""
        raise NotImplementedError(f"In {self.name} some agents are played by fixed policies; give the game without.")

    def observation(self, state: Wrapped, params: Any = None) -> Any:
        return self._inner.observation(state.env, self._params(params))[self._learners]

    def batch_observation(self, state: Wrapped, params: Any = None, *, own_params: bool = False) -> Any:
        obs = self._inner.batch_observation(state.env, self._params(params), own_params=own_params)
        return obs[:, self._learners]

    def mutate(self, key: jax.Array, state: Wrapped, params: Any = None) -> Wrapped:
        params = self._params(params)
        inside = super().mutate(key, state, params)
        obs = self._inner.observation(inside, params)
        seats = zip(self._players, state.own, strict=True)
        return Wrapped(inside, tuple(seat._replace(obs=obs[player.sees]) for player, seat in seats))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Wrapped]:
        key_env, key_own = jax.random.split(key)
        return self._seated(key_own, *self._inner.reset_env(key_env, params))

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Wrapped]:
        keys_env, keys_own = jax.vmap(lambda key: tuple(jax.random.split(key)))(keys)
        obs, state = self._inner.batch_reset(keys_env, self._params(params), own_params=own_params)
        return jax.vmap(self._seated)(keys_own, obs, state)

    def step_env(self, key: jax.Array, state: Wrapped, action: Any, params: Any) -> Step:
        key, joined, carries = self._join(key, state, action, params)
        return self._for_learners(state, carries, self._inner.step_env(key, state.env, joined, params))

    def batch_step_env(
        self, keys: jax.Array, state: Wrapped, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        join = jax.vmap(self._join, in_axes=(0, 0, 0, 0 if own_params else None))
        keys, joined, carries = join(keys, state, action, params)
        stepped = self._inner.batch_step_env(keys, state.env, joined, params, own_params=own_params)
        return jax.vmap(self._for_learners)(state, carries, stepped)

    def sub_states(self, key: jax.Array, state: Wrapped, action: Any, params: Any = None) -> Wrapped:
        params = self._params(params)
        after = self.step_env(jax.random.clone(key), state, action, params)[1]
        key, joined, _ = self._join(key, state, action, params)
        passed = self._inner.sub_states(key, state.env, joined, params)
        return Wrapped(passed, along_frames(after.own, passed))

    def _numbered(self, numbers: Sequence[int]) -> tuple[int, ...]:
        own = [numbers[i] for i in self._learners]
        return tuple(sorted(set(own)).index(number) for number in own)

    def _seated(self, key: jax.Array, obs: jax.Array, state: Any) -> tuple[jax.Array, Wrapped]:
        """Observation and state at the beginning of an episode. Consumes `key`."""
        keys = jax.random.split(key, len(self._players))
        seats = tuple(
            Seat(
                obs[player.sees],
                tuple(kin.carry for kin in player.kin),
                jnp.ones((), bool),
                jax.random.randint(own, (), 0, sum(len(kin.policies) for kin in player.kin), jnp.int32),
            )
            for player, own in zip(self._players, keys, strict=True)
        )
        return obs[self._learners], Wrapped(state, seats)

    def _join(self, key: jax.Array, state: Wrapped, action: jax.Array, params: Any) -> tuple[jax.Array, jax.Array, Any]:
        """The key and all agents' actions for the environment inside, and the players' new memories. Consumes `key`."""
        key_env, *keys = jax.random.split(key, len(self._players) + 1)
        space = self.action_space()
        mask = self._inner.action_mask(state.env, params) if isinstance(space, Discrete) else None
        action = jnp.broadcast_to(space.clip(action), (len(self._learners), *space.shape))
        joined = jnp.zeros((self._inner.num_agents, *space.shape), space.dtype).at[self._learners].set(action)
        carries = []
        for player, seat, own in zip(self._players, state.own, keys, strict=True):
            chosen, carry = act_from(player, seat, None if mask is None else mask[player.sees], own)
            joined = joined.at[player.plays].set(chosen.astype(action.dtype))
            carries.append(carry)
        return key_env, joined, tuple(carries)

    def _for_learners(self, state: Wrapped, carries: Any, stepped: Step) -> Step:
        """What the learners see of a step of the environment inside."""
        obs, after, reward, terminated, truncated, info = stepped
        seats = tuple(
            Seat(obs[player.sees], carry, jnp.zeros((), bool), seat.member)
            for player, carry, seat in zip(self._players, carries, state.own, strict=True)
        )
        here, info = self._learners, with_own(info, self._inner.agent_info, self._learners)
        if 0 not in {self._inner.teams[i] for i in here}:
            info.pop("won", None)  # it is about the first team
        return obs[here], Wrapped(after, seats), reward[here], terminated, truncated, info


def matching(env: MultiAgentEnvironment, patterns: Mapping[str, Any]) -> list[str | None]:
    """The pattern that the whole name of each agent matches, or its kind (see `kinds`); None without one.

    Raises:
        ValueError: Two patterns match the same agent, or one matches nobody or is not a regular expression.
    """
    agents, kinds = env.agents, env.kinds
    matched: list[str | None] = [None] * len(agents)
    for pattern in patterns:
        try:
            found = [i for i, agent in enumerate(agents) if re.fullmatch(pattern, agent)]
        except re.error as error:
            raise ValueError(f"policies: {pattern!r} is not a regular expression: {error}.") from None
        found = found or kinds.get(pattern, ())
        if not found:
            raise ValueError(f"policies: {pattern!r} matches no agent; there are {', '.join(agents)}.")
        for i in found:
            if matched[i] is not None:
                raise ValueError(f"policies: {agents[i]} matches both {matched[i]!r} and {pattern!r}.")
            matched[i] = pattern
    return matched


def random_policy(obs: jax.Array, action_mask: jax.Array, key: jax.Array) -> jax.Array:
    """A uniformly random action among the possible ones, for each agent. Consumes `key`."""
    return jax.random.categorical(key, jnp.where(action_mask, 0.0, -jnp.inf)).astype(jnp.int32)


def random_policy_in(space: Space) -> Script:
    """`random_policy` for agents with this action space; without masks, any action in it."""
    if isinstance(space, Discrete):
        return random_policy
    return lambda obs, action_mask, key: jax.vmap(space.sample)(jax.random.split(key, obs.shape[0]))
