"""Memory cores: the scan is the step repeated, a reset clears everything, and the GRU is the well-known one."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.memory import CORES, GRU, initial_carry

T, B, D, H = 7, 3, 5, 4


@pytest.fixture(scope="module")
def gru():
    core = GRU(H)
    x = jax.random.normal(jax.random.key(1), (T, B, D))
    reset = jax.random.bernoulli(jax.random.key(2), 0.3, (T, B))
    carry = jax.random.normal(jax.random.key(3), (B, H))
    params = core.init(jax.random.key(0), carry, x, reset)
    params = jax.tree.map(lambda p: p + 0.1, params)  # so that no bias is zero
    return core, params, carry, x, reset


def test_scan_equals_step_by_step(gru):
    core, params, carry, x, reset = gru
    _, expected = core.apply(params, carry, x, reset)
    for t in range(T):
        carry, y = core.apply(params, carry, x[t : t + 1], reset[t : t + 1])
        np.testing.assert_allclose(y[0], expected[t], atol=1e-6)


def test_equals_flax_gru_cell(gru):
    core, params, carry, x, _ = gru
    p = params["params"]
    kernels, biases = np.split(p["input"]["dense"]["kernel"], 3, 1), np.split(p["input"]["dense"]["bias"], 3)
    recurrent = np.split(p["recurrent"], 3, 1)
    cell = {f"i{g}": {"kernel": k, "bias": b} for g, k, b in zip("rzn", kernels, biases, strict=True)}
    cell |= {f"h{g}": {"kernel": k} for g, k in zip("rzn", recurrent, strict=True)}
    cell["hn"]["bias"] = p["recurrent_bias"]
    _, y = core.apply(params, carry, x, jnp.zeros((T, B), bool))
    for t in range(T):
        carry, expected = nn.GRUCell(H).apply({"params": cell}, carry, x[t])
        np.testing.assert_allclose(y[t], expected, atol=1e-6)


def test_nothing_passes_a_reset_forward_or_backward(gru):
    core, params, carry, x, _ = gru
    at = 3
    reset = jnp.zeros((T, B), bool).at[at].set(True)

    def after(carry, x_before):
        _, y = core.apply(params, carry, jnp.concatenate([x_before, x[at:]]), reset)
        return y[at:]

    expected = core.apply(params, jnp.zeros((B, H)), x[at:], jnp.zeros((T - at, B), bool))[1]
    np.testing.assert_allclose(after(carry, x[:at]), expected, atol=1e-6)
    grads = jax.grad(lambda c, xs: after(c, xs).sum(), argnums=(0, 1))(carry, x[:at])
    assert all(np.all(np.asarray(g) == 0) for g in grads)


@pytest.mark.parametrize("memory", list(CORES))
def test_every_core_keeps_the_shape_of_its_carry(memory):
    carry = initial_carry(memory, H, (B,))
    core = CORES[memory](H)
    x, reset = jnp.ones((2, B, H)), jnp.zeros((2, B), bool)
    (new_carry, y), _ = core.init_with_output(jax.random.key(0), carry, x, reset)
    assert y.shape == (2, B, H)
    assert jax.tree.map(jnp.shape, new_carry) == jax.tree.map(jnp.shape, carry)
