"""GRU and LSTM are the well-known ones."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.recurrent import GRU, LSTM

T, B, D, H = 7, 3, 5, 4


def gru_cell(p):
    """The parameters of ours as flax wants them: each gate has matrices of its own."""
    kernels, biases = np.split(p["input"]["kernel"], 3, 1), np.split(p["input"]["bias"], 3)
    recurrent = np.split(p["recurrent"], 3, 1)
    cell = {f"i{g}": {"kernel": k, "bias": b} for g, k, b in zip("rzn", kernels, biases, strict=True)}
    cell |= {f"h{g}": {"kernel": k} for g, k in zip("rzn", recurrent, strict=True)}
    cell["hn"]["bias"] = p["recurrent_bias"]
    return nn.GRUCell(H), cell


def lstm_cell(p):
    kernels, biases = np.split(p["input"]["kernel"], 4, 1), np.split(p["input"]["bias"], 4)
    recurrent = np.split(p["recurrent"], 4, 1)
    cell = {f"i{g}": {"kernel": k} for g, k in zip("ifgo", kernels, strict=True)}
    cell |= {f"h{g}": {"kernel": k, "bias": b} for g, k, b in zip("ifgo", recurrent, biases, strict=True)}
    return nn.LSTMCell(H), cell


@pytest.mark.parametrize(("core", "theirs"), [(GRU(H), gru_cell), (LSTM(H), lstm_cell)], ids=["gru", "lstm"])
def test_equals_flax_cell(core, theirs):
    carry = jax.tree.map(lambda leaf: leaf + jnp.linspace(-1.0, 1.0, H), core.carry_of((B,)))
    x = jax.random.normal(jax.random.key(1), (T, B, D))
    reset = jnp.zeros((T, B), bool)
    params = jax.tree.map(lambda p: p + 0.1, jax.jit(core.init)(jax.random.key(0), carry, x, reset))
    _, y = core.apply(params, carry, x, reset)
    cell, cell_params = theirs(params["params"])
    for t in range(T):
        carry, expected = cell.apply({"params": cell_params}, carry, x[t])
        np.testing.assert_allclose(y[t], expected, atol=1e-6)
