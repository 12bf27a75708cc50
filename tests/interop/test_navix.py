"""Navix's environments as ours: they step the same, time-outs are told from ends, and mistakes from each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("navix")
import navix
from navix import observations

from jaxrl.algos import ppo
from jaxrl.interop import from_navix

TURN, FORWARD, DONE = 1, 2, 6  # in MiniGrid's actions


@functools.cache
def empty():
    """An empty room in which the goal is two steps ahead, a turn, and two steps; and its compiled step."""
    env = jaxrl.make("navix:Navix-Empty-5x5-v0?max_steps=6")
    return env, jax.jit(env.reset_env), jax.jit(env.step_env)


def played(actions):
    """The outcomes of actions from the start: (reward, terminated, truncated, info) each."""
    _, reset, step = empty()
    _, state = reset(jax.random.key(0), None)
    outcomes = []
    for action in actions:
        _, state, *outcome = step(jax.random.key(1), state, jnp.int32(action), None)
        outcomes.append(outcome)
    return outcomes


def test_the_goal_is_an_end_and_a_win_and_the_limit_a_time_out():
    *before, (reward, terminated, truncated, info) = played([FORWARD, FORWARD, TURN, FORWARD, FORWARD])
    assert not any(end or cut or facts["won"] for _, end, cut, facts in before)
    assert (float(reward), bool(terminated), bool(truncated)) == (1.0, True, False)
    assert (bool(info["won"]), bool(info["goal_reached"]), float(info["return"])) == (True, True, 1.0)
    *before, (reward, terminated, truncated, info) = played([TURN] * 6)
    assert not any(end or cut for _, end, cut, _ in before)
    assert (float(reward), bool(terminated), bool(truncated)) == (0.0, False, True)
    assert not info["won"]
    # Whoever arrives in the last step has arrived.
    _, terminated, truncated, info = played([DONE, FORWARD, FORWARD, TURN, FORWARD, FORWARD])[-1]
    assert (bool(terminated), bool(truncated), bool(info["won"])) == (True, False, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "observation"),
    [
        ("Navix-Dynamic-Obstacles-5x5-v0", "symbolic_first_person"),
        ("Navix-DoorKey-Random-5x5-v0", "rgb"),
        ("Navix-GoToDoor-5x5-v0", "categorical"),
    ],
)
def test_navix_steps_the_same(name, observation):
    env = jaxrl.make(f"navix:{name}?observation={observation}")
    theirs = navix.make(name, observation_fn=getattr(observations, observation))
    step, their_step = jax.jit(env.step_env), jax.jit(theirs._step)
    obs, state = jax.jit(env.reset_env)(jax.random.key(3), None)
    timestep = jax.jit(theirs.reset)(jax.random.PRNGKey(3))
    for t in range(40):
        np.testing.assert_array_equal(obs, timestep.observation)
        action = jnp.int32(np.random.default_rng(t).integers(7))
        timestep = timestep.replace(state=timestep.state.replace(key=jax.random.PRNGKey(t)))
        timestep = their_step(timestep, action)
        obs, state, reward, terminated, truncated, _ = step(jax.random.key(t), state, action, None)
        assert (reward, terminated, truncated) == (
            timestep.reward,
            timestep.is_termination(),
            timestep.is_truncation(),
        )
        if terminated:
            break


def test_observations_have_names_and_stay_what_they_are():
    shapes = {"symbolic": (7, 9, 3), "categorical": (7, 9), "rgb": (56, 72, 3), "symbolic_first_person": (7, 7, 3)}
    for observation, shape in shapes.items():
        env = jaxrl.make("navix:Navix-DistShift1-v0", observation=observation)
        obs, _ = jax.eval_shape(env.reset, jax.random.key(0))
        assert (obs.shape, obs.dtype) == (shape, np.int32 if observation == "categorical" else np.uint8)
    own = from_navix(navix.make("Navix-Empty-5x5-v0").replace(observation_fn=lambda state: state.get_player().position))
    assert (own.observation_space().shape, own.observation_space().dtype) == ((2,), np.float32)
    assert own.action_names[:3] == ("rotate ccw", "rotate cw", "forward")


@pytest.mark.slow
def test_a_state_that_is_stepped_stays_as_it_was():
    """Navix writes into the dicts of its states."""
    env, reset, _ = empty()
    _, state = reset(jax.random.key(0), None)
    before = jax.tree.map(np.asarray, state)
    with jax.disable_jit(), jax.debug_key_reuse(True):
        env.step_env(jax.random.key(1), state, jnp.int32(FORWARD), None)
    jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.asarray, state))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Navix-Empty-5x5-v0",
        "Navix-GoToDoor-5x5-v0",
        "Navix-KeyCorridorS3R1-v0",
        "Navix-Dynamic-Obstacles-5x5-v0?observation=symbolic_first_person",
        "Navix-DoorKey-Random-5x5-v0?observation=rgb",
    ],
)
def test_navix_environments_keep_our_contract(name):
    jaxrl.check_env(jaxrl.make(f"navix:{name}"))


@pytest.mark.slow
def test_all_of_navix_can_be_made_with_all_observations():
    for name in navix.registry():
        for observation in ("symbolic", "symbolic_first_person", "categorical", "categorical_first_person"):
            env = jaxrl.make(f"navix:{name}", observation=observation, max_steps=9)
            start = jax.eval_shape(env.reset, jax.random.key(0))
            stepped = jax.eval_shape(env.step, jax.random.key(0), start[1], jnp.int32(0))
            assert jax.tree.structure(start) == jax.tree.structure(stepped[:2])
            assert jax.tree.leaves(start) == jax.tree.leaves(stepped[:2])


@pytest.mark.slow
def test_ppo_learns_navix():
    config = ppo.Config(
        env="navix:Navix-Empty-Random-5x5-v0", total_timesteps=100_000, num_envs=64, num_steps=32, lr=1e-3
    )
    _, metrics = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert metrics["won_sum"][-5:].sum() / metrics["episodes"][-5:].sum() > 0.95  # 0.7 at first


def test_refusals():
    with pytest.raises(
        ValueError, match=r"no environment 'MiniGrid-DoorKey-5x5-v0'. Did you mean Navix-DoorKey-5x5-v0"
    ):
        jaxrl.make("navix:MiniGrid-DoorKey-5x5-v0")
    with pytest.raises(ValueError, match=r"no observation 'pixels'. Known: categorical"):
        jaxrl.make("navix:Navix-Empty-5x5-v0?observation=pixels")
    with pytest.raises(TypeError, match=r"cannot make Navix-Empty-5x5-v0 of these options: .*'walls'.*It has observ"):
        jaxrl.make("navix:Navix-Empty-5x5-v0?walls=2")
    with pytest.raises(ValueError, match="max_steps must be a whole number"):
        jaxrl.make("navix:Navix-Empty-5x5-v0?max_steps=many")
    with pytest.raises(TypeError, match=r"as in from_navix\(navix.make\(id\)\)"):
        from_navix("Navix-Empty-5x5-v0")
