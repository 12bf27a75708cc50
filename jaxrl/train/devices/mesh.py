"""Spreading a run over devices: a mesh with the axes `member` (seeds) and `data` (environments).

Fields that a train state declares as `per_environment` or `replayed` are split along the data axis; all others are the
same on every device along it. An algorithm whose config has no `shards` uses one device per seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxrl.algorithm import Role, field_names, map_fields
from jaxrl.rl.devices import AXIS, MEMBER
from jaxrl.train.devices import hosts

__all__ = ["MeshShape", "check_replicas", "choose_mesh", "choose_shape", "everywhere", "place", "spread"]


_SPLIT: tuple[Role, ...] = ("per_environment", "replayed")


class MeshShape(NamedTuple):
    """Devices along each axis; 0 leaves the choice to `choose_mesh`."""

    member: int = 0
    data: int = 0


def choose_mesh(
    config: Any, members: int, shape: MeshShape | None = None, devices: Sequence[Any] | None = None
) -> Mesh | None:
    """A mesh of as many visible devices as can be used, or as many as `shape` says; None for a single device.

    Args:
        config: The algorithm's config; its `shards`, if it has them, can be spread.
        members: M.
        shape: The requested shape.
        devices: The devices to choose from; None for those that are visible.

    Raises:
        ValueError: The mesh needs more devices than there are, its shape does not divide the members or the shards,
            or it leaves out devices in a run of several processes.
    """
    devices = jax.devices() if devices is None else devices
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
    # A number that was asked for has to divide what it splits.
    member, data = shape or MeshShape()
    for name, count, whole, what in (("member", member, members, "members"), ("data", data, shards, "shards")):
        if whole == 1 < count:
            raise ValueError(f"mesh.{name}={count} cannot split 1 {what[:-1]}; use mesh.{name}=1.")
        if count < 0 or (count and whole % count):
            fits = ", ".join(map(str, _divisors(whole)))
            raise ValueError(f"mesh.{name}={count} does not divide the {whole} {what}; use one of {fits}.")
    # The largest product that fits; of two, the one that splits more members.
    members_on, shards_on = [member] if member else _divisors(members), [data] if data else _divisors(shards)
    pairs = [(m, d) for m in members_on for d in shards_on if m * d <= devices]
    member, data = max(pairs, key=lambda pair: (pair[0] * pair[1], pair[0]), default=(members_on[0], shards_on[0]))
    if member * data > devices:
        raise ValueError(
            f"mesh.member={member} times mesh.data={data} needs {member * data} devices, but only {devices} are "
            f"visible. On a CPU, XLA_FLAGS=--xla_force_host_platform_device_count={member * data} makes as many."
        )
    # Every process has to take part.
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

    Replication is not checked here (`check_vma=False`): it would refuse environments that start a loop from a constant.
    See `check_replicas`.

    Raises:
        ValueError: A field cannot be split as its role says.
    """
    if mesh is None:
        return update
    specs = _specs(state, members)
    _check_split(state, mesh.shape[AXIS], members)
    metrics = PartitionSpec(MEMBER) if members > 1 else PartitionSpec()

    parts = jax.shard_map(update, mesh=mesh, in_specs=(specs,), out_specs=(specs, metrics), check_vma=False)

    def all_parts(whole: Any) -> Any:
        try:
            return parts(whole)
        except (TypeError, ValueError) as error:
            if mesh.shape[AXIS] > 1 and _is_possible(update, state):
                error.add_note(
                    f"This is an update on one of {mesh.shape[AXIS]} devices, which has its part of the environments: "
                    f"fields of {type(state).__name__} that begin with their axis have to be declared PerEnvironment."
                )
            raise

    return all_parts


def _is_possible(update: Callable[[Any], Any], state: Any) -> bool:
    """True if an update of the whole state can be traced."""
    try:
        jax.eval_shape(update, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), state))
    except (TypeError, ValueError):
        return False
    return True


