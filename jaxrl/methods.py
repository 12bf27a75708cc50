"""Checks of the methods that the author of an environment writes: that they exist as such, and take what they get."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.wrappers import Wrapper

__all__ = ["check_methods", "wrong_methods"]

_METHODS = (
    "reset_env",
    "step_env",
    "observation_space",
    "action_space",
    "observation",
    "action_mask",
    "agent_mask",
    "global_state",
)
_PROPERTIES = (
    "default_params",
    "num_agents",
    "teams",
    "roles",
    "kinds",
    "agent_observation_spaces",
    "agent_action_spaces",
    "entities",
    "state_entities",
    "symmetries",
)


def check_methods(env: Environment) -> None:
    """Check the methods of an environment that will be trained on, and of those inside it.

    Raises:
        TypeError: One cannot be called as training does, or is never called; the message says what to write.
    """
    for each in _nested(env):
        for problem, advice in (*_misfits(each), *_unused(each)):
            raise TypeError(f"{problem} {advice} jaxrl.check_env(env) finds what else is missing.")


def wrong_methods(env: Environment) -> Iterator[tuple[str, str]]:
    """What is wrong about the methods of an environment, and of those inside it, and what to write instead."""
    for each in _nested(env):
        yield from _misfits(each)


def _nested(env: Any) -> Iterator[Environment]:
    """An environment and those that it wraps, the outermost first."""
    while isinstance(env, Environment):
        yield env
        env = getattr(env, "env", None)


def _misfits(env: Environment) -> Iterator[tuple[str, str]]:
    """The methods that are none, or that cannot take the arguments that they get."""
    kind = type(env).__name__
    if isinstance(env, Wrapper) and not hasattr(env, "env"):
        yield f"{kind} does not say what it wraps.", "Begin its __init__ with super().__init__(env)."
        return
    for name in _PROPERTIES:
        if inspect.isfunction(getattr(type(env), name, None)):
            yield f"{name} of {kind} is a method.", "Write @property above it."
    for name in _METHODS:
        method, takes = getattr(env, name, None), _arguments(name)
        if method is None:  # such as the agent mask of a single agent
            continue
        if not callable(method):
            yield f"{name} of {kind} is a {type(method).__name__}.", f"Write a method, def {name}(self, {takes})."
        elif not _can_take(method, takes):
            given = ", ".join(["self", *inspect.signature(method).parameters])
            yield f"{kind} has {name}({given}).", f"Write def {name}(self, {takes})."


def _arguments(name: str) -> str:
    """The arguments of a method as `MultiAgentEnvironment` declares it, such as `state, params=None`."""
    _, *arguments = inspect.signature(getattr(MultiAgentEnvironment, name)).parameters.values()  # without self
    return ", ".join(each.name + ("" if each.default is each.empty else f"={each.default}") for each in arguments)


def _can_take(method: Any, takes: str) -> bool:
    """Whether a method can be called with these arguments, and without those that have a default."""
    names = takes.split(", ")
    try:
        for given in (names, [name for name in names if "=" not in name]):
            inspect.signature(method).bind(*given)
    except TypeError:
        return False
    return True


def _unused(env: Environment) -> Iterator[tuple[str, str]]:
    """Methods that nothing calls: training steps many environments at once, and resets where an episode ends."""
    kind, base = type(env), Environment
    if kind.step is not base.step and (kind.batch_step is base.batch_step or _is_newer(kind, "step", "batch_step")):
        yield f"Training never calls step of {kind.__name__}.", "Write step_env instead; step follows from it."
    # The base's batch_reset calls reset.
    if kind.batch_reset is not base.batch_reset and _is_newer(kind, "reset", "batch_reset"):
        yield f"Training never calls reset of {kind.__name__}.", "Write reset_env instead; reset follows from it."


def _is_newer(kind: type, name: str, batched: str) -> bool:
    """Whether a class overrides a method and inherits the batched one."""
    owners = [next(i for i, each in enumerate(kind.__mro__) if method in vars(each)) for method in (name, batched)]
    return owners[0] < owners[1]
