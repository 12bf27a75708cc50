"""Python source as definitions and imports: what `jaxrl eject` reads and writes."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

__all__ = [
    "Import",
    "defined",
    "extent",
    "from_import",
    "import_group",
    "imports_of",
    "needed_at_once",
    "without_modules",
]

Import = tuple[str, str | None, str]
"""Module, what is imported of it (None: the module itself), and the name that it gets."""


def defined(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def imports_of(tree: ast.Module, is_inlined: Callable[[str], bool]) -> dict[str, Import]:
    """What a module imports at its top, by the name that it gets there.

    Of a module that is inlined, `from package import module` counts as an import of the module itself.
    """
    found: dict[str, Import] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {a.asname or a.name: (a.name, None, a.asname or a.name) for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                module, name, bound = str(node.module), alias.name, alias.asname or alias.name
                whole = isinstance(getattr(importlib.import_module(module), name, None), ModuleType)
                inlined = whole and is_inlined(f"{module}.{name}")
                found[bound] = (f"{module}.{name}", None, bound) if inlined else (module, name, bound)
    return found


def extent(tree: ast.Module, index: int, source: list[str]) -> tuple[int, int]:
    """The lines of a statement, with its decorators, the comment above it and the docstring below it."""
    node = tree.body[index]
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
    while first and source[first - 1].startswith("#"):
        first -= 1
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.Assign | ast.AnnAssign) and index + 1 < len(tree.body):
        below = tree.body[index + 1]
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            last = below.end_lineno or last
    return first, last


def without_modules(text: str, first: int, edits: list[ast.Attribute]) -> str:
    """A text that begins on line `first` (from 0) of its file, with `module.name` as `name`."""
    lines = text.splitlines()
    for node in sorted(edits, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line = node.lineno - 1 - first
        lines[line] = lines[line][: node.col_offset] + node.attr + lines[line][node.end_col_offset :]
    return "\n".join(lines)


def needed_at_once(node: ast.stmt) -> Iterator[str]:
    """The names that must be defined before a statement runs: bases, decorators, defaults, values."""
    if isinstance(node, ast.FunctionDef):
        roots: list[Any] = [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]
    elif isinstance(node, ast.ClassDef):
        values = [n.value for n in node.body if isinstance(n, ast.Assign | ast.AnnAssign) and n.value]
        roots = [*node.decorator_list, *node.bases, *values]
    else:
        roots = [node.value] if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else []
    for root in roots:
        yield from (
            n.id if isinstance(n, ast.Name) else n.attr
            for n in ast.walk(root)
            if isinstance(n, ast.Name | ast.Attribute)
        )


def import_group(module: str) -> int:
    """Standard library, then packages: in a folder of the user's own, jaxrl is one of them."""
    return 0 if module.partition(".")[0] in sys.stdlib_module_names else 1


def from_import(module: str, names: list[str], width: int) -> str:
    """An import statement on one line, or with one name a line if that is longer than `width`."""
    ordered = sorted(names, key=_by_kind)
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= width:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in ordered), ")"])


def _by_kind(name: str) -> tuple[int, str]:
    """Constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
