"""Algorithms with entity networks: they train, share parameters, and play battles of other sizes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of

from jaxrl.acting.rollout import Observation
from jaxrl.algos import ippo, mappo, ppo, qmix, sac, team
from jaxrl.rl.devices import SIDE_BY_SIDE

SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "total_timesteps": 96, "hidden": (8,), "torso": "entities"}
FRESH: dict[str, Any] = {"num_minibatches": 2}
REPLAY: dict[str, Any] = {"learning_starts": 8, "buffer_size": 64, "batch_size": 8}
VARIANTS = {
    "ippo, gru, two torsos, by role": (
        ippo,
        {**FRESH, "env": "mpe/simple_tag", "memory": "gru", "memory_size": 4, "share_torso": False},
    ),
    "mappo": (mappo, {**FRESH, "env": "smax/3m", "sharing": "none"}),
    "qmix": (qmix, {**REPLAY, "env": "smax/3m"}),
    "sac": (sac, {**REPLAY, "env": "mpe/simple_spread?action_type=continuous"}),
}
FAST = ("ippo, gru, two torsos, by role",)


@pytest.mark.parametrize(
    "variant", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_every_kind_of_algorithm_learns_with_them(variant):
    """Two seeds at once, which differ."""
    module, fields = VARIANTS[variant]
    algo = module.make(module.Config(**SMALL | fields))
    with jax.debug_key_reuse(False):  # it mistakes a key that is split inside a vmapped scan for a used one
        start = jax.jit(jax.vmap(algo.init))(jax.random.split(jax.random.key(0), 2))
        update, state, metrics = jax.jit(jax.vmap(algo.update)), start, {}
        for _ in range(3):
            state, metrics = update(state)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state.params, metrics["losses"])))
    named = jax.tree_util.tree_flatten_with_path(start.params)[0]
    moved = [
        np.abs(np.asarray(new) - np.asarray(old)).reshape(2, -1).max(axis=1)
        for (path, old), new in zip(named, jax.tree.leaves(state.params), strict=True)
        if "EntityTorso_0" in str(path)
    ]
    assert len(moved) >= 4
    assert np.min(moved) > 0
    assert not np.isclose(*np.transpose(moved)).all()


@pytest.mark.parametrize("module", [ippo, pytest.param(mappo, marks=pytest.mark.slow)])
def test_learning_in_parts_is_learning_at_once(module, monkeypatch):
    """Four parts of four rows each, in which some marines may be dead: the same parameters and losses to rounding."""
    config = module.Config(**SMALL | FRESH, env="smax/3m")
    learned, init = [], jax.jit(module.make(config).init)
    for entities in (1 << 30, 4 * 3 * 5):  # rows, agents, others
        monkeypatch.setattr(team, "ENTITIES_AT_ONCE", entities)
        state, metrics = jax.jit(module.make(config).update)(init(jax.random.key(0)))
        learned.append((state.params, metrics["losses"]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), *learned)


@pytest.mark.parametrize(("rows", "parts"), [(16, 4), (8, 2)])
def test_a_part_is_what_a_cache_can_hold(rows, parts, monkeypatch):
    monkeypatch.setattr(team, "ENTITIES_AT_ONCE", 4 * 3 * 5 + 1)
    agent = agent_of(ippo.make(ippo.Config(**SMALL, **FRESH, env="smax/3m")))
    nothing: Any = None
    batch = ppo.Batch(*(nothing,) * 7, weight=jnp.ones((1, rows, 3)), carry=())
    assert team.parts_of_minibatch(agent, batch) == parts


def test_members_side_by_side_share_the_cache(monkeypatch):
    monkeypatch.setattr(team, "ENTITIES_AT_ONCE", 2 * 4 * 3 * 5 + 1)
    agent = agent_of(ippo.make(ippo.Config(**SMALL, **FRESH, env="smax/3m")))
    nothing: Any = None

    def parts(weight):
        return team.parts_of_minibatch(agent, ppo.Batch(*(nothing,) * 7, weight=weight, carry=()))

    of_members = jax.vmap(lambda weight: jnp.int32(parts(weight)), axis_name=SIDE_BY_SIDE)
    assert (parts(jnp.ones((1, 16, 3))), of_members(jnp.ones((2, 1, 16, 3))).tolist()) == (2, [4, 4])


def test_only_entities_without_a_memory_are_learned_in_parts():
    """Flat networks gain nothing, and a memory needs long rows."""
    for fields, grad in (
        ({}, team.gradient_in_parts),
        ({"torso": "flat"}, ppo.gradient_of_loss),
        ({"memory": "gru"}, ppo.gradient_of_loss),
    ):
        assert agent_of(ippo.make(ippo.Config(**{**SMALL, **FRESH, "env": "smax/3m", **fields}))).grad is grad


@pytest.mark.parametrize("torso", ["entities", "relations"])
def test_the_central_critic_does_not_care_about_the_order_of_units(torso):
    config = mappo.Config(**SMALL | {"torso": torso}, env="smax/5m_vs_6m")
    env = config.make_env()
    networks = mappo.networks(config, env, config.param_sets(env))
    params, apply = jax.jit(networks.init)(jax.random.key(0)), jax.jit(networks.apply)
    look = jax.jit(lambda s: (env.observation(s), env.action_mask(s), env.agent_mask(s)))
    see_all, state = jax.jit(env.global_state), jax.jit(env.reset)(jax.random.key(1))[1]

    def value(order, health=1.0):
        units = [jnp.take(leaf, np.array(order), axis=0) for leaf in (state.position, state.health, state.unit_type)]
        moved = dataclasses.replace(state, position=units[0], health=units[1] * health, unit_type=units[2])
        obs, action_mask, agent_mask = jax.tree.map(lambda leaf: leaf[None, None], look(state))
        observation = Observation(obs, see_all(moved)[None, None], action_mask, agent_mask)
        return apply(params, networks.new_carry(1), observation, jnp.ones((1, 1), bool))[2]

    ordered = list(range(11))
    swapped = [4, 1, 2, 3, 0, 5, 10, 7, 8, 9, 6]
    np.testing.assert_allclose(value(ordered), value(swapped), rtol=1e-5)
    across = [5, 1, 2, 3, 4, 0, 6, 7, 8, 9, 10]  # an enemy in the place of an ally
    assert np.abs(value(ordered) - value(across)).max() > 1e-4
    assert np.abs(value(ordered) - value(ordered, health=0.5)).max() > 1e-4


@pytest.mark.parametrize("torso", ["entities", "relations"])
def test_a_policy_plays_battles_of_another_size(torso):
    def made(name):
        algo = ippo.make(ippo.Config(**SMALL | {"torso": torso}, env=name))
        return algo, jax.eval_shape(algo.init, jax.random.key(0))

    (small, _), (large, shapes) = made("smax/3m"), made("smax/8m")
    state = jax.jit(small.init)(jax.random.key(0))
    assert jax.tree.map(jnp.shape, state.params) == jax.tree.map(jnp.shape, shapes.params)
    env = ippo.Config(env="smax/8m").make_env()
    obs, battle = jax.jit(env.reset)(jax.random.key(1))
    known = dataclasses.replace(shapes, params=state.params)
    mask = env.action_mask(battle)[None]
    action, _ = jax.jit(lambda obs, mask: large.act(known, obs, action_mask=mask))(obs[None], mask)
    assert action.shape == (1, 8)
    assert np.take_along_axis(np.asarray(mask), np.asarray(action)[..., None], -1).all()


def test_a_torso_of_ones_own_has_no_entities():
    with pytest.raises(
        ValueError, match=r"torso=entities has no effect with network=.*; leave it at flat, or leave out"
    ):
        ippo.make(ippo.Config(torso="entities", network="flax.linen:LayerNorm"))
