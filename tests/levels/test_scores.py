"""Scores by hand: two episodes of three steps, of which the second ends in a later rollout."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.levels.book import new_book, noted
from jaxrl.levels.options import Levels
from jaxrl.levels.scores import Critique, add_step, criticised, learnability, new_tally, variance
from jaxrl.rl.advantage import gae

pytestmark = pytest.mark.quick

REWARD, VALUE = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.2, 0.4, 0.6, 0.1, 0.3, 0.5]
NOTHING = Critique(*jnp.zeros((3, 1)))
CUT = [False, False, True, False, False, False]


def column(numbers) -> jnp.ndarray:
    return jnp.array(numbers)[:, None]


def tally_of(rewards, ends, wins=None, agents: int = 1):
    """The tally of one environment after these steps."""
    tally = new_tally(1, agents)
    for t, (reward, end) in enumerate(zip(rewards, ends, strict=True)):
        won = jnp.zeros((1, agents), bool) if wins is None else jnp.array([wins[t]]).reshape(1, agents)
        tally = add_step(tally, jnp.full((1, 1), reward), jnp.array([end]), won)
    return tally


def critic_mean(numbers, left_at: int = 2) -> float:
    leaves = column([t == left_at for t in range(6)])
    return float(criticised(NOTHING, column(numbers), column(CUT), leaves)[1][0])


def maxmc(rewards, mean_value: float, best_before: float = -np.inf) -> float:
    """The score that the book notes for a level of the pool."""
    tally = tally_of(rewards, CUT[: len(rewards)])
    book = new_book(1)._replace(score=jnp.zeros(1), best=jnp.array([best_before], jnp.float32))
    visits = book._replace(score=jnp.array([mean_value]), best=tally.best)
    return float(noted(book, visits, Levels(score="maxmc"))[0].score[0])


def test_maxmc_is_the_best_return_minus_the_mean_value():
    mean = critic_mean(VALUE)
    assert mean == pytest.approx(0.4)
    assert maxmc(REWARD[:3], mean) == pytest.approx(0.6)
    assert maxmc(REWARD[:3], mean, best_before=1.5) == pytest.approx(1.1)  # the best ever, not of this visit
    assert maxmc([0.0, 0.0, 0.0], mean) == pytest.approx(-0.4)


def test_a_best_return_below_zero_stays_below_zero():
    assert maxmc([-1.0, -1.0, -1.0], -2.0) == pytest.approx(-1.0)


@pytest.mark.parametrize(("gamma", "lam", "positive"), [(1.0, 1.0, 0.6), (0.9, 1.0, 0.50333), (1.0, 0.0, 0.26667)])
def test_positive_value_loss_and_l1(gamma, lam, positive):
    value, cut = column(VALUE), column(CUT)
    after = jnp.where(cut, 0.0, jnp.concatenate([value[1:], value[-1:]]))
    advantage = gae(column(REWARD), gamma * (1.0 - cut), cut, value, after, lam)[:, 0]
    assert critic_mean(np.maximum(advantage, 0)) == pytest.approx(positive, abs=1e-4)
    assert critic_mean(np.abs(advantage)) == pytest.approx(positive, abs=1e-4)  # here none is negative


def test_without_a_reward_the_critic_was_too_hopeful():
    cut, after = column(CUT[:3]), column([0.4, 0.6, 0.0])
    advantage = gae(column([0.0] * 3), 1.0 - cut, cut, column(VALUE[:3]), after, 1.0)
    numbers = np.concatenate([advantage[:, 0], np.zeros(3)])
    assert critic_mean(np.maximum(numbers, 0)) == pytest.approx(0.0)
    assert critic_mean(np.abs(numbers)) == pytest.approx(0.4)


def test_an_episode_counts_once_it_ends_even_in_a_later_rollout():
    no = jnp.zeros((6, 1), bool)
    critique, left = criticised(NOTHING, column(VALUE), column(CUT), no)
    assert (critique.steps[0], float(critique.means[0]), float(left[0])) == (3, pytest.approx(0.4), 0.0)
    end = column([True])
    critique, left = criticised(critique, column([0.7]), end, end)
    assert float(left[0]) == pytest.approx(0.4 + (0.1 + 0.3 + 0.5 + 0.7) / 4)
    assert (critique.steps[0], float(critique.means[0])) == (0, 0.0)  # the next level begins with nothing


def test_learnability_and_variance():
    tally = tally_of([1.0, 0.0], [True, True], wins=[[True], [False]])
    assert float(learnability(tally)[0]) == pytest.approx(0.5)  # 1/4, times n / (n - 1)
    assert float(variance(tally)[0]) == pytest.approx(0.5)  # the same for returns of 0 and 1
    two = tally_of([0.0, 0.0], [True, True], wins=[[True, True], [False, True]], agents=2)
    assert float(learnability(two)[0]) == pytest.approx(0.5)  # p = 1/2 and 1


def test_variance_of_large_returns_keeps_its_digits():
    returns = [1e4 + 0.5, 1e4 - 0.5, 1e4, 1e4]
    tally = tally_of(returns, [True] * 4)
    assert float(variance(tally)[0]) == pytest.approx(np.var(returns, ddof=1), rel=1e-3)


@pytest.mark.parametrize("ends", [[False], [True]])
def test_fewer_than_two_episodes_have_no_score(ends):
    tally = tally_of([1.0], ends, wins=[[True]])
    assert float(learnability(tally)[0]) == float(variance(tally)[0]) == -np.inf
