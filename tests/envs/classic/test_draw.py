"""The pictures of classic control, checked against the states they show."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.classic import acrobot, cartpole, mountain_car, pendulum
from jaxrl.render import save_gif, save_html
from jaxrl.render.scene import Circle, Line, Polygon, Rect, Scene, Shape, at
from jaxrl.replay import record

NAMES = ("cartpole", "acrobot", "mountain_car", "mountain_car_continuous", "pendulum")
STEPS: Any = np.arange(3)
ZERO: Any = np.zeros(3)


def array(*values: Any) -> Any:
    """An episode's states are NumPy arrays, where the states of a step are JAX's."""
    return np.array(values, np.float64)


def shapes_of(scene: Scene, kind: type[Shape]) -> list[Any]:
    return [shape for shape in scene.shapes if type(shape) is kind]


def end_of(line: Line) -> np.ndarray:
    """`[F, 2]`, where a line ends."""
    return np.stack([line.x + line.dx, line.y + line.dy], -1)


def tips(scene: Scene) -> set[str]:
    return {shape.tip.title for shape in scene.shapes if shape.tip is not None}


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_becomes_a_film(name, tmp_path):
    env: Any = jaxrl.make(f"classic/{name}")
    action = jnp.zeros(env.action_space().shape, env.action_space().dtype)
    replay = record(env, lambda obs, carry, key, mask: (action, carry), jax.random.key(0), max_steps=5)
    scene = env.draw(replay.states)
    assert scene.num_frames == 6
    assert [at(scene.captions[2].text, frame) for frame in range(6)] == [f"step {t}" for t in range(6)]
    assert tips(scene)
    for shape in scene.shapes:  # a shape lives at one place or at one a frame
        assert np.shape(shape.x) in ((), (6,))
        assert np.isfinite(shape.x).all()
        assert np.isfinite(shape.y).all()
    save_gif(replay, tmp_path / "film.gif", width=120)
    save_html(replay, tmp_path / "film.html")
    assert (tmp_path / "film.gif").stat().st_size > 500
    picture = env.render(jax.tree.map(lambda leaf: leaf[0], replay.states))
    assert picture.shape[1:] == (480, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


def test_the_pole_leans_to_the_right_for_positive_angles():
    state = cartpole.State(array(-1, 0, 2), ZERO, array(0, 0.1, -np.pi / 2), ZERO, STEPS)
    scene = jaxrl.make("classic/cartpole").draw(state)
    pole = shapes_of(scene, Line)[-1]
    np.testing.assert_allclose(pole.x, [-1.0, 0.0, 2.0])
    np.testing.assert_allclose(np.hypot(pole.dx, pole.dy), 1.0)
    np.testing.assert_allclose(pole.dx, [0.0, np.sin(0.1), -1.0], atol=1e-12)
    cart = shapes_of(scene, Rect)[-1]
    np.testing.assert_allclose(cart.x + cart.dx + cart.width / 2, [-1.0, 0.0, 2.0])


def test_the_red_lines_are_where_an_episode_is_lost():
    scene = jaxrl.make("classic/cartpole").draw(cartpole.State(ZERO, ZERO, ZERO, ZERO, STEPS))
    left, tilt_left, right, tilt_right, _ = shapes_of(scene, Line)
    assert (left.x, right.x) == pytest.approx((-2.4, 2.4))
    lean = [np.degrees(np.arctan2(line.dx, line.dy)) for line in (tilt_left, tilt_right)]
    assert lean == pytest.approx([-12.0, 12.0])


def test_the_acrobot_hangs_bends_and_reaches_its_line():
    angles = array([0, 0], [np.pi / 2, -np.pi / 2], [np.pi, 0])
    scene = jaxrl.make("classic/acrobot").draw(acrobot.State(angles, 0 * angles, STEPS))
    goal, upper, lower = shapes_of(scene, Line)
    np.testing.assert_allclose(end_of(upper), [[0, -1], [1, 0], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(end_of(lower), [[0, -2], [1, -1], [0, 2]], atol=1e-12)
    # The environment ends an episode where -cos a - cos(a + b) > 1: exactly above the line.
    assert goal.y == 1.0
    assert scene.view[3] > 2.0


@pytest.mark.parametrize(("name", "goal"), [("mountain_car", 0.5), ("mountain_car_continuous", 0.45)])
def test_the_car_stands_on_the_hill_and_the_flag_at_the_goal(name, goal):
    x = array(-np.pi / 6, -1.2, 0.5)  # the valley's lowest point, the left end, near the top
    scene = jaxrl.make(f"classic/{name}").draw(mountain_car.State(x, ZERO, STEPS))
    back, front = shapes_of(scene, Circle)
    np.testing.assert_allclose((back.x + front.x) / 2, x, atol=0.03)
    assert back.y[0] == pytest.approx(front.y[0])
    slope = np.arctan2(front.y - back.y, front.x - back.x)
    np.testing.assert_allclose(np.tan(slope), np.cos(3 * x), atol=1e-9)  # what gravity is multiplied with
    np.testing.assert_allclose((back.y + front.y) / 2, np.sin(3 * x) / 3, atol=0.03)
    [flag] = shapes_of(scene, Polygon)
    assert flag.x == pytest.approx(goal + 0.04)


def test_the_pendulum_is_upright_at_angle_0_and_turns_to_the_left():
    state = pendulum.State(array(0, np.pi / 2, 3 * np.pi), ZERO, STEPS)
    scene = jaxrl.make("classic/pendulum").draw(state)
    rod = shapes_of(scene, Line)[-1]
    np.testing.assert_allclose(end_of(rod), [[0, 1], [-1, 0], [0, -1]], atol=1e-12)
    assert list(scene.captions[1].text)[:2] == ["+0.0°", "+90.0°"]
    assert scene.step_seconds == pytest.approx(0.05)


def test_both_mountain_cars_have_their_names():
    for name, title in (("mountain_car", "MountainCar"), ("mountain_car_continuous", "MountainCarContinuous")):
        env = jaxrl.make(f"classic/{name}")
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.reset(jax.random.key(0))[1])
        assert env.draw(states).captions[0].text == title
