"""World comm: tag with food, forests to hide in, and a leader that sees everything and speaks. Lowe et al. (2017)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Group
from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join, leaving, nearest, others, rows, touches
from jaxrl.envs.mpe.physics import distance
from jaxrl.envs.mpe.tag import catches, predators, prey
from jaxrl.envs.mpe.world import Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimpleWorldComm"]


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
