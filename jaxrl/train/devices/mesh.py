"""Spreading a run over devices: a mesh with the axes `member` (seeds) and `data` (environments).

Fields that a train state declares as `per_environment` or `replayed` are split along the data axis; all others are the
same on every device along it. An algorithm whose config has no `shards` uses one device per seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxrl.algorithm import Role, map_fields
from jaxrl.rl.devices import AXIS, MEMBER

__all__ = ["MeshShape", "choose_mesh", "choose_shape", "everywhere", "place", "spread"]


class MeshShape(NamedTuple):
    """Devices along each axis; 0 leaves the choice to `choose_mesh`."""

    member: int = 0
    data: int = 0


def choose_mesh(config: Any, members: int, shape: MeshShape | None = None) -> Mesh | None:
    """A mesh of as many visible devices as can be used, or as many as `shape` says; None for a single device.

    Args:
        config: The algorithm's config; its `shards`, if it has them, can be spread.
        members: M.
        shape: The requested shape.

    Raises:
        ValueError: The mesh needs more devices than there are, its shape does not divide the members or the shards,
            or it leaves out devices in a run of several processes.
    """
    devices = jax.devices()
    member, data = choose_shape(getattr(config, "shards", 1), members, len(devices), shape, jax.process_count())
    if member * data == 1:
        return None
    grid = np.array(devices[: member * data]).reshape(member, data)
    return Mesh(grid, (MEMBER, AXIS), axis_types=(AxisType.Auto, AxisType.Auto))


def choose_shape(
    shards: int, members: int, devices: int, shape: MeshShape | None = None, processes: int = 1
) -> MeshShape:
    """The shape that `choose_mesh` gives its mesh. Members come first: they need no communication.

    Raises:
        ValueError: See `choose_mesh`.
    """
    member, data = shape or MeshShape()
    for name, count, whole, what in (("member", member, members, "seeds"), ("data", data, shards, "shards")):
        if whole == 1 < count:
            raise ValueError(f"mesh.{name}={count} cannot split 1 {what[:-1]}; use mesh.{name}=1.")
        if count < 0 or (count and whole % count):
            fits = ", ".join(map(str, _divisors(whole)))
            raise ValueError(f"mesh.{name}={count} does not divide the {whole} {what}; use one of {fits}.")
    members_on, shards_on = [member] if member else _divisors(members), [data] if data else _divisors(shards)
    pairs = [(m, d) for m in members_on for d in shards_on if m * d <= devices]
    member, data = max(pairs, key=lambda pair: (pair[0] * pair[1], pair[0]), default=(members_on[0], shards_on[0]))
    if member * data > devices:
        raise ValueError(
            f"mesh.member={member} times mesh.data={data} needs {member * data} devices, but only {devices} are "
            f"visible. On a CPU, XLA_FLAGS=--xla_force_host_platform_device_count={member * data} makes as many."
        )
    if processes > 1 and member * data < devices:
        raise ValueError(
            f"The {processes} processes of this run have {devices} devices, and none may be left out, but {members} "
            f"seeds and {shards} shards of environments can use only {member * data}: let num_shards and num_envs, or "
            f"num_seeds, be multiples of {devices}."
        )
    return MeshShape(member, data)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def place(state: Any, mesh: Mesh | None, members: int) -> Any:
    """The shapes of a train state, with the sharding of every leaf in the mesh."""
    if mesh is None:
        return state

    def placed(leaf: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(placed, state, _specs(state, members))


def everywhere(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that every device, and so every host, holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def spread(update: Callable[[Any], Any], state: Any, mesh: Mesh | None, members: int) -> Callable[[Any], Any]:
    """`update(state) -> (state, metrics)` spread over all devices of the mesh, each with its part of the state.

    Replication is not checked (`check_vma=False`): it would refuse environments that start a loop from a constant.
    Tests compare the parameters of different numbers of devices instead.
    """
    if mesh is None:
        return update
    specs = _specs(state, members)
    metrics = PartitionSpec(MEMBER) if members > 1 else PartitionSpec()
    return jax.shard_map(update, mesh=mesh, in_specs=(specs,), out_specs=(specs, metrics), check_vma=False)


def _specs(state: Any, members: int) -> Any:
    """The partition of every leaf: along the members, and for fields of the environments along these too.

    Raises:
        TypeError: The train state does not declare which fields are per environment.
    """
    lead = (MEMBER,) if members > 1 else ()

    def specs(role: Role, value: Any) -> Any:
        axes = (*lead, AXIS) if role in ("per_environment", "replayed") else lead
        return jax.tree.map(lambda _: PartitionSpec(*axes), value)

    return map_fields(specs, state)
