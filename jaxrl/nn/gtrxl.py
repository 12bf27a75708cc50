"""Gated Transformer-XL, a memory that attends to earlier steps (Parisotto et al. 2020,
https://arxiv.org/abs/1910.06764). `jaxrl.nn.memory` describes the interface.

The carry has the keys and values of the last W steps, rather than the inputs that they were computed from: acting then
costs one step's work. They are those of the parameters that acted, and gradients end where a sequence begins.
"""

from __future__ import annotations

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn.layers import Dense, on_rows, weights

__all__ = ["HEADS", "GTrXL", "Past"]

HEADS = 4
"""The heads of a layer's attention."""
_SHARPNESS = 16.0
"""How much faster the biases of distances learn than other parameters. To look at one step of many takes a bias of
several units, for which the steps of an optimiser are too small (`baselines/history.md`)."""


class Past(NamedTuple):
    """What is known of the last W steps, the oldest first."""

    length: jax.Array  # float32 [..., 1]: how many of them, the latest ones, belong to this episode
    keys: tuple[jax.Array, ...]  # [..., W, H], one for each layer
    values: tuple[jax.Array, ...]  # the same


class GTrXL(nn.Module):
    """A stack of transformer layers with gates instead of residual connections; 4 divides H = `features`.

    Each layer attends to the last W = `window` steps and its own, so two layers look back twice as far. Positions are a
    learned bias for each distance and head (Raffel et al. 2020, https://arxiv.org/abs/1910.10683).
    """

    features: int
    window: int = 64
    num_layers: int = 2

    @nn.compact
    def __call__(self, carry: Past, x: jax.Array, reset: jax.Array) -> tuple[Past, jax.Array]:
        lead = x.shape[:-1]
        x = Dense(self.features, kernel_init=nn.initializers.lecun_normal(), name="input")(x)
        x, reset = x.reshape(lead[0], -1, self.features).swapaxes(0, 1), reset.reshape(lead[0], -1).T
        past = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(lead) - 1 :]), carry)

        # Steps attend to those with the number of the same episode; 0 is the one that the carry comes from.
        now = jnp.cumsum(reset, axis=1, dtype=jnp.int32)  # [R, T]
        known = past.length >= np.arange(self.window, 0, -1, dtype=np.float32)  # [R, W]
        episode = jnp.concatenate([jnp.where(known, 0, -1).astype(jnp.int32), now], axis=1)  # [R, W + T]
        distance = self.window + np.arange(lead[0])[:, None] - np.arange(episode.shape[1])  # [T, W + T], in steps
        near = (distance >= 0) & (distance <= self.window)
        seen = (episode[:, None] == now[..., None]) & near  # [R, T, W + T]

        keys, values = [], []
        for i, (k, v) in enumerate(zip(past.keys, past.values, strict=True)):
            x, k, v = _Layer(self.features, name=f"layer_{i}")(x, k, v, seen)
            keys.append(k)
            values.append(v)
        last = _latest(seen[:, -1], self.window)  # [R, W], which of the latest steps the last one attends to
        length = last.sum(axis=1, keepdims=True, dtype=jnp.float32)
        kept = jax.tree.map(
            lambda leaf: jnp.where(last[..., None], _latest(leaf, self.window), 0.0), (tuple(keys), tuple(values))
        )
        after = jax.tree.map(lambda leaf: leaf.reshape(*lead[1:], *leaf.shape[1:]), Past(length, *kept))
        return after, x.swapaxes(0, 1).reshape(*lead, self.features)

    @nn.nowrap
    def carry_of(self, batch_shape: tuple[int, ...]) -> Past:
        """No steps: zeros, with the axes `batch_shape` in front."""
        rows = (jnp.zeros((*batch_shape, self.window, self.features), jnp.float32),) * self.num_layers
        return Past(jnp.zeros((*batch_shape, 1), jnp.float32), rows, rows)


