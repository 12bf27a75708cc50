"""How much of an update is rollout and how much is optimisation, measured once before a run.

In a run, both are one compiled program, so they cannot be timed separately. But algorithms are pure functions: if only
the episode statistics of an update are requested, XLA compiles the rollout alone and drops the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from jaxrl.algorithm import Algorithm
from jaxrl.train.devices.mesh import spread
from jaxrl.train.programs import Programs, compiler_options, side_by_side

__all__ = ["compile_rollout", "rollout_share"]


def rollout_share(
    algo: Algorithm, programs: Programs, members: int, mesh: Mesh | None, repeats: int = 5, *, before: int = 0
) -> float:
    """The share of an update's time that its rollout takes, 0 … 1: the fastest of each.

    This compiles another program. Rollout work that serves only the optimisation (values, storing steps) counts as
    optimisation, so the share is slightly too small.

    Args:
        algo: The algorithm.
        programs: The programs of the run.
        members: M.
        mesh: The mesh of the run.
        repeats: How often to repeat each measurement.
        before: Updates to make first, because they learn nothing.
    """

    def begun() -> Any:
        state, left = programs.init(), before
        while left:
            updates = min(left, programs.max_chunk)
            state, _ = programs.chunk(state, updates)
            left -= updates
        return state

    rollout = compile_rollout(algo, programs.state_shape, members, mesh)
    whole = _fastest(lambda state: programs.chunk(state, 1), begun, repeats)
    alone = _fastest(rollout, begun, repeats)
    return min(alone / max(whole, 1e-9), 1.0)


def compile_rollout(algo: Algorithm, state: Any, members: int, mesh: Mesh | None) -> Any:
    """Compile `rollout(state)`: the episode statistics of an update, which need its rollout but no optimisation."""
    update = spread(side_by_side(algo.update, members), state, mesh, members)

    def rollout(state: Any) -> Any:
        _, metrics = update(state)
        return {name: value for name, value in metrics.items() if name != "losses"}

    options = compiler_options()
    return jax.jit(rollout).lower(state).compile(options)


def _fastest(call: Callable[[Any], Any], init: Callable[[], Any], repeats: int) -> float:
    """The seconds of the fastest call; every call gets its own state, since some donate it and keys are used once."""
    seconds = []
    for _ in range(repeats):
        state = jax.block_until_ready(init())
        began = time.perf_counter()
        jax.block_until_ready(call(state))
        seconds.append(time.perf_counter() - began)
    return min(seconds)
