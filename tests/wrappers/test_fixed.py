"""Agents that fixed policies play: who acts, what the others see, and what a policy remembers."""

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.wrappers import FixedPolicies, random_policy
from jaxrl.wrappers.seats import check_roles

BATTLE = "smax/2s3z?mode=selfplay"
KEYS = jax.random.split(jax.random.key(1), 8)


def team(name: str) -> MultiAgentEnvironment:
    env = jaxrl.make(name)
    assert isinstance(env, MultiAgentEnvironment)
    return env


def always(choice: int) -> Any:
    return lambda obs, mask, key: jnp.full(obs.shape[0], choice, jnp.int32)


def trained(fields: dict[str, Any], seed: int = 0, **network: Any) -> Policy:
    """The policy of an untrained network in simple_spread, which draws its actions."""
    sizes: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "hidden": (8,), "num_minibatches": 1}
    config = ippo.Config(env="mpe/simple_spread", **sizes, **fields, **network)
    algo = ippo.make(config)
    return Policy(algo, config.make_env(), algo.init(jax.random.key(seed)))


def test_the_others_play_on_as_if_somebody_chose_their_actions():
    env = team(BATTLE)
    fixed = FixedPolicies(env, {"enemy_.*": always(1)})
    assert fixed.agents == env.agents[:5]
    assert fixed.teams == env.teams[:5]
    obs, state = jax.jit(fixed.batch_reset)(KEYS)
    step, whole = jax.jit(fixed.batch_step_env), jax.jit(env.batch_step_env)
    masks = jax.jit(jax.vmap(fixed.action_mask))
    params = env.default_params
    for t in range(12):
        mask = masks(state)
        action = jnp.argmax(mask + jax.random.uniform(jax.random.key(t), mask.shape), -1).astype(jnp.int32)
        keys = jax.random.split(jax.random.key(100 + t), 8)
        inside = jax.vmap(lambda key: jax.random.split(key)[0])(jax.random.clone(keys))
        joined = jnp.concatenate([action, jnp.ones((8, 5), jnp.int32)], axis=1)
        wanted = whole(inside, state.env, joined, params)
        obs, state, reward, *ends, info = step(keys, state, action, params)
        np.testing.assert_array_equal(obs, wanted[0][:, :5])
        np.testing.assert_array_equal(reward, wanted[2][:, :5])
        jax.tree.map(np.testing.assert_array_equal, state.env, wanted[1])
        jax.tree.map(np.testing.assert_array_equal, (*ends, info), wanted[3:])


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_policy_sees_its_agents_and_remembers_its_episode(whole: bool):
    """Asked by hand with the same keys, a policy with a memory chooses the same, across the end of an episode."""
    env = team("mpe/simple_spread?max_steps=4")
    policy = trained({"policies": () if whole else ("agent_0=random",)}, memory="gru", memory_size=4)
    fixed = FixedPolicies(env, {"agent_[12]": policy})
    rows = slice(None) if whole else slice(1, None)
    inner, step = jax.jit(env.step_env), jax.jit(fixed.step)
    _, state = jax.jit(fixed.reset)(jax.random.key(3))
    carry = policy.new_carry()
    assert carry
    chosen, obs = [], None
    for t in range(9):
        key = jax.random.key(10 + t)
        key_env, key_own = jax.random.split(jax.random.split(jax.random.clone(key))[0])
        begins = jnp.asarray(t % 4 == 0)
        obs = state.own[0].obs if begins else obs
        action, carry = policy(obs, carry, key_own, action_mask=jnp.ones((3, 5), bool)[rows], reset=begins)
        action = action[1:] if whole else action
        wanted = inner(key_env, state.env, jnp.concatenate([jnp.full(1, 2, jnp.int32), action]), env.default_params)
        _, state, *_, info = step(key, state, jnp.full(1, 2, jnp.int32), env.default_params)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), info["final_state"].env, wanted[1])
        obs = wanted[0][rows]
        chosen.append(tuple(action.tolist()))
    assert len(set(chosen)) > 1


def test_continuous_actions_need_no_mask():
    env = FixedPolicies(
        team("mpe/simple_tag?action_type=continuous"), {"adversary_.*": lambda obs, mask, key: jnp.ones((3, 5))}
    )
    _, state = jax.jit(env.reset)(jax.random.key(0))
    *_, info = jax.jit(env.step)(jax.random.key(1), state, jnp.zeros((1, 5)))
    assert info["final_state"].env.velocity[:3].any()
    *_, listed = env.step(jax.random.key(1), state, [[0, 0, 0, 0, 0]])
    np.testing.assert_allclose(listed["final_state"].env.velocity, info["final_state"].env.velocity, rtol=1e-5)


@pytest.mark.parametrize("action", [np.uint32(2**32 - 1), np.float32(1e20), np.int32(4)])
def test_actions_beyond_the_last_are_the_last(action: Any):
    """Numbers of other dtypes are clipped before they are cast."""
    env = FixedPolicies(team("coin_game"), {"red": always(0)})
    _, state = jax.jit(env.reset)(jax.random.key(0))
    stepped = [env.step(jax.random.key(1), state, np.array([one]))[0] for one in (action, np.int32(4), np.int32(0))]
    np.testing.assert_array_equal(stepped[0], stepped[1])
    assert (stepped[1] != stepped[2]).any()


