"""Configurations that check themselves: types, ranges, and fields that would have no effect."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp

from jaxrl.display import as_html
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.fields import as_seed, typed
from jaxrl.keys import abstract_key
from jaxrl.source_file import algorithm_name
from jaxrl.synonyms import suggestion

__all__ = [
    "COUNT",
    "LAYERS",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "SIZES",
    "Allowed",
    "CheckedConfig",
    "Effect",
    "check_config",
    "check_log_info",
    "check_loss",
]


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
    works: Callable[[Any, Callable[[], Environment]], bool]
    """`works(config, env)`, where `env()` is the environment."""
    cure: str
    """How to give it an effect: the rest of the message, after "or"."""


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
    """What a value must be, besides having its type. None passes if the type allows it."""
    effects: ClassVar[tuple[Effect, ...]] = ()
    """What some fields need. No rule is about hyperparameters that may differ among the members of one program."""

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
        for field in dataclasses.fields(self):
            self.check_value(field.name, getattr(self, field.name))

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

    def refuse_idle(self, env: Environment) -> None:
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

    def idle(self, env: Callable[[], Environment], because: Collection[str] | None = None) -> list[Effect]:
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


def check_loss(loss: Any, make: Callable[..., Any]) -> None:
    """Raise TypeError unless `loss` takes the arguments that the default loss of `make` takes; the message says which.

    Args:
        loss: What `make` was given. What it returns is checked when it is traced.
        make: An algorithm's own, with a parameter `loss`. One without a default has nothing to compare with.
    """
    default = getattr(inspect.signature(make).parameters.get("loss"), "default", None)
    if loss is default or not inspect.isfunction(default):
        return
    required = [p.name for p in inspect.signature(default).parameters.values() if p.default is p.empty]
    takes = f"{algorithm_name(make)}.make takes a configuration and a loss, a function of ({', '.join(required)})"
    kind = loss if isinstance(loss, type) else type(loss)
    if loss is kind or not callable(loss):
        hint = "; name the environment in the configuration, Config(env=…)" if issubclass(kind, Environment) else ""
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


def check_log_info(env: Environment, names: Collection[str]) -> None:
    """Raise unless the environment's info has a number, or one for each agent, under each of these names.

    Raises:
        ValueError: The message lists the names that there are.
    """
    if not names:
        return
    numbers = sorted(_info_numbers(env))
    for name in names:
        if name not in numbers:
            there = f"it has {', '.join(numbers)}" if numbers else "it has none"
            raise ValueError(f"log_info: the info of {env.name} has no number {name!r}; {there}.")


def _info_numbers(env: Environment) -> list[str]:
    """The names of the numbers in an environment's info."""
    agents = (env.num_agents,) if isinstance(env, MultiAgentEnvironment) else ()
    space = env.action_space()

    def step(key: jax.Array) -> dict[str, Any]:
        key_reset, key_step = jax.random.split(key)
        _, state = env.reset(key_reset)
        return env.step(key_step, state, jnp.zeros((*agents, *space.shape), space.dtype))[-1]

    info = jax.eval_shape(step, abstract_key())
    return [
        name
        for name, leaf in info.items()
        if not name.startswith("final_") and isinstance(leaf, jax.ShapeDtypeStruct) and leaf.ndim <= len(agents)
    ]


@lru_cache
def _check_fields(kind: type[CheckedConfig]) -> None:
    """Raise TypeError for a value or a rule in the body of the class that would be ignored, since it is no field's."""
    name = f"{algorithm_name(kind)}.{kind.__qualname__}"
    own = [field for each in kind._kinds() for field in _undeclared(each)]
    if own:
        raise TypeError(
            f"{name} has the field {own[0]} of its own, but is not a dataclass; write "
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


def _undeclared(kind: type[CheckedConfig]) -> list[str]:
    """The fields in the body of a class that `@dataclass` has not seen."""
    if "__dataclass_fields__" in vars(kind):
        return []
    hints = inspect.get_annotations(kind)
    return [name for name, hint in hints.items() if "ClassVar" not in str(hint)]


@lru_cache
def _rules(kind: type[CheckedConfig]) -> dict[str, Allowed]:
    """The rule for the values of each field, from the most derived class that has one."""
    return {name: rule for each in kind._kinds() for name, rule in each.allowed.items()}


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    """The resolved annotation of each field."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _default(config: Any, name: str) -> Any:
    """The default of a field."""
    return next(field.default for field in dataclasses.fields(config) if field.name == name)
