"""check_env: checks that an environment keeps every promise of the contract.

`static` examines traces (spaces, shapes, dtypes, purity), `dynamic` some hundreds of random steps of eight copies, and
`pictures` the drawings of these. Suspicions break no promise but are rarely intended, unless the author declares them.
Each check is a small function that yields its findings; to add a check, add a function to one of the lists, and its
name and the first sentence of its docstring to docs/environments.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from jaxrl.check.dynamic import DYNAMIC_CHECKS, SUSPICIONS, Run, check_intended
from jaxrl.check.pictures import PICTURE_CHECKS
from jaxrl.check.rollout import Programs, record
from jaxrl.check.static import (
    BEFORE_TRACING,
    STATIC_CHECKS,
    ContractError,
    Failure,
    check_methods,
    check_name,
    trace_shapes,
)
from jaxrl.environment import Environment, check_environment
from jaxrl.keys import check_key
from jaxrl.wrappers import Wrapper
from jaxrl.wrappers.base import nested

__all__ = ["ContractError", "Failure", "check_env"]


def check_env(env: Environment, *, num_steps: int = 512, key: jax.Array | None = None) -> None:
    """Check that `env` keeps the contract of `Environment` (or `MultiAgentEnvironment`); return nothing if it does.

    It also fails on what is rarely intended, such as episodes that all start alike, unless `env.intended` names it.
    It names the wrapper that breaks what the environment inside keeps. It compiles about five small programs, so it
    takes seconds.

    Args:
        env: The environment, checked with its default parameters.
        num_steps: Random steps of each of eight copies; the 4,096 of the default all but surely include an observation
            outside of the space if 3 in 1,000 are. If no episode ends, they continue, up to 4,096 of each copy.
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
    key = jax.random.key(0) if key is None else key
    with jax.debug_key_reuse(False):  # states, which may hold keys, are copied here; `check_jit` checks key use
        try:
            _check(env, num_steps, key)
        except ContractError as error:
            raise ContractError(env.name, _with_layers(error.failures, env, num_steps, key)) from None


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


def _with_layers(failures: list[Failure], env: Environment, num_steps: int, key: jax.Array) -> list[Failure]:
    """The failures of an environment in wrappers, each with the layer that breaks the promise, where that is sure."""
    layers = list(nested(env))
    if len(layers) == 1:
        return failures
    owners = {failure.check: env for failure in failures}
    left = set(owners)
    for inner in layers[1:]:
        found = _broken(inner, num_steps, key)
        if found - set(owners):  # it stops before the checks that the outer one fails, so it may fail these as well
            owners = {check: owner for check, owner in owners.items() if check not in left - found}
        left &= found
        owners.update(dict.fromkeys(left, inner))
        if not left:
            break
    return [f._replace(advice=f"{f.advice} {_fault(owners[f.check])}") if f.check in owners else f for f in failures]


def _broken(env: Environment, num_steps: int, key: jax.Array) -> set[str]:
    """The names of the checks that an environment fails."""
    try:
        _check(env, num_steps, key)
    except ContractError as error:
        return {failure.check for failure in error.failures}
    return set()


def _fault(layer: Environment) -> str:
    """The layer that breaks a promise, in a sentence."""
    kind = type(layer).__name__
    if isinstance(layer, Wrapper):
        return f"The wrapper {kind} is at fault: what it wraps keeps this promise."
    return f"{kind} itself is at fault, not its wrappers."


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
