"""Collecting experience: what policies and critics observe, and the scan over environment steps that all share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import abstract_key
from jaxrl.nn.encoder import as_floats, is_picture
from jaxrl.rl import episodes
from jaxrl.rl.devices import joined, num_devices, shard_keys
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space
from jaxrl.vector import VectorEnv

__all__ = [
    "Collector",
    "Observation",
    "Policy",
    "RunnerState",
    "Transition",
    "central_state",
    "draw_by_shard",
    "global_state_size",
    "init_runner",
    "joint_space",
    "new_runner",
    "refresh_pool",
    "rollout",
    "rollout_from_pool",
    "state_shape",
    "team_share",
    "team_sum",
    "team_value",
]


class Observation(NamedTuple):
    """The observation of B environments with N agents at one time step; networks get T steps, `[T, B, ...]`."""

    obs: jax.Array  # [B, N, D]
    global_state: jax.Array | None  # [B, G], for a central critic; see `central_state`
    action_mask: jax.Array | None  # [B, N, A], where actions are Discrete
    agent_mask: jax.Array  # [B, N] True for an agent that is alive and acts


class Collector(NamedTuple):
    """Makes the observations of a `VectorEnv` for the networks."""

    venv: VectorEnv
    central: bool
    """Whether there is a central critic, which sees the global state."""
    num_shards: int
    """S, the shards on all devices; each draws random numbers for its own environments."""
    floats: bool = False
    """Whether integer observations are scaled to floats immediately, so that moments can be taken of them."""
    params: Any = None
    """The environments' parameters, which they share; None for the defaults."""
    log_info: tuple[str, ...] = ()
    """Names of numbers in the info whose means over episodes are logged."""
    kinds: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """The agents of each kind; several kinds have their own returns."""

    @property
    def keys_per_step(self) -> int:
        """K, the keys a shard needs per step: one for its actions, and one for each of its environments.

        Environments that are reset from a pool share a single key, with which they draw their starts.
        """
        share = self.venv.num_envs * num_devices() // self.num_shards
        return 1 + (1 if self.venv.reset_strategy == "pool" else share)

    def observe(self, obs: jax.Array, env_state: Any) -> Observation:
        """`obs[B, N, D]` together with the masks and the global state from the environments' own states."""
        env = self.venv.env
        assert isinstance(env, MultiAgentEnvironment)
        obs = as_floats(env.observation_space(), obs) if self.floats else obs
        shared = (0, None)
        agent_mask = jax.vmap(env.agent_mask, shared)(env_state, self.params)
        action_mask = None
        if isinstance(env.action_space(), Discrete):
            action_mask = jax.vmap(env.action_mask, shared)(env_state, self.params)
        central = jax.vmap(partial(central_state, env), (0, *shared))
        global_state = central(obs, env_state, self.params) if self.central else None
        return Observation(obs, global_state, action_mask, agent_mask)

    def observe_final(self, info: dict[str, Any]) -> Observation:
        """The observation after a step, before any reset."""
        env, state = self.venv.env, info["final_state"]
        if not env.has_observation:
            return self.observe(info["final_observation"], state)
        obs = jax.vmap(env.observation, (0, None))(state, self.params)  # XLA drops it if it is not used
        return self.observe(obs, state)


def central_state(env: MultiAgentEnvironment, obs: jax.Array, env_state: Any, params: Any = None) -> jax.Array:
    """The critic's input for one environment with observations `obs[N, ...]`: float32 `[G]`, or in `joint_space`."""
    space = joint_space(env)
    if space is None:
        return env.global_state(env_state, params)
    if is_picture(space):
        return jnp.moveaxis(obs, 0, -2).reshape(space.shape)
    return obs.reshape(space.shape)


def joint_space(env: MultiAgentEnvironment) -> Space | None:
    """The space of N agents' observations side by side, so that a critic encodes them the way policies do.

    Numbers form a longer vector, pictures a picture with N times the channels. None if there is a global state.
    """
    if env.has_global_state:
        return None
    space, num_agents = env.observation_space(), env.num_agents
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * num_agents)
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec * num_agents)
    if not isinstance(space, Box):
        raise TypeError(f"There is no network for observations in {space}; use Discrete, MultiDiscrete or Box.")
    low, high = (np.broadcast_to(bound, space.shape) for bound in (space.low, space.high))
    if is_picture(space):
        low, high = (np.tile(bound, (1, 1, num_agents)) for bound in (low, high))
    else:
        low, high = (np.tile(bound.reshape(-1), num_agents) for bound in (low, high))
    return Box(low, high, low.shape, space.dtype)


def state_shape(env: MultiAgentEnvironment) -> jax.ShapeDtypeStruct:
    """The shape and dtype of `central_state`."""
    return jax.eval_shape(lambda key: central_state(env, *env.reset(key)), abstract_key())


