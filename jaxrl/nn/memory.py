"""Memory cores, which carry information from step to step. All share one interface, including feed-forward.

A core maps `(carry, x[T, ..., D], reset[T, ...]) -> (carry, y[T, ..., H])`. Where `reset` is True, the carry is cleared
*before* the input of that step is used. The carry has float32 leaves `[..., H]`, with GTrXL `[..., W, H]` too, with
linear attention `[..., H * H / 4]`; without memory, it is empty, `()`. In GRU and LSTM the input's contribution to the
gates is one matrix product for all T steps; only the recurrent part is in the scan.

A memory of one's own is a Flax module of this form, with a field `features`, which is H, and a method
`carry_of(batch_shape)`, marked by `flax.linen.nowrap`: the carry at the start of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.nn.gtrxl import HEADS, GTrXL
from jaxrl.nn.layers import Dense, orthogonal, weights
from jaxrl.nn.linear_attention import LinearAttention
from jaxrl.nn.s5 import S5

__all__ = ["CORES", "GRU", "LSTM", "S5", "Core", "GTrXL", "NoMemory", "memory_core"]


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al. 2014, https://arxiv.org/abs/1406.1078), the variant of `flax.linen.GRUCell`."""

    features: int

    @nn.compact
    def __call__(self, carry: jax.Array, x: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        gates_x = Dense(3 * self.features, kernel_init=nn.initializers.lecun_normal(), name="input")(x)
        kernel = weights(self, "recurrent", _orthogonal_blocks, (self.features, 3 * self.features))
        bias = weights(self, "recurrent_bias", nn.initializers.zeros_init(), (self.features,))

        def cell(h: jax.Array, gate_x: jax.Array) -> tuple[jax.Array, jax.Array]:
            sigmoid_x, new_x = jnp.split(gate_x, [2 * self.features], axis=-1)
            sigmoid_h, new_h = jnp.split(h @ kernel, [2 * self.features], axis=-1)
            reset, update = jnp.split(_sigmoid(sigmoid_x + sigmoid_h), 2, axis=-1)
            new = jnp.tanh(new_x + reset * (new_h + bias))
            h = new + update * (h - new)
            return h, h

        return _scan(cell, carry, gates_x, reset)

    @nn.nowrap
    def carry_of(self, batch_shape: tuple[int, ...]) -> jax.Array:
        """Zeros `[*batch_shape, H]`."""
        return jnp.zeros((*batch_shape, self.features), jnp.float32)


class LSTM(nn.Module):
    """Long short-term memory (Hochreiter & Schmidhuber 1997), the variant of `flax.linen.LSTMCell`.

    The carry is `(cell, output)`.
    """

    features: int

    @nn.compact
    def __call__(
        self, carry: tuple[jax.Array, jax.Array], x: jax.Array, reset: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        gates_x = Dense(4 * self.features, kernel_init=nn.initializers.lecun_normal(), name="input")(x)
        kernel = weights(self, "recurrent", _orthogonal_blocks, (self.features, 4 * self.features))

        def cell(
            carry: tuple[jax.Array, jax.Array], gate_x: jax.Array
        ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            c, h = carry
            write, keep, new, read = jnp.split(gate_x + h @ kernel, 4, axis=-1)
            c = _sigmoid(keep) * c + _sigmoid(write) * jnp.tanh(new)
            h = _sigmoid(read) * jnp.tanh(c)
            return (c, h), h

        return _scan(cell, carry, gates_x, reset)

    @nn.nowrap
    def carry_of(self, batch_shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
        """Two arrays of zeros `[*batch_shape, H]`."""
        shape = (*batch_shape, self.features)
        return jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32)


def _scan(
    cell: Callable[[Any, jax.Array], tuple[Any, jax.Array]], carry: Any, gates_x: jax.Array, reset: jax.Array
) -> tuple[Any, jax.Array]:
    """Run `cell` over the T steps of `gates_x[T, ..., G]`; the carry is cleared before steps with `reset[T, ...]`."""

    def step(carry: Any, inputs: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        gate_x, cleared = inputs
        return cell(jax.tree.map(lambda leaf: jnp.where(cleared[:, None], 0.0, leaf), carry), gate_x)

    lead = gates_x.shape[:-1]
    gates_x, cleared = gates_x.reshape(lead[0], -1, gates_x.shape[-1]), reset.reshape(lead[0], -1)
    carry = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), carry)
    if gates_x.shape[0] == 1:  # a rollout's single step needs no loop
        carry, y = step(carry, (gates_x[0], cleared[0]))
    else:
        saved = jax.checkpoint_policies.dots_saveable
        carry, y = jax.lax.scan(jax.checkpoint(step, prevent_cse=False, policy=saved), carry, (gates_x, cleared))
    return jax.tree.map(lambda leaf: leaf.reshape(*lead[1:], -1), carry), y.reshape(*lead, -1)


def _sigmoid(x: jax.Array) -> jax.Array:
    """The logistic function computed by tanh, which makes a GRU's scan a sixth faster on a CPU than with exp."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


def _orthogonal_blocks(key: jax.Array, shape: tuple[int, int], dtype: Any) -> jax.Array:
    """One orthogonal matrix per gate, side by side."""
    features, width = shape
    keys = jax.random.split(key, width // features)
    init = orthogonal()
    return jnp.concatenate([init(k, (features, features), dtype) for k in keys], axis=1)


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


Core = NoMemory | GRU | LSTM | S5 | GTrXL | LinearAttention

CORES: dict[str, Callable[..., Core]] = {
    "none": NoMemory,
    "gru": GRU,
    "lstm": LSTM,
    "s5": S5,
    "gtrxl": GTrXL,
    "retention": LinearAttention,
    "deltanet": partial(LinearAttention, delta=True),
}


_MULTIPLE_OF = {"s5": 2, "gtrxl": HEADS, "retention": 8, "deltanet": 8}


def memory_core(memory: str | Callable[..., Any], features: int, window: int) -> Callable[[], Core]:
    """Makes a core, named like its kind; `carry_of(batch_shape)` is its carry at the start of an episode.

    Args:
        memory: A name in `CORES`, or a class of the user's own.
        features: H.
        window: W, how many steps `gtrxl` looks back; others have none.

    Raises:
        TypeError: The user's own class has no `carry_of` or no field `features`.
        ValueError: The features cannot be divided as the core needs it.
    """
    if not isinstance(memory, str):
        if not (hasattr(memory, "carry_of") and "features" in getattr(memory, "__dataclass_fields__", ())):
            raise TypeError(
                f"memory={getattr(memory, '__name__', memory)} needs a field features: int and a method "
                f"carry_of(batch_shape); jaxrl.nn.memory describes them."
            )
        return partial(memory, features, name="memory")
    divisor = _MULTIPLE_OF.get(memory, 1)
    if features % divisor:
        enough = -(-features // divisor) * divisor
        raise ValueError(f"memory_size must be a multiple of {divisor} for {memory}, got {features}; use {enough}.")
    if memory == "gtrxl":
        return partial(GTrXL, features, window, name=memory)
    return partial(CORES[memory], features, name=memory)
