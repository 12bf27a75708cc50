"""The cost of a training, estimated from its compiled program before anything runs."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import Mesh

from jaxrl.algorithm import Algorithm, RunConfig
from jaxrl.rl.replay import Replay
from jaxrl.train.devices.mesh import choose_mesh, place, spread
from jaxrl.train.members import Members
from jaxrl.train.programs import Programs, compiler_options, initial_state, side_by_side

__all__ = [
    "Assumptions",
    "Cost",
    "CostEstimate",
    "ScalingRow",
    "compile_rollout",
    "count_cost",
    "device_memory",
    "estimate_cost",
    "host_memory",
    "rollout_share",
    "scaling_table",
]


class Cost(NamedTuple):
    """Work in XLA's terms, as counted in its compiled programs."""

    flops: float
    bytes: float
    """Bytes read and written, after fusion."""


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """The assumed speeds of a device and of the link between two devices, for the theoretical table."""

    teraflops: float
    """Sustained arithmetic, 10^12 operations per second."""
    memory_gb_per_s: float
    """Memory bandwidth."""
    link_gb_per_s: float
    """All-reduce bandwidth per device."""
    latency_us: float
    """Latency of one message."""

    @classmethod
    def of(cls, platform: str) -> Assumptions:
        """Round numbers for one CPU core and Ethernet, or for a large accelerator and a fast network."""
        return cls(0.05, 10.0, 1.0, 50.0) if platform == "cpu" else cls(20.0, 1500.0, 50.0, 10.0)


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
    cost: Cost
    """One update of all members, on one device."""
    devices: int
    """Devices that the run uses."""
    memory: int
    """Bytes on each device during training."""
    limit: int | None
    """Bytes that each device has, if known."""
    members: int = 1
    """M, of which each has its own gradient."""

    @property
    def fits(self) -> bool:
        """True if the memory suffices, with a tenth to spare."""
        return self.limit is None or self.memory <= 0.9 * self.limit


class ScalingRow(NamedTuple):
    """The theoretical cost of one update with a run's members and environments spread over n devices; in seconds."""

    devices: int
    data: int
    """Devices that share the environments of a member."""
    compute: float
    """Computing time of each device."""
    reduced: float
    """Bytes that each device sends for the gradients of one minibatch, those of all its members."""
    communication: float
    """Time to reduce all gradients of an update."""

    @property
    def seconds(self) -> float:
        """The total time if nothing overlaps."""
        return self.compute + self.communication


def estimate_cost(
    algo: Algorithm, config: RunConfig, members: int = 1, mesh: Any = None, limit: int | None = None
) -> CostEstimate:
    """Compile an update and estimate its cost from the program.

    Args:
        algo: The algorithm.
        config: Its config.
        members: M, seeds side by side.
        mesh: The mesh shape, in the form that `fit` takes.
        limit: Bytes of memory on a device; None asks the device.
    """
    # The update of all members, compiled for the devices as in a run.
    who = Members.of(config, members)
    state = jax.eval_shape(partial(initial_state, algo, members), jax.eval_shape(who.keys))
    update = side_by_side(algo.checked_update, members)
    devices = choose_mesh(config, members, mesh)
    placed = place(state, devices, members)
    compiled = jax.jit(spread(update, state, devices, members), donate_argnums=0).lower(placed).compile(_options())
    # Memory as XLA plans it: donated arguments are reused as outputs.
    used = compiled.memory_analysis()
    assert used is not None
    memory = (
        used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes - used.alias_size_in_bytes
    )
    # Sizes of what is in the state, and the work of one member after another.
    params = jax.tree.leaves(state.params)
    replays = [value for value in jax.tree.leaves(state, is_leaf=_is_replay) if _is_replay(value)]
    return CostEstimate(
        num_params=sum(leaf.size for leaf in params) // members,
        param_bytes=_bytes(params) // members,
        state_bytes=_bytes(jax.tree.leaves(state)),
        replay_bytes=_bytes(jax.tree.leaves(replays)),
        cost=count_cost(jax.make_jaxpr(update)(_with_one_rollout(state, members))),
        devices=devices.size if devices else 1,
        memory=memory,
        limit=device_memory() if limit is None else limit,
        members=members,
    )


