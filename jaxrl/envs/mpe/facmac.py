"""FACMAC's predator and prey: a team with limited sight hunts scripted prey. Peng et al. (2021)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Group
from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join, others, teams_of
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.tag import catches, predators, prey
from jaxrl.envs.mpe.world import Landmark, Params, State, World
from jaxrl.envs.options import number, one_of, whole

__all__ = ["SimpleFacmac"]

_SPOTS = 100  # number of places that a prey considers in each step
_WAYPOINTS = 5


class Rules(NamedTuple):
    view_radius: Any
    """How far predators see, in units."""


class SimpleFacmac(ParticleEnv):
    """Predators, all of them agents, hunt prey that flees by a script.

    Args:
        num_adversaries: Predators, N.
        num_good: Prey (default: one per three predators).
        num_obstacles: Obstacles (default: two per three predators).
        view_radius: How far predators see; infinite is allowed.
        score: The goal of prey: `"min"`, far from the currently nearest predator, or `"sum"`, far from all others.
        action_type: `"continuous"` or `"discrete"`.
        max_steps: Steps per episode.

    Each agent sees: its velocity and position; obstacles, then the other predators and the prey, from where it is; the
    prey's velocities. Anything farther away than `view_radius` is zeros.
    Reward of all: 10 for each touch between predator and prey.

    Prey looks at 100 random spots within a unit of it, leaves out those where it would touch a predator (with `"sum"`:
    or anybody else, at five points on the way), and pushes with that vector as its force towards the best; it does
    nothing if none is left.
    """

    def __init__(
        self,
        *,
        num_adversaries: int = 3,
        num_good: int | None = None,
        num_obstacles: int | None = None,
        view_radius: float = 1.5,
        score: Literal["min", "sum"] = "sum",
        action_type: ActionType = "continuous",
        max_steps: int = 25,
    ) -> None:
        hunters = whole("num_adversaries", num_adversaries)
        good = max(hunters // 3, 1) if num_good is None else whole("num_good", num_good)
        obstacles = max(2 * hunters // 3, 1) if num_obstacles is None else whole("num_obstacles", num_obstacles, 0)
        if not number("view_radius", view_radius) >= 0:
            raise ValueError(f"view_radius must be at least 0 (float('inf') to see all), got {view_radius!r}.")
        self.score = one_of("score", score, ("min", "sum"))
        obstacle = Landmark("obstacle", size=0.2, collides=True, start=0.9)
        world = World(predators(hunters), prey(good), [obstacle] * obstacles)
        rules = Rules(float(view_radius))
        super().__init__(world, action_type=action_type, max_steps=max_steps, rules=rules)

    @property
    def teams(self) -> tuple[int, ...]:
        """All agents share their reward."""
        return teams_of(self.num_agents)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        count = len(self.world.movers)
        movers, obstacles = state.position[:count], state.position[count:]
        radius = params.rules.view_radius
        seen = []
        for i in range(self.num_agents):
            company = others(movers, i)
            near = (distance(company, movers[i]) <= radius)[:, None]
            place = jnp.where(near, company - movers[i], 0.0)
            speed = jnp.where(near, others(state.velocity, i), 0.0)[self.num_agents - 1 :]
            walls = jnp.where((distance(obstacles, movers[i]) <= radius)[:, None], obstacles - movers[i], 0.0)
            seen.append(join(state.velocity[i], movers[i], walls, place, speed))
        return seen

    def groups(self) -> tuple[Group, ...]:
        obstacles, hunters, good = len(self.world.landmarks), self.num_agents - 1, len(self.world.scripted)
        first = 4 + 2 * obstacles
        prey = first + 2 * hunters
        return (
            Group("obstacle", obstacles, ((4, 2),), place=(0, 1)),
            Group("adversary", hunters, ((first, 2),), place=(0, 1)),
            Group("agent", good, ((prey, 2), (prey + 2 * good, 2)), place=(0, 1)),
        )

    def reward(self, state: State, params: Params) -> jax.Array:
        caught = catches(state, params, self.num_agents, len(self.world.movers))
        return jnp.broadcast_to(10 * caught.sum(), (self.num_agents,))

    def script(self, key: jax.Array, state: State, params: Params) -> jax.Array:
        """The prey's force, `[prey, 2]`. Consumes `key`."""
        hunters, count = self.num_agents, len(self.world.movers)
        draws = jax.random.uniform(key, (2, count - hunters, _SPOTS), jnp.float32)
        length, angle = jnp.sqrt(draws[0]), 2 * np.pi * draws[1]
        vector = length[..., None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)  # [prey, spots, 2]
        value, free = (self._flee_nearest if self.score == "min" else self._flee_all)(vector, state, params)
        best = jnp.argmax(jnp.where(free, value, -1.0), axis=1)
        chosen = jnp.take_along_axis(vector, best[:, None, None], axis=1)[:, 0]
        return jnp.where(free.any(1)[:, None], chosen, 0.0)

    def _flee_nearest(self, vector: jax.Array, state: State, params: Params) -> tuple[jax.Array, jax.Array]:
        """The score of each spot, and whether it is free: `[prey, spots]`."""
        hunters, count = self.num_agents, len(self.world.movers)
        predator, hunted = state.position[:hunters], state.position[hunters:count]
        spot, size = hunted[:, None] + vector, params.size[hunters:count, None]
        nearest = jnp.argmin(distance(hunted[:, None], predator), axis=1)[:, None]
        value, free = jnp.zeros(spot.shape[:2], jnp.float32), jnp.ones(spot.shape[:2], bool)
        for i in range(hunters):  # one at a time, see `features`
            apart = distance(spot, predator[i])
            value = jnp.where(nearest == i, apart, value)
            free &= apart >= size + params.size[i]
        return value, free

    def _flee_all(self, vector: jax.Array, state: State, params: Params) -> tuple[jax.Array, jax.Array]:
        """The score of each spot, and whether the way there is free: `[prey, spots]`."""
        hunters, count = self.num_agents, len(self.world.movers)
        hunted, size = state.position[hunters:count], params.size[hunters:count]
        part = np.arange(1, _WAYPOINTS + 1, dtype=np.float32) / _WAYPOINTS
        way = hunted[:, None] + part[:, None, None, None] * vector  # [waypoints, prey, spots, 2]
        value, free = jnp.zeros(vector.shape[:2], jnp.float32), jnp.ones(vector.shape[:2], bool)
        for i in range(count):
            another = (np.arange(hunters, count) != i)[:, None]
            apart = distance(way, state.position[i])
            value += jnp.where(another, apart[-1], 0.0)
            free &= ~another | (apart >= size[:, None] + params.size[i]).all(0)
        return value, free
