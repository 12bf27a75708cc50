"""Memories by linear attention: a matrix of keys and values for each head, S_t = decay_t S_{t-1} + k_t v_t^T, read by
o_t = S_t^T q_t. `jaxrl.nn.memory` describes the interface.

`retention` decays at a constant rate for each head (Sun et al. 2023, https://arxiv.org/abs/2307.08621; with resets as
in Sable, https://arxiv.org/abs/2410.01706). `deltanet` is the gated delta rule (Yang et al. 2024,
https://arxiv.org/abs/2412.06464): its decay depends on the input, and a new value replaces the old one of its key.
Acting takes one step; training takes whole chunks of steps by matrix products.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn.layers import Dense, on_rows, orthogonal

__all__ = ["ATTENTION_HEADS", "LinearAttention", "recall"]

ATTENTION_HEADS = 4
_CHUNK, _DELTA_CHUNK = 64, 16  # the most steps at once; powers of the delta rule's matrix grow like binomials
_HALF_LIVES = np.geomspace(16, 1024, ATTENTION_HEADS)  # of the delta rule's heads at first, in steps
_TURNS = 10_000.0  # the slowest rotation of a key, as in RoFormer (Su et al. 2021, https://arxiv.org/abs/2104.09864)

Carry = tuple[jax.Array, jax.Array]
"""The matrices of all heads, flattened, `[..., H * H / heads]`, and the steps of the episode so far, `[..., 1]`."""


class LinearAttention(nn.Module):
    """A layer of linear attention with a gate and a residual connection; H = `features` is divisible by 8.

    Keys and queries of `retention` are rotated by the number of their step, so that they know how far apart they are.
    """

    features: int
    delta: bool = False
    """The gated delta rule instead of retention."""

    @nn.compact
    def __call__(self, carry: Carry, x: jax.Array, reset: jax.Array) -> tuple[Carry, jax.Array]:
        lead, size, heads = x.shape[:-1], self.features, ATTENTION_HEADS
        width = size // heads
        x = Dense(size, kernel_init=nn.initializers.lecun_normal(), name="input")(x)
        u = on_rows(nn.LayerNorm(name="norm"), x)
        query, key, value = (
            part.reshape(lead[0], -1, heads, width).transpose(1, 2, 0, 3)  # [R, heads, T, d]
            for part in jnp.split(Dense(3 * size, orthogonal(), use_bias=False, name="query_key_value")(u), 3, axis=-1)
        )
        matrices, steps = carry[0].reshape(-1, heads, width, width), carry[1].reshape(-1)
        resets = reset.reshape(lead[0], -1).T  # [R, T]
        time = _times(steps, resets)

        strength = None
        if self.delta:
            gates = Dense(2 * heads, orthogonal(0.01), name="gates")(u).reshape(lead[0], -1, 2 * heads)
            forget, write = jnp.split(gates.transpose(1, 2, 0), 2, axis=1)  # [R, heads, T]
            log_decay = -nn.softplus(forget) / _HALF_LIVES.astype(np.float32).reshape(heads, 1)
            strength = nn.sigmoid(write)
            query, key = (part / jnp.sqrt(jnp.sum(part**2, -1, keepdims=True) + 1e-6) for part in (query, key))
        else:
            rates = np.log1p(-np.geomspace(1 / 32, 1 / 512, heads), dtype=np.float32).reshape(heads, 1)
            log_decay = jnp.broadcast_to(rates, query.shape[:-1])
            query, key = _rotated(query, time), _rotated(key, time)

        matrices, found = recall(query, key, value, log_decay, strength, resets, matrices)
        found = found / jnp.sqrt(jnp.mean(found**2, axis=-1, keepdims=True) + 1e-6)  # each head by itself
        found = found.transpose(2, 0, 1, 3).reshape(*lead, size)
        gate = nn.silu(Dense(size, orthogonal(), use_bias=False, name="gate")(u))
        y = x + Dense(size, orthogonal(), use_bias=False, name="mixed")(gate * found)
        return (matrices.reshape(*lead[1:], -1), time[:, -1].reshape(*lead[1:], 1) + 1.0), y

    @nn.nowrap
    def carry_of(self, batch_shape: tuple[int, ...]) -> Carry:
        """Empty matrices and no steps."""
        matrices = jnp.zeros((*batch_shape, self.features**2 // ATTENTION_HEADS), jnp.float32)
        return matrices, jnp.zeros((*batch_shape, 1), jnp.float32)


def recall(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    log_decay: jax.Array,
    strength: jax.Array | None,
    reset: jax.Array,
    matrices: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The matrices after T steps, and what each step reads, `[R, heads, T, d]`.

    Args:
        query: `[R, heads, T, d]`.
        key: `[R, heads, T, d]`.
        value: `[R, heads, T, d]`.
        log_decay: `[R, heads, T]`, at most 0.
        strength: `[R, heads, T]`, 0 … 1, how much of its key's old value a new one replaces; None adds it instead.
        reset: bool `[R, T]`; the matrices are empty before these steps.
        matrices: `[R, heads, d, d]`, before the first step.
    """
    num_steps, most = query.shape[2], _CHUNK if strength is None else _DELTA_CHUNK
    length = next(size for size in range(min(most, num_steps), 0, -1) if num_steps % size == 0)

    def in_chunks(leaf: jax.Array, axis: int) -> jax.Array:
        return jnp.moveaxis(leaf.reshape(*leaf.shape[:axis], -1, length, *leaf.shape[axis + 1 :]), axis, 0)

    inputs = (in_chunks(query, 2), in_chunks(key, 2), in_chunks(value, 2), in_chunks(log_decay, 2))
    strengths = None if strength is None else in_chunks(strength, 2)
    matrices, found = jax.lax.scan(_chunk, matrices, (*inputs, strengths, in_chunks(reset, 1)))
    return matrices, jnp.moveaxis(found, 0, 2).reshape(query.shape)


