"""Matches and arenas with policies whose results are known."""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.algos import ippo, self_play
from jaxrl.report.arena import as_markdown, draw_matrix, facts, hold, tables
from jaxrl.train.matches import Contender, _joined, play_match, script_of, sides_of
from jaxrl.wrappers import SharedReward
from jaxrl.wrappers.fixed import random_policy

CONFIG = self_play.Config(env="matrix/rock_paper_scissors", num_envs=4, num_steps=4, total_timesteps=16, hidden=(4,))
GAME = jaxrl.make("matrix/rock_paper_scissors")


@pytest.fixture(scope="module")
def three() -> list[Contender]:
    """Who always shows rock, paper and scissors."""
    algo = self_play.make(CONFIG)
    state = jax.jit(algo.init)(jax.random.key(0))
    found = []
    for action, name in enumerate(("rock", "paper", "scissors")):
        params: Any = jax.tree.map(np.zeros_like, state.params)
        params["params"]["policy"]["output"]["bias"][..., action] = 100.0
        own = jax.tree.map(lambda leaf: leaf, state)
        object.__setattr__(own, "params", params)
        found.append(Contender(name, algo, own, GAME, "always"))
    return found


def test_everybody_plays_everybody_on_both_sides(three):
    lines: list[str] = []
    arena = hold(GAME, three, games=16, told=lines.append)
    np.testing.assert_array_equal(arena.matrix, [[np.nan, 0, 1], [1, np.nan, 0], [0, 1, np.nan]])
    np.testing.assert_array_equal(arena.results.sum(-1), 16 * (1 - np.eye(3)))
    assert lines[0] == "rock against paper: 0 : 16"
    found = facts(arena)
    np.testing.assert_allclose(found["equilibrium"], 1 / 3, atol=1e-6)
    np.testing.assert_allclose(found["elo"]["rating"], 1500, atol=1e-6)
    assert "| paper | 1.00 |  | 0.00 |" in as_markdown(arena)
    assert len(draw_matrix(arena).axes) == 2


def test_sides_keep_their_seats_whatever_the_order_of_agents(three):
    """The first side is the first team, here of the second player: there, too, paper beats rock."""

    class Turned(type(GAME)):
        teams = (1, 0)

    assert sides_of(Turned()) == ((1,), (0,))
    rock, paper, _ = three
    assert play_match(Turned(), paper, rock, jax.random.key(0), 4)[:3] == (4, 0, 0)


@pytest.mark.parametrize("teams", [(0, 1, 1, 0), (1, 0, 0), (1, 1, 0, 1, 0)])
def test_actions_return_to_their_seats_where_the_seats_are_no_exchange(teams: tuple[int, ...]):
    """An exchange of two seats is its own inverse, and these orders are not."""

    class Mixed(type(GAME)):
        agents = tuple(f"player_{number}" for number in range(len(teams)))

    Mixed.teams = teams
    sides = sides_of(Mixed())

    def numbers(side: tuple[int, ...]) -> Any:
        return lambda *_, **__: (jnp.array([side]), None)

    actions, _ = _joined([numbers(side) for side in sides], sides).act(((), ()), None, key=jax.random.key(0))
    np.testing.assert_array_equal(actions, [np.arange(len(teams))])


def test_alike_contenders_share_a_program(three):
    programs = {}
    for first, second in ((0, 1), (1, 2), (2, 0)):
        play_match(GAME, three[first], three[second], jax.random.key(0), 4, programs=programs)
    assert len(programs) == 1


def test_who_was_trained_for_a_number_of_agents_that_is_no_side_is_refused(three):
    class Crowd(type(GAME)):
        agents = ("player_0", "player_1", "player_2")

    with pytest.raises(ValueError, match="rock acts for 3 agents; a side of matrix/rock_paper_scissors has 1 of 2"):
        play_match(GAME, three[0]._replace(trained_in=Crowd()), three[1], jax.random.key(0), 4)


