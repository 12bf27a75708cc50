"""What hide-and-seek says of its observations and global states, against the world read number by number."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of

import jaxrl
from jaxrl.algos import ippo, mappo
from jaxrl.envs.hide_and_seek.observe import OBJECT, OTHER, OWN
from jaxrl.envs.hide_and_seek.world import HALF_SIZES
from jaxrl.nn.entities import EntityTorso

B = 8
WORLDS = (
    *("chase?num_hiders=2", "room?num_rays=0", "random_walls?num_hiders=3"),
    pytest.param("quadrant?num_hiders=3&num_boxes=0&num_long_boxes=3", marks=pytest.mark.slow),
)
make = functools.cache(jaxrl.make)
BIG = make("hide_and_seek/random_walls?num_hiders=3")  # 3 hiders, 2 seekers, 3 boxes, 2 long boxes, 2 ramps


@functools.cache
def worlds(env):
    """B worlds in which all sorts of things happen, and half of all is seen: NumPy leaves `[B, ...]`."""
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), B))
    rng, state = np.random.default_rng(0), jax.tree.map(np.asarray, state)

    def like(leaf):
        return rng.normal(size=leaf.shape).astype(np.float32)

    return dataclasses.replace(
        state,
        velocity=like(state.velocity),
        spin=like(state.spin),
        height=rng.uniform(size=state.height.shape).astype(np.float32),
        held=rng.integers(-1, env.cast.num_objects, state.held.shape, np.int32),
        object_velocity=like(state.object_velocity),
        locked_by=rng.integers(-1, 2, state.locked_by.shape, np.int32),
        sight=rng.uniform(size=state.sight.shape) < 0.5,
        step=rng.integers(0, env.default_params.max_steps, state.step.shape, np.int32),
    )


@functools.cache
def compiled(env):
    """What makes observations and global states, once for all tests."""
    return jax.jit(env.batch_observation), jax.jit(jax.vmap(env.global_state))


def observations(env, state):
    return compiled(env)[0](state)


def global_states(env, state):
    return compiled(env)[1](state)


def rows_of(entities, vectors):
    """The rows of each kind, `{kind: [..., K, F]}`."""
    return {group.kind: np.asarray(group.rows(vectors)) for group in entities.groups}


def slow_rows(env, state, b, i):
    """The entities of agent i in world b, read off the world one by one: `{kind: K lists of F numbers}`."""
    rows = {}
    for j in range(env.num_agents):
        if j == i:
            continue
        dx, dy = state.position[b, j] - state.position[b, i]
        vx, vy = state.velocity[b, j] / 2
        cos, sin = state.heading[b, j]
        facts = {"seen": 1, "dx": dx, "dy": dy, "vx": vx, "vy": vy, "cos": cos, "sin": sin}
        facts |= {"height": state.height[b, j], "is_mate": env.teams[i] == env.teams[j]}
        seen = state.sight[b, i, j]
        rows.setdefault("agent", []).append([float(facts[name]) * seen for name in OTHER])
    for o, kind in enumerate(env.cast.kinds):
        dx, dy = state.object_position[b, o] - state.position[b, i]
        vx, vy = state.object_velocity[b, o] / 2
        cos, sin = state.object_heading[b, o]
        owner, (length, width) = state.locked_by[b, o], HALF_SIZES[kind]
        facts = {"seen": 1, "dx": dx, "dy": dy, "vx": vx, "vy": vy, "cos": cos, "sin": sin}
        facts |= {"half_length": length, "half_width": width, "is_ramp": kind == "ramp", "is_locked": owner >= 0}
        facts |= {"is_locked_by_us": owner == env.teams[i], "is_held_by_me": state.held[b, i] == o}
        seen = state.sight[b, i, env.num_agents + o]
        rows.setdefault(kind, []).append([float(facts[name]) * seen for name in OBJECT])
    return rows


@pytest.mark.parametrize("name", WORLDS)
def test_an_observation_lists_what_the_agent_sees(name):
    env = make(f"hide_and_seek/{name}")
    assert env.entities.misfit(env.observation_space(), env.action_space()) is None
    state = worlds(env)
    obs = observations(env, state)
    read = rows_of(env.entities, obs)
    for b in range(B):
        for i in range(env.num_agents):
            slow = slow_rows(env, state, b, i)
            assert list(slow) == list(read)
            for kind, rows in slow.items():
                np.testing.assert_allclose(read[kind][b, i], rows, atol=1e-6)
    np.testing.assert_array_equal(env.entities.own(obs), np.asarray(obs)[..., : len(OWN) + env.num_rays])


def test_only_what_is_out_of_sight_is_all_zero():
    state = worlds(BIG)
    rows = rows_of(BIG.entities, observations(BIG, state))
    there = np.concatenate([(rows[kind] != 0).any(-1) for kind in ("agent", "box", "long", "ramp")], axis=-1)
    others = ~np.eye(BIG.num_agents, there.shape[-1] + 1, dtype=bool)
    seen = state.sight[:, others].reshape(there.shape)
    np.testing.assert_array_equal(there, seen)
    assert 0.4 < seen.mean() < 0.6


def slow_state_rows(env, state, b):
    """The entities of world b, likewise."""
    rows = {}
    for i, team in enumerate(env.teams):
        place, held = state.position[b, i] / 3 - 1, state.held[b, i] >= 0
        facts = [
            *place,
            *state.velocity[b, i] / 2,
            *state.heading[b, i],
            state.spin[b, i] / 4,
            state.height[b, i],
            held,
        ]
        rows.setdefault(("hider", "seeker")[team], []).append(facts)
    for o, kind in enumerate(env.cast.kinds):
        place, locks = state.object_position[b, o] / 3 - 1, [state.locked_by[b, o] == team for team in (0, 1)]
        facts = [*place, *state.object_velocity[b, o] / 2, *state.object_heading[b, o], *locks]
        rows.setdefault(kind, []).append(facts)
    rows["wall"] = [wall / 6 * (wall[2] > 0) for wall in state.walls[b]]
    if len(state.doors[b]):
        rows["door"] = list(state.doors[b] / 6)
    return rows


@pytest.mark.parametrize("name", WORLDS)
def test_a_global_state_lists_everything(name):
    """What is left for nobody is the clock; who sees whom is not used."""
    env = make(f"hide_and_seek/{name}")
    state, params = worlds(env), env.default_params
    vectors = global_states(env, state)
    read = rows_of(env.state_entities, vectors)
    for b in range(B):
        slow = slow_state_rows(env, state, b)
        assert list(slow) == list(read)
        for kind, rows in slow.items():
            np.testing.assert_allclose(read[kind][b], np.array(rows, np.float32), atol=1e-6)
    ready = np.maximum(params.preparation - state.step, 0) / max(int(params.preparation), 1)
    clock = np.stack([ready, 1 - state.step / params.max_steps], -1)
    np.testing.assert_allclose(env.state_entities.own(vectors), clock, atol=1e-6)
    [(start, size)] = env.state_entities.unused
    np.testing.assert_array_equal(vectors[:, start : start + size], state.sight.reshape(B, -1))


def test_walls_that_are_not_there_are_absent():
    env = make("hide_and_seek/chase?num_hiders=2")
    state = worlds(env)
    there = (rows_of(env.state_entities, global_states(env, state))["wall"] != 0).any(-1)
    np.testing.assert_array_equal(there, np.asarray(state.walls)[..., 2] > 0)
    assert 0.3 < there.mean() < 0.7


def reordered(state, agents, objects):
    """The same worlds with agents and objects in another order: the k-th is then the old `agents[k]`."""
    sight = np.concatenate([agents, len(agents) + np.array(objects)])
    changes = {name: getattr(state, name)[:, agents] for name in ("position", "velocity", "heading", "spin", "height")}
    for name in ("object_position", "object_heading", "object_velocity", "locked_by"):
        changes[name] = getattr(state, name)[:, objects]
    held = np.array([*np.argsort(objects), -1])[state.held[:, agents]]
    return dataclasses.replace(state, **changes, held=held, sight=state.sight[:, agents][:, :, sight])


def features(entities, vectors):
    """What a torso with random weights makes of them, and their rows."""
    torso = EntityTorso(entities, (16,))
    (numbers, _), _ = jax.jit(torso.init_with_output)(jax.random.key(1), vectors)
    return np.asarray(numbers), rows_of(entities, vectors)


# Two boxes, the long boxes and the ramps change places; or the last two hiders and the seekers.
OBJECTS = ([0, 1, 2, 3, 4], [2, 1, 0, 4, 3, 6, 5])
AGENTS = ([0, 2, 1, 4, 3], [0, 1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(
    ("orders", "observers", "turned"),
    [
        (OBJECTS, range(5), {"agent": [0, 1, 2, 3], "box": [2, 1, 0], "long": [1, 0], "ramp": [1, 0]}),
        (AGENTS, [0], {"agent": [1, 0, 3, 2], "box": [0, 1, 2], "long": [0, 1], "ramp": [0, 1]}),
    ],
    ids=["objects", "agents"],
)
def test_the_order_of_what_is_seen_means_nothing(orders, observers, turned):
    state = worlds(BIG)
    before, after = (observations(BIG, s)[:, list(observers)] for s in (state, reordered(state, *orders)))
    numbers, rows = features(BIG.entities, before)
    same, new = features(BIG.entities, after)
    for kind, order in turned.items():
        np.testing.assert_array_equal(new[kind], rows[kind][..., order, :])
    np.testing.assert_allclose(same, numbers, atol=1e-5)
    assert np.abs(before - after).max() > 0.1
    assert np.ptp(numbers, axis=0).min() > 0.01


@pytest.mark.parametrize(
    ("orders", "turned"),
    [
        (OBJECTS, {"hider": [0, 1, 2], "seeker": [0, 1], "box": [2, 1, 0], "long": [1, 0], "ramp": [1, 0]}),
        (AGENTS, {"hider": [0, 2, 1], "seeker": [1, 0], "box": [0, 1, 2], "long": [0, 1], "ramp": [0, 1]}),
    ],
    ids=["objects", "agents"],
)
def test_the_order_within_a_kind_means_nothing_to_a_critic(orders, turned):
    state = worlds(BIG)
    before, after = (global_states(BIG, s) for s in (state, reordered(state, *orders)))
    numbers, rows = features(BIG.state_entities, before)
    same, new = features(BIG.state_entities, after)
    for kind, order in turned.items():
        np.testing.assert_array_equal(new[kind], rows[kind][:, order])
    np.testing.assert_allclose(same, numbers, atol=1e-5)
    assert np.abs(before - after).max() > 0.1
    across = global_states(BIG, reordered(state, [3, 1, 2, 0, 4], range(7)))  # a seeker in the place of a hider
    assert np.abs(features(BIG.state_entities, across)[0] - numbers).max() > 1e-3


@pytest.mark.parametrize("module", [ippo, mappo])
def test_parameters_fit_any_number_of_agents_and_objects(module):
    def shapes(name):
        config = module.Config(env=f"hide_and_seek/{name}", torso="entities", total_timesteps=65536)
        networks = agent_of(module.make(config)).networks
        return jax.tree.map(jnp.shape, jax.eval_shape(networks.init, jax.random.key(0)))

    assert shapes("quadrant") == shapes("quadrant?num_hiders=3&num_seekers=1&num_boxes=5&num_ramps=2")
    assert shapes("quadrant") != shapes("quadrant?num_ramps=0")  # an embedding of ramps is missing
