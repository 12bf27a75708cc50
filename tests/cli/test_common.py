"""The place of a film is looked at before anything is played, and the folder of compiled programs."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxrl.cli import common, main
from jaxrl.cli.common import check_film
from jaxrl.play import Session

pytestmark = pytest.mark.quick


@pytest.fixture
def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("without_pillow")
@pytest.mark.parametrize("name", ["game.gif", "game.GIF", "game.mp4"])
def test_without_pillow_films_of_pixels_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImportError, match=r'Pictures need Pillow: pip install "jaxrl\[viz\]"'):
        check_film(tmp_path / name)


@pytest.mark.usefixtures("without_pillow")
def test_a_page_needs_no_pillow(tmp_path: Path) -> None:
    check_film(tmp_path / "game.html")


def test_with_pillow_a_gif_is_possible(tmp_path: Path) -> None:
    check_film(tmp_path / "game.gif")


@pytest.mark.usefixtures("without_pillow")
def test_a_game_that_could_not_be_kept_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "__init__", lambda *_, **__: pytest.fail("a game began"))
    with pytest.raises(SystemExit) as info:
        main(["play", "coin_game", "--out", "game.gif"])
    assert info.value.code == 2
    assert 'pip install "jaxrl[viz]"' in capsys.readouterr().err


def test_a_user_without_a_home_trains_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number which its list of users lacks."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(common, "jax", SimpleNamespace(config=SimpleNamespace()))  # nothing is set by the user
    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("JAXRL_CACHE", "1")
    assert common.use_cache() is None