def test_of_several_policies_one_plays_each_episode():
    env = team("mpe/simple_spread?max_steps=3")
    selves = [trained({}, seed) for seed in (0, 1)]
    fixed = FixedPolicies(env, {"agent_2": selves})
    _, state = jax.jit(fixed.batch_reset)(jax.random.split(jax.random.key(0), 64))
    step = jax.jit(fixed.batch_step)
    members = [np.asarray(state.own[0].member)]
    for t in range(6):
        keys = jax.random.split(jax.random.key(t), 64)
        state = step(keys, state, jnp.zeros((64, 2), jnp.int32))[1]
        members.append(np.asarray(state.own[0].member))
    np.testing.assert_array_equal(members[0], members[2])
    np.testing.assert_array_equal(members[3], members[5])
    assert 0.3 < np.mean(members[0] != members[3]) < 0.7


def test_it_keeps_the_contract():
    jaxrl.check_env(FixedPolicies(team("probe/roles"), {".*_1": random_policy}))


def test_wins_of_the_first_team_are_not_told_to_the_second():
    env = team("smax/3m?mode=selfplay")
    for played, told in (("enemy_.*", True), ("ally_.*", False)):
        fixed = FixedPolicies(env, {played: random_policy})
        state = jax.eval_shape(fixed.reset, jax.random.key(0))[1]
        shape = jax.eval_shape(fixed.step, jax.random.key(0), state, jnp.zeros(3, jnp.int32))
        assert ("won" in shape[-1]) == told


def test_learners_are_told_their_own_info_and_all_of_the_episode_s():
    """Two numbers need not be one for each of two agents. Numbers may be Python's own."""

    class Told(type(team("probe/roles"))):
        agent_info = ("each",)

        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            *stepped, info = super().step_env(key, state, action, params)
            return *stepped, {**info, "sure": True, "each": {"x": jnp.arange(2)}, "place": jnp.array([7, 8])}

    fixed: Any = FixedPolicies(Told(), {".*_1": random_policy})
    state = fixed.reset(jax.random.key(0))[1]
    info = fixed.step(jax.random.key(0), state, jnp.zeros(1, jnp.int32))[-1]
    assert info["sure"] is True
    np.testing.assert_array_equal(info["each"]["x"], [0])
    np.testing.assert_array_equal(info["place"], [7, 8])
    assert fixed.agent_info == ("each",)


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ({"foe_.*": random_policy}, "matches no agent; there are agent_0, agent_1, agent_2"),
        ({"agent_.*": random_policy}, "Nobody is left to act"),
        ({"agent_0": random_policy, "agent_[01]": random_policy}, "agent_0 matches both 'agent_0' and"),
        ({"(": random_policy}, "is not a regular expression"),
        ({"agent_0": 3}, "takes the policy of a run"),
    ],
)
def test_what_does_not_fit_is_told(policies: Any, message: str):
    with pytest.raises(ValueError, match=re.escape(message) if "(" not in message else message):
        FixedPolicies(team("mpe/simple_spread"), policies)


def test_policies_of_other_agents_do_not_fit():
    policy = trained({})
    with pytest.raises(ValueError, match="acts for 3 agents; here it should play 1 of 2"):
        FixedPolicies(team("matrix/rock_paper_scissors"), {"player_1": policy})
    with pytest.raises(ValueError, match="has the observation_space"):
        FixedPolicies(team("mpe/simple_reference"), {"agent_1": trained({"policies": ("agent_[12]=random",)})})
    with pytest.raises(TypeError, match="several agents, and classic/cartpole has one"):
        FixedPolicies(jaxrl.make("classic/cartpole"), {".*": random_policy})  # pyright: ignore[reportArgumentType]


def test_who_was_trained_for_one_role_does_not_play_another():
    push = team("mpe/simple_push")
    adversary = FixedPolicies(push, {"agent_.*": random_policy})
    check_roles("it", adversary, push, [push.agents.index("adversary_0")])
    with pytest.raises(ValueError, match="it was trained for adversary_0 and cannot play agent_0, whose role"):
        check_roles("it", adversary, push, [push.agents.index("agent_0")])
    spread = team("mpe/simple_spread")
    check_roles("it", FixedPolicies(spread, {"agent_[12]": random_policy}), spread, [2])  # its role is the same
    fields = {"env": "mpe/simple_push", "policies": ("agent_.*=random",)}
    config = ippo.Config(num_envs=4, num_steps=4, hidden=(8,), num_minibatches=1, **fields)
    algo = ippo.make(config)
    policy = Policy(algo, config.make_env(), jax.jit(algo.init)(jax.random.key(0)))
    with pytest.raises(ValueError, match="cannot play agent_0"):
        FixedPolicies(push, {"agent_.*": policy})
