"""Craftax's environments as ours. Its programs take minutes to compile, so most tests are slow."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("craftax")
from craftax.craftax_env import make_craftax_env_from_name

from jaxrl.interop import from_craftax

pytestmark = pytest.mark.timeout(1800)  # a busy machine compiles for long, and Craftax may have to prepare textures

CLASSIC = "Craftax-Classic-Symbolic-v1"
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@functools.cache
def classic():
    """The environment and its compiled functions."""
    env = jaxrl.make(f"craftax:{CLASSIC}")
    return env, *(jax.jit(f, compiler_options=_QUICK) for f in (env.reset_env, env.step_env))


def test_both_games_have_names_options_and_spaces():
    env = jaxrl.make(f"craftax:{CLASSIC}?max_timesteps=50&zombie_health=9&max_cows=2")
    assert (env.default_params.max_timesteps, env.default_params.zombie_health) == (50, 9)
    assert env.env.static_env_params.max_cows == 2
    assert env.default_params.fractal_noise_angles == (None,) * 4
    assert (env.observation_space().shape, env.action_space().n) == ((1345,), 17)
    assert env.action_names[5] == "do"
    assert env.name == f"craftax:{CLASSIC}"


def test_refusals():
    with pytest.raises(ValueError, match=r"no environment 'Craftax-Classic'. Did you mean Craftax-Classic-Pixels-v1"):
        jaxrl.make("craftax:Craftax-Classic")
    with pytest.raises(TypeError, match=rf"{CLASSIC} has no option 'cows'. It has max_timesteps, .*max_arrows"):
        jaxrl.make(f"craftax:{CLASSIC}?cows=2")
    with pytest.raises(ValueError, match="day_length must be a whole number; got 'long'"):
        jaxrl.make(f"craftax:{CLASSIC}?day_length=long")
    with pytest.raises(TypeError, match=rf"craftax cannot make {CLASSIC} of these options: 'int' object is not"):
        jaxrl.make(f"craftax:{CLASSIC}?map_size=9")
    with pytest.raises(TypeError, match=r"as in from_craftax\(make_craftax_env_from_name\('Craftax-Symbolic-v1'"):
        from_craftax(CLASSIC)


@pytest.mark.slow
def test_craftax_steps_the_same():
    env, reset, step = classic()
    theirs = make_craftax_env_from_name(CLASSIC, auto_reset=False)
    their_step = jax.jit(theirs.step_env, compiler_options=_QUICK)
    params = env.default_params
    obs, state = reset(jax.random.key(3), params)
    seen, their_state = jax.jit(theirs.reset_env, compiler_options=_QUICK)(jax.random.PRNGKey(3), params)
    for t in range(60):
        np.testing.assert_array_equal(obs, seen)
        np.testing.assert_array_equal(obs, env.observation(state))
        action = jnp.int32(np.random.default_rng(t).integers(17))
        seen, their_state, their_reward, done, facts = their_step(jax.random.PRNGKey(t), their_state, action, params)
        obs, state, reward, terminated, truncated, info = step(jax.random.key(t), state, action, params)
        assert (float(reward), bool(terminated | truncated)) == (float(their_reward), bool(done))
        assert {**info, "discount": facts["discount"]} == facts
        if done:
            break


@pytest.mark.slow
def test_death_is_told_from_a_time_out():
    env, reset, step = classic()
    params = env.default_params.replace(max_timesteps=np.int32(2))
    _, state = reset(jax.random.key(0), params)
    noop = jnp.int32(0)
    ends = []
    for t in range(2):
        _, state, _, terminated, truncated, _ = step(jax.random.key(t), state, noop, params)
        ends.append((bool(terminated), bool(truncated)))
    assert ends == [(False, False), (False, True)]
    dying = state.replace(player_health=jnp.zeros_like(state.player_health) - 1)
    _, _, _, terminated, truncated, _ = step(jax.random.key(0), dying, noop, params)
    assert (bool(terminated), bool(truncated)) == (True, False)


@pytest.mark.slow
def test_craftax_keeps_our_contract():
    jaxrl.check_env(jaxrl.make(f"craftax:{CLASSIC}"), num_steps=32)


@pytest.mark.slow
def test_starts_from_a_pool():
    """Worlds are expensive to make; a pool makes a few and lets many episodes begin in them."""
    venv = jaxrl.VectorEnv(jaxrl.make(f"craftax:{CLASSIC}?max_timesteps=2"), 4, reset="pool")
    obs, state = jax.jit(venv.reset, compiler_options=_QUICK)(jax.random.key(0))
    step = jax.jit(venv.step, compiler_options=_QUICK)
    noop, ends = jnp.zeros(4, jnp.int32), []
    for t in range(2):
        obs, state, _, _, truncated, _ = step(jax.random.key(t), state, noop)
        ends.append(truncated.tolist())
    assert ends == [[False] * 4, [True] * 4]
    assert obs.shape == (4, 1345)
