"""The algorithms, one readable file each: `from jaxrl.algos import ippo`."""

from __future__ import annotations

import importlib
from types import ModuleType

from jaxrl.errors import UnknownNameError, nearest

__all__ = ["find", "load", "names"]

_MODULES = {name: f"jaxrl.algos.{name}" for name in ("ppo", "ippo", "mappo")}


def names() -> list[str]:
    """The algorithms that `load` and the command line know."""
    return sorted(_MODULES)


def load(name: str) -> ModuleType:
    """The module of an algorithm: it has `Config`, `PRESETS`, `make` and `make_train`.

    Raises:
        UnknownNameError: Unknown name; the message lists the nearest ones.
    """
    if name not in _MODULES:
        raise UnknownNameError(f"There is no algorithm {name!r}. {nearest(name, names())}")
    return importlib.import_module(_MODULES[name])


def find(module: str) -> ModuleType | None:
    """The algorithm that is the module of this name; None for any other name, and nothing is imported then."""
    return next((load(name) for name, own in _MODULES.items() if own == module), None)
