"""Makes `family` and `observed` importable by the tests beside them."""

import sys
from pathlib import Path

import pytest

import jaxrl
from jaxrl import registry

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """`toy/alone` and `toy/team` have names, which are gone after the test."""
    import observed

    jaxrl.list_envs()
    for table in ("_FACTORIES", "_FIXED", "_ALIASES"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    jaxrl.register("toy/alone", observed.Alone)
    jaxrl.register("toy/team", observed.Team)
