"""A pool of past selves: who is kept, who is drawn, who plays where, and what their games come to."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of

from jaxrl.acting.agent import make_collector
from jaxrl.acting.normaliser import normalised
from jaxrl.acting.opponents import (
    Opponents,
    Preference,
    Seats,
    add_snapshot,
    against_opponents,
    chances,
    count_results,
    meets,
    new_opponents,
    rollout_of_learners,
    seats_after,
)
from jaxrl.acting.rollout import Observation, Transition, rollout
from jaxrl.algos import self_play
from jaxrl.algos.on_policy import collect
from jaxrl.rl.devices import shard_keys

COUNT = 3


def numbered(number: float) -> Any:
    return {"weights": jnp.full((2, 2), number), "bias": jnp.float32(number)}


def generation(*members: Any) -> Any:
    """One self of each member, leaves `[M, …]`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def test_the_oldest_makes_way_and_what_was_known_of_it_too():
    pool = new_opponents(numbered(0), (), COUNT)._replace(wins=jnp.arange(3.0), games=jnp.full(3, 5.0))
    held = []
    for number in range(1, 5):
        pool = add_snapshot(pool, generation(numbered(number)), (), jnp.bool_(number != 3))  # 3 is not kept
        held.append(np.asarray(pool.params["bias"]).tolist())
    assert held == [[0, 1, 0], [0, 1, 2], [0, 1, 2], [4, 1, 2]]
    np.testing.assert_array_equal(pool.params["weights"][:, 0, 0], [4, 1, 2])
    assert int(pool.added) == 4
    np.testing.assert_array_equal(pool.games, 0)


def test_who_has_diverged_joins_no_pool():
    """Member 1 of a league of two, in the second generation: its slot keeps what was there, and what is known of it."""
    pool = new_opponents(numbered(0.0), numbered(0.0), 4)
    pool = add_snapshot(
        pool, generation(numbered(10.0), numbered(11.0)), generation(*2 * [numbered(1.0)]), jnp.bool_(True)
    )
    pool = pool._replace(wins=jnp.arange(4.0), games=jnp.full(4, 5.0))
    diverged = {**numbered(21.0), "weights": jnp.array([[1.0, jnp.nan], [1.0, 1.0]])}
    pool = add_snapshot(pool, generation(numbered(20.0), diverged), generation(*2 * [numbered(2.0)]), jnp.bool_(True))
    np.testing.assert_array_equal(pool.params["bias"], [20, 0, 10, 11])
    np.testing.assert_array_equal(pool.normaliser["bias"], [2, 0, 1, 1])
    assert (pool.games.tolist(), pool.wins.tolist()) == ([0, 5, 5, 5], [0, 1, 2, 3])
    assert int(pool.added) == 3


def test_a_league_keeps_and_meets_generations_of_all_its_members():
    """Two main members and an exploiter, two generations: slots 0 to 2 and 3 to 5."""
    roles = ("main", "main", "exploiter")
    pool = new_opponents(numbered(0), (), 6)
    everybody, mains = range(6), (0, 1)
    for number, newest, there in ((1, 1, 6), (2, 0, 6), (3, 1, 6)):
        newcomers = [numbered(10 * number + member) for member in range(3)]
        pool = add_snapshot(pool, generation(*newcomers), (), jnp.bool_(True))
        np.testing.assert_array_equal(pool.params["bias"][3 * newest :][:3], 10 * number + np.arange(3))
        for member, met in ((0, everybody), (1, everybody), (2, [3 * newest + main for main in mains])):
            chance = np.asarray(chances(pool, "uniform", 3, meets(pool, roles, jnp.int32(member))))
            np.testing.assert_allclose(chance[list(met)], 1 / min(len(met), there), rtol=1e-6)
            assert chance.sum() == pytest.approx(1)
    latest = np.asarray(chances(pool, "latest", 3))
    np.testing.assert_allclose(latest[:3] / latest[3:], 0.8, rtol=1e-6)


