"""gymnax both ways: its environments step the same through us, ours are driven by its wrappers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("gymnax")
import gymnax
from gymnax import wrappers
from gymnax.environments import environment
from gymnax.wrappers.purerl import LogWrapper

from jaxrl.algos import ppo
from jaxrl.interop import from_gymnax, to_gymnax


@pytest.mark.parametrize("new_key", [jax.random.key, jax.random.PRNGKey])  # many scripts for gymnax have old keys
def test_ours_under_gymnaxs_log_wrapper(new_key):
    ours = to_gymnax(jaxrl.make("CartPole-v1?max_steps=4"))
    assert isinstance(ours, environment.Environment)
    assert ours.num_actions == 2
    env = LogWrapper(ours)
    _, state = env.reset(new_key(0))
    facts = []
    for t in range(4):
        _, state, reward, terminated, truncated, info = env.step(new_key(t), state, t % 2)
        facts.append((float(reward), bool(terminated), bool(truncated), info))
    assert facts[-1][:3] == (1.0, False, True)
    info = facts[-1][3]
    assert info["returned_episode_returns"] == 4
    assert info["final_observation"].shape == (4,)


PURE = ("FlattenObservationWrapper", "LegacyStepAPIWrapper", "LogWrapper", "StickyActionWrapper")
STATEFUL = ("GymnaxToGymWrapper", "GymnaxToVectorGymWrapper")


def test_ours_under_each_of_gymnaxs_wrappers():
    ours, key = to_gymnax(jaxrl.make("CartPole-v1")), jax.random.PRNGKey(0)
    assert {*PURE, *STATEFUL, "GymnaxToDmEnvWrapper"} == set(wrappers.__all__)
    for name in PURE:
        env = getattr(wrappers, name)(ours)
        assert env.step(key, env.reset(key)[1], 1)[2] == 1.0, name
    for name in STATEFUL:
        env = getattr(wrappers, name)(ours)
        assert env.reset(seed=3)[0].shape == env.observation_space.shape
        assert env.step(np.ones(env.action_space.shape, int))[1] == 1.0, name
    env = wrappers.GymnaxToDmEnvWrapper(ours)
    assert env.step(key, env.reset(key), 1).discount == 1.0


def test_ours_can_be_scanned_under_the_wrapper_for_brax():
    pytest.importorskip("brax")
    from gymnax.wrappers.brax import GymnaxToBraxWrapper

    env = GymnaxToBraxWrapper(to_gymnax(jaxrl.make("CartPole-v1")))

    def push(state, _):
        after = env.step(state, jnp.int32(1))
        return after, (after.done, after.info["discount"])

    _, (done, discount) = jax.lax.scan(push, env.reset(jax.random.PRNGKey(0)), length=12)
    assert 0 < done.sum() < 12  # pushed to one side, the pole falls
    np.testing.assert_array_equal(discount, 1.0 - done)


def test_what_a_state_does_not_say_is_told():
    env = to_gymnax(jaxrl.make("CartPole-v1"))
    assert env.obs_shape == (4,)
    _, state = env.reset(jax.random.key(0))
    for method in (env.is_terminal, env.is_terminated, env.is_truncated, env.discount):
        with pytest.raises(NotImplementedError, match=r'does not say whether it ends an episode; .*info\["discount"\]'):
            method(state, env.default_params)


def test_ours_and_gymnaxs_cartpole_step_alike():
    ours, (theirs, params) = to_gymnax(jaxrl.make("CartPole-v1")), gymnax.make("CartPole-v1")
    obs, state = ours.reset(jax.random.key(0))
    their_state = theirs.reset(jax.random.key(0))[1].replace(x=obs[0], x_dot=obs[1], theta=obs[2], theta_dot=obs[3])
    for t in range(60):
        obs, state, reward, terminated, truncated, _ = ours.step(jax.random.key(t), state, 1 - t % 2)
        seen, their_state, their_reward, their_end, their_cut, _ = theirs.step(
            jax.random.key(t), their_state, 1 - t % 2, params
        )
        assert bool(terminated) == bool(their_end)
        if terminated:
            break
        np.testing.assert_allclose(obs, seen, atol=1e-4)
        assert (float(reward), bool(truncated)) == (float(their_reward), bool(their_cut))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Catch-bsuite",
        "CartPole-v1",
        "Pendulum-v1",
        "Breakout-MinAtar",
        "FrozenLake-misc",
        "FourRooms-misc",
        "MemoryChain-bsuite",
    ],
)
def test_gymnax_environments_keep_our_contract(name):
    jaxrl.check_env(jaxrl.make(f"gymnax:{name}"))


def test_time_outs_are_told_from_ends():
    env = jaxrl.make("gymnax:CartPole-v1")
    params = env.default_params.replace(max_steps_in_episode=np.int32(2))
    _, state = env.reset(jax.random.key(0), params)
    step = jax.jit(env.step)
    flags = []
    for t in range(2):
        _, state, _, terminated, truncated, _ = step(jax.random.key(t), state, jnp.int32(t), params)
        flags.append((bool(terminated), bool(truncated)))
    assert flags == [(False, False), (False, True)]


def test_parameters_are_options():
    env = jaxrl.make("gymnax:CartPole-v1?max_steps_in_episode=7&length=0.25")
    assert (env.default_params.max_steps_in_episode, env.default_params.length) == (7, 0.25)
    assert env.default_params.gravity == pytest.approx(9.8)
    with pytest.raises(ValueError, match="gravity must be a finite number"):
        jaxrl.make("gymnax:CartPole-v1?gravity=moon")


def test_what_cannot_be_downloaded_is_named(monkeypatch):
    def offline(name, **options):
        raise OSError("no connection")

    monkeypatch.setattr(gymnax, "make", offline)
    with pytest.raises(OSError, match="gymnax cannot make MNISTBandit-bsuite, whose data it downloads: no connection"):
        jaxrl.make("gymnax:MNISTBandit-bsuite")


@pytest.mark.slow
def test_ppo_learns_a_game_of_gymnax():
    config = ppo.Config(env="gymnax:Catch-bsuite", total_timesteps=200_000, num_envs=64, num_steps=32, lr=1e-3)
    _, metrics = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert metrics["return_sum"][-5:].sum() / metrics["episodes"][-5:].sum() > 0.9  # 1 is the best there is


def test_refusals():
    with pytest.raises(ValueError, match="use to_jaxmarl"):
        to_gymnax(jaxrl.make("smax/3m"))
    with pytest.raises(TypeError, match=r"to_gymnax takes an environment, such as jaxrl.make\('CartPole-v1'\)"):
        to_gymnax("CartPole-v1")  # pyright: ignore[reportArgumentType]
    for given in ("CartPole-v1", gymnax.make("CartPole-v1")):
        with pytest.raises(TypeError, match=r"as in from_gymnax\(\*gymnax.make\(id\)\)"):
            from_gymnax(given)
    with pytest.raises(ValueError, match=r"no environment 'Pong'. Did you mean Pong-misc"):
        jaxrl.make("gymnax:Pong")
    with pytest.raises(TypeError, match=r"gymnax:CartPole-v1 has no option 'walls'. It has max_steps_in_episode, "):
        jaxrl.make("gymnax:CartPole-v1?walls=2")
    with pytest.raises(ValueError, match="rows must be a whole number; got 'x'"):
        jaxrl.make("gymnax:Catch-bsuite?rows=x")
    with pytest.raises(TypeError, match="gymnax cannot make DeepSea-bsuite of these options: division by zero"):
        jaxrl.make("gymnax:DeepSea-bsuite?size=0")
    with pytest.raises(TypeError, match="MultiDiscrete"):
        to_gymnax(jaxrl.make("probe/multi_discrete_action")).action_space()
