"""Returns against slow NumPy versions."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl.returns import lambda_returns

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
