"""The plane has no favourite direction and bodies no favourite number; where they coincide nothing breaks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.envs.mpe import Agent, Landmark, State, World
from jaxrl.envs.mpe.features import leaving
from jaxrl.envs.mpe.physics import move, softplus
from jaxrl.envs.mpe.world import default_params

B = 300
SCENARIOS = ["simple_spread", "simple_tag", "simple_push", "simple_reference", "simple_world_comm"]
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])  # a quarter, counter-clockwise
TURNED_ACTION = [0, 4, 3, 1, 2]  # what was right is up now: the old action in each place
MIRROR = np.array([[-1.0, 0.0], [0.0, 1.0]])
MIRRORED_ACTION = [0, 2, 1, 3, 4]


@pytest.fixture(scope="module")
def world():
    agents = [Agent("fast", size=0.1), Agent("slow", size=0.2, max_speed=0.5), Agent("ghost", collides=False)]
    return World([agents[0], agents[1]], landmarks=[Landmark(size=0.3, collides=True), Landmark()])


@pytest.fixture(scope="module")
def moved(world):
    """`moved(position, velocity, force)`: a step of that world, compiled once."""
    params = default_params(world, None, 25)
    return jax.jit(lambda position, velocity, force: move(world, position, velocity, force, params))


def crowd(seed, bodies=4, agents=2):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0, 0.2, (bodies, 2)).astype(np.float32),
        rng.normal(0, 1, (agents, 2)).astype(np.float32),
        rng.normal(0, 3, (agents, 2)).astype(np.float32),
    )


@pytest.mark.quick
@pytest.mark.parametrize("angle", [0.3, 2.0, 4.5])
def test_turning_the_world_turns_what_happens(moved, angle):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], np.float32)
    for seed in range(20):
        before = crowd(seed)
        after, turned = moved(*before), moved(*(vectors @ turn.T for vectors in before))
        for a, b in zip(after, turned, strict=True):
            np.testing.assert_allclose(a @ turn.T, b, atol=1e-4)


def test_moving_the_world_moves_what_happens(moved):
    shift = np.array([0.7, -0.4], np.float32)
    for seed in range(20):
        position, velocity, force = crowd(seed)
        after, shifted = moved(position, velocity, force), moved(position + shift, velocity, force)
        np.testing.assert_allclose(after[0] + shift, shifted[0], atol=1e-5)
        np.testing.assert_allclose(after[1], shifted[1], atol=1e-3)


def test_pushes_are_mutual(moved):
    """Two agents in contact, nobody else near: their velocities change by opposite amounts."""
    position = np.array([[0.0, 0.0], [0.25, 0.1], [9, 9], [9, 9]], np.float32)
    velocity = moved(position, np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32))[1]
    assert np.abs(velocity).min() > 0.01
    np.testing.assert_allclose(velocity[0], -velocity[1], atol=1e-6)


def test_speed_has_a_limit(moved):
    fast = np.full((2, 2), 3.0, np.float32)
    position = np.array([[0, 0], [5, 0], [9, 9], [9, 9]], np.float32)
    velocity = moved(position, fast, np.zeros((2, 2), np.float32))[1]
    np.testing.assert_allclose(velocity[0], 3.0 * 0.75, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(velocity[1]), 0.5, rtol=1e-6)


def test_coincident_bodies_do_not_push_and_break_nothing(moved, world):
    zeros = np.zeros((2, 2), np.float32)
    position, velocity = moved(np.zeros((4, 2), np.float32), zeros, zeros)
    np.testing.assert_array_equal(position, 0.0)
    np.testing.assert_array_equal(velocity, 0.0)
    params = default_params(world, None, 25)

    def speed(position):
        still = jnp.zeros((2, 2))
        return jnp.square(move(world, position, still, still, params)[1]).sum()

    assert np.isfinite(jax.jit(jax.grad(speed))(jnp.zeros((4, 2)))).all()
    nearly = moved(np.array([[0, 0], [1e-20, 0], [0, 1e-9], [0, 0]], np.float32), zeros, zeros)
    assert np.isfinite(nearly[0]).all()
    assert np.isfinite(nearly[1]).all()


def test_softplus():
    x = np.array([-1e4, -30.0, -1.0, 0.0, 1.0, 30.0, 1e4], np.float32)
    np.testing.assert_allclose(softplus(jnp.asarray(x)), np.logaddexp(0, x.astype(np.float64)), rtol=1e-6, atol=1e-12)


def test_leaving_the_square_costs():
    x = [0.0, 0.9, 0.95, -1.0, 1.5, 1.0 + np.log(10.0) / 2, -9.0]
    expected = [0.0, 0.0, 0.5, 1.0, np.e, 10.0, 10.0]
    np.testing.assert_allclose(leaving(jnp.array([[v, 0.0] for v in x])), expected, atol=1e-5)
    np.testing.assert_allclose(leaving(jnp.array([0.95, -0.95])), 1.0, atol=1e-5)


# Whole scenarios.


def random_steps(env, seed):
    """States as resets make them, but crowded and in motion, and continuous actions: `[B, …]`."""
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(seed), B))
    rng = np.random.default_rng(seed)
    velocity = jnp.asarray(rng.normal(size=state.velocity.shape), jnp.float32)
    state = dataclasses.replace(state, position=0.7 * state.position, velocity=velocity)
    return state, jnp.asarray(rng.random((B, env.num_agents, *env.action_space().shape)), jnp.float32)


def run(env, steps, state, action):
    (_, state, reward, *_), before = steps(env)(jax.random.split(jax.random.key(0), B), state, action)
    return state, np.asarray(reward), np.asarray(before)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(
    ("matrix", "order"), [(TURN, TURNED_ACTION), (MIRROR, MIRRORED_ACTION)], ids=["turn", "mirror"]
)
def test_turned_and_mirrored_scenarios(env, steps, name, matrix, order):
    env = env(name, action_type="continuous")
    state, action = random_steps(env, 0)
    after, reward, _ = run(env, steps, state, action)
    vectors = {"position": state.position @ matrix.T, "velocity": state.velocity @ matrix.T}
    turned_action = action.at[..., :5].set(action[..., np.array(order)])
    turned, turned_reward, _ = run(env, steps, dataclasses.replace(state, **vectors), turned_action)
    np.testing.assert_allclose(after.position @ matrix.T, turned.position, atol=1e-4)
    np.testing.assert_allclose(after.velocity @ matrix.T, turned.velocity, atol=1e-4)
    np.testing.assert_array_equal(after.message, turned.message)
    np.testing.assert_allclose(reward, turned_reward, atol=1e-4)


@pytest.mark.parametrize("name", ["simple_spread", "simple_tag", "simple_world_comm"])
def test_equal_agents_can_change_places(env, steps, name):
    """Whose numbers are exchanged get each other's future, rewards and observations of themselves."""
    env = env(name, action_type="continuous")
    one, other = {"simple_spread": (0, 2), "simple_tag": (0, 1), "simple_world_comm": (2, 3)}[name]
    agents, bodies = np.arange(env.num_agents), np.arange(len(env.world.bodies))
    agents[[one, other]] = bodies[[one, other]] = other, one
    state, action = random_steps(env, 1)
    after, reward, seen = run(env, steps, state, action)
    vectors = {"position": state.position[:, bodies], "velocity": state.velocity[:, agents]}
    swapped, swapped_reward, swapped_seen = run(env, steps, dataclasses.replace(state, **vectors), action[:, agents])
    np.testing.assert_allclose(after.position[:, bodies], swapped.position, atol=1e-4)
    np.testing.assert_allclose(after.velocity[:, agents], swapped.velocity, atol=1e-4)
    np.testing.assert_allclose(reward[:, agents], swapped_reward, atol=1e-4)
    own = 4 + 2 * len(env.world.landmarks)  # velocity, position, landmarks
    np.testing.assert_array_equal(seen[:, agents, :own], swapped_seen[..., :own])
    np.testing.assert_allclose(np.sort(seen[:, agents], -1), np.sort(swapped_seen, -1), atol=1e-6)


@pytest.mark.parametrize("name", ["simple_spread", "simple_tag", "simple_world_comm"])
def test_everybody_in_the_same_place(env, steps, name):
    env = env(name, action_type="continuous")
    state, action = random_steps(env, 2)
    state = dataclasses.replace(state, position=0 * state.position, velocity=0 * state.velocity)
    after, reward, seen = run(env, steps, state, action)
    for values in (after.position, after.velocity, reward, seen):
        assert np.isfinite(values).all()


def test_a_state_is_a_pytree_of_arrays(env):
    _, state = jax.eval_shape(env("simple_reference").reset, jax.random.key(0))
    assert isinstance(state, State)
    assert [leaf.dtype for leaf in jax.tree.leaves(state)] == [np.float32] * 3 + [np.int32] * 2