def count_cost(program: ClosedJaxpr) -> Cost:
    """The FLOPs and bytes of a program, with the bodies of its scans counted as often as they run.

    XLA itself counts every loop as one iteration. So the body of each scan is compiled by itself, and the cost of one
    iteration is replaced by the cost of all. A loop with an unknown number of iterations still counts as one.
    """
    return _costs(program)[1]


def _costs(program: ClosedJaxpr) -> tuple[Cost, Cost]:
    """The cost as XLA counts it, and the actual cost."""
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.jaxpr.invars]
    counted = jax.jit(jaxpr_as_fun(program)).lower(*shapes).compile(_options()).cost_analysis() or {}
    once = total = Cost(max(counted.get("flops", 0.0), 0.0), max(counted.get("bytes accessed", 0.0), 0.0))
    for body, length in _scans(program.jaxpr):
        counted_turn, turn = _costs(body)
        total = Cost(*(sum_ + length * real - seen for sum_, real, seen in zip(total, turn, counted_turn, strict=True)))
    return once, total


def scaling_table(
    plan: CostEstimate, counts: list[int], minibatches: int, assumed: Assumptions, measured: float | None = None
) -> list[ScalingRow]:
    """The cost of one update on each number of devices.

    Members are spread first, as `choose_shape` does, and need no communication. A device does its share of the work of
    one device; among d devices that share the environments of a member, an all-reduce moves 2 (d - 1) / d of the
    gradient's bytes through each device, in at least 2 log2(d) messages.

    Args:
        plan: The run's estimate.
        counts: Numbers of devices.
        minibatches: Gradients per update, all epochs together.
        assumed: The assumed speeds.
        measured: Seconds of an update on one device; None uses the least time that its FLOPs or its bytes take.
    """
    least = max(plan.cost.flops / (assumed.teraflops * 1e12), plan.cost.bytes / (assumed.memory_gb_per_s * 1e9))
    alone = least if measured is None else measured
    rows = []
    for n in counts:
        spread = math.gcd(n, plan.members)
        data = n // spread
        reduced = 2 * (data - 1) / data * plan.param_bytes * plan.members / spread
        messages = 2 * math.ceil(math.log2(data)) * assumed.latency_us * 1e-6
        one = messages + reduced / (assumed.link_gb_per_s * 1e9)
        rows.append(ScalingRow(n, data, alone / n, reduced, minibatches * one))
    return rows


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


def _scans(jaxpr: Any) -> Iterator[tuple[ClosedJaxpr, int]]:
    """The bodies of all scans that are not inside another scan, with their numbers of iterations."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            if equation.params["length"] > 1:
                yield equation.params["jaxpr"], equation.params["length"]
            continue
        for value in jax.tree.leaves(tuple(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _scans(inner)


def _is_replay(value: Any) -> bool:
    return isinstance(value, Replay)


def _with_one_rollout(state: Any, members: int) -> Any:
    """The shapes of a train state whose replay buffers hold one rollout.

    XLA counts a whole buffer as read where a minibatch is drawn from it, although only the drawn steps are.
    """
    axis = 2 if members > 1 else 1

    def short(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((*leaf.shape[:axis], 1, *leaf.shape[axis + 1 :]), leaf.dtype)

    def shorter(value: Any) -> Any:
        if not _is_replay(value):
            return value
        return value._replace(steps=jax.tree.map(short, value.steps), carry=jax.tree.map(short, value.carry))

    return jax.tree.map(shorter, state, is_leaf=_is_replay)


def _bytes(leaves: list[Any]) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def _options() -> dict[str, Any] | None:
    """Compiler options for a program that never runs, so that optimisation is unnecessary."""
    return {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None


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
