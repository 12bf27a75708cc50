"""Other libraries under random actions: both sides run, and what cannot be compared is said in one sentence."""

import sys

import numpy as np
import pytest

from jaxrl.bench import compare
from jaxrl.peers import PEERS, Hosted


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
def test_both_are_measured_in_turn(library: str, env: str) -> None:
    pytest.importorskip(library)
    found = compare(env, 4, against=library, steps=3, repeats=2)  # pyright: ignore[reportArgumentType]
    assert found.peer is not None
    assert found.peer.library == library
    ratios = np.array(found.ours.runs) / np.array(found.peer.runs)
    assert found.ratio == pytest.approx(np.median(ratios))
    assert library in str(found)
    assert library in found.versions


def test_hosted_environments_are_stepped_with_actions_of_their_own_kind() -> None:
    """CartPole's reward is 1 a step, and its observations begin near 0."""
    pytest.importorskip("envpool")
    envs = PEERS["envpool"]("CartPole-v1", 8)
    assert isinstance(envs, Hosted)
    assert envs.step(np.random.default_rng(0)) == pytest.approx(8, abs=8 * 4 * 0.3)


@pytest.mark.parametrize(
    ("library", "env", "sentence"),
    [
        ("jaxmarl", "CartPole-v1", "knows smax/…, mpe/…, overcooked/…, overcooked_v2/…, hanabi/…, jaxnav/…, coin_game"),
        ("gymnax", "smax/3m", "knows CartPole-v1, Acrobot-v1"),
        ("envpool", "probe/death", "knows CartPole-v1, Acrobot-v1"),
        ("stoix", "smax/3m", "against must be one of jaxmarl, gymnax, envpool"),
    ],
)
def test_what_cannot_be_compared_is_named(library: str, env: str, sentence: str) -> None:
    if library in PEERS:
        pytest.importorskip(library)
    with pytest.raises(ValueError, match=sentence):
        compare(env, 4, against=library)  # pyright: ignore[reportArgumentType]


def test_a_missing_peer_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ImportError, match=r'pip install "jaxrl\[envpool\]"'):
        compare("CartPole-v1", 4, against="envpool")
