"""Measure the speed of environments: steps per second of a compiled scan with random actions."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.registry import canonical, make
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space
from jaxrl.vector import VectorEnv

__all__ = [
    "Measurement",
    "Program",
    "compiled",
    "device",
    "legal_moves",
    "measure",
    "measure_in_turn",
    "ours",
    "scanned",
    "takes_turns",
    "total",
    "versions",
]


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


class Program(NamedTuple):
    """A fixed number of steps of B environments, ready to run."""

    run: Callable[[int], Any]
    """All the steps, from a seed."""
    compile_seconds: float
    state_bytes: float | None  # of one environment
    temporary_bytes: float | None


def measure(
    env_id: str,
    num_envs: int,
    *,
    steps: int = 100,
    repeats: int = 7,
    reset: Literal["fresh", "pool"] = "fresh",
    seed: int = 0,
) -> Measurement:
    """Measure `VectorEnv(make(env_id), num_envs)` with random actions.

    A compiled scan takes `steps` steps, in which all observations and rewards are consumed. Compilation and one warm-up
    run are not counted.

    Args:
        env_id: A name such as `"smax/3m"`.
        num_envs: B, environments in parallel.
        steps: Steps per repeat.
        repeats: The number of repeats.
        reset: The start of new episodes, see `VectorEnv`.
        seed: The seed of the random actions.

    Raises:
        ValueError: There is no such environment, or a count is not positive.
    """
    program = ours(env_id, num_envs, steps, reset)
    return measure_in_turn({"jaxrl": program}, num_envs * steps, repeats, seed)["jaxrl"]


def measure_in_turn(
    programs: Mapping[str, Program], num_steps: int, repeats: int, seed: int = 0
) -> dict[str, Measurement]:
    """Measure several programs, by the name of their library; repeats alternate, so that all see the same load.

    Args:
        programs: The measured ones; each program runs once before, to warm up.
        num_steps: The environment steps of one run.
        repeats: The number of repeats.
        seed: The seed of the random actions.

    Raises:
        ValueError: There are no repeats.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}.")
    runs: dict[str, list[float]] = {name: [] for name in programs}
    for repeat in range(-1, repeats):  # -1 warms up
        for name, program in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready(program.run(seed + repeat + 1))
            if repeat >= 0:
                runs[name].append(num_steps / (time.perf_counter() - begin))
    return {
        name: Measurement(name, statistics.median(runs[name]), runs[name], *program[1:])
        for name, program in programs.items()
    }


def ours(env_id: str, num_envs: int, steps: int, reset: Literal["fresh", "pool"] = "fresh") -> Program:
    """The program of `measure`."""
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

    return compiled(lambda key: vector.reset(key)[1], step, num_envs, steps)


def compiled(
    reset: Callable[[jax.Array], Any],
    step: Callable[[jax.Array, Any], tuple[Any, jax.Array]],
    num_envs: int,
    steps: int,
) -> Program:
    """Compile a scan over steps of B environments.

    Args:
        reset: From a key to the state of B environments.
        step: From a key and the state to the next state and `total` of the observations and rewards.
        num_envs: B.
        steps: The length of the scan.

    Raises:
        ValueError: There are no steps.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}.")
    # What the program costs before it runs.
    key = jax.random.key(0)
    begin = time.perf_counter()
    program = jax.jit(scanned(reset, step, steps)).lower(key).compile()
    seconds = time.perf_counter() - begin
    leaves = jax.tree.leaves(jax.eval_shape(reset, key))
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    analysis = program.memory_analysis()
    temporary = None if analysis is None else analysis.temp_size_in_bytes / num_envs
    return Program(lambda seed: program(jax.random.key(seed)), seconds, state_bytes / num_envs, temporary)


def scanned(
    reset: Callable[[jax.Array], Any], step: Callable[[jax.Array, Any], tuple[Any, jax.Array]], steps: int
) -> Callable[[jax.Array], jax.Array]:
    """What `compiled` compiles: all the steps, from a key."""

    def run(key: jax.Array) -> jax.Array:
        key, key_reset = jax.random.split(key)

        def body(carry: tuple[Any, jax.Array], key: jax.Array) -> tuple[tuple[Any, jax.Array], None]:
            state, value = step(key, carry[0])
            return (state, carry[1] + value), None

        return jax.lax.scan(body, (reset(key_reset), jnp.float32(0)), jax.random.split(key, steps))[0][1]

    return run


def total(tree: Any) -> jax.Array:
    """The sum of all entries of all leaves, which forces all requested results to be computed."""
    return jnp.asarray(sum(leaf.astype(jnp.float32).sum() for leaf in jax.tree.leaves(tree)))


def takes_turns(env_id: str) -> bool:
    """True if random players choose among the legal moves, because the game has no meaning for others."""
    return canonical(env_id).startswith("hanabi/")


def legal_moves(key: jax.Array, mask: jax.Array) -> jax.Array:
    """Moves drawn among the legal ones: int32 `[…]` from `mask[…, A]`. Consumes `key`."""
    return jnp.argmax(jnp.where(mask > 0, jax.random.uniform(key, mask.shape), -1.0), axis=-1)


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


def device() -> str:
    """The hardware in words."""
    first = jax.devices()[0]
    kind = platform.processor() or platform.machine() if first.platform == "cpu" else first.device_kind
    return f"{jax.device_count()} x {first.platform} {kind}, {os.cpu_count()} CPU cores"


def versions(*peers: str) -> dict[str, str]:
    """The versions of Python, of what computes, and of other packages."""
    packages = ["jaxrl", "jax", "jaxlib", "numpy", *peers]
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
