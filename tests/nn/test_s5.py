"""S5 against its definition: a dense state-space model discretised by a matrix exponential."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxrl.nn.s5 import S5, associative_recurrence, hippo, sequential_recurrence

T, B, P = 256, 2, 3


def test_hippo_diagonalises_the_normal_part_of_the_legs_matrix():
    n = 8
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            matrix[i, j] = -(i + 1) if i == j else -np.sqrt((2 * i + 1) * (2 * j + 1))
    low_rank = np.sqrt(np.arange(n) + 0.5)
    normal = matrix + np.outer(low_rank, low_rank)
    rotation, vectors = hippo(n)
    assert np.all(rotation > 0)
    np.testing.assert_allclose(normal @ vectors, vectors * (-0.5 + 1j * rotation), atol=1e-5)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(n // 2), atol=1e-6)


@pytest.mark.quick
@pytest.mark.parametrize("recurrence", [sequential_recurrence, associative_recurrence])
def test_both_recurrences_equal_a_plain_loop_with_random_resets(recurrence):
    rng = np.random.default_rng(0)
    factor = (0.99 * np.exp(1j * rng.uniform(0, 1, P))).astype(np.complex64)
    drive = (rng.normal(size=(T, B, P)) + 1j * rng.normal(size=(T, B, P))).astype(np.complex64)
    state = np.ones((B, P), np.complex64)
    reset = rng.random((T, B)) < 0.05
    reset[0, 0] = reset[100, 1] = reset[101, 1] = True  # at the start, and twice in a row
    actual = jax.jit(recurrence)(factor, drive, reset, state)
    for t in range(T):
        state = factor * np.where(reset[t, :, None], 0, state) + drive[t]
        np.testing.assert_allclose(actual[t], state, atol=1e-4)
    late = np.s_[101:, 1]
    grad = jax.jit(jax.grad(lambda d: jnp.abs(recurrence(factor, d, reset, state)[late]).sum()))(drive)
    assert np.all(np.asarray(grad)[:101] == 0)
    assert np.all(np.asarray(grad)[101, 1] != 0)


def test_a_layer_equals_the_discretised_state_space_model():
    """The whole layer again in NumPy: real matrices of size H, the matrix exponential, no eigenvalues anywhere."""
    features, steps = 4, 5
    core = S5(features, num_layers=1)
    x = jax.random.normal(jax.random.key(1), (steps, 1, features))
    params: Any = jax.jit(core.init)(jax.random.key(0), core.carry_of((1,)), x, jnp.zeros((steps, 1), bool))["params"]
    layer = params["layer_0"]
    layer["log_step"] = jnp.full_like(layer["log_step"], np.log(0.3))  # one step size, so that one matrix will do
    params["input"]["kernel"] = jnp.eye(features)
    y: Any = core.apply({"params": params}, core.carry_of((1,)), x, jnp.zeros((steps, 1), bool))
    actual = y[1][:, 0]

    _, vectors = hippo(features)
    p = jax.tree.map(np.asarray, layer)
    drive, read = p["drive"]["kernel"], p["read"]["kernel"]
    both = np.concatenate([vectors, vectors.conj()], 1)
    eigenvalues = -np.exp(p["log_decay"]) + 1j * p["rotation"]
    a = np.real(both @ np.diag(np.concatenate([eigenvalues, eigenvalues.conj()])) @ both.conj().T)
    b = 2 * (vectors @ (drive[:, :2] + 1j * drive[:, 2:]).T).real
    c = np.real((read[:2] - 1j * read[2:]).T @ vectors.conj().T)
    a_step = scipy.linalg.expm(0.3 * a)
    b_step = np.linalg.solve(a, a_step - np.eye(features)) @ b

    h = np.zeros(features)
    for t in range(steps):
        x_t = np.asarray(x[t, 0])
        u = (x_t - x_t.mean()) / np.sqrt(x_t.var() + 1e-6)
        h = a_step @ h + b_step @ u
        y = np.asarray(jax.nn.gelu(c @ h + p["skip"] * u))
        out, gate = np.split(y @ p["gate"]["kernel"] + p["gate"]["bias"], 2)
        np.testing.assert_allclose(actual[t], x_t + out / (1 + np.exp(-gate)), atol=1e-4)


def test_odd_sizes_are_refused_with_a_size_that_works():
    with pytest.raises(ValueError, match="even number of features, got 5; use 6"):
        S5(5).carry_of((1,))
