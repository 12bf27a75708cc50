"""Losses of the policy, and of predictions of values: scalars, or distributions over bins.

The losses of policies are those of proximal policy optimisation (Schulman et al. 2017,
https://arxiv.org/abs/1707.06347). All kinds of values have `num_bins` (for the head) and `decode(prediction)`, so one
field of an algorithm's configuration selects one of them. Those that learn the mean of returns have
`loss(prediction, old_value, target, clip_eps)`; `C51` learns their distribution.
"""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "C51",
    "GreedyValue",
    "HLGauss",
    "ScalarValue",
    "clipped_surrogate",
    "clipped_value_loss",
    "cross_entropy",
    "from_bins",
    "scaled_mean",
    "to_bins",
]


def clipped_surrogate(ratio: jax.Array, advantage: jax.Array, clip_eps: jax.Array | float) -> jax.Array:
    """The policy loss of each sample (eq. 7, negated): `ratio` is new over old probability; all shapes are equal."""
    chex.assert_equal_shape([ratio, advantage])
    clipped = 1.0 + jnp.clip(ratio - 1.0, -clip_eps, clip_eps)
    return -jnp.minimum(ratio * advantage, clipped * advantage)


def clipped_value_loss(
    value: jax.Array, old_value: jax.Array, target: jax.Array, clip_eps: jax.Array | float
) -> jax.Array:
    """Half the squared error of each value: the larger one for the new value and its clip around `old_value`."""
    chex.assert_equal_shape([value, old_value, target])
    near = old_value + jnp.clip(value - old_value, -clip_eps, clip_eps)
    return 0.5 * jnp.maximum(jnp.square(value - target), jnp.square(near - target))


def scaled_mean(coef: jax.Array | float, x: jax.Array, weight: jax.Array) -> jax.Array:
    """`coef` times the mean of `x[..., N]`, given `jaxrl.rl.devices.mean_weights`.

    With a coefficient for each of N agents, `[N]`, it is the mean of `coef * x`.
    """
    return jnp.sum(coef * x * weight) if jnp.ndim(coef) else coef * jnp.sum(x * weight)


@dataclasses.dataclass(frozen=True)
class ScalarValue:
    """The prediction `[...]` is the value itself; the loss is half the squared error."""

    num_bins: None = None

    def decode(self, prediction: jax.Array) -> jax.Array:
        """The value `[...]`: the prediction itself."""
        return prediction

    def loss(
        self, prediction: jax.Array, old_value: jax.Array, target: jax.Array, clip_eps: jax.Array | float
    ) -> jax.Array:
        """`[...]`, see `clipped_value_loss`; an infinite `clip_eps` clips nothing."""
        return clipped_value_loss(prediction, old_value, target, clip_eps)


@dataclasses.dataclass(frozen=True)
class HLGauss:
    """The prediction is logits `[..., num_bins]`; a target becomes a normal distribution around it, cut into bins.

    Imani & White 2018 (https://arxiv.org/abs/1806.04613), as used by Farebrother et al. 2024
    (https://arxiv.org/abs/2403.03950, section 3.1).

    Args:
        low: Smallest value that can be represented, in the units of the (scaled) returns.
        high: Largest value that can be represented. Targets outside are clipped.
        num_bins: Number of bins. They also cover three standard deviations beyond `low` and `high`: otherwise, values
            near the ends would be biased inwards.
        ratio: Standard deviation of a target in bin widths.
    """

    low: float = -10.0
    high: float = 10.0
    num_bins: int = 51
    ratio: float = 0.75

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"HL-Gauss needs low < high, got {self.low} and {self.high}.")
        if self.ratio <= 0:
            raise ValueError(f"HL-Gauss needs a positive ratio, got {self.ratio}; 0.75 is usual.")
        if self.num_bins < 6 * self.ratio + 2:
            least = int(np.ceil(6 * self.ratio)) + 2
            raise ValueError(f"HL-Gauss needs at least num_bins={least} for ratio={self.ratio}, got {self.num_bins}.")

    @property
    def width(self) -> float:
        """The width of a bin."""
        return (self.high - self.low) / (self.num_bins - 6.0 * self.ratio)

    @property
    def edges(self) -> np.ndarray:
        """The edges of the bins, float32 `[num_bins + 1]`."""
        margin = 3.0 * self.ratio * self.width
        return np.linspace(self.low - margin, self.high + margin, self.num_bins + 1, dtype=np.float32)

    def decode(self, prediction: jax.Array) -> jax.Array:
        """The expected value `[...]`."""
        return from_bins(jax.nn.softmax(prediction), self.edges)

    def loss(
        self, prediction: jax.Array, old_value: jax.Array, target: jax.Array, clip_eps: jax.Array | float
    ) -> jax.Array:
        """Cross-entropy `[...]`. Its gradient is bounded whatever the error, so nothing is clipped."""
        del old_value, clip_eps
        target = jnp.clip(target, self.low, self.high)
        return cross_entropy(prediction, to_bins(target, self.edges, self.ratio * self.width))


