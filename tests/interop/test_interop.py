"""What all adapters share: loaded on first use, and clear about what is missing."""

import builtins
import sys

import numpy as np
import pytest

from jaxrl import interop
from jaxrl.interop.common import joined
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
