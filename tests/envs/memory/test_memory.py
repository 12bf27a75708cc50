"""What lock-step with POPGym cannot show: how cards, arms, ships, mines and noise are drawn."""

import collections
import dataclasses
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxrl
from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.memory.boards import place_mines, place_ships
from jaxrl.envs.memory.cards import deal
from jaxrl.render.scene import Rect, Text
from tests.envs.memory.popgym_replay import play


def p_value(drawn: list[Any], chances: dict[Any, float]) -> float:
    """Of a χ² test that the draws have these chances, which must be all there are."""
    counts = collections.Counter(drawn)
    assert set(counts) <= set(chances)
    observed = [counts[each] for each in chances]
    return stats.chisquare(observed, np.array(list(chances.values())) * len(drawn)).pvalue


def test_cards_come_in_the_orders_of_a_shuffled_deck():
    def sequence(key):
        def step(left, number):
            kind, left = deal(left, number)
            return left, kind

        return jax.lax.scan(step, jnp.array([2, 1, 2]), uniform_rows(key, 5))[1]

    dealt = np.asarray(jax.jit(jax.vmap(sequence))(jax.random.split(jax.random.key(0), 30_000)))
    orders = set(itertools.permutations([0, 0, 1, 2, 2]))
    assert p_value(list(map(tuple, dealt.tolist())), dict.fromkeys(orders, 1 / len(orders))) > 1e-3


def test_even_the_largest_draw_deals_a_card_that_is_left():
    largest = np.float32(1 - 2.0**-24)
    for total in (1, 2, 13, 52, 208, 831, 832):
        kind, left = deal(jnp.array([0, total, 0]), jnp.asarray(largest))
        assert int(kind) == 1
        assert left.tolist() == [0, total - 1, 0]


