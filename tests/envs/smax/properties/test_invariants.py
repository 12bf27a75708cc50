"""What holds in any battle, whatever state it is in and whatever its units are told."""

import dataclasses

import chex
import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

from jaxrl.envs.smax.units import stats_of

MODES = ["selfplay", "continuous", "scripted", "continuous policy", "compat"]
MODES += [pytest.param("policy", marks=pytest.mark.slow)]  # most of it is in "continuous policy"
HOSTILE = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -1.0, 0.49, 1.5, 2.0**31, 99.0], np.float32)

examples = hypothesis.settings(derandomize=True, deadline=None, database=None, max_examples=25)


def hostile(arena, example):
    """Actions of which half are hostile, and the example with such actions of a policy that plays the enemy."""
    rng = np.random.default_rng(example.seed + 2)

    def spoil(action):
        return np.where(rng.random(action.shape) < 0.5, rng.choice(HOSTILE, action.shape), action)

    enemy = example.params.enemy
    params = dataclasses.replace(example.params, enemy=None if enemy is None else spoil(enemy))
    return spoil(arena.orders(example.seed)), example._replace(params=params)


@pytest.mark.parametrize("mode", MODES)
@examples
@hypothesis.given(data=st.data())
def test_no_action_corrupts_a_state(arena, mode, data):
    """Nothing is ever NaN or infinite, units stay on the map, health never rises, the dead rest, spaces hold."""
    arena = arena(3, 2, mode)
    action, example = hostile(arena, data.draw(arena.examples()))
    before, params = example.state, example.params
    seen = arena.play(example, action)
    after = seen.state
    for path, leaf in jax.tree_util.tree_leaves_with_path(seen):
        assert np.isfinite(leaf).all(), jax.tree_util.keystr(path)
    dead = np.asarray(before.health) == 0
    assert (after.health <= before.health).all()
    assert (after.health >= 0).all()
    assert (after.step == before.step + 1).all()
    assert not (seen.terminated & seen.truncated).any()
    if mode != "compat":  # jaxmarl's pushes throw units off the map
        assert ((after.position >= 0) & (after.position <= [params.map_width, params.map_height])).all()
        assert (after.position[dead] == np.asarray(before.position)[dead]).all()
        assert np.abs(seen.unit_list).max() <= 1 + 1e-6
        assert np.abs(seen.conic).max() <= 1 + 1e-6


@pytest.mark.parametrize("mode", MODES)
@examples
@hypothesis.given(data=st.data())
def test_actions_outside_count_as_the_nearest_inside(arena, mode, data):
    """And NaN as the lowest. In self-play the highest attack is on the last of the opponents there are."""
    arena = arena(3, 2, mode)
    env = arena.env
    action, example = hostile(arena, data.draw(arena.examples()))

    def clip(action, num_opponents):
        action = np.nan_to_num(action, nan=0.0)
        if env.options.action_type == "continuous":
            return np.clip(action, 0, 1)
        return np.rint(np.clip(action, 0, 4 + num_opponents))

    enemy = example.params.enemy
    params = dataclasses.replace(example.params, enemy=None if enemy is None else clip(enemy, env.num_allies))
    raw = arena.play(example, action)
    clipped = arena.play(example._replace(params=params), clip(action, arena.num_opponents[: env.num_agents]))
    chex.assert_trees_all_equal(raw, clipped)


@pytest.mark.parametrize("mode", ["selfplay", "scripted", "continuous policy"])
@examples
@hypothesis.given(data=st.data())
def test_rewards_are_bounded_and_zero_sum_in_selfplay(arena, mode, data):
    """A team gets `damage_reward` times what it took, at most what was there, and `won_battle_bonus` for a win.

    So the reward of a step lies in [0, damage_reward + won_battle_bonus], in self-play within plus and minus that.
    """
    arena = arena(3, 2, mode)
    env, num_allies = arena.env, arena.env.num_allies
    action, example = hostile(arena, data.draw(arena.examples()))
    seen, params = arena.play(example, action), example.params
    whole = np.asarray(stats_of(params.units, np.asarray(example.state.unit_type)).health)
    left, left_after = np.asarray(example.state.health) / whole, seen.state.health / whole
    allies, enemies = slice(None, num_allies), slice(num_allies, None)
    alive = [(left_after[:, team] > 0).any(1) for team in (allies, enemies)]
    bonus, damage = params.won_battle_bonus, params.damage_reward

    reward = damage * (left - left_after)[:, enemies].mean(1) + bonus * (alive[0] & ~alive[1])
    least, most = 0, damage * left[:, enemies].mean(1) + bonus
    if mode == "selfplay":
        reward -= damage * (left - left_after)[:, allies].mean(1) + bonus * (alive[1] & ~alive[0])
        least = -damage * left[:, allies].mean(1) - bonus
    np.testing.assert_allclose(seen.reward[:, 0], reward, atol=2e-5)
    assert ((least - 2e-5 <= reward) & (reward <= most + 2e-5)).all()
    assert (np.abs(seen.reward) <= damage + bonus + 2e-5).all()
    sign = np.where(np.arange(env.num_agents) < num_allies, 1, -1)
    assert (seen.reward == seen.reward[:, :1] * sign).all()  # to the last bit
    assert (seen.won == (alive[0] & ~alive[1])).all()


