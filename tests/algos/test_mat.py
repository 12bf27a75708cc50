"""A team decides in turn: what acts is what is learned, order and death matter as they should."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, collect

from jaxrl.acting.rollout import Observation
from jaxrl.algos import mat, ppo

SMALL = {"num_envs": 8, "num_steps": 8, "total_timesteps": 8 * 8 * 4, "num_minibatches": 2, "hidden": (16,)}
VARIANTS = {
    "entities": mat.Config(**SMALL, env="smax/3m", torso="entities", num_heads=2, num_blocks=2),
    "two teams, boxes": mat.Config(**SMALL, env="mpe/simple_tag?action_type=continuous"),
    "memory": mat.Config(**SMALL, env="probe/death", memory="retention", memory_size=8, sequence_length=4),
    "several choices": mat.Config(**SMALL, env="probe/multi_discrete_action"),
    "only counts": mat.Config(**SMALL, env="smax/3m", torso="entities", num_blocks=0),
}


@functools.cache
def trained(name):
    """An algorithm and its state after two updates, so that nothing is as it was initialised."""
    algo = mat.make(VARIANTS[name])
    state, update = jax.jit(algo.init)(jax.random.key(0)), jax.jit(algo.update)
    for _ in range(2):
        state, _ = update(state)
    return algo, state


def policy_of(algo, state, observation, carry=()):
    reset = jnp.zeros(observation.agent_mask.shape[:2], bool)
    return agent_of(algo).networks.apply(state.params, carry, observation, reset)[1]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in ("several choices", "memory") else ()) for n in VARIANTS]
)
def test_what_acted_in_turn_is_what_is_learned_at_once(name):
    """The stored probabilities, and actions decided in turn, agree with teacher forcing: ratios begin at 1."""
    algo, state = trained(name)
    agent, length = agent_of(algo), VARIANTS[name].train_length

    @jax.jit
    def check(state):
        seen = collect(algo, state, jax.random.key(7))
        batch = ppo.normalised_minibatch(ppo.sequences(seen, jnp.ones_like(seen.extras["value"]), length))
        losses = agent.loss(agent, state.hyperparams, state.params, batch)[1]
        policy = agent.networks.apply(
            state.params, jax.tree.map(lambda leaf: leaf[0], batch.carry), batch.observation, batch.reset
        )[1]
        mode = policy.mode()
        return losses, mode, policy.given(mode).mode()

    losses, in_turn, at_once = check(state)
    np.testing.assert_allclose(losses["approx_kl"], 0.0, atol=1e-6)
    assert losses["clip_fraction"] == 0
    np.testing.assert_allclose(in_turn, at_once, atol=1e-5)


def test_draws_follow_the_joint_distribution():
    """Two agents' joint actions are drawn as often as the product of what each does given those before it."""
    algo, state = trained("memory")
    rows = 20_000
    seen = jnp.zeros((1, rows, 2, 1)).at[:, :, 0].set(0.5)
    observation = Observation(seen, None, None, jnp.ones((1, rows, 2), bool))
    policy = policy_of(algo, state, observation, agent_of(algo).networks.new_carry(rows))
    drawn = policy.sample(seed=jax.random.key(3))[0]
    for joint in np.ndindex(2, 2):
        wanted = np.exp(policy.log_prob(jnp.broadcast_to(jnp.asarray(joint), drawn.shape)[None])[0, 0].sum())
        found = (drawn == np.array(joint)).all(axis=-1).mean()
        assert abs(found - wanted) < 4 * np.sqrt(0.25 / rows), joint


def battle(rows=4):
    """Observations of 3m like real ones, and masks that allow everything."""
    algo, state = trained("entities")
    env = agent_of(algo).env
    obs, _ = jax.vmap(env.reset)(jax.random.split(jax.random.key(5), rows))
    obs = jnp.asarray(np.random.default_rng(0).normal(size=obs.shape), jnp.float32)[None]
    return algo, state, Observation(obs, None, None, jnp.ones(obs.shape[:3], bool))


def test_an_action_is_known_to_later_mates_alone():
    algo, state, observation = battle()
    policy = policy_of(algo, state, observation)
    action = jnp.full((1, 4, 3), 6)
    before = policy.given(action).logits
    for changed in range(3):
        after = policy.given(action.at[:, :, changed].set(1)).logits
        moved = np.abs(after - before).max(axis=(0, 1, 3)) > 1e-6
        np.testing.assert_array_equal(moved, np.arange(3) > changed)


def test_teams_know_nothing_of_each_other():
    """Hunters see and know hunters; what the prey sees and does changes nothing for them."""
    algo, state = trained("two teams, boxes")
    env = agent_of(algo).env
    assert env.teams == (0, 0, 0, 1)
    rng = np.random.default_rng(1)
    obs = jnp.asarray(rng.normal(size=(1, 2, 4, *env.observation_space().shape)), jnp.float32)
    observation = Observation(obs, None, None, jnp.ones((1, 2, 4), bool))
    action = jnp.asarray(rng.normal(size=(1, 2, 4, *env.action_space().shape)), jnp.float32)
    before = policy_of(algo, state, observation).log_prob(action)
    other = observation._replace(obs=obs.at[:, :, 3].add(1.0))
    after = policy_of(algo, state, other).log_prob(action.at[:, :, 3].add(0.1))
    np.testing.assert_array_equal(before[..., :3], after[..., :3])
    assert np.abs(before[..., 3] - after[..., 3]).min() > 1e-3


