"""The parts of a particle world: round bodies on a plane, their state, and the physics that they obey."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxrl.environment import as_arrays

__all__ = ["Agent", "Landmark", "Params", "State", "World", "default_params"]


@dataclasses.dataclass(frozen=True)
class Agent:
    """A controlled body. Lengths are in units of the plane, times in seconds."""

    name: str
    size: float = 0.05
    """Radius."""
    accel: float = 5.0
    """Force of a full action."""
    max_speed: float = math.inf
    collides: bool = True
    moves: bool = True
    words: int = 0
    """The number of words it can say; 0 means it is silent."""
    team: int = 0
    start: float = 1.0
    """The agent starts anywhere within -start … start, in x and y."""


@dataclasses.dataclass(frozen=True)
class Landmark:
    """A body that never moves."""

    name: str = "landmark"
    """Its kind: `"landmark"`, `"obstacle"`, `"food"` or `"forest"`."""
    size: float = 0.05
    collides: bool = False
    start: float = 1.0


@dataclasses.dataclass(frozen=True)
class World:
    """The bodies of a scenario in their order: agents with a policy, scripted agents, landmarks.

    P counts all agents, N those with a policy, L the landmarks, E = P + L all bodies, S the speakers.
    """

    agents: Sequence[Agent]
    scripted: Sequence[Agent] = ()
    landmarks: Sequence[Landmark] = ()

    def __post_init__(self) -> None:
        collides = [body.collides for body in self.bodies]
        if collides != sorted(collides, reverse=True):
            raise ValueError("Bodies that collide must come before those that do not; reorder agents or landmarks.")
        if len({agent.words for agent in self.agents if agent.words}) > 1 or any(a.words for a in self.scripted):
            raise ValueError("All speakers need a policy and the same number of words.")

    @property
    def movers(self) -> tuple[Agent, ...]:
        """All P agents, those with a policy first."""
        return (*self.agents, *self.scripted)

    @property
    def bodies(self) -> tuple[Agent | Landmark, ...]:
        """All E bodies."""
        return (*self.movers, *self.landmarks)

    @property
    def speakers(self) -> tuple[int, ...]:
        """The indices of the S agents that speak."""
        return tuple(i for i, agent in enumerate(self.agents) if agent.words)

    @property
    def words(self) -> int:
        """W, the number of words of a speaker (0 without speakers)."""
        return max(agent.words for agent in self.agents)

    @property
    def num_colliders(self) -> int:
        """The number of bodies that collide; they come first."""
        return sum(body.collides for body in self.bodies)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A particle world at one moment."""

    position: jax.Array
    """float32 `[E, 2]`, agents first, then landmarks."""
    velocity: jax.Array
    """float32 `[P, 2]`, units per second."""
    message: jax.Array
    """float32 `[S, W]`: the last message of each speaker, zeros at first."""
    goal: jax.Array
    """int32 `[G]`: numbers drawn for this episode besides positions; the scenario defines their meaning."""
    step: jax.Array
    """int32, steps since the episode began."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Physics and rules as arrays: `vmap` over them for different worlds."""

    time_step: Any
    """Seconds."""
    damping: Any
    """The share of its velocity that a body loses per step."""
    contact_force: Any
    """Force per unit of overlap."""
    contact_margin: Any
    """Softness of a body's edge, in units."""
    max_steps: Any
    size: Any
    """float32 `[E]`, radii."""
    start: Any
    """float32 `[E]`: bodies start within -start … start."""
    mass: Any
    """float32 `[P]`, masses."""
    accel: Any
    """float32 `[P]`, force of a full action."""
    max_speed: Any
    """float32 `[P]`, units per second; infinite without a limit."""
    rules: Any
    """The numbers of the scenario's own rules, or None."""


def default_params(world: World, rules: Any, max_steps: int) -> Params:
    """The parameters of a world, as NumPy arrays."""

    def column(name: str, bodies: Sequence[Any]) -> np.ndarray:
        return np.array([getattr(body, name) for body in bodies], np.float32)

    return as_arrays(
        Params(
            time_step=0.1,
            damping=0.25,
            contact_force=100.0,
            contact_margin=1e-3,
            max_steps=max_steps,
            size=column("size", world.bodies),
            start=column("start", world.bodies),
            mass=np.ones(len(world.movers), np.float32),
            accel=column("accel", world.movers),
            max_speed=column("max_speed", world.movers),
            rules=rules,
        )
    )
