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
        TypeError: If `env` is not an `Environment`.
    """
    if not isinstance(env, Environment):
        raise TypeError(f"check_env needs an Environment, such as jaxrl.make gives, not a {type(env).__name__}.")
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    params = env.default_params
    failures = [f._replace(check=_name(check)) for check in BEFORE_TRACING for f in check(env, params)]
    _stop_at(failures, env)
    shapes = trace_shapes(env, params)
    if isinstance(shapes, Failure):
        raise ContractError(env.name, [shapes._replace(check="trace")])
    failures = [f._replace(check=_name(check)) for check in STATIC_CHECKS for f in check(shapes)]
    _stop_at(failures, env)  # what has the wrong type would only fail again, and less clearly

    programs = Programs(shapes, jax.random.key(0) if key is None else key, num_steps)
    try:
        with jax.debug_key_reuse(True):
            run = Run(programs, *record(programs))
            failures = [f._replace(check=_name(check)) for check in DYNAMIC_CHECKS for f in check(run)]
    except jax.errors.KeyReuseError as error:
        problem = f"It consumes a random key twice: {str(error).splitlines()[0]}"
        raise ContractError(env.name, [Failure(problem, "Split the key: one half for each use.", "keys")]) from None
    _stop_at(failures, env)


def _stop_at(failures: list[Failure], env: Environment) -> None:
    if failures:
        raise ContractError(env.name, failures)


def _name(check: object) -> str:
    return getattr(check, "__name__", "check").removeprefix("check_")