def test_a_team_with_dead_members_is_the_team_without_them():
    """Nobody attends to the dead, and their actions tell nothing: the others' logits and values stay the same."""
    algo, state, observation = battle()
    agent, obs = agent_of(algo), observation.obs.at[:, :, 1].set(0.0)
    action = jnp.asarray([[[5, 0, 6]] * 4])

    def judged(observation, action):
        _, policy, value = agent.networks.apply(state.params, (), observation, jnp.zeros((1, 4), bool))
        return policy.given(action).logits, value

    logits, value = judged(observation._replace(obs=obs), action)
    other, same = judged(observation._replace(obs=obs), action.at[:, :, 1].set(6))
    np.testing.assert_array_equal(logits[:, :, 2], other[:, :, 2])
    np.testing.assert_array_equal(value, same)
    # Moved to the end of the turn, the dead member is still nobody's mate.
    order = np.array([0, 2, 1])
    moved, value_moved = judged(observation._replace(obs=obs[:, :, order]), action[:, :, order])
    np.testing.assert_allclose(moved[:, :, :2], logits[:, :, [0, 2]], atol=1e-5)
    np.testing.assert_allclose(value_moved[:, :, :2], value[:, :, [0, 2]], atol=1e-5)


def test_values_do_not_depend_on_the_order_of_members():
    """Members who change places take their values along: only the decoder knows an order."""
    algo, state, observation = battle()
    apply, order = agent_of(algo).networks.apply, np.array([2, 0, 1])
    reset = jnp.zeros((1, 4), bool)
    value = apply(state.params, (), observation, reset)[2]
    moved = apply(state.params, (), observation._replace(obs=observation.obs[:, :, order]), reset)[2]
    np.testing.assert_allclose(moved, value[:, :, order], atol=1e-5)
    assert np.abs(value[:, :, order] - value).max() > 1e-3


def test_an_episode_knows_nothing_of_the_one_before():
    """After a reset, logits and values are those of an empty memory, for all members; before it, they are not."""
    algo, state = trained("memory")
    agent, rng = agent_of(algo), np.random.default_rng(0)
    observation = Observation(jnp.float32(rng.uniform(size=(4, 3, 2, 1))), None, None, jnp.ones((4, 3, 2), bool))
    reset = jnp.zeros((4, 3), bool).at[2].set(True)
    action = jnp.zeros((4, 3, 2), jnp.int32)

    @jax.jit
    def judged(carry):
        _, policy, value = agent.networks.apply(state.params, carry, observation, reset)
        return policy.given(action).logits, value

    empty = agent.networks.new_carry(3)
    full = jax.tree.map(lambda leaf: leaf + jnp.float32(rng.uniform(1, 2, size=leaf.shape)), empty)
    for fresh, used in zip(judged(empty), judged(full), strict=True):
        np.testing.assert_array_equal(fresh[2:], used[2:])
        assert np.abs(fresh[:2] - used[:2]).min(axis=1).max() > 1e-5


def test_every_parameter_learns():
    """No part of the gradient is zero throughout: nothing is initialised out of reach."""
    algo, state, observation = battle()
    agent = agent_of(algo)

    @jax.jit
    def gradient(params):
        def total(params):
            _, policy, value = agent.networks.apply(params, (), observation, jnp.zeros((1, 4), bool))
            return policy.log_prob(jnp.full((1, 4, 3), 6)).sum() + value.sum()

        return jax.grad(total)(params)

    found = jax.tree_util.tree_leaves_with_path(gradient(state.params))
    assert [jax.tree_util.keystr(path) for path, leaf in found if np.abs(leaf).max() == 0] == []


def test_a_policy_of_entities_starts_other_team_sizes():
    small, large = (mat.Config(**SMALL, env=f"smax/{name}", torso="entities") for name in ("3m", "5m_vs_6m"))
    shapes = [
        jax.tree.map(lambda leaf: leaf.shape, jax.eval_shape(mat.make(config).init, jax.random.key(0)).params)
        for config in (small, large)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"num_heads": 3}, "num_heads=3 does not divide the 16 features"),
        ({"agents_per_step": 1}, "agents_per_step must be 0"),
        ({"policies": {"ally_0": "A", "ally_[12]": "B"}}, "mat has one network for all who learn"),
    ],
)
def test_what_does_not_suit_a_team_is_refused(fields, why):
    with pytest.raises(ValueError, match=why):
        mat.make(mat.Config(**{**SMALL, "env": "smax/3m", **fields}))
