"""The book of a pool: chances by hand, draws by chi-squared, who takes whose place."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxrl.levels.book import Book, chances, draw, fingerprints, inserted, new_book, noted
from jaxrl.levels.options import Levels

pytestmark = pytest.mark.quick

BY_SCORE = Levels(staleness=0.0)


def book_of(scores, stamps=None) -> Book:
    size = len(scores)
    prints = jnp.arange(1, 2 * size + 1, dtype=jnp.uint32).reshape(size, 2)
    scores = jnp.array(scores, jnp.float32)
    return Book(scores, scores, jnp.array(stamps or [0] * size, jnp.int32), prints)


def visits_of(prints, scores, now: int = 1) -> Book:
    scores = jnp.array(scores, jnp.float32)
    return Book(scores, scores, jnp.full(len(scores), now, jnp.int32), jnp.array(prints, jnp.uint32))


@pytest.mark.parametrize(("temperature", "wanted"), [(1.0, [0.5455, 0.1818, 0.2727]), (0.3, [0.8890, 0.0228, 0.0882])])
def test_rank_sets_the_weight(temperature, wanted):
    options = dataclasses.replace(BY_SCORE, temperature=temperature)
    np.testing.assert_allclose(chances(book_of([0.9, 0.1, 0.5]), options, 10), wanted, atol=1e-4)


def test_what_was_not_played_for_long_is_drawn_more_often():
    book = book_of([0.9, 0.1, 0.5], stamps=[10, 4, 8])
    np.testing.assert_allclose(chances(book, Levels(staleness=0.3), 10), [0.3818, 0.3523, 0.2659], atol=1e-4)
    fresh = book_of([0.9, 0.1, 0.5], stamps=[10, 10, 10])  # equally old ones are equally stale
    np.testing.assert_allclose(chances(fresh, Levels(staleness=1.0), 10), [1 / 3] * 3, atol=1e-6)


def test_proportional_weights_follow_the_score():
    options = dataclasses.replace(BY_SCORE, priority="proportional")
    np.testing.assert_allclose(chances(book_of([0.6, 0.2, -1.0]), options, 0), [0.75, 0.25, 0.0], atol=1e-6)
    np.testing.assert_allclose(chances(book_of([0.0, -1.0]), options, 0), [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize("options", [Levels(), Levels(kind="sfl"), Levels(priority="proportional")])
def test_empty_slots_are_never_drawn(options):
    book = book_of([0.5, -np.inf, 0.25, -np.inf])
    chance = chances(book, options, 3)
    assert chance[1] == chance[3] == 0
    assert float(chance.sum()) == pytest.approx(1.0)
    edge = jnp.array([0.0, 1 - 2.0**-24])
    assert set(np.asarray(draw(chance, edge))) == {0, 2}
    assert not chances(new_book(4), options, 3).any()


def test_draws_follow_the_chances():
    chance = chances(book_of([0.9, 0.1, 0.5, 0.3]), Levels(), 5)
    slots = draw(chance, jax.random.uniform(jax.random.key(0), (20_000,)))
    wanted = np.asarray(chance, np.float64)
    assert stats.chisquare(np.bincount(slots, minlength=4), 20_000 * wanted / wanted.sum()).pvalue > 1e-3


def test_scores_of_a_level_of_the_pool_are_replaced_by_the_mean_of_its_visits():
    book = book_of([0.9, 0.1])
    visits = visits_of([[3, 4], [3, 4], [1, 2]], [0.2, 0.6, -np.inf])
    after, candidate = noted(book, visits, BY_SCORE)
    np.testing.assert_allclose(after.score, [0.9, 0.4], atol=1e-6)  # the first level had no end: it keeps its score
    assert (candidate == -np.inf).all()


def test_equal_new_levels_are_one_candidate():
    _, candidate = noted(book_of([0.9]), visits_of([[7, 7], [7, 7], [8, 7]], [0.3, 0.3, 0.2]), BY_SCORE)
    np.testing.assert_allclose(candidate, [0.3, -np.inf, 0.2])


def test_an_empty_slot_is_no_twin_of_anything():
    _, candidate = noted(new_book(2), visits_of([[0, 0]], [0.3]), BY_SCORE)
    assert candidate[0] == pytest.approx(0.3)


@pytest.mark.parametrize(("score", "slot"), [(0.5, 2), (0.1, 3), (0.05, 3)])
def test_a_new_level_must_beat_the_one_that_is_least_likely(score, slot):
    """Of 0.9, 0.5 and 0.1 the last one is least likely; slot 3 is none."""
    book, visits = book_of([0.9, 0.5, 0.1]), visits_of([[99, 99]], [score], now=7)
    after, into = inserted(book, visits, visits.score, BY_SCORE, jnp.int32(7))
    assert into.tolist() == [slot]
    if slot == 2:
        assert (after.stamp[2], after.print[2].tolist()) == (7, [99, 99])
        assert float(after.score[2]) == pytest.approx(score)
    else:
        assert all(bool((a == b).all()) for a, b in zip(after, book, strict=True))


def test_empty_slots_fill_first_with_whatever_has_a_score():
    book, visits = book_of([0.9, -np.inf, -np.inf]), visits_of([[5, 5], [6, 6], [7, 7]], [-3.0, -np.inf, 0.2])
    after, into = inserted(book, visits, visits.score, BY_SCORE, jnp.int32(1))
    assert into.tolist() == [2, 3, 1]
    np.testing.assert_allclose(after.score, [0.9, 0.2, -3.0], atol=1e-6)


def test_the_best_candidates_take_the_least_likely_places():
    book, visits = book_of([0.4, 0.3, 0.2, 0.1]), visits_of([[5, 5], [6, 6], [7, 7]], [0.25, 0.35, 0.15])
    after, _ = inserted(book, visits, visits.score, BY_SCORE, jnp.int32(1))
    np.testing.assert_allclose(sorted(after.score), [0.25, 0.3, 0.35, 0.4], atol=1e-6)


def test_fingerprints_tell_levels_apart():
    walls = jax.random.bernoulli(jax.random.key(1), 0.5, (4096, 6, 6))
    position = jnp.tile(jnp.float32([0.5, 1.5]), (4096, 1))
    prints = np.asarray(fingerprints((walls, position)))
    assert len(np.unique(prints, axis=0)) == len(np.unique(np.asarray(walls), axis=0))
    moved = fingerprints((walls, position.at[:, 0].add(1e-6)))
    assert (np.asarray(moved) != prints).any(axis=1).all()
    np.testing.assert_array_equal(fingerprints((walls[:3], position[:3])), prints[:3])
