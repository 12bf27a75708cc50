"""Run folders that are damaged, edited or made by a stranger: a sentence each, nothing executed, nothing written."""

from __future__ import annotations

import functools
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mutations
import pytest
import toy_algorithm as toy

from jaxrl import algos
from jaxrl.cli import EXIT_WRONG_INPUT, export, guarded, report, runs, train, watch
from jaxrl.train import fit as fit_module
from jaxrl.train.fit import fit
from jaxrl.train.programs import Programs
from jaxrl.train.run import SearchRun
from jaxrl.tuning.search import search
from jaxrl.tuning.sweep import sweep

pytestmark = pytest.mark.filterwarnings("ignore")  # what NumPy says of 1e308 times two

CONFIG = toy.Config()
ALGO = toy.make(CONFIG)
OPTIONS: dict[str, Any] = {"eval_episodes": 2, "checkpoint_every_updates": 4, "quiet": True}

COMMANDS: dict[str, Callable[[str], int]] = {
    "eval": lambda run: runs.evaluate_run([run, "--episodes", "2"]),
    "render": lambda run: runs.render_run([run, "--out", f"{run}/film.html"]),
    "export": lambda run: export.export([run]),
    "watch": lambda run: watch.watch([run, "--once", "--width", "100"]),
    "report": lambda run: report.report([run, "--out", f"{run}/report"]),
    "resume": lambda run: train.resume([run, "--quiet"]),
    "rerun": lambda run: train.rerun_run([run, "--run-dir", f"{run}/again", "--quiet"]),
}
READERS = {
    "run.json": [*COMMANDS, "eval", "resume", "rerun"],
    "metrics.jsonl": ["watch", "report", "export", "rerun", "resume"],
    "evaluations.jsonl": ["watch", "export", "resume"],
    "live.json": ["watch", "resume"],
    "checkpoints": ["eval", "render", "resume"],
    "checklist.json": ["report", "watch", "eval"],
    "sweep.json": ["watch", "report", "eval"],
}
"""Who reads a file."""


