"""The state of the machine, as far as it explains why training has become slower. Linux reports most of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["MachineLoad", "likely_cause"]


class MachineLoad(NamedTuple):
    """A snapshot of the machine; None where the system does not report a value."""

    load: float | None
    """Runnable processes, the mean of the last minute."""
    cores: int
    """The cores that this process may use."""
    frequency: float | None
    """The current GHz of the fastest core."""
    swapped: int | None
    """Pages read back from swap space since the machine was started."""
    throttled: int | None
    """How often the processor has slowed itself down because of heat."""

    @classmethod
    def now(cls) -> MachineLoad:
        """Take a snapshot."""
        cpus = Path("/sys/devices/system/cpu")
        frequencies = _numbers(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        throttled = _numbers(cpus.glob("cpu[0-9]*/thermal_throttle/package_throttle_count"))
        return cls(
            load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            frequency=max(frequencies) / 1e6 if frequencies else None,
            swapped=_swapped(),
            throttled=max(throttled) if throttled else None,
        )


def likely_cause(before: MachineLoad, now: MachineLoad) -> str:
    """The likely cause of a slow-down in one sentence; the most certain cause comes first."""
    if _rose(before.throttled, now.throttled):
        return "The processor slows itself down because it is too hot."
    if _rose(before.swapped, now.swapped, by=1000):
        return "Memory is short: the machine is swapping."
    if now.load is not None and now.load > 1.25 * now.cores and now.load > 1.25 * (before.load or 0.0):
        was = "" if before.load is None else f", it was {before.load:.1f}"
        return f"Other programs want the processor: the load is {now.load:.1f} on {now.cores} cores{was}."
    if before.frequency and now.frequency and now.frequency < 0.92 * before.frequency:
        return f"The processor's clock fell from {before.frequency:.2f} to {now.frequency:.2f} GHz."
    return (
        "Nothing else has changed on this machine: the updates themselves have more to do, or the device is shared or "
        "slows itself down."
    )


def _rose(before: int | None, now: int | None, by: int = 0) -> bool:
    return before is not None and now is not None and now > before + by


def _numbers(paths: Iterable[Path]) -> list[int]:
    found = []
    for path in paths:
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):
            continue
    return found


def _swapped() -> int | None:
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("pswpin ")), None)
