"""Schedules: hyperparameters that change over a run, as functions of the (traced) number of updates done.

A schedule is a string, so that a configuration stays plain data: `"cosine"` falls to 0, `"linear:0.1"` to a tenth of
the initial value, and `"warmup:0.05+cosine"` first rises from 0 during a twentieth of the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["CURVES", "Schedule", "annealed", "by_name", "lost_later", "parse_schedule", "ramp", "register_schedule"]

Curve = Callable[[jax.Array], jax.Array]
"""`curve(progress) -> factor`: from the share of the run that is done, 0 … 1, to a factor for the initial value."""

CURVES: dict[str, Curve] = {
    "constant": jnp.ones_like,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + jnp.cos(jnp.pi * progress)),
}
_OWN: dict[str, Curve] = {}
WARMUP = 0.05
"""The share of a run in which a hyperparameter rises, unless the schedule says another."""


class Schedule(NamedTuple):
    """A schedule, as parsed."""

    curve: str = "constant"
    """A name in `CURVES` or of a registered curve."""
    final: float = 0.0
    """The factor for the initial value at the end of a falling curve; above 1, the curve rises to it."""
    warmup: float = 0.0
    """The share of the run in which the hyperparameter first rises linearly from 0."""


def register_schedule(name: str, curve: Curve) -> None:
    """Give a curve of your own a name that schedules can use: `schedules=("lr=sawtooth",)`.

    Args:
        name: The name. It may be registered again, with another curve.
        curve: `curve(progress) -> factor`, of traced float32 scalars: from the share of the run that is done (after the
            warm-up, if there is one), 0 … 1, to a factor for the initial value.

    Raises:
        ValueError: The name is that of a built-in schedule, or has other characters than letters, digits and `_`.
    """
    if name in CURVES or name == "warmup" or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"A schedule cannot be called {name!r}; choose another name of letters, digits and _.")
    if not callable(curve):
        raise ValueError(f"The schedule {name} needs a function of the share of the run that is done, got {curve!r}.")
    _OWN[name] = curve


def by_name(schedules: Sequence[str], hyperparameters: Sequence[str]) -> dict[str, str]:
    """Schedules by the names of their hyperparameters, from `["lr=cosine", …]`.

    Raises:
        ValueError: One of them is not a schedule of one of these hyperparameters, or a hyperparameter has two.
    """
    found: dict[str, str] = {}
    for each in schedules:
        name, _, schedule = each.partition("=")
        if name not in hyperparameters or not schedule:
            names = ", ".join(hyperparameters)
            raise ValueError(f"schedules has entries such as lr=cosine, with one of {names}; got {each!r}.")
        if name in found:
            raise ValueError(f"schedules has two entries for {name}: {found[name]} and {schedule}; leave one out.")
        parse_schedule(schedule)
        found[name] = schedule
    return found


def lost_later(schedules: Iterable[str], module: str) -> list[str]:
    """A sentence for each registered schedule that another process has to register before it loads the run.

    Args:
        schedules: Their texts.
        module: The algorithm's own module; schedules that are registered there are always found again.
    """
    curves = [parse_schedule(schedule).curve for schedule in schedules]
    return [
        f"The schedule {name} is a function of this process: before another one loads or resumes this run, register it "
        f"there too, or register it in the file of the algorithm."
        for name in dict.fromkeys(curves)
        if name in _OWN and _OWN[name].__module__ != module
    ]


def parse_schedule(text: str) -> Schedule:
    """A schedule from its text, `[warmup[:SHARE]+]CURVE[:FINAL]` or only the warm-up.

    Raises:
        ValueError: It is not a schedule; the message lists those that exist.
    """
    first, plus, rest = text.partition("+")
    name, _, number = first.partition(":")
    warmup = _number(text, number, WARMUP) if name == "warmup" else 0.0
    if name == "warmup":
        if not 0 < warmup < 1:
            raise ValueError(f"{text!r}: the warm-up lasts a share of the run between 0 and 1, got {number}.")
        if not plus:
            return Schedule(warmup=warmup)
        name, _, number = rest.partition(":")
    elif plus:
        raise ValueError(f"{text!r}: only a warm-up comes before a +, as in warmup:0.05+cosine.")
    if name not in (*CURVES, *_OWN):
        known = ", ".join([*CURVES, "warmup", *_OWN])
        raise ValueError(
            f"There is no schedule {name!r}, but {known}. Register one of your own before you use it or load its run: "
            f"jaxrl.register_schedule({name!r}, function)."
        )
    if number and name not in ("linear", "cosine"):
        raise ValueError(f"{text!r}: only linear and cosine take a final value.")
    return Schedule(name, _number(text, number, 0.0), warmup)


def annealed(schedule: Schedule, initial: jax.Array | float, update: jax.Array | int, num_updates: int) -> jax.Array:
    """A hyperparameter's value during an update.

    Args:
        schedule: The schedule, as parsed.
        initial: What the schedule multiplies: the value at update 0, or after the warm-up.
        update: Updates done before.
        num_updates: Updates in the whole run; from then on the value is that at the end.
    """
    curve, final, warmup = schedule
    progress = jnp.clip(jnp.asarray(update, jnp.float32) / num_updates, 0.0, 1.0)
    if warmup:
        rise = jnp.minimum((jnp.asarray(update, jnp.float32) + 1.0) / (warmup * num_updates), 1.0)
        progress = jnp.clip((progress - warmup) / (1.0 - warmup), 0.0, 1.0)
        initial = initial * rise
    factor = _OWN[curve](progress) if curve in _OWN else CURVES[curve](progress)
    return initial * (final + (1.0 - final) * factor if final else factor)


def ramp(
    start: jax.Array | float, finish: jax.Array | float, share: jax.Array | float, update: jax.Array, num_updates: int
) -> jax.Array:
    """A value that moves linearly from `start` to `finish` during the first `share` of a run, and stays there.

    Args:
        start: The value at update 0.
        finish: The value from update `share * num_updates` on.
        share: 0 … 1; with 0 it is `finish` at once.
        update: Updates done before.
        num_updates: Updates in the whole run.
    """
    left = 1.0 - jnp.float32(update) / jnp.maximum(share * num_updates, 1e-6)
    left = jnp.where(share > 0, jnp.clip(left, 0.0, 1.0), 0.0)
    return finish + (start - finish) * left


def _number(text: str, number: str, default: float) -> float:
    try:
        return float(number) if number else default
    except ValueError:
        raise ValueError(f"{text!r}: {number!r} is not a number.") from None
