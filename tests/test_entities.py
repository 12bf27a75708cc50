"""What environments say of their observations is true: nothing but the described place shows what is done to a unit."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import VectorEnv
from jaxrl.entities import Entities, Group
from jaxrl.spaces import Box, Discrete
from jaxrl.wrappers import FrameStack, ObservationFunction, RandomParams, TimeLimit, as_multi_agent

D = 9
PARTED = Entities(D, (Group("tree", 2, ((1, 1), (5, 2))), Group("stone", 1, ((4, 1),), first_action=2)))


def places(entities, kind, k):
    """The indices of an entity's features."""
    group = next(group for group in entities.groups if group.kind == kind)
    return set(np.asarray(group.rows(np.arange(entities.size)))[k].tolist())


def own_places(entities):
    return {i for where in entities.own_slices for i in range(where.start, where.stop)}


def test_parts_of_an_observation():
    obs = jnp.arange(2 * D).reshape(2, D)
    np.testing.assert_array_equal(PARTED.groups[0].rows(obs)[1], [[10, 14, 15], [11, 16, 17]])
    np.testing.assert_array_equal(PARTED.own(obs)[1], [9, 12])
    assert [group.actions for group in PARTED.groups] == [(), (2,)]
    assert PARTED.misfit(Box(-1, 1, (D,)), Discrete(3)) is None


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([Group("a", 2, ((0, 5),))], "leave the observation of 9 numbers"),
        ([Group("a", 2, ((0, 2),)), Group("b", 1, ((3, 1),))], "overlap"),
        ([Group("a", 0, ((0, 2),))], "empty"),
        ([Group("a", 1, ((0, 2),)), Group("a", 1, ((2, 2),))], "two groups of the same kind"),
        ([Group("a", 3, ((0, 2),), 1)], r"actions \[1, 2, 3\], which are none of Discrete"),
        ([Group("a", 1, ((0, 2),), 1), Group("b", 1, ((2, 2),), 1)], "or are twice"),
        ([Group("a", 2, ((0, 2),), scale=(1.0, 2.0, 3.0))], "3 scales for the 2 features of each a"),
    ],
)
def test_what_does_not_fit_is_told(groups, problem):
    entities = Entities(D, tuple(groups))
    told = entities.misfit(Box(-1, 1, (D,)), Discrete(3))
    assert told
    assert re.search(problem, told)


def test_features_are_scaled_and_what_is_unused_is_left_out():
    obs = jnp.arange(2 * D).reshape(2, D)
    scaled = Group("tree", 2, ((1, 1), (5, 2)), scale=(1.0, 0.5, 10.0))
    np.testing.assert_array_equal(scaled.rows(obs)[1], [[10, 7, 150], [11, 8, 170]])
    entities = Entities(D, (scaled,), unused=((3, 2),))
    assert own_places(entities) == {0}
    assert entities.misfit(Box(-1, 1, (D,)), Discrete(3)) is None
    overlapping = Entities(D, (scaled,), unused=((2, 2),))
    assert "overlap" in str(overlapping.misfit(Box(-1, 1, (D,)), Discrete(3)))


def test_other_observations_do_not_fit():
    assert "vectors of 9 numbers" in str(PARTED.misfit(Box(-1, 1, (D + 1,)), Discrete(3)))
    assert "vectors of 9 numbers" in str(PARTED.misfit(Discrete(D), Discrete(3)))


def crowd(env):
    """A battle in which everybody sees and reaches everybody, and no two numbers are alike."""
    _, state = jax.jit(env.reset)(jax.random.key(0))
    rng = np.random.default_rng(0)
    position = 16 + rng.uniform(-0.6, 0.6, state.position.shape)
    health = state.health * rng.uniform(0.8, 1.0, state.health.shape)
    return dataclasses.replace(state, position=jnp.float32(position), health=jnp.float32(health))


@pytest.mark.parametrize("name", ["smax/2s3z", "smax/5m_vs_6m", "smax/selfplay", "smax/selfplay?compat=jaxmarl-0.2"])
def test_smax_shows_a_unit_where_it_says(name):
    env = jaxrl.make(name)
    observation, state = jax.jit(env.observation), crowd(env)
    before, entities = np.asarray(observation(state)), env.entities
    assert entities.misfit(env.observation_space(), env.action_space()) is None
    seen_twice = [set() for _ in env.agents]
    for unit in range(env.num_units):
        after = np.asarray(observation(dataclasses.replace(state, health=state.health.at[unit].multiply(0.5))))
        for i in range(len(env.agents)):
            changed = set(np.flatnonzero(before[i] != after[i]).tolist())
            mate = (unit < env.num_allies) == (i < env.num_allies)
            count = entities.groups[0 if mate else -1].count
            allowed = [places(entities, "ally" if mate else "enemy", k) for k in range(count)]
            at = [own_places(entities)] if unit == i else [there for there in allowed if changed <= there]
            assert changed, (unit, i)
            assert len(at) == 1
            assert changed <= at[0]
            assert not changed & seen_twice[i]  # every unit has a place of its own
            seen_twice[i] |= changed


