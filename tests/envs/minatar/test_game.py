"""What the five games share: options, parameters, the clock, sticky actions, pictures."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.render import save_gif, save_html
from jaxrl.render.scene import Rect, at
from jaxrl.replay import record

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


@pytest.mark.quick
def test_the_names_of_gymnax_and_gymnasium_lead_here():
    for alias in ("SpaceInvaders-MinAtar", "MinAtar/SpaceInvaders-v1"):
        assert jaxrl.make(alias).name == "minatar/space_invaders"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("sticky_action_prob=1.5", "sticky_action_prob must be a number between 0 and 1, got 1.5"),
        ("sticky_action_prob=much", "sticky_action_prob must be a number"),
        ("use_minimal_action_set=no", "use_minimal_action_set must be True or False"),
        ("max_steps=0", "max_steps must be a whole number of at least 1, got 0"),
    ],
)
def test_an_option_out_of_range_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        jaxrl.make(f"minatar/seaquest?{options}")


def test_parameters_can_differ_within_a_batch():
    """One copy repeats the last action, which at first is to do nothing; one takes the chosen one."""
    env = jaxrl.make("minatar/breakout")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    probabilities = jnp.array([0.0, 1.0], jnp.float32)
    params = [dataclasses.replace(env.default_params, sticky_action_prob=p) for p in probabilities]
    step = jax.jit(jax.vmap(env.step_env, in_axes=(None, None, None, 0)))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    _, after, *_ = step(jax.random.key(1), state, jnp.int32(1), both)
    np.testing.assert_array_equal(after.board.paddle, [3, 4])
    np.testing.assert_array_equal(after.last_action, [1, 0])


def test_the_clock_truncates():
    env = jaxrl.make("minatar/breakout?max_steps=3")
    _, state = env.reset(jax.random.key(0))
    step = jax.jit(env.step_env)
    for wanted in (False, False, True):
        _, state, _, terminated, truncated, _ = step(jax.random.key(1), state, jnp.int32(0), env.default_params)
        assert (bool(terminated), bool(truncated)) == (False, wanted)


@pytest.mark.parametrize("name", GAMES)
def test_an_episode_becomes_a_film(name, tmp_path):
    env = jaxrl.make(f"minatar/{name}")
    key = jax.random.key(2)
    replay = record(env, lambda obs, carry, key, mask: (jnp.int32(1), carry), key, max_steps=12)
    scene = env.draw(replay.states)
    frames = len(replay.states.step)
    cells = np.asarray(jax.vmap(env.observation)(replay.states))
    squares = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.tip is not None]
    for frame in (0, frames - 1):  # as many squares as the observation has cells that are True
        shown = [shape.tip.title for shape in squares if shape.tip is not None and at(shape.alpha, frame) > 0]
        wanted = [env.channels[channel] for *_, channel in np.argwhere(cells[frame])]
        assert sorted(shown) == sorted(wanted)
    save_gif(replay, tmp_path / "film.gif", width=120)
    save_html(replay, tmp_path / "film.html")
    assert (tmp_path / "film.gif").stat().st_size > 500


def test_the_paddle_is_below_the_ball_it_meets():
    """Row 0 of an observation is at the top of the picture."""
    env = jaxrl.make("minatar/breakout")
    _, state = env.reset(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    where = {shape.tip.title: (shape.x, shape.y) for shape in scene.shapes if shape.tip is not None}
    assert where["paddle"] == pytest.approx((4.04, 0.5))
    assert where["ball"][1] == pytest.approx(6.2)  # row 3 of 10
    assert where["ball"][0] == pytest.approx(0.2 + 9 * (not bool(state.board.right)))


def test_the_ball_and_its_trail_are_in_front_of_the_bricks():
    """The ball starts where a brick is, and flies through some without breaking them."""
    env = jaxrl.make("minatar/breakout")
    _, state = env.reset(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    order = [shape.tip.title for shape in scene.shapes if shape.tip is not None]
    assert order.index("trail") == order.count("brick")
    assert order.index("ball") > order.index("trail")


def test_the_player_is_seen_at_its_death():
    """Above what it collides with."""
    env = jaxrl.make("minatar/asterix")
    replay = record(env, lambda obs, carry, key, mask: (jnp.int32(0), carry), jax.random.key(2), max_steps=40)
    order = [shape.tip.title for shape in env.draw(replay.states).shapes if shape.tip is not None]
    assert order[-1] == "player"
    assert len(set(order)) > 1
