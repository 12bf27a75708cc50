"""Episode statistics against a Python loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.rl import episodes

T, B, N = 20, 3, 2


def test_sums_equal_a_plain_loop():
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(T, B, N)).astype(np.float32)
    done, won = rng.random((T, B)) < 0.3, rng.random((T, B)) < 0.5
    running, totals = episodes.new_running(B), {"episodes": 0, "return_sum": 0.0, "length_sum": 0, "won_sum": 0}
    for t in range(T):
        running, rows = episodes.ended(running, jnp.asarray(reward[t]), jnp.asarray(done[t]), {"won": won[t]})
        totals = {name: totals[name] + np.asarray(value).sum() for name, value in rows.items()}

    expected = {"episodes": 0, "return_sum": 0.0, "length_sum": 0, "won_sum": 0}
    for b in range(B):
        start = 0
        for t in range(T):
            if done[t, b]:
                expected["episodes"] += 1
                expected["return_sum"] += reward[start : t + 1, b].mean(1).sum()
                expected["length_sum"] += t + 1 - start
                expected["won_sum"] += won[t, b]
                start = t + 1
    for name, value in expected.items():
        np.testing.assert_allclose(totals[name], value, rtol=1e-5)


def test_numbers_of_the_info_count_at_the_end_of_an_episode():
    """One for each agent is their mean, and what is not a number elsewhere does not matter."""
    done = jnp.array([True, False, True])
    info = {"damage": jnp.array([[1.0, 3.0], [jnp.nan, 9.0], [4.0, 0.0]]), "won": jnp.array([True, True, False])}
    _, rows = episodes.ended(episodes.new_running(B), jnp.zeros((B, N)), done, info, log_info=("damage", "won"))
    sums = episodes.summed(rows)["info_sums"]
    assert (float(sums["damage"]), float(sums["won"])) == (4.0, 1.0)


def test_sums_of_many_long_episodes_do_not_overflow():
    """2.6 thousand million steps, of 131,072 environments whose episodes end at once."""
    num_envs, rng = 131_072, np.random.default_rng(0)
    before = rng.integers(19_900, 20_100, num_envs)
    running = episodes.new_running(num_envs)._replace(
        length=jnp.asarray(before, jnp.int32), episode_return=jnp.asarray(before, jnp.float32)
    )
    _, rows = episodes.ended(running, jnp.ones(num_envs), jnp.ones(num_envs, bool), {"won": jnp.ones(num_envs, bool)})
    sums = episodes.summed(rows)
    assert sums["episodes"] == sums["won_sum"] == num_envs
    assert sums["episodes"].dtype == np.int32
    np.testing.assert_allclose(sums["length_sum"], (before + 1).sum(), rtol=1e-6)
    np.testing.assert_allclose(sums["return_sum"], (before + 1).sum(), rtol=1e-6)


def test_each_of_several_kinds_of_agents_has_a_sum_of_its_own():
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(T, B, 3)).astype(np.float32)
    done = rng.random((T, B)) < 0.3
    kinds = {"wolf": (0, 2), "sheep": (1,)}
    together = {"wolf": 0.0, "sheep": 0.0}
    alone = dict(together)
    running = episodes.new_running(B, kinds)
    separate = {name: episodes.new_running(B) for name in kinds}
    for t in range(T):
        running, rows = episodes.ended(running, jnp.asarray(reward[t]), jnp.asarray(done[t]), {}, kinds)
        for name, agents in kinds.items():
            own = jnp.asarray(reward[t][:, list(agents)])
            separate[name], own_rows = episodes.ended(separate[name], own, jnp.asarray(done[t]), {})
            together[name] += float(rows["return_sums"][name].sum())
            alone[name] += float(own_rows["return_sum"].sum())
    assert together == pytest.approx(alone, rel=1e-5)
    assert abs(alone["wolf"] - alone["sheep"]) > 1


def test_one_kind_of_agents_has_no_sum_besides_the_mean_return():
    kinds = {"agent": (0, 1)}
    running, rows = episodes.ended(episodes.new_running(B, kinds), jnp.ones((B, N)), jnp.ones(B, bool), {}, kinds)
    assert "return_sums" not in rows
    assert running.kind_return == {}


def test_wins_are_counted_only_where_the_environment_knows_them():
    _, rows = episodes.ended(episodes.new_running(B), jnp.ones(B), jnp.ones(B, bool), {})
    assert "won_sum" not in rows
    assert rows["episodes"].sum() == B


def test_a_lead_of_rounding_errors_is_a_draw():
    one, other = np.float32(0.1) + np.float32(0.6), np.float32(0.7)
    assert one != other
    found = episodes.points(jnp.array([one - other, other - one, 0.0, 0.01, -0.01, jnp.nan]))
    np.testing.assert_array_equal(found, [0.5, 0.5, 0.5, 1, 0, np.nan])
