"""How fast environments are: ours, and a peer library's under the same conditions in the same process."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment
from jaxrl.registry import make
from jaxrl.spaces import Discrete, Space
from jaxrl.vector import VectorEnv

__all__ = ["Comparison", "Measurement", "compare"]

Reset = Callable[[jax.Array], Any]  # key -> state of B environments
StepSum = Callable[[jax.Array, Any], tuple[Any, jax.Array]]  # key, state -> state, sum of observations and rewards


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One library's numbers. A step is one step of one environment, whatever the number of agents."""

    library: str
    steps_per_second: float
    """Median over the repeats."""
    runs: list[float]
    """Steps per second of every repeat."""
    compile_seconds: float
    state_bytes: float
    """Of one environment between steps."""
    temporary_bytes: float
    """What the compiled program needs besides, divided by the number of environments."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` found, with all that is needed to repeat it."""

    env: str
    num_envs: int
    steps: int
    """Steps of each environment in one repeat."""
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
            lines.append(
                f"{m.library:>8}: {m.steps_per_second:,.0f} steps/s (compiled in {m.compile_seconds:.1f} s; "
                f"{m.state_bytes / 1e3:.1f} KB of state and {m.temporary_bytes / 1e3:.1f} KB of work an environment)"
            )
        if self.ratio is not None:
            lines.append(f"{'ratio':>8}: {self.ratio:.1f}")
        return "\n".join(lines)


