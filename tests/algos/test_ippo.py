"""IPPO's promises: consistent probabilities, clean memory, no retracing, seeds that do not influence each other."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algos import ippo
from jaxrl.algos.rollout import rollout
from jaxrl.rl.minibatch import to_sequences

SMALL = ippo.Config(
    env="smax/3m", num_envs=4, num_steps=8, total_timesteps=128, update_epochs=2, num_minibatches=2, hidden=(16,)
)
VARIANTS = {
    "feed-forward": SMALL,
    "gru": dataclasses.replace(SMALL, memory="gru", memory_size=16),
    "gru, short sequences, two torsos": dataclasses.replace(
        SMALL, memory="gru", memory_size=16, sequence_length=4, share_torso=False
    ),
    "own parameters": dataclasses.replace(SMALL, sharing="none", memory="gru", memory_size=16),
}


@pytest.fixture(scope="module", params=list(VARIANTS))
def trained(request):
    """A configuration, its state after a few updates (so that memory and probabilities are not trivial)."""
    config = VARIANTS[request.param]
    algo = ippo.make(config)
    update = jax.jit(algo.update)
    state, metrics = jax.jit(algo.init)(jax.random.key(0)), {}
    for _ in range(3):
        state, metrics = update(state)
    return config, algo, update, state, metrics


def collect(config, state):
    parts = ippo._parts(config)
    policy = partial(parts.apply, state.params)
    return parts, rollout(parts.venv, policy, state.loop, jax.random.key(7), config.num_steps)


def test_probabilities_of_the_rollout_are_those_of_the_first_minibatch(trained):
    config, _, _, state, _ = trained

    @jax.jit
    def first_loss(state):
        parts, (_, transitions, *_) = collect(config, state)
        advantage = jax.random.normal(jax.random.key(1), transitions.value.shape)
        batch = to_sequences((transitions, advantage, advantage), config.train_length)
        return ippo.loss(parts, state.hyperparams, state.params, batch)[1], transitions.reset.sum()

    losses, _ = first_loss(state)
    np.testing.assert_allclose(losses["approx_kl"], 0.0, atol=1e-6)
    assert losses["clip_fraction"] == 0


def test_updates_train_and_stay_finite_and_are_compiled_once(trained):
    _, _, update, state, metrics = trained
    assert update._cache_size() == 1  # no retracing after the first call
    assert int(state.update) == 3
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(metrics))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state.params))


def test_dead_agents_carry_no_loss(trained):
    """Whatever a dead agent saw or did, the gradient is the same to the last bit."""
    config, _, _, state, _ = trained

    @jax.jit
    def gradients(state):
        parts, (_, transitions, *_) = collect(config, state)
        alive = jax.random.bernoulli(jax.random.key(2), 0.5, transitions.alive.shape)
        spoiled = transitions._replace(
            action=jnp.where(alive, transitions.action, 0),
            log_prob=jnp.where(alive, transitions.log_prob, 5.0),
            value=jnp.where(alive, transitions.value, 50.0),
        )
        advantage = jnp.where(alive, transitions.value, 9.0)

        def grad(seen, advantage):
            batch = to_sequences((seen._replace(alive=alive), advantage, advantage), config.train_length)
            return jax.grad(lambda p: ippo.loss(parts, state.hyperparams, p, batch)[0])(state.params)

        return grad(transitions, transitions.value), grad(spoiled, advantage)

    plain, spoiled = gradients(state)
    jax.tree.map(np.testing.assert_array_equal, plain, spoiled)
    assert any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(plain))


def test_act_is_greedy_without_a_key_and_clears_memory_on_reset(trained):
    config, algo, _, state, _ = trained
    obs = jax.random.normal(jax.random.key(3), (4, 3, 75))
    act = jax.jit(algo.act)
    first, carry = act(state, obs)
    again, _ = act(state, obs)
    np.testing.assert_array_equal(first, again)
    fresh, fresh_carry = act(state, obs, carry, reset=jnp.array([True, True, False, False]))
    np.testing.assert_array_equal(fresh[:2], first[:2])
    for old, new in zip(jax.tree.leaves(carry), jax.tree.leaves(fresh_carry), strict=True):
        np.testing.assert_allclose(new[:2], old[:2], atol=1e-6)
        assert not np.allclose(new[2:], old[2:])
    mask = jnp.zeros((4, 3, 8), bool).at[..., 6].set(True)
    sampled, _ = act(state, obs, None, jax.random.key(4), action_mask=mask)
    assert np.all(np.asarray(sampled) == 6)
    assert config.memory == "none" or jax.tree.leaves(carry)


def test_no_callback_is_in_the_compiled_program():
    algo = ippo.make(VARIANTS["gru"])
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
    train = ippo.make_train(SMALL)
    keys = jax.random.split(jax.random.key(0), 4)
    _, together = jax.jit(jax.vmap(train))(keys)
    _, alone = jax.jit(train)(keys[2])
    assert alone["losses"]["total"].shape == (SMALL.num_updates,)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[2], b, rtol=1e-3, atol=1e-4), together, alone)
    assert not np.allclose(together["losses"]["total"][0], together["losses"]["total"][1])


@pytest.mark.usefixtures("without_key_reuse_check")
def test_hyperparameters_are_traced_so_vmap_sweeps_them():
    train = ippo.make_train(dataclasses.replace(SMALL, total_timesteps=64))
    h = SMALL.hyperparams
    lrs = jnp.array([0.0, 1e-2])
    h = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, 2), h)
    h = dataclasses.replace(h, lr=lrs)
    start = ippo.make(SMALL).init(jax.random.key(1))
    states, _ = jax.jit(jax.vmap(train, in_axes=(None, 0)))(jax.random.key(1), h)
    moved = jax.tree.map(
        lambda a, b: np.abs(np.asarray(a) - np.asarray(b)[None]).max((*range(1, a.ndim),)), states.params, start.params
    )
    moved = np.max(jax.tree.leaves(moved), axis=0)
    assert moved[0] == 0
    assert moved[1] > 1e-3


def test_learning_rate_falls_to_zero_by_the_end():
    algo = ippo.make(SMALL)
    update = jax.jit(algo.update)
    state = dataclasses.replace(algo.init(jax.random.key(0)), update=jnp.int32(SMALL.num_updates))
    after, _ = update(state)
    jax.tree.map(np.testing.assert_array_equal, after.params, state.params)
