"""Sums and means over devices. The same code runs alone and inside `jax.shard_map` over the mesh axis `"data"`.

If that axis is not bound, there is one device, and nothing here adds anything to the program. The same holds for the
members of a run, which are side by side on each device and spread over the mesh axis `"member"`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

__all__ = [
    "AXIS",
    "MEMBER",
    "SIDE_BY_SIDE",
    "compiling_for",
    "device_index",
    "in_step",
    "joined",
    "mean_weights",
    "member_index",
    "num_devices",
    "num_side_by_side",
    "of_all_members",
    "own_part",
    "pcast_varying",
    "pmean",
    "psum",
    "shard_keys",
    "target",
]

AXIS = "data"
"""The mesh axis along which environments are spread."""
MEMBER = "member"
"""The mesh axis along which members, such as seeds, are spread; also the axis of all members when they are created."""
SIDE_BY_SIDE = "side_by_side"
"""The vmapped axis of the members on one device."""


_targets: list[str] = []


def target() -> str:
    """The platform that the program being traced is for: `"cpu"`, `"gpu"` or `"tpu"`.

    It is the platform at hand, except where `jaxrl plan` compiles for another. What is faster in one form on a CPU and
    in another on an accelerator asks here while it is traced, so that the program planned is the program run.
    """
    return _targets[-1] if _targets else jax.default_backend()


@contextlib.contextmanager
def compiling_for(platform: str) -> Iterator[None]:
    """Everything traced inside is for this platform; what was traced before for another is forgotten."""
    other = platform != target()
    if other:
        jax.clear_caches()
    _targets.append(platform)
    try:
        yield
    finally:
        _targets.pop()
        if other:
            jax.clear_caches()


def num_devices() -> int:
    """The number of devices that share the environments."""
    return jax.lax.axis_size(AXIS) if _bound() else 1


def device_index() -> jax.Array | int:
    """The number of this device, from 0."""
    return jax.lax.axis_index(AXIS) if _bound() else 0


def shard_keys(key: jax.Array, num_shards: int, num_streams: int = 1) -> tuple[jax.Array, jax.Array]:
    """A key to continue with, and keys `[num_streams, S / devices]` for this device's share of the S shards.

    A shard's draws do not depend on the number of devices. All keys come from one call of the random number generator:
    each call adds more than a tenth of a second to compilation. Consumes `key`.
    """
    keys = jax.random.split(key, 1 + num_streams * num_shards)
    mine = num_shards // num_devices()
    streams = keys[1:].reshape(num_streams, num_shards)
    return keys[0], jax.lax.dynamic_slice_in_dim(streams, device_index() * mine, mine, axis=1)


def psum(tree: Any) -> Any:
    """The sum of each leaf over all devices: one all-reduce for the whole tree."""
    return jax.lax.psum(tree, AXIS) if _bound() else tree


def pmean(tree: Any) -> Any:
    """The mean of each leaf over all devices: one all-reduce for the whole tree."""
    return jax.lax.pmean(tree, AXIS) if _bound() else tree


def mean_weights(weight: jax.Array, num_parts: int = 1) -> jax.Array:
    """What samples are multiplied by for a weighted mean over those of all devices; zeros if nothing has a weight.

    Each device, and each of `num_parts` parts of its samples, takes the sum of `x * mean_weights(weight)`. The mean of
    these sums is the weighted mean over all samples, however the weights are spread. So whatever else is added to a
    sum, such as a penalty, counts once, not once for each device.

    Args:
        weight: All weights of this device.
        num_parts: The parts that they are taken in.
    """
    return weight / (jnp.maximum(psum(weight.sum()), 1.0) / (num_devices() * num_parts))


def joined(tree: Any) -> Any:
    """Each leaf with the parts of all devices concatenated along its first axis: the same on every device."""
    return jax.lax.all_gather(tree, AXIS, tiled=True) if _bound() else tree


def own_part(tree: Any) -> Any:
    """This device's part of each leaf that `joined` has put together."""
    return jax.tree.map(lambda leaf: leaf.reshape(num_devices(), -1, *leaf.shape[1:])[device_index()], tree)


def member_index() -> jax.Array | int:
    """The number of the member that is being created, from 0."""
    return jax.lax.axis_index(MEMBER) if _bound(MEMBER) else 0


def num_side_by_side() -> int:
    """The members of the run that each device holds, as far as an update can know: 1 under a `vmap` without a name."""
    return jax.lax.axis_size(SIDE_BY_SIDE) if _bound(SIDE_BY_SIDE) else 1


def in_step(counter: jax.Array) -> jax.Array:
    """A counter that is the same for all members side by side, so that `lax.cond` on it is still a branch, not both."""
    return jax.lax.pmax(counter, SIDE_BY_SIDE) if _bound(SIDE_BY_SIDE) else counter


def of_all_members(tree: Any) -> Any:
    """Each leaf `[M, …]` of all members of the run, in their order: the same for each of them; M = 1 for a single run.

    Only an update sees the others, and only if its run has them side by side, as `jaxrl.fit` with `num_seeds` does.
    """
    tree = (
        jax.lax.all_gather(tree, SIDE_BY_SIDE) if _bound(SIDE_BY_SIDE) else jax.tree.map(lambda leaf: leaf[None], tree)
    )
    return jax.lax.all_gather(tree, MEMBER, tiled=True) if _bound(MEMBER) else tree


def pcast_varying(tree: Any) -> Any:
    """The same values, marked so that each device differentiates them by itself.

    JAX would sum the gradient with respect to a replicated value over devices once for each of its uses; this keeps
    the gradient local, so that one explicit `pmean` suffices.
    """
    return jax.tree.map(lambda leaf: jax.lax.pcast(leaf, AXIS, to="varying"), tree) if _bound() else tree


def _bound(axis: str = AXIS) -> bool:
    try:
        jax.lax.axis_size(axis)
    except NameError:
        return False
    return True