@examples
@hypothesis.given(data=st.data())
def test_what_the_dead_are_told_is_ignored(arena, data):
    """Nobody sees it, and nothing comes of it."""
    arena = arena(3, 2, "selfplay")
    example = data.draw(arena.examples())
    dead = np.asarray(example.state.health) == 0
    action = arena.orders(example.seed)
    other = np.where(dead, arena.orders(example.seed + 1), action)
    seen, seen_other = (arena.play(example, a) for a in (action, other))
    for name in ("position", "health", "cooldown"):
        np.testing.assert_array_equal(getattr(seen.state, name), getattr(seen_other.state, name))
    chex.assert_trees_all_equal(seen[1:], seen_other[1:])


@examples
@hypothesis.given(data=st.data())
def test_attacking_the_dead_is_standing_still(arena, data):
    arena = arena(3, 2, "selfplay")
    example = data.draw(arena.examples())
    action = arena.orders(example.seed)
    target = np.maximum(action.astype(int) - 5, 0) + np.where(arena.is_ally, arena.env.num_allies, 0)
    in_vain = (action >= 5) & (np.take_along_axis(np.asarray(example.state.health), target, 1) == 0)
    attacks, stands = (arena.play(example, a) for a in (action, np.where(in_vain, np.float32(4), action)))
    for name in ("position", "health", "cooldown"):
        np.testing.assert_array_equal(getattr(attacks.state, name), getattr(stands.state, name))
    for name in ("reward", "terminated", "mask", "global_state"):
        np.testing.assert_array_equal(getattr(attacks, name), getattr(stands, name))


@examples
@hypothesis.given(data=st.data())
def test_nothing_comes_of_masked_actions(arena, data):
    """If everybody does what the mask forbids, or stops, and nobody stands in anybody's way, only time passes."""
    arena = arena(3, 2, "selfplay")
    example = data.draw(arena.examples())
    units = dataclasses.replace(example.params.units, radius=np.zeros(6, np.float32))
    params = dataclasses.replace(example.params, units=units, walls_cause_death=np.bool_(False))
    mask = np.asarray(arena.look(example.state, params)[-1])
    action = np.arange(mask.shape[2])
    forbidden = ~mask & (action < 5 + arena.num_opponents[:, None])
    order = np.random.default_rng(example.seed).random(mask.shape)
    chosen = np.where(forbidden, order, np.where(action == 4, 0.0, -1.0)).argmax(-1)
    after = arena.play(example._replace(params=params), chosen.astype(np.float32)).state
    np.testing.assert_array_equal(after.position, example.state.position)
    np.testing.assert_array_equal(after.health, example.state.health)
    np.testing.assert_allclose(after.cooldown, np.asarray(example.state.cooldown) - 8 / 16, atol=1e-5)


@examples
@hypothesis.given(data=st.data())
def test_the_mask_is_what_the_rules_say(arena, data):
    """The living may move and attack the living nearer than their range; the dead may only stop."""
    arena = arena(3, 2, "selfplay")
    example, a = data.draw(arena.examples()), arena.env.num_allies
    state, mask = example.state, np.asarray(arena.look(example.state, example.params)[-1])
    alive, position = np.asarray(state.health) > 0, np.asarray(state.position, np.float64)
    reach = np.asarray(stats_of(example.params.units, np.asarray(state.unit_type)).range)
    distance = np.linalg.norm(position[:, :, None] - position[:, None], axis=-1)
    attacks = np.zeros((*alive.shape, mask.shape[2] - 5), bool)
    near = (distance < reach[..., None]) & alive[:, :, None] & alive[:, None]
    attacks[:, :a, : arena.env.num_enemies] = near[:, :a, a:]
    attacks[:, a:, :a] = near[:, a:, :a]
    sure = ~(np.abs(distance - reach[..., None]) < 1e-4).any((1, 2))
    np.testing.assert_array_equal(mask[..., :4], np.repeat(alive[..., None], 4, -1))
    assert mask[..., 4].all()
    np.testing.assert_array_equal(mask[sure, :, 5:], attacks[sure])


@pytest.mark.parametrize("mode", ["selfplay", "scripted"])
@examples
@hypothesis.given(data=st.data())
def test_the_dead_neither_see_nor_are_shown(arena, mode, data):
    """Their rows and their blocks are zero."""
    arena = arena(3, 2, mode)
    example = data.draw(arena.examples())
    seen = arena.play(example, arena.orders(example.seed))
    dead, num_units = seen.state.health == 0, arena.env.num_units
    assert not seen.global_state[:, : 10 * num_units].reshape(-1, num_units, 10)[dead].any()
    dead_agents = dead[:, : arena.env.num_agents]
    assert not seen.unit_list[dead_agents].any()
    assert not seen.conic[dead_agents].any()


@examples
@hypothesis.given(data=st.data())
def test_continuous_shots_go_to_the_living(arena, data):
    """Or to nobody."""
    arena = arena(3, 2, "continuous")
    example, a = data.draw(arena.examples()), arena.env.num_allies
    attack = arena.play(example, arena.orders(example.seed)).state.attack
    target = np.where(arena.is_ally, a + attack - 5, a - 1 - (attack - 5))
    alive = np.take_along_axis(np.asarray(example.state.health) > 0, np.where(attack >= 5, target, 0), 1)
    assert alive[attack >= 5].all()
    assert (attack >= 5).any()
