"""How much of an update is rollout and how much optimisation, measured once before a run.

In a run both are one compiled program, so no clock can stand between them. But algorithms are pure functions: of an
update of which only the episodes' statistics are asked for, XLA compiles the rollout alone and drops the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from jaxrl.algorithm import Algorithm
from jaxrl.train.devices.mesh import spread
from jaxrl.train.programs import Programs, compiler_options

__all__ = ["compile_rollout", "rollout_share"]


def rollout_share(algo: Algorithm, programs: Programs, members: int, mesh: Mesh | None, repeats: int = 5) -> float:
    """The part of an update's time that its rollout takes, 0 … 1: the fastest of each, from fresh states.

    It compiles another program. What a rollout only does for the optimisation (values, storing its steps) counts as
    optimisation, so the share is rather too small.

    Args:
        algo: The algorithm.
        programs: Those of the run.
        members: M.
        mesh: The run's.
        repeats: Of either measurement.
    """
    rollout = compile_rollout(algo, programs.state_shape, members, mesh)
    whole = _fastest(lambda state: programs.chunk(state, 1), programs.init, repeats)
    alone = _fastest(rollout, programs.init, repeats)
    return min(alone / max(whole, 1e-9), 1.0)


def compile_rollout(algo: Algorithm, state: Any, members: int, mesh: Mesh | None) -> Any:
    """`rollout(state)`, compiled: an update's statistics of episodes, for which it must roll out but not optimise."""
    update = spread(jax.vmap(algo.update) if members > 1 else algo.update, state, mesh, members)

    def rollout(state: Any) -> Any:
        _, metrics = update(state)
        return {name: value for name, value in metrics.items() if name != "losses"}

    options = compiler_options()
    return jax.jit(rollout).lower(state).compile(options)


def _fastest(call: Callable[[Any], Any], init: Callable[[], Any], repeats: int) -> float:
    """Seconds; every call has a state of its own, since some take it with them and keys are used once."""
    seconds = []
    for _ in range(repeats):
        state = jax.block_until_ready(init())
        began = time.perf_counter()
        jax.block_until_ready(call(state))
        seconds.append(time.perf_counter() - began)
    return min(seconds)
