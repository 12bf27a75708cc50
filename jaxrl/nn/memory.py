"""Memory cores, which carry information from step to step. All share one interface, including feed-forward.

A core maps `(carry, x[T, ..., D], reset[T, ...]) -> (carry, y[T, ..., H])`. Where `reset` is True, the carry is cleared
*before* the input of that step is used. The carry has float32 leaves `[..., H]`; without memory, it is empty, `()`.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax

from jaxrl.nn.recurrent import GRU, LSTM
from jaxrl.nn.s5 import S5

__all__ = ["CORES", "GRU", "LSTM", "S5", "NoMemory", "initial_carry"]


class NoMemory(nn.Module):
    """No memory: the output is the input."""

    features: int

    @nn.compact
    def __call__(self, carry: tuple[()], x: jax.Array, reset: jax.Array) -> tuple[tuple[()], jax.Array]:
        return carry, x

    @nn.nowrap
    def carry_of(self, batch_shape: tuple[int, ...]) -> tuple[()]:
        """The empty carry."""
        return ()


CORES: dict[str, type[NoMemory] | type[GRU] | type[LSTM] | type[S5]] = {
    "none": NoMemory,
    "gru": GRU,
    "lstm": LSTM,
    "s5": S5,
}


def initial_carry(memory: str, features: int, batch_shape: tuple[int, ...]) -> Any:
    """The carry at the start of an episode, leaves `[*batch_shape, H]`."""
    return CORES[memory](features).carry_of(batch_shape)
