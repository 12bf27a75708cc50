"""FACMAC's predator and prey against jaxmarl 0.2.0, but for what is wrong there: each fault has a test of its name."""

import contextlib
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.envs.mpe import State

pytest.importorskip("jaxmarl")

with contextlib.redirect_stdout(io.StringIO()):  # it greets
    import jaxmarl
    from jaxmarl.environments.mpe.simple import State as TheirState

B = 32
SIZES = [3, pytest.param(6, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)]


class Pair:
    """The same predators and prey in both implementations."""

    def __init__(self, ours, hunters):
        self.ours, self.hunters = ours, hunters
        self.theirs: Any = jaxmarl.make(f"MPE_simple_facmac_{hunters}a_v1")
        self.step_theirs = jax.jit(jax.vmap(self._step_theirs))
        self.step_ours = jax.jit(jax.vmap(self._step_ours))

    def _step_theirs(self, key, state, action):
        count, world = self.theirs.num_agents, self.as_theirs(state)
        actions = {agent: action[min(i, self.hunters - 1)] for i, agent in enumerate(self.theirs.agents)}
        obs, after, reward, done, _ = self.theirs.step_env(key, world, actions)
        # Fault: prey decides as if it stood elsewhere (the first where the last predator is, the third where an
        # obstacle is), and all use one key.
        deciders = [self.hunters - 1 + 2 * i for i in range(count - self.hunters)]
        force = jnp.stack([self.theirs._prey_policy(key, world, i) for i in deciders])
        seen = jnp.stack([obs[agent] for agent in self.theirs.agents[: self.hunters]])
        return after, reward["adversary_0"], seen, done["__all__"], force

    def as_theirs(self, state):
        count = self.theirs.num_agents
        return TheirState(
            p_pos=state.position,
            p_vel=jnp.pad(state.velocity, ((0, len(state.position) - count), (0, 0))),
            c=jnp.zeros((count, 2)),
            done=jnp.array(False),
            step=state.step,
        )

    def _step_ours(self, state, action, force):
        params = self.ours.default_params
        after = self.ours.advance(state, action, force, params)
        return after, self.ours.reward(after, params), self.ours._observe(after, params)

    def states(self, seed, scale=1.0):
        rng = np.random.default_rng(seed)
        movers, bodies = len(self.ours.world.movers), len(self.ours.world.bodies)
        return State(
            position=jnp.asarray(scale * rng.uniform(-1, 1, (B, bodies, 2)), jnp.float32),
            velocity=jnp.asarray(rng.normal(size=(B, movers, 2)), jnp.float32),
            message=jnp.zeros((B, 0, 0)),
            goal=jnp.zeros((B, 0), jnp.int32),
            step=jnp.zeros(B, jnp.int32),
        )

    def step_both(self, state, seed):
        keys = jax.random.split(jax.random.PRNGKey(seed), B)  # old keys: theirs are used twice
        action = jax.random.uniform(jax.random.key(seed), (B, self.hunters, 5))
        theirs = self.step_theirs(keys, state, action)
        return self.step_ours(state, action, theirs[-1]), theirs


@pytest.fixture(scope="module")
def pair(env):
    made = {}

    def get(hunters):
        if hunters not in made:
            made[hunters] = Pair(env(f"simple_facmac_{hunters}a"), hunters)
        return made[hunters]

    return get


@pytest.mark.parametrize("hunters", SIZES)
def test_same_physics_and_reward(pair, hunters):
    """With their prey's force in our world."""
    pair, touches = pair(hunters), 0
    for seed in range(8):
        state = pair.states(seed, scale=(1.0, 0.4)[seed % 2])
        (after, reward, _), (expected, their_reward, *_) = pair.step_both(state, seed)
        movers = after.velocity.shape[1]
        np.testing.assert_allclose(after.position, expected.p_pos, atol=1e-4)
        np.testing.assert_allclose(after.velocity, expected.p_vel[:, :movers], atol=1e-4)
        np.testing.assert_allclose(reward, np.repeat(their_reward[:, None], hunters, 1))
        touches += int((their_reward > 0).sum())
    assert touches > 10


