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


def test_ippo_from_scratch_runs_with_several_seeds() -> None:
    lines = run("ippo_from_scratch.py", "--seeds", "2", "--total-timesteps", "4096").splitlines()
    assert len(lines) == 20
    assert re.search(r"81,920 steps .* win rate 0\.\d+ 0\.\d+$", lines[-1])


def test_ippo_from_scratch_is_short() -> None:
    assert len((EXAMPLES / "ippo_from_scratch.py").read_text().splitlines()) <= 200


@pytest.mark.slow
def test_ippo_from_scratch_wins() -> None:
    last = run("ippo_from_scratch.py").splitlines()[-1]
    assert float(last.rpartition(" ")[2]) >= 0.85, last