@pytest.mark.parametrize("name", ["smax/2s3z", "smax/5m_vs_6m", "smax/selfplay"])
def test_smax_tells_of_a_unit_where_it_says_in_the_global_state(name):
    env = jaxrl.make(name)
    global_state, state = jax.jit(env.global_state), crowd(env)
    before, entities = np.asarray(global_state(state)), env.state_entities
    for unit in range(env.num_units):
        kind, k = ("ally", unit) if unit < env.num_allies else ("enemy", unit - env.num_allies)
        group = next(group for group in entities.groups if group.kind == kind)
        plain = dataclasses.replace(entities, groups=(dataclasses.replace(group, scale=()),))
        changed = {"health": state.health.at[unit].multiply(0.5), "position": state.position.at[unit].add(0.1)}
        after = np.asarray(global_state(dataclasses.replace(state, **changed)))
        assert set(np.flatnonzero(before != after).tolist()) <= places(plain, kind, k)
        assert (before != after).sum() == 3
        dead = dataclasses.replace(state, health=state.health.at[unit].set(0.0))
        assert not np.any(group.rows(global_state(dead))[k])
        assert np.abs(group.rows(before)).max() < 2


@pytest.mark.parametrize(
    "name",
    [pytest.param("smax/2s3z", marks=pytest.mark.slow), "smax/selfplay", "smax/selfplay?compat=jaxmarl-0.2"],
)
def test_attacks_hurt_the_unit_that_they_point_at(name):
    env = jaxrl.make(name)
    state, step, see = crowd(env), jax.jit(env.step_env), jax.jit(env.observation)
    group = env.entities.groups[-1]
    for shooter in {0, env.num_agents - 1}:
        for k, attack in enumerate(group.actions):
            action = jnp.full(env.num_agents, 4).at[shooter].set(attack)  # all others stand still
            after = step(jax.random.key(1), state, action, env.default_params)[1]
            health = [np.asarray(group.rows(see(s)[shooter]))[:, 0] for s in (state, after)]
            assert np.flatnonzero(health[1] < health[0]).tolist() == [k]


@pytest.mark.parametrize(
    ("name", "landmarks", "movers"),
    [
        # The kinds of landmarks in order, and for an agent that sees the s-th other mover: which entity that is.
        ("simple_spread?num_agents=4", ["landmark"] * 4, lambda env, s: ("agent", s)),
        ("simple_tag", ["obstacle"] * 2, lambda env, s: ("adversary", s) if s < 2 else None),
        ("simple_tag?num_good=2", ["obstacle"] * 2, lambda env, s: ("adversary", s) if s < 2 else None),
        ("simple_facmac_6a", ["obstacle"] * 4, lambda env, s: ("adversary", s) if s < 5 else ("agent", s - 5)),
        ("simple_world_comm", ["obstacle", "food", "food", None, None], lambda env, s: None),
    ],
)
def test_mpe_shows_a_body_where_it_says(name, landmarks, movers):
    env = jaxrl.make(f"mpe/{name}")
    params = env.default_params
    if "facmac" in name:
        params = dataclasses.replace(params, rules=params.rules._replace(view_radius=np.float32(np.inf)))
    hidden = "world_comm" in name  # forests hide agents
    entities, num_movers = env.entities, len(env.world.movers)
    assert entities.misfit(env.observation_space(), env.action_space()) is None
    _, state = jax.jit(env.reset)(jax.random.key(0))
    speeds = np.random.default_rng(0).normal(size=state.velocity.shape)
    state = dataclasses.replace(state, velocity=jnp.float32(speeds))
    observe = jax.jit(lambda state: env._observe(state, params))
    before = np.asarray(observe(state))
    for body in range(len(env.world.bodies)):
        moved = {"position": state.position.at[body].add(0.01)}
        if body < num_movers:
            moved["velocity"] = state.velocity.at[body].add(0.1)
        after = np.asarray(observe(dataclasses.replace(state, **moved)))
        for i in range(env.num_agents):
            if body == i:
                continue
            changed = set(np.flatnonzero(np.abs(before[i] - after[i]) > 1e-6).tolist())
            if body < num_movers:
                entity = movers(env, body - (body > i))
            else:
                kind = landmarks[body - num_movers]
                entity = kind and (kind, landmarks[: body - num_movers].count(kind))
            allowed = own_places(entities) if entity is None else places(entities, *entity)
            assert changed or (hidden and body < num_movers), (body, i)
            assert changed <= allowed, (body, i)


@pytest.mark.parametrize(
    "name", ["smax/3m?observation_type=conic", "smax/5m_vs_6m?mode=selfplay", "mpe/simple_push", "classic/cartpole"]
)
def test_where_agents_see_no_common_entities_nothing_is_said(name):
    assert jaxrl.make(name).entities is None


def test_continuous_actions_point_at_nothing():
    assert [group.actions for group in jaxrl.make("smax/3m?action_type=continuous").entities.groups] == [(), ()]


def test_wrappers_say_the_same_unless_they_change_the_observation():
    env = jaxrl.make("smax/3m")
    same = TimeLimit(RandomParams(env, lambda key, params, progress: params), 9)
    assert same.entities == env.entities == VectorEnv(env, 2).entities == as_multi_agent(env).entities
    assert as_multi_agent(same).state_entities == as_multi_agent(env).state_entities is not None
    assert FrameStack(env, 2).entities is None
    assert ObservationFunction(env, jnp.tanh).entities is None