@pytest.mark.parametrize("hunters", SIZES)
def test_same_observations_where_all_is_near(pair, hunters):
    pair = pair(hunters)
    (_, _, seen), (_, _, expected, *_) = pair.step_both(pair.states(0, scale=0.05), 0)
    prey = len(pair.ours.world.scripted)
    everything_but_velocities = seen.shape[-1] - 2 * prey
    same = slice(0, everything_but_velocities)
    np.testing.assert_allclose(seen[..., same], expected[..., same], atol=1e-4)
    # Fault: of the prey's velocities only the last is seen there.
    np.testing.assert_allclose(seen[..., -2:], expected[..., -2:], atol=1e-4)
    assert expected.shape[-1] == everything_but_velocities + 2


def test_their_fault_everything_is_hidden_if_all_together_is_far(pair):
    """There the view radius is compared with the root of all squared distances at once."""
    pair = pair(3)
    state = pair.states(0)
    place = jnp.array([[0, 0], [1.2, 0], [0, 1.2], [1.2, 0.1], [-1.2, 0], [0, -1.2]], jnp.float32)
    state = State(jnp.broadcast_to(place, (B, 6, 2)), 0 * state.velocity, state.message, state.goal, state.step)
    (_, _, seen), (_, _, expected, *_) = pair.step_both(state, 0)
    assert not np.asarray(expected[:, 0, 4:]).any()
    np.testing.assert_allclose(seen[:, 0, 4:8], np.broadcast_to([-1.2, 0, 0, -1.2], (B, 4)), atol=1e-4)


def test_only_what_is_near_is_seen(env):
    env = env("simple_facmac_3a")
    place = jnp.array([[0, 0], [1.4, 0], [0, 1.6], [9.0, 0], [-1.6, 0], [0, -1.4]], jnp.float32)
    velocity = jnp.ones((4, 2))
    state = State(place, velocity, jnp.zeros((0, 0)), jnp.zeros(0, jnp.int32), jnp.zeros((), jnp.int32))
    seen = np.asarray(env._observe(state, env.default_params)[0])
    np.testing.assert_allclose(seen, [1, 1, 0, 0, 0, 0, 0, -1.4, 1.4, 0, 0, 0, 0, 0, 0, 0], atol=1e-6)


def test_their_fault_observation_spaces(env):
    """16 for everybody there, whatever the number of agents; here what is seen."""
    theirs = jaxmarl.make("MPE_simple_facmac_6a_v1")
    assert theirs.observation_spaces["adversary_0"].shape == (16,)
    assert env("simple_facmac_6a").observation_space().shape == (4 + 2 * 4 + 2 * 7 + 2 * 2,)


def test_their_fault_no_options(env):
    with pytest.raises(TypeError):
        jaxmarl.make("MPE_simple_facmac_3a_v1", max_steps=10)
    assert env("simple_facmac_3a", max_steps=10).default_params.max_steps == 10


def test_their_fault_one_step_too_many(pair):
    pair = pair(3)
    state = pair.states(0)
    for step, ended in ((24, False), (25, True)):  # steps before this one: 25 or 26 with it
        theirs = pair.step_theirs(
            jax.random.split(jax.random.PRNGKey(0), B),
            State(state.position, state.velocity, state.message, state.goal, jnp.full(B, step)),
            jnp.zeros((B, 3, 5)),
        )
        assert bool(theirs[3].all()) is ended


def hunted(env, prey, predators):
    """A state with prey and predators there, and obstacles out of the way."""
    world = env.world
    place = jnp.concatenate([jnp.asarray(predators), jnp.asarray(prey), jnp.full((len(world.landmarks), 2), 50.0)])
    velocity = jnp.zeros((len(world.movers), 2))
    return State(
        place.astype(jnp.float32), velocity, jnp.zeros((0, 0)), jnp.zeros(0, jnp.int32), jnp.zeros((), jnp.int32)
    )


