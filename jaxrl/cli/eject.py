"""`jaxrl eject ALGO`: one self-contained file of an algorithm, to be read, edited and trained.

What the algorithm's module needs of `jaxrl.algos` and `jaxrl.acting` is copied into the file, definition by definition;
formulas stay imported from `jaxrl.rl`, layers from `jaxrl.nn`.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import io
import itertools
import sys
from types import ModuleType

import tyro

from jaxrl import algos
from jaxrl.cli.syntax import (
    Import,
    defined,
    extent,
    from_import,
    import_group,
    imports_of,
    needed_at_once,
    without_modules,
)

__all__ = ["eject", "main"]

_INLINED = ("jaxrl.algos", "jaxrl.acting")
_READING = (
    "jaxrl.algos.config.network",
    "jaxrl.algos.config.run",
    "jaxrl.algos.config.hyperparams",
    "jaxrl.algos.config.actor",
    "jaxrl.algos.config.learning",
    "jaxrl.algos.config.replay",
    "jaxrl.algos.config.box",
    "jaxrl.algos.config.exploration",
    "jaxrl.algos.config.stream",
    "jaxrl.algos.config.on_policy",
    "jaxrl.algos.config.policies",
    "jaxrl.algos.config.q",
    "jaxrl.algos.iql",
    "jaxrl.acting.collector",
    "jaxrl.acting.rollout",
    "jaxrl.acting.normaliser",
    "jaxrl.acting.agent",
    "jaxrl.acting.opponents",
    "jaxrl.algos.on_policy",
    "jaxrl.algos.off_policy",
    "jaxrl.algos.actor_critic",
    "jaxrl.algos.ppo",
    "jaxrl.algos.pqn",
    "jaxrl.algos.streaming",
)
_WIDTH = 120
_WRITTEN = "Written by `jaxrl eject"  # begins the last paragraph of the docstring
_IMPORTS = 88  # the width of import lines: the default of black and ruff

_SECTIONS = ("Configuration", "Networks", "Rollout", "Agent", "Loss", "Update", "The algorithm")
_PLACES = {  # of definitions, by name; the rest follows from the module or the kind of definition, see `_section`
    "Config TeamConfig TeamQConfig Hyperparams Preference Role _meets_the_past": "Configuration",
    "Networks networks actor_critic actor_critics own_networks q_networks mixer_of _new_carry": "Networks",
    "own_numbers counted box_of part_of q_of predictions_of": "Networks",
    "Batch Steps Step Predicted Mix mix of_team unroll rows step_weights bootstrap_steps replayed_returns": "Loss",
    "loss team_loss mixed_loss objective critic_loss policy_loss _distribution_of_returns": "Loss",
    "draw_actions alpha_of of_agents": "Loss",
    "Learn LearnStep": "Update",
    "make make_train main": "The algorithm",
}
_SECTION_OF = {name: section for names, section in _PLACES.items() for name in names.split()}


@dataclasses.dataclass(frozen=True)
class _Definition:
    """A class, function or constant at the top of a module."""

    module: str
    name: str
    text: str
    node: ast.stmt
    order: tuple[int, int]
    """Rank of the module, and line."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Write one self-contained file of an algorithm to standard output."""

    algorithm: tyro.conf.Positional[str]
    """The algorithm, e.g. ippo."""


def main(argv: list[str]) -> int:
    """`jaxrl eject ALGO`; returns the exit code."""
    flags = tyro.cli(_Flags, args=argv, prog="jaxrl eject")
    text = eject(flags.algorithm)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as Python reads it, whatever the terminal's encoding is
    sys.stdout.write(text)
    return 0


def eject(algorithm: str) -> str:
    """The file's text.

    Args:
        algorithm: A name that `jaxrl train` knows.

    Raises:
        UnknownNameError: There is no such algorithm.
    """
    module = algos.load(algorithm)
    book = _Book(module)
    header = f'"""{_docstring(module, algorithm)}"""\n\nfrom __future__ import annotations\n\n'
    exported = '__all__ = ["PRESETS", "Config", "make", "make_train"]'
    parts = [header + book.imports() + "\n\n" + exported]
    section = ""
    for definition in book.in_reading_order():
        if (place := _section(definition)) != section:
            section = place
            parts.append(f"# {section} {'-' * (_WIDTH - 3 - len(section))}")
        parts.append(definition.text)
    parts.append('if __name__ == "__main__":\n    main()')
    return "\n\n\n".join(parts).replace('"""\n\n\n\nfrom', '"""\n\nfrom') + "\n"


