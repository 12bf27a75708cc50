"""Maps of one's own, as text."""

import math

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.jaxnav import NamedMap, parse_map

TEXT = """
    ######
    #1..b#
    #.##.#
    #2..a#
    ######
"""


def test_rows_are_read_from_the_top_and_y_grows_upwards():
    drawn = parse_map(TEXT)
    assert drawn.rows[1] == "#2..a#"
    assert [start[:2] for start in drawn.starts] == [(1.5, 3.5), (1.5, 1.5)]
    assert drawn.goals == ((4.5, 1.5), (4.5, 3.5))


def test_robots_look_to_their_goals():
    headings = [heading for _, _, heading in parse_map(TEXT).starts]
    np.testing.assert_allclose(headings, [math.atan2(-2, 3), math.atan2(2, 3)])


def test_an_episode_begins_as_drawn():
    env = jaxrl.make("jaxnav/own", map=TEXT)
    state = jax.jit(env.reset)(jax.random.key(0))[1]
    np.testing.assert_array_equal(state.position, [[1.5, 3.5], [1.5, 1.5]])
    np.testing.assert_array_equal(state.goal, [[4.5, 1.5], [4.5, 3.5]])
    np.testing.assert_array_equal(np.flatnonzero(~np.asarray(state.walls)[2]), [1, 4])


@pytest.mark.parametrize("name", ["blank", "middle", "single_nav1", "single_nav2"])
def test_the_text_of_a_named_map_draws_it(name: str):
    env = NamedMap(name)
    drawn = parse_map("\n".join(env.text_map.rows))
    np.testing.assert_array_equal(drawn.walls, env.map.walls)
    centre = [tuple(np.floor(start[:2]) + 0.5) for start in env.map.starts]
    assert [start[:2] for start in drawn.starts] == centre
    assert list(drawn.goals) == [tuple(np.floor(goal) + 0.5) for goal in env.map.goals]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("####|#1a#|####|", "same length"),
        ("#####|#1a.#|#####|#####", None),
        ("####|#1x#|####", "'x' means nothing"),
        ("####|#1.#|####", r"no a \(goal of robot 1\)"),
        ("#####|#.2b#|#####", r"no 1 \(robot 1\)"),
        ("#####|#11a#|#####", "stands in the map twice"),
        ("#####|#1a..|#####", "on its edge"),
    ],
)
def test_a_map_that_cannot_be_played_says_why(text: str, problem: str | None):
    if problem is None:
        assert jaxrl.make("jaxnav/own", map=text).num_agents == 1
    else:
        with pytest.raises(ValueError, match=problem):
            jaxrl.make("jaxnav/own", map=text)


def test_a_wrong_name_is_not_taken_for_a_map():
    with pytest.raises(ValueError, match=r"There is no map 'blanc'\. Did you mean blank"):
        NamedMap("blanc")
