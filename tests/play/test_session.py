"""A game of one person, without a terminal."""

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.envs.overcooked.rules import DOWN, LEFT, RIGHT, UP
from jaxrl.play import Session
from jaxrl.play.session import ByRules
from jaxrl.replay import Recording
from jaxrl.wrappers import FixedPolicies, FrameStack, OtherPlay, RandomParams, TimeLimit


class Echo:
    """A partner who takes the last legal action, and remembers what it was asked."""

    def __init__(self) -> None:
        self.greedy: list[bool] = []
        self.seeds: list[int] = []

    def reset(self, seed: int = 0) -> None:
        self.seeds.append(seed)

    def predict(self, obs: Any, *, action_mask: Any = None, reset: Any = None, greedy: bool = True) -> np.ndarray:
        self.greedy.append(greedy)
        return action_mask.shape[1] - 1 - np.argmax(action_mask[:, ::-1], axis=1)


def test_the_person_moves_one_agent_and_the_partner_the_others() -> None:
    partner: Any = Echo()
    session = Session(jaxrl.make("coin_game"), partner, seat=1, seed=3, greedy=False)
    before = np.asarray(session.state.things[:2])
    turn = session.step(session.names.index("up"))
    assert turn.actions == ("stay", "up")
    np.testing.assert_array_equal(np.asarray(session.state.things[0]), before[0])
    np.testing.assert_array_equal(np.asarray(session.state.things[1]), (before[1] + [1, 0]) % 3)
    assert partner.seeds == [3]
    assert partner.greedy == [False]


def test_without_a_partner_the_others_do_only_what_is_legal() -> None:
    """In Hanabi, an illegal move would become another one, and waiting the only move of who is not in turn."""
    session = Session(jaxrl.make("hanabi/2p", colors=2, ranks=2, hand_size=2), seat=0, seed=1)
    while not session.done:
        mask = np.asarray(session.env.action_mask(session.state))
        turn = session.step(session.legal[-1])
        assert mask[1, session.names.index(turn.actions[1])]
    assert session.replay().terminated


def test_one_seed_is_one_game() -> None:
    games = [Session(jaxrl.make("coin_game"), seed=seed) for seed in (5, 5, 6)]
    for game in games * 8:
        game.step(1)
    np.testing.assert_array_equal(games[0].obs, games[1].obs)
    assert not np.array_equal(games[0].obs, games[2].obs)


def test_a_partner_draws_from_other_keys_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although one seed determines both."""
    drawn, given = [], []

    class Noted(Recording):
        def __init__(self, env: Any, key: Any) -> None:
            given.append(_data(key))
            super().__init__(env, key)

        def step(self, key: Any, action: Any) -> None:
            given.append(_data(key))
            super().step(key, action)

    def script(obs: Any, action_mask: Any, key: Any) -> Any:
        jax.debug.callback(lambda data: drawn.append(_data(data)), jax.random.key_data(key))
        return jnp.zeros(2, jnp.int32)

    monkeypatch.setattr("jaxrl.play.session.Recording", Noted)
    session = Session(jaxrl.make("coin_game"), ByRules(script), seed=5)
    for _ in range(4):
        session.step(0)
    jax.effects_barrier()
    assert (len(set(drawn)), len(set(given))) == (4, 5)
    assert not set(drawn) & set(given)


def _data(key: Any) -> bytes:
    """A random key, or its data, as what a set can hold."""
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return np.asarray(data).tobytes()


def test_returns_add_up_and_the_replay_holds_the_game() -> None:
    session = Session(jaxrl.make("classic/cartpole"))
    assert session.names == ("left", "right")
    while not session.done:
        session.step(0)
    replay = session.replay()
    assert session.returns.tolist() == [replay.num_steps] == [session.num_steps]
    assert replay.actions.tolist() == [[0]] * session.num_steps
    with pytest.raises(ValueError, match="The game is over"):
        session.step(0)


def test_hidden_cards_are_in_no_word_and_no_observation() -> None:
    """Other cards in the viewer's hand change nothing of what the viewer reads; those of the partner do."""
    env = jaxrl.make("hanabi/2p")
    session = Session(env)
    text, state = str(session.text()), session.state
    assert text == env.text(state, 0)
    assert text.count("??            ??            ??            ??            ??") == 3  # the hand, and what is told
    other = jnp.roll(state.hands, 1, axis=1)
    assert not np.array_equal(other, state.hands)
    session._recording.state = dataclasses.replace(state, hands=state.hands.at[0].set(24 - state.hands[0]))
    assert session.text() == text
    session._recording.state = dataclasses.replace(state, hands=other.at[0].set(state.hands[0]))
    assert session.text() != text


