"""The `jaxrl` command. It imports only what a command needs, so that help and errors appear immediately."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

__all__ = ["EXIT_STOPPED", "guarded", "last_words", "main", "run_algorithm"]

EXIT_FAILED = 1  # training diverged, or the final state could not be saved
EXIT_WRONG_INPUT = 2
EXIT_STOPPED = 75  # stopped by SIGTERM, Ctrl-C or SIGHUP, after saving: `jaxrl resume` continues

_USAGE = """\
jaxrl: JAX-native, massively parallel reinforcement learning

  jaxrl train ALGO --env ID     train, e.g. jaxrl train ippo --env smax/3m
  jaxrl resume [RUN]            continue a run that was stopped, exactly where it was, or make one longer
  jaxrl watch [RUN]             watch a run that is training in another terminal
  jaxrl rerun [RUN]             train a run again and check that the numbers are the same
  jaxrl eval [RUN]              play greedy episodes with the policy of a run
  jaxrl render [RUN]            film episodes, as GIF, HTML page or mp4
  jaxrl sweep ALGO --env ID     train all combinations, e.g. jaxrl sweep ppo --lr 1e-4 1e-3 --num-seeds 8
  jaxrl search ALGO --env ID    find good hyperparameters, e.g. jaxrl search ppo --lr 1e-5:1e-1:log --method halving
  jaxrl report RUN… [--out DIR] compare runs: curves, tables, intervals over seeds, one HTML page
  jaxrl arena RUN RUN… [scripted]     all against all: scores, Elo ratings, a picture
  jaxrl levels make ENV | show SET    a set of levels, to evaluate on them: jaxrl eval RUN --levels SET
  jaxrl record [RUN] --steps N  write down what a policy does, to learn from: jaxrl train bc --data D
  jaxrl data D                  what a folder of recorded steps holds, and --to minari, vault or parquet
  jaxrl play ENV [--with RUN]   play yourself, with a trained partner
  jaxrl edit ENV                draw a map of your own, e.g. jaxrl edit overcooked/cramped_room
  jaxrl config RUN | ALGO …     the configuration as a file, to train with --config FILE; --yaml
  jaxrl export [RUN]            metrics for other tools (CSV, TensorBoard, wandb), or the policy: --out policy.py
  jaxrl envs [PATTERN]          list the environments
  jaxrl bench ENV               measure environment steps per second
  jaxrl plan ALGO --env ID      memory, and with --on h100:8 what GPUs or TPUs would launch and move
  jaxrl new [NAME]              an algorithm as one script to change, e.g. jaxrl new ippo > my_ippo.py
  jaxrl launch --slurm … -- train …   write a script for a cluster
  jaxrl doctor                  versions, devices, extras, and what is wrong with them

ALGO is ppo, ippo, mappo, self_play, pqn, pqn_vdn, dqn, iql, vdn, qmix, sac, td3, bc, stream_q, stream_ac, or a file
such as ./my_ippo.py.
ID may be a class in a file, ./my_env.py:MyEnv.
RUN is a run folder; left out, it is the latest one in runs/.
`jaxrl COMMAND --help` lists the flags, `jaxrl train ALGO --help` those of an algorithm; `--help all` rare ones too.

JAXRL_TRACEBACK=1 shows where an error comes from.
Exit codes: 0 done, 1 training failed, 2 wrong input, 75 stopped by a signal after saving, 76 a host is missing.
Compiled programs are kept in ~/.cache/jaxrl, so a second run starts faster; JAXRL_CACHE=0 turns that off.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """The `jaxrl` command line; on failure, it ends the process with one of the exit codes above."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors != "replace":
        sys.stdout.reconfigure(errors="replace")  # an encoding that lacks a character must not end a training
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return
    if argv[0] == "--version":
        from jaxrl import __version__

        print(f"jaxrl {__version__}")
        return
    guarded(lambda: _dispatch(argv[0], argv[1:]))


def run_algorithm(file: str) -> None:
    """`jaxrl train FILE …` with the words after `python FILE`: what an algorithm's file does as a script."""
    main(["train", file, *sys.argv[1:]])


