"""Torsos: from an observation to features; and the encoder, a torso followed by a memory core."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import numpy as np

from jaxrl.nn.dense import Dense
from jaxrl.nn.memory import CORES

__all__ = ["ACTIVATIONS", "MLP", "Encoder"]

ACTIVATIONS = {"relu": nn.relu, "tanh": nn.tanh, "silu": nn.silu, "gelu": nn.gelu}


class MLP(nn.Module):
    """Dense layers, each followed by the activation: `[..., D]` to `[..., sizes[-1]]` (orthogonal initial weights)."""

    sizes: tuple[int, ...]
    activation: str = "tanh"

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for size in self.sizes:
            x = Dense(size, kernel_init=nn.initializers.orthogonal(np.sqrt(2)))(x)
            x = ACTIVATIONS[self.activation](x)
        return x


class Encoder(nn.Module):
    """Torso and memory: `(carry, obs[T, ..., D], reset[T, ...]) -> (carry, features[T, ..., H])`."""

    sizes: tuple[int, ...]
    activation: str = "tanh"
    memory: str = "none"
    memory_size: int = 64

    @nn.compact
    def __call__(self, carry: Any, obs: jax.Array, reset: jax.Array) -> tuple[Any, jax.Array]:
        features = MLP(self.sizes, self.activation)(obs)
        return CORES[self.memory](self.memory_size, name=self.memory)(carry, features, reset)
