"""GTrXL beside a slow version of it, which looks up earlier steps one by one."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.gtrxl import HEADS, GTrXL

T, B, D, H, W = 12, 3, 5, 8, 4


def trained_like(core: GTrXL) -> Any:
    """Parameters of which none is at the value it begins with."""
    x, reset = jnp.zeros((1, B, D)), jnp.zeros((1, B), bool)
    params = jax.jit(core.init)(jax.random.key(0), core.carry_of((B,)), x, reset)
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    return tree.unflatten([p + 0.3 * jax.random.normal(key, p.shape) for p, key in zip(leaves, keys, strict=True)])


def norm(x: np.ndarray, params: Any) -> np.ndarray:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-6) * params["scale"] + params["bias"]


def dense(x: np.ndarray, params: Any) -> np.ndarray:
    return x @ params["kernel"] + params.get("bias", 0.0)


def gate(x: np.ndarray, y: np.ndarray, params: Any) -> np.ndarray:
    added, stream = np.split(dense(y, params["added"]), 3), np.split(dense(x, params["stream"]), 2)
    reset = 1 / (1 + np.exp(-added[0] - stream[0]))
    update = 1 / (1 + np.exp(-added[1] - stream[1] + params["keep_bias"]))
    new = np.tanh(added[2] + dense(reset * x, params["kept"]))
    return (1 - update) * x + update * new


def attention(query: np.ndarray, earlier: list[tuple[np.ndarray, np.ndarray]], bias: np.ndarray) -> np.ndarray:
    """What a step finds among the `earlier` ones, the latest of which is itself: keys and values `[H]`."""
    heads = []
    for q, head in zip(np.split(query, HEADS), range(HEADS), strict=True):
        near = earlier[-(W + 1) :]
        size = len(q)
        own = slice(head * size, (head + 1) * size)
        logits = [q @ key[own] / np.sqrt(size) + bias[head, len(near) - 1 - i] for i, (key, _) in enumerate(near)]
        share = np.exp(logits) / np.exp(logits).sum()
        heads.append(sum(s * value[own] for s, (_, value) in zip(share, near, strict=True)))
    return np.concatenate(heads)


def slow(params: Any, x: np.ndarray, reset: np.ndarray) -> np.ndarray:
    """The outputs of one environment that starts afresh: `x[T, D]`, `reset[T]` to `[T, H]`."""
    layers = [params[f"layer_{i}"] for i in range(2)]
    earlier: list[list[tuple[np.ndarray, np.ndarray]]] = [[], []]
    outputs = []
    for t in range(len(x)):
        h = dense(x[t], params["input"])
        if reset[t]:
            earlier = [[], []]
        for layer, seen in zip(layers, earlier, strict=True):
            query, key, value = np.split(dense(norm(h, layer["attention_norm"]), layer["attention_input"]), 3)
            seen.append((key, value))
            found = dense(attention(query, seen, 16 * layer["distance_bias"]), layer["attention_output"])
            h = gate(h, np.maximum(found, 0), layer["attention_gate"])
            thought = np.maximum(dense(norm(h, layer["thought_norm"]), layer["thought_input"]), 0)
            h = gate(h, np.maximum(dense(thought, layer["thought_output"]), 0), layer["thought_gate"])
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize("cuts", [(), (5,), (3, 7, 8)])  # where the steps are cut into sequences
def test_equals_a_version_that_looks_up_earlier_steps_one_by_one(cuts):
    core = GTrXL(H, W)
    params = trained_like(core)
    x = jax.random.normal(jax.random.key(2), (T, B, D))
    reset = jnp.zeros((T, B), bool).at[6, 0].set(True).at[jnp.array([1, 2, 9]), 1].set(True)
    apply, carry, found = jax.jit(core.apply), core.carry_of((B,)), []
    for first, last in zip((0, *cuts), (*cuts, T), strict=True):
        carry, y = apply(params, carry, x[first:last], reset[first:last])
        found.append(y)
    plain = jax.tree.map(np.asarray, params["params"])
    expected = np.stack([slow(plain, np.asarray(x[:, b]), np.asarray(reset[:, b])) for b in range(B)], axis=1)
    np.testing.assert_allclose(np.concatenate(found), expected, atol=2e-5)


def test_each_layer_looks_back_as_far_as_the_window():
    x, reset = jax.random.normal(jax.random.key(2), (T, B, D)), jnp.zeros((T, B), bool)
    for layers in (1, 2):
        core = GTrXL(H, W, layers)
        params, carry = trained_like(core), core.carry_of((B,))
        after = jax.jit(core.apply)
        changed = after(params, carry, x.at[0].add(1.0), reset)[1] - after(params, carry, x, reset)[1]
        felt = np.flatnonzero(np.abs(np.asarray(changed)).max(axis=(1, 2)) > 1e-6)
        assert felt.tolist() == list(range(layers * W + 1))


def test_batch_axes_stay_apart_and_carries_know_how_much_they_hold():
    core = GTrXL(H, W)
    params = trained_like(core)
    x, reset = jax.random.normal(jax.random.key(2), (3, B, 2, D)), jnp.zeros((3, B, 2), bool).at[2, 0].set(True)
    apply = jax.jit(core.apply)
    carry, y = apply(params, core.carry_of((B, 2)), x, reset)
    assert carry.length[..., 0].tolist() == [[1, 1], [3, 3], [3, 3]]
    flat, rows = apply(params, core.carry_of((2 * B,)), x.reshape(3, -1, D), reset.reshape(3, -1))
    chex.assert_trees_all_close(jax.tree.map(lambda leaf: leaf.reshape(2 * B, *leaf.shape[2:]), carry), flat, atol=1e-6)
    np.testing.assert_allclose(y.reshape(rows.shape), rows, atol=1e-6)
    assert apply(params, carry, x, jnp.zeros_like(reset))[0].length[..., 0].tolist() == [[W, W]] * B
