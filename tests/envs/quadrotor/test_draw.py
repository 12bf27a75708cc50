"""Pictures, checked against the states that they show."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.render import save_gif, save_html
from jaxrl.render.scene import Circle, Line, Rect, Scene, at
from jaxrl.replay import record

ARM, FRONT = "#e6edf7", "#d9a35c"


def idle(obs: Any, carry: Any, key: Any, mask: Any) -> Any:
    return jnp.zeros(4), carry


def still(name: str, **motion: Any) -> tuple[Any, Any]:
    """The environment and one state, F = 1, level at the origin or as told."""
    env: Any = jaxrl.make(f"quadrotor/{name}")
    _, state = env.reset(jax.random.key(0))
    usual = {"position": np.zeros(3), "quaternion": np.array([1.0, 0, 0, 0]), "rpm": np.full(4, 21702.0)}
    state = dataclasses.replace(state, motion=dataclasses.replace(state.motion, **{**usual, **motion}))
    return env, jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)


def lines(scene: Scene, stroke: str) -> list[Any]:
    return [shape for shape in scene.shapes if isinstance(shape, Line) and at(shape.stroke, 0) == stroke]


def middles(scene: Scene) -> list[float]:
    return [panel.x + panel.width / 2 for panel in scene.shapes if isinstance(panel, Rect)]


@pytest.mark.parametrize("name", ["hover", "track"])
def test_an_episode_becomes_a_film(name, tmp_path):
    env: Any = jaxrl.make(f"quadrotor/{name}")
    replay = record(env, idle, jax.random.key(0), max_steps=5)
    scene = env.draw(replay.states)
    assert scene.num_frames == 6
    assert scene.step_seconds == pytest.approx(0.01)
    assert [at(scene.captions[2].text, frame) for frame in range(6)] == [f"step {t}" for t in range(6)]
    for shape in scene.shapes:
        assert np.shape(shape.x) in ((), (6,))
        assert np.isfinite(shape.x).all()
        assert np.isfinite(shape.y).all()
    save_gif(replay, tmp_path / "film.gif", width=120)
    save_html(replay, tmp_path / "film.html")
    assert (tmp_path / "film.gif").stat().st_size > 500
    picture = env.render(jax.tree.map(lambda leaf: leaf[0], replay.states))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


def test_the_side_shows_x_and_z_and_the_other_view_x_and_y():
    scene = (lambda made: made[0].draw(made[1]))(still("hover", position=np.array([0.1, 0.2, 0.3])))
    left, right = middles(scene)
    side, above = [shape for shape in scene.shapes if isinstance(shape, Circle) and shape.tip is not None]
    assert (side.x[0] - left, side.y[0]) == pytest.approx((0.1, 0.3))
    assert (above.x[0] - right, above.y[0]) == pytest.approx((0.1, 0.2))
    assert scene.captions[1].text[0] == "37 cm from the target"


def test_arms_point_to_the_rotors_and_thrusts_along_the_drones_own_axis():
    turn = np.radians(30)
    env, state = still("hover", quaternion=np.array([np.cos(turn / 2), 0, np.sin(turn / 2), 0]))  # nose down
    scene = env.draw(state)
    arms = lines(scene, ARM)
    assert len(arms) == 8
    ahead = [arm for arm, rotor in zip(arms[:4], env.default_params.rotors, strict=True) if rotor[0] > 0]
    for arm in ahead:
        assert np.degrees(np.arctan2(arm.dy[0], arm.dx[0])) == pytest.approx(-30)
    for thrust in lines(scene, "#b7e3f4")[:4]:
        assert np.degrees(np.arctan2(thrust.dy[0], thrust.dx[0])) == pytest.approx(60)


def test_thrusts_are_as_long_as_they_are_strong():
    env, state = still("hover", rpm=np.array([0.0, 21702 / 2, 21702.0, 21702.0]))
    none, quarter, full, _ = (thrust.dy[0] for thrust in lines(env.draw(state), "#b7e3f4")[:4])
    assert none == 0
    assert quarter == pytest.approx(full / 4)


def test_a_level_rotor_is_a_line_from_the_side_and_a_disc_from_above():
    env, state = still("hover")
    side, _, above, _ = lines(env.draw(state), FRONT)
    assert abs(side.dx[0]) > 5 * side.stroke_width[0]
    assert side.dy[0] == pytest.approx(0)
    assert np.hypot(above.dx[0], above.dy[0]) == pytest.approx(0)
    assert above.stroke_width[0] == pytest.approx(abs(side.dx[0]) + side.stroke_width[0])


def test_the_red_square_goes_with_the_target():
    env: Any = jaxrl.make("quadrotor/track")
    replay = record(env, idle, jax.random.key(1), max_steps=8)
    scene = env.draw(replay.states)
    left = middles(scene)[0]
    bottom = lines(scene, "#e5534b")[0]
    steps = np.asarray(replay.states.step)
    phase, amplitude = np.asarray(replay.states.phase)[0], env.default_params.amplitude
    x = amplitude[0] * np.sin(2 * np.pi * steps * 0.01 / 5 + phase[0])
    np.testing.assert_allclose(bottom.x - left, x - 0.6, atol=1e-5)
    np.testing.assert_allclose(bottom.dx, 1.2, atol=1e-6)
    hover, state = still("hover")
    assert lines(hover.draw(state), "#e5534b")[0].y == pytest.approx(-0.6)
