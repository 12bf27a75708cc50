"""`jaxrl plan`: the cost of a training, before anything runs."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxrl import algos
from jaxrl.cli.common import named_algorithm, use_cores
from jaxrl.cli.flags import RunFlags, parse_flags
from jaxrl.config import as_whole, typed
from jaxrl.display import data_size, in_units, right_aligned

__all__ = ["PlanFlags", "main"]

_USAGE = """\
usage: jaxrl plan ALGO --env ID [flags of jaxrl train]

ALGO is {names}, or a file such as ./my_ppo.py.
"""


@dataclasses.dataclass(frozen=True)
class PlanFlags(RunFlags):
    """The devices to plan for: these flags, in addition to all flags of `jaxrl train`."""

    device_counts: tuple[int, ...] = (1, 8, 64, 512)
    """Numbers of devices for the theoretical table, one per row."""
    memory_gb: float | None = None
    """Memory of a device in 10^9 bytes, to plan for a different device; left out, this device is queried."""
    teraflops: float | None = None
    """Assumed arithmetic speed of each device in the table, 10^12 operations per second."""
    memory_gb_per_s: float | None = None
    """Assumed memory bandwidth of each device."""
    link_gb_per_s: float | None = None
    """Assumed all-reduce bandwidth of each device."""
    latency_us: float | None = None
    """Assumed latency of each message between devices, in microseconds."""
    seconds_per_update: float | None = None
    """Measured time on one device, instead of the best that arithmetic and bandwidth allow."""


def main(argv: list[str]) -> int:
    """`jaxrl plan ALGO …`; returns the exit code."""
    name = named_algorithm(argv, "plan", _USAGE)
    if name is None:
        return 0
    module = algos.load(name)
    config, flags = parse_flags(name, module, argv[1:], PlanFlags(), "plan")
    _check(flags)
    use_cores()
    from jaxrl.train.cost import estimate_cost
    from jaxrl.train.devices.mesh import MeshShape

    limit = None if flags.memory_gb is None else int(flags.memory_gb * 1e9)
    plan = estimate_cost(
        module.make(config), config, flags.num_seeds, MeshShape(flags.mesh.member, flags.mesh.data), limit
    )
    print("\n".join([*_summary(name, config, flags, plan), "", *_table(config, flags, plan)]))
    if not plan.fits:
        raise ValueError(_refusal(config, flags, plan))
    return 0


def _check(flags: PlanFlags) -> None:
    """Raise ValueError unless all numbers make sense."""
    as_whole("num_seeds", flags.num_seeds)
    for field in ("memory_gb", "teraflops", "memory_gb_per_s", "link_gb_per_s", "latency_us", "seconds_per_update"):
        value = typed(f"--{field.replace('_', '-')}", float | None, getattr(flags, field))
        if value is not None and value <= 0:
            raise ValueError(f"--{field.replace('_', '-')} must be positive, got {value}.")
    if not flags.device_counts or min(flags.device_counts) < 1:
        raise ValueError(f"--device-counts must be 1 or more each, got {flags.device_counts}.")


def _summary(name: str, config: Any, flags: PlanFlags, plan: Any) -> list[str]:
    """The facts known from the compiled program."""
    import jax

    device = jax.local_devices()[0]
    seeds = f", {flags.num_seeds} seeds" if flags.num_seeds > 1 else ""
    of = "unknown" if plan.limit is None else data_size(plan.limit)
    fit = "fits" if plan.fits else "does not fit"
    return [
        f"{name} on {config.env}{seeds}: {config.num_updates:,} updates of {config.steps_per_update:,} steps",
        f"  parameters         {plan.num_params:,} ({data_size(plan.param_bytes)})" + (" a seed" if seeds else ""),
        f"  one update         {_count(plan.cost.flops)}FLOP, {data_size(plan.cost.bytes)} read and written",
        f"  devices            {plan.devices} of {jax.device_count()} ({device.device_kind})",
        f"  memory on each     {data_size(plan.memory)} of {of}: {fit} "
        f"(train state {data_size(plan.state_bytes)} in all)",
    ]


def _table(config: Any, flags: PlanFlags, plan: Any) -> list[str]:
    """The theoretical cost on more devices, and the assumptions behind it."""
    import jax

    from jaxrl.train.cost import Assumptions, scaling_table

    given = {field.name: getattr(flags, field.name) for field in dataclasses.fields(Assumptions)}
    assumed = dataclasses.replace(
        Assumptions.of(jax.default_backend()), **{k: v for k, v in given.items() if v is not None}
    )
    minibatches = getattr(config, "gradients_per_update", 1)
    rows = scaling_table(plan, list(flags.device_counts), minibatches, assumed, flags.seconds_per_update)
    lines = [("devices", "environments", "compute", "gradient", "all-reduces", "an update", "speed-up", "if grown")]
    for row in rows:
        share = config.num_envs / row.data if hasattr(config, "num_envs") else float("nan")
        possible = share >= 1 and share.is_integer()
        alone = row.compute * row.devices
        lines.append(
            (
                f"{row.devices}",
                f"{share:,.0f}" if possible else "uneven" if share > 1 else "too few",
                _seconds(row.compute),
                data_size(row.reduced),
                _seconds(row.communication),
                _seconds(row.seconds),
                f"{alone / row.seconds:.1f}" if possible else "–",
                f"{row.devices * alone / (alone + row.communication):.1f}",
            )
        )
    one = (
        f"an update takes one device {flags.seconds_per_update} s (measured)"
        if flags.seconds_per_update
        else f"a device does {assumed.teraflops:g} TFLOP/s or reads and writes {assumed.memory_gb_per_s:g} GB/s, "
        f"whichever takes longer"
    )
    return [
        "On paper, for each device; gradient: bytes that it sends for one of the "
        f"{minibatches} minibatches of an update; if grown: speed-up with n times the environments",
        *(f"  {line}" for line in right_aligned(lines)),
        f"Assumed: {one}; links of {assumed.link_gb_per_s:g} GB/s, {assumed.latency_us:g} us a message, nothing "
        "overlaps, all work is shared evenly. Not counted: the time to start each kernel.",
    ]


def _refusal(config: Any, flags: PlanFlags, plan: Any) -> str:
    """The error message: which options to lower, and to which values."""
    cures = _smaller_buffer(config, plan) or _smaller_rollout(config, flags, plan)
    seeds = int(flags.num_seeds * 0.9 * plan.limit / plan.memory)
    seeds -= seeds % plan.devices if seeds > plan.devices else 0
    if flags.num_seeds > 1 and seeds:
        cures.append(f"--num-seeds {seeds} (of {flags.num_seeds})")
    cures.append("smaller --hidden, or more devices")
    return (
        f"This needs {data_size(plan.memory)} on each of {plan.devices} devices, which have {data_size(plan.limit)}, "
        f"of which a tenth should be left: try {', or '.join(cures)}."
    )


def _smaller_buffer(config: Any, plan: Any) -> list[str]:
    """The largest `--buffer-size` that fits beside everything else, in whole rollouts; nothing without a buffer.

    Most of the memory of such a run is its buffer, so the message suggests no other option of the config.
    """
    if not plan.replay_bytes or not hasattr(config, "buffer_rollouts"):
        return []
    buffer = plan.replay_bytes / plan.devices
    free = 0.9 * plan.limit - (plan.memory - buffer)
    size = int(free / buffer * config.buffer_rollouts) * config.steps_per_update
    return [f"--buffer-size {size} (of {config.buffer_size})"] if size > 0 and _takes(config, buffer_size=size) else []


def _smaller_rollout(config: Any, flags: PlanFlags, plan: Any) -> list[str]:
    """The largest `--num-envs` or `--num-steps` that fits beside what does not depend on them."""
    learned = 6 * plan.param_bytes * flags.num_seeds  # parameters, moments, gradient and step: a generous estimate
    fixed = learned + plan.replay_bytes / plan.devices
    share = (0.9 * plan.limit - fixed) / max(plan.memory - fixed, 1)
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
