"""Self-play: what it learns from, and that a pool of past selves ends the cycle of rock, paper and scissors."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of

import jaxrl
from jaxrl.acting.opponents import against_opponents, chances, rollout_of_learners
from jaxrl.acting.rollout import Observation
from jaxrl.algos import self_play
from jaxrl.algos.on_policy import collect
from jaxrl.train.cost import estimate_cost
from jaxrl.train.folder.load import Run
from jaxrl.train.programs import member_keys

GAME: dict[str, Any] = {"env": "matrix/rock_paper_scissors", "num_envs": 16, "num_steps": 4, "hidden": (4,)}


def against(policy: Any, agent: Any) -> Any:
    """The agent with rollouts by this policy."""
    return dataclasses.replace(
        agent, rollout=lambda agent, state, count: rollout_of_learners(agent, state, policy, count)
    )


def probabilities(algo: Any, params: Any) -> jax.Array:
    """Of the three actions."""
    networks = agent_of(algo).networks
    seen = Observation(jnp.ones((1, 1, 2, 1)), None, None, jnp.ones((1, 1, 2), bool))
    return networks.apply(params, networks.new_carry(1), seen, jnp.ones((1, 1), bool))[1].probs[0, 0, 0]


def test_the_pool_gets_a_copy_of_the_learner_every_so_many_updates():
    config = self_play.Config(**GAME, total_timesteps=64 * 8, num_opponents=3, snapshot_every=2)
    algo = self_play.make(config)
    state, update = algo.init(jax.random.key(0)), jax.jit(algo.update)
    kept = [state.params]
    for number in range(1, 8):
        state, metrics = update(state)
        seats = state.runner.carry
        made_way = number % 2 == 0
        if made_way:
            kept.append(state.params)
        np.testing.assert_array_equal(seats.replaced, made_way & (seats.opponent == (state.pool.added - 1) % 3))
        assert 0 <= float(metrics["losses"]["score_against_past"]) <= 1
    selves = [jax.tree.map(lambda leaf, slot=slot: leaf[slot], state.pool.params) for slot in range(3)]
    jax.tree.map(np.testing.assert_array_equal, selves, [kept[3], kept[1], kept[2]])
    assert float(state.pool.games.sum()) > 0


def test_what_the_past_plays_is_not_learned_from():
    """A past self that always shows scissors, against a learner that has not seen any: only its own steps count."""
    config = self_play.Config(**GAME, total_timesteps=64, past_share=1.0, update_epochs=1, num_minibatches=1)
    rows = []

    def loss(agent: Any, h: Any, params: Any, batch: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        alive = batch.observation.agent_mask
        shown = jnp.sum((batch.action == 2) * alive) / alive.sum()
        nothing = jnp.stack([0.0 * leaf.sum() for leaf in jax.tree.leaves(params)]).sum()
        return nothing, {"share": alive.mean(), "scissors": shown}

    algo = self_play.make(config, loss)
    state = algo.init(jax.random.key(0))
    params = jax.tree.map(lambda leaf: leaf, state.pool.params)
    params["params"]["policy"]["output"]["bias"] += 100.0 * jax.nn.one_hot(2, 3)
    state = dataclasses.replace(state, pool=state.pool._replace(params=params))
    _, metrics = jax.jit(algo.update)(state)
    rows = {name: float(value) for name, value in metrics["losses"].items()}
    assert rows["share"] == 0.5
    assert rows["scissors"] == pytest.approx(1 / 3, abs=0.2)


def test_what_the_past_sees_is_no_part_of_what_is_normalised():
    """Each side has three marines, all alive in the first four steps: half of the observations are the learner's."""
    config = self_play.Config(
        env="smax/3m?mode=selfplay",
        num_envs=8,
        num_steps=4,
        hidden=(4,),
        past_share=1.0,
        normalise_obs=True,
        normalise_reward=True,
    )
    agent = agent_of(self_play.make(config))
    state = jax.jit(partial(self_play.init_with_pool, agent))(jax.random.key(0))
    policy = against_opponents(agent, state, jnp.ones(8) / 8, 1.0)
    after, experience = jax.jit(lambda state: collect(against(policy, agent), state, state.hyperparams))(state)
    assert experience.traj.observation.agent_mask.mean() == 0.5
    for moments in (after.normaliser.obs, after.normaliser.returns):
        assert moments.count.tolist() == [[0, 4 * 8 * 3]]