def global_state_size(env: MultiAgentEnvironment) -> int:
    """G, the number of entries in `central_state`."""
    return math.prod(state_shape(env).shape)


class RunnerState(NamedTuple):
    """The state that one rollout passes to the next. All leaves are `[B, ...]`, except for a pool's, `[P, ...]`."""

    env_state: Any
    obs: jax.Array  # [B, N, D]
    reset: jax.Array  # [B] True where `obs` begins an episode: memory is cleared before use
    carry: Any  # memory, leaves [B, ...]
    running: episodes.Running
    discounted: jax.Array  # [B, N] the discounted reward of the episode so far, for reward scaling


class Policy(NamedTuple):
    """How a rollout acts, and what it stores for learning."""

    act: Callable[[Any, Observation, jax.Array, jax.Array], tuple[Any, jax.Array, dict[str, Any]]]
    """`act(carry, observation, reset[B], keys[S]) -> (carry, action[B, N], extras)`; the leaves of `extras` are
    `[B, ...]`, for example log-probabilities and values. Each key draws for B / S environments."""
    bootstrap: Callable[[Any, Observation], Any]
    """`bootstrap(carry, observation)`: what learning needs from the state after a step, such as its value `[B, N]`."""


class Transition(NamedTuple):
    """One step of B environments with N agents; a rollout stacks T of them, except for the carry."""

    observation: Observation
    reset: jax.Array  # [B] True where the observation begins an episode
    carry: Any  # leaves [T / L, B, ...], memory before each sequence of L steps; None for a single step
    action: jax.Array  # [B, N] or [B, N, K]
    extras: dict[str, Any]  # leaves [B, ...], see `Policy.act`
    reward: jax.Array  # [B, N]
    terminated: jax.Array  # [B] True where the step ended the task: no value follows
    cut: jax.Array  # [B] True where the episode ended, terminated or truncated
    bootstrap: Any  # see `Policy.bootstrap`; zeros except in the last step and where some episode was truncated


def init_runner(collector: Collector, carry: Any, key: jax.Array) -> RunnerState:
    """Start all episodes. Consumes `key`."""
    _, keys = shard_keys(key, collector.num_shards)
    return new_runner(collector, carry, *collector.venv.reset(keys[0], collector.params))


def new_runner(collector: Collector, carry: Any, obs: jax.Array, env_state: Any) -> RunnerState:
    """The state in which all episodes begin with what B environments observe, `[B, N, D]`, in their states."""
    venv = collector.venv
    fresh = jnp.ones(venv.num_envs, bool)
    nothing = jnp.zeros((venv.num_envs, len(venv.teams)), jnp.float32)
    return RunnerState(env_state, obs, fresh, carry, episodes.new_running(venv.num_envs, collector.kinds), nothing)


def refresh_pool(collector: Collector, runner: RunnerState, keys: jax.Array, share: float) -> RunnerState:
    """`runner` with a share of the pool of starts renewed, see `VectorEnv.refresh`.

    Args:
        collector: Observes B environments with `reset="pool"`.
        runner: The state to continue from.
        keys: `[S / devices]`: each shard renews its own P / S starts, whichever device it is on. Consumed.
        share: The share of the pool to renew.
    """
    return runner._replace(env_state=collector.venv.refresh(keys, runner.env_state, share, collector.params))


def rollout(
    collector: Collector, policy: Policy, runner: RunnerState, keys: jax.Array, length: int | None = None
) -> tuple[RunnerState, Transition, dict[str, Any]]:
    """Act for T steps.

    Args:
        collector: Observes B environments.
        policy: Acts, and decides what is stored.
        runner: The state to continue from.
        keys: `[T, K, S / devices]`, where K is `collector.keys_per_step`. Consumed.
        length: L, the number of steps after which the memory is stored for training; None for T.

    Returns:
        The state to continue from, transitions with leaves `[T, B, ...]`, and sums over the episodes that ended (see
        `episodes.ended`).
    """
    num_steps, impl = keys.shape[0], jax.random.key_impl(keys)

    def step(runner: RunnerState, inputs: tuple[jax.Array, jax.Array]) -> tuple[RunnerState, Any]:
        bits, is_last = inputs
        key_action = jax.random.wrap_key_data(bits[0], impl=impl)
        key_env = jax.random.wrap_key_data(jnp.swapaxes(bits[1:], 0, 1).reshape(-1, bits.shape[-1]), impl=impl)
        return _step(collector, policy, runner, key_action, key_env, is_last)

    def sequence(runner: RunnerState, inputs: Any) -> tuple[RunnerState, tuple[Any, Any]]:
        after, stepped = jax.lax.scan(step, runner, inputs)
        return after, (runner.carry, stepped)

    # Scan over bits: `vmap` transposes scanned inputs, and JAX's key checker mistakes a transposed key for a used one.
    inputs = (jax.random.key_data(keys), np.arange(num_steps) == num_steps - 1)
    # With a memory, a scan over sequences around that over steps stores what it is before each of them.
    count = num_steps // length if length and jax.tree.leaves(runner.carry) else 1
    if count == 1:
        runner, (carry, stepped) = sequence(runner, inputs)
        carry = jax.tree.map(lambda leaf: leaf[None], carry)
    else:
        inputs = jax.tree.map(lambda leaf: leaf.reshape(count, -1, *leaf.shape[1:]), inputs)
        runner, (carry, stepped) = jax.lax.scan(sequence, runner, inputs)
        stepped = jax.tree.map(lambda leaf: leaf.reshape(num_steps, *leaf.shape[2:]), stepped)
    traj, rows = stepped
    return runner, traj._replace(carry=carry), episodes.summed(rows)


