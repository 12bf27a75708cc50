"""A replay buffer: the latest steps of B environments, as arrays in the train state.

Every leaf begins with the axis of environments, so a buffer spreads over devices as the environments do. Each rollout
is written over the oldest. Each observation is stored once, in its own dtype, since the next observation is that of the
next step: steps are read in windows of consecutive steps, which never cross from the newest rollout to the oldest. The
newest step, which has no successor yet, is only ever the end of a window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Index", "Replay", "draw", "draw_by_priority", "new_replay", "num_stored", "prioritised", "take", "write"]


class Replay(NamedTuple):
    """The latest K rollouts of T steps. All leaves are `[B, ...]`."""

    steps: Any  # leaves [B, K, T, ...]
    carry: Any  # leaves [B, K, T / L, ...]: memory before every L-th step; () without memory
    rollouts: jax.Array  # [B] int32: rollouts written so far, the same number for all
    priority: Any = ()  # float32 [B, K, T / L] of the windows that begin there; () where all are drawn alike


class Index(NamedTuple):
    """R windows."""

    env: jax.Array  # [R] int32
    start: jax.Array  # [R] int32: the first step, counted from the oldest


def new_replay(steps: Any, carry: Any, num_rollouts: int, by_priority: bool = False) -> Replay:
    """An empty buffer.

    Args:
        steps: Shapes of a rollout, leaves `[T, B, ...]`.
        carry: Shapes of its stored memories, leaves `[T / L, B, ...]`; () without memory.
        num_rollouts: K.
        by_priority: Keep priorities, for `draw_by_priority`.
    """

    def empty(leaf: Any) -> jax.Array:
        num_steps, num_envs, *shape = leaf.shape
        return jnp.zeros((num_envs, num_rollouts, num_steps, *shape), leaf.dtype)

    num_envs = jax.tree.leaves(steps)[0].shape[1]
    replay = Replay(jax.tree.map(empty, steps), jax.tree.map(empty, carry), jnp.zeros(num_envs, jnp.int32))
    starts = (num_envs, num_rollouts, _sizes(replay)[1] // _stride(replay))
    return replay._replace(priority=jnp.zeros(starts, jnp.float32)) if by_priority else replay


def write(replay: Replay, steps: Any, carry: Any) -> Replay:
    """The buffer with a rollout, leaves `[T, B, ...]` and `[T / L, B, ...]`, in the place of the oldest."""
    place = replay.rollouts[0] % _sizes(replay)[0]

    def put(leaf: jax.Array, rollout: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_index_in_dim(leaf, rollout.swapaxes(0, 1), place, axis=1)

    def first(priority: jax.Array) -> jax.Array:
        # New windows count as much as any other of their environment, so that they are soon learned from.
        most = priority.max(axis=(1, 2))
        return jnp.broadcast_to(jnp.where(most > 0, most, 1.0), (priority.shape[2], most.size))

    new = (steps, carry, jax.tree.map(first, replay.priority))
    steps, carry, priority = jax.tree.map(put, (replay.steps, replay.carry, replay.priority), new)
    return Replay(steps, carry, replay.rollouts + 1, priority)


def num_stored(replay: Replay) -> jax.Array:
    """The steps of each environment that the buffer holds, int32."""
    num_rollouts, num_steps = _sizes(replay)
    return jnp.minimum(replay.rollouts[0], num_rollouts) * num_steps


def draw(replay: Replay, keys: jax.Array, num_draws: int, rows: int, window: int) -> Index:
    """Windows for G minibatches, drawn uniformly and independently: leaves `[G, R]`.

    Each of S shards draws `rows` windows of its own B / S environments for each minibatch, R = S `rows` in all. So a
    device with only some of the shards draws its part of exactly the same minibatches. With memory, windows begin where
    a memory is stored.

    Args:
        replay: The buffer; it must hold at least `window` steps.
        keys: `[S]`. Consumed.
        num_draws: G.
        rows: The windows of each shard in a minibatch.
        window: W, the steps of a window.
    """
    shards, envs, stride = keys.size, replay.rollouts.shape[0] // keys.size, _stride(replay)
    starts = jnp.maximum((num_stored(replay) - window) // stride + 1, 1)

    def of_shard(key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (num_draws, rows), 0, envs * starts, jnp.int32)

    drawn = jax.vmap(of_shard, out_axes=1)(keys)
    env = drawn // starts + envs * jnp.arange(shards, dtype=jnp.int32)[:, None]
    return Index(env.reshape(num_draws, -1), (drawn % starts * stride).reshape(num_draws, -1))


def draw_by_priority(
    replay: Replay, keys: jax.Array, num_draws: int, rows: int, window: int, correction: Any
) -> tuple[Index, jax.Array]:
    """`draw`, where a shard draws its windows with probabilities P in proportion to their `priority` (Schaul et al.
    2016, https://arxiv.org/abs/1511.05952), and the weights of the rows in a mean: float32 `[G, R]`.

    Weights are P to the power of -`correction`, divided by their mean over a shard's rows. All minibatches are drawn
    with the priorities of this moment.
    """
    shards, envs, (num_rollouts, starts) = keys.size, len(replay.rollouts) // keys.size, replay.priority.shape[1:]

    # Windows that would run beyond the newest step have no mass.
    allowed = jnp.maximum((num_stored(replay) - window) // _stride(replay) + 1, 1)
    age = (np.arange(num_rollouts * starts) - _oldest(replay) * starts) % (num_rollouts * starts)
    mass = jnp.where((age < allowed).reshape(num_rollouts, starts), replay.priority, 0.0)

    # First a rollout, then a window in it: sums over each rollout take far less time than one over the buffer.
    def of_shard(key: jax.Array, mass: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = mass.sum(axis=1)
        below = jnp.cumsum(each)
        point = jax.random.uniform(key, (num_draws, rows)) * below[-1]
        rollout = jnp.searchsorted(below, point)  # the first to reach the point, which has a mass
        parts = jnp.cumsum(mass[rollout], axis=-1)
        rest = jnp.minimum(point - (below - each)[rollout], parts[..., -1])  # rounded, it may lie beyond
        place = jnp.argmax(parts >= rest[..., None], axis=-1)
        weight = mass[rollout, place] ** -correction
        return rollout * starts + place, weight / weight.mean(axis=1, keepdims=True)

    place, weight = jax.vmap(of_shard, out_axes=1)(keys, mass.reshape(shards, envs * num_rollouts, starts))
    env = place // (num_rollouts * starts) + envs * jnp.arange(shards, dtype=jnp.int32)[:, None]
    index = Index(env, age[place % (num_rollouts * starts)] * _stride(replay))
    return jax.tree.map(lambda leaf: leaf.reshape(num_draws, -1), (index, weight))


def prioritised(replay: Replay, index: Index, priority: jax.Array) -> Replay:
    """The buffer, in which the windows `index` have new priorities, at least 0; both of any shape."""
    stride, flat = _stride(replay), replay.priority.reshape(len(replay.rollouts), -1)
    at = index.env, (index.start // stride + _oldest(replay) * replay.priority.shape[2]) % flat.shape[1]
    # A window that was drawn twice has the larger one, whichever is written last.
    flat = flat.at[at].set(0.0).at[at].max(priority)
    return replay._replace(priority=flat.reshape(replay.priority.shape))


def take(replay: Replay, index: Index, window: int) -> tuple[Any, Any]:
    """The steps of R windows, leaves `[W, R, ...]`, and the memory before their first steps, leaves `[R, ...]`.

    Args:
        replay: The buffer.
        index: Which windows, leaves `[R]`.
        window: W.
    """
    num_rollouts, num_steps = _sizes(replay)
    rows = (_oldest(replay) * num_steps + index.start + jnp.arange(window, dtype=jnp.int32)[:, None]) % (
        num_rollouts * num_steps
    )

    def read(leaf: jax.Array, rows: jax.Array) -> jax.Array:
        flat = leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:])
        return flat.at[index.env, rows].get(mode="promise_in_bounds")

    steps = jax.tree.map(lambda leaf: read(leaf, rows), replay.steps)
    return steps, jax.tree.map(lambda leaf: read(leaf, rows[0] // _stride(replay)), replay.carry)


def _sizes(replay: Replay) -> tuple[int, int]:
    """K and T."""
    return jax.tree.leaves(replay.steps)[0].shape[1:3]


def _oldest(replay: Replay) -> jax.Array:
    """The place of the oldest rollout."""
    num_rollouts = _sizes(replay)[0]
    return jnp.where(replay.rollouts[0] > num_rollouts, replay.rollouts[0] % num_rollouts, 0)


def _stride(replay: Replay) -> int:
    """L, the steps between stored memories; 1 without memory."""
    carry = jax.tree.leaves(replay.carry)
    return _sizes(replay)[1] // carry[0].shape[2] if carry else 1
