"""A policy does what its algorithm does: as a pure function, in a loop, batched or not, with memory and masks."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from subjects import KINDS, B, T, expected, subject

from jaxrl.acting.normaliser import normalised
from jaxrl.acting.rollout import Observation
from jaxrl.algorithm import Algorithm, made_from
from jaxrl.algos import dqn, mappo, ppo, qmix, sac, td3, vdn
from jaxrl.deploy.params import load_params, save_params
from jaxrl.deploy.policy import Policy


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_plays_like_the_algorithm(kind: str) -> None:
    s = subject(kind)
    s.policy.reset()
    mask: Any = s.mask
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        found: Any = s.policy.predict(obs, reset=reset, **mask)
        assert (found.dtype, found.shape) == (action.dtype, action.shape)
        np.testing.assert_allclose(found, action, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "lstm", "team"])
def test_one_observation_is_a_batch_of_one(kind: str) -> None:
    s = subject(kind)
    s.policy.reset()
    mask = {name: value[1] for name, value in s.mask.items()}
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        np.testing.assert_array_equal(s.policy.predict(obs[1], reset=reset[1], **mask), action[1])


def test_it_can_be_scanned_and_vmapped() -> None:
    s = subject("lstm")

    def step(carry: Any, inputs: Any) -> Any:
        obs, reset = inputs
        action, carry = s.policy(obs, carry, reset=reset)
        return carry, action

    @jax.jit
    def play(obs: Any, reset: Any) -> Any:
        return jax.lax.scan(step, s.policy.new_carry(B), (obs, reset))[1]

    np.testing.assert_array_equal(play(s.obs, s.reset), expected("lstm"))
    one_by_one = jax.jit(jax.vmap(partial(s.policy.apply, s.policy.params)))
    np.testing.assert_array_equal(one_by_one(s.obs[0])[0], expected("lstm")[0])
    by_params = jax.vmap(s.policy.apply, in_axes=(0, None))
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), s.policy.params)
    np.testing.assert_array_equal(by_params(twice, s.obs[0])[0][1], expected("lstm")[0])


def test_parameters_are_what_actions_depend_on(tmp_path: Path) -> None:
    """Neither critic nor optimiser, but the normaliser; with them alone the policy is the same."""
    s = subject("continuous")
    assert set(s.policy.params) == {"params", "normaliser"}
    assert set(s.policy.params["params"]["params"]) == {"policy", "torso"}
    assert set(subject("roles").policy.params["params"]) == {"actor"}
    save_params(tmp_path / "a.safetensors", s.policy.params)
    zeros = {name: jax.tree.map(jnp.zeros_like, getattr(s.state, name)) for name in ("params", "normaliser")}
    fresh = Policy(s.algo, s.policy.env, dataclasses.replace(s.state, **zeros))
    action, _ = fresh.apply(load_params(tmp_path / "a.safetensors"), s.obs[0])
    np.testing.assert_allclose(action, expected("continuous")[0], rtol=1e-4, atol=1e-5)
    assert not np.allclose(fresh(s.obs[0])[0], action)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_and_values_are_the_networks_own(kind: str) -> None:
    """One step after the other, they are what the networks say of the whole sequence."""
    s = subject(kind)
    agent: Any = made_from(s.algo)
    team = hasattr(s.policy.env, "agents")
    with_agents = (lambda x: x) if team else (lambda x: x[:, :, None])
    mask = jnp.stack([s.mask["action_mask"]] * T) if s.mask else None
    obs = jnp.asarray(with_agents(s.obs))
    states: Any = None
    alive = jnp.ones(obs.shape[:3], bool)
    if agent.central:
        size = agent.env.global_state(agent.env.reset(jax.random.key(0))[1]).size
        states = jax.random.normal(jax.random.key(1), (T, B, size))
    seen = normalised(s.state.normaliser, Observation(obs, states, mask, alive), agent.param_sets)
    _, policy, value = agent.networks.apply(s.state.params, agent.networks.new_carry(B), seen, s.reset)
    action = policy.sample(seed=jax.random.key(5))
    of_policy, of_value = policy.log_prob(action), agent.config.value.decode(value)
    given = action if team else action[:, :, 0]

    log_prob, value = jax.jit(s.policy.log_prob), jax.jit(s.policy.value)
    carry = memory = None
    for t in range(T):
        found, carry = log_prob(s.obs[t], given[t], carry, reset=s.reset[t], **s.mask)
        state = {"global_state": states[t]} if agent.central else {}
        worth, memory = value(s.obs[t], memory, reset=s.reset[t], **state, **s.mask)
        assert found.shape == worth.shape == (of_policy[t] if team else of_policy[t, :, 0]).shape
        np.testing.assert_allclose(with_agents(found[None])[0], of_policy[t], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(with_agents(worth[None])[0], of_value[t], rtol=1e-4, atol=1e-4)
    given = s.mask | ({"global_state": states[0]} if agent.central else {})
    one = {name: leaf[1] for name, leaf in given.items()}
    np.testing.assert_allclose(s.policy.value(s.obs[0, 1], **one)[0], value(s.obs[0], **given)[0][1], atol=1e-5)


def fresh(module: Any, env: str) -> Policy:
    config = module.Config(env=env, num_envs=4, total_timesteps=100_000, hidden=(8,))
    algo = module.make(config)
    return Policy(algo, config.make_env(), jax.jit(algo.init)(jax.random.key(0)))


def test_q_learnings_probabilities_are_those_of_its_exploration() -> None:
    policy, obs = fresh(dqn, "CartPole-v1"), np.ones(4, np.float32)
    each = np.array([policy.log_prob(obs, action)[0] for action in range(2)])
    np.testing.assert_allclose(np.exp(each), [0.5, 0.5], atol=1e-6)  # at the start, all actions are equally likely
    agent: Any = made_from(policy.algo)
    seen = Observation(jnp.asarray(obs)[None, None, None], None, None, jnp.ones((1, 1, 1), bool))
    _, _, q = agent.networks.apply(policy._needed.state(policy.params).params, (), seen, jnp.ones((1, 1), bool))
    assert policy.value(obs)[0] == pytest.approx(q.max())


def test_critics_of_actions_rate_the_greedy_one() -> None:
    policy, obs = fresh(sac, "Pendulum-v1"), np.ones((2, 3), np.float32)
    agent: Any = made_from(policy.algo)
    seen = Observation(jnp.asarray(obs)[None, :, None], None, None, jnp.ones((1, 2, 1), bool))
    action = policy(obs)[0]
    q = agent.networks.evaluate(policy._needed.state(policy.params).params, seen, action[None, :, None])
    np.testing.assert_allclose(policy.value(obs)[0], q[0, :, 0].min(-1), rtol=1e-5)
    assert np.isfinite(policy.log_prob(obs, action)[0]).all()


def test_a_teams_value_is_the_sum_in_vdn() -> None:
    policy = fresh(vdn, "switch_riddle")
    obs = np.random.default_rng(0).normal(size=(2, *policy._obs.shape)).astype(np.float32)
    value = np.asarray(policy.value(obs, action_mask=True)[0])
    assert (value == value[:, :1]).all()


def test_what_has_no_value_or_probability_is_told() -> None:
    policy = fresh(td3, "Pendulum-v1")
    with pytest.raises(NotImplementedError, match="classic/pendulum is deterministic: its actions have no density"):
        policy.log_prob(np.zeros(3), np.zeros(1))
    policy = fresh(qmix, "switch_riddle")
    with pytest.raises(NotImplementedError, match="mixed into the team's, so none has a value of its own"):
        policy.value(np.zeros(policy._obs.shape), action_mask=True, global_state=np.zeros(99))
    own = Algorithm(*(lambda *args, f=f, **named: f(*args, **named) for f in subject("mlp").algo))
    policy = Policy(own, subject("mlp").policy.env, subject("mlp").state)
    for tell in (lambda: policy.value(np.zeros(4)), lambda: policy.log_prob(np.zeros(4), 0)):
        with pytest.raises(NotImplementedError, match="tells its actions alone"):
            tell()


def test_probabilities_and_values_take_what_the_policy_takes() -> None:
    s = subject("team")
    action = np.zeros((B, 3), int)
    for tell in (partial(s.policy.log_prob, action=action), s.policy.value):
        with pytest.raises(ValueError, match=r"trained with masks .* give action_mask"):
            tell(obs=s.obs[0])
    with pytest.raises(ValueError, match=r"action is \[3, 2\]; for these observations it is \[3, 3\]"):
        s.policy.log_prob(s.obs[0], action[:, :2], **s.mask)
    with pytest.raises(ValueError, match=r"carry is \[\(1, 3, 4\)\]; .* as the last call returned them"):
        s.policy.value(s.obs[0], s.policy.new_carry(1), **s.mask)


def test_a_central_critic_asks_for_the_global_state() -> None:
    policy = fresh(mappo, "smax/3m")
    obs = np.zeros(policy._obs.shape, np.float32)
    with pytest.raises(ValueError, match=r"sees the global state of smax/3m: give global_state, \[B, G\]"):
        policy.value(obs, action_mask=True)
    obs, state = policy.env.reset(jax.random.key(0))
    env: Any = policy.env
    value, _ = policy.value(obs, action_mask=env.action_mask(state), global_state=env.global_state(state))
    assert value.shape == (3,)


def test_samples_follow_the_seed() -> None:
    s = subject("mlp")

    def played(seed: int) -> list[int]:
        s.policy.reset(seed)
        return [int(s.policy.predict(s.obs[0, 0], greedy=False)) for _ in range(20)]

    assert played(0) == played(0) != played(1)
    assert set(played(0)) == {0, 1}
    action, _ = s.policy(s.obs[0], None, jax.random.key(3))
    np.testing.assert_array_equal(action, s.algo.act(s.state, s.obs[0], None, jax.random.key(3))[0])


def test_one_mask_is_everybodys_and_lists_are_taken() -> None:
    policy = subject("mlp").policy
    obs = np.zeros((2, 4))
    for action in (0, 1):
        mask = [number == action for number in range(2)]
        for given in (mask, [mask], [mask] * 2, np.array(mask)):
            policy.reset()
            assert policy.predict(obs, action_mask=given).tolist() == [action] * 2
            assert policy(obs.tolist(), action_mask=given)[0].tolist() == [action] * 2
        assert int(policy(obs[0].tolist(), action_mask=mask)[0]) == action
    for wrong in (np.ones((3, 2), bool), np.ones((2, 3), bool), np.ones((2, 1, 2), bool)):
        with pytest.raises(ValueError, match=r"action_mask is \[.*\]; for these observations it is \[2, 2\]"):
            policy.predict(obs, action_mask=wrong)


def test_what_does_not_fit_is_told() -> None:
    s, other = subject("lstm"), subject("mlp")
    s.policy.reset()
    with pytest.raises(ValueError, match=r"one observation \[4\], or a batch \[B, 4\]; got \[5\]"):
        s.policy.predict(np.zeros(5))
    with pytest.raises(TypeError, match="observes float32, and complex128 cannot be made"):
        s.policy.predict(np.zeros(4, complex))
    s.policy.predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"remembers a batch of 2 and now sees one .*; call policy\.reset\(\)"):
        s.policy.predict(np.zeros(4))
    with pytest.raises(ValueError, match="parameters of another policy: they lack params/params/torso/lstm"):
        s.policy.apply(other.policy.params, np.zeros(4))
    wide = jax.tree.map(lambda leaf: np.zeros((*leaf.shape, 2)), s.policy.params)
    with pytest.raises(ValueError, match=r"parameters of another policy: params/params/\S+ is \[\d+, 2\], not \[\d+\]"):
        s.policy.apply(wide, np.zeros(4))
    with pytest.raises(TypeError, match="not the seed 3"):
        s.policy(np.zeros(4), None, 3)  # pyright: ignore[reportArgumentType]
    for play in (s.policy, s.policy.predict):
        with pytest.raises(ValueError, match=r"reset is \[3\]; for these observations it is \[2\]"):
            play(np.zeros((2, 4)), reset=np.ones(3, bool))
    with pytest.raises(
        ValueError, match=r"carry is \[\(1, 4\), .* its arrays are \[\(2, 1, 4\), .* as policy.new_carry"
    ):
        s.policy(np.zeros((2, 4)), s.policy.new_carry())


def test_a_policy_is_given_what_it_was_trained_with() -> None:
    """Without the mask it would choose what is impossible, and without the beginnings remember the last episode."""
    s = subject("team")
    policy = Policy(s.algo, s.policy.env, s.state)  # nobody has called its reset
    with pytest.raises(ValueError, match=r"has a memory: say where an episode begins, by reset=.* or by policy.reset"):
        policy.predict(s.obs[0], **s.mask)
    for play in (policy, partial(policy.predict, reset=True), partial(policy.apply, policy.params)):
        with pytest.raises(
            ValueError, match=r"smax/3m was trained with masks .* give action_mask, bool \[B, 3, 8\], w"
        ):
            play(s.obs[0])
    by_agent = dict(zip(policy.env.agents, s.obs[0, 0], strict=True))  # pyright: ignore[reportAttributeAccessIssue]
    for play in (policy, policy.predict):
        with pytest.raises(TypeError, match=r"not a dict by agent: give np\.stack\(\[obs\[agent\]"):
            play(by_agent, **s.mask)
    np.testing.assert_array_equal(policy.predict(s.obs[0], reset=True, **s.mask), expected("team")[0])


def test_the_state_must_be_one_members() -> None:
    s = subject("mlp")
    both = jax.tree.map(lambda leaf: np.zeros((2, *leaf.shape)), s.state)
    with pytest.raises(ValueError, match="holds 2 members, and each has its own policy; choose one"):
        Policy(s.algo, s.policy.env, both)
    config = ppo.Config(hidden=(3,))
    with pytest.raises(ValueError, match=r"not a train state of this algorithm with this configuration: \S+ is"):
        Policy(ppo.make(config), s.policy.env, s.state)


def test_it_says_what_it_is() -> None:
    assert repr(subject("mlp").policy) == "Policy(classic/cartpole, 58 parameters)"
    assert repr(subject("lstm").policy).endswith("with a memory)")
