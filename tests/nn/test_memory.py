"""What every memory core promises: the scan is the step repeated, and a reset clears everything."""

from __future__ import annotations

from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.memory import CORES, GRU, LSTM, memory_core

T, B, D, H, W = 16, 3, 5, 8, 8


@pytest.fixture(scope="module", params=list(CORES))
def memory(request):
    """A core's compiled `apply(carry, x, reset)` with inputs; the carry is that after five steps of an episode."""
    core = memory_core(request.param, H, W)()
    x = jax.random.normal(jax.random.key(1), (T, B, D))
    reset = jax.random.bernoulli(jax.random.key(2), 0.3, (T, B)).at[0, 0].set(True).at[4:6, 1].set(True)
    carry = core.carry_of((B,))
    params = jax.jit(core.init)(jax.random.key(0), carry, x, reset)
    params = jax.tree.map(lambda p: p + 0.1, params)  # so that no bias is zero
    apply = jax.jit(lambda carry, x, reset: core.apply(params, carry, x, reset))
    carry, _ = apply(carry, jax.random.normal(jax.random.key(3), (5, B, D)), jnp.zeros((5, B), bool))
    return request.param, apply, carry, x, reset


def test_scan_equals_step_by_step(memory):
    _, apply, carry, x, reset = memory
    last, expected = apply(carry, x, reset)
    for t in range(T):
        carry, y = apply(carry, x[t : t + 1], reset[t : t + 1])
        np.testing.assert_allclose(y[0], expected[t], atol=1e-5)
    chex.assert_trees_all_close(carry, last, atol=1e-5)


def test_nothing_passes_a_reset_forward_or_backward(memory):
    name, apply, carry, x, _ = memory
    at = 3
    reset = jnp.zeros((T, B), bool).at[at].set(True)

    def after(carry, x_before):
        return apply(carry, jnp.concatenate([x_before, x[at:]]), reset)[1][at:]

    fresh = apply(memory_core(name, H, W)().carry_of((B,)), x[at:], jnp.zeros((T - at, B), bool))[1]
    np.testing.assert_allclose(after(carry, x[:at]), fresh, atol=1e-5)
    grads = jax.grad(lambda c, xs: after(c, xs).sum(), argnums=(0, 1))(carry, x[:at])
    assert all(np.all(np.asarray(g) == 0) for g in jax.tree.leaves(grads))


def test_memory_is_felt_much_later_and_not_without_one(memory):
    name, apply, carry, x, _ = memory
    reset = jnp.zeros((T, B), bool)
    changed = apply(carry, x.at[0].add(1.0), reset)[1] - apply(carry, x, reset)[1]
    assert np.any(np.asarray(changed[0]) != 0)
    assert np.any(np.asarray(changed[-1]) != 0) == (name != "none")


@pytest.mark.parametrize("name", [n for n in CORES if n != "none"])
def test_every_parameter_learns_from_the_beginning(name):
    """No part of the first gradient is zero throughout: nothing is initialised out of reach."""
    core, x = memory_core(name, H, W)(), jax.random.normal(jax.random.key(1), (4, B, D))
    given = core.carry_of((B,)), x, jnp.zeros((4, B), bool)
    params = jax.jit(core.init)(jax.random.key(0), *given)
    target = jax.random.normal(jax.random.key(2), (4, B, H))
    apply: Any = core.apply
    gradient = jax.jit(jax.grad(lambda p: jnp.vdot(apply(p, *given)[1], target)))(params)
    found = jax.tree_util.tree_leaves_with_path(gradient)
    assert [jax.tree_util.keystr(path) for path, leaf in found if np.abs(leaf).max() == 0] == []


def test_carry_keeps_its_shape_and_is_float32_for_checkpoints(memory):
    name, apply, _, x, reset = memory
    carry = memory_core(name, H, W)().carry_of((B,))
    linear = {(B, 1), (B, H * H // 4)}
    shapes = {"gtrxl": {(B, 1), (B, W, H)}, "retention": linear, "deltanet": linear}.get(name, {(B, H)})
    assert all(leaf.shape in shapes and leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(carry))
    after = jax.eval_shape(apply, carry, x, reset)[0]
    assert jax.tree.map(lambda a: (a.shape, a.dtype), after) == jax.tree.map(lambda a: (a.shape, a.dtype), carry)


T, B, D, H = 7, 3, 5, 8


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
