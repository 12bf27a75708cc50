"""Processes killed at random moments and started again: the result is that of a run that nobody disturbed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_runs import read_rows, timeless

from jaxrl.train.folder.load import load

TOYS = Path(__file__).parent


class Shell:
    """Runs `jaxrl …` as a process of its own, in a folder; programs that were compiled once are found again."""

    def __init__(self, place: Path) -> None:
        self.place = place
        # The cache's default skips programs that compile quickly, as those of the toy do.
        quick = "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)"
        toy = "algos._MODULES['toy'] = 'toy_algorithm'"
        code = f"import sys, jax; from jaxrl import algos, cli; {toy}; {quick}; cli.main(sys.argv[1:])"
        self._program = [sys.executable, "-c", code]
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(TOYS),
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(place / "compiled"),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._program, *words],
            cwd=self.place,
            env=self._environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str) -> str:
        """To its end; returns what it says."""
        process = self.start(*words)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        return out + err


def wait_for_progress(run: Path, process: subprocess.Popen[str]) -> None:
    """Until the process has added a row of metrics, or has ended."""
    metrics, seen = run / "metrics.jsonl", None
    until = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < until:
        size = metrics.stat().st_size if metrics.exists() else 0
        if seen is not None and size > seen:
            return
        seen = size  # it shrinks when the run goes back to its checkpoint
        time.sleep(0.005)


def wait_for_a_save(run: Path, process: subprocess.Popen[str]) -> None:
    """Until a checkpoint is being written, or the process has ended."""
    until = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < until and not list(run.glob("checkpoints/*tmp*")):
        time.sleep(0.001)


def kill(run: Path, process: subprocess.Popen[str], rng: random.Random, number: signal.Signals) -> str:
    """At a random moment: from the very start, in a save, or after training has begun. Returns what it interrupted."""
    when = rng.choice(["start", "save", "save", "training", "training"])
    if when == "start":
        time.sleep(rng.uniform(0.0, 6.0))
    else:
        wait_for_progress(run, process)
    if when == "save":
        wait_for_a_save(run, process)
        time.sleep(rng.uniform(0.0, 0.03))
    if when == "training":
        time.sleep(rng.uniform(0.0, 0.8))
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode in (-number, 75, 0), err  # 75: told to stop, it has saved
    if process.returncode == 75:
        assert f"Continue with: jaxrl resume {run.name}" in err
        return "told to stop"
    if process.returncode == 0:
        return "too late"
    return "while saving" if list(run.glob("checkpoints/*tmp*")) else "killed"


def disturbed(shell: Shell, train: list[str], kills: int, rng: random.Random) -> list[str]:
    """Start, kill, start again …, and let the last one come to its end. Returns what was interrupted each time."""
    run, what = shell.place / "run", []
    for _ in range(kills):
        saved = any(path.name.isdigit() for path in run.glob("checkpoints/*"))
        command = ["resume", "run", "--quiet"] if saved and rng.random() < 0.5 else [*train, "--run-dir", "run"]
        number = signal.SIGTERM if rng.random() < 0.2 else signal.SIGKILL
        what.append(kill(run, shell.start(*command), rng, number))
        if what[-1] == "too late":
            break
    if what[-1] != "too late":
        shell.run(*train, "--run-dir", "run")
    return what


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit the same final states; the same rows, each once and in order."""
    states = [jax.tree.leaves(load(path, trust=True).state) for path in (one, other)]
    for a, b in zip(*states, strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert timeless(read_rows(one / name)) == timeless(read_rows(other / name))
    about = [json.loads((path / "run.json").read_text()) for path in (one, other)]
    assert about[0]["status"] == "finished"
    assert about[0]["evaluation"] == about[1]["evaluation"]


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(TOYS), *sys.path])
    shell = Shell(tmp_path)
    train = ["train", "toy", "--total-timesteps", "2400", "--work", "128", "--log-every", "7", "--no-pictures"]
    train += ["--quiet", "--eval-episodes", "8", "--eval-every", "90", "--checkpoint-every-updates", "20"]
    what = disturbed(shell, train, 2, random.Random(0))
    assert "too late" not in what
    shell.run(*train, "--run-dir", "whole")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_at_random_moments(tmp_path: Path) -> None:
    """PPO on CartPole, saving about a third of the time."""
    shell = Shell(tmp_path)
    train = [
        "train",
        "ppo",
        "--num-envs",
        "8",
        "--num-steps",
        "32",
        "--hidden",
        "32",
        "--memory",
        "gru",
        "--no-pictures",
    ]
    train += ["--total-timesteps", str(256 * 3000), "--log-every", "3", "--eval-every", "1000", "--eval-episodes", "16"]
    train += ["--quiet", "--checkpoint-every-updates", "25", "--normalise-obs"]
    shell.run(*train, "--run-dir", "whole")
    what = disturbed(shell, train, 20, random.Random(1))
    print(what, json.loads((tmp_path / "run" / "run.json").read_text())["train_seconds"])
    assert len(what) == 20
    assert what.count("while saving") >= 3
    assert "told to stop" in what
    assert_same_run(tmp_path / "run", tmp_path / "whole")