@pytest.mark.parametrize(
    ("members", "added", "made_way"), [(1, 7, (0,)), (1, 5, (4,)), (2, 2, (2, 3)), (3, 4, (3, 4, 5))]
)
def test_games_against_those_who_made_way_are_neithers(members, added, made_way):
    """Each of six slots, and the learner on both sides, twice: in a new game, and in one whose opponent went before."""
    pool = Opponents({}, {}, jnp.int32(added), jnp.zeros(6), jnp.zeros(6))
    before = np.repeat([False, True], 7)
    opponent = jnp.tile(jnp.arange(7), 2)
    seats = Seats((), (), opponent, jnp.zeros(14, jnp.int32), jnp.asarray(before))
    after = seats_after(seats, pool, jnp.bool_(True), members)
    np.testing.assert_array_equal(after.replaced, before | np.isin(opponent, made_way))
    np.testing.assert_array_equal(seats_after(seats, pool, jnp.bool_(False), members).replaced, before)


def test_before_a_league_has_a_past_it_meets_the_first_generation_alone():
    pool = new_opponents(numbered(0), (), 6)
    np.testing.assert_allclose(chances(pool, "hard", 3), [1 / 3] * 3 + [0] * 3, rtol=1e-6)


@pytest.mark.parametrize("added", [1, 2, 3, 5])
def test_the_chances_of_each_preference(added):
    wins, games = jnp.array([3.0, 0.0, 8.0]), jnp.array([3.0, 0.0, 10.0])
    pool = Opponents({}, {}, jnp.int32(added), wins, games)
    newest = (added - 1) % COUNT
    there = np.arange(COUNT) < added
    age = np.array([(newest - slot) % COUNT for slot in range(COUNT)])
    weights: dict[Preference, Any] = {
        "uniform": np.ones(3),
        "latest": 0.8**age,
        "hard": (1 - np.array([4 / 5, 1 / 2, 9 / 12])) ** 2 + 1e-3,
    }
    for preference, weight in weights.items():
        np.testing.assert_allclose(chances(pool, preference), weight * there / (weight * there).sum(), rtol=1e-5)


@pytest.fixture(scope="module")
def played() -> tuple[Any, Any, Any]:
    """The seats and steps of a rollout in which the learner always plays 1, and the past selves 0 and 2."""
    config = self_play.Config(
        env="matrix/rock_paper_scissors", num_envs=64, num_steps=8, num_opponents=2, hidden=(4,), past_share=0.5
    )
    algo = self_play.make(config)
    agent = agent_of(algo)
    state = jax.jit(algo.init)(jax.random.key(0))

    def always(action: int) -> Any:
        params = jax.tree.map(jnp.zeros_like, state.params)
        params["params"]["policy"]["output"]["bias"] += 100.0 * jax.nn.one_hot(action, 3)
        return params

    pool = new_opponents(always(0), state.normaliser, 2)
    pool = add_snapshot(pool, generation(always(2)), generation(state.normaliser), jnp.bool_(True))
    state = dataclasses.replace(state, params=always(1), pool=pool)
    policy = against_opponents(agent, state, chances(pool, "uniform"), 0.5)
    dealt = dataclasses.replace(
        agent, rollout=lambda agent, state, count: rollout_of_learners(agent, state, policy, count)
    )
    _, seen = jax.jit(lambda state: collect(dealt, state, state.hyperparams))(state)
    return agent, pool, seen.traj


def test_each_seat_is_played_by_whom_the_deal_says(played):
    _, _, traj = played
    action, opponent, side, learns = (
        np.asarray(leaf) for leaf in (traj.action, *(traj.extras[name] for name in ("opponent", "side", "learns")))
    )
    assert set(np.unique(opponent)) == {0, 1, 2}
    assert set(np.unique(side[opponent < 2])) == {0, 1}
    np.testing.assert_array_equal(learns, (opponent == 2)[..., None] | (np.arange(2) == side[..., None]))
    theirs = np.array([0, 2, -1])[opponent][..., None]
    np.testing.assert_array_equal(action, np.where(learns, 1, theirs))
    assert np.mean(opponent == 2) == pytest.approx(0.5, abs=0.1)
    # A game of one step: opponents are dealt anew at each.
    assert len(np.unique(opponent[:, 0])) > 1


