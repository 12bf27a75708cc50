"""Pictures of MuJoCo's bodies, from the side or from above, without a graphics card: drawn as thick lines with round
ends. That is exact for capsules and spheres; other bodies are drawn as long and as thick as their ellipsoid looks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco as untyped_mujoco
import numpy as np

from jaxrl.render.scene import Caption, Line, Rect, Scene, Shape

__all__ = ["Poses", "draw"]

mujoco: Any = untyped_mujoco  # a type checker does not see into its compiled modules
_Geom, _Joint = mujoco.mjtGeom, mujoco.mjtJoint

_SKY, _GROUND, _EDGE = "#151c28", "#232e40", "#4a5a75"
_SHOWN_GROUPS = 3  # MuJoCo's viewer shows those below; what is above is for collisions or hidden sensors
_UNSET = (0.5, 0.5, 0.5, 1.0)  # the colour that a material replaces
_MARGIN = 1.25  # how much wider the picture is than what moves
_FAR = 3.0  # a way longer than this many bodies is followed
_MARKS = 120  # at most this many marks on the way


class Poses(NamedTuple):
    """The positions of an episode, in MuJoCo's order: `[F, nq]`, and `[F, nmocap, 3 or 4]` of bodies moved by hand."""

    qpos: np.ndarray
    mocap_pos: np.ndarray | None = None
    mocap_quat: np.ndarray | None = None


class _View(NamedTuple):
    """The world's axes to the right, up, and away from the viewer; the latter's sign is that of what is nearer."""

    right: int
    up: int
    depth: int
    nearer: int


_SIDE, _ABOVE = _View(0, 2, 1, -1), _View(0, 1, 2, 1)


class _Rods(NamedTuple):
    """G bodies on screen in F frames: centres `[F, G, 2]`, half their lines `[F, G, 2]`, half their widths `[F, G]`."""

    centre: np.ndarray
    half: np.ndarray
    radius: np.ndarray
    nearness: np.ndarray  # [G]
    color: np.ndarray  # [G, 3], from 0 to 1
    moves: np.ndarray  # bool [G]


def draw(model: Any, poses: Poses, reward: np.ndarray, steps: np.ndarray, name: str, step_seconds: float) -> Scene:
    """Successive states of a MuJoCo model as a scene named `name`, in real time; it follows what goes far.

    Args:
        model: The `mujoco.MjModel`.
        poses: Of an episode with F frames.
        reward: The reward of each step, `[F]`.
        steps: The number of each step, `[F]`.
        name: Of the environment.
        step_seconds: From one frame to the next.
    """
    view = _ABOVE if _lies_flat(model) else _SIDE
    rods, root = _rods(model, poses, view)
    camera, edges = _framed(rods, root)
    floor, height = _floor(model), edges[1, 1] - edges[0, 1]
    if view is _SIDE and floor is not None and floor > edges[0, 1] - height:  # it is not far below
        edges[0, 1] = min(edges[0, 1], floor - 0.08 * height)
    edges = _shaped(edges)
    shapes = [*_ground(model, view, camera, edges), *_bodies(rods, camera, edges)]
    rewards = np.array([f"reward {value:+.2f}" for value in reward])
    captions = (Caption(name), Caption(rewards), Caption(np.array([f"step {step}" for step in steps])))
    (left, bottom), (right, top) = edges.tolist()
    return Scene(len(steps), (left, bottom, right, top), tuple(shapes), captions, _SKY, step_seconds)


def _lies_flat(model: Any) -> bool:
    """Whether everything moves on the ground, or nothing falls, so that it is best seen from above."""
    falls = model.opt.gravity[2] != 0 and not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    upright = np.abs(data.xaxis[:, 2])
    turns = (model.jnt_type == _Joint.mjJNT_HINGE) & (upright > 0.99)
    slides = (model.jnt_type == _Joint.mjJNT_SLIDE) & (upright < 0.01)
    return not falls or bool((turns | slides).all())


