"""Parts of several commands: numbers on a command line, the algorithm that is named, processors, cache, and places to
write to.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

import jax
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from jaxrl import algos
from jaxrl.cli import EXIT_STOPPED, last_words
from jaxrl.config import typed
from jaxrl.errors import shell_path
from jaxrl.registry import shown_name

__all__ = [
    "WHOLE",
    "apart",
    "check_film",
    "check_folder",
    "has_accelerator",
    "named_algorithm",
    "new_run_dir",
    "stopped_by",
    "use_cache",
    "use_cores",
]


WHOLE = ConstructorRegistry()
"""For `tyro.cli(registry=…)`."""


def apart(flag: str, *values: str) -> ValueError:
    """The error for a flag's numbers with commas in between."""
    words = " ".join(word for value in values for word in value.strip("[]()").split(",") if word)
    return ValueError(f"{flag} takes values with spaces in between: {flag} {words}.")


@WHOLE.primitive_rule
def _whole(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """The rule for int fields; None leaves all other fields to tyro."""
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: _read(words[0]),
        is_instance=_is_int,
        str_from_instance=lambda number: [str(number)],
    )


def _read(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        pass
    try:
        number = float(word)
    except ValueError:
        raise ValueError(f"{word!r} is not a whole number") from None
    return typed("it", int, number)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def named_algorithm(argv: list[str], command: str, usage: str) -> str | None:
    """The algorithm named first on a command line; None if the line asks for help instead, which is then printed.

    Args:
        argv: The words after the command.
        command: The command, such as `"train"`.
        usage: The help, with `{names}` where the names of the algorithms go.

    Raises:
        ValueError: The line neither names an algorithm nor asks for help.
    """
    if argv and not argv[0].startswith("-"):
        return argv[0]
    names = ", ".join(algos.names())
    if not {"-h", "--help"} & set(argv):
        raise ValueError(f"Say which algorithm: jaxrl {command} ALGO, where ALGO is one of {names}.")
    print(usage.format(names=names), end="")
    return None


def has_accelerator() -> bool:
    """True if JAX computes on something other than a CPU by default. It starts JAX, with a CPU device per core."""
    use_cores()
    return jax.default_backend() != "cpu"


def use_cores() -> None:
    """Give JAX one CPU device per core, over which `fit` spreads environments and seeds.

    XLA runs small operations on one core however many there are; with one device per core, training smax/3m on two
    cores is 1.3 times as fast with the default network and 1.4 times with a GRU. Call it before JAX touches a device;
    afterwards, or if the number was set by hand (`JAX_NUM_CPU_DEVICES`, `XLA_FLAGS`), it changes nothing.
    """
    by_hand = "JAX_NUM_CPU_DEVICES" in os.environ or "device_count" in os.environ.get("XLA_FLAGS", "")
    if by_hand or not hasattr(os, "sched_getaffinity"):
        return
    try:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    except RuntimeError:  # JAX is already initialised
        return


def use_cache() -> Path | None:
    """Turn on the cache in the user's cache folder, and return its path.

    Nothing happens with `JAXRL_CACHE=0`, or if the user has configured a cache folder for JAX. Each kind of processor
    has its own folder, since machines may share homes but not compiled code.
    """
    unwanted = os.environ.get("JAXRL_CACHE", "1").lower() in ("0", "false", "no", "off")
    if unwanted or getattr(jax.config, "jax_compilation_cache_dir", None):
        return None
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = root / "jaxrl" / f"xla-{_processor()}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None  # an unwritable home, or none, as in a container with any user's number, must not prevent training
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def _processor() -> str:
    """Eight hexadecimal digits that distinguish processors with different instruction sets."""
    text = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        text += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        text += platform.processor()
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def check_folder(folder: Path, flag: str = "--out") -> None:
    """Check that files can be written to a folder, without creating anything.

    Args:
        folder: The folder, which need not exist yet.
        flag: The flag that names it, for the message.

    Raises:
        FileExistsError: The folder, or one that it would be in, is a file.
        PermissionError: Nothing can be written there.
    """
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise FileExistsError(f"{there} is not a folder; name another place with {flag}.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"Nothing can be written in {there}; name another place with {flag}.")


def check_film(out: Path) -> None:
    """Check that a film can be written to this file, before its episodes are played.

    Raises:
        ValueError: The file's suffix is not the suffix of a film.
        OSError: It is a folder; or see `check_folder`.
        ImportError: The film needs Pillow or ffmpeg, and it is missing.
    """
    from jaxrl.render import SUFFIXES
    from jaxrl.render.raster import pillow
    from jaxrl.render.video import find_ffmpeg

    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"--out must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {out}.")
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder; name another place with --out.")
    check_folder(out.parent)
    if suffix != ".html":
        pillow()
    if suffix == ".mp4":
        find_ffmpeg()


def stopped_by(cause: str, run_dir: Path | None) -> int:
    """Say how to continue a run that was interrupted, and return the exit code."""
    again = f"jaxrl resume {shell_path(str(run_dir))}"
    last_words(f"Stopped by {cause}; all is saved. Continue with: {again}", sys.stderr)
    return EXIT_STOPPED


def new_run_dir(algo: str, env: str) -> Path:
    """A folder under runs/ that does not exist yet."""
    when = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = env if len(env) <= 100 else shown_name(env)[:100]  # a text may be in it, and folders have short names
    readable = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    folder = Path("runs") / f"{algo}-{readable}-{when}"
    number = 2
    while folder.exists():
        folder = folder.with_name(f"{algo}-{readable}-{when}-{number}")
        number += 1
    return folder