def test_words_are_found_inside_wrappers() -> None:
    wrapped = Session(FrameStack(jaxrl.make("switch_riddle"), 2), seat=1)
    assert str(wrapped.text()).startswith("day 1: you ")
    assert wrapped.names == ("nothing", "switch", "tell")
    assert Session(jaxrl.make("coin_game")).text() is None


def test_words_are_those_of_the_persons_seat_though_others_are_left_out() -> None:
    hanabi = jaxrl.make("hanabi/2p?colors=2&ranks=3&hand_size=2")
    assert isinstance(hanabi, MultiAgentEnvironment)
    assert hanabi.scripted_policy is not None
    session = Session(FixedPolicies(hanabi, {"player_0": hanabi.scripted_policy}))
    assert session.env.agents == ("player_1",)
    state, game = session.state.env, cast(Any, hanabi)
    assert session.text() == game.text(state, 1) != game.text(state, 0)


def test_words_know_the_parameters_of_this_game() -> None:
    """A riddle that is made for six days and lasts for nine."""

    def longer(key: Any, params: Any, progress: Any) -> Any:
        return dataclasses.replace(params, max_steps=jnp.int32(9))

    silent: Any = SimpleNamespace(reset=lambda seed: None, predict=lambda obs, **_: np.zeros(3, np.int32))
    session = Session(RandomParams(jaxrl.make("switch_riddle"), longer), silent)
    for _ in range(7):
        session.step(0)
    assert str(session.text()).startswith("day 8: ")


def test_boards_are_found_inside_wrappers() -> None:
    wrapped = Session(FrameStack(jaxrl.make("coin_game"), 2))
    assert str(wrapped.board()) == Session(jaxrl.make("coin_game")).board()
    assert Session(jaxrl.make("classic/cartpole")).board() is None


def test_names_of_moves_mean_what_they_say() -> None:
    kitchen = jaxrl.make("overcooked/cramped_room")
    assert [kitchen.action_names[action] for action in (UP, DOWN, RIGHT, LEFT)] == ["up", "down", "right", "left"]
    walks = {"up": UP, "down": DOWN, "right": RIGHT, "left": LEFT}
    for name, direction in walks.items():  # the second version has another order
        session = Session(jaxrl.make("overcooked_v2/cramped_room"))
        session.step(session.names.index(name))
        assert int(session.state.direction[0]) == direction
    for env_id in ("smax/3m", "mpe/simple_spread"):
        for name, axis, sign in (("up", 1, 1), ("down", 1, -1), ("right", 0, 1), ("left", 0, -1)):
            session = Session(jaxrl.make(env_id))
            before = np.asarray(session.state.position)[0]
            for _ in range(2):  # a particle gains speed first
                session.step(session.names.index(name))
            moved = np.asarray(session.state.position)[0] - before
            assert np.sign(moved[axis]) == sign, (env_id, name)


def test_in_storm_left_and_right_turn_and_forward_goes() -> None:
    session = Session(jaxrl.make("storm/rock_paper_scissors"))
    before = int(session.state.direction[0])
    session.step(session.names.index("right"))
    assert int(session.state.direction[0]) != before


def test_agents_with_fewer_actions_have_the_first_ones() -> None:
    """The leader of simple_world_comm moves and speaks, the others only move."""
    env = jaxrl.make("mpe/simple_world_comm")
    leader, other = Session(env), Session(env, seat=len(env.agents) - 1)
    assert other.names == leader.names[:5] == ("stay", "left", "right", "down", "up")
    assert leader.names[5] == "stay 1"
    assert Session(jaxrl.make("mpe/simple_speaker_listener")).names == ("0", "1", "2")


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Only Discrete actions .* classic/pendulum has"):
        Session(jaxrl.make("classic/pendulum"))
    with pytest.raises(ValueError, match="The seats of coin_game are 0 to 1, got 2"):
        Session(jaxrl.make("coin_game"), seat=2)
    with pytest.raises(ValueError, match="Nothing has been played yet"):
        Session(jaxrl.make("coin_game")).replay()
    with pytest.raises(ValueError, match="OtherPlay renames what each player of hanabi/2p sees"):
        Session(TimeLimit(OtherPlay(cast(Any, jaxrl.make("hanabi/2p"))), 9))
    session = Session(jaxrl.make("smax/3m"))
    with pytest.raises(ValueError, match="is not possible now"):
        session.step(session.names.index("attack 0"))
