"""Memory cores: what a policy carries from step to step. All share one interface, feed-forward included.

A core maps `(carry, x[T, ..., D], reset[T, ...]) -> (carry, y[T, ..., H])`. Where `reset` is True the carry is cleared
*before* the input of that step is used. The carry has leaves `[..., H]`; without memory it is the empty `()`.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.nn.dense import Dense

__all__ = ["CORES", "GRU", "NoMemory", "initial_carry"]


class NoMemory(nn.Module):
    """No memory at all: the output is the input."""

    features: int

    @nn.compact
    def __call__(self, carry: tuple[()], x: jax.Array, reset: jax.Array) -> tuple[tuple[()], jax.Array]:
        return carry, x

    @staticmethod
    def carry_of(features: int, batch_shape: tuple[int, ...]) -> tuple[()]:
        """The empty carry."""
        return ()


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al. 2014), the variant of `flax.linen.GRUCell`.

    The input's part of the gates is one matrix product for all T steps; only the recurrent part is inside the scan.
    """

    features: int

    @nn.compact
    def __call__(self, carry: jax.Array, x: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        gates_x = Dense(3 * self.features, kernel_init=nn.initializers.lecun_normal(), name="input")(x)
        kernel = self.param("recurrent", _orthogonal_blocks, (self.features, 3 * self.features))
        bias = self.param("recurrent_bias", nn.initializers.zeros_init(), (self.features,))

        def step(h: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            gate_x, cleared = inputs
            h = jnp.where(cleared, 0.0, h)
            reset_x, update_x, new_x = jnp.split(gate_x, 3, axis=-1)
            reset_h, update_h, new_h = jnp.split(h @ kernel, 3, axis=-1)
            update = nn.sigmoid(update_x + update_h)
            new = jnp.tanh(new_x + nn.sigmoid(reset_x + reset_h) * (new_h + bias))
            h = new + update * (h - new)
            return h, h

        cleared = _expand(reset, gates_x.ndim)
        if x.shape[0] == 1:  # a rollout's single step needs no loop
            carry, y = step(carry, (gates_x[0], cleared[0]))
            return carry, y[None]
        return jax.lax.scan(step, carry, (gates_x, cleared))

    @staticmethod
    def carry_of(features: int, batch_shape: tuple[int, ...]) -> jax.Array:
        """Zeros `[*batch_shape, features]`."""
        return jnp.zeros((*batch_shape, features))


CORES: dict[str, type[nn.Module]] = {"none": NoMemory, "gru": GRU}


def initial_carry(memory: str, features: int, batch_shape: tuple[int, ...]) -> Any:
    """The carry at an episode's start, leaves `[*batch_shape, H]`."""
    return CORES[memory].carry_of(features, batch_shape)  # pyright: ignore[reportAttributeAccessIssue]


def _orthogonal_blocks(key: jax.Array, shape: tuple[int, int]) -> jax.Array:
    """One orthogonal matrix a gate, side by side."""
    features, width = shape
    keys = jax.random.split(key, width // features)
    init = nn.initializers.orthogonal()
    return jnp.concatenate([init(k, (features, features)) for k in keys], axis=1)


def _expand(reset: jax.Array, ndim: int) -> jax.Array:
    """Trailing axes of size 1 until `reset` has `ndim` axes."""
    return reset.reshape(reset.shape + (1,) * (ndim - reset.ndim))
