"""Pictures and text show what the state is."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from jaxrl.envs.hanabi.draw import describe, draw
from jaxrl.render.scene import Circle, Rect, Text


def at(games, game, moves):
    return jax.tree.map(lambda leaf: leaf[game, moves], games[0])


def test_text_tells_the_state(env, games):
    state = at(games, 2, 30)
    text = env.text(state)
    lines = text.splitlines()
    assert f"{int(state.information)} information, {int(state.lives)} lives" in lines[0]
    assert lines[1].split()[1:] == [f"{c}{rank}" for c, rank in zip("RYGWB", state.fireworks, strict=True)]
    discarded = [] if "none" in lines[2] else lines[2].split()[1:]
    assert len(discarded) == state.discards.sum()
    for player in range(env.num_agents):
        cards = lines[4 + 3 * player].split()[2:]
        assert cards == [env.game.card(kind) for kind in state.hands[player].tolist() if kind >= 0]
        told = lines[5 + 3 * player].split()[1:]
        for card, hint in zip(cards, told, strict=False):
            assert all(h in ("?", c) for h, c in zip(hint, card, strict=True))


def test_text_hides_the_own_hand(env, games):
    state = at(games, 2, 30)
    shown = env.text(state, viewer=1).splitlines()
    assert set(shown[7].split()[2:]) == {"??"}
    others = env.text(state).splitlines()
    assert [line for i, line in enumerate(shown) if i != 7] == [line for i, line in enumerate(others) if i != 7]


def test_moves_have_words(env):
    game = env.game
    assert game.move(1, 0) == "discards card 2"
    assert game.move(game.hand_size, 0) == "plays card 1"
    assert game.move(game.first_color_hint, 2) == "tells player 0 about R"
    assert game.move(game.first_color_hint + 6, 0) == "tells player 2 about Y"
    assert game.move(game.first_rank_hint + 4, 1) == "tells player 2 about 5"
    assert game.move(game.wait, 1) == "waits"


def test_the_picture_shows_hands_and_knowledge(env, games):
    states = jax.tree.map(lambda leaf: leaf[1], games[0])
    scene = env.draw(states)
    faces = [s for s in scene.shapes if isinstance(s, Rect) and s.tip is not None]
    numbers = [s for s in scene.shapes if isinstance(s, Text) and s.size == 0.55 * 1.5][env.game.colors :]
    hands = states.hands.reshape(len(states.step), -1)
    assert len(faces) == len(numbers) == hands.shape[1]
    for place, (face, number) in enumerate(zip(faces, numbers, strict=True)):
        held = hands[:, place] >= 0
        np.testing.assert_array_equal(np.asarray(face.alpha) > 0, held)
        ranks = (hands[:, place] % env.game.ranks + 1).astype(str)
        assert (np.asarray(number.text)[held] == ranks[held]).all()
    left, bottom, right, top = scene.view
    for shape in scene.shapes:
        if isinstance(shape, Circle):
            assert (left < np.asarray(shape.x)).all()
            assert (np.asarray(shape.x) < right).all()
            assert (bottom < np.asarray(shape.y)).all()
            assert (np.asarray(shape.y) < top).all()


def test_the_picture_tells_the_last_move_once_there_is_one(env, games):
    states = jax.tree.map(lambda leaf: leaf[1, :2], games[0])
    assert states.step.tolist() == [0, 1]
    before, after = np.asarray(env.draw(states).captions[1].text).tolist()
    assert before == ""
    assert after.startswith("player 0 ")


def test_the_cards_of_a_hint_have_an_edge(env, games):
    states = jax.tree.map(lambda leaf: leaf[1], games[0])
    scene = env.draw(states)
    edges = [s for s in scene.shapes if isinstance(s, Rect) and s.width == 1.325]
    shown = np.stack([np.asarray(edge.alpha) > 0 for edge in edges], axis=1)
    assert shown.any()
    bits = (states.last.touched[:, None] >> np.arange(env.game.hand_size)) & 1
    np.testing.assert_array_equal(shown.sum(1), bits.sum(1))
    for frame in np.flatnonzero(shown.any(1)):
        player = int(np.argmax(shown[frame].reshape(env.num_agents, -1).any(1)))
        assert player != (states.step[frame] - 1) % env.num_agents
        values = states.hands[frame, player][bits[frame] != 0]
        action = int(states.last.action[frame])
        is_rank = action >= env.game.first_rank_hint
        assert len({value % 5 if is_rank else value // 5 for value in values.tolist()}) == 1


def test_a_lost_game_has_lost_its_points(env, games):
    """With the last life go all points, or the share of them that the parameters say."""
    state = dataclasses.replace(at(games, 2, 30), fireworks=np.array([1, 0, 3, 0, 2]))
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *(with_lives(state, lives) for lives in (1, 0)))
    assert np.asarray(env.draw(states).captions[2].text).tolist() == ["score 6", "score 0"]
    assert env.text(with_lives(state, 1)).startswith("score 6, ")
    assert env.text(with_lives(state, 0)).startswith("score 0, ")
    kept = draw(env.game, "hanabi/3p", states, lost_share=0.25)
    assert np.asarray(kept.captions[2].text).tolist() == ["score 6", "score 4.5"]
    assert describe(env.game, with_lives(state, 0), lost_share=0.0).startswith("score 6, ")


def with_lives(state, lives):
    return dataclasses.replace(state, lives=np.int32(lives))
