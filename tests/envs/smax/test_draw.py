"""The picture of a battle, checked against the battle itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import SMAX, State
from jaxrl.envs.smax.draw import targets
from jaxrl.render import save_gif
from jaxrl.render.html import encode
from jaxrl.render.raster import rasterise
from jaxrl.render.scene import Circle, Line, Text, at
from jaxrl.replay import Replay, record


def _shoot_or_advance(obs: Any, carry: Any, key: jax.Array, mask: jax.Array) -> tuple[jax.Array, Any]:
    """Attack the first enemy in range, else walk right, while alive."""
    shootable = mask[:, 5:]
    forward = jnp.where(mask[:, 1], 1, 4)
    return jnp.where(shootable.any(1), 5 + jnp.argmax(shootable, axis=1), forward), carry


@pytest.fixture(scope="module")
def env() -> SMAX:
    env = jaxrl.make("smax/3m")
    assert isinstance(env, SMAX)
    return env


@pytest.fixture(scope="module")
def replay(env: SMAX) -> Replay:
    return record(env, _shoot_or_advance, jax.random.key(3))


def _bodies(scene: Any) -> list[Circle]:
    return [shape for shape in scene.shapes if isinstance(shape, Circle) and shape.tip is not None]


def test_bodies_are_where_the_units_are_while_they_live(env: SMAX, replay: Replay) -> None:
    scene = env.draw(replay.states)
    bodies = _bodies(scene)
    assert scene.num_frames == len(replay.states.step)
    assert len(bodies) == 6
    for unit, body in enumerate(bodies):
        np.testing.assert_allclose(np.stack([body.x, body.y], -1), replay.states.position[:, unit], rtol=1e-6)
        np.testing.assert_array_equal(np.asarray(body.alpha) > 0, replay.states.health[:, unit] > 0)
        assert body.radius == 0.375  # a marine, to scale
        assert body.tip is not None
        said = [float(text.split("/")[0]) for text in body.tip.rows["health"]]
        np.testing.assert_allclose(said, replay.states.health[:, unit], atol=0.5)
    assert bodies[0].fill == bodies[2].fill != bodies[3].fill == bodies[5].fill


def test_everybody_is_inside_the_view(env: SMAX, replay: Replay) -> None:
    left, bottom, right, top = env.draw(replay.states).view
    x, y = replay.states.position[..., 0], replay.states.position[..., 1]
    assert left + 1 < x.min()
    assert x.max() < right - 1
    assert bottom + 1 < y.min()
    assert y.max() < top - 1
    assert 4 / 3 - 1e-6 <= (right - left) / (top - bottom) <= 16 / 9 + 1e-6


def test_single_states_all_show_the_whole_map(env: SMAX, replay: Replay) -> None:
    pictures = [env.render(jax.tree.map(lambda leaf, t=t: leaf[t], replay.states)) for t in (0, -1)]
    assert pictures[0].shape == pictures[1].shape
    assert pictures[0].dtype == np.uint8
    assert (pictures[0] != pictures[1]).any()


def test_frames_change_as_units_move(env: SMAX, replay: Replay) -> None:
    scene = env.draw(replay.states)
    first = dataclasses.replace(scene, num_frames=5)
    frames = rasterise(first, 240)
    assert frames.dtype == np.uint8
    assert frames.shape[2:] == (240, 3)
    assert all((frames[t] != frames[t + 1]).any() for t in range(4))


@pytest.fixture(scope="module")
def duel(env: SMAX) -> tuple[State, State]:
    """Ally 1 shoots enemy 2 while enemies 0 and 1, far away, see nobody; enemy 2 shoots back."""
    _, state = jax.jit(env.reset)(jax.random.key(0))
    position = jnp.array([[2.0, 30.0], [14.0, 16.0], [2.0, 2.0], [30.0, 30.0], [30.0, 2.0], [17.0, 16.0]])
    state = dataclasses.replace(state, position=position)
    action = jnp.array([4, 5 + 2, 4])
    return state, jax.jit(env.step_env)(jax.random.key(1), state, action, env.default_params)[1]


def test_targets_are_those_who_were_hit(env: SMAX, duel: tuple[State, State]) -> None:
    before, after = duel
    np.testing.assert_array_equal(np.flatnonzero(after.health < before.health), [1, 5])
    np.testing.assert_array_equal(targets(np.asarray(after.attack)[None], env.num_allies)[0], [-1, 5, -1, -1, -1, 1])


def test_a_shot_is_a_line_from_the_shooter_to_the_target(env: SMAX, duel: tuple[State, State]) -> None:
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *duel)
    shots = [
        shape
        for shape in env.draw(states).shapes
        if isinstance(shape, Line) and shape.stroke == "#ffffff" and at(shape.alpha, 1) > 0
    ]
    assert len(shots) == 2
    assert all(at(shot.alpha, 0) == 0 for shot in shots)
    ends = [(at(s.x, 1), at(s.x, 1) + at(s.dx, 1)) for s in shots]
    (ally, ally_end), (enemy, enemy_end) = ends
    assert 14.0 < ally < ally_end < 17.0
    assert 17.0 > enemy > enemy_end > 14.0
    assert ally_end > 16.5
    assert enemy_end < 14.5


def test_the_captions_count_the_living(env: SMAX, replay: Replay) -> None:
    captions = env.draw(replay.states).captions
    alive = replay.states.health > 0
    for caption, members in ((captions[0], slice(0, 3)), (captions[2], slice(3, 6))):
        counts = [int(text.split()[1]) for text in caption.text]
        np.testing.assert_array_equal(counts, alive[:, members].sum(1))


def test_unit_types_have_shapes_and_letters() -> None:
    env = jaxrl.make("smax/3s5z_vs_3s6z")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    stalker, zealot = _bodies(scene)[0], _bodies(scene)[3]
    assert vars(stalker)["sides"] != vars(zealot)["sides"]
    letters = [shape.text for shape in scene.shapes if isinstance(shape, Text)]
    assert letters == ["s"] * 3 + ["Z"] * 5 + ["s"] * 3 + ["Z"] * 6


def test_own_unit_types_are_drawn_by_their_names() -> None:
    tank = {"tank": (150, 30, 7, 2.0, 2.0, 0.8, 11), "zealot": (10, 30, 2, 2.0, 2.0, 0.5, 9)}
    env = jaxrl.make("smax", allies=["tank", "zealot"], enemies="1tank", unit_types=tank)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    assert [shape.text for shape in scene.shapes if isinstance(shape, Text)] == ["t", "Z", "t"]
    titles = [body.tip.title for body in _bodies(scene) if body.tip is not None]
    assert titles == ["ally_0, tank", "ally_1, zealot", "enemy_0, tank"]


def test_files_are_small(tmp_path: Path, replay: Replay) -> None:
    save_gif(replay, tmp_path / "a.gif")
    assert (tmp_path / "a.gif").stat().st_size < 50_000 * replay.num_steps  # 1.5 MB for 30 steps
    data = encode(replay.scene(), replay.frames_per_step)
    assert data["framesPerStep"] == replay.frames_per_step
