"""The hyperparameters that a sweep or a search tries: lists and ranges."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import CheckedConfig, as_whole, settled
from jaxrl.errors import UnknownNameError, suggestion
from jaxrl.source_file import algorithm_name

__all__ = [
    "Choice",
    "Point",
    "Range",
    "SearchSpace",
    "describe_space",
    "distinct",
    "draws",
    "effective",
    "grid",
    "points",
    "read_space",
]

SearchSpace = Mapping[str, Any]
"""Maps field names of a config to lists of values, or to ranges `(low, high)` or `(low, high, "log")`."""

Point = dict[str, Any]
"""A value for each name in a space."""

_STREAM = 2  # of the config's seed; training uses 0, evaluation 1
_SURPLUS = 64  # times as many draws as are wanted, because some may repeat others


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`."""

    low: float
    high: float
    log: bool
    """Draws are uniform in the logarithm."""

    def at(self, share: float) -> float:
        """The number at `share` (from 0 to 1) of the range."""
        if self.log:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)


@dataclasses.dataclass(frozen=True)
class Choice:
    """A list of values."""

    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        """The value at `share` (from 0 to less than 1) of the list."""
        return self.values[int(share * len(self.values))]


def read_space(config: Any, space: SearchSpace) -> dict[str, Range | Choice]:
    """Parse and check a space.

    Raises:
        UnknownNameError: The config has no such field; the message lists the nearest names.
        ValueError: An entry is neither list nor range, or it is empty or has repeated values.
    """
    return {
        name: _range(config, name, values) if isinstance(values, tuple) else _choice(config, name, values)
        for name, values in space.items()
    }


def describe_space(dimensions: Mapping[str, Range | Choice]) -> dict[str, dict[str, Any]]:
    """A space for a file: `{"lr": {"low": 0.0001, "high": 0.1, "log": true}, "hidden": {"values": …}}`."""
    return {name: dataclasses.asdict(dimension) for name, dimension in dimensions.items()}


def points(config: Any, space: SearchSpace, samples: int) -> list[Point]:
    """All combinations of the listed values, each with `samples` draws from the ranges.

    Combinations that differ only in fields without effect count as one. The draws are the same for every combination:
    they depend on the config's seed and on the name of the range, and on nothing else in the space.

    Args:
        config: The dataclass whose fields to try.
        space: The values to try.
        samples: How many points to draw from the ranges.

    Raises:
        ValueError: See `read_space`; or the config rejects a value.
    """
    samples, dimensions = as_whole("samples", samples), read_space(config, space)
    ranges = {name: each for name, each in dimensions.items() if isinstance(each, Range)}
    drawn = _drawn(config, ranges, samples) if ranges else [{}]
    combined = grid({name: each for name, each in dimensions.items() if isinstance(each, Choice)})
    return _accepted(config, space, [{**values, **draw} for values in combined for draw in drawn])


def draws(config: Any, space: SearchSpace, count: int) -> list[Point]:
    """`count` different points drawn from the whole space, lists and ranges alike; fewer if it has no more.

    Raises:
        ValueError: See `points`.
    """
    dimensions = read_space(config, space)
    choices = {name: each for name, each in dimensions.items() if isinstance(each, Choice)}
    if len(choices) == len(dimensions):
        tried = _picked(config, choices, _SURPLUS * count)
    else:
        tried = _drawn(config, dimensions, _SURPLUS * count)
    return _accepted(config, space, tried, count)


def grid(choices: Mapping[str, Choice]) -> list[Point]:
    """All combinations of the values."""
    rows = itertools.product(*(choice.values for choice in choices.values()))
    return [dict(zip(choices, row, strict=True)) for row in rows]


def effective(config: Any, point: Point) -> Point:
    """A point after conversion by the config: 2e4 steps become 20000, and fields without effect get their default.

    Raises:
        ValueError: The config rejects a value, or a name has no effect because every policy has its own value.
    """
    made = settled(dataclasses.replace(config, **point), point)
    idle = [name for name in (made.overridden() if hasattr(made, "overridden") else ()) if name in point]
    if idle:
        raise ValueError(f"{idle[0]} changes nothing: policy_hyperparams gives every policy its own; drop one of them.")
    return {name: getattr(made, name) for name in point}


def distinct(found: Iterable[Point], most: int | None = None) -> list[Point]:
    """The points without repetitions; the first `most` of them, if that is given."""
    kept: dict[str, Point] = {}
    for point in found:
        kept.setdefault(repr(point), point)
        if len(kept) == most:
            break
    return list(kept.values())


def _accepted(config: Any, space: SearchSpace, found: Iterable[Point], most: int | None = None) -> list[Point]:
    """The distinct points after conversion by the config, with names in the order of the space; see `distinct`."""
    return distinct((effective(config, {name: point[name] for name in space}) for point in found), most)


def _drawn(config: Any, dimensions: Mapping[str, Range | Choice], count: int) -> list[Point]:
    """Independent draws; the draws for a name do not depend on the other names, nor the first ones on `count`."""
    columns = []
    for name, dimension in dimensions.items():
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(config.seed), _STREAM), zlib.crc32(name.encode()))
        shares = np.asarray(jax.random.uniform(key, (count,), jnp.float32)).tolist()
        columns.append([dimension.at(share) for share in shares])
    return [dict(zip(dimensions, row, strict=True)) for row in zip(*columns, strict=True)]


def _picked(config: Any, choices: Mapping[str, Choice], count: int) -> Iterator[Point]:
    """Up to `count` different combinations of the values; the grid may be too large to be made."""
    shape = [len(each.values) for each in choices.values()]
    rng, size = np.random.default_rng([config.seed, _STREAM]), math.prod(shape)
    for place in rng.choice(size, min(size, count), replace=False).tolist():
        row = np.unravel_index(place, shape)
        yield {name: each.values[i] for (name, each), i in zip(choices.items(), row, strict=True)}


def _choice(config: Any, name: str, values: Any) -> Choice:
    """Check a list of values."""
    _check_name(config, name)
    if getattr(values, "ndim", 0) == 1:  # such as np.logspace returns
        values = np.asarray(values).tolist()
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
        _check_values(config, name, values)
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{name} lists {value!r} twice; give each value once.")
    return Choice(tuple(values))


def _range(config: Any, name: str, span: tuple[Any, ...]) -> Range:
    """Check a range."""
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
    _check_values(config, name, (low, high))
    return Range(low, high, log)


def _check_values(config: Any, name: str, values: Iterable[float]) -> None:
    """Raise ValueError if the config allows one of the values by no means: a search may come to it late."""
    for value in values:
        if isinstance(config, CheckedConfig):
            config.check_value(name, value)


def _check_name(config: Any, name: str) -> None:
    names = [field.name for field in dataclasses.fields(config) if field.name != "seed"]
    if name == "seed":
        raise ValueError(
            "seed is not a hyperparameter: say --num-seeds 8 (in Python seeds=8 or seeds=[3, 5]) for the seeds of a "
            "sweep, --tuning-seeds and --test-seeds (tuning_seeds=…, test_seeds=…) for those of a search."
        )
    if name not in names:
        hint = suggestion(name, names)
        raise UnknownNameError(f"{algorithm_name(type(config))} has no hyperparameter {name!r}. {hint}")
