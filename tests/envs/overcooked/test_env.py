"""Layouts, options, starts, what is kept from step to step, training's parameters, pictures."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.overcooked import LAYOUTS, parse_layout, stages
from jaxrl.envs.overcooked.layout import DISH, ONION, SOUP, TOMATO
from jaxrl.envs.overcooked.rules import DOWN, INTERACT, LEFT, RIGHT, STAY, UP
from jaxrl.render import save_gif, save_html
from jaxrl.render.scene import at
from jaxrl.replay import record

CROWD = """
    XXPPXX
    T 1 2O
    X    X
    S3  4D
    XXXXXX
"""
B, T = 64, 60


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("XXPXX\nO 1WO\nXDXSX", "row 2, column 4: 'W' means nothing"),
        ("XXPXX\nO 1O\nXDXSX", "row 2, column 5: this row is 4 wide and the first 5"),
        ("XXPX\nO 1OX\nXDXSX", "row 2, column 5: this row is 5 wide and the first 4"),
        ("XX1XX\nO P O\nXDXSX", "row 1, column 3: a cook could leave the kitchen here"),
        ("XXPXX\nO 11X\nXDXSX", "row 2, column 4: cook 1 is here a second time"),
        ("XXPXX\nO 2 X\nXDXSX", "has no cook 1"),
        ("XXPXX\nO 1 X\nXXXSX", "has no D (dishes)"),
        ("XXPXX\nX 1 X\nXDXSX", "has neither O (onions) nor T (tomatoes)"),
    ],
)
def test_a_layout_with_a_mistake(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        parse_layout(text)
    if "row" in message:  # an arrow below the character
        row, arrow = str(caught.value).splitlines()[-2:]
        column = int(message.partition("column ")[2].partition(":")[0])
        assert arrow.index("^") - 4 == column - 1 <= len(row) - 4


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("cooking=slowly", "cooking must be 'auto' or 'by_hand', got 'slowly'"),
        ("observe=pixels", "observe must be 'grid' or 'vector', got 'pixels'"),
        ("start=late", "start must be 'fixed' or 'facing' or 'random', got 'late'"),
        ("orders=onion", "orders must be soups such as 'ooo'"),
        ("orders=3", "orders must be soups such as 'ooo'"),
        ("orders=ttt", "no soup in orders='ttt' can be made: the layout has onions"),
        ("orders=oo,ttt", "orders='oo,ttt' needs cooking='by_hand': otherwise a pot waits for three ingredients"),
        ("cook_time=0", "cook_time must be a whole number from 1 to 255, got 0"),
        ("cook_time=true", "cook_time must be a whole number from 1 to 255, got True"),
        ("max_steps=0", "max_steps must be a whole number"),
        ("shaping=-1", "shaping must be at least 0"),
        ("shaping=much", "shaping must be a finite number"),
        ("shaping_until=0", "shaping_until above 0"),
        ("layout=cramped", "Did you mean cramped_room"),
    ],
)
def test_an_option_out_of_range_is_refused(options, sentence):
    with pytest.raises((ValueError, LookupError), match=re.escape(sentence)):
        jaxrl.make(f"overcooked?{options}")


@pytest.mark.quick
def test_names():
    assert jaxrl.list_envs("overcooked/*") == sorted(f"overcooked/{name}" for name in LAYOUTS)
    assert jaxrl.make("overcooked").layout.starts.tolist() == [11, 8]  # JaxMARL's id; the cramped room
    drawn = jaxrl.make("overcooked", layout=CROWD)
    assert drawn.num_agents == 4
    assert jaxrl.make(drawn.made_as).layout.starts.tolist() == [8, 10, 19, 22]
    assert drawn.observation_space().shape == (5, 6, len(drawn.channels)) == (5, 6, 5 * 4 + 16)


@pytest.fixture(scope="module")
def crowd():
    """Four cooks with onions and tomatoes, from random starts: states `[T + 1, B, …]` and actions `[T, B, N]`."""
    env = jaxrl.make("overcooked", layout=CROWD, start="random", cooking="by_hand", orders="ooo,ot,t")

    def step(state, action):
        stepped = jax.vmap(lambda s, a: env.step_env(jax.random.key(0), s, a, env.default_params))(state, action)
        return stepped[1], (state, action, stepped[1], stepped[2])

    def whole(keys, key):
        _, state = env.batch_reset(keys)
        actions = jnp.minimum(jax.random.randint(key, (T, B, 4), 0, 9), INTERACT)
        return jax.lax.scan(step, state, actions)[1]

    played = jax.jit(whole)(jax.random.split(jax.random.key(0), B), jax.random.key(1))
    return env, *jax.tree.map(np.asarray, played)


def holdings(state):
    """How many onions, tomatoes and dishes there are outside of the dispensers: `[T, B]` each."""
    items = np.concatenate([state.held, state.counters], -1)
    inside = np.concatenate([np.where(items >= SOUP, items & 15, 0), state.contents], -1)
    onions = (items == ONION).sum(-1) + (inside & 3).sum(-1)
    tomatoes = (items == TOMATO).sum(-1) + (inside >> 2).sum(-1)
    return onions, tomatoes, ((items == DISH) | (items >= SOUP)).sum(-1)


def test_nothing_is_made_or_lost_but_by_the_rules(crowd):
    env, before, action, after, _ = crowd
    faced = before.position + env.layout.offsets[before.direction]
    acts, tile = action == INTERACT, env.layout.tiles[faced]
    served = acts & (tile == "S") & (before.held >= SOUP)
    inside = np.where(served, before.held & 15, 0)
    lost = (inside & 3).sum(-1), (inside >> 2).sum(-1), served.sum(-1)
    for kind, old, new, gone in zip("OTD", holdings(before), holdings(after), lost, strict=True):
        taken = (acts & (tile == kind) & (before.held == 0)).sum(-1)
        np.testing.assert_array_equal(new, old + taken - gone)
        assert taken.any()
    assert served.any()
    np.testing.assert_array_equal(after.delivered, before.delivered + served.sum(-1))


def test_who_does_not_interact_keeps_what_it_holds(crowd):
    _, before, action, after, _ = crowd
    still = action != INTERACT
    np.testing.assert_array_equal(after.held[still], before.held[still])
    assert (after.held[~still] != before.held[~still]).any()


def test_cooks_stand_on_the_floor_and_never_together(crowd):
    env, before, _, after, _ = crowd
    for state in (before, after):
        assert (env.layout.tiles[state.position] == " ").all()
        assert (np.sort(state.position, -1)[..., 1:] > np.sort(state.position, -1)[..., :-1]).all()
    assert {int(cell) for cell in np.unique(before.position[0])} == set(env.layout.cells(" ").tolist())
    assert set(np.unique(before.held[0])) == {0, DISH, ONION, SOUP + 3}
    assert set(np.unique(before.timer[0])) == set(range(-1, 21))


def test_a_soup_is_worth_what_its_order_is(alone):
    """Each cook is paid for a soup that is ordered; others vanish through the hatch for nothing."""
    env, step = alone
    _, state = jax.jit(env.reset)(jax.random.key(0))
    params = jaxrl.make("overcooked", orders="ooo,ot,tt").default_params
    state = dataclasses.replace(state, position=jnp.array([6]), direction=jnp.array([DOWN]))
    rewards = []
    for contents in (3, 1 + 4, 2 * 4, 1, 2 + 4):
        _, after, reward, *_ = step(
            dataclasses.replace(state, held=jnp.array([SOUP + contents])), jnp.array([INTERACT]), params
        )
        assert (int(after.held[0]), int(after.delivered)) == (0, 1)
        rewards.append(float(reward[0]))
    assert rewards == [20, 20, 20, 0, 0]


@pytest.fixture(scope="module")
def alone():
    """A kitchen with a cook in its middle, and its compiled step."""
    env = jaxrl.make("overcooked", layout="XPXX|O1 D|XXSX")
    return env, jax.jit(lambda state, action, params: env.step_env(jax.random.key(0), state, action, params))


def test_a_cook_who_is_alone_makes_a_soup(alone):
    """What it does, written out, and what that is worth: three onions, a dish, a soup."""
    env, step = alone
    params = jaxrl.make("overcooked", shaping=0.5).params_at(jnp.float32(0))
    _, state = env.reset(jax.random.key(0))
    onion = [LEFT, INTERACT, UP, INTERACT]
    dish = [RIGHT, RIGHT, INTERACT, LEFT, UP]
    actions = [*onion * 3, *dish, *[STAY] * 15, INTERACT, RIGHT, DOWN, INTERACT]
    rewards, shaped = [], []
    for action in actions:
        _, state, reward, *_, info = step(state, jnp.array([action]), params)
        rewards.append(float(reward[0]))
        shaped.append(float(info["shaped_reward"][0]))
    assert [value for value in shaped if value] == [3, 3, 3, 3, 5]
    assert [value for value in rewards if value] == [1.5, 1.5, 1.5, 1.5, 2.5, 20]
    assert int(state.delivered) == 1


def test_shaping_falls_in_training_and_is_none_elsewhere():
    env = jaxrl.make("overcooked", shaping=2.0, shaping_until=0.25)
    weights = [float(env.params_at(jnp.float32(progress)).shaping) for progress in (0, 0.125, 0.25, 1)]
    assert weights == [2, 1, 0, 0]
    assert env.default_params.shaping == 0


def test_full_counters_ends_with_the_true_kitchen():
    env = jaxrl.make("overcooked", max_steps=100)

    def lasts(progress):
        now = jnp.float32(progress)
        drawn = stages.full_counters(jax.random.key(0), env.params_at(now), now)
        return int(drawn.max_steps), round(float(drawn.shaping), 3)

    assert [lasts(0), lasts(1 / 3), lasts(0.5), lasts(2 / 3)] == [(400, 1), (400, 0.556), (250, 0.333), (100, 0.111)]
    last = stages.full_counters(jax.random.key(0), env.params_at(jnp.float32(1)), jnp.float32(1))
    for leaf, own in zip(jax.tree.leaves(last), jax.tree.leaves(env.default_params), strict=True):
        np.testing.assert_array_equal(leaf, own)


def test_dishes_on_counters_or_in_hands_earn_nothing():
    """JaxMARL once counted only the own hand."""
    env = jaxrl.make("overcooked", layout="XPXXX|O1 2D|XXXSX")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    state = dataclasses.replace(state, contents=jnp.array([1]), direction=jnp.array([0, 2]))
    dish = jnp.int32(DISH)

    @jax.jit
    def pick_up(state):
        action = jnp.array([STAY, INTERACT])
        return env.step_env(jax.random.key(0), state, action, env.default_params)[-1]["shaped_reward"][1]

    assert pick_up(state) == 3
    assert pick_up(dataclasses.replace(state, held=jnp.array([DISH, 0]))) == 0
    assert pick_up(dataclasses.replace(state, counters=state.counters.at[0].set(dish))) == 0
    assert pick_up(dataclasses.replace(state, contents=jnp.array([0]))) == 0


def test_parameters_can_differ_within_a_batch(alone):
    env, step = alone
    _, state = env.reset(jax.random.key(0))
    state = dataclasses.replace(state, contents=jnp.array([2]), held=jnp.array([ONION]))
    times = jnp.array([5, 20, 100])
    params = [dataclasses.replace(env.default_params, cook_time=time) for time in times]
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    obs, after, *_ = jax.vmap(step, in_axes=(None, None, 0))(state, jnp.array([INTERACT]), both)
    np.testing.assert_array_equal(after.timer[:, 0], times - 1)
    channel = env.channels.index("time to cook")
    np.testing.assert_array_equal(obs[:, 0, 0, 1, channel], [4, 19, 20])  # no longer than the option says


def test_a_vector_tells_all_that_matters(crowd):
    """States with different pictures have different vectors, and each cook is first in its own."""
    env, before, _, _, _ = crowd
    seer = jaxrl.make("overcooked", layout=CROWD, observe="vector")
    states = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[::7], before)
    params = env.default_params
    pictures = np.asarray(jax.jit(jax.vmap(env.observation, (0, None)))(states, params))
    vectors = np.asarray(jax.jit(jax.vmap(seer.observation, (0, None)))(states, params))
    for i in (0, 3):
        by_picture = {picture.tobytes() for picture in pictures[:, i]}
        by_vector = {vector[:-1].tobytes() for vector in vectors[:, i]}  # without the clock
        assert len(by_picture) == len(by_vector) > 500
        own = vectors[:, i, : len(env.layout.cells(" "))]
        np.testing.assert_array_equal(env.layout.cells(" ")[own.argmax(-1)], states.position[:, i])
    assert seer.observation_space().shape == vectors.shape[2:]
    assert vectors.min() == 0 <= vectors.max() == 1


def test_an_episode_becomes_a_film(tmp_path):
    env = jaxrl.make("overcooked", layout=CROWD, start="random", max_steps=30)

    def act(obs, carry, key, mask):
        return jax.random.randint(key, (4,), 0, 6), carry

    replay = record(env, act, jax.random.key(2), max_steps=12)
    scene = env.draw(replay.states)
    cooks = [shape for shape in scene.shapes if shape.tip is not None and shape.tip.title.startswith("agent_")]
    for frame in (0, scene.num_frames - 1):  # row 0 is at the top
        cells = [int(at(cook.x, frame)) + 6 * (4 - int(at(cook.y, frame))) for cook in cooks]
        assert cells == replay.states.position[frame].tolist()
    save_gif(replay, tmp_path / "film.gif", width=120)
    save_html(replay, tmp_path / "film.html")
    assert (tmp_path / "film.gif").stat().st_size > 500
