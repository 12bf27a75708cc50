"""JaxNav: robots drive to their goals among walls and each other, and see by lidar."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays
from jaxrl.envs.batching import same_key
from jaxrl.envs.jaxnav.draw import draw
from jaxrl.envs.jaxnav.rules import (
    FARTHEST,
    Params,
    State,
    advance,
    distance_to_squares,
    distance_to_walls,
    reward,
    wrapped,
)
from jaxrl.envs.options import number, one_of, whole
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["JaxNav"]

_SPEEDS, _TURNS = (0.0, 0.5, 1.0), (0.5, 0.25, 0.0, -0.25, -0.5)
_ORDERS = np.array([(speed, turn) for speed in _SPEEDS for turn in _TURNS], np.float32)
_OWN = 5  # numbers of an observation besides the lidar's


class JaxNav(MultiAgentEnvironment):
    """Robots with a differential drive (Rutherford et al. 2024, https://arxiv.org/abs/2408.15099).

    Subclasses say how an episode starts.

    Args:
        num_agents: N, the robots.
        action_type: `"continuous"` or `"discrete"`.
        num_beams: R, the beams of the lidar, the first and the last one straight back.
        lidar_range: How far they reach, metres.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range.

    Observation `[R + 5]`: what the beams measure and the distance of the goal, both at most `lidar_range` and from -0.5
    to 0.5; speed, from -0.5 to 0.5, and turn, from -1 to 1; the goal's direction, from -1 to 1; `own_share` - 0.5.
    Action, continuous: Box(low=[0, -pi/6], high=[1, pi/6]), the speed (m/s) and turn (rad/s) to head for. Discrete(15):
    speeds 0, 0.5 and 1, each with the turns 0.5, 0.25, 0, -0.25 and -0.5.
    Reward: see `Params`. Terminated once every robot has arrived or crashed; won if all have arrived.
    """

    agent_info = ("arrived", "crashed")

    def __init__(
        self,
        num_agents: int,
        *,
        action_type: str = "continuous",
        num_beams: int = 200,
        lidar_range: float = 6.0,
        max_steps: int = 500,
    ) -> None:
        self.agents = tuple(f"agent_{i}" for i in range(whole("num_agents", num_agents)))
        self.action_type = one_of("action_type", action_type, ("continuous", "discrete"))
        self.num_beams = whole("num_beams", num_beams, 2)
        self.lidar_range = number("lidar_range", lidar_range)
        if not 0 < self.lidar_range <= FARTHEST:
            raise ValueError(f"lidar_range must be more than 0 and at most {FARTHEST} metres, got {lidar_range}.")
        self._default_params = as_arrays(Params(max_steps=whole("max_steps", max_steps)))

    def level(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """The start of an episode: position `[N, 2]`, heading `[N]`, goal `[N, 2]`, walls `[H, W]`. Consumes `key`."""
        raise NotImplementedError

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Any = None) -> Box:
        return Box(-np.inf, np.inf, (self.num_beams + _OWN,))

    def action_space(self, params: Any = None) -> Box | Discrete:
        if self.action_type == "discrete":
            return Discrete(len(_ORDERS))
        turn = np.float32(np.pi / 6)
        return Box(np.array([0.0, -turn], np.float32), np.array([1.0, turn], np.float32), (2,))

    split_key = same_key  # only starts draw from it

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        position, heading, goal, walls = self.level(key, params)
        nobody = jnp.zeros(self.num_agents, bool)
        still = jnp.zeros((self.num_agents, 2), jnp.float32)
        state = State(position, heading, still, nobody, nobody, goal, walls, jnp.zeros((), jnp.int32))
        return self.observation(state, params), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        action = self.action_space().clip(action)
        after = advance(state, jnp.asarray(_ORDERS)[action] if self.action_type == "discrete" else action, params)
        seen = self.lidar(after, params)
        earned = reward(state, after, seen.min(axis=1), params)
        terminated = jnp.all(after.arrived | after.crashed)
        truncated = (after.step >= params.max_steps) & ~terminated
        info = {"won": jnp.all(after.arrived), "arrived": after.arrived, "crashed": after.crashed}
        return self._observation(after, seen, params), after, earned, terminated, truncated, info

    def observation(self, state: State, params: Any = None) -> jax.Array:
        params = self._params(params)
        return self._observation(state, self.lidar(state, params), params)

    def agent_mask(self, state: State, params: Any = None) -> jax.Array:
        """Who has not crashed: bool `[N]`. Who has arrived drives on, and may yet crash."""
        return ~state.crashed

    def global_state(self, state: State, params: Any = None) -> jax.Array:
        """Inner cells that are walls, then of each robot position, direction, goal, velocity, whether it has crashed
        and arrived, then the time: float32 `[(H - 2) (W - 2) + 10 N + 1]`; places are from -0.5 to 0.5.
        """
        params = self._params(params)
        size = np.array(state.walls.shape[::-1], np.float32)
        fastest = jnp.stack([params.max_speed, params.max_turn])
        each = [state.position / size - 0.5, state.goal / size - 0.5, state.velocity / fastest]
        each += [f(state.heading)[:, None] for f in (jnp.cos, jnp.sin)]
        each += [flag[:, None] for flag in (state.crashed, state.arrived)]
        time = state.step / params.max_steps - 0.5
        parts = (state.walls[1:-1, 1:-1].reshape(-1), jnp.concatenate(each, axis=1).reshape(-1), time[None])
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])

    def draw(self, states: State, params: Any = None) -> Scene:
        params = self._params(params)
        beams = jax.jit(jax.vmap(self.lidar, (0, None)))(states, params)
        return draw(self.name, states, np.asarray(beams, np.float64), self.beam_angles, params)

    @property
    def beam_angles(self) -> np.ndarray:
        """The directions of the beams relative to a robot's heading, float32 `[R]`."""
        return np.linspace(-np.pi, np.pi, self.num_beams).astype(np.float32)

    def lidar(self, state: State, params: Params) -> jax.Array:
        """The way of the beams before a wall or another robot, metres, `[N, R]`."""

        def scan(own: jax.Array, position: jax.Array, heading: jax.Array) -> jax.Array:
            angle = heading + self.beam_angles
            reach = self.lidar_range
            walls = distance_to_walls(position, angle, state.walls, reach)
            others = distance_to_squares(position, angle, state.position, state.heading, params.half_width, reach)
            return jnp.minimum(walls, jnp.min(jnp.where(own[:, None], reach, others), axis=0))

        return jax.vmap(scan)(jnp.eye(self.num_agents, dtype=bool), state.position, state.heading)

    def _observation(self, state: State, seen: jax.Array, params: Params) -> jax.Array:
        way = state.goal - state.position
        distance = jnp.minimum(jnp.linalg.norm(way, axis=1), self.lidar_range)
        bearing = wrapped(jnp.arctan2(way[:, 1], way[:, 0]) - state.heading)
        own: tuple[Any, ...] = (
            state.velocity[:, 0] / params.max_speed - 0.5,
            state.velocity[:, 1] / params.max_turn,
            distance / self.lidar_range - 0.5,
            bearing / np.float32(np.pi),
            jnp.broadcast_to(params.own_share - 0.5, distance.shape),
        )
        return jnp.concatenate([seen / self.lidar_range - 0.5, jnp.stack(own, axis=1)], axis=1)