def test_prey_flees_from_the_nearest_predator_in_any_direction(env):
    """Theirs never looks between 255 and 360 degrees, and takes predator 0 for the nearest."""
    env = env("simple_facmac_3a")
    script = jax.jit(env.script)
    for turn in np.arange(8) * np.pi / 4:
        away = np.array([np.cos(turn), np.sin(turn)])
        state = hunted(env, [[0.0, 0.0]], [3 * away, -0.5 * away, [3.0, 3.0]])
        force = script(jax.random.key(0), state, env.default_params)
        assert np.asarray(force[0]) @ away > 0.8


def test_their_fault_prey_in_the_open_stands_still(pair):
    """There a spot counts as free only if a predator is on it."""
    pair = pair(3)
    state = hunted(pair.ours, [[0.0, 0.0]], [[3.0, 0.0], [0.0, 3.0], [-3.0, 0.0]])
    their_force = pair.theirs._prey_policy(jax.random.PRNGKey(0), pair.as_theirs(state), 3)
    assert not np.asarray(their_force).any()
    force = jax.jit(pair.ours.script)(jax.random.key(0), state, pair.ours.default_params)
    assert np.linalg.norm(force[0]) > 0.8


def test_their_fault_all_prey_draw_the_same_spots(env):
    env = env("simple_facmac_6a")
    state = hunted(env, [[0.0, 0.0], [0.0, 0.0]], [[3.0, 0.1 * i] for i in range(6)])
    one, other = jax.jit(env.script)(jax.random.key(0), state, env.default_params)
    assert np.abs(one - other).max() > 1e-3


def test_prey_that_cannot_get_away_does_nothing(env):
    env = env("simple_facmac_3a", num_good=1, view_radius=1.0)
    state = hunted(env, [[0.0, 0.0]], [[0.0, 0.0]] * 3)
    params = env.default_params
    large = np.full_like(params.size, 2.0)
    force = env.script(jax.random.key(0), state, type(params)(**{**vars(params), "size": large}))
    assert not np.asarray(force).any()


@pytest.mark.parametrize("score", ["min", "sum"])
def test_prey_by_the_book(env, score):
    """The script as FACMAC tells it, in loops, on the same draws."""
    env = env("simple_facmac", num_adversaries=3, num_good=2, score=score)
    script = jax.jit(lambda key, state: env.script(key, state, env.default_params))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        state = hunted(env, rng.uniform(-0.4, 0.4, (2, 2)), rng.uniform(-0.6, 0.6, (3, 2)))
        draws = np.asarray(jax.random.uniform(jax.random.key(seed), (2, 2, 100)))
        expected = [
            flee(np.asarray(state.position[:5]), env.default_params.size, 3 + i, draws[:, i], score) for i in (0, 1)
        ]
        np.testing.assert_allclose(script(jax.random.key(seed), state), expected, atol=1e-5)


def flee(place, size, me, draws, score):
    best, best_value = np.zeros(2), 0.0
    predators = range(3)
    nearest = min(predators, key=lambda p: np.linalg.norm(place[p] - place[me]))
    for length, angle in zip(np.sqrt(draws[0]), 2 * np.pi * draws[1], strict=True):
        vector = length * np.array([np.cos(angle), np.sin(angle)])
        there = place[me] + vector
        if score == "min":
            way, feared, counted = [there], predators, [nearest]
        else:
            way = [place[me] + vector * part for part in (0.2, 0.4, 0.6, 0.8, 1.0)]
            feared = counted = [other for other in range(5) if other != me]
        if any(np.linalg.norm(place[o] - spot) < size[o] + size[me] for o in feared for spot in way):
            continue
        value = sum(np.linalg.norm(place[o] - there) for o in counted)
        if value > best_value:
            best, best_value = vector, value
    return best