def _rods(model: Any, poses: Poses, view: _View) -> tuple[_Rods, np.ndarray]:
    """What is shown of the model, and where its first body is, `[F, 2]`."""
    data, screen = mujoco.MjData(model), [view.right, view.up]
    geoms, sites = _shown(model, "geom"), _shown(model, "site")
    places, turns, root = [], [], []
    first = int(np.argmax(model.body_dofnum > 0))
    for frame, qpos in enumerate(poses.qpos):
        data.qpos[:] = qpos
        if model.nmocap and poses.mocap_pos is not None and poses.mocap_quat is not None:
            data.mocap_pos[:], data.mocap_quat[:] = poses.mocap_pos[frame], poses.mocap_quat[frame]
        mujoco.mj_kinematics(model, data)
        places.append(np.concatenate([data.geom_xpos[geoms], data.site_xpos[sites]]))
        turns.append(np.concatenate([data.geom_xmat[geoms], data.site_xmat[sites]]).reshape(-1, 3, 3))
        root.append(data.xpos[first, screen])
    place, turn = np.array(places), np.array(turns)
    kind = np.concatenate([model.geom_type[geoms], model.site_type[sites]])
    body = np.concatenate([model.geom_bodyid[geoms], model.site_bodyid[sites]])
    offset, size = _sizes(model, geoms, sites, kind)
    place = place + (turn @ offset[..., None])[..., 0]
    half, radius = _projected(turn, size, kind, screen)
    nearness = view.nearer * place[..., view.depth].mean(0)
    color = np.concatenate([_colors(model, geoms), model.site_rgba[sites, :3]])
    moves = (model.body_weldid[body] > 0) | (model.body_mocapid[body] >= 0)
    return _Rods(place[..., screen], half, radius, nearness, color, moves), np.array(root)


def _shown(model: Any, kind: str) -> np.ndarray:
    """The indices of the geoms or sites that MuJoCo's viewer shows, without ground and terrain."""
    groups, types, rgba = (getattr(model, f"{kind}_{field}") for field in ("group", "type", "rgba"))
    endless = np.isin(types, (_Geom.mjGEOM_PLANE, _Geom.mjGEOM_HFIELD))
    return np.flatnonzero((groups < _SHOWN_GROUPS) & (rgba[:, 3] > 0) & ~endless)


