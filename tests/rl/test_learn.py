"""Cutting rollouts into sequences and minibatches, and moving target networks."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxrl.rl.learn import in_parts, shuffled_indices, take_rows, to_sequences, update_target

T, B = 6, 4
LABELS = np.arange(T)[:, None] * 10 + np.arange(B)  # step * 10 + environment


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_a_row_is_a_run_of_steps_of_one_environment(length):
    rows = np.asarray(to_sequences(LABELS, length))
    assert rows.shape == (length, B * T // length)
    np.testing.assert_array_equal(np.diff(rows, axis=0), 10)  # consecutive steps, same environment
    np.testing.assert_array_equal(np.sort(rows.ravel()), np.sort(LABELS.ravel()))  # nothing lost, nothing twice


def test_parts_are_neighbouring_sequences():
    parts = np.asarray(in_parts(LABELS, 2))
    np.testing.assert_array_equal(parts, [LABELS[:, :2], LABELS[:, 2:]])


def test_minibatches_are_a_partition_and_shuffle():
    index = shuffled_indices(jax.random.split(jax.random.key(0), (12, 1)), 4, 3)
    assert index.shape == (3, 4)
    np.testing.assert_array_equal(np.sort(np.ravel(index)), np.arange(12))
    assert not np.array_equal(np.ravel(index), np.arange(12))
    rows = take_rows({"x": np.arange(24).reshape(2, 12)}, index[0], axis=1)["x"]
    np.testing.assert_array_equal(rows[1], np.asarray(index[0]) + 12)


def test_every_shard_gives_equally_many_rows_to_each_minibatch_and_alone_gives_the_same_ones():

    def keys():
        return jax.random.split(jax.random.key(0), (chunks * envs // 2, 2))

    chunks, envs = 3, 8
    index = np.asarray(shuffled_indices(keys(), envs, 4))
    np.testing.assert_array_equal(np.sort(np.ravel(index)), np.arange(chunks * envs))
    shard = index % envs // (envs // 2)
    np.testing.assert_array_equal((shard == 1).sum(1), chunks)  # half of each minibatch's six rows
    alone = np.asarray(shuffled_indices(keys()[:, 1:], envs // 2, 4))
    chunk, env = np.divmod(alone, envs // 2)
    for minibatch in range(4):
        expected = index[minibatch][shard[minibatch] == 1]
        np.testing.assert_array_equal(chunk[minibatch] * envs + envs // 2 + env[minibatch], expected)


@pytest.mark.parametrize(("tau", "interval", "moves"), [(0.1, 1, 7), (0.3, 2, 3), (1.0, 4, 1), (1.0, 8, 0)])
def test_a_target_moves_when_it_is_due(tau, interval, moves):
    """After k moves towards parameters that rest, the share (1 - tau)^k of the distance is left."""
    target = {"kernel": np.ones(2, np.float32)}
    for step in range(1, 8):
        target = update_target({"kernel": np.zeros(2, np.float32)}, target, tau, step, interval)
    np.testing.assert_allclose(target["kernel"], (1 - tau) ** moves, atol=1e-6)
