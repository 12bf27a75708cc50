"""The algorithms, one readable file each: `from jaxrl.algos import ippo`."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxrl.errors import UnknownNameError, nearest
from jaxrl.registry import canonical
from jaxrl.source_file import algorithm_name, load_source, source_of

__all__ = ["find", "load", "names", "preset_for"]

_NAMES = (
    "ppo",
    "ippo",
    "mappo",
    "mat",
    "self_play",
    "pqn",
    "pqn_vdn",
    "dqn",
    "iql",
    "vdn",
    "qmix",
    "sac",
    "td3",
    "bc",
    "stream_q",
    "stream_ac",
)
_MODULES = {name: f"jaxrl.algos.{name}" for name in _NAMES}
_PROMISED = ("Config", "PRESETS", "make")


def names() -> list[str]:
    """The algorithms that `load` and the command line know."""
    return sorted(_MODULES)


def load(name: str | Path) -> ModuleType:
    """The module of an algorithm: it has `Config`, `PRESETS`, `make` and `make_train`.

    Args:
        name: One of `names()`, or the path of a file such as `./my_ppo.py`, whose code is run.

    Raises:
        UnknownNameError: Unknown name; the message lists the nearest ones.
        TypeError: The file lacks something that an algorithm has, or has taken its configuration from another.
    """
    if str(name) in _MODULES:
        return importlib.import_module(_MODULES[str(name)])
    path = Path(name)
    if path.suffix != ".py":
        raise UnknownNameError(
            f"There is no algorithm {str(name)!r}. {nearest(str(name), names())} A file of your own is named by its "
            f"path, such as ./my_ppo.py."
        )
    if path.resolve().parent == Path(__file__).resolve().parent and path.stem in _MODULES:
        return load(path.stem)  # the library's own file, run as a script
    module = load_source(path)
    missing = [word for word in _PROMISED if not hasattr(module, word)]
    if missing:
        raise TypeError(
            f"{path} is not an algorithm: it has no {' and no '.join(missing)}; a copy of algos/ppo.py has all. What "
            f"`jaxrl new` writes runs by itself: python {path}"
        )
    _check_own_config(path, module)
    return module


def _check_own_config(path: Path, module: ModuleType) -> None:
    """Raise TypeError if a file uses another algorithm's configuration: its runs would be taken for that one's."""
    named = module.PRESETS.items() if isinstance(module.PRESETS, Mapping) else [("default", None)]
    for name, config in named:
        if isinstance(config, type) or not dataclasses.is_dataclass(config):
            raise TypeError(
                f"The PRESETS of {path} are no dictionary of configurations; write PRESETS = {{{name!r}: Config(…)}}."
            )
    presets = {f"PRESETS[{name!r}]": type(config) for name, config in named}
    for name, kind in {"Config": module.Config, **presets}.items():
        if kind.__module__ != module.__name__:
            base, file = f"{algorithm_name(kind)}.{kind.__name__}", source_of(kind)
            raise TypeError(
                f"{path} has {name} from {file.path if file else kind.__module__}, so its runs would be taken for that "
                f"module's. Define `class Config({base})` in {path.name}, and make PRESETS of it."
            )


def find(module: str) -> ModuleType | None:
    """The algorithm in the module of this name; None for any other name, without importing anything."""
    return next((load(name) for name, own in _MODULES.items() if own == module), None)


def preset_for(presets: Mapping[str, Any], env: str, accelerator: Callable[[], bool] = lambda: False) -> str:
    """The preset that suits an environment best: its own, its family's, or `default`.

    For example `3m` for `smax/3m`, and `mpe` for `mpe/simple_tag`. On an accelerator, `gpu` comes before these in the
    family of environments that it was made for.

    Args:
        presets: The `PRESETS` of an algorithm.
        env: The name of the environment, or an alias.
        accelerator: Tells whether training runs on one; called only if `gpu` is a candidate.
    """
    name = canonical(env).partition("?")[0]
    if "gpu" in presets and name.split("/")[0] == presets["gpu"].env.split("/")[0] and accelerator():
        return "gpu"
    envs = {preset: config.env.partition("?")[0] for preset, config in presets.items()}
    own = [preset for preset, env in envs.items() if env == name and name.endswith(preset)]
    family = name.partition("/")[0]
    return own[0] if own else family if family in presets else "default"
