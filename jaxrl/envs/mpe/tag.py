"""Tag: slow predators hunt fast prey among obstacles. Lowe et al. (2017)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.entities import Group
from jaxrl.envs.mpe.env import ActionType, ParticleEnv
from jaxrl.envs.mpe.features import join, leaving, others, rows, teams_of, touches
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.envs.options import whole

__all__ = ["SimpleTag", "catches", "predators", "prey"]


def predators(count: int, name: str = "adversary", first: int = 0) -> list[Agent]:
    """`count` slow and large agents, team 0."""
    return [Agent(f"{name}_{first + i}", size=0.075, accel=3.0, max_speed=1.0) for i in range(count)]


def prey(count: int, size: float = 0.05) -> list[Agent]:
    """`count` fast and small agents, team 1."""
    return [Agent(f"agent_{i}", size=size, accel=4.0, max_speed=1.3, team=1) for i in range(count)]


def catches(state: State, params: Params, num_predators: int, num_agents: int) -> jax.Array:
    """How many predators touch each prey: float32 `[prey]`."""
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
