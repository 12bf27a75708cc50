"""check_env: proves that an environment keeps every promise of the contract.

`static` looks at traces (spaces, shapes, dtypes, purity), `dynamic` at a few hundred random steps of eight copies,
`pictures` at what is drawn of them. `suspicions` are what is no broken promise but rarely meant, unless the author
declares it. Each check is a small function that yields what it finds; one more is one more function in their lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxrl.check.dynamic import DYNAMIC_CHECKS, Run
from jaxrl.check.failure import ContractError, Failure, check_name
from jaxrl.check.pictures import PICTURE_CHECKS
from jaxrl.check.rollout import Programs, record
from jaxrl.check.static import BEFORE_TRACING, STATIC_CHECKS, trace_shapes
from jaxrl.check.suspicions import SUSPICIONS, check_intended
from jaxrl.environment import Environment
from jaxrl.keys import check_key

__all__ = ["ContractError", "Failure", "check_env"]


def check_env(env: Environment, *, num_steps: int = 128, key: jax.Array | None = None) -> None:
    """Prove that `env` keeps the contract of `Environment` (or `MultiAgentEnvironment`); return nothing if it does.

    It also stops at what is rarely meant, such as episodes that all start alike, unless `env.intended` names it.
    Compiles about five small programs, so it takes seconds.

    Args:
        env: The environment, checked with its default parameters.
        num_steps: Random steps taken by each of eight copies. Where no episode ends, they go on for 4096 steps, or 16
            times `num_steps` if that is more.
        key: Where keys and actions come from (default: `jax.random.key(0)`). Not consumed.

    Raises:
        ContractError: With everything that was found, each with advice what to change.
        TypeError: If `env` is not an `Environment`, or `key` not a typed key.
    """
    if not isinstance(env, Environment):
        raise TypeError(f"check_env needs an Environment, such as jaxrl.make gives, not a {type(env).__name__}.")
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    if key is not None:
        check_key(key, "check_env")
    with jax.debug_key_reuse(False):  # states are copied here, with keys they may hold; `check_jit` looks at their use
        _check(env, num_steps, jax.random.key(0) if key is None else key)


def _check(env: Environment, num_steps: int, key: jax.Array) -> None:
    params = env.default_params
    _stop_at(_findings((check_intended, *BEFORE_TRACING), env, params), env)
    shapes = trace_shapes(env, params)
    if isinstance(shapes, Failure):
        raise ContractError(env.name, [shapes._replace(check="trace")])
    # What has the wrong type would only fail again when it runs, and less clearly.
    _stop_at(_findings(STATIC_CHECKS, shapes), env)
    programs = Programs(shapes, key, num_steps)
    run = Run(programs, *record(programs))
    suspicions = [check for check in SUSPICIONS if check_name(check) not in env.intended]
    suspected = map(_unless_intended, _findings(suspicions, run))
    _stop_at([*_findings((*DYNAMIC_CHECKS, *PICTURE_CHECKS), run), *suspected], env)


def _findings(checks: Sequence[Callable[..., Iterator[Failure]]], *about: Any) -> list[Failure]:
    """What the checks find, with their names."""
    return [failure._replace(check=check_name(check)) for check in checks for failure in check(*about)]


def _unless_intended(failure: Failure) -> Failure:
    return failure._replace(
        advice=f'{failure.advice} If it is meant, say so in the class: intended = ("{failure.check}",).'
    )


def _stop_at(failures: list[Failure], env: Environment) -> None:
    if failures:
        raise ContractError(env.name, failures)
