"""Sums over devices. The same code runs alone and inside `jax.shard_map` over the mesh axis `"data"`.

Where that axis is not bound there is one device, and nothing here adds anything to the program.
"""

from __future__ import annotations

from typing import Any

import jax

__all__ = ["AXIS", "device_index", "joined", "num_devices", "pcast_varying", "psum", "shard_keys"]

AXIS = "data"
"""The mesh axis along which environments are spread."""


def num_devices() -> int:
    """How many devices share the environments."""
    return jax.lax.axis_size(AXIS) if _bound() else 1


def device_index() -> jax.Array | int:
    """The number of this device, from 0."""
    return jax.lax.axis_index(AXIS) if _bound() else 0


def shard_keys(key: jax.Array, num_shards: int, num_streams: int = 1) -> tuple[jax.Array, jax.Array]:
    """A key to go on with, and keys `[num_streams, S / devices]` for this device's shards of all S.

    What a shard draws does not depend on how many devices there are. All keys come from one call of the random number
    generator: each call adds a good tenth of a second to compilation. Consumes `key`.
    """
    keys = jax.random.split(key, 1 + num_streams * num_shards)
    mine = num_shards // num_devices()
    streams = keys[1:].reshape(num_streams, num_shards)
    return keys[0], jax.lax.dynamic_slice_in_dim(streams, device_index() * mine, mine, axis=1)


def psum(tree: Any) -> Any:
    """The sum of each leaf over all devices: one all-reduce for the whole tree."""
    return jax.lax.psum(tree, AXIS) if _bound() else tree


def joined(tree: Any) -> Any:
    """What all devices hold of each leaf, one behind the other along its first axis: the same on each."""
    return jax.lax.all_gather(tree, AXIS, tiled=True) if _bound() else tree


def pcast_varying(tree: Any) -> Any:
    """The same values as something that each device differentiates by itself.

    The gradient with respect to a replicated value would be summed over devices by JAX, once for each of its uses;
    after this it is the device's own, for one `psum` in plain sight.
    """
    return jax.tree.map(lambda leaf: jax.lax.pcast(leaf, AXIS, to="varying"), tree) if _bound() else tree


def _bound() -> bool:
    try:
        jax.lax.axis_size(AXIS)
    except NameError:
        return False
    return True
