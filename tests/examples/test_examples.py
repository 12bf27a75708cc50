"""The scripts in examples/ run as they are; the slow tests train as long as their texts promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    """What a script prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_ippo_from_scratch_runs_with_several_seeds() -> None:
    lines = run("ippo_from_scratch.py", "--seeds", "2", "--total-timesteps", "8192").splitlines()
    assert len(lines) == 2
    assert re.search(r" 8,192 steps .* win rate 0\.\d+ 0\.\d+$", lines[-1])


@pytest.mark.slow
def test_ippo_from_scratch_wins() -> None:
    last = run("ippo_from_scratch.py").splitlines()[-1]
    assert float(last.rpartition(" ")[2]) >= 0.85, last


@pytest.mark.slow
def test_domain_randomisation_generalises() -> None:
    heading, usual, randomised = run("domain_randomisation.py").splitlines()
    assert [float(x) for x in heading.split()[2:]] == [0.25, 0.5, 1.0, 2.0, 4.0]
    *_, long = map(float, usual.split()[3:])
    *_, long_too = map(float, randomised.split()[1:])
    assert long < 100 < 200 < long_too


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= (200 if path.stem == "ippo_from_scratch" else 80)


@pytest.mark.slow
def test_own_environment_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("own_environment.py")
    assert float(re.findall(r"return +([\d.]+)", said)[0]) == 1.0
    assert (tmp_path / "runs" / "catch" / "replay.gif").is_file()


@pytest.mark.slow
def test_own_network_and_loss_are_used() -> None:
    said = run("own_network_and_loss.py")
    assert float(re.findall(r"return +([\d.]+)", said)[0]) >= 400
    assert re.search(r"penalty: \[0\.\d+ 0\.\d+\]", said)


@pytest.mark.slow
def test_strangers_understand_each_other_worse() -> None:
    own, others = map(float, re.findall(r"partner (-?[\d.]+), with another's (-?[\d.]+)", run("cross_play.py"))[0])
    assert others < own - 10


@pytest.mark.slow
def test_deploy_in_gymnasium_plays_well_and_the_same_in_three_ways() -> None:
    pytest.importorskip("gymnasium")
    returns = [float(line.split()[-1]) for line in run("deploy_in_gymnasium.py").splitlines()]
    assert len(returns) == 3
    assert len(set(returns)) == 1
    assert returns[0] >= 450
