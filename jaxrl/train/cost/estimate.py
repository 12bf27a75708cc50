"""What a training will cost, known from its compiled program before anything runs."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxrl.algorithm import Algorithm, RunConfig
from jaxrl.train.devices.mesh import choose_mesh, place, spread
from jaxrl.train.members import Members
from jaxrl.train.programs import initial_state

__all__ = [
    "Assumptions",
    "Cost",
    "CostEstimate",
    "ScalingRow",
    "count_cost",
    "device_memory",
    "estimate_cost",
    "scaling_table",
]


class Cost(NamedTuple):
    """Work, as XLA counts it in its compiled programs."""

    flops: float
    bytes: float
    """Read and written, after fusion."""


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """What the table on paper takes for granted of a device and of the link between two of them."""

    teraflops: float
    """Arithmetic that is sustained, 10^12 operations a second."""
    memory_gb_per_s: float
    """Its memory's bandwidth."""
    link_gb_per_s: float
    """Bandwidth of an all-reduce, for each device."""
    latency_us: float
    """Of one message."""

    @classmethod
    def of(cls, platform: str) -> Assumptions:
        """Round numbers: one core of a CPU and Ethernet, or a large accelerator and a fast network."""
        return cls(0.05, 10.0, 1.0, 50.0) if platform == "cpu" else cls(20.0, 1500.0, 50.0, 10.0)


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """What is known of a run before it begins."""

    num_params: int
    """Of one member."""
    param_bytes: int
    state_bytes: int
    """The whole train state of all members."""
    cost: Cost
    """One update of all members, on one device."""
    devices: int
    """Those that the run uses."""
    memory: int
    """Bytes on each of them while it trains."""
    limit: int | None
    """Bytes that each of them has, where it is known."""

    @property
    def fits(self) -> bool:
        """Whether the memory is enough, with a tenth to spare."""
        return self.limit is None or self.memory <= 0.9 * self.limit


class ScalingRow(NamedTuple):
    """One update, on paper, with the environments of a run spread over n devices; times in seconds."""

    devices: int
    compute: float
    """Of each device."""
    reduced: float
    """Bytes that each device sends for the gradient of one minibatch."""
    communication: float
    """All the gradients of an update."""

    @property
    def seconds(self) -> float:
        """Nothing overlaps."""
        return self.compute + self.communication


def estimate_cost(
    algo: Algorithm, config: RunConfig, members: int = 1, mesh: Any = None, limit: int | None = None
) -> CostEstimate:
    """Compile an update and look at the program.

    Args:
        algo: The algorithm.
        config: Its config.
        members: M, seeds side by side.
        mesh: As `fit` takes it.
        limit: Bytes of memory on a device; None asks the device.
    """
    who = Members.of(config, members)
    state = jax.eval_shape(partial(initial_state, algo, members), jax.eval_shape(who.keys))
    update = jax.vmap(algo.update) if members > 1 else algo.update
    devices = choose_mesh(config, members, mesh)
    placed = place(state, devices, members)
    compiled = jax.jit(spread(update, state, devices, members), donate_argnums=0).lower(placed).compile(_options())
    used = compiled.memory_analysis()
    assert used is not None
    memory = (
        used.argument_size_in_bytes + used.output_size_in_bytes + used.temp_size_in_bytes - used.alias_size_in_bytes
    )
    params = jax.tree.leaves(state.params)
    return CostEstimate(
        num_params=sum(leaf.size for leaf in params) // members,
        param_bytes=_bytes(params) // members,
        state_bytes=_bytes(jax.tree.leaves(state)),
        cost=count_cost(jax.make_jaxpr(update)(state)),
        devices=devices.size if devices else 1,
        memory=memory,
        limit=device_memory() if limit is None else limit,
    )


def count_cost(program: ClosedJaxpr) -> Cost:
    """FLOPs and bytes of a program with the bodies of its scans counted as often as they run.

    XLA's own count takes every loop for one turn. So the body of each scan is compiled by itself, and what one turn was
    counted for is replaced by what all of them cost. A loop whose turns are not known before it runs stays at one.
    """
    return _costs(program)[1]


def _costs(program: ClosedJaxpr) -> tuple[Cost, Cost]:
    """As XLA counts it, and as it is."""
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

    A device computes its share of what one device would; an all-reduce moves 2 (n - 1) / n of the gradient's bytes
    through each device, in at least 2 log2(n) messages.

    Args:
        plan: Of the run.
        counts: Numbers of devices.
        minibatches: Gradients in an update, all epochs together.
        assumed: Speeds.
        measured: Seconds of an update on one device, instead of the time that its FLOPs or its bytes take at least.
    """
    least = max(plan.cost.flops / (assumed.teraflops * 1e12), plan.cost.bytes / (assumed.memory_gb_per_s * 1e9))
    alone = least if measured is None else measured
    rows = []
    for n in counts:
        reduced = 2 * (n - 1) / n * plan.param_bytes
        messages = 2 * math.ceil(math.log2(n)) * assumed.latency_us * 1e-6
        one = messages + reduced / (assumed.link_gb_per_s * 1e9)
        rows.append(ScalingRow(n, alone / n, reduced, minibatches * one))
    return rows


def device_memory() -> int | None:
    """Bytes that one of this process's devices may use; the devices of a CPU share the machine's memory."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return (device.memory_stats() or {}).get("bytes_limit")
    limits = []
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))  # "max" is no number
    return min(limits) // jax.local_device_count() if limits else None


def _scans(jaxpr: Any) -> Iterator[tuple[ClosedJaxpr, int]]:
    """The bodies of all scans that are not inside another one, with their numbers of turns."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            if equation.params["length"] > 1:
                yield equation.params["jaxpr"], equation.params["length"]
            continue
        for value in jax.tree.leaves(tuple(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _scans(inner)


def _bytes(leaves: list[Any]) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def _options() -> dict[str, Any] | None:
    """Nothing will run, so machine code need not be good."""
    return {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
