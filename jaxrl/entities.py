"""What an observation or a global state is made of: entities, such as units or landmarks, and other features."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.spaces import Box, Discrete, Space

__all__ = ["Entities", "Group", "present"]


@dataclasses.dataclass(frozen=True)
class Group:
    """Entities of one kind, whose order in the observation means nothing.

    An entity whose features are all zero is absent: dead, or out of sight.
    """

    kind: str
    """The name of the kind, such as `"enemy"`."""
    count: int
    """K, the most there can be."""
    parts: tuple[tuple[int, int], ...]
    """(start, size): from `start` on, the observation has `size` numbers about each of the K, one entity after another.
    With several parts, such as all places and then all speeds, an entity has features from each."""
    first_action: int | None = None
    """The action that points at the first of them; the next K - 1 point at the others. None if no actions do."""
    scale: tuple[float, ...] = ()
    """The factor of each of the F features, so that none is far beyond 1; () leaves them as they are."""
    place: tuple[int, ...] = ()
    """Which of the F features are its place, after scaling; () if none are. Those of all groups have the same axes and
    units."""

    @property
    def actions(self) -> tuple[int, ...]:
        """The action that points at each of them, `[K]`, or `()`."""
        return () if self.first_action is None else tuple(range(self.first_action, self.first_action + self.count))

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the parts are."""
        return tuple(slice(start, start + self.count * size) for start, size in self.parts)

    def rows(self, obs: jax.Array) -> jax.Array:
        """The features of each entity, scaled: `[..., D]` to `[..., K, F]`."""
        parts = [_cut(obs, where) for where in self.slices]
        rows = jnp.concatenate([part.reshape(*part.shape[:-1], self.count, -1) for part in parts], axis=-1)
        return rows * np.asarray(self.scale, np.float32) if self.scale else rows


def present(rows: jax.Array) -> jax.Array:
    """Which entities are there, bool `[..., K]`, from their features `[..., K, F]`."""
    return (rows != 0).any(axis=-1)


@dataclasses.dataclass(frozen=True)
class Entities:
    """What the observation `[D]` of each agent is made of, or a global state."""

    size: int
    """D."""
    groups: tuple[Group, ...]
    unused: tuple[tuple[int, int], ...] = ()
    """(start, size): parts that networks need not see, since they never change or repeat others."""
    reaches: tuple[float, ...] = ()
    """Distances that matter, in the units of places, such as the range of a weapon."""
    relative: bool = True
    """Whether places are relative to the agent; those in a global state are not."""

    @property
    def placed(self) -> tuple[Group, ...]:
        """The groups whose entities have places."""
        return tuple(group for group in self.groups if group.place)

    @property
    def own_slices(self) -> tuple[slice, ...]:
        """Where the agent's own features are: all that is neither an entity's nor unused."""
        return tuple(slice(start, stop) for start, stop in self._gaps() if start < stop)

    def own(self, obs: jax.Array) -> jax.Array:
        """The agent's own features: `[..., D]` to `[..., C]`."""
        return jnp.concatenate([_cut(obs, where) for where in (slice(0, 0), *self.own_slices)], axis=-1)

    def misfit(self, observation_space: Space, action_space: Space) -> str | None:
        """What does not fit these spaces, as a sentence; None if everything does."""
        if not isinstance(observation_space, Box) or observation_space.shape != (self.size,):
            return (
                f"entities are said to be in vectors of {self.size} numbers; observations are in {observation_space}."
            )
        for group in self.groups:
            features = sum(size for _, size in group.parts)
            if len(group.scale) not in (0, features):
                return f"entities has {len(group.scale)} scales for the {features} features of each {group.kind}."
            if not set(group.place) <= set(range(features)):
                return f"entities has the place {group.place} among the {features} features of each {group.kind}."
        if len({len(group.place) for group in self.placed}) > 1:
            return "entities has places with different numbers of axes."
        if not all(reach > 0 for reach in self.reaches):
            return f"entities has the reaches {self.reaches}; distances are above 0."
        kinds = [group.kind for group in self.groups]
        if len(set(kinds)) < len(kinds):
            return f"entities has two groups of the same kind: {', '.join(kinds)}."
        if any(start > stop for start, stop in self._gaps()) or any(group.count < 1 for group in self.groups):
            return f"entities has groups that are empty, overlap or leave the observation of {self.size} numbers."
        actions = [action for group in self.groups for action in group.actions]
        num_actions = action_space.n if isinstance(action_space, Discrete) else 0
        if len(set(actions)) < len(actions) or not set(actions) <= set(range(num_actions)):
            return f"entities are pointed at by the actions {actions}, which are none of {action_space}, or are twice."
        return None

    def _gaps(self) -> list[tuple[int, int]]:
        """Where each gap between neighbouring parts begins and ends; where parts overlap, it ends before it begins."""
        unused = [(start, start + size) for start, size in self.unused]
        taken = sorted([*unused, *((where.start, where.stop) for group in self.groups for where in group.slices)])
        starts, stops = [0, *(stop for _, stop in taken)], [*(start for start, _ in taken), self.size]
        return list(zip(starts, stops, strict=True))


def _cut(obs: jax.Array, where: slice) -> jax.Array:
    """A slice of the last axis; indexing would become a gather where another axis has no fixed size."""
    return jax.lax.slice_in_dim(jnp.asarray(obs), where.start, where.stop, axis=-1)
