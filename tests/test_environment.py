"""The contract's own machinery: auto-reset, selection, defaults."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.auto_reset import auto_reset, select
from jaxrl.environment import Environment, MultiAgentEnvironment, as_arrays
from jaxrl.spaces import Box, Discrete


@pytest.mark.quick
def test_select_chooses_by_leading_axes():
    mask = jnp.array([True, False])
    a, b = jnp.ones((2, 3)), jnp.zeros((2, 3))
    chosen = select(mask, {"x": a, "y": a[:, 0]}, {"x": b, "y": b[:, 0]})
    assert chosen["x"].tolist() == [[1] * 3, [0] * 3]
    assert chosen["y"].tolist() == [1, 0]
    assert select(jnp.array(True), a, b).tolist() == a.tolist()


def test_select_takes_typed_keys():
    """A state may hold one, alone or a row of them."""
    a, b = jax.random.split(jax.random.key(0), 2), jax.random.split(jax.random.key(1), 2)
    data = jax.random.key_data
    wanted = np.stack([data(a)[0], data(b)[1]])
    np.testing.assert_array_equal(data(select(jnp.array([True, False]), a, b)), wanted)
    first, second = jax.random.key(2), jax.random.key(3)
    np.testing.assert_array_equal(data(select(jnp.array(False), first, second)), data(jax.random.key(3)))


def test_select_refuses_different_trees():
    with pytest.raises(ValueError, match=r"[kK]ey"):
        select(jnp.array(True), {"a": jnp.ones(2)}, {"b": jnp.ones(2)})


@pytest.mark.quick
@pytest.mark.parametrize(("terminated", "truncated"), [(False, False), (True, False), (False, True)])
def test_auto_reset(terminated, truncated):
    flags = jnp.array(terminated), jnp.array(truncated)
    stepped = (jnp.array(1.0), {"s": jnp.array(2)}, jnp.array(3.0), *flags, {"won": jnp.array(True)})
    obs, state, reward, *out_flags, info = auto_reset(stepped, (jnp.array(10.0), {"s": jnp.array(20)}))
    done = terminated or truncated
    assert (obs, state["s"]) == ((10.0, 20) if done else (1.0, 2))
    assert reward == 3.0
    assert [bool(f) for f in out_flags] == [terminated, truncated]
    assert info == {"won": True, "final_observation": 1.0, "final_state": {"s": 2}}  # from before the reset, always


def test_as_arrays_makes_numbers_strong():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Params:
        gravity: float
        steps: int
        windy: bool
        table: np.ndarray

    params = as_arrays(Params(9.8, 100, True, np.zeros(2, np.float32)))
    assert [leaf.dtype for leaf in jax.tree.leaves(params)] == [np.float32, np.int32, np.bool_, np.float32]
    double = jax.jit(chex.assert_max_traces(lambda p: p.gravity * 2, n=1))
    double(params)
    double(as_arrays(dataclasses.replace(params, gravity=1.5)))


class Fixed(Environment):
    def action_space(self, params=None):
        return Discrete(3)


class Pair(MultiAgentEnvironment):
    agents = ("a", "b")

    def action_space(self, params=None):
        return Discrete(3)

    def observation_space(self, params=None):
        return Box(0.0, 1.0, (2,))


class Steered(Fixed):
    def action_space(self, params=None):  # pyright: ignore[reportIncompatibleMethodOverride]
        return Box(-1.0, 1.0, (2,))


def test_defaults_of_what_an_author_leaves_out():
    assert Fixed().action_mask(None).tolist() == [True] * 3
    pair = Pair()
    assert pair.num_agents == 2
    assert pair.action_mask(None).shape == (2, 3)
    assert pair.agent_mask(None).tolist() == [True, True]
    assert pair.agent_action_spaces == {"a": Discrete(3), "b": Discrete(3)}
    assert pair.agent_observation_spaces["b"] == Box(0.0, 1.0, (2,))


GYMNASIUM: Any = (0, 0.0, True, False, {})  # a step as Gymnasium returns it, without a state


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Pair().global_state(None), NotImplementedError, "join the agents' observations"),
        (lambda: Fixed().render(None), NotImplementedError, "no picture"),
        (lambda: Steered().action_mask(None), TypeError, "Discrete actions only, not for Box"),
        (lambda: Environment().action_space(), NotImplementedError, "Environment has no action_space; write"),
        (lambda: auto_reset(GYMNASIUM, (0, 0)), TypeError, "step_env returned 5 values; return .obs, state"),
    ],
)
def test_what_there_is_not_says_so(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
