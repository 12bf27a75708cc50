"""A train state says of each field what it is, and the training side goes by that."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxrl.algorithm import Learned, Nested, PerEnvironment, Replicated, field_names, map_fields
from jaxrl.train.devices.mesh import place


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    params: Learned[Any]
    target: Learned[Any]
    replay: PerEnvironment[jax.Array]
    key: Replicated[jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Member:
    own: Nested[State]
    score: Replicated[jax.Array]


@dataclasses.dataclass(frozen=True)
class Undeclared:
    params: Learned[Any]
    buffer: Any


STATE = State(jnp.zeros(3), jnp.ones(3), jnp.zeros((4, 2)), jax.random.key(0))


def test_fields_by_role():
    assert field_names(STATE, "learned") == ("params", "target")
    assert field_names(State, "per_environment") == ("replay",)
    assert field_names(Member, "nested") == ("own",)


def test_every_field_is_mapped_by_its_own_role_nested_ones_too():
    roles = map_fields(lambda role, _: role, Member(STATE, jnp.float32(0)))
    assert roles == Member(State("learned", "learned", "per_environment", "replicated"), "replicated")  # pyright: ignore[reportArgumentType]


def test_only_what_is_per_environment_is_spread_over_the_data_axis():
    mesh = jax.make_mesh((1, 1), ("member", "data"))
    placed = place(jax.eval_shape(lambda: Member(STATE, jnp.float32(0))), mesh, 1)
    assert placed.own.replay.sharding.spec == jax.sharding.PartitionSpec("data")
    assert placed.own.params.sharding.spec == jax.sharding.PartitionSpec()
    assert placed.score.sharding.spec == jax.sharding.PartitionSpec()


def test_a_field_without_a_role_is_refused_never_silently_replicated():
    mesh = jax.make_mesh((1, 1), ("member", "data"))
    with pytest.raises(TypeError, match=r"Undeclared.buffer declares no role.*PerEnvironment\[Any\]"):
        place(Undeclared(jnp.zeros(2), jnp.zeros((4, 2))), mesh, 1)
    with pytest.raises(TypeError, match="A train state is a dataclass"):
        place({"params": jnp.zeros(2)}, mesh, 1)
