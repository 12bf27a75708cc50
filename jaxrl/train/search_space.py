"""Which hyperparameters a sweep tries: lists make a grid, ranges are sampled."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
import zlib
from collections.abc import Mapping
from typing import Any

import jax

from jaxrl.registry import UnknownNameError, nearest

__all__ = ["Point", "Space", "points"]

Space = Mapping[str, Any]
"""Field names of a config to lists of values, or to ranges `(low, high)` or `(low, high, "log")`."""

Point = dict[str, Any]
"""A value for each name in a space."""

_STREAM = 2  # of the config's seed; training has 0, evaluation 1


def points(config: Any, space: Space, samples: int) -> list[Point]:
    """All combinations of the lists' values, each with `samples` draws from the ranges.

    The draws are the same for every combination. They depend on the config's seed, on the name of the range and on
    nothing else in the space.

    Args:
        config: The dataclass whose fields are tried.
        space: What to try.
        samples: How many points of the ranges to draw.

    Raises:
        UnknownNameError: The config has no such field; the message lists the nearest.
        ValueError: Neither list nor range, an empty or repeated one, or a value that the config refuses.
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}.")
    ranges = {name: _range(config, name, values) for name, values in space.items() if isinstance(values, tuple)}
    grid = {name: _values(config, name, values) for name, values in space.items() if not isinstance(values, tuple)}
    draws: list[Point] = [{}]
    if ranges:
        columns = [_draw(config.seed, name, *span, samples) for name, span in ranges.items()]
        draws = [dict(zip(ranges, row, strict=True)) for row in zip(*columns, strict=True)]
    found = []
    for values in itertools.product(*grid.values()):
        for draw in draws:
            point = dict(zip(grid, values, strict=True)) | draw
            found.append({name: point[name] for name in space})
    for point in found:
        dataclasses.replace(config, **point)  # it says itself what it does not like
    return found


def _values(config: Any, name: str, values: Any) -> list[Any]:
    """The values of a list, made sure of."""
    _check_name(config, name)
    if not isinstance(values, list):
        raise ValueError(
            f"{name} must be a list of values such as [{values!r}], or a range (low, high) or (low, high, 'log'); "
            f"got {values!r}."
        )
    if not values:
        raise ValueError(f"{name} has an empty list; give at least one value.")
    kind = type(getattr(config, name))
    if kind is float:
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} takes numbers, got {value!r}.")
        values = [float(value) for value in values]
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{name} lists {value!r} twice; once is enough, more seeds come from seeds.")
    return values


def _range(config: Any, name: str, span: tuple[Any, ...]) -> tuple[float, float, bool]:
    """Low, high, and whether logarithms are uniform."""
    _check_name(config, name)
    if typing.get_type_hints(type(config))[name] not in (float, float | None):
        raise ValueError(f"{name} cannot be sampled from a range, only numbers with a fraction can; list its values.")
    log = len(span) == 3 and span[2] == "log"
    if len(span) - log != 2 or not all(isinstance(end, int | float) for end in span[:2]):
        raise ValueError(f"{name} must be (low, high) or (low, high, 'log') to be sampled; got {span!r}.")
    low, high = map(float, span[:2])
    if not low < high or not math.isfinite(high - low):
        raise ValueError(f"{name} needs the lower end of its range first, got {span!r}.")
    if log and low <= 0:
        raise ValueError(f"{name} has the range {span!r}, of which there is no logarithm; start above 0.")
    return low, high, log


def _check_name(config: Any, name: str) -> None:
    names = [field.name for field in dataclasses.fields(config) if field.name != "seed"]
    if name == "seed":
        raise ValueError("seed is not a hyperparameter; seeds=8 trains eight, and seeds=[3, 5] those.")
    if name not in names:
        kind = type(config).__module__.rpartition(".")[2]
        raise UnknownNameError(f"{kind} has no hyperparameter {name!r}. {nearest(name, names)}")


def _draw(seed: int, name: str, low: float, high: float, log: bool, samples: int) -> list[float]:
    """Independent draws, uniform in the values or in their logarithms."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _STREAM), zlib.crc32(name.encode()))
    ends = (math.log(low), math.log(high)) if log else (low, high)
    drawn = [ends[0] + float(u) * (ends[1] - ends[0]) for u in jax.random.uniform(key, (samples,))]
    return [math.exp(x) for x in drawn] if log else drawn
