"""The scenarios of predators and prey: tag, FACMAC's (Peng et al. 2021), and world comm.

Tag and world comm are from Lowe et al. (2017).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Group
from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join, leaving, nearest, others, rows, teams_of, touches
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import number, one_of, whole

__all__ = ["SimpleFacmac", "SimpleTag", "SimpleWorldComm", "catches", "predators", "prey"]


def predators(count: int, name: str = "adversary", first: int = 0) -> list[Agent]:
    """`count` slow and large agents, team 0."""
    return [Agent(f"{name}_{first + i}", size=0.075, accel=3.0, max_speed=1.0) for i in range(count)]


def prey(count: int, size: float = 0.05) -> list[Agent]:
    """`count` fast and small agents, team 1."""
    return [Agent(f"agent_{i}", size=size, accel=4.0, max_speed=1.3, team=1) for i in range(count)]


def catches(state: State, params: Params, num_predators: int, num_agents: int) -> jax.Array:
    """The number of predators that touch each prey: float32 `[prey]`."""
    hunters, hunted = slice(0, num_predators), slice(num_predators, num_agents)
    position, size = state.position, params.size
    return touches(position[hunted], size[hunted], position[hunters], size[hunters])


class SimpleTag(ParticleEnv):
    """Slower adversaries try to touch the good agents; obstacles are in the way of both.

    Args:
        num_good: Good agents, the prey.
        num_adversaries: Predators.
        num_obstacles: Obstacles.
        action_type: `"discrete"` or `"continuous"`.
        max_steps: Steps per episode.

    Each agent sees: its velocity and position; obstacles, then the other agents, from where it is; the velocities of
    the (other) good agents.
    Reward of an adversary: 10 for each touch by any of its team. Reward of a good agent: -10 for each
    adversary that touches it, minus a penalty for leaving the square (`features.leaving`).
    """

    def __init__(
        self,
        *,
        num_good: int = 1,
        num_adversaries: int = 3,
        num_obstacles: int = 2,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        self.num_adversaries = whole("num_adversaries", num_adversaries)
        agents = [*predators(num_adversaries), *prey(whole("num_good", num_good))]
        obstacle = Landmark("obstacle", size=0.2, collides=True, start=0.9)
        world = World(agents, landmarks=[obstacle] * whole("num_obstacles", num_obstacles, 0))
        super().__init__(world, action_type=action_type, max_steps=max_steps)

    @property
    def teams(self) -> tuple[int, ...]:
        """The adversaries share their reward, and each good agent has its own."""
        return teams_of(self.num_adversaries, *[1] * (self.num_agents - self.num_adversaries))

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        hunters, count = self.num_adversaries, self.num_agents
        agents, obstacles = state.position[:count], state.position[count:]
        prey_velocity = state.velocity[hunters:]
        seen = []
        for i in range(count):
            velocities = prey_velocity if i < hunters else others(prey_velocity, i - hunters)
            around = obstacles - agents[i], others(agents, i) - agents[i]
            seen.append(join(state.velocity[i], agents[i], *around, velocities))
        return seen

    def groups(self) -> tuple[Group, ...]:
        """Obstacles, and the adversaries at places where both an adversary and a good agent see one.

        Which good agent an agent sees where depends on its own kind.
        """
        obstacles = len(self.world.landmarks)
        around = Group("obstacle", obstacles, ((4, 2),), place=(0, 1))
        return around, Group("adversary", self.num_adversaries - 1, ((4 + 2 * obstacles, 2),), place=(0, 1))

    def reward(self, state: State, params: Params) -> jax.Array:
        hunters, count = self.num_adversaries, self.num_agents
        caught = catches(state, params, hunters, count)
        good = -10 * caught - leaving(state.position[hunters:count])
        return rows(jnp.broadcast_to(10 * caught.sum(), (hunters,)), good)


_SPOTS = 100  # number of places that a prey considers in each step
_WAYPOINTS = 5


class Rules(NamedTuple):
    view_radius: Any
    """The sight of predators, in units."""


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


class SimpleWorldComm(ParticleEnv):
    """Predators with a leader hunt good agents, who look for food and can hide in forests.

    Args:
        num_good: Good agents.
        num_adversaries: Predators, including the leader.
        num_obstacles: Obstacles.
        num_food: Pieces of food.
        num_forests: Forests.
        num_words: Words of the leader's language.
        action_type: `"discrete"` (the leader: move + 5 word) or `"continuous"`.
        max_steps: Steps per episode.

    Each agent sees: its velocity and position; obstacles, food, forests, then the other agents, from where it is; then
    adversaries: the good agents' velocities, for each forest whether they are in it (1 or -1), what the leader said;
    good agents: for each forest whether they are in it, the other good agents' velocities.
    An agent sees another (else zeros stand for its place and velocity) if both are in the same forest or both in none.
    The leader sees every agent.
    Reward of an adversary: 5 for each touch by any of its team, minus 0.1 times its distance to the nearest
    good agent. Reward of a good agent: -5 for each adversary that touches it, 2 for each piece of food it touches,
    minus 0.05 times the distance to the nearest, minus twice the penalty for leaving the square (`features.leaving`).
    """

    def __init__(
        self,
        *,
        num_good: int = 2,
        num_adversaries: int = 4,
        num_obstacles: int = 1,
        num_food: int = 2,
        num_forests: int = 2,
        num_words: int = 4,
        action_type: ActionType = "discrete",
        max_steps: int = 25,
    ) -> None:
        hunters, good = whole("num_adversaries", num_adversaries), whole("num_good", num_good)
        self.num_adversaries, self.num_food = hunters, whole("num_food", num_food)
        self.num_forests, obstacles = whole("num_forests", num_forests, 0), whole("num_obstacles", num_obstacles, 0)
        leader = dataclasses.replace(*predators(1, "leadadversary"), words=whole("num_words", num_words))
        landmarks = [Landmark("obstacle", size=0.2, collides=True, start=0.9)] * obstacles
        landmarks += [Landmark("food", size=0.03, start=0.9)] * num_food
        landmarks += [Landmark("forest", size=0.3, start=0.9)] * num_forests
        world = World([leader, *predators(hunters - 1), *prey(good, size=0.045)], landmarks=landmarks)
        super().__init__(world, action_type=action_type, max_steps=max_steps)

    def observe(self, state: State, params: Params) -> list[jax.Array]:
        hunters, count = self.num_adversaries, self.num_agents
        agents, landmarks, velocity = state.position[:count], state.position[count:], state.velocity
        inside = self._inside(state, params)
        visible = self._visible(inside)
        seen = []
        for i in range(count):
            shown = others(visible[i], i)[:, None]
            place = jnp.where(shown, others(agents, i) - agents[i], 0.0)
            speed = jnp.where(shown, others(velocity, i), 0.0)[hunters - (i < hunters) :]
            around = velocity[i], agents[i], landmarks - agents[i], place
            forests = jnp.where(inside[i], 1.0, -1.0)
            seen.append(join(*around, *((speed, forests, state.message) if i < hunters else (forests, speed))))
        return seen

    def groups(self) -> tuple[Group, ...]:
        """Obstacles and food; whether a forest hides an agent stands at a place that depends on the agent's kind."""
        food = 4 + 2 * (len(self.world.landmarks) - self.num_food - self.num_forests)
        obstacles = Group("obstacle", (food - 4) // 2, ((4, 2),), place=(0, 1))
        return obstacles, Group("food", self.num_food, ((food, 2),), place=(0, 1))

    def reward(self, state: State, params: Params) -> jax.Array:
        hunters, count = self.num_adversaries, self.num_agents
        position, size, good = state.position, params.size, slice(hunters, count)
        last = len(self.world.bodies) - self.num_forests
        food = slice(last - self.num_food, last)
        caught = catches(state, params, hunters, count)
        hunt = 5 * caught.sum() - 0.1 * nearest(position[:hunters], position[good])
        meal = 2 * touches(position[good], size[good], position[food], size[food])
        meal -= 0.05 * nearest(position[good], position[food])
        return rows(hunt, meal - 5 * caught - 2 * leaving(position[good]))

    def _inside(self, state: State, params: Params) -> jax.Array:
        """Which agent touches which forest: bool `[N, forests]`."""
        first, count = len(self.world.bodies) - self.num_forests, self.num_agents
        touch = params.size[:count, None] + params.size[first:]
        return distance(state.position[:count, None], state.position[first:]) < touch

    def _visible(self, inside: jax.Array) -> jax.Array:
        """Which agent (first axis) sees which: bool `[N, N]`."""
        together = (inside[:, None] & inside).any(-1)
        hidden = inside.any(-1)
        in_the_open = ~hidden[:, None] & ~hidden
        leader = np.arange(self.num_agents)[:, None] == 0
        return together | in_the_open | leader