def check_replicas(state: Any, metrics: Any) -> None:
    """Raise ValueError unless all devices of all hosts agree on what is not split: learned and replicated fields, and
    metrics. All processes must call it.

    Otherwise an algorithm that forgets a sum over devices would train each of them on its part of the data alone, and
    hosts that began with other parameters would each learn with their own. Rounding may differ.
    """
    whole = [(name, value) for name, role, value in _fields(state) if role in ("learned", "replicated")]
    seen: dict[str, list[float]] = {}
    for name, value in [*whole, ("the metrics", metrics)]:
        for i, leaf in enumerate(jax.tree.leaves(value)):
            first: dict[str, Any] = {}
            for shard in leaf.addressable_shards:
                if not _alike(shard.data, first.setdefault(str(shard.index), shard.data)):
                    raise ValueError(
                        f"After the first updates {name} of {type(state).__name__} differ between devices, so each "
                        f"learns by itself: combine gradients, statistics and metrics by psum or pmean of "
                        f"jaxrl.rl.devices, or train on one device with --mesh.data 1."
                    )
            if jax.process_count() > 1:
                seen |= {f"{name}\0{i}{index}": _sums(data) for index, data in first.items()}
    _check_hosts(seen, type(state).__name__)


def _check_hosts(seen: dict[str, list[float]], of: str) -> None:
    """Raise ValueError in all processes if two of them have other sums for the same part of a field."""
    first: dict[str, list[float]] = {}
    for own in hosts.exchange(seen):
        for part, sums in own.items():
            then = first.setdefault(part, sums)
            if not np.allclose(then, sums, rtol=1e-3, atol=1e-3 * then[0] + 1e-6, equal_nan=True):
                raise ValueError(
                    f"After the first updates {part.partition(chr(0))[0]} of {of} differ between hosts, so each learns "
                    f"by itself: they began with other parameters, or their devices and libraries are not the same."
                )


def _sums(data: jax.Array) -> list[float]:
    """The sum of an array's absolute values, its sum, and one with a weight for each place; for keys, of their data."""
    numbers = np.asarray(_numbers(data), np.float64).ravel()
    return [float(np.abs(numbers).sum()), float(numbers.sum()), float(numbers @ np.cos(np.arange(numbers.size)))]


def _fields(state: Any) -> Iterator[tuple[str, Role, Any]]:
    """Name, role and value of each field of a train state; for a nested state, those of its fields."""
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        for name in field_names(state, role):
            value = getattr(state, name)
            if role == "nested":
                for inner, own, leaf in _fields(value):
                    yield f"{name}.{inner}", own, leaf
            else:
                yield name, role, value


def _alike(a: jax.Array, b: jax.Array) -> bool:
    """True if two arrays are equal up to rounding; NaN equals itself."""
    if a is b:
        return True
    a, b = _numbers(a), _numbers(b)
    if not jax.numpy.issubdtype(a.dtype, jax.numpy.inexact):
        return np.array_equal(a, b)
    return np.allclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True)


def _numbers(data: jax.Array) -> jax.Array:
    return jax.random.key_data(data) if jax.numpy.issubdtype(data.dtype, jax.dtypes.prng_key) else data


def _check_split(state: Any, devices: int, members: int) -> None:
    """Raise ValueError if a field of the environments has a leaf that does not begin with an axis to split."""
    for name, role, value in _fields(state):
        for leaf in jax.tree.leaves(value) if role in _SPLIT else ():
            shape = leaf.shape[members > 1 :]
            if not shape or shape[0] % devices:
                raise ValueError(
                    f"{type(state).__name__}.{name} belongs to the environments by its role, and {devices} devices "
                    f"cannot split its shape {shape}: begin it with the axis of environments, or declare it "
                    f"Replicated[Any] if it is the same for all."
                )


def _specs(state: Any, members: int) -> Any:
    """The partition of every leaf: along the members, and for fields of the environments along these too.

    Raises:
        TypeError: The train state does not declare which fields are per environment.
    """
    lead = (MEMBER,) if members > 1 else ()

    def specs(role: Role, value: Any) -> Any:
        axes = (*lead, AXIS) if role in _SPLIT else lead
        return jax.tree.map(lambda _: PartitionSpec(*axes), value)

    return map_fields(specs, state)
