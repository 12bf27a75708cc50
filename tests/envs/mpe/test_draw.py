"""The picture of an episode, checked against the episode itself."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.render import save_gif, save_html
from jaxrl.render.scene import Circle, Line, Rect, Text
from jaxrl.replay import record

SAID, CELL = "#ffffff", "#2b3648"


@pytest.fixture(scope="module")
def replay(env):
    """A reference game in which both walk right and say one word after the other."""
    env = env("simple_reference", action_type="discrete")

    def act(obs, carry, key, mask):
        carry = jnp.int32(0) if carry is None else carry
        return jnp.broadcast_to(2 + 5 * (carry % 10), (2,)), carry + 1

    return record(env, act, jax.random.key(0))


def circles(scene):
    return [shape for shape in scene.shapes if type(shape) is Circle and shape.tip is not None]


def test_bodies_are_where_they_are(replay):
    scene = replay.env.draw(replay.states)
    bodies = circles(scene)
    assert scene.num_frames == 26
    assert [body.tip.title for body in bodies if body.tip] == [
        "agent_0",
        "agent_1",
        "landmark 0",
        "landmark 1",
        "landmark 2",
    ]
    for body, number in zip(bodies, range(5), strict=True):
        np.testing.assert_allclose(np.stack([body.x, body.y], -1), replay.states.position[:, number], rtol=1e-6)
        assert body.radius == pytest.approx(0.05)


def test_everything_is_inside_the_view(replay):
    left, bottom, right, top = replay.env.draw(replay.states).view
    low, high = replay.states.position.min((0, 1)), replay.states.position.max((0, 1))
    assert (low > [left, bottom]).all()
    assert (high < [right, top]).all()
    assert right - left == pytest.approx(top - bottom)


def test_words_are_inside_the_view(replay):
    """Those of a speaker at the edge, too."""
    states = dataclasses.replace(replay.states, position=replay.states.position + np.float32(3.0))
    scene = replay.env.draw(states)
    words = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.fill in (SAID, CELL)]
    assert len(words) == 2 * 2 * 10
    for word in words:
        assert (word.x + word.dx > scene.view[0]).all()
        assert (word.x + word.dx + word.width < scene.view[2]).all()
        assert (word.y + word.dy + word.height < scene.view[3]).all()


def test_trails_follow_the_agents(replay):
    scene = replay.env.draw(replay.states)
    trails = [shape for shape in scene.shapes if isinstance(shape, Line) and np.ndim(shape.x)]
    assert len(trails) == 2 * 10
    last = trails[9]  # of agent 0, from the step before to now
    now, before = replay.states.position[1:, 0], replay.states.position[:-1, 0]
    np.testing.assert_allclose(np.stack([last.x, last.y], -1)[1:], before, rtol=1e-6)
    np.testing.assert_allclose(np.stack([last.dx, last.dy], -1)[1:], now - before, atol=1e-6)
    assert last.alpha[0] == 0 < trails[0].alpha[-1] < last.alpha[-1]


def test_the_word_said_is_the_bright_cell(replay):
    scene = replay.env.draw(replay.states)
    cells = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.fill == SAID]
    assert len(cells) == 2 * 10
    loudness = np.stack([cell.alpha for cell in cells[:10]], -1)
    assert not loudness[0].any()  # nothing has been said yet
    np.testing.assert_array_equal(loudness[1:].argmax(1), np.arange(25) % 10)


def test_goals_are_ringed(replay):
    scene = replay.env.draw(replay.states)
    rings = [s for s in scene.shapes if type(s) is Circle and s.fill is None]
    goal = replay.states.goal[0]
    for ring, number in zip(rings, goal, strict=True):
        np.testing.assert_allclose(ring.x, replay.states.position[:, 2 + number, 0], rtol=1e-6)


@pytest.mark.parametrize("name", ["simple_crypto", "simple_world_comm", "simple_facmac_6a"])
def test_single_states_show_the_same_part_of_the_plane(env, name):
    env = env(name, action_type="discrete")
    state = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(env.reset, jax.random.key(0))[1]
    )
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    assert scene.view == (-1.4, -1.4, 1.4, 1.4)
    letters = [shape.text for shape in scene.shapes if isinstance(shape, Text) and len(shape.text) == 1]
    assert letters == (["E", "B", "A"] if name == "simple_crypto" else [])
    assert env.render(state).shape[1:] == (480, 3)


@pytest.mark.parametrize(
    ("name", "names", "colors"),
    [
        ("simple_spread", ["agent 0", "agent 1", "agent 2"], 1),
        ("simple_tag", ["adversary 0", "adversary 1", "adversary 2", "agent"], 2),
        ("simple_speaker_listener", ["speaker", "listener"], 2),
        ("simple_crypto", ["eve", "bob", "alice"], 3),
        ("simple_world_comm", ["leadadversary", *(f"adversary {i}" for i in range(3)), "agent 0", "agent 1"], 3),
    ],
)
def test_agents_have_names_and_the_colours_of_their_roles(env, name, names, colors):
    env = env(name, action_type="discrete")
    state = jax.eval_shape(env.reset, jax.random.key(0))[1]
    scene = env.draw(jax.tree.map(lambda leaf: np.zeros((2, *leaf.shape), leaf.dtype), state))
    texts = [shape for shape in scene.shapes if isinstance(shape, Text) and len(shape.text) > 1]
    assert [text.text for text in texts] == names
    edges = [body.stroke for body in circles(scene) if body.stroke]
    assert edges == [text.fill for text in texts]
    assert len(set(edges)) == colors


def test_captions(env):
    env = env("simple_crypto", action_type="discrete")
    _, state = env.reset(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    message, key = (int(number) for number in state.goal)
    assert [np.ravel(c.text)[0] for c in scene.captions] == [
        "mpe/simple_crypto",
        f"message {message}, key {key}",
        "step 0",
    ]


def test_a_replay_ends_with_the_return_of_each_kind_of_agents(replay):
    assert replay.outcome == f"return {replay.episode_return:.1f}"  # there is one kind
    rewards = np.arange(6.0).reshape(2, 3)
    tag = dataclasses.replace(replay, env=jaxrl.make("mpe/simple_adversary"), rewards=rewards)
    assert tag.outcome == "adversary 3.0  agent 6.0"


def test_files(tmp_path, replay):
    save_gif(replay, tmp_path / "a.gif", fps=10, width=120)
    save_html(replay, tmp_path / "a.html")
    for name in ("a.gif", "a.html"):
        assert 5_000 < (tmp_path / name).stat().st_size < 200_000
