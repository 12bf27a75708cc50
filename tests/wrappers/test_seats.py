"""Who plays a seat: one of several policies in each episode, whatever their algorithms are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.wrappers.seats import Seat, act_from, seated_player

SIZES: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "num_minibatches": 1}
PLAYS = np.array([1, 2])


def third(obs: jax.Array, action_mask: jax.Array, key: jax.Array) -> jax.Array:
    """A script."""
    return jnp.full(obs.shape[0], 3, jnp.int32)


def policies_of(seeds: int, **fields: Any) -> list[Policy]:
    """Untrained policies in simple_spread that differ in their seeds."""
    config = ippo.Config(env="mpe/simple_spread", **SIZES, **fields)
    algo, env = ippo.make(config), config.make_env()
    init = jax.jit(algo.init)
    return [Policy(algo, env, init(jax.random.key(seed))) for seed in range(seeds)]


@pytest.fixture(scope="module")
def several() -> list[Any]:
    """Two seeds that see all agents, one that remembers and sees its own alone, and a script."""
    own = policies_of(1, hidden=(4,), memory="gru", memory_size=4, policies=("agent_0=random",))
    return [*policies_of(2, hidden=(8,), activation="relu"), *own, third]


def test_each_plays_as_if_it_were_alone(several: list[Any]):
    env = jaxrl.make("mpe/simple_spread")
    assert isinstance(env, MultiAgentEnvironment)
    player = seated_player(env, several, PLAYS)
    assert [len(kin.policies) for kin in player.kin] == [2, 1, 1]
    assert player.sees.tolist() == [0, 1, 2]
    act = jax.jit(lambda seat, key: act_from(player, seat, jnp.ones((3, 5), bool), key))
    keys = jax.random.split(jax.random.key(0), 16)
    obs = jax.random.normal(jax.random.key(1), (16, 3, 18))
    for member, policy in enumerate(several):
        carry, alone = tuple(kin.carry for kin in player.kin), None
        for t, key in enumerate(keys):
            begins = jnp.asarray(t == 0)
            seat = Seat(obs[t], carry, begins, jnp.int32(member))
            chosen, carry = act(seat, jax.random.clone(key))
            own = jax.random.split(key, 3)
            if member == 3:
                wanted = third(obs[t, 1:], jnp.ones(()), own[2])
            elif member == 2:
                alone = policy.new_carry() if alone is None else alone
                wanted, alone = policy(obs[t, 1:], alone, own[1], action_mask=True, reset=begins)
            else:
                wanted = policy(obs[t], (), own[0], action_mask=True)[0][1:]
            np.testing.assert_array_equal(chosen, wanted)


def test_what_does_not_fit_among_several_is_told(several: list[Any]):
    env = jaxrl.make("mpe/simple_spread")
    assert isinstance(env, MultiAgentEnvironment)
    with pytest.raises(ValueError, match="at least one policy"):
        seated_player(env, [], PLAYS)
    with pytest.raises(ValueError, match=r"not \{'a': 1\}"):
        seated_player(env, [several[0], {"a": 1}], PLAYS)
    with pytest.raises(ValueError, match="acts for 2 agents; here it should play 1 of 3"):
        seated_player(env, several, np.array([2]))
