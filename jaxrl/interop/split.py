"""Bodies of brax and MuJoCo Playground as teams: `jaxrl.make("brax:ant?split=4x2")`, or `Split(env, "4x2")`.

Each agent drives some of the actuators and observes the joints that these move, their neighbours, and the root. All of
it is read off MuJoCo's model by name. Splits and observations are those of MaMuJoCo (Peng et al. 2021,
https://arxiv.org/abs/2003.06709) as Gymnasium-Robotics has them in version `v1`, without the forces and inertias that
it adds for Ant and Humanoid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import as_whole
from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.errors import nearest
from jaxrl.interop.common import Adapted
from jaxrl.spaces import Box, Space

__all__ = ["Body", "Split", "parts_of", "split_if_asked"]

_ABDOMEN = "abdomen_x abdomen_y abdomen_z"
_ARMS = "right_shoulder1 right_shoulder2 right_elbow left_shoulder1 left_shoulder2 left_elbow"
_LEGS = "right_hip_x right_hip_y right_hip_z right_knee left_hip_x left_hip_y left_hip_z left_knee"
_WRIST = "r_forearm_roll_joint r_wrist_flex_joint r_wrist_roll_joint"
_NAMED = (
    ("2x4d", "hip_1 ankle_1 hip_4 ankle_4 | hip_2 ankle_2 hip_3 ankle_3"),
    ("2x3", "foot_joint leg_joint thigh_joint | foot_left_joint leg_left_joint thigh_left_joint"),
    ("9|8", f"{_ABDOMEN} {_ARMS} | {_LEGS}"),
    ("3p", f"r_shoulder_pan_joint r_shoulder_lift_joint r_upper_arm_roll_joint | r_elbow_flex_joint | {_WRIST}"),
)
"""MaMuJoCo's splits that do not follow the order of the joints, each for the body that drives just these."""
_HUMANOID = tuple(
    frozenset(joints.replace("*", side).split())
    for side in ("right", "left")
    for joints in (
        "*_knee *_hip_x *_hip_y *_hip_z",
        "*_elbow *_shoulder1 *_shoulder2",
        f"*_hip_x *_hip_y *_hip_z {_ABDOMEN}",
        f"*_shoulder1 *_shoulder2 {_ABDOMEN}",
    )
)
"""The neighbours in MaMuJoCo's humanoid; by the rule for all other bodies, the arms would be each other's."""
_HOPPER = frozenset(("thigh_joint", "leg_joint", "foot_joint"))
_HOPPERS_SPEED = 10.0  # the most that is observed of the hopper's velocities, in MaMuJoCo as in Gymnasium and brax

# MuJoCo's mjtJoint, mjtTrn and mjtWrap.
_FREE, _BALL, _SLIDE = 0, 1, 2
_ON_JOINT, _ON_JOINT_IN_PARENT, _ON_TENDON = 0, 1, 3
_ALONG_JOINT = 1
_WIDTHS = {_FREE: (7, 6), _BALL: (4, 3)}  # the numbers of qpos and qvel, else one of each


