"""`jaxrl …` as processes of their own, which share what they compile."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Answer", "Command", "Reader", "wait_until"]

ROOT = Path(__file__).resolve().parent.parent.parent

# A shell that starts the soak in the background has processes ignore Ctrl-C, which a terminal would not.
_MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from jaxrl.cli import main; main()"


class Answer(NamedTuple):
    """How a command has ended."""

    code: int
    said: str

    @property
    def last_words(self) -> str:
        """The end of what it said."""
        return " | ".join(line.strip() for line in self.said.splitlines() if line.strip())[-300:]

    @property
    def crashed(self) -> bool:
        """Whether an error has ended it that jaxrl does not explain; one that Ctrl-C interrupts may show where it was.

        Orbax prints tracebacks of saves that fail, which end nothing.
        """
        explained = "\njaxrl: " in f"\n{self.said}" or "KeyboardInterrupt" in self.said
        return self.code in (1, 2) and "Traceback (most recent call last)" in self.said and not explained


class Command:
    """One `jaxrl` command that runs.

    Args:
        words: Its arguments.
        scratch: Where it runs and where compiled programs are kept.
        log: Told every line that it says.
    """

    def __init__(self, words: list[str], scratch: Path, log: Callable[[str], None]) -> None:
        self._said: list[str] = []
        self._log = log
        log(f"$ jaxrl {' '.join(words)}\n")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words], stderr=subprocess.STDOUT, **_surroundings(scratch)
        )
        self._reading = threading.Thread(target=self._listen, daemon=True)
        self._reading.start()

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._log(f"# {number.name}\n")
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.alive:
            self.send(signal.SIGKILL)

    def fill_disk(self, full: bool) -> None:
        """From now on no file that it writes can grow, as on a full disk; or all can again."""
        self._log(f"# the disk {'is full' if full else 'has room again'}\n")
        if not self.alive:  # or its number might be another process's by now
            return
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))

    def answer(self, seconds: float) -> Answer | None:
        """Wait for its end; None if it has not come after so many seconds, when it is killed."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            return None
        finally:
            self._reading.join(10)
        self._log(f"# exit code {code}\n")
        return Answer(code, "".join(self._said))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            self._log(line)


class Reader:
    """A process that carries out one reading command after the other: most of the time they take is Python's start.

    Args:
        scratch: As for `Command`.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process: subprocess.Popen[str] | None = None

    def ask(self, words: list[str], seconds: float = 120.0) -> Answer | None:
        """Carry out a command; None if it has not ended after so many seconds."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.soak.reader"]
            self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **_surroundings(self._scratch))
        process, lines = self._process, list[str]()
        waiting = threading.Thread(target=_converse, args=(process, json.dumps(words), lines), daemon=True)
        waiting.start()
        waiting.join(seconds)
        if not lines or not lines[0]:
            self.close()
            return None
        return Answer(**json.loads(lines[0]))

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def wait_until(happens: Callable[[], bool], seconds: float, every: float = 0.005) -> bool:
    """Wait until something happens, at most so many seconds. Returns whether it has."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if happens():
            return True
        time.sleep(every)
    return False


def _converse(process: subprocess.Popen[str], line: str, answers: list[str]) -> None:
    """Send a line and wait for the one that answers it; an empty one says that the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        print(line, file=process.stdin, flush=True)
        answers.append(process.stdout.readline())


def _surroundings(scratch: Path) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(scratch / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return {
        "cwd": scratch,
        "env": environment,
        "text": True,
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "start_new_session": True,
    }
