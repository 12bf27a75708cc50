"""What all of the PPO family promise: consistent probabilities, clean memory, no retracing, seeds by themselves."""

import dataclasses
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of, collect

from jaxrl.algos import ippo, mappo, ppo

SMALL = {
    "num_envs": 4,
    "num_steps": 8,
    "total_timesteps": 128,
    "update_epochs": 2,
    "num_minibatches": 2,
    "hidden": (16,),
}
GRU = {"memory": "gru", "memory_size": 16}
VARIANTS = {
    "ppo": (ppo, ppo.Config(**SMALL)),
    "ppo, lstm, continuous": (
        ppo,
        ppo.Config(**SMALL, env="classic/pendulum", memory="lstm", memory_size=8, share_torso=False),
    ),
    "ppo, squashed, hlgauss": (
        ppo,
        ppo.Config(**SMALL, env="classic/mountain_car_continuous", squash=True, value_loss="hlgauss"),
    ),
    "ppo, several choices": (ppo, ppo.Config(**SMALL, env="probe/multi_discrete_action")),
    "ippo": (ippo, ippo.Config(**SMALL, env="smax/3m")),
    "ippo, gru, short sequences, two torsos": (
        ippo,
        ippo.Config(**SMALL, **GRU, env="probe/death", sequence_length=4, share_torso=False),
    ),
    "ippo, gru, own parameters": (ippo, ippo.Config(**SMALL, **GRU, env="probe/credit", sharing="none")),
    "mappo": (mappo, mappo.Config(**SMALL, env="probe/hidden_state", critic_hidden=(16,))),
    "mappo, s5": (
        mappo,
        mappo.Config(**SMALL, env="probe/death", critic_hidden=(8,), memory="s5", memory_size=8, sequence_length=4),
    ),
    "ippo, gtrxl, short sequences": (
        ippo,
        ippo.Config(**SMALL, env="probe/death", memory="gtrxl", memory_size=8, memory_window=5, sequence_length=4),
    ),
}


SLOW = ("ppo, lstm, continuous", "ppo, squashed, hlgauss", "ippo, gru, own parameters", "mappo, s5")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in VARIANTS]
)
def trained(request):
    """An algorithm and its state after a few updates (memory and probabilities are not trivial), traced only once."""
    module, config = VARIANTS[request.param]
    algo = module.make(config)
    chex.clear_trace_counter()  # it counts by name
    update = jax.jit(chex.assert_max_traces(lambda state: algo.update(state), n=1))
    state, metrics = jax.jit(algo.init)(jax.random.key(0)), {}
    for _ in range(3):
        state, metrics = update(state)
    return config, algo, update, state, metrics


def test_probabilities_of_the_rollout_are_those_of_the_first_minibatch(trained):
    config, algo, _, state, _ = trained

    @jax.jit
    def first_loss(state):
        seen = collect(algo, state, jax.random.key(7))
        batch = ppo.sequences(seen, jnp.ones_like(seen.extras["value"]), config.train_length)
        batch = ppo.normalised_minibatch(batch)
        return ppo.loss(agent_of(algo), state.hyperparams, state.params, batch)[1]

    losses = first_loss(state)
    np.testing.assert_allclose(losses["approx_kl"], 0.0, atol=1e-6)
    assert losses["clip_fraction"] == 0


def test_updates_train_and_stay_finite(trained):
    _, _, _, state, metrics = trained
    assert int(state.update) == 3
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(metrics))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state.params))


def test_dead_agents_carry_no_loss(trained):
    """Whatever a dead agent saw, did or was worth, the gradient is the same to the last bit."""
    config, algo, _, state, _ = trained

    @jax.jit
    def gradients(state):
        seen = collect(algo, state, jax.random.key(7))
        alive = jax.random.bernoulli(jax.random.key(2), 0.5, seen.observation.agent_mask.shape)
        seen = seen._replace(observation=seen.observation._replace(agent_mask=alive))
        log_prob, value = seen.extras["log_prob"], seen.extras["value"]
        spoiled = seen._replace(
            extras={"log_prob": jnp.where(alive, log_prob, 5.0), "value": jnp.where(alive, value, 50.0)}
        )

        def grad(seen, advantage):
            batch = ppo.normalised_minibatch(ppo.sequences(seen, advantage, config.train_length))
            return jax.grad(lambda p: ppo.loss(agent_of(algo), state.hyperparams, p, batch)[0])(state.params)

        return grad(seen, seen.extras["value"]), grad(spoiled, jnp.where(alive, seen.extras["value"], 9.0))

    plain, spoiled = gradients(state)
    chex.assert_trees_all_equal(plain, spoiled)
    assert any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(plain))


def test_act_is_greedy_without_a_key_and_clears_memory_on_reset(trained):
    config, algo, _, state, _ = trained
    env = config.make_env()
    obs, _env_state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(3), 4))
    act = jax.jit(algo.act)
    first, carry = act(state, obs)
    assert first.shape == (4, *agent_of(algo).env.action_space().shape) or first.shape[:2] == obs.shape[:2]
    again, _ = act(state, obs)
    np.testing.assert_array_equal(first, again)
    fresh, fresh_carry = act(state, obs, carry, reset=jnp.array([True, True, False, False]))
    np.testing.assert_array_equal(fresh[:2], first[:2])
    policy_carry = (jax.tree.leaves(carry[0]), jax.tree.leaves(fresh_carry[0]))  # the critic's may rest
    assert bool(policy_carry[0]) == (config.memory != "none")
    for old, new in zip(*policy_carry, strict=True):
        np.testing.assert_allclose(new[:2], old[:2], atol=1e-6)
        assert not np.allclose(new[2:], old[2:])
    sampled, _ = act(state, obs, None, jax.random.key(4))
    assert sampled.shape == first.shape


