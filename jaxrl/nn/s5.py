"""S5, a simplified state-space memory (Smith et al. 2023, https://arxiv.org/abs/2208.04933), with resets as in
Lu et al. 2023 (https://arxiv.org/abs/2303.03982). `jaxrl.nn.memory` describes the interface.

Each layer holds P = H / 2 complex oscillators: h_t = a_t * h_{t-1} + b_t, where a_t is 0 at a reset and otherwise the
same decaying rotation at every step. Since this is linear in h, all T steps take only O(log T) sequential operations.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn.layers import Dense, on_rows, weights

__all__ = ["S5", "associative_recurrence", "hippo", "sequential_recurrence"]


class S5(nn.Module):
    """A stack of S5 layers with residual connections; H = `features` must be even.

    The carry is one float32 array `[..., H]` per layer: the real parts of its P states, then the imaginary parts.
    """

    features: int
    num_layers: int = 2

    @nn.compact
    def __call__(
        self, carry: tuple[jax.Array, ...], x: jax.Array, reset: jax.Array
    ) -> tuple[tuple[jax.Array, ...], jax.Array]:
        x = Dense(self.features, kernel_init=nn.initializers.lecun_normal(), name="input")(x)
        new_carry = []
        for i, state in enumerate(carry):
            state, x = _Layer(self.features, name=f"layer_{i}")(state, x, reset)
            new_carry.append(state)
        return tuple(new_carry), x

    @nn.nowrap
    def carry_of(self, batch_shape: tuple[int, ...]) -> tuple[jax.Array, ...]:
        """Zeros `[*batch_shape, H]`, one for each layer."""
        if self.features % 2:
            raise ValueError(f"s5 needs an even number of features, got {self.features}; use {self.features + 1}.")
        return tuple(jnp.zeros((*batch_shape, self.features), jnp.float32) for _ in range(self.num_layers))


class _Layer(nn.Module):
    """Normalise, recur, gate, add to the input: `(state[..., H], x[T, ..., H], reset[T, ...]) -> (state, x)`."""

    features: int

    @nn.compact
    def __call__(self, state: jax.Array, x: jax.Array, reset: jax.Array) -> tuple[jax.Array, jax.Array]:
        decay, rotation, log_step, skip = (
            weights(self, "log_decay", nn.initializers.constant(math.log(0.5)), (self.features // 2,)),
            weights(self, "rotation", _rotation, (self.features // 2,)),
            weights(self, "log_step", _log_step, (self.features // 2,)),
            weights(self, "skip", nn.initializers.normal(1.0), (self.features,)),
        )
        # The decay is positive by construction, so no amount of training makes the recurrence unstable.
        eigenvalue = jax.lax.complex(-jnp.exp(decay), rotation)
        factor = jnp.exp(eigenvalue * jnp.exp(log_step))  # what remains of a state after one step (zero-order hold)

        u = on_rows(nn.LayerNorm(name="norm"), x)
        drive = _complex(Dense(self.features, kernel_init=_input_init, use_bias=False, name="drive")(u))
        drive = drive * ((factor - 1.0) / eigenvalue)
        states = _recurrence(factor, drive, reset, _complex(state))
        y = Dense(self.features, kernel_init=_output_init, use_bias=False, name="read")(_real(states)) + skip * u
        gates = Dense(2 * self.features, kernel_init=nn.initializers.lecun_normal(), name="gate")(nn.gelu(y))
        return _real(states[-1]), x + nn.glu(gates)


def _recurrence(factor: jax.Array, drive: jax.Array, reset: jax.Array, state: jax.Array) -> jax.Array:
    """All T states; on a CPU, fewer and larger operations do not pay off (measured 1.3 to 4.4 times slower)."""
    if drive.shape[0] == 1:  # a rollout's single step needs no loop
        return jnp.where(reset[..., None], 0.0, factor) * state + drive
    return jax.lax.platform_dependent(
        factor, drive, reset, state, cpu=sequential_recurrence, default=associative_recurrence
    )


def sequential_recurrence(factor: jax.Array, drive: jax.Array, reset: jax.Array, state: jax.Array) -> jax.Array:
    """h_t = factor * h_{t-1} + drive_t, where h_{t-1} counts as 0 at a reset, one step after another.

    Args:
        factor: complex `[P]`.
        drive: complex `[T, ..., P]`.
        reset: bool `[T, ...]`.
        state: complex `[..., P]`, h_{-1}.

    Returns:
        h: complex `[T, ..., P]`.
    """

    def step(h: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        drive_t, reset_t = inputs
        h = jnp.where(reset_t, 0.0, factor) * h + drive_t
        return h, h

    return jax.lax.scan(step, state, (drive, reset[..., None]))[1]


def associative_recurrence(factor: jax.Array, drive: jax.Array, reset: jax.Array, state: jax.Array) -> jax.Array:
    """The same as `sequential_recurrence` in O(log T) steps, by composing affine maps h -> a h + b in pairs."""

    def compose(first: tuple[jax.Array, jax.Array], second: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return second[0] * first[0], second[0] * first[1] + second[1]

    factors = jnp.where(reset[..., None], 0.0, factor)
    drive = drive.at[0].add(factors[0] * state)
    return jax.lax.associative_scan(compose, (factors, drive))[1]


@functools.cache
def hippo(features: int) -> tuple[np.ndarray, np.ndarray]:
    """The normal part of the HiPPO-LegS matrix of size H, diagonalised (Smith et al. 2023, section 3.3 and app. B.1).

    All its eigenvalues have real part -1/2 and come in conjugate pairs; one of each pair is kept.

    Returns:
        Imaginary parts of the eigenvalues float32 `[P]`, all positive, and eigenvectors complex64 `[H, P]`.
    """
    root = np.sqrt(2.0 * np.arange(features) + 1.0)
    lower = np.tril(np.outer(root, root), -1)
    # HiPPO-LegS plus its rank-one correction is -1/2 I + S with S skew-symmetric, so -iS is Hermitian.
    rotation, vectors = np.linalg.eigh(-1j * (lower.T - lower) / 2.0)
    half = features // 2
    return rotation[half:].astype(np.float32), vectors[:, half:].astype(np.complex64)


def _rotation(key: jax.Array, shape: tuple[int], dtype: Any) -> jax.Array:
    """The rotations of `hippo`."""
    del key
    return jnp.asarray(hippo(2 * shape[0])[0], dtype)


def _log_step(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Step sizes between 0.001 and 0.1, uniform in the logarithm, for memories of about 20 to 2,000 steps."""
    return jax.random.uniform(key, shape, dtype, minval=math.log(1e-3), maxval=math.log(1e-1))


