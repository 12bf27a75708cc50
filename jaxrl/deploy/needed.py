"""The parts of a train state and of a memory that a policy needs to choose actions: less than training needs.

They are found by tracing: a pure function as a flat list of steps shows what it reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jaxrl.algorithm import Algorithm, without_replay
from jaxrl.deploy.params import flattened, nested
from jaxrl.keys import abstract_key

__all__ = ["Needed", "Program", "Step", "Value", "add_batch", "check_state", "trace"]

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


class Needed:
    """The leaves that actions depend on, found by tracing `algo.act`, so it holds for any algorithm.

    Optimiser, environments and counters are not among them, nor a critic's parameters and memory; the moments of a
    normaliser are.

    Args:
        algo: The algorithm.
        state: The train state of one member.
        obs: The shape and dtype of one observation.
    """

    params: dict[str, Any]
    """The needed leaves of the train state: nested dicts of arrays."""
    carry: tuple[jax.ShapeDtypeStruct, ...]
    """The needed leaves of the memory, without the axis of the batch; empty for a policy without a memory."""

    def __init__(self, algo: Algorithm, state: Any, obs: jax.ShapeDtypeStruct) -> None:
        self._leaves, self._tree = jax.tree.flatten(state)
        whole = jax.eval_shape(algo.act, state, add_batch(obs, 1))[1]
        self._whole = jax.tree.map(_without_batch, whole)
        in_state, self._remembered = self._find(algo, add_batch(obs, 1))
        names = [_name(path) for path, _ in _with_paths(state)]
        self._places = {names[place]: place for place in in_state}
        self.params = nested({name: self._leaves[place] for name, place in self._places.items()})
        self.carry = self.part(self._whole)

    def state(self, params: Mapping[str, Any]) -> Any:
        """The train state with the given parameters, which may be traced.

        Raises:
            ValueError: They are those of another policy.
        """
        given, leaves = flattened(params), list(self._leaves)
        if given.keys() != self._places.keys():
            other = min(given.keys() ^ self._places.keys())
            raise ValueError(
                f"These are the parameters of another policy: they {'have' if other in given else 'lack'} {other}."
            )
        for name, place in self._places.items():
            shape, own = np.shape(given[name]), leaves[place].shape
            if shape != own:
                raise ValueError(
                    f"These are the parameters of another policy: {name} is {list(shape)}, not {list(own)}."
                )
            leaves[place] = jnp.asarray(given[name])
        return self._tree.unflatten(leaves)

    def whole(self, carry: Any, batch_size: Any) -> Any:
        """The memory as `algo.act` takes it, from the needed part `[B, …]`; the rest is zero.

        Raises:
            ValueError: It is another policy's, or that of another number of observations.
        """
        _check_carry(carry, self.carry, batch_size, "as policy.new_carry makes them")
        leaves, tree = jax.tree.flatten(self._whole)
        filled = [jnp.zeros((batch_size, *leaf.shape), leaf.dtype) for leaf in leaves]
        for number, leaf in zip(self._remembered, carry, strict=True):
            filled[number] = leaf
        return tree.unflatten(filled)

    def tree(self, carry: Any, batch_size: Any) -> Any:
        """The memory as `algo.act` takes it, from all its leaves `[B, …]`, those of a critic too.

        Raises:
            ValueError: It is another policy's, or that of another number of observations.
        """
        leaves, tree = jax.tree.flatten(self._whole)
        _check_carry(carry, leaves, batch_size, "as the last call returned them")
        return tree.unflatten(carry)

    def part(self, whole: Any) -> tuple[Any, ...]:
        """The needed part of the memory."""
        leaves = jax.tree.leaves(whole)
        return tuple(leaves[number] for number in self._remembered)

    def _find(self, algo: Algorithm, obs: jax.ShapeDtypeStruct) -> tuple[list[int], tuple[int, ...]]:
        """The numbers of the needed leaves of the train state and of the memory.

        A part of the memory is needed if actions depend on it, or if a needed part of the next memory does.
        """
        carry, tree = jax.tree.flatten(jax.tree.map(lambda leaf: add_batch(leaf, 1), self._whole))
        start, reset = len(self._leaves), jax.ShapeDtypeStruct((1,), bool)
        needed: tuple[int, ...] = ()

        def act(leaves: Any, carry: Any, obs: Any, key: jax.Array, reset: jax.Array) -> Any:
            state, memory = self._tree.unflatten(leaves), tree.unflatten(carry)
            results = [algo.act(state, obs, memory, k, reset=reset) for k in (None, key)]
            return [(action, [jax.tree.leaves(new)[number] for number in needed]) for action, new in results]

        while True:
            reads = trace(act, self._leaves, carry, obs, jax.random.key(0), reset).reads()
            found = tuple(number for number in range(len(carry)) if reads[start + number])
            if found == needed:
                return [number for number in range(start) if reads[number]], needed
            needed = found


def check_state(algo: Algorithm, state: Any) -> None:
    """Raise ValueError unless `state` is the train state of one member of this algorithm."""
    fresh = jax.eval_shape(algo.init, abstract_key())
    wanted = {_name(path): leaf.shape for path, leaf in _with_paths(without_replay(fresh))}
    given = {_name(path): np.shape(leaf) for path, leaf in _with_paths(without_replay(state))}
    if wanted == given:
        return
    members = {shape[:1] for shape in given.values()}
    if len(members) == 1 and {name: shape[1:] for name, shape in given.items()} == wanted:
        raise ValueError(
            f"This train state holds {members.pop()[0]} members, and each has its own policy; choose one, as in "
            f"jaxrl.load(RUN).member(0).policy."
        )
    other = min(name for name in wanted.keys() | given.keys() if wanted.get(name) != given.get(name))
    raise ValueError(
        f"This is not a train state of this algorithm with this configuration: {other} is {_shape(given.get(other))}, "
        f"not {_shape(wanted.get(other))}."
    )


def _check_carry(carry: Any, leaves: Sequence[jax.ShapeDtypeStruct], batch_size: Any, origin: str) -> None:
    """Raise ValueError unless a memory has these leaves, with the axis of the batch."""
    given, wanted = jax.tree.map(jnp.shape, tuple(carry)), [(batch_size, *leaf.shape) for leaf in leaves]
    if list(given) != wanted:
        raise ValueError(
            f"carry is {list(given)}; for these observations its arrays are {wanted}, {origin}, or None to start "
            f"afresh."
        )


def add_batch(leaf: jax.ShapeDtypeStruct, size: Any) -> jax.ShapeDtypeStruct:
    """The shape of B such arrays."""
    return jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype)


def _without_batch(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    if not leaf.shape:
        raise ValueError("This algorithm's memory has a leaf without the axis of the batch, so it makes no policy.")
    return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)


def _with_paths(tree: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else str(list(shape))


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
        """For each input, True if the outputs depend on it."""
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