def self_of(algo: Any, seed: int) -> tuple[Any, Any]:
    """Somebody with a memory who knows what to do, and what inputs are to him like."""
    state, rng = algo.init(jax.random.key(seed)), np.random.default_rng(seed)
    params, moments = jax.tree.map(lambda leaf: leaf, state.params), state.normaliser.obs
    params["params"]["policy"]["output"]["kernel"] *= 1e8  # nothing is left to chance
    scale = {"mean": rng.normal(size=moments.mean.shape), "variance": rng.uniform(0.1, 2.0, moments.mean.shape)}
    known = dataclasses.replace(
        moments, count=jnp.ones_like(moments.count), **{name: jnp.float32(value) for name, value in scale.items()}
    )
    return params, state.normaliser._replace(obs=known)


def test_everybody_acts_as_in_an_episode_of_its_own(toys):
    """With its own parameters, normaliser and memory, which all go on from the episode's beginning to its end."""
    config = self_play.Config(
        env="toy/team?rivals=true",
        num_envs=32,
        num_steps=8,
        num_opponents=2,
        hidden=(8,),
        memory="gru",
        memory_size=8,
        normalise_obs=True,
    )
    algo = self_play.make(config)
    agent, selves = agent_of(algo), [self_of(algo, seed) for seed in range(3)]
    state = algo.init(jax.random.key(3))
    pool = new_opponents(*selves[0], 2)
    pool = add_snapshot(pool, generation(selves[1][0]), generation(selves[1][1]), jnp.bool_(True))
    state = dataclasses.replace(state, params=selves[2][0], normaliser=selves[2][1], pool=pool)
    policy, collector = against_opponents(agent, state, chances(pool, "uniform"), 0.8), make_collector(agent, 0)

    @jax.jit
    def play(state: Any, key: jax.Array) -> tuple[Any, Transition]:
        keys = shard_keys(key, config.shards, collector.keys_per_step * config.num_steps)[1]
        keys = keys.reshape(config.num_steps, collector.keys_per_step, -1)
        return rollout(collector, policy, state.runner, keys, config.train_length)[:2]

    runner, traj = play(state, jax.random.key(4))
    obs, reset = jnp.append(traj.observation.obs, runner.obs[None], 0), jnp.append(traj.reset, runner.reset[None], 0)
    everything = Observation(obs, None, None, jnp.ones(obs.shape[:3], bool))

    @jax.jit
    def replay(params: Any, normaliser: Any) -> tuple[jax.Array, jax.Array]:
        seen = normalised(normaliser, everything, agent.param_sets)
        _, distribution, value = agent.networks.apply(params, agent.networks.new_carry(32), seen, reset)
        return distribution.mode()[:-1], value

    would_do, values = zip(*(replay(*each) for each in selves), strict=True)
    opponent, learns = np.asarray(traj.extras["opponent"]), np.asarray(traj.extras["learns"])
    wanted = np.where(learns, would_do[2], np.where(opponent[..., None] == 0, would_do[0], would_do[1]))
    np.testing.assert_array_equal(traj.action, wanted)
    assert min((would_do[a] != would_do[b]).mean() for a, b in ((0, 1), (0, 2), (1, 2))) > 0.1
    for name in ("opponent", "side"):
        dealt = np.asarray(traj.extras[name])
        np.testing.assert_array_equal(dealt[1:][~reset[1:-1]], dealt[:-1][~reset[1:-1]])
    np.testing.assert_allclose(traj.extras["value"], values[2][:-1], atol=1e-4)
    np.testing.assert_allclose(traj.bootstrap[-1], values[2][-1], atol=1e-4)
    # Whose opponent makes way between two rollouts has a new one from the next episode on.
    seats = runner.carry._replace(replaced=jnp.ones(32, bool))
    _, later = play(dataclasses.replace(state, runner=runner._replace(carry=seats)), jax.random.key(5))
    np.testing.assert_array_equal(later.extras["replaced"], np.cumsum(later.reset, axis=0) == 0)


