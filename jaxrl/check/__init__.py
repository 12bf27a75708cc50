"""check_env: proves that an environment keeps every promise of the contract.

`static` looks at traces (spaces, shapes, dtypes, purity), `dynamic` at a few hundred random steps of eight copies.
Each check is a small function that yields what it finds; one more promise is one more function in their lists.
"""

from __future__ import annotations

import jax

from jaxrl.check.dynamic import DYNAMIC_CHECKS, Run
from jaxrl.check.report import ContractError, Failure
from jaxrl.check.rollout import Programs, record
from jaxrl.check.static import BEFORE_TRACING, STATIC_CHECKS, trace_shapes
from jaxrl.environment import Environment
from jaxrl.keys import check_key

__all__ = ["ContractError", "Failure", "check_env"]


def check_env(env: Environment, *, num_steps: int = 128, key: jax.Array | None = None) -> None:
    """Prove that `env` keeps the contract of `Environment` (or `MultiAgentEnvironment`); return nothing if it does.

    Compiles about five small programs, so it takes seconds.

    Args:
        env: The environment, checked with its default parameters.
        num_steps: Random steps taken by each of eight copies; up to 16 times as many until an episode ends.
        key: Where keys and actions come from (default: `jax.random.key(0)`). Not consumed.

    Raises:
        ContractError: With every broken promise that was found, each with advice what to change.
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
    _stop_at([f._replace(check=_name(check)) for check in BEFORE_TRACING for f in check(env, params)], env)
    shapes = trace_shapes(env, params)
    if isinstance(shapes, Failure):
        raise ContractError(env.name, [shapes._replace(check="trace")])
    # What has the wrong type would only fail again when it runs, and less clearly.
    _stop_at([f._replace(check=_name(check)) for check in STATIC_CHECKS for f in check(shapes)], env)
    programs = Programs(shapes, key, num_steps)
    run = Run(programs, *record(programs))
    _stop_at([f._replace(check=_name(check)) for check in DYNAMIC_CHECKS for f in check(run)], env)


def _stop_at(failures: list[Failure], env: Environment) -> None:
    if failures:
        raise ContractError(env.name, failures)


def _name(check: object) -> str:
    return getattr(check, "__name__", "check").removeprefix("check_")
