"""`python -m tests.soak`: hundreds of faults on real runs, all of which must end as a quiet run does.

Small trainings, sweeps and searches are killed, stopped, read, started twice, left without room and damaged at random
moments; after each fault that ends one the same command is given again. In the end the rows must be those of a run that
nobody has disturbed, bit for bit but for times, the checkpoints good, and nothing that was set aside lost. The exit
code is 1 if anything is not as it should be; the folders that show it are then kept.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

from tests.soak.faults import DAMAGES, FATAL, GENTLE, PATIENCE, Life
from tests.soak.shell import Command, Reader
from tests.soak.subject import KINDS, Keepsakes, Kind, differences, status


class Soak:
    """All that is done and found.

    Args:
        scratch: Where everything happens.
        faults: How many to inflict at least.
        seconds: How long to inflict them at least.
        seed: Of what happens when.
    """

    def __init__(self, scratch: Path, faults: int, seconds: float, seed: int) -> None:
        self.scratch = scratch
        self.counts: collections.Counter[str] = collections.Counter()
        self.finished: collections.Counter[str] = collections.Counter()
        self.found: list[str] = []
        self._faults = faults
        self._until = time.monotonic() + seconds
        self._seed = seed
        self._lock = threading.Lock()
        self._commands: list[Command] = []

    @property
    def over(self) -> bool:
        """Whether nothing more is to be inflicted."""
        return self.counts.total() >= self._faults and time.monotonic() > self._until

    def start(self, words: list[str], log: Callable[[str], None]) -> Command:
        """Start `jaxrl …`."""
        command = Command(words, self.scratch, log)
        self._commands.append(command)
        return command

    def stop(self) -> None:
        """Kill all that was started."""
        for command in self._commands:
            command.kill()

    def prepare(self, kind: Kind) -> None:
        """Train the run that nobody disturbs, which also compiles everything."""
        words = [*kind.words, "--run-dir", f"{kind.name}-quiet"]
        answer = self.start(words, lambda text: None).answer(4 * PATIENCE)
        if answer is None or answer.code != 0:
            raise RuntimeError(f"{kind.name} does not even run when nobody disturbs it: {answer}")

    def torment(self, kinds: Iterator[tuple[int, Kind]]) -> None:
        """One subject after the other, until it is over."""
        reader = Reader(self.scratch)
        try:
            while not self.over:
                with self._lock:
                    number, kind = next(kinds)
                subject = Subject(self, number, kind, reader, random.Random(f"{self._seed}-{number}"))
                try:
                    subject.suffer()
                except Exception:
                    self.tell(subject.name, f"the soak itself has failed: {traceback.format_exc()}")
                finally:
                    subject.stop()
        finally:
            reader.close()

    def count(self, fault: str | None) -> None:
        """A fault was inflicted."""
        if fault:
            with self._lock:
                self.counts[fault] += 1
                done = self.counts.total()
            print(f"{time.strftime('%H:%M:%S')} {done:4} {fault}", flush=True)

    def tell(self, name: str, text: str) -> None:
        """Something is not as it should be."""
        with self._lock:
            self.found.append(f"{name}: {text}")
        print(f"!! {self.found[-1]}", flush=True)

    def compare(self, folder: Path, kind: Kind) -> list[str]:
        """With the quiet run; one comparison at a time."""
        with self._lock:
            self.finished[kind.name] += 1
            return differences(folder, self.scratch / f"{kind.name}-quiet", kind.file)


class Subject:
    """One run, sweep or search, from its first process to its end.

    Args:
        soak: Counts and is told.
        number: Names it.
        kind: What it is.
        reader: Reads meanwhile.
        rng: Decides what happens.
    """

    def __init__(self, soak: Soak, number: int, kind: Kind, reader: Reader, rng: random.Random) -> None:
        self.name = f"{number}-{kind.name}"
        self.folder = soak.scratch / self.name
        self._soak = soak
        self._kind = kind
        self._reader = reader
        self._rng = rng
        self._keepsakes = Keepsakes(self.folder)
        self._failed = False
        self._commands: list[Command] = []

    def suffer(self) -> None:
        """Several lives with faults, until one shows something wrong; then some without, and the comparison."""
        for _ in range(self._rng.randint(4, 14)):
            if self._soak.over or self._done or self._failed:
                break
            life = self._live()
            self._hurt(life)
            self._damage()
        for _ in range(3):
            if self._done:
                break
            self._live().end()
        if not self._done:
            self._tell("is not finished even when it is left alone")
        else:
            for text in self._keepsakes.lost() + self._soak.compare(self.folder, self._kind):
                self._tell(text)
        if not self._failed:
            for path in self._soak.scratch.glob(f"{self.name}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def stop(self) -> None:
        """Kill what is left of it."""
        for command in self._commands:
            command.kill()

    @property
    def _done(self) -> bool:
        return status(self.folder / self._kind.file) == "finished"

    def _live(self) -> Life:
        """The command is given again; nobody else is writing."""
        self._keepsakes.look()
        trainer = self._start()
        return Life(self._kind, self.folder, trainer, self._start, self._reader, self._rng, self._tell)

    def _start(self) -> Command:
        words = [*self._kind.words, "--run-dir", self.name]
        saved = any(path.name.isdigit() for path in self.folder.glob("checkpoints/*"))
        if saved and self._rng.random() < 0.5:
            words = ["resume", self.name, "--quiet"]
        self._commands.append(self._soak.start(words, self._log))
        return self._commands[-1]

    def _hurt(self, life: Life) -> None:
        faults: list[Callable[[Life], str]] = self._rng.choices(GENTLE, k=self._rng.choice([0, 1, 1, 2, 3]))
        for fault in [*faults, self._rng.choice(FATAL)]:
            life.wait()
            if not life.trainer.alive:
                break
            self._soak.count(fault(life))
        life.end()

    def _damage(self) -> None:
        if not self._done and self._rng.random() < 0.5:
            fault = self._rng.choice(DAMAGES)(self.folder, self._rng)
            self._log(f"# {fault}\n")
            self._soak.count(fault)

    def _tell(self, text: str) -> None:
        self._failed = True
        self._log(f"!! {text}\n")
        self._soak.tell(self.name, text)

    def _log(self, text: str) -> None:
        with (self._soak.scratch / f"{self.name}.log").open("a") as file:
            file.write(text)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="inflict faults for so many")
    parser.add_argument("--faults", type=int, default=200, help="and until there have been so many")
    parser.add_argument("--seed", type=int, default=0, help="of what happens when")
    parser.add_argument("--side-by-side", type=int, default=2, help="subjects at the same time")
    parser.add_argument("--kinds", nargs="+", default=[kind.name for kind in KINDS], help="train, sweep, search")
    flags = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="jaxrl-soak[1]-"))
    kinds = [kind for kind in KINDS if kind.name in flags.kinds]
    soak = Soak(scratch, flags.faults, 60 * flags.minutes, flags.seed)
    print(f"In {scratch}: first the runs that nobody disturbs.", flush=True)
    pool = ThreadPoolExecutor(flags.side_by_side)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        list(pool.map(soak.prepare, kinds))
        queue = enumerate(itertools.cycle(kinds))
        list(pool.map(soak.torment, [queue] * flags.side_by_side))
    except KeyboardInterrupt:
        soak.stop()
        os._exit(130)  # the threads would start others
    print(f"\n{'faults':>6}")
    for fault, count in soak.counts.most_common():
        print(f"{count:6} {fault}")
    print(f"{soak.counts.total():6} in all, on {dict(soak.finished)} that came to their end")
    for text in soak.found:
        print(f"!! {text}")
    if soak.found:
        print(f"{len(soak.found)} things are not as they should be; {scratch} shows them.")
        return 1
    shutil.rmtree(scratch)
    print("Nothing is lost.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