class Split(Adapted, MultiAgentEnvironment):
    """A body whose actuators are shared out among agents, one team with one reward.

    The actions of all agents, joined, step the body as one agent's would. Agents with fewer joints are padded. The
    global state is what one agent would observe, or what the library has for a critic alone. Each agent has a role of
    its own, because no two limbs observe and do the same; `sharing="all"` makes them share a network nevertheless.

    Args:
        single: The body as one agent, from `from_brax` or `from_mjx`.
        split: Who drives what, see `parts_of`.
        observe_joints: The distance, in joints, up to which an agent observes the positions of its neighbours; 0 for
            none; `"all"` if each agent observes what one agent would.

    Raises:
        TypeError: The environment has no MuJoCo model, or its actions are not those of its actuators.
        ValueError: There is no such split, or `observe_joints` is no whole number.
    """

    def __init__(self, single: Any, split: str | Mapping[str, Sequence[str]], observe_joints: int | str = 1) -> None:
        model = getattr(single, "mj_model", None)
        if model is None:
            raise TypeError(f"{single.name} has no MuJoCo model, and only bodies that have one can be split.")
        body, size = Body(model, single.name), single.action_space().shape[0]
        if not size or size != model.nu:
            raise TypeError(f"{single.name} cannot be split: it takes {size} numbers, and has {model.nu} actuators.")
        self.single, self.env, self.name, self.intended = single, single.env, single.name, single.intended
        self.actuators = parts_of(split, body)
        """The actuators that each agent drives, in the order of its actions."""
        self.agents = tuple(self.actuators)

        # What an agent observes, unless it is everything, is by number in qpos and qvel, behind which a zero pads.
        self._sees_all = observe_joints == "all"
        hops = 0 if self._sees_all else as_whole("observe_joints", observe_joints, least=0)
        numbers = {
            agent: body.observed({joint for actuator in own for joint in body.drives[actuator]}, hops)
            for agent, own in self.actuators.items()
        }
        self._numbers = _padded(numbers.values(), model.nq + model.nv)
        self._most_speed = _HOPPERS_SPEED if body.names == _HOPPER else np.inf
        names = body.number_names()
        self.observed = {agent: tuple(names[n] for n in own) for agent, own in numbers.items() if not self._sees_all}
        """The names of what each agent observes, such as `qpos hip_1`; empty if it is everything."""
        self._observation_space: Space = Box(-np.inf, np.inf, self._numbers.shape[1:])
        if self._sees_all:
            self._observation_space = single.observation_space()

        # Where the number for each actuator stands in the actions of all agents.
        drivers = _padded(self.actuators.values(), size)
        self._slots = np.argsort(drivers, axis=None, kind="stable")[:size]
        self._action_space: Space = Box(-1.0, 1.0, drivers.shape[1:])

    @property
    def teams(self) -> tuple[int, ...]:
        """One team for all."""
        return (0,) * self.num_agents

    @property
    def roles(self) -> tuple[int, ...]:
        """A role for each agent."""
        return tuple(range(self.num_agents))

    @property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """One kind, because there is one return, whatever the agents are called."""
        return {"agent": self.roles}

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        if self._sees_all:
            return super().agent_observation_spaces
        return {agent: Box(-np.inf, np.inf, (len(names),)) for agent, names in self.observed.items()}

    @property
    def agent_action_spaces(self) -> dict[str, Space]:
        return {agent: Box(-1.0, 1.0, (len(own),)) for agent, own in self.actuators.items()}

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        _, state = self.single.reset_env(key, params)
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        _, after, reward, terminated, truncated, info = self.single.step_env(key, state, self.join(action), params)
        return self.observation(after), after, jnp.full(self.num_agents, reward), terminated, truncated, info

    def observation(self, state: Any, params: Any = None) -> jax.Array:
        if not self._sees_all:
            return self.observe(*self.single.joint_state(state))
        whole = self.single.observation(state)
        return jnp.broadcast_to(whole, (self.num_agents, *whole.shape))

    def observe(self, qpos: jax.Array, qvel: jax.Array) -> jax.Array:
        """The agents' observations `[N, D]` of positions `qpos[nq]` and velocities `qvel[nv]`, unless they see all."""
        slowed = jnp.clip(qvel, -self._most_speed, self._most_speed)
        return jnp.concatenate([qpos, slowed, jnp.zeros(1)]).astype(jnp.float32)[self._numbers]

    def join(self, action: jax.Array) -> jax.Array:
        """The action of the whole body, `[actuators]`, from those of all agents, `[N, A]`."""
        return action.reshape(-1)[self._slots]

    def share_out(self, action: jax.Array) -> jax.Array:
        """The actions of all agents, `[N, A]`, padded with zeros, from one of the whole body: `join` undoes it."""
        shape = (self.num_agents, *self._action_space.shape)
        return jnp.zeros(shape, action.dtype).reshape(-1).at[self._slots].set(action).reshape(shape)

    @property
    def has_global_state(self) -> bool:
        """True for all bodies."""
        return True

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        single = self.single
        return single.global_state(state) if single.has_global_state else single.observation(state).reshape(-1)


def split_if_asked(single: Any, split: Any, observe_joints: Any) -> Any:
    """`Split(single, split, observe_joints)`, or `single` itself without a split; None stands for the default.

    Raises:
        ValueError: `observe_joints` is given without a split.
    """
    if split is not None:
        return Split(single, split, 1 if observe_joints is None else observe_joints)
    if observe_joints is not None:
        raise ValueError(
            f"observe_joints={observe_joints} is for the agents of a split; add one, such as split=joints."
        )
    return single


