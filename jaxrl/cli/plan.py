"""`jaxrl plan`: the cost of a training, before anything runs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import jax

from jaxrl import algos
from jaxrl.cli.common import named_algorithm, use_cores
from jaxrl.cli.flags import RunFlags, parse_flags
from jaxrl.config import as_whole, typed
from jaxrl.display import data_size, in_units
from jaxrl.train.accelerators import GROWING, named

if TYPE_CHECKING:
    from jaxrl.train.cost import CostEstimate

__all__ = ["PlanFlags", "main"]

_USAGE = """\
usage: jaxrl plan ALGO --env ID [flags of jaxrl train] [--on h100:8 v5e:4x4 …]

ALGO is {names}, or a file such as ./my_ppo.py.
"""


@dataclasses.dataclass(frozen=True)
class PlanFlags(RunFlags):
    """The devices to plan for: these flags, in addition to all flags of `jaxrl train`."""

    on: tuple[str, ...] = ()
    """Accelerators to compile for, none of which need be at hand: a100, h100, h200, b200 (h100:8 for eight), v4, v5e,
    v5p, v6e (v5e:4x4 for sixteen chips); several at once. Left out, the devices of this machine."""
    memory_gb: float | None = None
    """Memory of a device in 10^9 bytes, to plan for a different device; left out, that of the device."""
    json: bool = False
    """Print everything as JSON."""


def main(argv: list[str]) -> int:
    """`jaxrl plan ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "plan", _USAGE)
    if name is None:
        return 0
    if any(word.partition("=")[0] == "--on" for word in argv):
        jax.config.update("jax_platforms", "cpu")  # nothing runs, so no device is taken, and no plugin looks for one
    module = algos.load(name)
    config, flags = parse_flags(name, module, argv[1:], PlanFlags(), "plan")
    as_whole("num_seeds", flags.num_seeds)
    if flags.memory_gb is not None and typed("--memory-gb", float, flags.memory_gb) <= 0:
        raise ValueError(f"--memory-gb must be positive, got {flags.memory_gb}.")
    for target in flags.on:
        named(target)
    use_cores()
    # One plan after the other; each is said as soon as it is known.
    plans = {}
    for target in flags.on or (None,):
        plan = plans[target] = _plan(module, config, flags, target)
        if not flags.json:
            lines = _what(name, config, flags, plan) if len(plans) == 1 else []
            print("\n".join([*lines, *_on_device(config, flags, target, plan)]), flush=True)
    if flags.json:
        print(json.dumps([{"on": target, **dataclasses.asdict(plan)} for target, plan in plans.items()], indent=2))
    for plan in plans.values():
        if not plan.fits:
            raise ValueError(_refusal(config, flags, plan))
    return 0


def _plan(module: Any, config: Any, flags: PlanFlags, target: str | None) -> CostEstimate:
    from jaxrl.train.cost import estimate_cost
    from jaxrl.train.devices.mesh import MeshShape

    limit = None if flags.memory_gb is None else int(flags.memory_gb * 1e9)
    shape = MeshShape(flags.mesh.member, flags.mesh.data)
    return estimate_cost(module.make(config), config, flags.num_seeds, shape, limit, target)


def _what(name: str, config: Any, flags: PlanFlags, plan: CostEstimate) -> list[str]:
    """What is the same on all devices."""
    seeds = f", {flags.num_seeds} seeds" if flags.num_seeds > 1 else ""
    return [
        f"{name} on {config.env}{seeds}: {config.num_updates:,} updates of {config.steps_per_update:,} steps",
        f"  parameters         {plan.num_params:,} ({data_size(plan.param_bytes)})" + (" a seed" if seeds else ""),
    ]


def _on_device(config: Any, flags: PlanFlags, target: str | None, plan: CostEstimate) -> list[str]:
    """What is known of a run on some devices."""
    of = "unknown" if plan.limit is None else data_size(plan.limit)
    known = [
        ("devices", f"{plan.devices} of {plan.visible} ({plan.kind}){_left_over(config, flags, plan)}"),
        (
            "memory on each",
            f"{data_size(plan.memory)} of {of}: {'fits' if plan.fits else 'does not fit'} (train state "
            f"{data_size(plan.state_bytes)} in all, working space {data_size(plan.temporary)})",
        ),
        ("an update", f"{_count(plan.flops)}FLOP in matrix products on each"),
    ]
    if target is None or plan.work is None:
        return [f"  {name:<18} {text}" for name, text in known]
    # What the program launches and moves, by its text.
    work, steps = plan.work, config.steps_per_update / config.num_envs
    least = f", {work.kernels_at_least:,.0f} if no condition holds" if work.kernels_at_least < work.kernels else ""
    asked = f", host waits {work.asked:,.0f} times" if work.asked else ""
    loops = ", ".join(f"{turns:,.0f} x {kernels / turns:,.0f}" for turns, kernels in plan.loops[:3])
    known += [
        ("kernels", f"{work.kernels:,.0f} an update{least}, {work.kernels / steps:,.0f} an environment step{asked}"),
        ("of these in loops", f"{loops} (turns x kernels)" if loops else "none"),
        (
            "memory traffic",
            f"{data_size(work.read)} read, {data_size(work.written)} written an update; "
            f"{data_size((work.read + work.written) / steps)} an environment step",
        ),
        ("collectives", f"{work.collectives:,.0f} an update, {data_size(work.reduced)}"),
        ("an update takes", f"about {_seconds(max(plan.limits.values()))}: {_limits(plan.limits)}"),
        ("steps/s", _speeds(config, flags, plan)),
    ]
    title = f"\n{target}: compiled in {plan.seconds:.0f} s; nothing has run"
    return [title, *(f"  {name:<18} {text}" for name, text in known)]


def _left_over(config: Any, flags: PlanFlags, plan: CostEstimate) -> str:
    """Which numbers of shards or seeds would use the devices that are left over."""
    if plan.devices == plan.visible:
        return ""
    return (
        f": {getattr(config, 'shards', 1)} shards of environments and {flags.num_seeds} seeds do not split over all; "
        f"--num-shards and --num-envs, or --num-seeds, that are multiples of {plan.visible} do"
    )


def _limits(limits: dict[str, float]) -> str:
    return ", ".join(f"{_seconds(seconds)} for {name}" for name, seconds in limits.items() if seconds)


def _speeds(config: Any, flags: PlanFlags, plan: CostEstimate) -> str:
    """Steps a second for more and more environments, and the most that fit.

    By proportion, because only the program with the config's own number of environments is compiled: bytes and FLOPs
    grow with the environments, launches and messages stay.
    """
    grows = max(plan.limits[name] for name in GROWING)
    stays = max(seconds for name, seconds in plan.limits.items() if name not in GROWING)
    learned = _learned(flags, plan)
    most = int(config.num_envs * (plan.room - learned) / max(plan.memory - learned, plan.memory / 10))
    sizes = [size for power in range(0, 10, 2) if (size := config.num_envs * 2**power) <= most]
    steps = config.steps_per_update / config.num_envs
    speeds = [size * steps / max(stays, grows * size / config.num_envs) for size in sizes]
    shown = [f"{_count(speed).strip()} with {size:,}" for size, speed in zip(sizes, speeds, strict=True)]
    return f"{'; '.join(shown)} environments; about {most:,} fit"


def _learned(flags: PlanFlags, plan: CostEstimate) -> float:
    """Bytes of parameters, moments, gradient and step: a generous estimate of what more environments leave alone."""
    return 6 * plan.param_bytes * flags.num_seeds


def _refusal(config: Any, flags: PlanFlags, plan: CostEstimate) -> str:
    """The error message: which options to lower, and to which values."""
    cures = _smaller_buffer(config, plan) or _smaller_rollout(config, flags, plan)
    seeds = int(flags.num_seeds * plan.room / plan.memory)
    seeds -= seeds % plan.devices if seeds > plan.devices else 0
    if flags.num_seeds > 1 and seeds:
        cures.append(f"--num-seeds {seeds} (of {flags.num_seeds})")
    cures.append("smaller --hidden, or more devices")
    return (
        f"This needs {data_size(plan.memory)} on each of {plan.devices} devices, which have "
        f"{data_size(plan.limit or 0)}, of which a tenth should be left: try {', or '.join(cures)}."
    )


def _smaller_buffer(config: Any, plan: CostEstimate) -> list[str]:
    """The largest `--buffer-size` that fits beside everything else, in whole rollouts; nothing without a buffer.

    Most of the memory of such a run is its buffer, so the message suggests no other option of the config.
    """
    if not plan.replay_bytes or not hasattr(config, "buffer_rollouts"):
        return []
    buffer = plan.replay_bytes / plan.devices
    free = plan.room - (plan.memory - buffer)
    size = int(free / buffer * config.buffer_rollouts) * config.steps_per_update
    return [f"--buffer-size {size} (of {config.buffer_size})"] if size > 0 and _takes(config, buffer_size=size) else []


def _smaller_rollout(config: Any, flags: PlanFlags, plan: CostEstimate) -> list[str]:
    """The largest `--num-envs` or `--num-steps` that fits beside what does not depend on them."""
    fixed = _learned(flags, plan) + plan.replay_bytes / plan.devices
    share = (plan.room - fixed) / max(plan.memory - fixed, 1)
    steps = {"num_envs": getattr(config, "num_minibatches", 1) * plan.devices, "num_steps": 1}
    cures = []
    for name, step in steps.items():
        value = int(getattr(config, name, 0) * share) // step * step
        if value > 0 and _takes(config, **{name: value}):
            cures.append(f"--{name.replace('_', '-')} {value} (of {getattr(config, name)})")
    return cures


def _takes(config: Any, **fields: int) -> bool:
    """True if the config allows these fields together with its others."""
    try:
        dataclasses.replace(config, **fields)
    except ValueError:
        return False
    return True


def _count(number: float) -> str:
    return in_units(number, ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


def _seconds(seconds: float) -> str:
    return in_units(seconds, ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
