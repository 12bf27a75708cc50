"""The predictions of a value head, how they become values, and their loss: a scalar, or a distribution over bins.

Both kinds have the same three members, so one field of an algorithm's configuration selects either:
`num_bins` (for the head), `decode(prediction)` and `loss(prediction, old_value, target, clip_eps)`.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.rl.losses import clipped_value_loss

__all__ = ["VALUES", "GreedyValue", "HLGauss", "ScalarValue", "cross_entropy", "from_bins", "to_bins"]


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
class GreedyValue:
    """The prediction is that of the values of all A actions, `[..., A]` or logits `[..., A, num_bins]`, and the value
    is that of the best.
    """

    each: ScalarValue | HLGauss = ScalarValue()
    """What the prediction of one action is."""

    def decode(self, prediction: jax.Array) -> jax.Array:
        """The value `[...]`: the largest of the actions'."""
        return self.each.decode(prediction).max(axis=-1)


VALUES: dict[str, type[ScalarValue] | type[HLGauss]] = {"mse": ScalarValue, "hlgauss": HLGauss}


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