def test_what_the_script_plays_is_not_learned_from_either():
    """All episodes are the script's: the learner has the first team alone, though past selves are to be met."""
    config = self_play.Config(
        env="smax/3m?mode=selfplay", num_envs=8, num_steps=16, hidden=(4,), script_share=1.0, past_share=1.0
    )

    def loss(agent: Any, h: Any, params: Any, batch: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        nothing = jnp.stack([0.0 * leaf.sum() for leaf in jax.tree.leaves(params)]).sum()
        first, second = batch.weight[..., :3].sum(), batch.weight[..., 3:].sum()
        return nothing, {"first": first, "second": second, "approx_kl": nothing}

    algo = self_play.make(config, loss)
    agent, state = agent_of(algo), jax.jit(algo.init)(jax.random.key(0))
    after, metrics = jax.jit(algo.update)(state)
    assert float(metrics["losses"]["first"]) == pytest.approx(1)
    assert float(metrics["losses"]["second"]) == 0
    assert (after.runner.carry.opponent == config.num_opponents).all(), "a past self has taken a seat"
    assert after.score.any(), "who is ahead in the games that go on is forgotten"
    # A second team that does not act yet, as seekers in hide-and-seek, may well meet a past self.
    policy = against_opponents(agent, state, chances(state.pool, "uniform"), 1.0)
    waits = jax.jit(lambda state: collect(against(policy, agent), state, state.hyperparams)[1])(
        algo.init(jax.random.key(1))
    )
    assert (waits.traj.extras["opponent"] < config.num_opponents).all()


def test_an_environment_without_a_script_says_so():
    with pytest.raises(ValueError, match=r"no script that plays a team\. Use --script-share 0"):
        self_play.make(self_play.Config(**GAME, script_share=0.5))


LEAGUE = self_play.Config(
    **GAME, total_timesteps=64 * 5, num_opponents=2, snapshot_every=2, league=("main", "exploiter", "main")
)


@pytest.fixture(scope="module")
def league(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("league") / "run"
    jaxrl.fit(self_play.make(LEAGUE), LEAGUE, folder, num_seeds=3, quiet=True, pictures=False, eval_episodes=4)
    return jaxrl.load(folder)


def test_members_of_a_league_join_the_pools_of_all(league: Run):
    """After the second and fourth update; nobody learns after that but in the fifth."""
    pool = jax.tree.leaves(league.state.pool.params)  # leaves [M, K * M, …]
    for leaf in pool:
        for member in range(3):
            np.testing.assert_array_equal(leaf[member], leaf[0])
        assert len(np.unique(np.asarray(leaf[0]).reshape(6, -1), axis=0)) == (6 if leaf.any() else 1)


def test_an_exploiter_meets_main_members_alone(league: Run):
    """After update 4, slots 0 to 2 have the newest generation, and 3 to 5 that of update 2."""
    games = np.asarray(league.state.pool.games)  # [M, K * M]
    np.testing.assert_array_equal(games[1] > 0, [True, False, True] * 2)
    assert np.all(games[[0, 2]] > 0)
    # In its fifth update, all its games are against them; the games of updates 3 and 4 count a little less by now.
    decayed = 64 * (0.99**2 + 0.99)
    np.testing.assert_allclose((games[1, :3].sum(), games[1, 3:].sum()), (64, decayed), rtol=1e-5)


def test_members_of_a_league_are_loaded_alone(league: Run):
    member = jaxrl.load(f"{league.folder.path}:1")
    jax.tree.map(
        np.testing.assert_array_equal, member.state.params, jax.tree.map(lambda leaf: leaf[1], league.state.params)
    )


def test_the_best_member_of_a_league_is_a_main_one(league: Run):
    evaluation = {name: [0.1, 0.9, 0.2] for name in ("win_rate", "return_mean")}
    played = league.checkpoint()._replace(extra={"evaluation": evaluation})
    assert dataclasses.replace(league, checkpoint=lambda: played).member().index == 2


@pytest.mark.slow
def test_the_cost_of_a_league_is_known_beforehand():
    estimate = estimate_cost(self_play.make(LEAGUE), LEAGUE, members=3)
    assert estimate.flops > 0


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_league_says_how_many_seeds_it_needs(seeds: int):
    with pytest.raises(ValueError, match=rf"has 3 members, and this run has {seeds}: train with --num-seeds 3"):
        jaxrl.fit(self_play.make(LEAGUE), LEAGUE, num_seeds=seeds, quiet=True)


def test_a_league_is_no_sweep(tmp_path: Path):
    with pytest.raises(ValueError, match="be points of a sweep or a search; train one league with --num-seeds 3"):
        jaxrl.sweep(self_play, LEAGUE, tmp_path / "sweep", lr=[1e-3, 1e-2])
    with pytest.raises(ValueError, match="be points of a sweep or a search; train one league with --num-seeds 2"):
        jaxrl.sweep(self_play, self_play.Config(**GAME), tmp_path / "sweep", league=[("main", "main")])
    assert not (tmp_path / "sweep").exists()


def test_a_single_team_is_refused():
    with pytest.raises(ValueError, match=r"smax/3m has 1 team, and self_play needs two; use ippo, or"):
        self_play.make(self_play.Config(env="smax/3m"))


@pytest.mark.parametrize("fields", [{"num_opponents": 9}, {"snapshot_every": 9}, {"opponents": "latest"}])
def test_a_pool_that_nobody_meets_has_no_fields(fields: dict[str, Any]):
    with pytest.raises(ValueError, match=r"has no effect with past_share=0\.0; leave it at"):
        self_play.make(self_play.Config(**GAME, total_timesteps=64, past_share=0.0, **fields))


@pytest.mark.slow
def test_rock_paper_scissors_comes_to_rest_with_a_pool_and_goes_round_without():
    """The mean distance of the policy from the equilibrium in the second half of training, for three seeds.

    The bounds are between what eight seeds do: at most 0.062 with the pool, and at least 0.103 without.
    """
    distance = {}
    for share in (0.7, 0.0):
        fields = {} if share else {"num_opponents": 8, "snapshot_every": 20, "opponents": "hard"}
        config = dataclasses.replace(self_play.PRESETS["matrix"], past_share=share, **fields)
        algo = self_play.make(config)

        def run(key: jax.Array, algo: Any = algo, config: Any = config) -> jax.Array:
            def step(state: Any, _: None) -> tuple[Any, jax.Array]:
                state, _ = algo.update(state)
                return state, probabilities(algo, state.params)

            return jax.lax.scan(step, algo.init(key), length=config.num_updates)[1]

        with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
            played = np.asarray(jax.jit(jax.vmap(run))(member_keys(0, 3)))
        distance[share] = np.abs(played[:, played.shape[1] // 2 :] - 1 / 3).max(2).mean(1)
    assert np.all(distance[0.7] < 0.08), distance
    assert np.all(distance[0.0] > 0.09), distance