def _input_init(key: jax.Array, shape: tuple[int, int], dtype: Any) -> jax.Array:
    """LeCun-normal weights in the basis of the eigenvectors: `[H, 2 P]`."""
    vectors = hippo(shape[0])[1]
    return _real(nn.initializers.lecun_normal()(key, shape, dtype) @ vectors.conj())


def _output_init(key: jax.Array, shape: tuple[int, int], dtype: Any) -> jax.Array:
    """Complex LeCun-normal weights C in the eigenvectors' basis as the real matrix `[2 P, H]` of 2 Re(C h)."""
    vectors = hippo(shape[0])[1]
    both = nn.initializers.lecun_normal()(key, (shape[0], 2 * shape[1]), dtype) / math.sqrt(2.0)
    real, imag = both.reshape(2, *shape)
    c = (vectors.T @ jax.lax.complex(real, imag)) * 2.0
    return jnp.concatenate([c.real, -c.imag])


def _complex(x: jax.Array) -> jax.Array:
    """float32 `[..., 2 P]` as complex64 `[..., P]`."""
    return jax.lax.complex(*jnp.split(x, 2, axis=-1))


def _real(x: jax.Array) -> jax.Array:
    """complex64 `[..., P]` as float32 `[..., 2 P]`."""
    return jnp.concatenate([x.real, x.imag], axis=-1)