def test_a_policy_for_one_side_takes_its_side_and_meets_the_script():
    """Trained for the three allies alone, it plays either side of a battle between six."""
    env = jaxrl.make("smax/3m?mode=selfplay&max_steps=12")
    assert sides_of(env) == ((0, 1, 2), (3, 4, 5))
    config = ippo.Config(num_envs=4, num_steps=4, total_timesteps=16, hidden=(4,))
    allies = ippo.make(config)
    both = self_play.make(self_play.Config(num_envs=4, num_steps=4, total_timesteps=16, hidden=(4,)))
    contenders = [
        Contender("allies", allies, jax.jit(allies.init)(jax.random.key(0)), jaxrl.make("smax/3m"), "allies"),
        Contender("both", both, jax.jit(both.init)(jax.random.key(1)), env, "both"),
    ]
    arena = hold(env, contenders, scripted=True, games=8)
    assert arena.names == ("allies", "both", "scripted")
    np.testing.assert_array_equal(arena.results.sum(-1), [[0, 8, 8], [8, 0, 8], [0, 0, 0]])
    assert arena.matrix[2, 0] > 0.5  # it has learned nothing
    wrong = r"allies was trained in smax/3m, .* in smax/2s3z\?mode=selfplay they see .* Leave it out"
    with pytest.raises(ValueError, match=wrong):
        play_match(jaxrl.make("smax/2s3z?mode=selfplay"), contenders[0], contenders[1], jax.random.key(0), 4)


def test_who_was_trained_for_one_side_plays_that_side_alone():
    """Two for the first player meet two for the second: a table of two by two, and weights for each side."""

    class Seated(type(GAME)):
        roles = (0, 1)

    def always(action: int, name: str, agents: tuple[str, ...]) -> Contender:
        def act(state: Any, obs: Any, carry: Any = None, key: Any = None, **_: Any) -> Any:
            return jnp.full(obs.shape[:2], action), carry

        trained_in = type("Part", (Seated,), {"agents": agents})()
        none: Any = None
        return Contender(name, Algorithm(none, none, act), (), trained_in, name)

    env, (rock, paper, scissors) = Seated(), range(3)
    firsts = [always(rock, "a rock", ("player_0",)), always(paper, "a paper", ("player_0",))]
    seconds = [always(scissors, "b scissors", ("player_1",)), always(rock, "b rock", ("player_1",))]
    arena = hold(env, [*firsts, *seconds], games=8)
    np.testing.assert_array_equal(arena.results.sum(-1) > 0, np.kron([[0, 1], [0, 0]], np.ones((2, 2))))
    table, ratings = tables(arena)
    assert table[1:] == [("a rock", "1.00", "0.50"), ("a paper", "0.00", "1.00")]
    assert len(ratings) == 5
    # Rock gets 2/3 of the first side, which then has 2/3 against both; scissors get 1/3 of the second.
    np.testing.assert_allclose(arena.weights, [2 / 3, 1 / 3, 1 / 3, 2 / 3], atol=1e-6)
    assert [text.get_text() for text in draw_matrix(arena).axes[0].get_xticklabels()] == ["b scissors", "b rock"]

    with pytest.raises(ValueError, match="a rock plays the first side alone, and nobody plays the second"):
        hold(env, firsts, games=8)
    whole = always(paper, "paper", env.agents)
    mixed = hold(env, [firsts[0], whole], games=8)
    np.testing.assert_array_equal(mixed.matrix, [[np.nan, 0], [1, np.nan]])


