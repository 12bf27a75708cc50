"""The dense layer that everything here is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

__all__ = ["Dense"]


class Dense(nn.Module):
    """`[..., D]` to `[..., features]`, computed as one matrix product.

    All leading axes are flattened into rows first. XLA on a CPU would otherwise take the weights' gradient as a
    contraction over several axes, which is about 1.7 times slower (measured at 3,072 rows, 75 to 64 features).
    """

    features: int
    kernel_init: Callable[..., Any]
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        rows = x.reshape(-1, x.shape[-1])
        y = nn.Dense(self.features, self.use_bias, kernel_init=self.kernel_init, name="dense")(rows)
        return y.reshape(*x.shape[:-1], self.features)