_COMMANDS = {  # module and function, imported when the command is used
    "train": "train:main",
    "new": "new:main",
    "resume": "train:resume",
    "watch": "watch:watch",
    "rerun": "train:rerun_run",
    "config": "config:config",
    "export": "export:export",
    "sweep": "sweep:sweep",
    "search": "sweep:search",
    "plan": "plan:main",
    "launch": "launch:main",
    "eval": "runs:evaluate_run",
    "render": "runs:render_run",
    "report": "report:report",
    "arena": "report:arena",
    "levels": "levels:levels",
    "record": "data:record_run",
    "data": "data:data",
    "play": "play:play",
    "edit": "play:edit",
    "envs": "envs:envs",
    "bench": "envs:bench",
    "doctor": "doctor:main",
}


def _dispatch(command: str, argv: list[str]) -> int:
    """Run a command; returns its exit code."""
    if command not in _COMMANDS:
        from jaxrl.errors import UnknownNameError, nearest

        hint = "`jaxrl new` writes scripts instead." if command == "eject" else nearest(command, list(_COMMANDS))
        raise UnknownNameError(f"There is no command {command!r}. {hint}")
    module, _, function = _COMMANDS[command].partition(":")
    return getattr(importlib.import_module(f"jaxrl.cli.{module}"), function)(argv)


def guarded(command: Callable[[], int]) -> None:
    """Run a command; errors that jaxrl itself raises become a sentence and an exit code."""
    try:
        code = command()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` or `less`, has seen enough
        sys.exit(EXIT_FAILED)
    except (ValueError, TypeError, OSError, ImportError, NotImplementedError) as error:
        _explain(error, EXIT_WRONG_INPUT)
    except (RuntimeError, AssertionError, MemoryError) as error:
        _explain(error, EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        if code:
            sys.exit(code)
    finally:
        _drop_unwritable()


def last_words(text: str, file: TextIO | None = None) -> None:
    """Print what a training ends with. Its exit code tells how it ended, even if nobody can be told in words."""
    with contextlib.suppress(OSError):
        print(text, file=file)
    _drop_unwritable()


def _drop_unwritable() -> None:
    """Discard the output that cannot be written, which Python would try once more at its end, with an error."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by whoever started the process
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _explain(error: Exception, code: int) -> None:
    """Print what is wrong and exit. Errors that nobody raised on purpose keep their traceback: they may be bugs."""
    trouble = no_device(error)
    if isinstance(error, RuntimeError | MemoryError):
        from jaxrl.train.health.failure import out_of_memory

        trouble = trouble or out_of_memory(error)
    if not (trouble or _is_on_purpose(error)) or os.environ.get("JAXRL_TRACEBACK"):
        raise error
    notes = [note for note in getattr(error, "__notes__", ()) if "JAX_TRACEBACK_FILTERING" not in note]
    from jaxrl.errors import printable

    lines = " ".join([f"jaxrl: {trouble or error}", *notes]).split("\n")
    print("\n".join(map(printable, lines)), file=sys.stderr)
    sys.exit(code)


def _is_on_purpose(error: Exception) -> bool:
    """True if jaxrl raised the error, or a file of the user's own, such as a changed algorithm, by `raise`."""
    if isinstance(error, ModuleNotFoundError | AssertionError):
        return False
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:  # as typed
        return True
    from jaxrl.source_file import is_loaded

    file, line, module = _raised_at(error)
    if is_loaded(module):
        return bool(str(error)) and line.startswith("raise ")
    return str(file.resolve()).startswith(str(Path(__file__).resolve().parent.parent))


def _raised_at(error: Exception) -> tuple[Path, str, str]:
    """The file and the line in which an error was raised, and the name of their module."""
    frame, number = list(traceback.walk_tb(error.__traceback__))[-1]
    file = frame.f_code.co_filename
    return Path(file), linecache.getline(file, number, frame.f_globals).strip(), frame.f_globals.get("__name__", "")


def no_device(error: Exception) -> str | None:
    """A sentence about an error of JAX's own search for devices, which may be an assert; None for any other error."""
    file, *_ = _raised_at(error)
    if file.name != "xla_bridge.py":
        return None
    why = str(error).partition(" (set JAX_PLATFORMS")[0].rstrip(".")
    platforms = os.environ.get("JAX_PLATFORMS")
    wanted = f" JAX_PLATFORMS is {platforms!r}: unset it, or install JAX for it." if platforms else ""
    return f"JAX finds no device{f': {why}' if why else ''}.{wanted}"
