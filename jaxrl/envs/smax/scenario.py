"""Battles by name and as text."""

from __future__ import annotations

from jaxrl.envs.smax.units import SCENARIOS, Scenario
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["scenario_of"]


def scenario_of(name: str) -> Scenario:
    """The battle of that name.

    Raises:
        UnknownNameError: There is none; the message names the nearest.
    """
    if name not in SCENARIOS:
        hint = nearest(name, list(SCENARIOS))
        raise UnknownNameError(f'SMAX has no scenario {name!r}. {hint} Or give allies="3s5z", enemies="3s6z".')
    return SCENARIOS[name]
