"""What all adapters share: loaded on first use, and clear about what is missing."""

import builtins
import sys

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl import interop
from jaxrl.interop.common import clocked, fitting, joined
from jaxrl.spaces import Box, Discrete, MultiDiscrete


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("to_gymnasium", "gymnasium"),
        ("to_gymnasium_vector", "gymnasium"),
        ("to_pettingzoo", "pettingzoo"),
        ("to_dm_env", "dm_env"),
        ("to_gymnax", "gymnax"),
        ("from_jaxmarl", "jaxmarl"),
        ("from_craftax", "craftax"),
        ("from_navix", "navix"),
    ],
)
def test_a_missing_library_is_named_with_the_line_that_installs_it(name, library, monkeypatch):
    for module in [m for m in sys.modules if m.startswith(f"jaxrl.interop.{library}")]:
        monkeypatch.delitem(sys.modules, module)
    real = builtins.__import__

    def without(wanted, *args, **kwargs):
        if wanted.partition(".")[0] == library:
            raise ImportError(f"No module named {library!r}")
        return real(wanted, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    extra = library.replace("_", "-")
    with pytest.raises(ImportError, match=rf'This needs {library}: pip install "jaxrl\[{extra}\]"'):
        getattr(interop, name)


def test_every_public_name_is_there():
    pytest.importorskip("gymnax")
    for name in interop.__all__:
        assert callable(getattr(interop, name))
    assert set(interop.__all__) <= set(dir(interop))
    with pytest.raises(AttributeError, match="to_openspiel"):
        interop.to_openspiel  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_spaces_of_several_agents_are_joined_into_the_smallest_that_holds_all():
    assert joined([Discrete(3), Discrete(5)]) == Discrete(5)
    assert joined([Box(-1, 1, (2,)), Box(0, 2, (3,))]) == Box(-1.0, 2.0, (3,))
    assert joined([MultiDiscrete((2, 3))] * 2) == MultiDiscrete((2, 3))
    assert joined([Box(np.array([0, -1]), 1, (2,))] * 2) == Box(np.array([0, -1]), 1, (2,))
    with pytest.raises(TypeError, match="cannot stand in one array"):
        joined([Discrete(3), Box(0, 1, (3,))])


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
        jaxrl.make(f"{library}:{name}?{clock}=0")


def test_the_library_draws_its_environments_itself():
    pytest.importorskip("gymnax")
    env = jaxrl.make("gymnax:CartPole-v1")
    with pytest.raises(NotImplementedError, match="gymnax:CartPole-v1 has no picture here: its own library draws"):
        env.render(env.reset(jax.random.key(0))[1])
