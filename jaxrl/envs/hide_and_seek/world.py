"""The parts of hide-and-seek: agents, objects, walls, the constants that they obey, and both as physics takes them."""

from __future__ import annotations

import dataclasses
from functools import reduce
from operator import add, or_
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import as_arrays
from jaxrl.envs.hide_and_seek.geometry import Rect

__all__ = [
    "HALF_SIZES",
    "HIDER",
    "SEEKER",
    "Agents",
    "Cast",
    "Kind",
    "Objects",
    "Params",
    "State",
    "Tally",
    "any_of",
    "default_params",
    "total",
]

HIDER, SEEKER = 0, 1  # the two teams
Kind = Literal["box", "long", "ramp"]
HALF_SIZES: dict[Kind, tuple[float, float]] = {"box": (0.25, 0.25), "long": (0.825, 0.075), "ramp": (0.25, 0.25)}
"""Half the length and width of an object in metres: a cube of 0.5 m, one stretched by 3.3 and 0.3, and a wedge."""


@dataclasses.dataclass(frozen=True)
class Cast:
    """Who and what there is: A agents, hiders first; O objects, boxes first, then long boxes, then ramps."""

    num_hiders: int
    num_seekers: int
    num_boxes: int
    num_long_boxes: int
    num_ramps: int

    @property
    def num_agents(self) -> int:
        """A."""
        return self.num_hiders + self.num_seekers

    @property
    def num_objects(self) -> int:
        """O."""
        return len(self.kinds)

    @property
    def teams(self) -> tuple[int, ...]:
        """The team of each agent."""
        return (HIDER,) * self.num_hiders + (SEEKER,) * self.num_seekers

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each object."""
        counts: tuple[tuple[Kind, int], ...] = (
            ("box", self.num_boxes),
            ("long", self.num_long_boxes),
            ("ramp", self.num_ramps),
        )
        return tuple(kind for kind, count in counts for _ in range(count))

    @property
    def is_ramp(self) -> np.ndarray:
        """Which objects are ramps, bool `[O]`."""
        return np.array([kind == "ramp" for kind in self.kinds], bool)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tally:
    """The tally of this episode; P = 2 phases, preparation and hunt; G = 2 groups, boxes and ramps."""

    seen: jax.Array
    """float32, steps of the hunt in which a seeker saw a hider."""
    moved: jax.Array
    """float32 `[P, G]`, metres that objects have moved."""
    locked: jax.Array
    """float32 `[P, G]`, objects that were locked at the end of a phase, or are now."""
    climbs: jax.Array
    """float32 `[P]`, how often an agent has reached the top of a ramp."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A world at one moment. Headings are unit vectors; lengths are in metres, times in seconds."""

    position: jax.Array
    """float32 `[A, 2]`."""
    velocity: jax.Array
    """float32 `[A, 2]`."""
    heading: jax.Array
    """float32 `[A, 2]`, where the agent looks."""
    spin: jax.Array
    """float32 `[A]`, radians per second, counterclockwise."""
    height: jax.Array
    """float32 `[A]`: 0 on the floor, 1 on top of a ramp, a wall or a box."""
    held: jax.Array
    """int32 `[A]`, the object that the agent holds, or -1."""
    grip: jax.Array
    """float32 `[A, 4]`: place and heading of the held object, seen from the agent, when it was taken."""
    object_position: jax.Array
    """float32 `[O, 2]`."""
    object_heading: jax.Array
    """float32 `[O, 2]`; a ramp rises in this direction."""
    object_velocity: jax.Array
    """float32 `[O, 2]`, the last step's movement per second."""
    locked_by: jax.Array
    """int32 `[O]`, the team that has locked the object, or -1."""
    walls: jax.Array
    """float32 `[W, 4]`: upright rectangles, centre and half sizes. One that is not there has size 0 and is far away."""
    doors: jax.Array
    """float32 `[D, 3]`: the centres of the doors, and 1 if open, 0 if closed."""
    sight: jax.Array
    """bool `[A, A + O]`, which agents and objects each agent sees."""
    tally: Tally
    step: jax.Array
    """int32, steps since the episode began."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Physics, senses and rules as arrays: `vmap` over them for different worlds."""

    time_step: Any = 0.075
    """Seconds of a step."""
    max_steps: Any = 80
    preparation: Any = 32
    """Steps at the beginning of an episode in which seekers cannot move and nobody is rewarded."""
    floor: Any = 6.0
    """Side of the square floor."""
    border: Any = 0.1
    """Thickness of the wall around it."""
    wall_thickness: Any = 0.1
    door_width: Any = 0.4
    door_closed: Any = 0.0
    """Probability that a door is closed for an episode."""
    door_spread: Any = 1.0
    """Where in its wall a door is: 1 anywhere, 0 in the middle, between closer to it."""
    box_to_door: Any = 0.0
    """Where boxes begin in `room` and `quadrant`: 0 anywhere, 1 before a door, between that share of the way."""
    wall_share: Any = 0.5
    """Probability of each of the twelve walls of `chase`."""
    agent_radius: Any = 0.15
    agent_mass: Any = 1.0
    force: Any = 22.5
    """Newtons of a full push, along x and along y."""
    damping: Any = 10.0
    """Newtons per metre per second: with the full push along x, an agent runs at 2.25 m/s."""
    turn_force: Any = 40.0
    """Radians per second squared of a full turn; with the damping, 4 rad/s at most."""
    turn_damping: Any = 10.0
    max_travel: Any = 0.1
    """The farthest that an agent moves within a substep of a third of a step; an object moves up to 1.5 times that."""
    reach: Any = 0.25
    """From the middle of an agent to the surface of what it grabs or locks."""
    grip_length: Any = 1.5
    """A grip breaks beyond this many times the reach."""
    climb_step: Any = 0.2
    """The height above itself to which an agent can step on a ramp's floor; the whole ramp rises by 1."""
    high: Any = 0.9
    """The height from which an agent walks over walls and boxes and looks over them."""
    fall_speed: Any = 2.0
    """Height lost per second without support."""
    half_vision: Any = 3 * np.pi / 8
    """Half the angle of the vision cone, in radians; pi for a look all around."""
    lidar_range: Any = 6.0
    leave_penalty: Any = 10.0
    """The loss of a team per step for each of its agents that stands on or beyond the wall around the floor."""
    object_size: Any = None
    """float32 `[O, 2]`, half the length and width of each object."""
    object_mass: Any = None
    """float32 `[O]`."""


