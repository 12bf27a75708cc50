"""Memory cores, which carry information from step to step. All share one interface, including feed-forward.

A core maps `(carry, x[T, ..., D], reset[T, ...]) -> (carry, y[T, ..., H])`. Where `reset` is True, the carry is cleared
*before* the input of that step is used. The carry has float32 leaves `[..., H]`, with GTrXL `[..., W, H]` too; without
memory, it is empty, `()`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax

from jaxrl.nn.gtrxl import HEADS, GTrXL
from jaxrl.nn.recurrent import GRU, LSTM
from jaxrl.nn.s5 import S5

__all__ = ["CORES", "GRU", "LSTM", "S5", "Core", "GTrXL", "NoMemory", "memory_core"]


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


Core = NoMemory | GRU | LSTM | S5 | GTrXL

CORES: dict[str, type[Core]] = {
    "none": NoMemory,
    "gru": GRU,
    "lstm": LSTM,
    "s5": S5,
    "gtrxl": GTrXL,
}


_MULTIPLE_OF = {"s5": 2, "gtrxl": HEADS}


def memory_core(memory: str, features: int, window: int) -> Callable[[], Core]:
    """Makes a core, named like its kind; `carry_of(batch_shape)` is its carry at the start of an episode.

    Args:
        memory: A name in `CORES`.
        features: H.
        window: W, how many steps `gtrxl` looks back; others have none.

    Raises:
        ValueError: The features cannot be divided as the core needs it.
    """
    divisor = _MULTIPLE_OF.get(memory, 1)
    if features % divisor:
        enough = -(-features // divisor) * divisor
        raise ValueError(f"memory_size must be a multiple of {divisor} for {memory}, got {features}; use {enough}.")
    if memory == "gtrxl":
        return partial(GTrXL, features, window, name=memory)
    return partial(CORES[memory], features, name=memory)
