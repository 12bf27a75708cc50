"""Options of other libraries' environments."""

import pytest

from jaxrl import make
from jaxrl.interop.options import clocked, fitting


@pytest.mark.quick
def test_an_episode_has_steps():
    assert clocked({"max_steps": 9.0, "time_limit": None, "rows": 0}) == {"max_steps": 9, "time_limit": None, "rows": 0}
    with pytest.raises(ValueError, match="max_steps_in_episode must be a whole number of at least 1, got -1"):
        fitting("peer", {"max_steps_in_episode": -1}, {"max_steps_in_episode": 500})


@pytest.mark.parametrize(
    ("library", "name", "clock"),
    [
        ("gymnax", "CartPole-v1", "max_steps_in_episode"),
        ("jaxmarl", "overcooked", "max_steps"),
        ("jaxmarl", "MPE_simple_spread_v3", "max_steps"),
        ("jaxmarl", "coin_game", "num_inner_steps"),
        ("jumanji", "Maze-v0", "time_limit"),
        ("craftax", "Craftax-Classic-Symbolic-v1", "max_timesteps"),
        ("navix", "Navix-Empty-5x5-v0", "max_steps"),
    ],
)
def test_no_episode_is_made_of_no_steps(library, name, clock):
    pytest.importorskip(library)
    with pytest.raises(ValueError, match=f"^{clock} must be a whole number of at least 1, got 0"):
        make(f"{library}:{name}?{clock}=0")
