"""Measure the speed of environments: ours, and a peer library's under the same conditions in the same process."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.peers import PEERS, Compiled, Hosted, legal_moves, takes_turns, total
from jaxrl.registry import make
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space
from jaxrl.vector import VectorEnv

__all__ = ["Comparison", "Measurement", "compare"]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The numbers of one library. A step is one step of one environment, regardless of the number of agents."""

    library: str
    steps_per_second: float
    """The median over the repeats."""
    runs: list[float]
    """Steps per second of every repeat."""
    compile_seconds: float
    state_bytes: float | None
    """Bytes of one environment's state between steps; None if Python steps the environments."""
    temporary_bytes: float | None
    """Further bytes that the compiled program needs, divided by the number of environments."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of `compare`, with everything needed to repeat it."""

    env: str
    num_envs: int
    steps: int
    """Steps of each environment per repeat."""
    reset: str
    ours: Measurement
    peer: Measurement | None
    ratio: float | None
    """Our steps per second over the peer's: the median of the ratios of neighbouring repeats."""
    device: str
    versions: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.env}, {self.num_envs} environments, random actions, {self.device}"]
        for m in filter(None, (self.ours, self.peer)):
            line = f"{m.library:>8}: {m.steps_per_second:,.0f} steps/s"
            if m.state_bytes is not None and m.temporary_bytes is not None:
                line += (
                    f" (compiled in {m.compile_seconds:.1f} s; {m.state_bytes / 1e3:.1f} KB of state and "
                    f"{m.temporary_bytes / 1e3:.1f} KB of work an environment)"
                )
            lines.append(line)
        if self.ratio is not None:
            lines.append(f"{'ratio':>8}: {self.ratio:.1f}")
        return "\n".join(lines)


def compare(
    env_id: str,
    num_envs: int,
    against: Literal["jaxmarl", "gymnax", "envpool"] | None = None,
    *,
    steps: int = 100,
    repeats: int = 7,
    reset: Literal["fresh", "pool"] = "fresh",
    seed: int = 0,
) -> Comparison:
    """Measure `VectorEnv(make(env_id), num_envs)` with random actions, and a peer's version of it alternately.

    Both run a compiled scan over `steps` steps in which all observations and rewards are consumed (EnvPool, which does
    not use JAX, runs in a Python loop). Compilation and one warm-up run are not counted. Repeats alternate, so that
    both see the same machine load.

    Args:
        env_id: A name such as `"smax/3m"`.
        num_envs: B, environments in parallel.
        against: The peer library, or None to measure ours alone.
        steps: Steps per repeat.
        repeats: The number of repeats.
        reset: How our ended episodes restart, see `VectorEnv`.
        seed: The seed of the random actions.

    Raises:
        ImportError: The peer is not installed; the message has the command that installs it.
        ValueError: The peer has no such environment, or a count is not positive.
    """
    for name, count in (("steps", steps), ("repeats", repeats)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")
    environments: dict[str, Compiled | Hosted] = {"jaxrl": _ours(env_id, num_envs, reset)}
    if against is not None:
        if against not in PEERS:
            raise ValueError(f"against must be one of {', '.join(PEERS)}, got {against!r}.")
        environments[against] = PEERS[against](env_id, num_envs)
    programs = {name: _program(envs, num_envs, steps) for name, envs in environments.items()}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for repeat in range(-1, repeats):  # -1 warms up
        for name, program in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready(program.run(seed + repeat + 1))
            if repeat >= 0:
                seconds[name].append(time.perf_counter() - begin)
    measured = {
        name: _measurement(name, [num_envs * steps / s for s in seconds[name]], program)
        for name, program in programs.items()
    }
    peer = measured[against] if against else None
    ours = measured["jaxrl"]
    ratio = statistics.median(a / b for a, b in zip(ours.runs, peer.runs, strict=True)) if peer else None
    return Comparison(env_id, num_envs, steps, reset, ours, peer, ratio, _device(), _versions(against))


def _ours(env_id: str, num_envs: int, reset: Any) -> Compiled:
    env = make(env_id)
    vector = VectorEnv(env, num_envs, reset)
    shape = (num_envs, env.num_agents) if isinstance(env, MultiAgentEnvironment) else (num_envs,)

    def step(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        key_action, key_step = jax.random.split(key)
        if takes_turns(env_id):
            action = legal_moves(key_action, vector.action_mask(state))
        else:
            action = _random_actions(key_action, env.action_space(), shape)
        obs, state, reward, *_ = vector.step(key_step, state, action)
        return state, total(obs) + total(reward)

    return Compiled(lambda key: vector.reset(key)[1], step)


class _Program(NamedTuple):
    """A fixed number of steps of B environments, ready to run."""

    run: Callable[[int], Any]  # from a seed
    compile_seconds: float
    state_bytes: float | None  # of one environment
    temporary_bytes: float | None


def _program(envs: Compiled | Hosted, num_envs: int, steps: int) -> _Program:
    """One program that takes `steps` steps of the environments, compiled if possible."""
    if isinstance(envs, Hosted):

        def loop(seed: int) -> float:
            rng = np.random.default_rng(seed)
            return sum(envs.step(rng) for _ in range(steps))

        return _Program(loop, 0.0, None, None)

    def run(key: jax.Array) -> jax.Array:
        key, key_reset = jax.random.split(key)

        def body(carry: tuple[Any, jax.Array], key: jax.Array) -> tuple[tuple[Any, jax.Array], None]:
            state, value = envs.step(key, carry[0])
            return (state, carry[1] + value), None

        return jax.lax.scan(body, (envs.reset(key_reset), jnp.float32(0)), jax.random.split(key, steps))[0][1]

    key = jax.random.key(0)
    begin = time.perf_counter()
    compiled = jax.jit(run).lower(key).compile()
    seconds = time.perf_counter() - begin
    leaves = jax.tree.leaves(jax.eval_shape(envs.reset, key))
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    analysis = compiled.memory_analysis()
    temporary = None if analysis is None else analysis.temp_size_in_bytes / num_envs
    return _Program(lambda seed: compiled(jax.random.key(seed)), seconds, state_bytes / num_envs, temporary)


def _measurement(name: str, runs: list[float], program: _Program) -> Measurement:
    return Measurement(name, statistics.median(runs), runs, *program[1:])


def _random_actions(key: jax.Array, space: Space, shape: tuple[int, ...]) -> jax.Array:
    if isinstance(space, Discrete):
        return jax.random.randint(key, shape, 0, space.n)
    if isinstance(space, MultiDiscrete):
        return jax.random.randint(key, (*shape, *space.shape), 0, np.array(space.nvec))
    assert isinstance(space, Box)
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        keys = jax.random.split(key, shape)
        return jax.vmap(space.sample)(keys.reshape(-1)).reshape(*shape, *space.shape)
    return jax.random.uniform(key, (*shape, *space.shape), space.dtype, space.low, space.high)


def _device() -> str:
    device = jax.devices()[0]
    kind = platform.processor() or platform.machine() if device.platform == "cpu" else device.device_kind
    return f"{jax.device_count()} x {device.platform} {kind}, {os.cpu_count()} CPU cores"


def _versions(peer: str | None) -> dict[str, str]:
    packages = ["jaxrl", "jax", "jaxlib", "numpy", *([peer] if peer else [])]
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
