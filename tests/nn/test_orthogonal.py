"""Orthogonal initial weights."""

import jax
import numpy as np
import pytest

from jaxrl.nn.orthogonal import orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (75, 64), (64, 9), (5, 40), (3, 3, 4, 16)])
def test_the_fewer_of_rows_and_columns_are_orthonormal_times_the_scale(shape):
    matrix = np.asarray(orthogonal(2.0)(jax.random.key(0), shape)).reshape(-1, shape[-1]) / 2.0
    product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)


def test_all_orthogonal_matrices_are_equally_likely():
    """The mean of every entry of a uniformly random orthogonal matrix is 0, of its square 1 / n."""
    matrices = np.asarray(jax.vmap(lambda key: orthogonal()(key, (4, 4)))(jax.random.split(jax.random.key(1), 4000)))
    np.testing.assert_allclose(matrices.mean(0), 0.0, atol=4 * 0.5 / np.sqrt(4000))
    np.testing.assert_allclose(np.square(matrices).mean(0), 0.25, atol=0.02)


def test_no_lapack_is_called():
    """Batched calls of LAPACK can wait for each other for ever."""
    program = jax.jit(jax.vmap(lambda key: orthogonal()(key, (8, 8)))).lower(jax.random.split(jax.random.key(0), 3))
    assert "custom_call" not in program.as_text()
