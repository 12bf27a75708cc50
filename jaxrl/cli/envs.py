"""`jaxrl envs`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import tyro

if TYPE_CHECKING:
    from jaxrl.spaces import Space

__all__ = ["main"]


@dataclasses.dataclass(frozen=True)
class EnvsFlags:
    """List the environments."""

    pattern: tyro.conf.Positional[str] = "*"
    """Which environments to list, e.g. smax or 'smax/3s*', or another library's, brax:; or one of your own,
    ./my_env.py:MyEnv."""


def main(argv: list[str]) -> int:
    """`jaxrl envs [PATTERN]`; returns the exit code."""
    flags = tyro.cli(EnvsFlags, args=argv, prog="jaxrl envs")
    from jaxrl.environment import MultiAgentEnvironment
    from jaxrl.errors import UnknownNameError, nearest
    from jaxrl.registry import canonical, hint_elsewhere, list_envs, make

    pattern = flags.pattern
    exact = canonical(pattern)  # an alias, or a name with options, is one environment
    name, options, _ = exact.partition("?")
    _, colon, within = pattern.partition(":")
    if colon and (not within or "*" in within) and (foreign := list_envs(pattern)):
        print(*foreign, sep="\n")  # to make them all would take minutes
        return 0
    one = exact != pattern or (options and name in list_envs()) or ":" in pattern or pattern.endswith(".py")
    names = [exact] if one else list_envs(pattern)
    if not names:
        hint = hint_elsewhere(pattern) or nearest(pattern, list_envs())
        raise UnknownNameError(f"No environment matches {pattern!r}. {hint}")
    envs = [make(name) for name in names]
    width = max(map(len, names))
    print(f"{'environment':<{width}}  agents  observation  {'actions':>13}")
    for name, env in zip(names, envs, strict=True):
        agents = str(env.num_agents) if isinstance(env, MultiAgentEnvironment) else "–"
        shape = "x".join(map(str, env.observation_space().shape))
        print(f"{name:<{width}}  {agents:>6}  {shape:>11}  {_actions(env.action_space()):>13}")
    return 0


def _actions(space: Space) -> str:
    """`5` choices, `11x11x2` choices if an action has several parts, or `1 real` number."""
    from jaxrl.spaces import Discrete, MultiDiscrete

    if isinstance(space, Discrete):
        return str(space.n)
    if isinstance(space, MultiDiscrete):
        return "x".join(map(str, space.nvec))
    return "x".join(map(str, space.shape)) + " real"
