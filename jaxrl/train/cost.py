"""The cost of a training, estimated from its compiled program before anything runs."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from jaxrl.algorithm import Algorithm, RunConfig
from jaxrl.rl.devices import compiling_for
from jaxrl.rl.replay import Replay
from jaxrl.train.accelerators import Work, count_flops, count_work, devices_of, named, time_limits
from jaxrl.train.devices.mesh import MeshShape, choose_mesh, place, spread
from jaxrl.train.members import Members
from jaxrl.train.programs import Programs, compiler_options, initial_state, side_by_side

__all__ = [
    "CostEstimate",
    "compile_rollout",
    "device_memory",
    "estimate_cost",
    "host_memory",
    "rollout_share",
]


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """The cost of a run, known before it begins."""

    num_params: int
    """Parameters of one member."""
    param_bytes: int
    state_bytes: int
    """Bytes of the whole train state, all members together."""
    replay_bytes: int
    """Bytes of the replay buffers in it."""
    flops: float
    """Of the matrix products of one update, on each device."""
    devices: int
    """Devices that the run uses."""
    visible: int
    """Devices that there are."""
    memory: int
    """Bytes on each device during training."""
    limit: int | None
    """Bytes that each device has, if known."""
    kind: str
    """The devices' name."""
    temporary: int = 0
    """Bytes of `memory` that hold what an update works with."""
    seconds: float = 0.0
    """Seconds of tracing and compiling."""
    work: Work | None = None
    """What an update launches and moves on each device, where it is compiled for an accelerator."""
    loops: tuple[tuple[float, float], ...] = ()
    """Turns and kernels of each loop that is in no other, the largest first."""
    limits: dict[str, float] = dataclasses.field(default_factory=dict)
    """Seconds an update by each limit, see `time_limits`."""

    @property
    def room(self) -> float:
        """Bytes of each device that may be used: a tenth is left."""
        return math.inf if self.limit is None else 0.9 * self.limit

    @property
    def fits(self) -> bool:
        """True if the memory suffices."""
        return self.memory <= self.room


def estimate_cost(
    algo: Algorithm,
    config: RunConfig,
    members: int = 1,
    mesh: MeshShape | None = None,
    limit: int | None = None,
    target: str | None = None,
) -> CostEstimate:
    """Compile an update and estimate its cost from the program.

    Args:
        algo: The algorithm.
        config: Its config.
        members: M, seeds side by side.
        mesh: The mesh shape, in the form that `fit` takes.
        limit: Bytes of memory on a device; None asks the device.
        target: Accelerators to compile for, such as `"h100:8"`; None for the devices at hand.

    Raises:
        ValueError: There is no such target, or the mesh shape does not suit it.
    """
    began = time.perf_counter()
    accelerator = named(target)[1] if target else None
    devices = devices_of(target) if target else jax.devices()
    with compiling_for(accelerator.platform) if accelerator else contextlib.nullcontext():
        # The update of all members, traced and compiled for the devices as in a run.
        who = Members.of(config, members)
        state = jax.eval_shape(partial(initial_state, algo, members), jax.eval_shape(who.keys))
        chosen = choose_mesh(config, members, mesh, devices)
        update = spread(side_by_side(algo.checked_update, members), state, chosen, members)
        placed = _placed(state, devices[0]) if target and chosen is None else place(state, chosen, members)
        traced = jax.jit(update, donate_argnums=0).trace(placed)
        compiled = traced.lower().compile(compiler_options())
    # Memory as XLA plans it: donated arguments are reused as outputs.
    planned = compiled.memory_analysis()
    assert planned is not None
    memory = (
        planned.argument_size_in_bytes
        + planned.output_size_in_bytes
        + planned.temp_size_in_bytes
        - planned.alias_size_in_bytes
    )
    params = jax.tree.leaves(state.params)
    replays = [value for value in jax.tree.leaves(state, is_leaf=_is_replay) if _is_replay(value)]
    plan = CostEstimate(
        num_params=sum(leaf.size for leaf in params) // members,
        param_bytes=_bytes(params) // members,
        state_bytes=_bytes(jax.tree.leaves(state)),
        replay_bytes=_bytes(jax.tree.leaves(replays)),
        flops=count_flops(traced.jaxpr),
        devices=1 if chosen is None else chosen.size,
        visible=len(devices),
        memory=memory,
        limit=limit or (int(accelerator.memory) if accelerator else device_memory()),
        kind=accelerator.name if accelerator else devices[0].device_kind,
        temporary=planned.temp_size_in_bytes,
    )
    # What the program launches and moves, where it is one of an accelerator.
    if accelerator:
        work, loops = count_work(compiled.as_text() or "", accelerator.platform)
        plan = dataclasses.replace(
            plan,
            work=work,
            loops=loops,
            limits=time_limits(work, plan.flops, accelerator),
        )
    return dataclasses.replace(plan, seconds=time.perf_counter() - began)


def _placed(state: Any, device: Any) -> Any:
    """The shapes of a train state on one device."""
    there = SingleDeviceSharding(device)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there), state)


def device_memory() -> int | None:
    """The bytes that one of this process's devices may use; the devices of a CPU share the machine's memory."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return (device.memory_stats() or {}).get("bytes_limit")
    there = host_memory()
    return there and there // jax.local_device_count()


def host_memory() -> int | None:
    """The bytes that this process may use, if known."""
    limits = []
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max" is not a number
    return min(limits, default=None)


def _is_replay(value: Any) -> bool:
    return isinstance(value, Replay)


def _bytes(leaves: list[Any]) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


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