def _chunk(matrices: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
    """C steps at once: what step i reads of step j of its own episode has decayed by exp(G_i - G_j)."""
    query, key, value, log_decay, strength, reset = inputs
    episode = jnp.cumsum(reset, axis=-1, dtype=jnp.int32)  # [R, C], 0 for the one that the matrices come from
    places = np.arange(query.shape[2])
    seen = (episode[:, :, None] == episode[:, None, :]) & (places[:, None] >= places)  # [R, C, C]
    # Sums begin anew with an episode, so that no gradient leads to what came before it, not even a rounding error.
    total = jnp.einsum("rij,rhj->rhi", seen.astype(jnp.float32), log_decay)  # G [R, heads, C]
    # The mask is inside of exp: beyond it the exponents are positive, and 0 times infinity has no gradient.
    decay = jnp.exp(jnp.where(seen[:, None], total[..., :, None] - total[..., None, :], -jnp.inf))
    carried = jnp.where(episode[:, None] == 0, jnp.exp(total), 0.0)[..., None]  # [R, heads, C, 1]

    if strength is not None:
        # Each step writes the difference from what its key had: a triangular system, (I + L) U = strength (V - …).
        alike = strength[..., None] * jnp.tril(decay * (key @ key.swapaxes(2, 3)), -1)
        power, inverse = -alike, jnp.eye(len(places)) - alike
        for _ in range(max(len(places) - 1, 1).bit_length() - 1):  # the inverse is the product of I + (-L)^(2^p)
            power = power @ power
            inverse = inverse + inverse @ power
        value = inverse @ (strength[..., None] * (value - carried * (key @ matrices)))

    found = carried * (query @ matrices) + (query @ key.swapaxes(2, 3) * decay) @ value
    after = carried[:, :, -1:] * matrices + (key * decay[:, :, -1, :, None]).swapaxes(2, 3) @ value
    return after, found


def _times(steps: jax.Array, reset: jax.Array) -> jax.Array:
    """The number of each step within its episode, from 0, float32 `[R, T]`, given those done before, `[R]`."""
    now = np.arange(reset.shape[1], dtype=np.float32)
    begun = jax.lax.cummax(jnp.where(reset, now, -1.0), axis=1)
    return jnp.where(begun < 0, steps[:, None] + now, now - begun)


def _rotated(x: jax.Array, time: jax.Array) -> jax.Array:
    """Pairs of features turned by angles that grow with time: `x[R, heads, T, d]`, `time[R, T]`."""
    half = x.shape[-1] // 2
    angle = time[:, None, :, None] * (_TURNS ** -(np.arange(half, dtype=np.float32) / half))
    first, second = jnp.split(x, 2, axis=-1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