@pytest.mark.parametrize("name", ["memory/repeat_previous", "memory/repeat_first_medium", "memory/count_recall"])
def test_an_episode_shows_the_whole_deck(name):
    env: Any = jaxrl.make(name)
    cards = env.num_cards
    obs = play(name, seed=3, steps=cards - 1).obs
    parts = obs.reshape(cards, -1, len(env.kinds)).sum(0)
    np.testing.assert_array_equal(parts, cards // len(env.kinds))


@pytest.mark.parametrize(("kinds", "alike"), [("colors", 25 / 51), ("ranks", 3 / 51)])
def test_cards_on_a_table_lie_as_after_shuffling(kinds, alike):
    env: Any = jaxrl.make("memory/concentration", kinds=kinds)
    deck = len(env.kinds)

    def table(key: jax.Array) -> jax.Array:
        """The kinds of all cards, turned one after the other from one in the middle on."""
        key_reset, key_turns = jax.random.split(key)
        turns = (7 + np.arange(52)) % 52, jax.random.split(key_turns, 52)

        def turn(state: Any, turn: Any) -> Any:
            return env.step_env(turn[1], state, turn[0], env.default_params)[1], None

        return jax.lax.scan(turn, env.reset(key_reset)[1], turns)[0].kind

    keys = jax.random.split(jax.random.key(0), 4000)
    tables = np.asarray(jax.jit(jax.vmap(table))(keys))
    for kind in range(deck):
        np.testing.assert_array_equal((tables == kind).sum(-1), 52 // deck)
    for place, other in ((7, 8), (0, 51), (20, 40)):
        assert p_value(tables[:, place].tolist(), dict.fromkeys(range(deck), 1 / deck)) > 1e-3
        same = (tables[:, place] == tables[:, other]).tolist()
        assert p_value(same, {True: alike, False: 1 - alike}) > 1e-3


def test_the_suit_to_name_does_not_show():
    env: Any = jaxrl.make("memory/repeat_previous")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    hidden = jnp.array([1, 3, 3, 2], jnp.int8)
    for other in ([1, 0, 0, 0], [1, -1, -1, -1]):
        changed = jnp.array(other, jnp.int8)
        states = [type(state)(state.left, shown, state.first, state.step, state.right) for shown in (hidden, changed)]
        np.testing.assert_array_equal(env.observation(states[0]), env.observation(states[1]))


def test_arms_are_drawn_anew_and_pay_as_often_as_they_should():
    env: Any = jaxrl.make("memory/multiarmed_bandit", num_arms=2)
    keys = jax.random.split(jax.random.key(0), 20_000)
    chance = jax.jit(jax.vmap(lambda key: env.reset(key)[1].chance))(keys)
    assert stats.kstest(np.asarray(chance).ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(np.asarray(chance).T)[0, 1]) < 0.03

    _, state = env.reset(jax.random.key(1))
    pull = jax.jit(jax.vmap(lambda key, arm: env.step(key, state, arm)[0][0], (0, None)))
    for arm in range(2):
        paid = np.asarray(pull(keys, jnp.int32(arm)))
        assert stats.binomtest(int(paid.sum()), len(paid), float(state.chance[arm])).pvalue > 1e-3


def test_params_say_how_generous_arms_can_be():
    env: Any = jaxrl.make("memory/multiarmed_bandit")
    params = type(env.default_params)(max_steps=np.int32(200), lowest=np.float32(0.4), highest=np.float32(0.5))
    chance = np.asarray(env.reset(jax.random.key(0), params)[1].chance)
    assert chance.min() >= 0.4
    assert chance.max() <= 0.5


def placements(size: int, length: int) -> list[frozenset[tuple[int, int]]]:
    """All places of a ship, by brute force."""
    places = set()
    for row, column in itertools.product(range(size), repeat=2):
        for down in (0, 1):
            cells = [(row + down * i, column + (1 - down) * i) for i in range(length)]
            if max(max(cell) for cell in cells) < size:
                places.add(frozenset(cells))
    return sorted(places, key=sorted)


@pytest.mark.parametrize("ships", [(2, 3), (3, 2)])
def test_ships_lie_as_by_trial_and_error(ships):
    size, chances = 3, collections.defaultdict(float)
    firsts = placements(size, ships[0])
    for first in firsts:
        free = [second for second in placements(size, ships[1]) if not first & second]
        for second in free:
            chances[first | second] += 1 / len(firsts) / len(free)
    draws = uniform_rows(jax.random.split(jax.random.key(0), 40_000), 2).T
    boards = np.asarray(jax.jit(jax.vmap(lambda numbers: place_ships(numbers, size, ships)))(draws))
    drawn = [frozenset(map(tuple, np.argwhere(board).tolist())) for board in boards]
    assert p_value(drawn, dict(chances)) > 1e-3


def test_mines_lie_anywhere():
    env: Any = jaxrl.make("memory/minesweeper")
    keys = jax.random.split(jax.random.key(0), 30_000)
    boards = np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key)[1].mine))(keys))
    pairs = list(itertools.combinations(range(16), 2))
    assert p_value([tuple(np.flatnonzero(board).tolist()) for board in boards], dict.fromkeys(pairs, 1 / 120)) > 1e-3
    draws = uniform_rows(keys, 3).T
    boards = np.asarray(jax.jit(jax.vmap(lambda numbers: place_mines(numbers, 5)))(draws))
    triples = list(itertools.combinations(range(5), 3))
    assert p_value([tuple(np.flatnonzero(board).tolist()) for board in boards], dict.fromkeys(triples, 1 / 10)) > 1e-3


def test_even_the_largest_and_smallest_draws_place_all_mines():
    place = jax.jit(place_mines, static_argnums=1)
    for draw in (0.0, 1 - 2.0**-24):
        for size, mines in ((2, 1), (4, 2), (6, 6), (7, 46), (8, 10), (16, 99)):
            assert int(place(jnp.full(mines, draw, jnp.float32), size**2).sum()) == mines


def test_minesweeper_counts_the_mines_beside_a_cell():
    env: Any = jaxrl.make("memory/minesweeper_hard")
    _, state = jax.jit(env.reset)(jax.random.key(3))
    board = np.pad(np.asarray(state.mine).reshape(8, 8), 1)
    step = jax.jit(lambda cell: env.step_env(jax.random.key(0), state, cell, env.default_params)[0])
    for row, column in itertools.product(range(8), repeat=2):
        obs = np.asarray(step(jnp.int32(8 * row + column)))
        assert obs[:10].argmax() == board[row : row + 3, column : column + 3].sum()
        assert np.flatnonzero(obs[10:]).tolist() == [row, 8 + column]