class Originals:
    """One run of two seeds, with a checkpoint in the middle, and what makes it short work to go on from there."""

    def __init__(self, root: Path) -> None:
        self.run, self.search, self.sweep = root / "run", root / "search", root / "sweep"
        result = fit(ALGO, CONFIG, self.run, num_seeds=2, pictures=False, **OPTIONS)
        self.programs: Programs = result.programs
        shutil.rmtree(self.run / "checkpoints" / "10")  # there is something left to train
        search(toy, CONFIG, self.search, budget=2, tuning_seeds=1, test_seeds=1, eval_episodes=2, quiet=True, lr=[1.0])
        sweep(toy, CONFIG, self.sweep, seeds=1, eval_episodes=2, quiet=True, lr=[1.0])

    def copy(self, name: str, to: Path) -> Path:
        """A copy of the folder that holds such a file."""
        return mutations.copy({"checklist.json": self.search, "sweep.json": self.sweep}.get(name, self.run), to)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    return Originals(tmp_path_factory.mktemp("originals"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, originals: Originals) -> Path:
    """A folder to work in, with modules that a stranger would like to have imported."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "canary.py").write_text(CANARY)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.setitem(algos._MODULES, "toy", "toy_algorithm")
    monkeypatch.setattr(toy, "make", functools.cache(toy.make))  # the same config, the same programs
    monkeypatch.setattr(toy.Config, "make_env", functools.cache(toy.Config.make_env))

    def compiled(*args: Any, search: SearchRun | None = None, **options: Any) -> Any:
        return fit(*args, search=(search or SearchRun())._replace(programs=originals.programs), **options)

    monkeypatch.setattr(fit_module, "fit", compiled)
    monkeypatch.setattr("jaxrl.train.rerun.fit", compiled)
    monkeypatch.setenv("JAXRL_CACHE", "0")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


CANARY = """
import dataclasses, pathlib
pathlib.Path(__file__).with_name("executed").touch()
@dataclasses.dataclass(frozen=True)
class Config:
    pass
def make(*arguments, **named):
    pathlib.Path(__file__).with_name("executed").touch()
"""


class Started(BaseException):
    """Something has started a process or a shell."""


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening and event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.fork"):
        command = str(arguments[:2])
        if "git" not in command:  # which commit a continued run is made with
            raise Started(command)


_listening: list[None] = []
sys.addaudithook(_listen)


@pytest.fixture
def nothing_starts() -> Iterator[None]:
    _listening.append(None)
    yield
    _listening.clear()


def outcome(command: Callable[[str], int], run: str, capsys: pytest.CaptureFixture[str]) -> str:
    """How the command line would end: `done` or the sentence. Anything else is raised."""
    capsys.readouterr()
    try:
        guarded(lambda: command(run))
    except SystemExit as ending:
        said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("jaxrl: ")]
        if not said and ending.code == EXIT_WRONG_INPUT:
            raise
        return said[-1] if said else "done"
    return "done"


def surroundings(root: Path, without: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file that is none of the run's."""
    found = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == without:
            folders.clear()
            continue
        for name in [*files, *folders]:
            path = Path(folder) / name
            if "__pycache__" not in str(path) and path != without.parent:
                stat = path.lstat()
                found[str(path)] = (stat.st_size if path.is_file() else 0, stat.st_mtime_ns if path.is_file() else 0)
    return found


def attack(
    name: str, seeds: range, place: Path, originals: Originals, capsys: pytest.CaptureFixture[str]
) -> dict[str, int]:
    """Mutate one file in many ways and let its readers loose on each; returns how often each ending came."""
    endings: dict[str, int] = {}
    for seed in seeds:
        rng = random.Random(f"{name} {seed}")
        run = originals.copy(name, place / "run")
        files = sorted(path for path in (run / name).rglob("*") if path.is_file()) if (run / name).is_dir() else []
        file = rng.choice(files) if files else run / name
        how = f"{name}, seed {seed}: {file.relative_to(run)}, {mutations.mutate(file, rng)}"
        reader = READERS[name][seed % len(READERS[name])]
        before = surroundings(place.parent, run)
        try:
            ending = outcome(COMMANDS[reader], str(run), capsys)
        except BaseException as error:
            error.add_note(f"{reader} of {how}")
            raise
        assert surroundings(place.parent, run) == before, f"{reader} of {how} has written elsewhere"
        assert "canary" not in sys.modules, f"{reader} of {how} has imported a stranger's module"
        endings[ending] = endings.get(ending, 0) + 1
    return endings


CASES = {
    "run.json": 75,
    "metrics.jsonl": 35,
    "evaluations.jsonl": 30,
    "live.json": 40,
    "checkpoints": 40,
    "checklist.json": 30,
    "sweep.json": 20,
}


@pytest.mark.parametrize("name", CASES)
def test_damaged_files_get_a_sentence(
    name: str, place: Path, originals: Originals, capsys: pytest.CaptureFixture[str], nothing_starts: None
) -> None:
    endings = attack(name, range(CASES[name]), place, originals, capsys)
    assert endings["done"] > 0  # not everything is refused …
    assert name == "live.json" or set(endings) > {"done"}  # … and some damage is noticed


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_more_damaged_files_get_a_sentence(
    name: str, place: Path, originals: Originals, capsys: pytest.CaptureFixture[str], nothing_starts: None
) -> None:
    attack(name, range(10_000, 10_000 + 20 * CASES[name]), place, originals, capsys)


def test_what_is_to_be_noticed_is_noticed(place: Path, nothing_starts: None) -> None:
    """The tests above would be worth nothing with a listener that is deaf."""
    with pytest.raises(Started):
        os.system("true")
    before = surroundings(place.parent, place / "run")
    (place / "elsewhere").touch()
    assert surroundings(place.parent, place / "run") != before
