"""Collecting experience: the scan over environments and policy that the on-policy algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.central import central_state
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.nn.torso import as_floats
from jaxrl.rl import episodes
from jaxrl.rl.devices import joined, num_devices, shard_keys
from jaxrl.spaces import Discrete
from jaxrl.vector import PoolState, VectorEnv

__all__ = [
    "Collector",
    "Observation",
    "RunnerState",
    "Transition",
    "begin",
    "bootstrap_values",
    "refresh_pool",
    "rollout",
    "team_value",
]


class Observation(NamedTuple):
    """What is known of B environments with N agents at one moment; networks get T moments, `[T, B, ...]`."""

    obs: jax.Array  # [B, N, D]
    state: jax.Array | None  # [B, G], for a central critic; see `central_state`
    mask: jax.Array | None  # [B, N, A], where actions are Discrete
    alive: jax.Array  # [B, N] who acts


class RunnerState(NamedTuple):
    """What goes on from one rollout to the next. All leaves are `[B, ...]`, but for those of a pool, `[P, ...]`."""

    env_state: Any
    obs: jax.Array  # [B, N, D]
    reset: jax.Array  # [B] True where `obs` begins an episode: memory is cleared before it is used
    carry: Any  # memory, leaves [B, ...]
    running: episodes.Running
    discounted: jax.Array  # [B, N] the discounted reward of the episode so far, for its scale


class Transition(NamedTuple):
    """One step of B environments with N agents; a rollout stacks T of them, but for the carry."""

    observation: Observation
    reset: jax.Array  # [B] True where the observation begins an episode
    carry: Any  # leaves [T / L, B, ...], memory before each of the sequences of L steps; None of a single step
    action: jax.Array  # [B, N] or [B, N, K]
    log_prob: jax.Array  # [B, N]
    value: jax.Array  # [B, N] of a dead agent: see `team_value`
    reward: jax.Array  # [B, N]
    terminated: jax.Array  # [B] True where the step ended the task: no value follows
    cut: jax.Array  # [B] True where the episode ended, by its task or by the clock
    final_value: jax.Array  # [B, N] value of what the step led to, where `bootstrap_values` needs it


# policy(carry, observation[T, B, ...], reset[T, B]) -> (carry, distribution, value[T, B, N])
Policy = Callable[[Any, Observation, jax.Array], tuple[Any, Any, jax.Array]]


class Collector(NamedTuple):
    """Looks at environments for the networks."""

    venv: VectorEnv
    needs_state: bool
    """Whether there is a central critic, which sees the global state."""
    num_shards: int
    """S, on all devices; each draws random numbers for its own environments."""
    floats: bool = False
    """Whether integers are scaled to floats at once, for moments of them."""

    @property
    def keys_per_step(self) -> int:
        """K, the keys a shard needs for a step: one for its actions, and one for each of its environments.

        Those that are reset from a pool share one, with which they draw their starts.
        """
        share = self.venv.num_envs * num_devices() // self.num_shards
        return 1 + (1 if self.venv.reset_strategy == "pool" else share)

    def final(self, info: dict[str, Any]) -> Observation:
        """The observation of what a step led to, before any reset."""
        env, state = self.venv.env, info["final_state"]
        if type(env).observation is Environment.observation:
            return self.look(info["final_observation"], state)
        return self.look(jax.vmap(env.observation)(state), state)  # so that none is made until someone looks

    def look(self, obs: jax.Array, env_state: Any) -> Observation:
        """The observation of `obs[B, N, D]` in the environments' own states."""
        env = self.venv.env
        assert isinstance(env, MultiAgentEnvironment)
        obs = as_floats(env.observation_space(), obs) if self.floats else obs
        alive = jax.vmap(env.agent_mask)(env_state)
        mask = jax.vmap(env.action_mask)(env_state) if isinstance(env.action_space(), Discrete) else None
        state = jax.vmap(partial(central_state, env))(obs, env_state) if self.needs_state else None
        return Observation(obs, state, mask, alive)


def init_runner(collector: Collector, carry: Any, key: jax.Array) -> RunnerState:
    """The start of all episodes. Consumes `key`."""
    venv = collector.venv
    _, keys = shard_keys(key, collector.num_shards)
    obs, env_state = venv.reset(keys[0])
    fresh = jnp.ones(venv.num_envs, bool)
    nothing = jnp.zeros((venv.num_envs, len(venv.teams)), jnp.float32)
    return RunnerState(env_state, obs, fresh, carry, episodes.new_running(venv.num_envs, venv.kinds), nothing)


def refresh_pool(collector: Collector, loop: RunnerState, keys: jax.Array, share: float) -> RunnerState:
    """The loop with a share of its pool of starts made anew, see `VectorEnv.refresh`.

    Args:
        collector: For B environments with `reset="pool"`.
        loop: What to go on from.
        keys: `[S / devices]`: each shard renews its own P / S starts, whichever device it is on. Consumed.
        share: How much of it.
    """
    return loop._replace(env_state=collector.venv.refresh(keys, loop.env_state, share))


