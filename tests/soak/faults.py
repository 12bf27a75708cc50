"""The faults. In its life a process suffers a few that it should survive, and then one that it need not."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.shell import Command, Reader, wait_until
from tests.soak.subject import Kind, find, run_folders, status

__all__ = ["DAMAGES", "FATAL", "GENTLE", "Life"]

PATIENCE = 300.0
"""Seconds until a command hangs."""
_SIGNALS = {  # what a process may return that is sent them: training it saves first, at other times it just ends
    signal.SIGKILL: {-9},
    signal.SIGTERM: {75, -15, 143},
    signal.SIGINT: {75, -2, 130, 1},
}


class Life:
    """A process that trains, and what happens to it.

    Args:
        kind: What it does.
        folder: Where.
        trainer: The process.
        start: Starts another one with the same command.
        reader: Reads meanwhile.
        rng: Decides everything but the time that things take.
        tell: Told of whatever should not be.
    """

    def __init__(
        self,
        kind: Kind,
        folder: Path,
        trainer: Command,
        start: Callable[[], Command],
        reader: Reader,
        rng: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self.kind = kind
        self.folder = folder
        self.trainer = trainer
        self.start = start
        self.reader = reader
        self.rng = rng
        self.tell = tell
        self.codes = {0}
        """How the process may end."""

    def wait(self) -> None:
        """For a random moment: soon, shortly after a row was written, or in the middle of a save."""
        when = self.rng.choice(["soon", "row", "row", "save"])
        if when == "soon":
            wait_until(lambda: not self.trainer.alive, self.rng.uniform(0.0, 6.0))
            return
        before = self._rows()
        wait_until(lambda: self._rows() > before or not self.trainer.alive, 30.0)
        if when == "save":
            wait_until(lambda: bool(find(self.folder, "*checkpoint-tmp*")) or not self.trainer.alive, 10.0, 0.001)
        time.sleep(self.rng.uniform(0.0, 0.03 if when == "save" else 0.8))

    def fill_disk(self) -> None:
        """As soon as training has begun: Python itself does not start where nothing can be written at all."""
        rows = self._rows()
        wait_until(lambda: self._rows() != rows or not self.trainer.alive, 30.0)
        self.codes |= {1, 2}
        self.trainer.fill_disk(True)

    def end(self) -> None:
        """Wait for it, and judge how it comes."""
        answer = self.trainer.answer(PATIENCE)
        if answer is None:
            self.tell(f"hangs for {PATIENCE:.0f} s")
        elif answer.code not in self.codes:
            self.tell(f"exit code {answer.code}, which none of its faults explains: {answer.last_words}")
        elif answer.crashed:
            self.tell(f"an error that is not explained: {answer.last_words}")

    def _rows(self) -> int:
        """Bytes of metrics; whoever is moving files at this moment does not count."""
        sizes = []
        for path in find(self.folder, "metrics.jsonl"):
            try:
                sizes.append(path.stat().st_size)
            except FileNotFoundError:
                continue
        return sum(sizes)


# Faults that training should survive


def read(life: Life) -> str:
    """Somebody looks at the run."""
    command = life.rng.choice(["eval", "render", "report", "watch"])
    runs = run_folders(life.folder)
    run = str(life.rng.choice(runs) if runs else life.folder)
    words = {
        "eval": ["eval", run, "--episodes", "8"],
        "render": ["render", run, "--out", f"{life.folder.name}.html", "--max-steps", "50"],
        "report": ["report", str(life.folder), "--out", f"{life.folder.name}-report"],
        "watch": ["watch", run, "--once"],
    }[command]
    answer = life.reader.ask(words)
    if answer is None:
        life.tell(f"jaxrl {' '.join(words)} gives no answer")
    elif answer.crashed or answer.code not in (0, 1, 2):
        life.tell(f"jaxrl {' '.join(words)} has crashed: {answer.last_words}")
    return f"reader: {command}"


def second_writer(life: Life) -> str:
    """The same command is given once more, and should be refused, unless the first one ends meanwhile."""
    second = life.start()
    answer = second.answer(PATIENCE)
    if answer is None:
        life.tell("a second writer hangs")
    elif answer.crashed or answer.code not in (0, 2):
        life.tell(f"a second writer ends with exit code {answer.code}: {answer.last_words}")
    return "second writer"


def full_disk_for_a_while(life: Life) -> str:
    """Nothing can be written for some seconds."""
    life.fill_disk()
    wait_until(lambda: not life.trainer.alive, life.rng.uniform(0.2, 4.0))
    life.trainer.fill_disk(False)
    return "full disk, for a while"


GENTLE = (read, read, second_writer, full_disk_for_a_while)

# Faults that end the process


def killed(life: Life) -> str:
    """No time for anything."""
    return _signal(life, signal.SIGKILL)


def told_to_stop(life: Life) -> str:
    """By a scheduler or by Ctrl-C."""
    return _signal(life, life.rng.choice([signal.SIGTERM, signal.SIGINT]))


def full_disk_to_the_end(life: Life) -> str:
    """There is no room any more; training goes on, but its end cannot be saved."""
    life.fill_disk()
    return "full disk, to the end"


def taken_over(life: Life) -> str:
    """A second writer starts, the first one is killed: whether the second one is early or late, it may go on or not."""
    second = life.start()
    wait_until(lambda: not second.alive, life.rng.uniform(0.0, 10.0))
    life.trainer.send(signal.SIGKILL)
    life.codes |= {-9}
    life.end()
    life.trainer, life.codes = second, {0, 2}
    return "second writer, first one killed"


def _signal(life: Life, number: signal.Signals) -> str:
    life.codes |= _SIGNALS[number]
    life.trainer.send(number)
    return number.name


FATAL = (killed, killed, killed, told_to_stop, told_to_stop, taken_over, full_disk_to_the_end)

# What is found damaged when the command is given again


def live_json(folder: Path, rng: random.Random) -> str | None:
    """live.json is empty, or cut off."""
    files = [path for path in find(folder, "live.json") if "interrupted-" not in str(path)]
    for path in files:
        os.truncate(path, rng.choice([0, path.stat().st_size // 2]))
    return "live.json damaged" if files else None


def left_over(folder: Path, rng: random.Random) -> str | None:
    """A file that was about to replace another one."""
    file = rng.choice(["run.json.new", "live.new"])
    for run in run_folders(folder):
        (run / file).write_text('{"status": "fin')
    return f"{file} left over" if run_folders(folder) else None


def half_a_row(folder: Path, rng: random.Random) -> str | None:
    """The last row was not written to its end."""
    runs = [run for run in _unfinished(folder) if (run / "metrics.jsonl").exists()]
    for run in runs:
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"timesteps": 12')
    return "half a row" if runs else None


def half_a_checkpoint(folder: Path, rng: random.Random) -> str | None:
    """A save was interrupted, or the newest checkpoint is damaged where there is an older one."""
    for run in _unfinished(folder):
        saved = sorted((p for p in run.glob("checkpoints/*") if p.name.isdigit()), key=lambda p: int(p.name))
        if len(saved) > 1 and rng.random() < 0.7:
            largest = max((p for p in saved[-1].rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
            os.truncate(largest, largest.stat().st_size // 2)
            return "newest checkpoint damaged"
        if saved:
            (saved[-1].parent / f"{saved[-1].name}9.orbax-checkpoint-tmp").mkdir(exist_ok=True)
            return "unfinished checkpoint left over"
    return None


def _unfinished(folder: Path) -> list[Path]:
    return [run for run in run_folders(folder) if status(run / "run.json") != "finished"]


DAMAGES = (live_json, left_over, half_a_row, half_a_checkpoint, half_a_checkpoint)
