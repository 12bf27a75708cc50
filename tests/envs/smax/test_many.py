"""Random battles of equal price, edits of them, and several battles in one program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import UNIT_TABLES, terrain

B = 512


@pytest.fixture(scope="module")
def drawn():
    env = jaxrl.make("smax/random?budget=500")
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), B))
    return env, state


def test_armies_cost_about_the_same(drawn):
    _, state = drawn
    types = np.asarray(state.env.unit_type).reshape(B, 2, 8)
    prices = np.asarray([*(unit.price for unit in UNIT_TABLES["smax"].values()), 0.0])
    ours, theirs = prices[types].sum(2).T
    assert (np.abs(ours - theirs) <= 0.05 * ours).mean() > 0.98
    assert ours.max() <= 500
    assert ours.mean() > 450
    assert len(np.unique(np.sort(types[:, 0], axis=1), axis=0)) > 50  # many different armies


def test_free_places_are_nobody(drawn):
    """Nobody there sees, acts, counts or can be shot."""
    env, state = drawn
    there = np.array(state.env.unit_type >= 0)
    np.testing.assert_array_equal(np.asarray(state.env.health) > 0, there)
    np.testing.assert_array_equal(jax.vmap(env.agent_mask)(state), there[:, :8])
    mask = np.asarray(jax.vmap(env.action_mask)(state))
    targeted = np.any(mask[..., 5:], axis=1, keepdims=True)[:, 0]
    assert not targeted[np.invert(there[:, 8:])].any()
    obs = np.asarray(env.batch_observation(state))
    assert not obs[:, :8][np.invert(there[:, :8])].any()


def test_zones_mirror_each_other_and_nobody_stands_in_a_wall(drawn):
    _, state = drawn
    zones, lineup = state.own.zones, state.own.lineup
    np.testing.assert_allclose(zones.x[:, :2] + zones.x[:, 2:], 32, atol=1e-4)
    for field in ("kind", "y", "half_width", "half_height", "round", "effect"):
        leaf = np.asarray(getattr(zones, field))
        np.testing.assert_array_equal(leaf[:, :2], leaf[:, 2:])
    walled = jax.vmap(lambda z, x, y: terrain.in_wall(z, x, y, 0.9))(zones, lineup.x, lineup.y)
    there = np.asarray(lineup.unit_type) >= 0
    assert (np.asarray(walled) & there).mean() < 1e-3
    assert (np.asarray(lineup.x)[:, :8] < 32 / 3 + 1e-3).all()
    assert (np.asarray(lineup.x)[:, 8:] > 64 / 3 - 1e-3).all()


def test_an_edit_changes_one_thing(drawn):
    """Another unit of about its price, another place near the old one, or one pair of zones."""
    env, state = drawn
    edited = jax.jit(jax.vmap(env.mutate))(jax.random.split(jax.random.key(1), B), state)
    before, after = state.own, edited.own
    types = np.asarray(before.lineup.unit_type != after.lineup.unit_type)
    places = np.asarray((before.lineup.x != after.lineup.x) | (before.lineup.y != after.lineup.y))
    zones = np.zeros((B, 4), bool)
    for old, new in zip(jax.tree.leaves(before.zones), jax.tree.leaves(after.zones), strict=True):
        zones |= np.asarray(old != new)
    changed = np.stack([types.sum(1), places.sum(1), zones.sum(1) / 2], axis=1)
    assert (changed.sum(1) <= 1).all()
    assert (changed.mean(0) > 0.1).all()  # all three happen
    # The start is made of the edited parameters.
    np.testing.assert_array_equal(edited.env.unit_type, after.lineup.unit_type)
    there = np.asarray(after.lineup.unit_type) >= 0
    np.testing.assert_array_equal(np.asarray(edited.env.health) > 0, there)


def test_a_mixture_plays_each_battle_as_it_is_alone():
    """Places, healths, masks and rewards of 3m and 2s3z are the same in a program that also has room for more."""
    mixed = jaxrl.make("smax/mix?battles=3m,2s3z&room=6v7")
    keys = jax.random.split(jax.random.key(0), 64)
    _, state = mixed.batch_reset(keys)
    sizes = (np.asarray(state.env.unit_type) >= 0).sum(1)
    assert set(sizes) == {6, 10}
    for name, team in (("3m", 3), ("2s3z", 5)):
        alone, padded = jaxrl.make(f"smax/{name}"), jaxrl.make(f"smax/mix?battles=3m,2s3z&room=6v7&play={name}")
        start, wide = alone.reset(jax.random.key(2))[1], padded.reset(jax.random.key(3))[1]
        # The same units at the same places: the first of each team.
        rows = np.r_[:team, 6 : 6 + team]
        inside = wide.env
        leaves = {
            name: jnp.asarray(getattr(inside, name)).at[rows].set(getattr(start, name))
            for name in ("position", "health", "cooldown", "unit_type", "move", "attack")
        }
        memory = start.memory._replace(
            goal=inside.memory.goal.at[:team].set(start.memory.goal),
            target=inside.memory.target.at[:team].set(start.memory.target),
        )
        wide = wide._replace(env=type(inside)(**{**vars(inside), **leaves, "memory": memory}))
        np.testing.assert_array_equal(padded.action_mask(wide)[:team, : 5 + team], alone.action_mask(start))
        assert not np.asarray(padded.action_mask(wide))[:, 5 + team :].any()
        # Two steps without chance: everybody walks towards the opponents, then damage and reward are compared.
        exact, action = jnp.zeros((8, 2 * team)), jnp.ones(team, int)
        moved, reward, *_ = alone._advance(jax.random.key(4), start, action, alone.default_params, exact)
        wider = padded.env._advance(jax.random.key(4), wide.env, jnp.ones(6, int), wide.own, jnp.zeros((8, 13)))
        np.testing.assert_allclose(wider[0].position[:team], moved.position[:team], atol=1e-5)
        np.testing.assert_allclose(wider[1][:team], reward, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smax/random?budget=5", "the cheapest costs 25"),
        ("smax/random?num_zones=3", "num_zones must be even"),
        ("smax/random?units=smac", "have no prices"),
        ("smax/mix?battles=3m,8m&room=4v4", 'room must be at least "8v8"'),
        ("smax/mix?battles=3m,smacv2_5_units", "random types"),
        ("smax/mix?battles=3m,mmm", "units of different tables"),
        ("smax/mix?battles=3m,script: expert|allies: 3m|enemies: 3m", "different scripts"),
    ],
)
def test_wrong_options(name, says):
    with pytest.raises(ValueError, match=says):
        jaxrl.make(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smax/random?num_zones=0&max_units=3&script=mixed", "smax/mix?battles=3m,2s3z"])
def test_check(name):
    jaxrl.check_env(jaxrl.make(name))
