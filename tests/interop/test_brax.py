"""brax's environments step the same through us as by themselves, and their clock is ours."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from physical import steps_alike

import jaxrl

pytest.importorskip("brax")
from brax import envs
from brax.envs.wrappers.training import EpisodeWrapper

from jaxrl.algos import ppo
from jaxrl.interop import from_brax


@pytest.fixture(scope="module")
def fast() -> Any:
    """The simplest of brax, which compiles at once: its reward is the position, and nothing ends it."""
    return jaxrl.make("brax:fast?episode_length=3")


@pytest.fixture(scope="module")
def reacher() -> Any:
    return jaxrl.make("brax:reacher?backend=spring&n_frames=3")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inverted_pendulum?backend=mjx", "reacher?backend=spring"])
def test_steps_as_brax_does(name: str) -> None:
    ours = jaxrl.make(f"brax:{name}")
    ends = steps_alike(ours, 30)
    assert any(ends) == name.startswith("inverted_pendulum")


def test_time_outs_are_told_from_ends(fast: Any) -> None:
    _, state = fast.reset(jax.random.key(0))
    step = jax.jit(fast.step_env)
    flags = []
    for t in range(3):
        _, state, _, terminated, truncated, _ = step(jax.random.key(t), state, jnp.ones(1), None)
        flags.append((bool(terminated), bool(truncated)))
    assert flags == [(False, False), (False, False), (False, True)]
    over = state._replace(env_state=state.env_state.replace(done=jnp.float32(1)))  # `fast` leaves `done` as it is
    *_, terminated, truncated, _ = step(jax.random.key(3), over, jnp.ones(1), None)
    assert (bool(terminated), bool(truncated)) == (True, False)


def test_repeated_actions_add_rewards_and_stop_at_an_end(fast: Any) -> None:
    env = jaxrl.make("brax:fast?episode_length=4&action_repeat=2")
    wrapped = EpisodeWrapper(env.env, 4, 2)
    step, their_step = jax.jit(env.step_env), jax.jit(wrapped.step)
    _, start = env.reset(jax.random.key(0))
    state, their_state = start, wrapped.reset(jax.random.PRNGKey(0))
    for t in range(2):
        obs, state, reward, _, truncated, _ = step(jax.random.key(t), state, jnp.ones(1), None)
        their_state = their_step(their_state, jnp.ones(1))
        np.testing.assert_allclose(obs, their_state.obs, rtol=1e-6)
        np.testing.assert_allclose(reward, their_state.reward, rtol=1e-6)
        assert bool(truncated) == bool(their_state.info["truncation"]) == (t == 1)
    over = start._replace(env_state=start.env_state.replace(done=jnp.float32(1)))
    _, _, reward, terminated, *_ = step(jax.random.key(3), over, jnp.ones(1), None)
    assert (float(reward), bool(terminated)) == (0.0, True)


def test_a_step_does_not_write_into_the_state_it_is_given(reacher: Any) -> None:
    _, state = jax.eval_shape(reacher.reset, jax.random.key(0))

    def stepped(state: Any) -> Any:
        before = dict(state.env_state.metrics)
        reacher.step_env(jax.random.key(0), state, jnp.zeros(2), None)
        assert all(state.env_state.metrics[name] is value for name, value in before.items())
        return 0

    jax.eval_shape(stepped, state)


def test_of_a_dict_the_policy_observes_what_is_not_privileged() -> None:
    shapes = {
        "dict_state": (2,),
        "dict_state&asymmetric_obs=true": (2,),
        "dict_pixels_state&asymmetric_obs=true": (2 + 2 * 48,),
    }
    for mode, shape in shapes.items():
        env = jaxrl.make(f"brax:fast?obs_mode={mode}")
        obs, _ = jax.jit(env.reset)(jax.random.key(0))
        assert obs.shape == env.observation_space().shape == shape


def test_keeps_our_contract(fast: Any) -> None:
    jaxrl.check_env(fast)


@pytest.mark.slow
def test_a_physical_environment_keeps_our_contract() -> None:
    jaxrl.check_env(jaxrl.make("brax:inverted_pendulum?backend=spring"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*envs._envs} - {"fast", "swimmer"}))
def test_every_environment_can_be_stepped(name: str) -> None:
    env = jaxrl.make(f"brax:{name}")
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    jax.eval_shape(env.step, jax.random.key(0), state, np.zeros(env.action_space().shape))


def test_swimming_needs_an_older_jax() -> None:
    with pytest.raises(NotImplementedError, match=r"brax:swimmer does not run with jax .* is mjx:SwimmerSwimmer6"):
        jaxrl.make("brax:swimmer")


def test_names_and_options(fast: Any, reacher: Any) -> None:
    assert (reacher.env.backend, reacher.env._n_frames, reacher.episode_length) == ("spring", 3, 1000)
    with pytest.raises(ValueError, match=r"brax has no environment 'anr'. Did you mean ant"):
        jaxrl.make("brax:anr")
    with pytest.raises(TypeError, match=r"brax:ant has no option 'walls'. It has backend, n_frames, .*episode_length"):
        jaxrl.make("brax:ant", walls=2)
    with pytest.raises(TypeError, match="brax:fast has no option 'speed'"):
        jaxrl.make("brax:fast?speed=2")
    with pytest.raises(ValueError, match="reset_noise_scale must be a finite number"):
        jaxrl.make("brax:ant?reset_noise_scale=much")
    with pytest.raises(ValueError, match="episode_length must be a whole number of at least 1"):
        jaxrl.make("brax:fast?episode_length=0")
    with pytest.raises(ValueError, match="n_frames must be a whole number of at least 1"):
        jaxrl.make("brax:ant?n_frames=0")
    with pytest.raises(ValueError, match="brax cannot make ant of these options: backend should be in"):
        jaxrl.make("brax:ant?backend=bullet")
    with pytest.raises(TypeError, match=r"as in from_brax\(brax.envs.get_environment\(name\)\).* not a str"):
        from_brax("ant")
    with pytest.raises(TypeError, match=r"takes an environment without AutoResetWrapper: give env.unwrapped"):
        from_brax(envs.create("fast"))
    assert from_brax(fast.env).name == "brax:fast"


@pytest.mark.slow
def test_ppo_learns_to_balance() -> None:
    env = "brax:inverted_pendulum?episode_length=100&backend=spring"
    config = ppo.Config(env=env, total_timesteps=400_000, num_envs=64, num_steps=32, lr=1e-3)
    _, metrics = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert metrics["return_sum"][-10:].sum() / metrics["episodes"][-10:].sum() > 90  # 100 is the best there is
