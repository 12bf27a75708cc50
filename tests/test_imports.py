"""Imports go one way: what stands higher in this table may use what stands lower, never the other way round."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]

FLOORS = [
    {
        "errors",
        "entities",
        "spaces",
        "keys",
        "config",
        "stats",
        "display",
        "render",
        "algorithm",
        "source_file",
        "durable",
    },
    {"environment"},
    {"vector", "wrappers", "replay", "deploy"},
    {"registry", "check", "envs", "interop", "nn", "rl"},
    {"acting", "data", "levels", "templates"},
    {"algos"},
    {"train"},
    {"tuning", "report", "play"},
    {"bench", "cli", "__main__"},
]
"""From the ground up; those on one floor may use each other, as long as there is no circle."""

KNOWS_NO_ENVIRONMENT = {"nn", "rl", "render"}


def modules() -> dict[str, Path]:
    found = {}
    for path in (ROOT / "jaxrl").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports, at type level and inside functions too.

    What follows `if __name__ == "__main__"` is a script above the package, and not counted.
    """
    found = set()
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "__main__" in ast.unparse(node.test))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & set(known)) or {node.module}
    return found & set(known)


MODULES = modules()
GRAPH = {name: imports(path, MODULES) - {name, "jaxrl"} for name, path in MODULES.items() if name != "jaxrl"}


USE_THE_WHOLE = {
    "jaxrl.cli": "its version",
    "jaxrl.train.folder.provenance": "its version",
    "jaxrl.train.folder.same_run": "its version",
    "jaxrl.wrappers.players": "the loader of runs",
}
"""The modules that import the package itself, through whose names they could reach everything, and for what."""


def room(module: str) -> str:
    return module.split(".")[1]


def floor(module: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room(module) in rooms)


def test_every_room_stands_on_a_floor():
    assert {room(module) for module in GRAPH} == set().union(*FLOORS)


def test_no_arrow_goes_up():
    upward = [f"{a} imports {b}" for a, used in GRAPH.items() for b in used if floor(b) > floor(a)]
    assert not upward, "\n".join(sorted(upward))


def test_networks_formulas_and_pictures_know_no_environment():
    knowing = [
        f"{a} imports {b}"
        for a, used in GRAPH.items()
        for b in used
        if room(a) in KNOWS_NO_ENVIRONMENT and floor(b) > 0 and room(b) not in KNOWS_NO_ENVIRONMENT
    ]
    assert not knowing, "\n".join(sorted(knowing))


def test_there_is_no_circle():
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for used in sorted(GRAPH[module]):
                walk(used, (*path, module))
            done.add(module)

    for module in sorted(GRAPH):
        walk(module, ())


def test_hardly_anything_imports_the_package_itself():
    found = {name for name, path in MODULES.items() if "jaxrl" in imports(path, MODULES)}
    assert {name for name in found if room(f"{name}.") not in ("", "templates")} == set(USE_THE_WHOLE)
