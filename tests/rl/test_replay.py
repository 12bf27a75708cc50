"""The replay buffer against a deque: pairs of numbered observations, wrap-around, the seam, uniform draws, costs."""

from collections import deque
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.devices import shard_keys
from jaxrl.rl.replay import Index, draw, draw_by_priority, new_replay, num_stored, prioritised, take, write

B, K, T, L = 8, 3, 4, 2  # environments, rollouts in the buffer, steps of each, steps between stored memories


def rollout(number):
    """Step t of environment b, counted from the beginning of the run, is numbered 1000 b + t."""
    step = number * T + jnp.arange(T)[:, None] + 1000 * jnp.arange(B)
    steps = {
        "obs": step,
        "picture": jnp.broadcast_to(step.astype(jnp.uint8)[..., None], (T, B, 5)),
        "done": step % 3 == 0,
    }
    return steps, (step[::L].astype(jnp.float32),)


def filled(rollouts, memory=False, by_priority=False):
    steps, carry = jax.eval_shape(rollout, 0)
    replay = new_replay(steps, carry if memory else (), K, by_priority)

    def one(replay, number):
        steps, carry = rollout(number)
        return write(replay, steps, carry if memory else ()), None

    return jax.lax.scan(one, replay, jnp.arange(rollouts))[0]


@partial(jax.jit, static_argnames="rows")
def minibatch(replay, keys, rows):
    """A minibatch of windows of three steps, `[3, R]`, and the memories before them."""
    index = jax.tree.map(lambda leaf: leaf[0], draw(replay, keys, 1, rows, 3))
    steps, carry = take(replay, index, 3)
    return steps["obs"], carry


