"""A torso for observations that are made of entities, with weights shared by those of a kind; actions that point.

Deep sets (Zaheer et al. 2017, https://arxiv.org/abs/1703.06114): embed each entity, sum the embeddings. So the order of
entities means nothing, and the same parameters fit any number of them. The value of an action that points at an entity
depends on its embedding, as in pointer networks (Vinyals et al. 2015, https://arxiv.org/abs/1506.03134).

An entity's own features say where it is as the agent sees it, and sums over embeddings do not say who is next to whom:
for example, whether an enemy is nearer to a team-mate, and so will shoot at that one. `relations` are numbers from the
distances between all pairs that embeddings can see: who is nearest, and how many are within reach. They need no
parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group, present
from jaxrl.nn.layers import ACTIVATIONS, MLP, Dense, on_rows, orthogonal
from jaxrl.rl.devices import target

__all__ = ["EntityTorso", "Pointed", "Relations", "choices", "relations"]

_FAR = np.float32(2.0)
_TINY = 1e-12  # below the square of any distance, so that the square root has a slope everywhere
_BLOCK = 512  # observations whose pairs fit a CPU's cache


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


class Relations(NamedTuple):
    """What is around the agent and around each entity, for K kinds with places and R reaches.

    The numbers about the agent, in brackets, are left out where places are not relative to it.
    """

    agent: jax.Array
    """`[..., K (R + K)]`, or `[..., 0]`. For each kind: how many are within each reach; how far the nearest is; for
    each other kind, of how many the agent is nearer than all of that kind."""
    entities: dict[str, jax.Array]
    """For each kind, `[..., count, (R + 1 +) (K - 1) (R + 2 (+ 1))]`. For each of the kind (whether it is within each
    reach of the agent, and how far from it); then, for each other kind: how many are within each reach of it, how far
    the nearest is, (whether the agent is nearer than that), and for how many it is the nearest of its own kind."""


def relations(entities: Entities, obs: jax.Array) -> Relations:
    """Who is near whom in observations `[..., D]`.

    These numbers are about the agent and about entities of different kinds; distances within a kind made learning
    slower (`baselines/history.md`). Distances are in the units of places, and at most 2, also where nobody is. Being
    within a reach ends gradually, between three and five quarters of it. Counts of a kind are divided by the square
    root of the kind's size, like other sums over entities. All is 0 for absent entities.

    Args:
        entities: What observations are made of; groups without places are left out.
        obs: The observations.
    """
    rows = obs.reshape(-1, obs.shape[-1])
    found = _in_blocks(partial(_relations, entities), rows)
    return jax.tree.map(lambda leaf: leaf.reshape(*obs.shape[:-1], *leaf.shape[1:]), found)


def _relations(entities: Entities, obs: jax.Array) -> Relations:
    """`relations` for observations `[B, D]`.

    Inside, the batch axis comes last, so that each pair is computed for many observations at once. All reductions are
    over the axis before it, because XLA is many times slower on a CPU over an axis farther away; so the pairs of two
    kinds are computed twice, with either kind first.
    """
    reaches, groups = entities.reaches, {group.kind: group for group in entities.placed}
    rows = {kind: group.rows(obs) for kind, group in groups.items()}
    place = {kind: jnp.moveaxis(rows[kind][..., list(group.place)], 0, -1) for kind, group in groups.items()}
    there = {kind: jnp.moveaxis(present(row), 0, -1) for kind, row in rows.items()}
    scale = {kind: np.float32(group.count**-0.5) for kind, group in groups.items()}
    squares = {(one, other): _pairs(place, there, one, other) for one, other in itertools.permutations(groups, 2)}
    nearest = {pair: square.min(axis=1) for pair, square in squares.items()}
    agent, around = [], {}
    for kind in groups:
        from_agent = _square(place[kind], there[kind])
        own, seen = jnp.sqrt(from_agent), []
        if entities.relative:
            agent += [*(each.sum(axis=0) * scale[kind] for each in _within(own, reaches)), own.min(axis=0)]
            seen += [*_within(own, reaches), own]
        for other in [name for name in groups if name != kind]:
            square, near = squares[kind, other], nearest[kind, other]
            seen += [each.sum(axis=1) * scale[other] for each in _within(jnp.sqrt(square), reaches)]
            seen.append(jnp.sqrt(near))
            if entities.relative:
                agent_first = from_agent < near
                seen.append(agent_first.astype(near.dtype))
                agent.append(agent_first.sum(axis=0) * scale[kind])
            first = (square <= nearest[other, kind]) & (square < _FAR**2)
            seen.append(first.sum(axis=1) * scale[other])
        if seen:
            around[kind] = jnp.moveaxis(jnp.stack(seen, axis=1) * there[kind][:, None], -1, 0)
    about_agent = jnp.stack(agent, axis=-1) if agent else jnp.zeros((obs.shape[0], 0))
    return Relations(about_agent, around)


def _pairs(place: dict[str, jax.Array], there: dict[str, jax.Array], one: str, other: str) -> jax.Array:
    """How far each of one kind is from each of another, squared: `[K, K', B]`."""
    offset = place[one][:, None] - place[other]
    return _square(offset, there[one][:, None] & there[other])


def _square(offset: jax.Array, valid: jax.Array) -> jax.Array:
    """`offset[..., X, B]` as squares of distances `[..., B]`; far where an entity is absent."""
    square = jnp.square(offset).sum(axis=-2)
    return jnp.where(valid, jnp.clip(square, _TINY, _FAR**2), _FAR**2)


def _within(distance: jax.Array, reaches: tuple[float, ...]) -> list[jax.Array]:
    """For each reach, how much each of `distance[...]` is within it, from 0 to 1."""
    return [jnp.clip(2.5 - distance * np.float32(2 / reach), 0.0, 1.0) for reach in reaches]


def _in_blocks(function: Callable[[jax.Array], Relations], rows: jax.Array) -> Relations:
    """`function(rows)` for `rows[B, D]`, on a CPU for so many of them at once that all stays in its cache."""
    count = rows.shape[0]
    if jax.export.is_symbolic_dim(count) or count <= _BLOCK or target() != "cpu":
        return function(rows)
    blocks = -(-count // _BLOCK)
    size = -(-count // blocks)
    padded = jnp.pad(rows, ((0, blocks * size - count), (0, 0))).reshape(blocks, size, -1)
    found = jax.lax.map(function, padded)
    return jax.tree.map(lambda leaf: leaf.reshape(blocks * size, *leaf.shape[2:])[:count], found)