def compare(
    env_id: str,
    num_envs: int,
    against: Literal["jaxmarl"] | None = None,
    *,
    steps: int = 100,
    repeats: int = 7,
    reset: Literal["fresh", "pool"] = "fresh",
    seed: int = 0,
) -> Comparison:
    """Measure `VectorEnv(make(env_id), num_envs)` with random actions, and a peer's version of it alternately.

    Both run a compiled scan over `steps` steps in which all observations and rewards are consumed. Compilation and
    one warm-up run are not counted. Repeats alternate, so that both see the same load of the machine.

    Args:
        env_id: A name such as `"smax/3m"`.
        num_envs: B, environments in parallel.
        against: The peer library, or None to measure ours alone.
        steps: Steps in one repeat.
        repeats: Repeats.
        reset: How our ended episodes begin anew, see `VectorEnv`.
        seed: Of the random actions.

    Raises:
        ImportError: The peer is not installed; the message names the pip line.
        ValueError: The peer has no such environment, or a count is not positive.
    """
    for name, count in (("steps", steps), ("repeats", repeats)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")
    programs = {"jaxrl": _ours(env_id, num_envs, reset)}
    if against is not None:
        if against not in _PEERS:
            raise ValueError(f"against must be one of {', '.join(_PEERS)}, got {against!r}.")
        programs[against] = _PEERS[against](env_id, num_envs)
    compiled = {name: _compile(*program, steps) for name, program in programs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in compiled}
    for repeat in range(-1, repeats):  # -1 warms up
        for name, (run, *_) in compiled.items():
            key = jax.random.key(seed + repeat + 1)
            begin = time.perf_counter()
            run(key).block_until_ready()
            if repeat >= 0:
                seconds[name].append(time.perf_counter() - begin)
    measured = {
        name: _measurement(name, [num_envs * steps / s for s in seconds[name]], num_envs, *compiled[name][1:])
        for name in compiled
    }
    peer = measured[against] if against else None
    ours = measured["jaxrl"]
    ratio = statistics.median(a / b for a, b in zip(ours.runs, peer.runs, strict=True)) if peer else None
    return Comparison(env_id, num_envs, steps, reset, ours, peer, ratio, _device(), _versions(against))


def _ours(env_id: str, num_envs: int, reset: Any) -> tuple[Reset, StepSum]:
    env = make(env_id)
    vector = VectorEnv(env, num_envs, reset)
    shape = (num_envs, env.num_agents) if isinstance(env, MultiAgentEnvironment) else (num_envs,)

    def step(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        key_action, key_step = jax.random.split(key)
        action = _random_actions(key_action, env.action_space(), shape)
        obs, state, reward, *_ = vector.step(key_step, state, action)
        return state, _sum(obs) + _sum(reward)

    return lambda key: vector.reset(key)[1], step


def _jaxmarl(env_id: str, num_envs: int) -> tuple[Reset, StepSum]:
    env = _jaxmarl_env(env_id)
    spaces = [env.action_space(agent) for agent in env.agents]

    def reset(key: jax.Array) -> Any:
        return jax.vmap(env.reset)(jax.random.split(key, num_envs))[1]

    def step(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        key_action, key_step = jax.random.split(key)
        if hasattr(spaces[0], "n"):
            counts = np.array([space.n for space in spaces])[:, None]
            drawn = jax.random.randint(key_action, (len(spaces), num_envs), 0, counts)
            actions = dict(zip(env.agents, drawn, strict=True))
        else:
            keys = zip(env.agents, spaces, jax.random.split(key_action, len(spaces)), strict=True)
            actions = {agent: jax.random.uniform(k, (num_envs, *space.shape)) for agent, space, k in keys}
        obs, state, reward, *_ = jax.vmap(env.step)(jax.random.split(key_step, num_envs), state, actions)
        return state, _sum([obs[agent] for agent in env.agents]) + _sum([reward[agent] for agent in env.agents])

    return reset, step


def _jaxmarl_env(env_id: str) -> Any:
    """The peer's environment that is ours of that name."""
    try:
        with _quiet():
            import jaxmarl
            from jaxmarl.environments.smax import map_name_to_scenario
    except ImportError as error:
        raise ImportError('Comparing with jaxmarl needs it installed: pip install "jaxrl[peers]"') from error
    family, _, name = env_id.partition("/")
    if family == "mpe":
        from jaxrl.envs.mpe import SCENARIOS

        options = {} if "facmac" in name else {"action_type": "Discrete"}  # what ours have by default
        return jaxmarl.make(f"MPE_{name}_{SCENARIOS[name][1]}", **options)
    if family != "smax":
        raise ValueError(f"The comparison with jaxmarl knows smax/… and mpe/… environments, not {env_id!r}.")
    try:
        return jaxmarl.make("HeuristicEnemySMAX", scenario=map_name_to_scenario(name))
    except KeyError:
        raise ValueError(f"jaxmarl has no SMAX scenario {name!r}.") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Standard output goes to standard error: libraries that greet must not end up among the numbers.

    By file descriptor, since one of jaxmarl's own imports takes `sys.stdout` back.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


_PEERS: dict[str, Callable[[str, int], tuple[Reset, StepSum]]] = {"jaxmarl": _jaxmarl}


def _compile(reset: Reset, step: StepSum, steps: int) -> tuple[Any, float, float, float]:
    """The compiled run, the seconds it took, and the bytes of its state and its temporaries (all environments)."""

    def run(key: jax.Array) -> jax.Array:
        key, key_reset = jax.random.split(key)

        def body(carry: tuple[Any, jax.Array], key: jax.Array) -> tuple[tuple[Any, jax.Array], None]:
            state, value = step(key, carry[0])
            return (state, carry[1] + value), None

        return jax.lax.scan(body, (reset(key_reset), jnp.float32(0)), jax.random.split(key, steps))[0][1]

    key = jax.random.key(0)
    begin = time.perf_counter()
    compiled = jax.jit(run).lower(key).compile()
    seconds = time.perf_counter() - begin
    leaves = jax.tree.leaves(jax.eval_shape(reset, key))
    state_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    analysis = compiled.memory_analysis()
    return compiled, seconds, state_bytes, float("nan") if analysis is None else analysis.temp_size_in_bytes


def _measurement(
    name: str, runs: list[float], num_envs: int, compile_seconds: float, state_bytes: float, temporary_bytes: float
) -> Measurement:
    return Measurement(
        name, statistics.median(runs), runs, compile_seconds, state_bytes / num_envs, temporary_bytes / num_envs
    )


def _random_actions(key: jax.Array, space: Space, shape: tuple[int, ...]) -> jax.Array:
    if isinstance(space, Discrete):
        return jax.random.randint(key, shape, 0, space.n)
    return jax.random.uniform(key, (*shape, *space.shape)).astype(space.dtype)


def _sum(tree: Any) -> jax.Array:
    return jnp.asarray(sum(leaf.astype(jnp.float32).sum() for leaf in jax.tree.leaves(tree)))


def _device() -> str:
    device = jax.devices()[0]
    kind = platform.processor() or platform.machine() if device.platform == "cpu" else device.device_kind
    return f"{jax.device_count()} x {device.platform} {kind}, {os.cpu_count()} CPU cores"


def _versions(peer: str | None) -> dict[str, str]:
    packages = ["jaxrl", "jax", "jaxlib", "numpy", *([peer] if peer else [])]
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
