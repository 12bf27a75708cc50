"""jaxrl: environments, algorithms and the training loop as pure functions that XLA compiles into one program."""

import importlib
from typing import TYPE_CHECKING, Any

from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.registry import list_envs, make, register
from jaxrl.vector import VectorEnv

if TYPE_CHECKING:
    from jaxrl.check import check_env
    from jaxrl.deploy.params import load_params, save_params
    from jaxrl.deploy.policy import Policy
    from jaxrl.rl.annealing import register_schedule
    from jaxrl.train.callbacks import Callback
    from jaxrl.train.evaluate import evaluate
    from jaxrl.train.fit import fit
    from jaxrl.train.folder.load import load
    from jaxrl.train.start import InitFrom
    from jaxrl.tuning.search import search
    from jaxrl.tuning.sweep import sweep

__version__ = "0.1.0"

__all__ = [
    "Callback",
    "Environment",
    "InitFrom",
    "MultiAgentEnvironment",
    "Policy",
    "VectorEnv",
    "check_env",
    "evaluate",
    "fit",
    "list_envs",
    "load",
    "load_params",
    "make",
    "register",
    "register_schedule",
    "save_params",
    "search",
    "sweep",
]

_LAZY = {  # imported on first use: `import jaxrl` is light
    "Callback": "jaxrl.train.callbacks",
    "InitFrom": "jaxrl.train.start",
    "Policy": "jaxrl.deploy.policy",
    "check_env": "jaxrl.check",
    "evaluate": "jaxrl.train.evaluate",
    "fit": "jaxrl.train.fit",
    "load": "jaxrl.train.folder.load",
    "load_params": "jaxrl.deploy.params",
    "register_schedule": "jaxrl.rl.annealing",
    "save_params": "jaxrl.deploy.params",
    "search": "jaxrl.tuning.search",
    "sweep": "jaxrl.tuning.sweep",
}

_MODULES = ("algos", "interop", "nn", "play", "render", "replay", "rl", "stats", "symmetries", "tuning", "wrappers")
"""Modules of the documented interface that are imported on first use as well."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"jaxrl.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'jaxrl' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