def test_members_of_one_team_play_with_strangers_and_with_themselves():
    """In a game that pays for the same choice, who always chooses the same does well with itself alone."""
    env = jaxrl.make("probe/two_step")
    assert sides_of(env) == ((0,), (1,))
    module = ippo
    config = module.Config(env="probe/two_step", num_envs=4, num_steps=4, total_timesteps=16, hidden=(4,))
    algo = module.make(config)
    init = jax.jit(algo.init)
    pair = [Contender(str(seed), algo, init(jax.random.key(seed)), env, "same") for seed in (0, 1)]
    arena = hold(env, pair, games=32)
    assert not arena.competitive
    assert np.isfinite(arena.matrix).all()
    with pytest.raises(ValueError, match="has 6 teams and 3 kinds of agents"):
        sides_of(jaxrl.make("mpe/simple_world_comm"))  # leadadversary, adversary and agent
    with pytest.raises(ValueError, match=r"has 3 teams and 1 kind of agents; .* trained with --shared-reward"):
        sides_of(jaxrl.make("mpe/simple_spread"))  # everybody earns alone, so nobody's side is the other one's rival
    assert sides_of(cast(Any, SharedReward(jaxrl.make("mpe/simple_spread")))) == ((0, 1), (2,))
    assert sides_of(jaxrl.make("mpe/simple_tag")) == ((0, 1, 2), (3,))
    assert sides_of(jaxrl.make("mpe/simple_tag?num_good=2")) == ((0, 1, 2), (3, 4))  # by their kinds


@pytest.mark.slow
def test_rules_for_single_agents_play_any_side_of_a_team():
    """Hanabi's rules score with themselves, and play with strangers on both sides."""
    env = jaxrl.make("hanabi/2p", colors=2, ranks=2, hand_size=2)
    config = ippo.Config(env="hanabi/2p?colors=2&ranks=2&hand_size=2", num_envs=4, num_steps=4, total_timesteps=16)
    algo = ippo.make(config)
    arena = hold(env, [Contender("new", algo, algo.init(jax.random.key(0)), env, "new")], scripted=True, games=32)
    assert arena.names == ("new", "scripted")
    assert np.isfinite(arena.matrix).all()
    assert arena.matrix[1, 1] > 3.5 > arena.matrix[0, 0]  # of 4


def test_rules_draw_in_a_greedy_match_too_and_each_side_for_itself(three):
    """Where they do not decide: with the same draws on both sides, every game would be a draw."""

    class Drawn(type(GAME)):
        @property
        def scripted_policy(self):
            return random_policy

    env = Drawn()
    rules = script_of(env, "scripted")
    assert rules is not None
    games = 300
    for first, second in ((rules, rules), (three[0], rules), (rules, three[0])):
        result = play_match(env, first, second, jax.random.key(0), games, greedy=True)
        np.testing.assert_allclose(np.array(result[:3]) / games, 1 / 3, atol=0.1)
    programs: dict[Any, Any] = {}
    rock, paper, _ = (contender._replace(alike="others") for contender in three)
    for greedy in (True, False):
        assert play_match(env, paper, rock, jax.random.key(0), 4, greedy=greedy, programs=programs)[:3] == (4, 0, 0)
    assert len(programs) == 2


def test_what_cannot_be_played_is_refused_before_the_first_game(three):
    stranger = Contender("stranger", three[0].algo, three[0].state, jaxrl.make("mpe/simple_push"), "stranger")
    lines: list[str] = []
    with pytest.raises(ValueError, match="stranger was trained in mpe/simple_push"):
        hold(GAME, [*three, stranger], games=4, told=lines.append)
    with pytest.raises(NotImplementedError, match="rock_paper_scissors has no script"):
        hold(GAME, three, scripted=True, games=4, told=lines.append)
    assert lines == []


def test_a_match_that_only_rounding_decides_is_drawn(three):
    """One side earns 0.1 + 0.6, the other 0.7."""
    paid = np.array([np.float32(0.1) + np.float32(0.6), 0.7], np.float32)
    assert paid[0] != paid[1]

    class Even(type(GAME)):
        def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
            obs, after, _, *ends, info = super().step_env(key, state, action, params)
            return obs, after, jnp.asarray(paid), *ends, info

    rock, paper, _ = three
    assert play_match(Even(), paper, rock, jax.random.key(0), 4)[:3] == (0, 4, 0)
