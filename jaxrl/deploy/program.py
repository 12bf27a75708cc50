"""A pure function as a flat list of steps, which shows what it reads and can be written in another language."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

__all__ = ["Program", "Step", "Value", "trace"]

_CALLS = {  # primitives that only call another function, and the parameter that holds it
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """An array of a program."""

    shape: tuple[Any, ...]
    dtype: Any
    constant: Any = None
    """Its contents, if they are known while tracing."""


class Step(NamedTuple):
    """One operation."""

    op: str
    """The name of JAX's primitive."""
    params: dict[str, Any]
    args: tuple[Value, ...]
    results: tuple[Value, ...]


class Program(NamedTuple):
    """The steps of a function, without those that its results do not depend on."""

    inputs: tuple[Value, ...]
    """A value for each leaf of the arguments."""
    steps: tuple[Step, ...]
    outputs: tuple[Value, ...]
    """A value for each leaf of the result."""

    def reads(self) -> list[bool]:
        """Whether the outputs depend on each input."""
        used = {value for step in self.steps for value in step.args} | set(self.outputs)
        return [value in used for value in self.inputs]


def trace(function: Callable[..., Any], *args: Any) -> Program:
    """The program of `function` for arguments of the given shapes, with the functions that it calls written out.

    Loops and branches stay one step each. Where platforms differ, the program is the CPU's.
    """
    closed = jax.make_jaxpr(function)(*args)
    inputs = tuple(_value_of(variable) for variable in closed.jaxpr.invars)
    steps: list[Step] = []
    outputs = tuple(_written_out(closed.jaxpr, closed.consts, inputs, steps))
    needed, kept = set(outputs), []
    for step in reversed(steps):
        if needed.intersection(step.results):
            needed.update(step.args)
            kept.append(step)
    return Program(inputs, tuple(reversed(kept)), outputs)


def _written_out(jaxpr: Any, consts: Any, args: Any, steps: list[Step]) -> list[Value]:
    """Append the steps of a jaxpr, called with the values `args`; returns its results."""
    known = {variable: _value_of(variable, const) for variable, const in zip(jaxpr.constvars, consts, strict=True)}
    known |= zip(jaxpr.invars, args, strict=True)

    def read(atom: Any) -> Value:
        return _value_of(atom, np.asarray(atom.val)) if isinstance(atom, core.Literal) else known[atom]

    for eqn in jaxpr.eqns:
        given = tuple(map(read, eqn.invars))
        body = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
        if eqn.params.get("branches_platforms"):
            body, given = _on_cpu(eqn), given[1:]
        if body is None:
            results = tuple(map(_value_of, eqn.outvars))
            steps.append(Step(eqn.primitive.name, eqn.params, given, results))
        else:
            inner, inner_consts = (body.jaxpr, body.consts) if isinstance(body, core.ClosedJaxpr) else (body, ())
            results = _written_out(inner, inner_consts, given, steps)
        known |= zip(eqn.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _on_cpu(eqn: Any) -> Any:
    """The branch of `jax.lax.platform_dependent` that a CPU takes."""
    taken = (platforms is None or "cpu" in platforms for platforms in eqn.params["branches_platforms"])
    return next(branch for branch, is_taken in zip(eqn.params["branches"], taken, strict=True) if is_taken)


def _value_of(atom: Any, constant: Any = None) -> Value:
    return Value(tuple(atom.aval.shape), atom.aval.dtype, constant)