@dataclasses.dataclass(frozen=True)
class C51:
    """The prediction is logits `[..., num_bins]` of the return's distribution over equally spaced values, the atoms.

    A target is a distribution too: that of what follows, whose atoms are discounted and shifted by rewards, and then
    projected onto those of the prediction (Bellemare et al. 2017, https://arxiv.org/abs/1707.06887).

    Args:
        low: The smallest atom, in the units of the (scaled) returns.
        high: The largest atom. Returns outside count as the nearest end.
        num_bins: Number of atoms.
    """

    low: float = -10.0
    high: float = 10.0
    num_bins: int = 51

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"C51 needs low < high, got {self.low} and {self.high}.")
        if self.num_bins < 2:
            raise ValueError(f"C51 needs at least num_bins=2, got {self.num_bins}.")

    @property
    def atoms(self) -> np.ndarray:
        """The values that a return can have, float32 `[num_bins]`."""
        return np.linspace(self.low, self.high, self.num_bins, dtype=np.float32)

    def decode(self, prediction: jax.Array) -> jax.Array:
        """The expected value `[...]`."""
        return jax.nn.softmax(prediction) @ self.atoms

    def project(self, probabilities: jax.Array, returns: jax.Array) -> jax.Array:
        """The distribution over the atoms, `[..., num_bins]`, of returns `[..., K]` with `probabilities[..., K]`.

        Each return is shared between its two neighbours, so that the mean stays what it is.
        """
        returns = jnp.clip(returns, self.low, self.high)
        width = (self.high - self.low) / (self.num_bins - 1)
        share = jnp.maximum(1.0 - jnp.abs(returns[..., None] - self.atoms) / width, 0.0)
        return jnp.einsum("...k,...kb->...b", probabilities, share)


@dataclasses.dataclass(frozen=True)
class GreedyValue:
    """The prediction has the values of all A actions, `[..., A]`, or their logits `[..., A, num_bins]`; the value is
    that of the best action.
    """

    each: ScalarValue | HLGauss = ScalarValue()
    """The kind of prediction that each action has."""

    def decode(self, prediction: jax.Array) -> jax.Array:
        """The value `[...]`: the largest of the actions'."""
        return self.each.decode(prediction).max(axis=-1)


def to_bins(value: jax.Array, edges: np.ndarray, std: float) -> jax.Array:
    """Probabilities `[..., num_bins]` of a normal distribution around `value[...]`, renormalised within the edges.

    `value` should lie a few `std` inside the outermost edges.
    """
    below = jax.scipy.special.ndtr((edges - value[..., None]) / std)
    mass = jnp.diff(below)
    return mass / (below[..., -1:] - below[..., :1])


def from_bins(probabilities: jax.Array, edges: np.ndarray) -> jax.Array:
    """The mean `[...]` of a distribution over bins `[..., num_bins]`, each bin at its centre."""
    return probabilities @ ((edges[1:] + edges[:-1]) / 2.0)


def cross_entropy(logits: jax.Array, probabilities: jax.Array) -> jax.Array:
    """The cross-entropy `[...]`, in nats, of `softmax(logits)` relative to `probabilities`, both `[..., num_bins]`."""
    return -jnp.sum(probabilities * jax.nn.log_softmax(logits), axis=-1)