def test_battleship_ends_when_all_ships_are_sunk():
    env: Any = jaxrl.make("memory/battleship", size=3, ships=(1, 2))
    _, state = jax.jit(env.reset)(jax.random.key(0))
    cells = np.flatnonzero(state.ship)
    step = jax.jit(env.step_env)
    for number, cell in enumerate(cells):
        _, state, reward, terminated, truncated, _ = step(jax.random.key(1), state, cell, env.default_params)
        assert float(reward) == pytest.approx(1 / 3)
        assert bool(terminated) == (number == 2)
        assert not truncated


@pytest.mark.parametrize("name", ["memory/position_only_cartpole", "memory/position_only_pendulum"])
def test_noise_is_a_parameter(name):
    env: Any = jaxrl.make(name)
    _, state = env.reset(jax.random.key(1))
    action = env.action_space().sample(jax.random.key(2))

    @jax.jit
    def seen(noise: float) -> jax.Array:
        keys = jax.random.split(jax.random.key(3), 4000)
        params = dataclasses.replace(env.default_params, noise=noise)
        return jax.vmap(lambda key: env.step_env(key, state, action, params)[0])(keys)

    clear, noisy, wild = (np.asarray(seen(noise)) for noise in (0.0, 0.05, 100.0))
    assert (clear == clear[0]).all()
    error = (noisy - clear)[:, np.abs(clear[0]) < 0.6]  # the others may be clipped
    assert error.size
    np.testing.assert_allclose(error.std(0), 0.05, rtol=0.06)
    np.testing.assert_allclose(error.mean(0), 0.0, atol=0.004)
    np.testing.assert_array_equal(np.abs(wild).max(0), env.observation_space().high)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("repeat_previous", {"lag": 52}, "lag must be a whole number from 1 to 51"),
        ("repeat_first", {"num_decks": 0}, "num_decks must be a whole number of at least 1"),
        ("count_recall", {"kinds": "jokers"}, "kinds must be 'colors' or 'suits' or 'ranks'"),
        ("multiarmed_bandit", {"num_arms": 1}, "num_arms must be a whole number of at least 2"),
        ("battleship", {"size": 4, "ships": (4, 4, 4, 4, 4)}, "take fewer, or a larger size"),
        ("battleship", {"ships": ()}, "take fewer, or a larger size"),
        ("concentration", {"kinds": "suits"}, "kinds must be 'colors' or 'ranks'"),
        ("minesweeper", {"num_mines": 14}, "num_mines must be a whole number from 1 to 13"),
        ("minesweeper", {"max_steps": 0}, "max_steps must be a whole number of at least 1"),
        ("battleship", {"size": 2, "ships": (1, 1, 1, 1)}, "always find room and leave some"),
        ("battleship", {"ships": 3}, "ships must be a list of lengths"),
        ("battleship", {"ships": (9,)}, "ships must be a whole number from 1 to 8"),
        ("position_only_cartpole", {"noise": -0.1}, "noise must be a number of at least 0"),
        ("position_only_cartpole", {"observe": "both"}, "observe must be 'position' or 'velocity'"),
    ],
)
def test_wrong_options_are_explained(name, options, message):
    with pytest.raises(ValueError, match=message):
        jaxrl.make(f"memory/{name}", **options)


@pytest.mark.parametrize(("name", "size"), [("multiarmed_bandit", 1), ("battleship", 1), ("minesweeper", 3)])
def test_the_last_action_can_be_left_out(name, size):
    env: Any = jaxrl.make(f"memory/{name}", observe_action=False)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    assert obs.shape == env.observation_space().shape == (size,)
    assert jax.jit(env.step)(jax.random.key(1), state, jnp.int32(0))[0].shape == (size,)


