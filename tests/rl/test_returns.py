"""Returns against slow NumPy versions."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.returns import greedy_value, lambda_returns, n_step_returns

GAMMA, T = 0.9, 4


def slow_return(reward, ends, value, after, final_value, q_lambda):
    """The definition for one history: a mean of all n-step returns, weighted by powers of lambda.

    `value[t]` is that of the observation before step t, `after` that after the last step, and `final_value[t]` that of
    the final observation if the clock ends the episode with step t.
    """
    result = np.zeros(T)
    for t in range(T):
        last = next((k for k in range(t, T) if ends[k]), T - 1)
        for n in range(1, last - t + 2):
            k = t + n - 1  # the last step whose reward counts
            following = final_value[k] if ends[k] == "truncated" else after if k == T - 1 else value[k + 1]
            following = 0.0 if ends[k] == "terminated" else following
            n_step = sum(GAMMA**i * reward[t + i] for i in range(n)) + GAMMA**n * following
            result[t] += n_step * q_lambda ** (n - 1) * (1.0 if k == last else 1.0 - q_lambda)
    return result


def slow_n_step(reward, ends, value, n):
    """The target of step 0 of one history, None if it has none. There are no final observations: a step that the clock
    cuts is not followed by anything that is known, so it is only a state to bootstrap from.
    """
    if ends[0] == "truncated":
        return None
    total = 0.0
    for k in range(n):
        if k and ends[k] == "truncated":
            return total + GAMMA**k * value[k]
        total += GAMMA**k * reward[k]
        if ends[k] == "terminated":
            return total
    return total + GAMMA**n * value[n]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_n_step_returns_at_every_position_of_terminated_and_truncated(n):
    """All histories of two starts, as a replay buffer has them; the value after n steps is discounted n times."""
    rng, length = np.random.default_rng(0), n + 1
    reward, value = rng.normal(size=length), rng.normal(size=length + 1)
    histories = list(itertools.product(("", "terminated", "truncated"), repeat=length + 1))
    terminated, truncated = (
        np.array([[e == kind for e in h] for h in histories]).T for kind in ("terminated", "truncated")
    )
    columns = [jnp.asarray(np.broadcast_to(x[:, None], (length, len(histories)))) for x in (reward, value[1:])]
    discount = jnp.asarray(GAMMA * (1.0 - terminated[:-1]))
    actual = n_step_returns(columns[0], discount, jnp.asarray(truncated[1:]), columns[1], n)
    assert actual.shape == (2, len(histories))
    for row, ends in enumerate(histories):
        for start in (0, 1):
            expected = slow_n_step(reward[start:], ends[start:], value[start:], n)
            if expected is not None:
                np.testing.assert_allclose(actual[start, row], expected, atol=1e-5, err_msg=f"{ends} from {start}")


def test_double_q_learning_takes_the_value_of_another_networks_choice():
    values, chooser = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), jnp.array([[0.0, 9.0, 1.0], [7.0, 0.0, 1.0]])
    np.testing.assert_array_equal(greedy_value(values, chooser), [2.0, 4.0])
    np.testing.assert_array_equal(greedy_value(values, values), [3.0, 6.0])


@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
def test_returns_at_every_position_of_terminated_and_truncated(q_lambda):
    """All 81 histories. The last step bootstraps from what follows it, and the one before from the last step's own
    value; a time-out from its final observation, never from the next episode's first; an end from nothing.
    """
    rng = np.random.default_rng(0)
    reward, value, final_value = rng.normal(size=(3, T))
    after = rng.normal()
    histories = list(itertools.product(("", "terminated", "truncated"), repeat=T))
    terminated = np.array([[e == "terminated" for e in ends] for ends in histories]).T
    truncated = np.array([[e == "truncated" for e in ends] for ends in histories]).T
    expected = np.stack([slow_return(reward, ends, value, after, final_value, q_lambda) for ends in histories], axis=1)
    columns = [np.broadcast_to(x[:, None], expected.shape) for x in (reward, value, np.append(value[1:], after))]
    next_value = np.where(truncated, final_value[:, None], columns[2])
    discount, cut = jnp.asarray(GAMMA * (1.0 - terminated)), jnp.asarray(terminated | truncated)
    actual = lambda_returns(
        jnp.asarray(columns[0]), discount, cut, jnp.asarray(columns[1]), jnp.asarray(next_value), q_lambda
    )
    np.testing.assert_allclose(actual, expected, atol=1e-5)