def rollout(
    collector: Collector, policy: Policy, loop: RunnerState, keys: jax.Array, length: int | None = None
) -> tuple[RunnerState, Transition, dict[str, Any]]:
    """Act for T steps.

    Args:
        collector: For B environments.
        policy: Acts, and says what the views are worth.
        loop: What to go on from.
        keys: `[T, K, S / devices]`, where K is `collector.keys_per_step`. Consumed.
        length: L, after how many steps the memory is kept for training; None for T.

    Returns:
        The loop to go on from, transitions with leaves `[T, B, ...]`, and sums over the episodes that ended (see
        `episodes.ended`).
    """
    num_steps, impl = keys.shape[0], jax.random.key_impl(keys)

    def step(
        loop: RunnerState, inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[RunnerState, tuple[Transition, dict[str, Any]]]:
        bits, is_last = inputs
        key_action = jax.random.wrap_key_data(bits[0], impl=impl)
        key_env = jax.random.wrap_key_data(jnp.swapaxes(bits[1:], 0, 1).reshape(-1, bits.shape[-1]), impl=impl)
        return _step(collector, policy, loop, key_action, key_env, is_last)

    def sequence(loop: RunnerState, inputs: Any) -> tuple[RunnerState, tuple[Any, tuple[Transition, dict[str, Any]]]]:
        after, stepped = jax.lax.scan(step, loop, inputs)
        return after, (loop.carry, stepped)

    # Scanned as bits: `vmap` transposes what is scanned, and JAX's check of keys takes a transposed key for a used one.
    inputs = (jax.random.key_data(keys), np.arange(num_steps) == num_steps - 1)
    own, loop = loop.env_state, loop._replace(env_state=_with_whole_pool(loop.env_state))
    count = num_steps // length if length and jax.tree.leaves(loop.carry) else 1
    if count == 1:
        loop, (carry, stepped) = sequence(loop, inputs)
        carry = jax.tree.map(lambda leaf: leaf[None], carry)
    else:
        inputs = jax.tree.map(lambda leaf: leaf.reshape(count, -1, *leaf.shape[1:]), inputs)
        loop, (carry, stepped) = jax.lax.scan(sequence, loop, inputs)
        stepped = jax.tree.map(lambda leaf: leaf.reshape(num_steps, *leaf.shape[2:]), stepped)
    transitions, rows = stepped
    if isinstance(own, PoolState):
        loop = loop._replace(env_state=loop.env_state._replace(pool=own.pool))
    return loop, transitions._replace(carry=carry), episodes.summed(rows)


def _with_whole_pool(env_state: Any) -> Any:
    """With the starts of all devices, so that what an environment draws does not depend on where it is."""
    return env_state._replace(pool=joined(env_state.pool)) if isinstance(env_state, PoolState) else env_state


def _step(
    collector: Collector,
    policy: Policy,
    loop: RunnerState,
    key_action: jax.Array,
    key_env: jax.Array,
    is_last: jax.Array,
) -> tuple[RunnerState, tuple[Transition, dict[str, Any]]]:
    venv = collector.venv
    observation = collector.look(loop.obs, venv.env_state(loop.env_state))
    carry, distribution, value = policy(loop.carry, _one(observation), loop.reset[None])
    action, log_prob = _sample(distribution, key_action)
    obs, env_state, reward, terminated, truncated, info = venv.step(key_env, loop.env_state, action)

    def value_after() -> jax.Array:
        final = collector.final(info)
        _, _, final_value = policy(carry, _one(final), jnp.zeros_like(loop.reset)[None])
        return team_value(final_value[0], final.alive, venv.teams)

    # The value after a step is the next step's, save at a time-out and at the end: most steps are spared a second pass.
    final_value = jax.lax.cond(is_last | truncated.any(), value_after, lambda: jnp.zeros_like(value[0]))
    done = terminated | truncated
    transition = Transition(
        observation=observation,
        reset=loop.reset,
        carry=None,
        action=action,
        log_prob=log_prob,
        value=team_value(value[0], observation.agent_mask, venv.teams),
        reward=reward,
        terminated=terminated,
        cut=done,
        final_value=final_value,
    )
    running, rows = episodes.ended(loop.running, reward, done, info, venv.kinds)
    return loop._replace(env_state=env_state, obs=obs, reset=done, carry=carry, running=running), (transition, rows)


def bootstrap_values(transitions: Transition) -> jax.Array:
    """`[T, B, N]`: the value after each step within the same episode."""
    following = jnp.concatenate([transitions.value[1:], transitions.final_value[-1:]])
    return jnp.where(transitions.cut[..., None], transitions.final_value, following)


def team_value(value: jax.Array, alive: jax.Array, teams: tuple[int, ...]) -> jax.Array:
    """`value[..., N]`, that of the dead replaced by the mean of their living team-mates', or 0 if there are none.

    A team shares its reward, so what is still to come for the team is also to come for its fallen member, who sees
    nothing and could not tell. It makes a sacrifice worth what it wins.
    """
    mates = alive[..., None, :] & np.equal.outer(teams, teams)
    summed, count = jnp.where(mates, value[..., None, :], 0.0).sum(-1), mates.sum(-1)
    return jnp.where(alive, value, summed / jnp.maximum(count, 1))


def _sample(distribution: Any, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `[B, N, ...]` and their log-probabilities; each of the keys `[S]` draws for B / S environments."""

    def draw(part: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return part.sample_and_log_prob(seed=key)

    # From [1, B, ...] to [S, B / S, ...].
    agent = jax.tree.map(lambda leaf: leaf.reshape(keys.size, -1, *leaf.shape[2:]), distribution)
    drawn = jax.vmap(draw)(agent, keys)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), drawn)


def _one(observation: Observation) -> Observation:
    """The observation as one moment, T = 1."""
    return jax.tree.map(lambda leaf: leaf[None], observation)
