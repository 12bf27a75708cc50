"""`jaxrl envs` and `jaxrl bench`: the environments, and how fast they step."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import tyro

from jaxrl.cli.common import WHOLE

if TYPE_CHECKING:
    from jaxrl.spaces import Space

__all__ = ["bench", "envs"]


@dataclasses.dataclass(frozen=True)
class EnvsFlags:
    """List the environments."""

    pattern: tyro.conf.Positional[str] = "*"
    """Which environments to list, e.g. smax or 'smax/3s*', or another library's, brax:; or one of your own,
    ./my_env.py:MyEnv."""


def envs(argv: list[str]) -> int:
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
    made = [make(name) for name in names]
    width = max(map(len, names))
    print(f"{'environment':<{width}}  agents  observation  {'actions':>13}")
    for name, env in zip(names, made, strict=True):
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


@dataclasses.dataclass(frozen=True)
class BenchFlags:
    """Measure environment steps per second with random actions."""

    env: tyro.conf.Positional[str]
    """Environment; `jaxrl envs` lists them."""
    num_envs: int = 1024
    """Environments in parallel."""
    steps: int = 100
    """Steps of each environment per repeat."""
    repeats: int = 7
    """Number of measurements; the median counts."""
    reset: Literal["fresh", "pool"] = "fresh"
    """Start of new episodes; see `VectorEnv`."""
    as_json: bool = False
    """Print all measurements as JSON."""


def bench(argv: list[str]) -> int:
    """`jaxrl bench ENV`; returns the exit code."""
    flags = tyro.cli(BenchFlags, args=argv, prog="jaxrl bench", registry=WHOLE)
    from jaxrl.bench import device, measure, versions
    from jaxrl.train.folder.json_file import to_json

    found = measure(flags.env, flags.num_envs, steps=flags.steps, repeats=flags.repeats, reset=flags.reset)
    if flags.as_json:
        about = {"env": flags.env, "num_envs": flags.num_envs, "steps": flags.steps, "reset": flags.reset}
        print(to_json({**about, **dataclasses.asdict(found), "device": device(), "versions": versions()}, indent=2))
        return 0
    print(f"{flags.env}, {flags.num_envs} environments, random actions, on {device()}")
    print(f"  {found.steps_per_second:,.0f} steps/s, compiled in {found.compile_seconds:.1f} s")
    return 0