def test_results_are_those_of_a_loop_over_games(played):
    agent, pool, traj = played
    found, score = count_results(pool, traj, jnp.zeros(64), agent.env.teams)
    opponent = np.asarray(traj.extras["opponent"])
    # 1 (paper) beats 0 (rock) and loses to 2 (scissors); both of the learner's own sides count for nobody.
    np.testing.assert_allclose(found.games, [(opponent == 0).sum(), (opponent == 1).sum()])
    np.testing.assert_allclose(found.wins, [(opponent == 0).sum(), 0])
    np.testing.assert_array_equal(score, 0)


def test_a_game_that_only_rounding_decides_is_a_draw():
    """The learner's side earns 0.1 and 0.6, the other 0.7."""
    reward = jnp.array([[0.1, 0.0], [0.6, 0.0], [0.0, 0.7]])[:, None]
    assert np.float32(0.1) + np.float32(0.6) != np.float32(0.7)
    extras = {"opponent": jnp.zeros((3, 1), int), "side": jnp.zeros((3, 1), int), "replaced": jnp.zeros((3, 1), bool)}
    cut, nothing = jnp.array([[False], [False], [True]]), cast(Any, None)
    traj = Transition(nothing, nothing, None, nothing, extras, reward, nothing, cut, nothing)
    pool, _ = count_results(new_opponents(numbered(0), (), COUNT), traj, jnp.zeros(1), (0, 1))
    np.testing.assert_array_equal([pool.wins, pool.games], [[0.5, 0, 0], [1, 0, 0]])


def test_a_game_goes_on_from_one_rollout_to_the_next():
    """Random rewards and ends of four agents, against a loop."""
    rng = np.random.default_rng(0)
    teams, pool = (0, 0, 1, 1), Opponents({}, {}, jnp.int32(3), jnp.zeros(3), jnp.zeros(3))
    score, ahead = jnp.zeros(5), np.zeros(5)
    wins, games = np.zeros(3), np.zeros(3)
    for _ in range(3):
        reward, cut = rng.integers(-2, 3, (6, 5, 4)).astype(np.float32), rng.random((6, 5)) < 0.3
        opponent, side, replaced = rng.integers(0, 4, (6, 5)), rng.integers(0, 2, (6, 5)), rng.random((6, 5)) < 0.3
        wins, games = 0.99 * wins, 0.99 * games
        for t in range(6):
            for b in range(5):
                gain = reward[t, b, :2].mean() - reward[t, b, 2:].mean()
                ahead[b] += gain if side[t, b] == 0 else -gain
                if cut[t, b]:
                    if opponent[t, b] < 3 and not replaced[t, b]:
                        games[opponent[t, b]] += 1
                        wins[opponent[t, b]] += (np.sign(ahead[b]) + 1) / 2
                    ahead[b] = 0
        dealt = {"opponent": opponent, "side": side, "replaced": replaced}
        extras = {name: jnp.asarray(value) for name, value in dealt.items()}
        nothing: Any = None
        traj = Transition(
            nothing, nothing, None, nothing, extras, jnp.asarray(reward), nothing, jnp.asarray(cut), nothing
        )
        pool, score = count_results(pool, traj, score, teams)
    np.testing.assert_allclose(pool.wins, wins, rtol=1e-5)
    np.testing.assert_allclose(pool.games, games, rtol=1e-5)
    np.testing.assert_allclose(score, ahead, atol=1e-5)