def rollout_from_pool(
    collector: Collector, policy: Policy, runner: RunnerState, keys: jax.Array, length: int | None = None
) -> tuple[RunnerState, Transition, dict[str, Any]]:
    """`rollout` with `reset="pool"`: meanwhile each device has all starts, so that its draws do not depend on it."""
    own = runner.env_state
    runner = runner._replace(env_state=own._replace(pool=joined(own.pool)))
    runner, traj, sums = rollout(collector, policy, runner, keys, length)
    return runner._replace(env_state=runner.env_state._replace(pool=own.pool)), traj, sums


def _step(
    collector: Collector,
    policy: Policy,
    runner: RunnerState,
    key_action: jax.Array,
    key_env: jax.Array,
    is_last: jax.Array,
) -> tuple[RunnerState, tuple[Transition, dict[str, Any]]]:
    venv = collector.venv
    observation = collector.observe(runner.obs, venv.env_state(runner.env_state))
    carry, action, extras = policy.act(runner.carry, observation, runner.reset, key_action)
    obs, env_state, reward, terminated, truncated, info = venv.advance(
        key_env, runner.env_state, action, collector.params
    )

    def bootstrap() -> Any:
        return policy.bootstrap(carry, collector.observe_final(info))

    def nothing() -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(bootstrap))

    # The value after a step is the next step's, except at a time-out and at the end, so most steps need no second pass.
    after = jax.lax.cond(is_last | truncated.any(), bootstrap, nothing)
    done = terminated | truncated
    transition = Transition(observation, runner.reset, None, action, extras, reward, terminated, done, after)
    running, rows = episodes.ended(runner.running, reward, done, info, collector.kinds, collector.log_info)
    runner = runner._replace(env_state=env_state, obs=obs, reset=done, carry=carry, running=running)
    return runner, (transition, rows)


def draw_by_shard(draw: Callable[[Any, jax.Array], Any], distribution: Any, keys: jax.Array) -> Any:
    """What `draw(part, key)` draws from the part of each shard, together again: leaves `[L, R, N, ...]`.

    Args:
        draw: Draws from a distribution of batch axes `[L, R / S, N]`; consumes its key.
        distribution: The distribution of actions, batch axes `[L, R, N]`.
        keys: `[S]`. Consumed.
    """
    # Shards in front: from [L, R, ...] to [S, L, R / S, ...].
    shards = jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0], keys.size, -1, *leaf.shape[2:]).swapaxes(0, 1), distribution
    )
    drawn = jax.vmap(draw, out_axes=1)(shards, keys)
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), drawn)


def team_value(value: jax.Array, agent_mask: jax.Array, teams: tuple[int, ...]) -> jax.Array:
    """`value[..., N]`, with dead agents' values replaced by the mean of their living team-mates', or 0 if all are dead.

    A team shares its reward, so a dead member still receives the team's future reward, but it observes nothing and so
    cannot predict it. This makes a sacrifice worth what it gains for the team.
    """
    count = team_sum(jnp.ones_like(value), agent_mask, teams)
    mean = team_sum(value, agent_mask, teams) / jnp.maximum(count, 1)
    return jnp.where(agent_mask, value, mean)


def team_sum(value: jax.Array, agent_mask: jax.Array, teams: tuple[int, ...]) -> jax.Array:
    """The sum of `value[..., N]` over the living members of each agent's team, the same for all of them, `[..., N]`."""
    mates = agent_mask[..., None, :] & np.equal.outer(teams, teams)
    return jnp.where(mates, value[..., None, :], 0.0).sum(-1)


def team_share(agent_mask: jax.Array, teams: tuple[int, ...]) -> jax.Array:
    """The share `[..., N]` of each living agent in its team, 1 / n if n are alive; 0 for the dead."""
    return agent_mask / jnp.maximum(team_sum(jnp.ones(agent_mask.shape, jnp.float32), agent_mask, teams), 1.0)
