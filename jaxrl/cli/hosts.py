"""The flags of a run on several hosts, and the way such a run ends."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import traceback
from collections.abc import Iterator
from typing import NoReturn

from jaxrl.cli import guarded

__all__ = ["EXIT_LOST", "HostFlags", "joined"]

EXIT_LOST = 76  # another process of the run is gone; the same command on all hosts continues


@dataclasses.dataclass(frozen=True)
class HostFlags:
    """Run several processes as one run: start the same command in each."""

    distributed: bool = False
    """Join the other processes; detected automatically under SLURM, Open MPI, Kubernetes and on TPUs."""
    coordinator: str | None = None
    """HOST:PORT of process 0, if it cannot be detected."""
    num_processes: int | None = None
    """Number of processes, if it cannot be detected."""
    process_id: int | None = None
    """Index of this process, from 0, if it cannot be detected."""


@contextlib.contextmanager
def joined(flags: HostFlags) -> Iterator[None]:
    """Join the processes to one run inside this context.

    A process that fails exits immediately: a regular shutdown would wait for processes that wait for it.
    """
    given = [flags.coordinator, flags.num_processes, flags.process_id]
    if not flags.distributed:
        if any(value is not None for value in given):
            raise ValueError("--coordinator, --num-processes and --process-id belong to --distributed; add it.")
        yield
        return
    from jaxrl.train.devices import hosts

    try:
        hosts.join(*given)
    except (KeyboardInterrupt, TimeoutError) as error:
        if isinstance(error, TimeoutError):
            print(f"jaxrl: {error} Start the same command on all hosts again.", file=sys.stderr)
        _end(EXIT_LOST if isinstance(error, TimeoutError) else 130)
    try:
        yield
        hosts.leave()
    except BaseException as error:
        _end(_exit_code(error))


def _end(code: int) -> NoReturn:
    """Exit without waiting for JAX, which may wait for other processes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _exit_code(error: BaseException) -> int:
    """Print the error the way the command line does, and return the exit code."""
    if _is_lost(error):
        if os.environ.get("JAXRL_TRACEBACK"):
            traceback.print_exception(error)
        print(
            "jaxrl: Another process of this run is gone, so this one ends too. Start the same command on all hosts "
            "again: it continues from the newest checkpoint.",
            file=sys.stderr,
        )
        return EXIT_LOST

    def fail() -> int:
        raise error

    try:
        guarded(fail)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    return 1


def _is_lost(error: BaseException) -> bool:
    """True if a collective operation failed because another process has died."""
    text = str(error)
    return isinstance(error, ValueError | RuntimeError) and any(
        sign in text for sign in ("Gloo", "NCCL", "ncclRemoteError", "Connection reset", "coordination service")
    )