def test_masked_actions_are_not_sampled():
    algo = ppo.make(VARIANTS["ppo"][1])
    state = jax.jit(algo.init)(jax.random.key(0))
    mask = jnp.array([[False, True]] * 64)
    sampled, _ = algo.act(state, jnp.ones((64, 4)), None, jax.random.key(4), action_mask=mask)
    assert np.all(np.asarray(sampled) == 1)


@pytest.mark.parametrize("variant", ["ippo, gru, own parameters", "mappo, s5"])
def test_no_callback_is_in_the_compiled_program(variant):
    module, config = VARIANTS[variant]
    algo = module.make(config)
    state = jax.eval_shape(algo.init, jax.random.key(0))
    assert "callback" not in str(jax.make_jaxpr(algo.update)(state))


@pytest.fixture
def without_key_reuse_check():
    """The check mistakes a key that is split inside a vmapped scan for a used one (seen with jax 0.10.2)."""
    with jax.debug_key_reuse(False):
        yield


@pytest.mark.quick
@pytest.mark.usefixtures("without_key_reuse_check")
def test_a_vmapped_seed_equals_the_seed_alone():
    config = VARIANTS["ippo"][1]
    train = ippo.make_train(config)
    keys = jax.random.split(jax.random.key(0), 4)
    _, together = jax.jit(jax.vmap(train))(keys)
    _, alone = jax.jit(train)(keys[2])
    assert alone["losses"]["total"].shape == (config.num_updates,)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[2], b, rtol=1e-3, atol=1e-4), together, alone)
    assert not np.allclose(together["losses"]["total"][0], together["losses"]["total"][1])


@pytest.mark.usefixtures("without_key_reuse_check")
def test_hyperparameters_are_traced_so_vmap_sweeps_them():
    config = dataclasses.replace(VARIANTS["ppo"][1], total_timesteps=64)
    h = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, 2), config.hyperparams)
    h = dataclasses.replace(h, lr=jnp.array([0.0, 1e-2]))
    start = jax.jit(ppo.make(config).init)(jax.random.key(1))
    states, _ = jax.jit(jax.vmap(ppo.make_train(config), in_axes=(None, 0)))(jax.random.key(1), h)
    moved = jax.tree.map(
        lambda a, b: np.abs(np.asarray(a) - np.asarray(b)[None]).max((*range(1, a.ndim),)), states.params, start.params
    )
    moved = np.max(jax.tree.leaves(moved), axis=0)
    assert moved[0] == 0
    assert moved[1] > 1e-3


def test_learning_rate_falls_to_zero_by_the_end():
    config = VARIANTS["ppo"][1]
    algo = ppo.make(config)
    state = dataclasses.replace(algo.init(jax.random.key(0)), update=jnp.int32(config.num_updates))
    after, _ = jax.jit(algo.update)(state)
    chex.assert_trees_all_equal(after.params, state.params)


def test_no_step_is_taken_once_the_policy_has_moved_by_target_kl():
    config = dataclasses.replace(VARIANTS["ppo"][1], update_epochs=8, lr=1e-2, anneal_lr=False)

    def updated(config):
        algo = ppo.make(config)
        return jax.jit(algo.update)(algo.init(jax.random.key(0)))

    (free, metrics), (bound, bound_metrics) = updated(config), updated(dataclasses.replace(config, target_kl=1e-3))
    steps = config.update_epochs * config.num_minibatches
    assert int(free.opt_state.count) == steps
    assert 0 < int(bound.opt_state.count) < steps
    np.testing.assert_allclose(1 - bound_metrics["losses"]["stopped"], int(bound.opt_state.count) / steps, rtol=1e-6)
    assert bound_metrics["losses"]["approx_kl"] < metrics["losses"]["approx_kl"]


def test_ppo_trains_one_agent_only():
    with pytest.raises(TypeError, match="smax/3m has 3 agents and ppo trains one; use ippo or mappo"):
        ppo.make(ppo.Config(env="smax/3m"))


def test_minibatches_of_one_sample_are_told_of():
    """Their advantages are 0; two agents, or two steps, are samples enough."""
    alone = {**SMALL, "num_steps": 1, "num_minibatches": 4, "total_timesteps": 64}
    (said,) = ppo.Config(**alone).warnings()
    assert said.startswith("The policy learns nothing: each minibatch has one sample")
    assert ippo.Config(env="mpe/simple", **alone).warnings() == [said]
    assert ippo.Config(env="mpe/simple_spread", agents_per_step=1, **alone).warnings() == [said]
    for enough in (ippo.Config(env="mpe/simple_spread", **alone), ppo.Config(**{**alone, "num_steps": 2})):
        assert enough.warnings() == []


def test_a_train_function_counts_its_updates():
    config = VARIANTS["ppo"][1]
    state, metrics = jax.eval_shape(partial(ppo.make_train(config)), jax.random.key(0))
    assert state.update.shape == ()
    assert metrics["losses"]["total"].shape == (config.num_updates,)
