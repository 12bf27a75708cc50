"""The mazes of the literature, and mazes as text."""

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.maze import MAZES, NamedMaze, fewest_steps
from jaxrl.errors import UnknownNameError
from tests.envs.maze import slow_maze

# Walls, and the fewest steps to the goal.
EXPECTED = {
    "sixteen_rooms": (46, 26),
    "sixteen_rooms2": (53, 28),
    "labyrinth": (72, 113),
    "labyrinth_flipped": (72, 113),
    "labyrinth2": (72, 113),
    "standard_maze": (73, 54),
    "standard_maze2": (72, 73),
    "standard_maze3": (71, 54),
}


@pytest.mark.parametrize("name", MAZES)
def test_a_named_maze_has_a_way_to_its_goal(name: str):
    env = jaxrl.make(f"maze/{name}")
    _, state = env.reset(jax.random.key(0))
    assert (int(state.walls.sum()), slow_maze.fewest_steps(state)) == EXPECTED[name]
    assert int(fewest_steps(state)) == EXPECTED[name][1]
    assert (env.size, state.walls.shape) == (13, (13, 13))


def test_the_flipped_labyrinth_is_the_mirror_image():
    _, state = jaxrl.make("Labyrinth").reset(jax.random.key(0))
    _, flipped = jaxrl.make("LabyrinthFlipped").reset(jax.random.key(0))
    np.testing.assert_array_equal(flipped.walls, np.asarray(state.walls)[:, ::-1])
    np.testing.assert_array_equal(flipped.position, [state.position[0], 12 - state.position[1]])


def test_held_out_begins_with_each_of_them():
    states = jax.vmap(jaxrl.make("maze/held_out").reset)(jax.random.split(jax.random.key(0), 800))[1]
    mazes, counts = np.unique(np.asarray(states.walls).reshape(800, -1), axis=0, return_counts=True)
    assert len(mazes) == len(MAZES) == 8
    assert ((counts - 100) ** 2 / 100).sum() < 24.3  # chi-squared with 7 degrees of freedom, p = 0.001


def test_a_maze_is_drawn_as_text():
    env = NamedMaze("""
        .#G
        .#.
        <..
    """)
    _, state = env.reset(jax.random.key(0))
    np.testing.assert_array_equal(np.argwhere(state.walls), [[0, 1], [1, 1]])
    assert (list(state.position), int(state.direction), list(state.goal)) == ([2, 0], 3, [0, 2])
    assert int(fewest_steps(state)) == 2 + 2 + 1 + 2
    assert env.default_params.max_steps == 250


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("...|>.G", "as many rows as columns, not 2 rows"),
        ("..|>.G|...", "as many rows as columns"),
        (">x|.G", "consists of"),
        ("..|.G", "one agent and one G, not 0 and 1"),
        ("^>|.G", "one agent and one G, not 2 and 1"),
        (">.|..", "one agent and one G, not 1 and 0"),
    ],
)
def test_a_text_that_is_no_maze_says_why(text: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        NamedMaze(text)


def test_a_wrong_name_is_corrected():
    with pytest.raises(UnknownNameError, match=r"There is no maze 'labyrint'\. Did you mean labyrinth"):
        NamedMaze("labyrint")
