"""check_env: checks that an environment keeps every promise of the contract.

`static` examines traces (spaces, shapes, dtypes, purity), `dynamic` a few hundred random steps of eight copies, and
`pictures` the drawings of these. `suspicions` break no promise but are rarely intended, unless the author declares
them. Each check is a small function that yields its findings; to add a check, add a function to one of the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxrl.check.dynamic import DYNAMIC_CHECKS, Run
from jaxrl.check.failure import ContractError, Failure, check_name
from jaxrl.check.pictures import PICTURE_CHECKS
from jaxrl.check.rollout import Programs, record
from jaxrl.check.static import BEFORE_TRACING, STATIC_CHECKS, check_methods, trace_shapes
from jaxrl.check.suspicions import SUSPICIONS, check_intended
from jaxrl.environment import Environment, check_environment
from jaxrl.keys import check_key

__all__ = ["ContractError", "Failure", "check_env"]


def check_env(env: Environment, *, num_steps: int = 128, key: jax.Array | None = None) -> None:
    """Check that `env` keeps the contract of `Environment` (or `MultiAgentEnvironment`); return nothing if it does.

    It also fails on what is rarely intended, such as episodes that all start alike, unless `env.intended` names it.
    It compiles about five small programs, so it takes seconds.

    Args:
        env: The environment, checked with its default parameters.
        num_steps: Random steps of each of eight copies. If no episode ends, they continue for 4096 steps, or for 16
            times `num_steps` if that is more.
        key: The source of keys and actions (default: `jax.random.key(0)`). Not consumed.

    Raises:
        ContractError: There are findings; the message lists all of them, each with advice on what to change.
        TypeError: `env` is not an `Environment`, or `key` is not a typed key.
    """
    check_environment(env, "check_env")
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    if key is not None:
        check_key(key, "check_env")
    with jax.debug_key_reuse(False):  # states, which may hold keys, are copied here; `check_jit` checks key use
        _check(env, num_steps, jax.random.key(0) if key is None else key)


def _check(env: Environment, num_steps: int, key: jax.Array) -> None:
    _stop_at(_findings((check_methods,), env), env)  # the other checks call them
    params = env.default_params
    _stop_at(_findings((check_intended, *BEFORE_TRACING), env, params), env)
    shapes = trace_shapes(env, params)
    if isinstance(shapes, Failure):
        raise ContractError(env.name, [shapes._replace(check="trace")])
    # Wrong types would only fail again at run time, and less clearly.
    _stop_at(_findings(STATIC_CHECKS, shapes), env)
    programs = Programs(shapes, key, num_steps)
    run = Run(programs, *record(programs))
    suspicions = [check for check in SUSPICIONS if check_name(check) not in env.intended]
    suspected = map(_unless_intended, _findings(suspicions, run))
    _stop_at([*_findings((*DYNAMIC_CHECKS, *PICTURE_CHECKS), run), *suspected], env)


def _findings(checks: Sequence[Callable[..., Iterator[Failure]]], *about: Any) -> list[Failure]:
    """The findings of the checks, with the names of the checks."""
    return [failure._replace(check=check_name(check)) for check in checks for failure in check(*about)]


def _unless_intended(failure: Failure) -> Failure:
    return failure._replace(
        advice=f'{failure.advice} If it is meant, say so in the class: intended = ("{failure.check}",).'
    )


def _stop_at(failures: list[Failure], env: Environment) -> None:
    if failures:
        raise ContractError(env.name, failures)