def _sizes(model: Any, geoms: np.ndarray, sites: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each body in its own frame, which is elsewhere only for meshes, and half its size, `[G, 3]` both.

    The size of capsules and spheres is MuJoCo's: radius, and half the line inside.
    """
    offset = np.concatenate([model.geom_aabb[geoms, :3], np.zeros((len(sites), 3))])
    size = np.concatenate([model.geom_size[geoms], model.site_size[sites]])
    mesh, cylinder = kind == _Geom.mjGEOM_MESH, kind == _Geom.mjGEOM_CYLINDER
    size[: len(geoms)][mesh[: len(geoms)]] = model.geom_aabb[geoms[mesh[: len(geoms)]], 3:]
    size[cylinder] = size[cylinder][:, [0, 0, 1]]
    size[kind == _Geom.mjGEOM_SPHERE, 1:] = 0.0
    return np.where(mesh[:, None], offset, 0.0), size


def _projected(
    turn: np.ndarray, size: np.ndarray, kind: np.ndarray, screen: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Half the line `[F, G, 2]` and half the width `[F, G]` with which each body is seen."""
    axes = turn[:, :, screen, :]
    along, across, _ = np.linalg.svd(axes * size[:, None, :])
    radius = across[..., 1]
    half = (across[..., 0] - radius)[..., None] * along[..., 0]
    turned = np.sign((half[1:] * half[:-1]).sum(-1, keepdims=True))  # an axis has two directions: keep to one
    half[1:] *= np.cumprod(np.where(turned, turned, 1.0), 0)
    round_ends = np.isin(kind, (_Geom.mjGEOM_CAPSULE, _Geom.mjGEOM_SPHERE))
    half = np.where(round_ends[:, None], axes[..., 2] * size[:, 1:2], half)
    return half, np.where(round_ends, size[:, 0], radius)


def _colors(model: Any, geoms: np.ndarray) -> np.ndarray:
    rgba, material = model.geom_rgba[geoms], model.geom_matid[geoms]
    of_material = (material >= 0) & np.isclose(rgba, _UNSET).all(1)
    rgba[of_material] = model.mat_rgba[material[of_material]]
    return rgba[:, :3]


def _framed(rods: _Rods, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the camera is, `[F, 2]`, and the picture's lower left and upper right corner relative to it."""
    reach = np.abs(rods.half) + rods.radius[..., None]
    low, high = (rods.centre - reach)[:, rods.moves], (rods.centre + reach)[:, rods.moves]
    size = (high.max(1) - low.min(1)).max()
    far = np.ptp(root, 0) > _FAR * size
    camera = np.where(far, root, 0.0)
    edges = np.array([(low - camera[:, None]).min((0, 1)), (high - camera[:, None]).max((0, 1))])
    return camera, edges


def _shaped(edges: np.ndarray) -> np.ndarray:
    """The corners with a margin, between square and twice as wide as high."""
    middle, (width, height) = edges.mean(0), _MARGIN * np.maximum(edges[1] - edges[0], 1e-3)
    width, height = max(width, height), max(height, width / 2)
    half = np.array([width, height]) / 2
    return np.array([middle - half, middle + half])


def _floor(model: Any) -> float | None:
    """How high the ground is; None without ground."""
    planes = np.flatnonzero(np.isin(model.geom_type, (_Geom.mjGEOM_PLANE, _Geom.mjGEOM_HFIELD)))
    level = [geom for geom in planes if abs(model.geom_quat[geom, 0]) > 0.99 and model.geom_bodyid[geom] == 0]
    return float(model.geom_pos[level, 2].min()) if level else None


def _ground(model: Any, view: _View, camera: np.ndarray, edges: np.ndarray) -> list[Shape]:
    """The ground seen from the side, and marks that show how what is followed moves."""
    (left, bottom), (right, top) = edges.tolist()
    width, height, shapes = right - left, top - bottom, list[Shape]()
    floor = _floor(model) if view is _SIDE else None
    if floor is not None:
        below = floor - camera[:, 1] - 2 * height
        shapes.append(Rect(x=left, y=below, width=width, height=2 * height, fill=_GROUND))
    for axis in np.flatnonzero(np.ptp(camera, 0)):
        way = np.ptp(camera[:, axis]) + width
        gap = max(width / 6, way / _MARKS)
        first = np.floor((camera[:, axis].min() + edges[0, axis]) / gap)
        for mark in gap * (first + np.arange(int(way / gap) + 2)):
            at = mark - camera[:, axis]
            seen = ((at >= edges[0, axis]) & (at <= edges[1, axis])).astype(float)
            ends = {"x": at, "y": bottom, "dx": 0.0, "dy": height}
            if axis:
                ends = {"x": left, "y": at, "dx": width, "dy": 0.0}
            elif floor is not None:
                ends |= {"y": floor - camera[:, 1], "dy": -0.04 * height}
            shapes.append(Line(**ends, stroke=_EDGE, stroke_width=0.006 * width, alpha=seen))
    return shapes


def _bodies(rods: _Rods, camera: np.ndarray, edges: np.ndarray) -> list[Shape]:
    """All bodies, those behind first and darker."""
    thin = 0.004 * (edges[1, 0] - edges[0, 0])
    rank = rods.nearness - rods.nearness.min(initial=np.inf)
    light = 0.7 + 0.3 * (rank / rank.max() if rank.size and rank.max() > 0 else np.ones_like(rank))
    shapes: list[Shape] = []
    for body in np.argsort(rods.nearness, kind="stable"):
        half = rods.half[:, body]
        x, y = (rods.centre[:, body] - half - camera).T
        red, green, blue = (int(255 * value) for value in np.clip(light[body] * rods.color[body], 0, 1))
        width = 2 * np.maximum(rods.radius[..., body], thin)
        color = f"#{red:02x}{green:02x}{blue:02x}"
        shapes.append(Line(x=x, y=y, dx=2 * half[:, 0], dy=2 * half[:, 1], stroke=color, stroke_width=width))
    return shapes