@pytest.mark.parametrize("rollouts", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("memory", [False, True])
def test_windows_are_those_of_a_deque(rollouts, memory):
    """Consecutive steps of one environment, each window as often as any other, also once the buffer has wrapped."""
    remembered = deque(range(rollouts * T), maxlen=K * T)
    stride = L if memory else 1
    starts = [t for t in remembered if t + 2 <= remembered[-1] and (t - remembered[0]) % stride == 0]
    wanted = sorted(1000 * b + t for b in range(B) for t in starts)

    replay = filled(rollouts, memory)
    obs, carry = minibatch(replay, jax.random.split(jax.random.key(rollouts), 2), 1000)
    assert int(num_stored(replay)) == len(remembered)
    np.testing.assert_array_equal(obs[1:] - obs[:-1], 1)  # s' = s + 1
    found, counts = np.unique(obs[0], return_counts=True)
    np.testing.assert_array_equal(found, wanted)  # none across the seam or beyond the newest step, none missing
    expected, degrees = obs.shape[1] / len(wanted), max(len(wanted) - 1, 1)
    chi_square = np.sum((counts - expected) ** 2 / expected)
    assert chi_square < degrees + 4 * np.sqrt(2 * degrees)
    if memory:
        np.testing.assert_array_equal(carry[0], obs[0])


def test_observations_are_stored_once_in_their_own_dtype():
    replay = filled(5)
    for name, leaf in rollout(0)[0].items():
        assert replay.steps[name].dtype == leaf.dtype
        assert replay.steps[name].size == K * leaf.size
    steps, _ = take(replay, Index(jnp.array([3]), jnp.array([1])), 2)
    first = 3000 + 2 * T + 1  # the oldest of five rollouts is the third
    np.testing.assert_array_equal(steps["picture"][:, 0, 0], np.array([first, first + 1]).astype(np.uint8))
    np.testing.assert_array_equal(steps["done"][:, 0], [first % 3 == 0, (first + 1) % 3 == 0])


def test_shards_draw_the_same_wherever_they_are():
    """Two devices with two shards each, or one with all four: the minibatch has the same windows.

    A shard has two neighbouring environments.
    """
    replay, (_, keys) = filled(5), shard_keys(jax.random.key(0), 4)
    whole, _ = minibatch(replay, keys[0], 8)

    def part(half):
        own = jax.tree.map(lambda leaf: leaf[B // 2 * half :][: B // 2], replay)
        return minibatch(own, jax.random.clone(keys)[0, 2 * half : 2 * half + 2], 8)[0]

    halves = np.concatenate([np.asarray(part(half)) for half in (0, 1)], axis=1)
    np.testing.assert_array_equal(halves, whole)
    np.testing.assert_array_equal(np.unique(halves[0] // 1000), np.arange(B))


def judged(rollouts, memory):
    """A buffer of which half the windows have priorities, and these by their first step; others have 1 as if new."""
    replay = filled(rollouts, memory, by_priority=True)
    steps = np.arange(max(0, rollouts - K) * T, rollouts * T)
    size = {1000 * b + t: 0.5 + (b + t) % 5 if t % 4 == 0 else 1.0 for b in range(B) for t in steps}
    visited = [(b, t) for b in range(B) for t in steps if t % 4 == 0]
    index = Index(*(jnp.array(part) for part in zip(*((b, t - steps[0]) for b, t in visited), strict=True)))
    return prioritised(replay, index, jnp.array([size[1000 * b + t] for b, t in visited])), size


@pytest.mark.parametrize("rollouts", [1, 3, 4, 5])
@pytest.mark.parametrize("memory", [False, True])
def test_windows_are_drawn_in_proportion_to_their_priorities(rollouts, memory):
    """Each shard draws its own, and weights make up for half of it."""
    replay, size = judged(rollouts, memory)
    keys, rows = jax.random.split(jax.random.key(rollouts), 2), 4000
    draw_all = jax.jit(draw_by_priority, static_argnums=(2, 3, 4))
    index, weight = jax.tree.map(lambda leaf: leaf[0], draw_all(replay, keys, 1, rows, 3, 0.5))
    first = np.asarray(take(replay, index, 3)[0]["obs"][0])
    newest, oldest, stride = rollouts * T - 1, max(0, rollouts - K) * T, L if memory else 1
    allowed = [n for n in sorted(size) if n % 1000 + 2 <= newest and (n % 1000 - oldest) % stride == 0]
    for shard, (drawn, weights) in enumerate(zip(first.reshape(2, rows), weight.reshape(2, rows), strict=True)):
        own = np.array([n for n in allowed if n // 1000 // (B // 2) == shard])
        chance = np.array([size[n] for n in own])
        expected = rows * chance / chance.sum()
        found, counts = np.unique(drawn, return_counts=True)
        np.testing.assert_array_equal(found, own)
        chi_square = np.sum((counts - expected) ** 2 / expected)
        assert chi_square < len(own) + 4 * np.sqrt(2 * len(own))
        wanted = np.array([size[n] ** -0.5 for n in drawn])
        np.testing.assert_allclose(weights, wanted / wanted.mean(), rtol=1e-4)


def test_shards_draw_the_same_by_priority_wherever_they_are():
    replay, keys = judged(5, False)[0], jax.random.split(jax.random.key(0), 4)
    whole, weight = draw_by_priority(replay, keys, 2, 8, 3, 0.5)
    own = jax.tree.map(lambda leaf: leaf[B // 2 :], replay)
    half, half_weight = draw_by_priority(own, jax.random.clone(keys)[2:], 2, 8, 3, 0.5)
    np.testing.assert_array_equal(half.env + B // 2, whole.env[:, 16:])
    np.testing.assert_array_equal(half.start, whole.start[:, 16:])
    np.testing.assert_array_equal(half_weight, weight[:, 16:])


def test_new_windows_count_as_the_largest_of_their_environment_and_twins_as_the_larger():
    replay = filled(1, by_priority=True)
    twins = Index(jnp.array([0, 0, 1]), jnp.array([2, 2, 0]))
    replay = write(prioritised(replay, twins, jnp.array([5.0, 3.0, 0.0])), *rollout(1)[:1], ())
    np.testing.assert_allclose(replay.priority[0, 0], [1, 1, 5, 1], rtol=1e-5)
    np.testing.assert_allclose(replay.priority[1, 0], [0, 1, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(replay.priority[:2, 1], [[5] * T, [1] * T], rtol=1e-5)


@pytest.mark.parametrize("memory", [False, True])
def test_a_draw_costs_the_same_however_large_the_buffer_is(memory):
    """It makes random numbers for the rows of its minibatches, and touches nothing else."""
    steps, carry = jax.eval_shape(rollout, 0)
    costs = []
    for rollouts in (10, 10_000):
        replay = jax.eval_shape(lambda size=rollouts: new_replay(steps, carry if memory else (), size))
        keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 2))
        drawing = jax.jit(draw, static_argnums=(2, 3, 4)).lower(replay, keys, 8, 16, 3)
        counted = drawing.compile().cost_analysis()
        assert counted is not None
        costs.append((counted["flops"], counted["bytes accessed"]))
    np.testing.assert_allclose(costs[1], costs[0], rtol=0.01)


@pytest.mark.parametrize("members", [1, 3])
def test_updates_copy_no_buffer(members):
    """A loop over updates that write and read needs less than a tenth of the buffer's memory besides it."""
    steps = {"obs": jnp.ones((8, 16, 30)), "act": jnp.ones((8, 16), jnp.int32)}
    replay = jax.eval_shape(lambda: new_replay(steps, (), 100))
    key = jax.random.key(0)

    def update(replay, key):
        replay = write(replay, steps, ())
        index = draw(replay, key[None], 5, 32, 3)
        read = lambda total, at: (total + take(replay, at, 3)[0]["obs"].sum(), None)  # noqa: E731
        return replay, jax.lax.scan(read, 0.0, index)[0]

    def updates(replay, keys):
        return jax.lax.scan(update, replay, keys)

    keys = jax.eval_shape(lambda: jax.random.split(key, 10))
    if members > 1:
        updates = jax.vmap(updates)
        replay, keys = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((members, *leaf.shape), leaf.dtype), (replay, keys)
        )
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        used = jax.jit(updates, donate_argnums=0).lower(replay, keys).compile().memory_analysis()
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(replay))
    assert used is not None
    assert used.temp_size_in_bytes < 0.1 * size
