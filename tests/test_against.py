"""Other libraries under random actions: both sides run, and what cannot be compared is said in one sentence."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from jaxrl.source_file import load_source

FOLDER = Path(__file__).resolve().parents[1] / "baselines" / "speed"


@pytest.fixture(scope="module")
def against() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield load_source(FOLDER / "against.py")


@pytest.mark.parametrize(
    ("library", "env"),
    [
        ("jaxmarl", "mpe/simple"),
        # Its `storm` uses a key twice, which the check finds.
        pytest.param("jaxmarl", "switch_riddle", marks=pytest.mark.slow),
        pytest.param("jaxmarl", "hanabi", marks=pytest.mark.slow),
        ("gymnax", "Pendulum-v1"),
        ("envpool", "classic/mountain_car"),
    ],
)
def test_both_are_measured_in_turn(against: ModuleType, library: str, env: str) -> None:
    pytest.importorskip(library)
    found = against.compare(env, 4, library, steps=3, repeats=2)
    assert found.peer.library == library
    ratios = np.array(found.ours.runs) / np.array(found.peer.runs)
    assert found.ratio == pytest.approx(np.median(ratios))
    assert library in str(found)
    assert library in found.versions


def test_python_steps_environments_with_actions_of_their_own_kind(against: ModuleType) -> None:
    """CartPole's reward is 1 a step, and its observations begin near 0."""
    pytest.importorskip("envpool")
    program = against.PEERS["envpool"]("CartPole-v1", 8, 1)
    assert program.run(0) == pytest.approx(8, abs=8 * 4 * 0.3)


@pytest.mark.parametrize(
    ("library", "env", "sentence"),
    [
        ("jaxmarl", "CartPole-v1", "knows smax/…, mpe/…, overcooked/…, overcooked_v2/…, hanabi/…, jaxnav/…, coin_game"),
        ("jaxmarl", "overcooked/cramped_room?observe=vector", "leave out the options, from the . on"),
        ("gymnax", "smax/3m", "knows CartPole-v1, Acrobot-v1"),
        ("envpool", "probe/death", "knows CartPole-v1, Acrobot-v1"),
        ("stoix", "CartPole-v1", "against must be one of jaxmarl, gymnax, envpool"),
    ],
)
def test_what_cannot_be_compared_is_named(against: ModuleType, library: str, env: str, sentence: str) -> None:
    if library in against.PEERS:
        pytest.importorskip(library)
    with pytest.raises(ValueError, match=sentence):
        against.compare(env, 4, library, steps=1)


def test_a_missing_peer_is_named_with_the_line_that_installs_it(
    against: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ImportError, match=r'pip install "jaxrl\[envpool\]"'):
        against.compare("CartPole-v1", 4, "envpool", steps=1)
