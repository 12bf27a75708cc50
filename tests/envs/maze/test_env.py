"""The maze against its rules in plain Python, its starts, its edits and its options."""

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.maze import UNREACHABLE, Maze, fewest_steps
from tests.envs.maze import slow_maze
from tests.envs.maze.slow_maze import SlowMaze


def starts(env, count: int, seed: int = 0):
    """States with leaves `[count, …]`, as NumPy arrays."""
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(seed), count))[1]
    return jax.tree.map(np.asarray, states)


def one(states, i: int):
    return jax.tree.map(lambda leaf: leaf[i], states)


def assert_valid(states) -> None:
    """Agent and goal are in two different free cells."""
    rows = np.arange(len(states.step))
    for place in (states.position, states.goal):
        assert not states.walls[rows, place[:, 0], place[:, 1]].any()
    assert (states.position != states.goal).any(axis=1).all()
    assert set(np.unique(states.direction)) <= {0, 1, 2, 3}


@pytest.mark.parametrize("observe", ["view", "picture", "lidar"])
def test_episodes_are_those_of_the_rules_in_plain_python(observe: str):
    env = jaxrl.make("maze/9", observe=observe, walls=20, max_steps=40)
    reset, step = jax.jit(env.reset), jax.jit(env.step_env)
    rng, arrivals = np.random.default_rng(0), 0
    for episode in range(20):
        obs, state = reset(jax.random.key(episode))
        slow = SlowMaze.of(state, 40)
        ended = False
        while not ended:
            np.testing.assert_allclose(obs, slow.sees(observe), atol=1e-6)
            action = int(rng.choice(3, p=[0.2, 0.2, 0.6]))
            obs, state, reward, terminated, truncated, info = step(jax.random.key(0), state, action, env.default_params)
            expected = slow.act(action)
            np.testing.assert_allclose((reward, terminated, truncated), expected, atol=1e-6)
            assert bool(info["won"]) == expected[1]
            arrivals += int(terminated)
            ended = bool(terminated | truncated)
        np.testing.assert_allclose(obs, slow.sees(observe), atol=1e-6)
    assert 3 <= arrivals <= 17


def test_starts_are_valid_and_every_number_of_walls_is_as_likely():
    env = jaxrl.make("maze/13", walls=7)
    states = starts(env, 4000)
    assert_valid(states)
    counts = np.bincount(states.walls.sum(axis=(1, 2)), minlength=8)
    assert len(counts) == 8
    assert ((counts - 500) ** 2 / 500).sum() < 24.3  # chi-squared with 7 degrees of freedom, p = 0.001
    for cells in (states.position, states.goal):
        counts = np.bincount(cells[:, 0] * 13 + cells[:, 1], minlength=169)
        assert ((counts - 4000 / 169) ** 2 / (4000 / 169)).sum() < 230  # 168 degrees of freedom
    assert states.walls.mean(axis=0).std() == pytest.approx(np.sqrt(3.5 / 169 / 4000), rel=0.3)


@pytest.mark.parametrize(("size", "walls"), [(2, 2), (3, 7), (13, 0), (13, 167), (100, 9998)])
def test_the_emptiest_and_the_fullest_mazes_are_valid(size: int, walls: int):
    states = starts(Maze(size=size, walls=walls), 20)
    assert_valid(states)
    assert states.walls.sum(axis=(1, 2)).max() <= walls


def test_fewest_steps_are_those_of_a_search():
    env = jaxrl.make("maze/9", walls=40)
    states = starts(env, 200)
    found = np.asarray(jax.jit(jax.vmap(fewest_steps))(states))
    assert found.dtype == np.int32
    expected = [slow_maze.fewest_steps(one(states, i)) for i in range(len(found))]
    assert 20 < expected.count(None) < 180
    np.testing.assert_array_equal(found, [UNREACHABLE if steps is None else steps for steps in expected])


