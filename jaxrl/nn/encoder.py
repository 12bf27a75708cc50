"""The encoder of observations: a torso plus a memory core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from jaxrl.entities import Entities
from jaxrl.nn.entities import EntityTorso, Pointed
from jaxrl.nn.memory import Core, NoMemory
from jaxrl.nn.torso import Torso
from jaxrl.spaces import Box, Space

__all__ = ["Encoder"]


class Encoder(nn.Module):
    """Torso and memory: `(carry, obs[T, ..., *shape], reset[T, ...]) -> (carry, features[T, ..., H], pointed)`.

    `pointed` is what actions point at, None without such actions or without `entities`. Without a `space` the
    observation is a vector `[D]`. For `extra`, `layer_norm`, `channels` and `network` see `Torso`.
    """

    sizes: tuple[int, ...]
    activation: str = "tanh"
    core: Callable[[], Core] = partial(NoMemory, 0)
    space: Space | None = None
    layer_norm: bool = False
    channels: tuple[int, ...] = ()
    network: Callable[[], nn.Module] | None = None
    entities: Entities | None = None
    """What observations are made of, for an `EntityTorso` instead."""
    related: bool = False
    """See `EntityTorso`."""

    @nn.compact
    def __call__(
        self, carry: Any, obs: jax.Array, reset: jax.Array, extra: jax.Array | None = None
    ) -> tuple[Any, jax.Array, Pointed | None]:
        if self.entities is None:
            space = Box(-np.inf, np.inf, obs.shape[-1:]) if self.space is None else self.space
            torso = Torso(space, self.sizes, self.activation, self.layer_norm, self.channels, self.network)
            features, pointed = torso(obs, extra), None
        else:
            torso = EntityTorso(self.entities, self.sizes, self.activation, self.layer_norm, related=self.related)
            features, pointed = torso(obs, extra)
        carry, features = self.core()(carry, features, reset)
        return carry, features, pointed