class Body:
    """The joints and actuators of a MuJoCo model, and which of them are neighbours.

    Args:
        model: The `mujoco.MjModel`.
        name: The name that messages show.

    Raises:
        ValueError: It has an actuator that moves no joint.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name = model, name
        self.joints = tuple(model.joint(joint).name or f"joint_{joint}" for joint in range(model.njnt))
        self.drives = tuple(self._driven_by(actuator) for actuator in range(model.nu))
        """The joints that each actuator drives: one, unless a tendon connects several."""
        self.labels = tuple(model.actuator(a).name or self.joints[own[0]] for a, own in enumerate(self.drives))
        """The name of each actuator, or else of what it drives."""
        self.driven = sorted({joint for joints in self.drives for joint in joints})
        self.names = frozenset(self.joints[joint] for joint in self.driven)
        widths = [_WIDTHS.get(int(kind), (1, 1)) for kind in model.jnt_type]
        starts = zip(model.jnt_qposadr.tolist(), model.jnt_dofadr.tolist(), widths, strict=True)
        self.numbers = [(range(q, q + nq), range(model.nq + v, model.nq + v + nv)) for q, v, (nq, nv) in starts]
        """The positions and the velocities of each joint, by their numbers in qpos and qvel, one after the other."""

    def number_names(self) -> list[str]:
        """The names of all numbers in qpos and qvel, in their order, such as `qpos hip_1` and `qvel root 3`."""
        names = [""] * (self.model.nq + self.model.nv)
        for joint, both in zip(self.joints, self.numbers, strict=True):
            for kind, numbers in zip(("qpos", "qvel"), both, strict=True):
                for i, number in enumerate(numbers):
                    names[number] = f"{kind} {joint}" + (f" {i}" if len(numbers) > 1 else "")
        return names

    def observed(self, own: Iterable[int], hops: int) -> list[int]:
        """The numbers in qpos and qvel that an agent with these joints observes, in MaMuJoCo's order.

        These are the positions and velocities of its own joints, the positions of those up to `hops` away, and both of
        all joints that nobody drives, such as the root; where a body stands on the ground is hidden.
        """
        found: list[int] = []
        for distance, ring in enumerate(self._rings(own, hops)):
            for joint in sorted(ring, key=self.joints.__getitem__):
                positions, velocities = self.numbers[joint]
                found += [*positions, *(velocities if distance == 0 else ())]
        undriven = [joint for joint in range(len(self.joints)) if joint not in self.driven]
        found += [number for joint in undriven for number in self.numbers[joint][0][self._hidden(joint) :]]
        return found + [number for joint in undriven for number in self.numbers[joint][1]]

    def _rings(self, own: Iterable[int], hops: int) -> list[set[int]]:
        """The driven joints at each distance from `own`, from 0 to `hops`."""
        rings, meetings = [set(own)], self._meetings()
        for _ in range(hops):
            reached = {joint for meeting in meetings if meeting & rings[-1] for joint in meeting}
            rings.append(reached.difference(*rings))
        return rings

    def _meetings(self) -> list[set[int]]:
        """The sets of driven joints that meet at a part of the body, all of them neighbours of each other.

        At a part meet its own joints and those of the parts that hang on it. A part without driven joints counts as one
        with the part above it, down to the root; nothing meets in the world.
        """
        if self.names == frozenset().union(*_HUMANOID):
            return [{joint for joint in self.driven if self.joints[joint] in names} for names in _HUMANOID]
        parent, holder = self.model.body_parentid, self.model.jnt_bodyid
        parts, meetings = {int(holder[joint]) for joint in self.driven}, {}
        for joint in self.driven:
            part = int(holder[joint])
            above = int(parent[part])
            while above not in parts and parent[above]:
                above = int(parent[above])
            for place in {part, above} - {0}:
                meetings.setdefault(place, set()).add(joint)
        return list(meetings.values())

    def _hidden(self, joint: int) -> int:
        """The first positions of an undriven joint that only say where on the ground a driven body stands."""
        model, part = self.model, self.model.jnt_bodyid[joint]
        if model.body_parentid[part] or part not in model.body_rootid[model.jnt_bodyid[self.driven]]:
            return 0
        on_ground = model.jnt_type[joint] == _SLIDE and not model.jnt_axis[joint][2]
        return 2 if model.jnt_type[joint] == _FREE else int(on_ground)

    def _driven_by(self, actuator: int) -> tuple[int, ...]:
        """The joints that an actuator drives."""
        model, target = self.model, int(self.model.actuator_trnid[actuator][0])
        kind = model.actuator_trntype[actuator]
        if kind in (_ON_JOINT, _ON_JOINT_IN_PARENT):
            return (target,)
        first, count = (model.tendon_adr[target], model.tendon_num[target]) if kind == _ON_TENDON else (0, 0)
        wraps = [wrap for wrap in range(first, first + count) if model.wrap_type[wrap] == _ALONG_JOINT]
        joints = tuple(int(model.wrap_objid[wrap]) for wrap in wraps)
        if not joints:
            label = model.actuator(actuator).name or f"number {actuator}"
            raise ValueError(f"{self.name} cannot be split: its actuator {label} is attached to no joint.")
        return joints


def parts_of(split: str | Mapping[str, Sequence[str]], body: Body) -> dict[str, tuple[int, ...]]:
    """The actuators of each agent.

    Args:
        split: `"4x2"` for four agents with two actuators each, in the order of the joints; one of MaMuJoCo's others,
            such as `"2x4d"` or `"9|8"`; `"joints"` for an agent each; or the names of joints or actuators by agent.
        body: The body.

    Raises:
        ValueError: There is no such split or name, or an actuator has no agent or several.
        TypeError: `split` is neither text nor a dictionary of names.
    """
    if isinstance(split, Mapping):
        return _own_parts(split, body)
    count = len(body.drives)
    named = {name: text for name, text in _NAMED if frozenset(text.split()) - {"|"} == body.names}
    if split in named:
        return _own_parts({f"agent_{i}": part.split() for i, part in enumerate(named[split].split("|"))}, body)
    even = {f"{agents}x{count // agents}": count // agents for agents in range(1, count + 1) if count % agents == 0}
    each = 1 if split == "joints" else even.get(split) if isinstance(split, str) else None
    if each is None:
        known = ", ".join([*even, *(name for name in named if name not in even)])
        raise (ValueError if isinstance(split, str) else TypeError)(
            f"{body.name} has no split {split!r}, because it has {count} actuators. Type split={known} or joints; or "
            f"name the joints of each agent in Python, split={{'agent_0': [{body.joints[body.driven[0]]!r}, …], …}}."
        )
    order = sorted(range(count), key=lambda actuator: (body.drives[actuator][0], actuator))
    return {f"agent_{i}": tuple(order[i * each : (i + 1) * each]) for i in range(count // each)}


def _own_parts(split: Mapping[str, Sequence[str]], body: Body) -> dict[str, tuple[int, ...]]:
    """The actuators of each agent, from the names of joints or actuators. A joint stands for all its actuators."""
    known = {body.joints[j]: tuple(a for a, own in enumerate(body.drives) if j in own) for j in body.driven}
    known |= {label: (a,) for a, label in enumerate(body.labels) if len(known.get(label, (a,))) == 1}
    parts: dict[str, tuple[int, ...]] = {}
    for agent, given in split.items():
        names = (given,) if isinstance(given, str) else given
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"{body.name} drives nothing called {unknown[0]!r}. {nearest(str(unknown[0]), known)}")
        parts[str(agent)] = tuple(actuator for name in names for actuator in known[name])
    times = Counter(actuator for own in parts.values() for actuator in own)
    if idle := [agent for agent, own in parts.items() if not own]:
        raise ValueError(f"{idle[0]} drives nothing; name joints for this agent, or leave it out.")
    if twice := [label for actuator, label in enumerate(body.labels) if times[actuator] > 1]:
        raise ValueError(f"{', '.join(twice)} of {body.name}: named twice; every joint is driven by one agent.")
    if left := [label for actuator, label in enumerate(body.labels) if not times[actuator]]:
        raise ValueError(f"{', '.join(left)} of {body.name}: not named; every joint with an actuator needs an agent.")
    return parts


def _padded(rows: Iterable[Sequence[int]], filler: int) -> np.ndarray:
    """Rows of numbers as one array, the shorter ones filled up."""
    rows = list(rows)
    width = max(map(len, rows))
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows], np.int32)
