"""`jaxrl new NAME`: an algorithm as a script, to be read, changed and run by Python; without NAME, which there are."""

from __future__ import annotations

import ast
import dataclasses
import io
import sys
from pathlib import Path

import tyro

from jaxrl import templates
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["main", "scripts"]


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Write an algorithm as one script to standard output, or list the scripts."""

    name: tyro.conf.Positional[str] = ""
    """The script, e.g. ppo; left out, all are listed."""


def main(argv: list[str]) -> int:
    """`jaxrl new [NAME]`; returns the exit code."""
    name = tyro.cli(_Flags, args=argv, prog="jaxrl new").name
    known = scripts()
    if name and name not in known:
        raise UnknownNameError(f"There is no script {name!r}. {nearest(name, known)} `jaxrl new` lists them.")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as Python reads it, whatever the terminal's encoding is
    if name:
        sys.stdout.write(known[name])
        return 0
    for script, text in known.items():
        print(f"  {script:8} {(ast.get_docstring(ast.parse(text)) or '').splitlines()[0]}")
    print("\n`jaxrl new NAME > my_NAME.py` writes one; then `python my_NAME.py --help`.")
    return 0


def scripts() -> dict[str, str]:
    """The texts of the scripts by name."""
    [folder] = templates.__path__
    paths = sorted(Path(folder).glob("[!_]*.py"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}
