"""Films as pixels, alone and in a grid."""

import jax
import numpy as np
import pytest

from jaxrl.environment import Environment
from jaxrl.render.compose import with_captions
from jaxrl.render.frames import frames_of
from jaxrl.render.raster import rasterise
from jaxrl.replay import Policy, Replay, record

pytestmark = pytest.mark.quick

FPS = 10  # two frames a step of the walk


def test_frames_are_painted_when_they_are_asked_for(replay: Replay) -> None:
    painted = frames_of(replay, FPS, 120)
    assert painted[0].shape == (67, 120, 3)  # with the strip of captions
    scene = replay.scene()
    assert len(painted) == scene.num_frames
    np.testing.assert_array_equal(painted[3], rasterise(with_captions(scene), 120)[3])


def test_a_grid_shows_films_side_by_side_until_the_longest_ends(
    walk: Environment, forward: Policy, replay: Replay
) -> None:
    short = record(walk, forward, jax.random.key(1), max_steps=2)
    films = [short, replay, replay]
    grid = frames_of(films, FPS, 244)
    assert len(grid) == len(frames_of(replay, FPS, 120)) > len(frames_of(short, FPS, 120))
    assert grid[0].shape == (2 * 67 + 4, 244, 3)
    for number in (0, 5, len(grid) - 1):
        frame = grid[number]
        for (y, x), film in zip(((0, 0), (0, 124), (71, 0)), films, strict=True):
            alone = frames_of(film, FPS, 120)
            np.testing.assert_array_equal(frame[y : y + 67, x : x + 120], alone[min(number, len(alone) - 1)])
        assert len(np.unique(frame[71:, 124:])) == 1  # three films leave one place empty


def test_a_grid_needs_a_film_and_room() -> None:
    with pytest.raises(ValueError, match="at least one film"):
        frames_of([], FPS)


def test_many_films_are_small_but_not_tiny(replay: Replay) -> None:
    with pytest.raises(ValueError, match="at least 16 pixels wide"):
        frames_of([replay] * 4, FPS, 30)