def default_params(cast: Cast, max_steps: int, preparation: int) -> Params:
    """The constants of the original (Baker et al. 2019, with the corrections that docs/hide_and_seek.md lists)."""
    sizes = np.array([HALF_SIZES[kind] for kind in cast.kinds], np.float32).reshape(-1, 2)
    masses = np.ones(cast.num_objects, np.float32)
    return as_arrays(
        Params(max_steps=max_steps, preparation=preparation, object_size=sizes, object_mass=masses),
    )


class Agents(NamedTuple):
    """The A agents, fields `[A, …]`."""

    x: jax.Array
    y: jax.Array
    vx: jax.Array
    vy: jax.Array
    cos: jax.Array
    sin: jax.Array
    spin: jax.Array
    height: jax.Array


class Objects(NamedTuple):
    """The O objects, fields `[O, …]`."""

    x: jax.Array
    y: jax.Array
    cos: jax.Array
    sin: jax.Array

    def rect(self, params: Params) -> Rect:
        """Their shapes."""
        size = jnp.asarray(params.object_size)
        return Rect(self.x, self.y, size[:, 0], size[:, 1], self.cos, self.sin)


def total(rows: Any) -> Any:
    """The sum over the first axis, row by row: XLA fuses that into one loop over the batch."""
    return reduce(add, [rows[i] for i in range(len(rows))])


def any_of(rows: Any) -> Any:
    """True if any of the first axis is true, likewise."""
    return reduce(or_, [rows[i] for i in range(len(rows))])
