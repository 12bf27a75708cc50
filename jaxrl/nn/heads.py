"""Heads: from features to a policy or a value."""

from __future__ import annotations

import flax.linen as nn
import jax

from jaxrl.nn import distributions
from jaxrl.nn.dense import Dense
from jaxrl.nn.torso import MLP

__all__ = ["CategoricalHead", "ValueHead"]


class CategoricalHead(nn.Module):
    """Logits of a discrete policy: features `[..., H]`, mask bool `[..., A]` or None, to a distribution over A."""

    num_actions: int
    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array, mask: jax.Array | None = None) -> distributions.Categorical:
        features = MLP(self.sizes, self.activation)(features)
        logits = Dense(self.num_actions, kernel_init=nn.initializers.orthogonal(0.01))(features)
        return distributions.categorical(logits, mask)


class ValueHead(nn.Module):
    """A scalar: `[..., H]` to `[...]`."""

    sizes: tuple[int, ...] = ()
    activation: str = "tanh"

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        features = MLP(self.sizes, self.activation)(features)
        return Dense(1, kernel_init=nn.initializers.orthogonal(1.0))(features)[..., 0]
