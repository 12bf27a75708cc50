"""The parts of a train state and of a memory that a policy needs to choose actions: less than training needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, without_replay
from jaxrl.deploy.params import flattened, nested
from jaxrl.deploy.program import trace
from jaxrl.keys import abstract_key

__all__ = ["Needed", "add_batch", "check_state"]


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
        given, wanted = jax.tree.map(jnp.shape, tuple(carry)), [(batch_size, *leaf.shape) for leaf in self.carry]
        if list(given) != wanted:
            raise ValueError(
                f"carry is {list(given)}; for these observations its arrays are {wanted}, as policy.new_carry makes "
                f"them, or None to start afresh."
            )
        leaves, tree = jax.tree.flatten(self._whole)
        filled = [jnp.zeros((batch_size, *leaf.shape), leaf.dtype) for leaf in leaves]
        for number, leaf in zip(self._remembered, carry, strict=True):
            filled[number] = leaf
        return tree.unflatten(filled)

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
