"""Cutting rollouts into sequences and minibatches."""

import jax
import numpy as np
import pytest

from jaxrl.rl.minibatch import shuffled_indices, take_rows, to_sequences

T, B = 6, 4
LABELS = np.arange(T)[:, None] * 10 + np.arange(B)  # step * 10 + environment


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_a_row_is_a_run_of_steps_of_one_environment(length):
    rows = np.asarray(to_sequences(LABELS, length))
    assert rows.shape == (length, B * T // length)
    np.testing.assert_array_equal(np.diff(rows, axis=0), 10)  # consecutive steps, same environment
    np.testing.assert_array_equal(np.sort(rows.ravel()), np.sort(LABELS.ravel()))  # nothing lost, nothing twice


def test_minibatches_are_a_partition_and_shuffle():
    index = shuffled_indices(jax.random.key(0), 12, 3)
    assert index.shape == (3, 4)
    np.testing.assert_array_equal(np.sort(np.ravel(index)), np.arange(12))
    assert not np.array_equal(np.ravel(index), np.arange(12))
    rows = take_rows({"x": np.arange(24).reshape(2, 12)}, index[0], axis=1)["x"]
    np.testing.assert_array_equal(rows[1], np.asarray(index[0]) + 12)
