"""Environments of other libraries as ours, and ours as theirs; one file per library, loaded on first use.

    ours -> theirs     to_jaxmarl  to_gymnax  to_gymnasium  to_gymnasium_vector  to_pettingzoo  to_dm_env
    theirs -> ours     from_jaxmarl  from_gymnax  from_brax  from_mjx  from_jumanji  from_pgx  from_craftax  from_navix

`from jaxrl.interop import envpool` is EnvPool's interface to ours, for scripts that are written for it.

`jaxrl.make("jaxmarl:overcooked")` and `jaxrl.make("gymnax:Breakout-MinAtar")` make theirs; such names work wherever
ours do, including the command line. Pure functions stay pure: JaxMARL's and gymnax's sides can be jitted and vmapped.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jaxrl.environment import Environment

if TYPE_CHECKING:
    from jaxrl.interop.brax import from_brax
    from jaxrl.interop.craftax import from_craftax
    from jaxrl.interop.dm_env import to_dm_env
    from jaxrl.interop.gymnasium import to_gymnasium, to_gymnasium_vector
    from jaxrl.interop.gymnax import from_gymnax, to_gymnax
    from jaxrl.interop.jaxmarl import from_jaxmarl, to_jaxmarl
    from jaxrl.interop.jumanji import from_jumanji
    from jaxrl.interop.mjx import from_mjx
    from jaxrl.interop.navix import from_navix
    from jaxrl.interop.pettingzoo import to_pettingzoo
    from jaxrl.interop.pgx import from_pgx

__all__ = [
    "foreign_names",
    "from_brax",
    "from_craftax",
    "from_gymnax",
    "from_jaxmarl",
    "from_jumanji",
    "from_mjx",
    "from_navix",
    "from_pgx",
    "make_foreign",
    "to_dm_env",
    "to_gymnasium",
    "to_gymnasium_vector",
    "to_gymnax",
    "to_jaxmarl",
    "to_pettingzoo",
]


def make_foreign(library: str, name: str, **options: Any) -> Environment:
    """The environment that `library` calls `name`, as one of ours; `options` go to that library's own `make`.

    Raises:
        ValueError: The library has no such environment.
        ImportError: The library is not installed.
    """
    env = importlib.import_module(f"jaxrl.interop.{library}").make(name, **options)
    env.name = f"{library}:{name}"
    return env


def foreign_names(library: str) -> list[str]:
    """The names that `make` takes for the environments of `library`, such as `brax:ant`.

    Raises:
        ImportError: The library is not installed.
    """
    return [f"{library}:{name}" for name in importlib.import_module(f"jaxrl.interop.{library}").names()]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jaxrl.interop' has no attribute {name!r}")
    library = name.partition("_")[2].removesuffix("_vector")
    return getattr(importlib.import_module(f"jaxrl.interop.{library}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