class _Book:
    """The definitions that an algorithm needs, and the imports that these need."""

    def __init__(self, module: ModuleType) -> None:
        self._modules: dict[str, ast.Module] = {}
        self._found: dict[str, _Definition] = {}
        self._imports: set[Import] = set()
        for name in ("Config", "PRESETS", "make", "make_train", "main"):
            self._add(module.__name__, name)

    def in_reading_order(self) -> list[_Definition]:
        """The definitions by section; one that the interpreter needs earlier comes earlier."""
        wanted = sorted(self._found.values(), key=lambda d: (_SECTIONS.index(_section(d)), d.order))
        placed: dict[str, _Definition] = {}

        def place(definition: _Definition) -> None:
            if definition.name in placed:
                return
            for name in needed_at_once(definition.node):
                if name in self._found and name != definition.name:
                    place(self._found[name])
            placed[definition.name] = definition

        for definition in wanted:
            place(definition)
        return list(placed.values())

    def imports(self) -> str:
        """The import statements, sorted as ruff sorts them."""
        names: dict[str, list[str]] = {}
        statements: list[tuple[int, bool, str, str]] = []
        for module, imported, bound in sorted(self._imports, key=str):
            if imported is None:
                text = f"import {module}" if bound == module else f"import {module} as {bound}"
                statements.append((import_group(module), True, module, text))
            else:
                names.setdefault(module, []).append(imported if imported == bound else f"{imported} as {bound}")
        statements += [(import_group(m), False, m, from_import(m, each, _IMPORTS)) for m, each in names.items()]
        groups = itertools.groupby(sorted(statements, key=lambda s: (s[0], not s[1], s[2])), key=lambda s: s[0])
        return "\n\n".join("\n".join(s[3] for s in group) for _, group in groups)

    def _add(self, module: str, name: str) -> None:
        """Add a definition and all that it needs."""
        definition = self._definition(module, name)
        if name in self._found:
            if self._found[name].module != module:
                raise ValueError(f"{module}.{name} and {self._found[name].module}.{name} cannot stand in one file.")
            return
        self._found[name] = definition
        own = {n for node in self._tree(module).body for n in defined(node)}
        imports = imports_of(self._tree(module), _is_inlined)
        edits: list[ast.Attribute] = []
        for node in ast.walk(definition.node):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                target = imports.get(node.value.id)
                if target and target[1] is None and _is_inlined(target[0]):  # ppo.update becomes update
                    self._add(target[0], node.attr)
                    edits.append(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):  # a field called update needs no update
                self._need(node.id, module, own, imports)
        self._found[name] = dataclasses.replace(
            definition, text=without_modules(definition.text, definition.order[1], edits)
        )

    def _need(self, name: str, module: str, own: set[str], imports: dict[str, Import]) -> None:
        """Add what a name in a definition of `module` refers to."""
        if name in own:
            self._add(module, name)
        elif name in imports:
            source, imported, _ = imports[name]
            if not _is_inlined(source):
                self._imports.add(imports[name])
            elif imported:
                self._add(source, imported)

    def _definition(self, module: str, name: str) -> _Definition:
        tree = self._tree(module)
        source = inspect.getsource(importlib.import_module(module)).splitlines()
        for index, node in enumerate(tree.body):
            if name in defined(node):
                first, last = extent(tree, index, source)
                text = "\n".join(source[first:last])
                return _Definition(module, name, text, node, (_module_rank(module), first))
        raise ValueError(f"{module} defines no {name} at its top, so it cannot be copied.")

    def _tree(self, module: str) -> ast.Module:
        if module not in self._modules:
            self._modules[module] = ast.parse(inspect.getsource(importlib.import_module(module)))
        return self._modules[module]


def _docstring(module: ModuleType, algorithm: str) -> str:
    """The docstring of the algorithm, and a paragraph on where the file comes from."""
    from jaxrl import __version__

    text = (module.__doc__ or "").partition(_WRITTEN)[0].strip()
    return (
        f"{text}\n\n{_WRITTEN} {algorithm}` (jaxrl {__version__}): edit it, then type `python FILE` or "
        f"`jaxrl train ./FILE`.\n"
    )


def _section(definition: _Definition) -> str:
    """The section of the file in which a definition stands."""
    if definition.name in _SECTION_OF:
        return _SECTION_OF[definition.name]
    if definition.module.startswith("jaxrl.acting"):
        return "Agent" if definition.module.endswith(".agent") else "Rollout"
    if definition.module.startswith("jaxrl.algos.config") or isinstance(definition.node, ast.Assign | ast.AnnAssign):
        return "Configuration"
    bases = [ast.unparse(base) for base in getattr(definition.node, "bases", [])]
    return "Networks" if "nn.Module" in bases else "Update"


def _module_rank(module: str) -> int:
    """The position of a module in the order of reading; algorithms come last."""
    return _READING.index(module) if module in _READING else len(_READING)


def _is_inlined(module: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in _INLINED)
