"""Sparse initial weights."""

import jax
import numpy as np
import pytest

from jaxrl.nn.sparse import sparse_kernels, sparse_uniform


@pytest.mark.parametrize(
    ("shape", "sparsity", "kept"),
    [
        ((64, 5), 0.9, 6),  # 57.6 zeros are 58
        ((70, 5), 0.9, 7),  # 63 zeros are 63, though 0.9 * 70 > 63
        ((3, 3, 4, 5), 0.9, 3),  # 36 inputs for each channel of a convolution
        ((4, 5), 0.9, 1),  # none would remain
        ((8, 5), 0.0, 8),
    ],
)
def test_each_feature_keeps_few_inputs(shape, sparsity, kept):
    kernel = np.asarray(sparse_uniform(jax.random.key(0), shape, sparsity)).reshape(-1, shape[-1])
    np.testing.assert_array_equal((kernel != 0).sum(0), kept)
    assert np.abs(kernel).max() <= 1 / np.sqrt(len(kernel))


def test_which_inputs_they_are_and_their_weights_are_uniform():
    kernel = np.asarray(sparse_uniform(jax.random.key(0), (10, 20_000), 0.8))
    np.testing.assert_allclose((kernel != 0).mean(1), 0.2, atol=0.02)
    weights = kernel[kernel != 0] * np.sqrt(10)
    np.testing.assert_allclose(np.quantile(weights, [0.25, 0.5, 0.75]), [-0.5, 0.0, 0.5], atol=0.02)


def test_only_kernels_are_drawn_and_each_by_itself():
    ones = {"a": {"kernel": np.ones((8, 8)), "bias": np.ones(8)}, "b": {"kernel": np.ones((8, 8))}}
    drawn = sparse_kernels(jax.random.key(0), ones, 0.5)
    np.testing.assert_array_equal(drawn["a"]["bias"], 1.0)
    assert np.any(drawn["a"]["kernel"] != drawn["b"]["kernel"])
