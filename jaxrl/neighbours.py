"""What a file of the user's own imports from its own folder, found without running anything.

Modules and packages are files by their paths from that folder, `{"helper.py": b"…", "game/__init__.py": b"…"}`. A
package counts as a whole, because an import inside a function or by a computed name says little about its parts.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path, PurePosixPath

__all__ = ["Files", "closure", "lying_in", "part_of"]

Files = Mapping[str, bytes]
"""The contents of Python files, by their paths from the folder of the file that imports them."""


def closure(start: Files, find: Callable[[str], Files]) -> dict[str, bytes]:
    """Some files and all that they import, directly or not.

    Args:
        start: The files to begin with.
        find: The files of the module or package with a name; none if it lies somewhere else.
    """
    found, todo = dict(start), list(start.values())
    while todo:
        for name in sorted(_imported(todo.pop())):
            new = {path: content for path, content in find(name).items() if path not in found}
            found |= new
            todo += new.values()
    return found


def lying_in(folder: Path, name: str) -> dict[str, bytes]:
    """The files of a module or package in a folder; none if it is not there, or is part of Python or of jaxrl.

    As for Python, a package with an `__init__.py` comes before a module, and a folder without one after whatever is
    installed under its name; it gets an empty `__init__.py`.
    """
    if name in sys.stdlib_module_names or name == __name__.partition(".")[0]:
        return {}
    module, package = folder / f"{name}.py", folder / name
    begins = package / "__init__.py"
    if module.is_file() and not begins.is_file():
        return {module.name: module.read_bytes()}
    if not package.is_dir() or (not begins.is_file() and _is_installed(name)):
        return {}
    inner = [path.relative_to(folder) for path in sorted(package.rglob("*.py"))]
    inner = [path for path in inner if all(part.isidentifier() for part in path.with_suffix("").parts)]
    parents = {parent for path in inner for parent in path.parents[:-1]}
    empty = {(parent / "__init__.py").as_posix(): b"" for parent in sorted(parents)}
    return empty | {path.as_posix(): (folder / path).read_bytes() for path in inner}


def part_of(files: Files, name: str) -> dict[str, bytes]:
    """Those of some files that make up the module or package with a name."""
    return {path: content for path, content in files.items() if PurePosixPath(path).with_suffix("").parts[0] == name}


@functools.lru_cache(256)
def _imported(content: bytes) -> frozenset[str]:
    """The first words of the modules that a file imports, inside functions too; none if it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):  # whoever runs it hears of that
        return frozenset()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return frozenset(name.partition(".")[0] for name in names)


def _is_installed(name: str) -> bool:
    """Whether there is such a module or package among those that are installed."""
    places = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    spec = PathFinder.find_spec(name, places)
    return spec is not None and spec.origin is not None  # a folder without `__init__.py` has no origin
