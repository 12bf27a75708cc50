"""`jaxnav/random`: a new map, new starts and new goals in every episode."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.jaxnav.env import JaxNav
from jaxrl.envs.jaxnav.geometry import circle_is_free, neighbours
from jaxrl.envs.jaxnav.world import Params
from jaxrl.envs.options import flag, part, whole

__all__ = ["RandomMap", "regions"]

_TRIES = 64  # pairs of start and goal that are drawn at once
_ROUNDS = 16  # before the map loses walls
_MARGIN = 0.3  # of starts and goals, to the walls on the edge


class RandomMap(JaxNav):
    """Walls are drawn cell by cell; starts and goals keep clear of them and of each other.

    Where the robots find no room, a quarter of the walls go, as often as it takes.

    Args:
        num_agents: N, the robots.
        width: W, the cells along x, the edge included; a cell is 1 m wide.
        height: H, the cells along y, likewise.
        fill: The share of the inner cells that are walls at most; how many are, is drawn.
        reachable: Whether there is always a way to each goal. In JaxMARL, there need not be one.
        action_type: See `JaxNav`, like the following.
        num_beams: R.
        lidar_range: In metres.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range, or there are too many robots for the map.
    """

    def __init__(
        self,
        num_agents: int = 2,
        *,
        width: int = 11,
        height: int = 11,
        fill: float = 0.3,
        reachable: bool = True,
        action_type: str = "continuous",
        num_beams: int = 200,
        lidar_range: float = 6.0,
        max_steps: int = 500,
    ) -> None:
        super().__init__(
            num_agents,
            action_type=action_type,
            num_beams=num_beams,
            lidar_range=lidar_range,
            max_steps=max_steps,
        )
        self._default_params = dataclasses.replace(self._default_params, fill=np.float32(part("fill", fill)))
        self.shape = (whole("height", height, 5, 100), whole("width", width, 5, 100))
        self.reachable = flag("reachable", reachable)
        most = (self.shape[0] - 2) * (self.shape[1] - 2) // 6
        if self.num_agents > most:
            size = f"{width} by {height}"
            raise ValueError(f"A map of {size} cells has room for {most} robots, not {num_agents}; make it larger.")

    def level(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        key_walls, key_heading, key_place = jax.random.split(key, 3)
        heading = jax.random.uniform(key_heading, (self.num_agents,), jnp.float32, -np.pi, np.pi)
        count, order = self._walls(key_walls, params)

        def draw(tried: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            inner = (order < tried[0]).reshape(self.shape[0] - 2, self.shape[1] - 2)
            walls = jnp.ones(self.shape, bool).at[1:-1, 1:-1].set(inner)
            fewer = (3 * tried[0] - 1) // 4  # -1 after none at all
            return fewer, walls, *self._places(jax.random.clone(key_place), walls, params)

        def goes_on(tried: tuple[jax.Array, ...]) -> jax.Array:
            return ~tried[-1] & (tried[0] >= 0)

        nowhere = jnp.zeros((self.num_agents, 2), jnp.float32)
        none = (count, jnp.ones(self.shape, bool), nowhere, nowhere, jnp.zeros((), bool))
        _, walls, start, goal, _ = jax.lax.while_loop(goes_on, draw, none)
        return start, heading, goal, walls

    def _walls(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        """How many of the inner cells are walls, and the order in which they become walls, `[(H - 2) * (W - 2)]`.

        The number is uniform, from none to fewer than `fill` of the inner cells; all places are alike.
        """
        key_count, key_order = jax.random.split(key)
        inner = (self.shape[0] - 2) * (self.shape[1] - 2)
        most = jnp.maximum(jnp.floor(inner * params.fill), 1)
        count = jnp.floor(jax.random.uniform(key_count, (), jnp.float32) * most).astype(jnp.int32)
        return count, jnp.argsort(jax.random.uniform(key_order, (inner,), jnp.float32))

    def _places(self, key: jax.Array, walls: jax.Array, params: Params) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Starts and goals `[N, 2]`, one robot after another, and whether there is room for all."""
        around, region = neighbours(walls), regions(walls) if self.reachable else None
        far = jnp.full((self.num_agents, 2, 2), np.float32(1e6))

        def place(pairs: jax.Array, own: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            number, key_own = own

            def draw(tried: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
                drawn = self._pairs(jax.random.fold_in(key_own, tried[0]), params)
                fits = jax.vmap(lambda pair: _fits(pair, pairs, around, region, params))(drawn)
                return tried[0] + 1, drawn[jnp.argmax(fits)], jnp.any(fits)

            def goes_on(tried: tuple[jax.Array, ...]) -> jax.Array:
                return ~tried[2] & (tried[0] < _ROUNDS)

            none = (jnp.zeros((), jnp.int32), far[0], jnp.zeros((), bool))
            _, pair, found = jax.lax.while_loop(goes_on, draw, none)
            return pairs.at[number].set(pair), found

        numbers = jnp.arange(self.num_agents)
        pairs, found = jax.lax.scan(place, far, (numbers, jax.random.split(key, self.num_agents)))
        return pairs[:, 0], pairs[:, 1], jnp.all(found)

    def _pairs(self, key: jax.Array, params: Params) -> jax.Array:
        """Pairs of a start and a goal, `[_TRIES, 2, 2]`, inside the edge; the goal is in any direction."""
        key_start, key_distance, key_angle = jax.random.split(key, 3)
        low = np.full(2, 1 + _MARGIN, np.float32)
        high = np.array(self.shape[::-1], np.float32) - low
        start = jax.random.uniform(key_start, (_TRIES, 2), jnp.float32, low, high)
        farthest = jnp.maximum(high[1], params.least_distance)
        distance = jax.random.uniform(key_distance, (_TRIES,), jnp.float32, params.least_distance, farthest)
        angle = jax.random.uniform(key_angle, (_TRIES,), jnp.float32, -np.pi, np.pi)
        way = distance[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return jnp.stack([start, jnp.clip(start + way, low, high)], axis=1)


def regions(walls: jax.Array) -> jax.Array:
    """A number for each cell, int32 `[H, W]`, the same for cells with a way between them; -1 for walls."""
    number = jnp.where(walls, -1, jnp.arange(walls.size, dtype=jnp.int32).reshape(walls.shape))

    def spread(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        number, _ = carry
        most = number
        for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):  # the edge is wall, so rolling over it does no harm
            most = jnp.maximum(most, jnp.roll(number, shift, axis))
        most = jnp.where(walls, -1, most)
        return most, jnp.any(most != number)

    return jax.lax.while_loop(lambda carry: carry[1], spread, (number, jnp.ones((), bool)))[0]


def _fits(pair: jax.Array, others: jax.Array, around: jax.Array, region: jax.Array | None, params: Params) -> jax.Array:
    """Whether a start and its goal are clear of walls and of those of the other robots, and not too close."""
    start, goal = pair
    apart = jnp.linalg.norm(others - pair, axis=-1) > 2 * params.start_clearance
    fits = jnp.all(apart) & (jnp.linalg.norm(start - goal) > 2 * params.goal_clearance)
    fits &= circle_is_free(start, params.start_clearance, around) & circle_is_free(goal, params.goal_clearance, around)
    if region is None:
        return fits
    of_start, of_goal = (region[cell[1], cell[0]] for cell in jnp.floor(pair).astype(jnp.int32))
    return fits & (of_start == of_goal)
