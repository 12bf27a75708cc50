"""The folder of compiled programs."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxrl.cli import cache


def test_a_user_without_a_home_trains_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number which its list of users lacks."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(cache, "jax", SimpleNamespace(config=SimpleNamespace()))  # nothing is set by the user
    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("JAXRL_CACHE", "1")
    assert cache.use_cache() is None
