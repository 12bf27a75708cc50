"""A torso for observations that are made of entities, with weights shared by those of a kind; actions that point.

Deep sets (Zaheer et al. 2017, https://arxiv.org/abs/1703.06114): embed each entity, sum the embeddings. So the order of
entities means nothing, and the same parameters fit any number of them. The value of an action that points at an entity
depends on its embedding, as in pointer networks (Vinyals et al. 2015, https://arxiv.org/abs/1506.03134).
"""

from __future__ import annotations

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group, present
from jaxrl.nn.layers import ACTIVATIONS, MLP, Dense, on_rows, orthogonal
from jaxrl.nn.relations import relations

__all__ = ["EntityTorso", "Pointed", "choices"]


class Pointed(NamedTuple):
    """The entities that actions point at, P in all."""

    embeddings: jax.Array
    """`[..., P, E]`; zero for those that are absent."""
    actions: tuple[int, ...]
    """The action that points at each, `[P]`."""


class EntityTorso(nn.Module):
    """Observations `[..., D]` to features `[..., sizes[-1]]`, and what actions can point at, None if they cannot.

    An entity's embedding sees the agent's own features as well. Dense layers follow the sums over each kind; further
    features, `extra[..., K]`, are appended to their input.
    """

    entities: Entities
    sizes: tuple[int, ...]
    activation: str = "tanh"
    layer_norm: bool = False
    embedding: int = 32
    """E, the features of an entity."""
    related: bool = False
    """Whether embeddings also see how near the entities are to each other, see `relations`."""

    @nn.compact
    def __call__(self, obs: jax.Array, extra: jax.Array | None = None) -> tuple[jax.Array, Pointed | None]:
        own, around = self.entities.own(obs), {}
        if self.related and self.entities.placed:
            agent, around = relations(self.entities, obs)
            own = jnp.concatenate([own, agent], axis=-1)
        seen, pointed = [own], []
        for group in self.entities.groups:
            embeddings = self._embeddings(group, obs, own, around.get(group.kind))
            # Sums of many would saturate the next layer, and means hide how many there are: this is in between.
            seen.append(embeddings.sum(axis=-2) * np.float32(group.count**-0.5))
            if group.actions:
                pointed.append(Pointed(embeddings, group.actions))
        seen += [] if extra is None else [extra]
        features = MLP(self.sizes, self.activation, self.layer_norm)(jnp.concatenate(seen, axis=-1))
        if not pointed:
            return features, None
        actions = sum((group.actions for group in pointed), ())
        return features, Pointed(jnp.concatenate([group.embeddings for group in pointed], axis=-2), actions)

    def _embeddings(self, group: Group, obs: jax.Array, own: jax.Array, around: jax.Array | None) -> jax.Array:
        """Of each entity of a kind, `[..., K, E]`: one layer without a bias, so those of absent ones are 0."""
        rows = group.rows(obs)
        there = present(rows)[..., None].astype(rows.dtype)
        rows = rows if around is None else jnp.concatenate([rows, around], axis=-1)
        # One product for all inputs; added later, the agent's own features would take half as long again on a CPU.
        inputs = jnp.concatenate([rows, there, there * own[..., None, :]], axis=-1)
        x = Dense(self.embedding, orthogonal(np.sqrt(2)), use_bias=False, name=group.kind)(inputs)
        x = on_rows(nn.LayerNorm(use_bias=False, name=f"{group.kind}_norm"), x) if self.layer_norm else x
        return ACTIVATIONS[self.activation](x)


def choices(
    num_actions: int, scale: float, features: jax.Array, pointed: Pointed | None, num_bins: int | None = None
) -> jax.Array:
    """A number for each of A actions, `[..., A]`, by a layer called `output` in the module that calls this.

    An action that points at an entity gets the inner product of the entity's embedding and a query, plus a number that
    all such actions share. The layer computes the query and the numbers from the features, so the number of parameters
    does not depend on the number of entities.

    Args:
        num_actions: A.
        scale: Of the layer's initial weights.
        features: `[..., H]`.
        pointed: What actions point at, if they do.
        num_bins: How many numbers each action gets, `[..., A, num_bins]`; None for one, without that axis.
    """
    count = num_actions
    if pointed is not None:
        count += 1 + pointed.embeddings.shape[-1] - len(pointed.actions)
    outputs = Dense(count * (num_bins or 1), orthogonal(scale), name="output")(features)
    if num_bins is None:
        return _choices(num_actions, outputs, pointed)
    outputs = outputs.reshape(*outputs.shape[:-1], count, num_bins)
    return jax.vmap(lambda outputs: _choices(num_actions, outputs, pointed), -1, -1)(outputs)


def _choices(num_actions: int, outputs: jax.Array, pointed: Pointed | None) -> jax.Array:
    """The number of each action, `[..., A]`, from a layer's outputs: those themselves if no action points."""
    if pointed is None:
        return outputs
    others = [action for action in range(num_actions) if action not in pointed.actions]
    size = pointed.embeddings.shape[-1]
    plain, common, query = jnp.split(outputs, [len(others), len(others) + 1], axis=-1)
    pointing = common + jnp.einsum("...e,...pe->...p", query, pointed.embeddings) * np.float32(size**-0.5)
    order = np.argsort([*others, *pointed.actions])
    values = jnp.concatenate([plain, pointing], axis=-1)
    return values if np.array_equal(order, np.arange(num_actions)) else values[..., order]