def test_the_fewest_steps_earn_the_best_return():
    env = jaxrl.make("maze/13", walls=0)
    state = one(starts(env, 1), 0)
    step, total, taken = jax.jit(env.step_env), 0.0, 0
    least = int(fewest_steps(state))
    while total == 0.0:
        nexts = [step(jax.random.key(0), state, action, env.default_params) for action in range(3)]
        nearest = min(nexts, key=lambda result: int(fewest_steps(result[1])))
        state, total, taken = nearest[1], float(nearest[2]), taken + 1
    assert taken == least
    assert total == pytest.approx(1 - 0.9 * least / 250)


@pytest.mark.parametrize("walls", [0, 30, 79])
def test_an_edit_changes_one_thing_and_leaves_a_valid_start(walls: int):
    env = jaxrl.make("maze/9", walls=walls)
    before = starts(env, 3000)
    mutate = jax.jit(jax.vmap(env.mutate))
    after = jax.tree.map(np.asarray, mutate(jax.random.split(jax.random.key(1), 3000), before))
    assert_valid(after)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
    flips = (before.walls != after.walls).sum(axis=(1, 2))
    assert set(np.unique(flips)) <= {0, 1}
    moves_goal = (before.goal != after.goal).any(axis=1)
    moves_agent = (before.position != after.position).any(axis=1)
    kinds = np.stack([flips == 1, moves_goal, moves_agent])
    assert kinds.sum(axis=0).max() == 1
    full = before.walls.sum(axis=(1, 2)) == 79
    np.testing.assert_array_equal(kinds[1:].any(axis=0) & full, False)
    np.testing.assert_allclose(kinds[:, ~full].mean(axis=1), 1 / 3, atol=0.035)
    assert (before.direction != after.direction)[~moves_agent].sum() == 0
    assert set(np.unique(after.direction[moves_agent])) == {0, 1, 2, 3}


def test_an_edit_can_be_of_any_cell():
    env = jaxrl.make("maze/9", walls=0)
    state = one(starts(env, 1), 0)
    edited = jax.vmap(env.mutate, (0, None))(jax.random.split(jax.random.key(2), 4000), state)
    own = {tuple(np.asarray(cell).tolist()) for cell in (state.position, state.goal)}
    everywhere = {(row, column) for row in range(9) for column in range(9)}
    assert {tuple(cell) for cell in np.argwhere(np.asarray(edited.walls).any(axis=0)).tolist()} == everywhere - own
    for cells, old in ((edited.goal, state.position), (edited.position, state.goal)):
        reached = {tuple(cell) for cell in np.asarray(cells).tolist()}
        assert reached == everywhere - {tuple(np.asarray(old).tolist())}


def test_a_larger_maze_has_more_walls_by_default():
    assert [jaxrl.make(name).num_walls for name in ("maze/9", "maze/13")] == [28, 60]
    assert jaxrl.make("maze/9?walls=5").num_walls == 5


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"size": 1}, "size must be"),
        ({"walls": 168}, "walls must be"),
        ({"walls": -1}, "walls must be"),
        ({"observe": "map"}, "observe must be 'view' or 'picture' or 'lidar', got 'map'"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_options_out_of_range_are_refused(options: dict, problem: str):
    with pytest.raises(ValueError, match=problem):
        Maze(**options)


@pytest.mark.parametrize("observe", ["view", "lidar"])
def test_an_episode_is_drawn_frame_by_frame(observe: str):
    env = jaxrl.make("maze/labyrinth", observe=observe)
    state = env.reset(jax.random.key(0))[1]
    states = [state]
    for action in (2, 2, 1):
        states.append(env.step_env(jax.random.key(0), states[-1], action, env.default_params)[1])
    scene = env.draw(jax.tree.map(lambda *leaves: np.stack(leaves), *states))
    assert scene.num_frames == 4
    captions = [f"fewest steps: {n}" for n in (113, 112, 111, 112)]
    assert [str(text) for text in scene.captions[1].text] == captions
