"""Configurations that check themselves: types, ranges, and fields that would have no effect.

Whole floats such as 2e4 count as whole numbers, NumPy's numbers as Python numbers, and lists as tuples.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.display import as_html, kind_of
from jaxrl.errors import suggestion
from jaxrl.source_file import algorithm_name

__all__ = [
    "COUNT",
    "LAYERS",
    "MAX_COUNT",
    "MAX_SEED",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "SIZES",
    "Allowed",
    "CheckedConfig",
    "Effect",
    "Name",
    "Pairs",
    "as_seed",
    "as_whole",
    "check_config",
    "check_loss",
    "checked_loss",
    "settled",
    "typed",
]

MAX_COUNT = 2**31 - 1
"""The largest number that an int32 holds."""

MAX_SEED = 2**32 - 1
"""JAX makes keys from seeds modulo 2^32, so a larger seed would silently repeat another run."""

_TINY, _HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

Config = TypeVar("Config")

if TYPE_CHECKING:
    Name = Any
    Pairs = Any
else:
    Name = str
    Pairs = tuple[str, ...]
"""`Name` is a field that holds a name; the config also takes the thing itself, such as an environment, and keeps its
name. `Pairs` is one that holds ("key=value", …); the config also takes a dict."""


class Allowed(NamedTuple):
    """The values that a field can have."""

    holds: Callable[[Any], bool]
    words: str
    """The rest of the message, after "must"."""


class Effect(NamedTuple):
    """When a field has an effect."""

    field: str
    needs: tuple[str, ...]
    """The fields it depends on."""
    works: Callable[[Any, Callable[[], Any]], bool]
    """`works(config, env)`, where `env()` is the environment."""
    cure: str
    """The way to give it an effect: the rest of the message, after "or"."""


COUNT = Allowed(lambda number: number >= 1, "be at least 1")
POSITIVE = Allowed(lambda number: number > 0, "be positive")
NOT_NEGATIVE = Allowed(lambda number: number >= 0, "not be negative")
SHARE = Allowed(lambda number: 0 <= number <= 1, "lie between 0 and 1")
SIZES = Allowed(lambda sizes: min(sizes, default=1) >= 1, "have positive sizes")
LAYERS = Allowed(lambda sizes: min(sizes, default=0) >= 1, "have at least one layer and positive sizes")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedConfig:
    """A frozen dataclass with a field `seed`, whose values are converted to their types and checked when it is made.

    Each class of a hierarchy states the rules for its own fields in `allowed` and `effects`.
    """

    allowed: ClassVar[dict[str, Allowed]] = {}
    """Rules for values, besides their types. None passes if the type allows it."""
    effects: ClassVar[tuple[Effect, ...]] = ()
    """Rules for what fields need. No rule is about hyperparameters that may differ among the members of one program."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        _check_fields(cls)
        known = {field.name for field in dataclasses.fields(cls) if field.init}
        for name in given:
            if name not in known:
                whose = f"{algorithm_name(cls)}.{cls.__qualname__}"
                raise TypeError(f"{whose} has no field {name!r}. {suggestion(name, known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            object.__setattr__(self, name, typed(name, hint, getattr(self, name)))
        as_seed("seed", getattr(self, "seed", 0))
        for name, value in self._fields().items():
            self.check_value(name, value)

    @classmethod
    def check_value(cls, name: str, value: Any) -> None:
        """Raise ValueError unless the field `name` can have this value, which has its type."""
        rule = _rules(cls).get(name)
        if rule is not None and value is not None and not rule.holds(value):
            raise ValueError(f"{name} must {rule.words}, got {value}.")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = CheckedConfig.__repr__  # so that @dataclass leaves it alone

    def __repr__(self) -> str:
        """The fields that differ from the class's defaults, as one would type them."""
        changed = (f"{name}={value!r}" for name, value in self._fields().items() if value != _default(self, name))
        return f"{algorithm_name(type(self))}.{type(self).__qualname__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        return as_html(repr(self), self._fields())

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def refuse_idle(self, env: Any) -> None:
        """Raise for a field that has no effect in this environment.

        Raises:
            ValueError: The message says what to type instead.
        """
        for rule in self.idle(lambda: env):
            causes = ", ".join(f"{name}={getattr(self, name)}" for name in rule.needs)
            raise ValueError(
                f"{rule.field}={getattr(self, rule.field)} has no effect with {causes}; leave it at "
                f"{_default(self, rule.field)}, or {rule.cure}."
            )

    def idle(self, env: Callable[[], Any], because: Collection[str] | None = None) -> list[Effect]:
        """The broken rules of fields that are not at their defaults: these fields have no effect.

        Args:
            env: Makes the environment; called only if a rule asks for it.
            because: Only rules that depend on one of these fields; None for all.
        """
        rules = [rule for kind in self._kinds() for rule in vars(kind).get("effects", ())]
        asked = [rule for rule in rules if getattr(self, rule.field) not in (False, _default(self, rule.field))]
        asked = [rule for rule in asked if because is None or set(rule.needs) & set(because)]
        return [rule for rule in asked if not rule.works(self, env)]

    def check_divisible(self, total: str, part: str) -> None:
        """Raise unless field `total` is a multiple of field `part`, and name a value that works."""
        number, divisor = getattr(self, total), getattr(self, part)
        if number % divisor:
            works = max(d for d in range(1, divisor) if number % d == 0)
            rounded = -(-number // divisor) * divisor
            raise ValueError(
                f"{total}={number} is not divisible by {part}={divisor}; use {part}={works} or {total}={rounded}."
            )

    @classmethod
    def _kinds(cls) -> list[type[CheckedConfig]]:
        """The classes of the hierarchy, the most general first."""
        return [kind for kind in reversed(cls.__mro__) if issubclass(kind, CheckedConfig)]


def settled(config: Config, because: Collection[str] | None = None, keep: Collection[str] = ()) -> Config:
    """A config without leftovers: fields that have no effect because of other fields go back to their defaults.

    This is for a preset, or another base, with some fields replaced: `memory="none"` leaves behind a `memory_size`
    that the user did not ask for.

    Args:
        config: A config; one without a method `idle` (see `OnPolicyConfig.idle`) is returned unchanged.
        because: The fields that were replaced; None for all.
        keep: Fields to leave unchanged.
    """
    if not hasattr(config, "idle"):
        return config
    given: Any = config
    dropped = {rule.field for rule in given.idle(because=because)} - set(keep)
    return dataclasses.replace(given, **{name: _default(given, name) for name in dropped}) if dropped else config


@functools.lru_cache
def _check_fields(kind: type[CheckedConfig]) -> None:
    """Raise TypeError for a value or a rule in the body of the class that would be ignored, since it is no field's."""
    name = f"{algorithm_name(kind)}.{kind.__qualname__}"
    for each in kind._kinds():
        hints = {} if "__dataclass_fields__" in vars(each) else inspect.get_annotations(each)
        for field in (field for field, hint in hints.items() if "ClassVar" not in str(hint)):
            raise TypeError(
                f"{name} has the field {field} of its own, but is not a dataclass; write "
                f"@dataclasses.dataclass(frozen=True, kw_only=True) above the class."
            )
    known = {field.name for field in dataclasses.fields(kind)}
    for rule in _rules(kind):
        if rule not in known:
            raise TypeError(f"{name}.allowed has a rule for {rule!r}, which is not a field. {suggestion(rule, known)}")
    for field in dataclasses.fields(kind):
        value = getattr(kind, field.name, dataclasses.MISSING)
        if value is not field.default:
            raise TypeError(
                f"{name} says {field.name} = {value!r} without a type, which has no effect; write "
                f"{field.name}: {field.type} = {value!r}."
            )


@functools.lru_cache
def _rules(kind: type[CheckedConfig]) -> dict[str, Allowed]:
    """The rule for the values of each field, from the most derived class that has one."""
    return {name: rule for each in kind._kinds() for name, rule in each.allowed.items()}


@functools.lru_cache
def _hints(kind: type) -> dict[str, Any]:
    """The resolved annotation of each field."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _default(config: Any, name: str) -> Any:
    """The default of a field."""
    return next(field.default for field in dataclasses.fields(config) if field.name == name)


def typed(name: str, hint: Any, value: Any) -> Any:
    """`value` converted to the annotation `hint`: bool, int, float, str, a Literal, tuples and unions of these.

    Other annotations accept any value.

    Args:
        name: The name of the value in messages.
        hint: The resolved annotation (see `typing.get_type_hints`).
        value: The given value.

    Raises:
        ValueError: The value does not fit, or is a float that is not finite in float32.
    """
    try:
        return _converted(hint, value)
    except _OtherError:
        raise ValueError(f"{name} must be {_words(hint)}; got {value!r}.") from None


def as_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """`value` as an int.

    Raises:
        ValueError: It is not a whole number, less than `least`, or more than `most`.
    """
    try:
        number = _converted(int, value)
    except _OtherError:
        number = None
    too_large = number is not None and most is not None and number > most
    if number is None or number < least or too_large:
        tells_most = most not in (None, MAX_COUNT) or too_large
        bounds = f"from {least} to {most}" if tells_most else f"of at least {least}"
        raise ValueError(f"{name} must be a whole number {bounds}, got {value!r}.")
    return number


def as_seed(name: str, value: Any) -> int:
    """`value` as a seed, an int from 0 to `MAX_SEED`; raises ValueError otherwise."""
    return as_whole(name, value, 0, MAX_SEED)


class _OtherError(Exception):
    """The value does not fit the annotation."""


def _converted(hint: Any, value: Any) -> Any:
    """`value` converted to an annotation; raises `_OtherError` if it does not fit."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _first(arms, value)
    if origin is tuple:
        if not isinstance(value, list | tuple) or (arms[-1] is not Ellipsis and len(value) != len(arms)):
            raise _OtherError
        each = arms[:1] * len(value) if arms[-1] is Ellipsis else arms
        return tuple(map(_converted, each, value))
    if hint is int or hint is float:
        return _number(hint, value)
    if origin is Literal or hint is type(None):
        for choice in arms if origin is Literal else (None,):
            truth = isinstance(value, bool) == isinstance(choice, bool)  # True is not 1
            if truth and isinstance(value, type(choice)) and value == choice:
                return choice
        raise _OtherError
    kinds = {bool: bool | np.bool_, str: str}.get(hint, object)
    if not isinstance(value, kinds):
        raise _OtherError
    return bool(value) if hint is bool else value


def _first(arms: tuple[Any, ...], value: Any) -> Any:
    """`value` converted to the first annotation that accepts it."""
    for arm in arms:
        try:
            return _converted(arm, value)
        except _OtherError:
            pass
    raise _OtherError


def _number(hint: Any, value: Any) -> Any:
    """An int from reals without a fraction, or a float within the range of float32, in which everything is computed.

    True and False are neither; an array without axes, such as `jnp.float32(1e-3)`, is the number in it.
    """
    if not isinstance(value, Real) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        try:
            value = value.item()
        except TypeError:  # a traced one, which holds none yet
            raise _OtherError from None
    if not isinstance(value, Real) or isinstance(value, bool):
        raise _OtherError
    whole = isinstance(value, Integral) or float(value).is_integer()
    in_range = hint is int or value == 0 or _TINY <= abs(float(value)) <= _HUGE
    if not in_range or (hint is int and not whole):
        raise _OtherError
    return hint(typing.cast(Any, value))


def _words(hint: Any) -> str:
    """A description of the annotation that follows "must be"."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_words, arms))
    if origin is Literal:
        return f"one of {', '.join(map(str, arms))}"
    if origin is tuple:
        many = "a tuple" if arms[-1] is Ellipsis else f"a tuple of {len(arms)}"
        return f"{many}, each entry {_words(arms[0])}"
    words = {bool: "True or False", int: "a whole number", float: "a finite number that float32 has", str: "text"}
    return words.get(hint, "None")


def check_config(config: Any, kind: type) -> None:
    """Raise TypeError unless `config` is of the class `kind`, an algorithm's own; the message says what to give."""
    if isinstance(config, kind):
        return
    name, own = algorithm_name(kind), f"{algorithm_name(kind)}.{kind.__name__}"
    if isinstance(config, type):
        raise TypeError(f"{name}.make takes a configuration, not the class {config.__name__}; give {own}().")
    if not dataclasses.is_dataclass(config):
        raise TypeError(f"{name}.make takes a configuration, such as {own}(), not a {type(config).__name__}.")
    other = algorithm_name(type(config))
    raise TypeError(
        f"{name}.make takes {own}(…), not {other}.{type(config).__name__}(…); give that to {other}.make, or give "
        f"{own}(…) here."
    )


def check_loss(loss: Any, make: Callable[..., Any], needed: tuple[str, ...] = ()) -> Callable[..., Any]:
    """The loss for an algorithm: the library's own as it is, another one with a check of what it returns when traced.

    Args:
        loss: What `make` was given.
        make: An algorithm's own, with a parameter `loss`. One without a default has nothing to compare with.
        needed: The names of scalars that the algorithm takes from what the loss reports.

    Raises:
        TypeError: It does not take the arguments that the default loss of `make` takes; the message says which.
    """
    default = getattr(inspect.signature(make).parameters.get("loss"), "default", None)
    if loss is not default and inspect.isfunction(default):
        _check_arguments(loss, default, make)
    if getattr(loss, "__module__", "").startswith("jaxrl."):
        return loss

    @functools.wraps(loss)
    def checked(*inputs: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        return checked_loss(loss(*inputs), needed)

    return checked


def _check_arguments(loss: Any, default: Callable[..., Any], make: Callable[..., Any]) -> None:
    """Raise TypeError unless `loss` takes the arguments that the `default` of `make` takes."""
    required = [p.name for p in inspect.signature(default).parameters.values() if p.default is p.empty]
    takes = f"{algorithm_name(make)}.make takes a configuration and a loss, a function of ({', '.join(required)})"
    kind = loss if isinstance(loss, type) else type(loss)
    if loss is kind or not callable(loss):
        is_env = hasattr(kind, "step_env")
        hint = "; name the environment in the configuration, Config(env=…)" if is_env else ""
        raise TypeError(f"{takes}, not {'the class' if loss is kind else 'a'} {kind.__name__}{hint}.")
    try:
        own = inspect.signature(loss)
    except ValueError:  # it is not written in Python
        return
    try:
        own.bind(*required)
    except TypeError as error:
        name = getattr(loss, "__name__", "the given one")
        raise TypeError(f"{takes}, and {name} cannot be called with these: {error}.") from None


def checked_loss(returned: Any, needed: tuple[str, ...] = ()) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The loss and its facts, if it returned a scalar and a dictionary of scalars.

    Args:
        returned: What it returned.
        needed: The names of scalars that the algorithm takes from the dictionary.

    Raises:
        TypeError: It is something else; the message says what to return.
    """
    among = f"with {' and '.join(map(repr, needed))} among the names" if needed else "such as means over the minibatch"
    wanted = f"return (scalar, {{name: scalar}}), {among}"
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
        raise TypeError(f"The loss returned {kind_of(returned)}; {wanted}.")
    total, facts = returned
    for name in needed:
        if name not in facts:
            raise TypeError(f"The loss returned no {name!r}; {wanted}.")
    if "grad_norm" in facts:
        raise TypeError("The loss returned 'grad_norm', which is the norm of its gradient; call it something else.")
    for name, value in (("its first value", total), *((f"{name!r}", value) for name, value in facts.items())):
        if not isinstance(value, jax.Array | np.ndarray | np.generic | int | float) or jnp.shape(value):
            raise TypeError(f"The loss returned {name} as {kind_of(value)}; {wanted}.")
    if not jnp.issubdtype(jnp.result_type(total), jnp.floating):
        raise TypeError(f"The loss returned its first value as {jnp.result_type(total)}; return a float there.")
    return total, facts