class _Layer(nn.Module):
    """Attend, then think about each step by itself: `(x[R, T, H], …) -> (x, keys, values)` of R rows.

    Both parts normalise their input, and a gate adds what they find. Keys and values are those of all W + T steps.
    """

    features: int

    @nn.compact
    def __call__(
        self, x: jax.Array, past_keys: jax.Array, past_values: jax.Array, seen: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        size, init = self.features, nn.initializers.lecun_normal()
        u = on_rows(nn.LayerNorm(name="attention_norm"), x)
        projected = Dense(3 * size, kernel_init=init, use_bias=False, name="attention_input")(u)
        query, key, value = jnp.split(projected, 3, axis=-1)
        keys = jnp.concatenate([past_keys, key], axis=1)  # [R, W + T, H]
        values = jnp.concatenate([past_values, value], axis=1)
        bias = weights(self, "distance_bias", nn.initializers.zeros_init(), (HEADS, past_keys.shape[1] + 1))
        found = _attend(query, keys, values, _by_distance(_SHARPNESS * bias, x.shape[1]), seen)
        y = Dense(size, kernel_init=init, name="attention_output")(found)
        x = _Gate(size, name="attention_gate")(x, nn.relu(y))

        u = on_rows(nn.LayerNorm(name="thought_norm"), x)
        y = Dense(size, kernel_init=init, name="thought_output")(
            nn.relu(Dense(2 * size, kernel_init=init, name="thought_input")(u))
        )
        x = _Gate(size, name="thought_gate")(x, nn.relu(y))
        return x, keys, values


class _Gate(nn.Module):
    """A GRU's gate between a stream `x[..., H]` and what a part of a layer adds, `y[..., H]` (section 3.2).

    Its bias of 2 keeps the stream nearly as it is at first, so that a policy begins without memory.
    """

    features: int

    @nn.compact
    def __call__(self, x: jax.Array, y: jax.Array) -> jax.Array:
        size, init = self.features, nn.initializers.lecun_normal()
        reset_y, update_y, new_y = jnp.split(
            Dense(3 * size, kernel_init=init, use_bias=False, name="added")(y), 3, axis=-1
        )
        reset_x, update_x = jnp.split(Dense(2 * size, kernel_init=init, use_bias=False, name="stream")(x), 2, axis=-1)
        keep = weights(self, "keep_bias", nn.initializers.constant(2.0), (size,))
        reset, update = nn.sigmoid(reset_y + reset_x), nn.sigmoid(update_y + update_x - keep)
        new = jnp.tanh(new_y + Dense(size, kernel_init=init, use_bias=False, name="kept")(reset * x))
        return x + update * (new - x)


def _latest(steps: jax.Array, window: int) -> jax.Array:
    """The last W of `steps[R, W + T, ...]`; by indices it would be a gather where R is not known, as in an export."""
    return jax.lax.slice_in_dim(steps, steps.shape[1] - window, None, axis=1)


def _by_distance(bias: jax.Array, num_steps: int) -> jax.Array:
    """From `[heads, W + 1]`, for distances 0 … W, to what the T steps attend to: `[heads, T, W + T]`, 0 elsewhere.

    Step t is W + t - s away from step s, so each row is the one above, moved by one: copies of a row that is longer by
    one than it should be, cut at the right length. A gather would be slower, most of all its gradient.
    """
    heads, total = len(bias), bias.shape[1] - 1 + num_steps
    row = jnp.pad(bias[:, ::-1], ((0, 0), (0, num_steps)))  # [heads, W + T + 1]
    rows = jnp.broadcast_to(row[:, None], (heads, num_steps, total + 1)).reshape(heads, -1)
    return rows[:, : num_steps * total].reshape(heads, num_steps, total)


def _attend(query: jax.Array, keys: jax.Array, values: jax.Array, bias: jax.Array, seen: jax.Array) -> jax.Array:
    """Scaled dot-product attention with several heads (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762).

    Args:
        query: `[R, T, H]`.
        keys: `[R, W + T, H]`.
        values: `[R, W + T, H]`.
        bias: `[heads, T, W + T]`, added to the logits.
        seen: bool `[R, T, W + T]`, to which steps each one attends; at least to itself.

    Returns:
        `[R, T, H]`.
    """
    lead = query.shape[:2]
    query, keys, values = (leaf.reshape(*leaf.shape[:2], HEADS, -1).swapaxes(1, 2) for leaf in (query, keys, values))
    logits = query @ keys.swapaxes(2, 3) / np.float32(np.sqrt(query.shape[-1])) + bias  # [R, heads, T, W + T]
    share = nn.softmax(jnp.where(seen[:, None], logits, -jnp.inf), axis=-1)
    return (share @ values).swapaxes(1, 2).reshape(*lead, -1)
