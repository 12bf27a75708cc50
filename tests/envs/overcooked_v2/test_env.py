"""Layouts, options, recipes, who sees what, and the one mistake of JaxMARL that is not repeated; pictures."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.overcooked_v2 import KITCHENS, parse_kitchen
from jaxrl.envs.overcooked_v2.layout import COOKED, PLATE
from jaxrl.envs.overcooked_v2.rules import INTERACT, STAY

SMALL = "WPRW|0A X|1A B|WWLW"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "recipes", "message"),
    [
        ("WPRW|0Y X|WABW", None, "row 2, column 2: 'Y' means nothing"),
        ("WPRW|0AW|WWBX", None, "row 2, column 4: this row is 3 wide"),
        ("WPAW|0A X|WWBX", None, "row 1, column 3: a cook could leave"),
        ("WPRW|0  X|WWBX", None, "has no A (cook)"),
        ("WPRW|WA X|WWBX", None, "has no ingredients"),
        ("WPWW|0A X|WWBX", None, "needs its recipes"),
        ("WPWW|0A X|WWBX", "001", "three of the layout's ingredients, 0, such as"),
        ("WPWW|0A X|WWBX", "00", "three of the layout's ingredients"),
        ("WPWW|0A X|W2BX", "001", "three of the layout's ingredients, 0, 2, such as"),
        ("WPWW|0A X|WWBX", 1.5, "recipes must be such as '000'"),
    ],
)
def test_a_layout_with_a_mistake(text, recipes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_kitchen(text, recipes)


def test_recipes_need_only_what_the_layout_has():
    kitchen = parse_kitchen("WPRWW|0 A B|W A X|W2WWW", None)
    used = {number for recipe in kitchen.recipes.tolist() for number in range(8) if recipe >> 2 + 2 * number & 3}
    assert used == {0, 2}
    assert len(kitchen.recipes) == 4


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("start=late", "start must be 'fixed' or 'positions' or 'random'"),
        ("view=0", "view must be a whole number of at least 1, got 0"),
        ("mixed=0,4", "mixed must be some of the 1 ingredients"),
        ("layout=two", "Did you mean two_rooms"),
    ],
)
def test_an_option_out_of_range_is_refused(options, sentence):
    with pytest.raises((ValueError, LookupError), match=re.escape(sentence)):
        jaxrl.make(f"overcooked_v2?{options}")


@pytest.mark.quick
def test_names():
    assert jaxrl.list_envs("overcooked_v2/*") == sorted(f"overcooked_v2/{name}" for name in KITCHENS)
    drawn = jaxrl.make("overcooked_v2", layout=SMALL, recipes="000")
    assert jaxrl.make(drawn.made_as).kitchen.recipes.tolist() == [3 * 4]  # though a name turns 000 into 0


@pytest.fixture(scope="module")
def small():
    """Two cooks, two ingredients, a sign and a button; random starts, and a compiled step."""
    env = jaxrl.make("overcooked_v2", layout=SMALL, start="random", view=1, new_recipe="delivery", mixed="0,1")
    return env, jax.jit(jax.vmap(lambda s, a, p: env.step_env(jax.random.key(0), s, a, p), (0, None, None)))


@pytest.fixture(scope="module")
def starts(small):
    return jax.jit(small[0].batch_reset)(jax.random.split(jax.random.key(1), 300))[1]


def test_starts_are_all_there_are(small, starts):
    env, _ = small
    assert set(np.unique(starts.recipe)) == set(env.kitchen.recipes.tolist())
    assert set(np.unique(starts.position)) == set(env.kitchen.cells(" ").tolist())
    assert (starts.position[:, 0] != starts.position[:, 1]).all()
    assert {tuple(order) for order in starts.order[:, 0].tolist()} == {(0, 1), (1, 0)}
    pots = starts.items[:, env.kitchen.cells("P")[0]]
    assert {0, 3 * 4 + COOKED, 4, 16, 4 + 16} <= set(pots.tolist())
    assert starts.timer.max() == 20


def test_a_new_recipe_is_drawn_after_a_delivery(small, starts):
    env, step = small
    hatch = env.kitchen.cells("X")[0]
    before = dataclasses.replace(
        starts,
        position=jnp.broadcast_to(jnp.array([hatch - 1, hatch - 2], jnp.int32), (300, 2)),
        direction=jnp.full((300, 2), 2),
        held=jnp.stack([starts.recipe | PLATE | COOKED, starts.held[:, 1]], -1),
    )
    _, after, reward, *_ = step(before, jnp.array([INTERACT, STAY]), env.default_params)
    assert (np.asarray(reward) == 20).all()
    assert np.asarray(after.correct).all()
    _, same, *_ = step(before, jnp.array([STAY, STAY]), env.default_params)
    np.testing.assert_array_equal(same.recipe, before.recipe)


def test_a_wrong_ingredient_costs_if_rewards_are_negative(small, starts):
    """JaxMARL multiplies the cost by whether the ingredient is right, so that it is always zero."""
    env, step = small
    pot = env.kitchen.cells("P")[0]
    before = dataclasses.replace(
        starts,
        position=jnp.broadcast_to(jnp.array([pot + 4, pot + 5], jnp.int32), (300, 2)),
        direction=jnp.zeros((300, 2), jnp.int32),
        held=jnp.full((300, 2), 4),
        items=jnp.zeros_like(starts.items),
        timer=jnp.zeros_like(starts.timer),
    )
    params = jaxrl.make("overcooked_v2", negative_rewards=True).default_params
    *_, info = step(before, jnp.array([INTERACT, STAY]), params)
    wants = (np.asarray(starts.recipe) >> 2) & 3 > 0
    np.testing.assert_array_equal(info["shaped_reward"][:, 0], np.where(wants, 3, -3))
    assert 0 < wants.sum() < 300


def test_a_recipe_is_seen_only_near_its_sign(small, starts):
    """Whoever is a cell or more too far away sees the same whatever is asked for."""
    env, _ = small
    kitchen, look = env.kitchen, jax.jit(jax.vmap(env.observation))
    other = dataclasses.replace(starts, recipe=jnp.full_like(starts.recipe, 3 * 16))
    differs = (np.asarray(look(starts)) != np.asarray(look(other))).any((-3, -2, -1))
    signs = [int(kitchen.cells(tile)[0]) for tile in "RL"]
    rows, columns = np.divmod(np.asarray(starts.position), kitchen.width)
    near = [np.maximum(abs(rows - c // kitchen.width), abs(columns - c % kitchen.width)) <= 1 for c in signs]
    shown = near[0] | (near[1] & (np.asarray(starts.timer)[:, signs[1]] > 0)[:, None])
    np.testing.assert_array_equal(differs, shown & (np.asarray(starts.recipe) != 3 * 16)[:, None])
    assert 0 < differs.mean() < 1


def test_a_picture_of_anything(small, starts):
    env, _ = small
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[:5], starts)
    scene = env.draw(states)
    titles = {shape.tip.title for shape in scene.shapes if shape.tip is not None}
    assert {"pot", "serving", "dishes", "recipe indicator", "recipe button", "agent_0", "agent_1"} <= titles
    assert env.render(jax.tree.map(lambda leaf: leaf[0], starts)).std() > 10