@pytest.mark.parametrize("name", jaxrl.list_envs("memory/*_hard"))
def test_pictures(name):
    pytest.importorskip("PIL")
    env: Any = jaxrl.make(name)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    before, step = env.render(state), jax.jit(env.step)
    for number in range(3):
        action = env.action_space().sample(jax.random.key(number))
        state = step(jax.random.key(number + 10), state, action)[1]
    after = env.render(state)
    assert before.shape == after.shape
    assert (before != after).any()


@pytest.mark.parametrize(
    ("name", "begins", "goes_on"),
    [
        ("repeat_previous", r"The card is of \w+\.", r"The card is of \w+\."),
        ("repeat_first", r"The card is of \w+\.", r"(Right|Wrong)\. The card is of \w+\."),
        ("autoencode", r"The card is of \w+\. Watch on\.", r"The card is of \w+\. Watch on\."),
        ("count_recall", r"The card is \w+\. How many \w+ so far\?", r"(Right|Wrong)\. The card is \w+\. How many .*"),
        ("higher_lower", r"The card is \w+\. Is the next .*", r"((Right|Wrong)\. )?The card is \w+\. Is the next .*"),
        ("multiarmed_bandit", r"No arm was pulled yet\.", r"Arm 0 (paid|did not pay)\."),
        ("battleship", r"No shot was fired yet\.", r"The shot at row 0, column 0 was a (hit|miss)\."),
        ("concentration", r"Turn a card\.\s+0\s+1\s.*\s51", r"Turn another card\.\s+\[(black|red)\]\s+1\s.*\s51"),
        (
            "minesweeper",
            r"No cell was opened yet\.",
            r"The cell at row 0, column 0 (is a mine|has \d mines? beside it)\.",
        ),
    ],
)
def test_words_tell_a_player_what_the_observation_shows(name, begins, goes_on):
    env: Any = jaxrl.make(f"memory/{name}")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    assert re.fullmatch(begins, env.text(state), re.DOTALL)
    state = jax.jit(env.step_env)(jax.random.key(1), state, jnp.int32(0), env.default_params)[1]
    assert re.fullmatch(goes_on, env.text(state), re.DOTALL)


def test_the_words_of_a_whole_recital():
    env: Any = jaxrl.make("memory/autoencode")
    states = play("memory/autoencode", seed=0, steps=2 * env.num_cards - 1).states
    told = [env.text(jax.tree.map(lambda leaf, t=t: leaf[t], states)) for t in range(2 * env.num_cards)]
    assert sum("Watch on." in words for words in told) == env.num_cards - 1
    assert sum("The card is" in words for words in told) == env.num_cards
    assert [words for words in told if words in ("Right. Recite.", "Wrong. Recite.")] == told[env.num_cards :]


def test_a_picture_of_the_first_card_is_for_the_game_that_asks_for_it():
    def words(name: str, **options: Any) -> set[str]:
        env: Any = jaxrl.make(f"memory/{name}", **options)
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.reset(jax.random.key(0))[1])
        return {str(shape.text) for shape in env.draw(states).shapes if isinstance(shape, Text)}

    assert "to name" in words("repeat_first")
    assert "to name" not in words("repeat_previous", lag=1)


def test_bars_end_below_the_card_however_many_decks_there_are():
    env: Any = jaxrl.make("memory/higher_lower", num_decks=6)
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.reset(jax.random.key(0))[1])
    tops = [shape.y + shape.height for shape in env.draw(states).shapes if isinstance(shape, Rect) and shape.y == -1.5]
    assert len(tops) == 13
    assert np.max(tops) < 0


@pytest.mark.parametrize("name", ["multiarmed_bandit", "repeat_first"])
def test_pictures_count_only_what_they_show_from_the_start(name):
    env: Any = jaxrl.make(f"memory/{name}")
    states = play(f"memory/{name}", seed=0, steps=20).states
    whole, part = (env.draw(jax.tree.map(lambda leaf, n=n: leaf[n:], states)).captions[1].text for n in (0, 9))
    assert sum(map(int, re.findall(r"\d+", whole[20]))) >= 20
    assert part == ""
