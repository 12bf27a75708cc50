"""STORM: what jaxmarl gets wrong is right here, and the rules hold whatever the players do."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from storm_states import random_state

import jaxrl
from jaxrl.envs.social import storm_rules as rules
from jaxrl.envs.social.storm_rules import COIN_CELLS, MATRICES, SPAWN_CELLS, STEPS
from jaxrl.render.scene import Polygon, Text, jumps


def face_to_face(n=2, kinds=2):
    """A state in which players 0 and 1 look at each other, each with one coin of its own kind; others are far away."""
    state = random_state(jax.random.key(0), n, kinds)
    position = jnp.array([[3, 3], [3, 4], *((7, y) for y in range(n - 2))], jnp.int32)
    return dataclasses.replace(
        state,
        position=position,
        direction=jnp.array([0, 2, *(1,) * (n - 2)], jnp.int32),
        inventory=jnp.array([[1, 0], [0, 1], *((0, 1),) * (n - 2)], jnp.int32),
        frozen=jnp.zeros(n, jnp.int32),
    )


@functools.cache
def two():
    """The game of two players, and its compiled step."""
    env = jaxrl.make("storm")
    return env, jax.jit(env.step_env)


def step(state, action, key=0, params=None):
    env, jitted = two()
    params = env.default_params if params is None else params
    return jitted(jax.random.key(key), state, jnp.array(action), params)


def test_two_who_meet_are_paid_frozen_for_five_steps_and_put_elsewhere():
    """In jaxmarl's `storm`, the reward of two players is always 0."""
    both = jnp.full(2, rules.INTERACT)
    _, state, reward, *_, info = step(face_to_face(), both)
    assert reward.tolist() == [0, 5]  # cooperation met defection
    assert int(info["meetings"]) == 2
    for left in (5, 4, 3, 2, 1):
        assert state.frozen.tolist() == [left] * 2
        assert state.position.tolist() == [[3, 3], [3, 4]]
        forward = jnp.full(2, rules.FORWARD)
        _, state, reward, *_ = step(state, forward, left)
        assert not reward.any()
    assert state.frozen.tolist() == [0, 0]
    assert not state.inventory.any()
    assert set(rules.place(state.position).tolist()) <= set(SPAWN_CELLS.tolist())


def test_both_must_zap_and_hold_a_coin():
    state = face_to_face()
    empty = dataclasses.replace(state, inventory=jnp.array([[0, 0], [0, 3]]))
    for before, action in ((state, [3, 4]), (state, [4, 3]), (empty, [3, 3])):
        _, after, reward, *_ = step(before, action)
        assert not reward.any()
        assert not after.frozen.any()


def test_the_last_step_of_a_round_earns_too_and_the_clock_truncates():
    """In jaxmarl that reward is 0, and the clock's end is called done."""
    env = jaxrl.make("storm", inner_steps=8, outer_steps=2)
    jitted = jax.jit(env.step_env)
    for now, ends in ((7, (True, False)), (15, (True, True)), (3, (False, False))):
        before = dataclasses.replace(face_to_face(), step=jnp.int32(now))
        _, after, reward, terminated, truncated, info = jitted(
            jax.random.key(0), before, jnp.full(2, rules.INTERACT), env.default_params
        )
        assert reward.tolist() == [0, 5]
        assert (bool(info["inner_end"]), bool(truncated)) == ends
        assert not terminated
        assert after.inventory.any() == (ends != (True, False))  # a new round begins with nothing
        assert after.step == now + 1


def test_shares_of_coins_are_mixed_strategies_and_payoffs_are_parameters():
    table = np.array([[[1, 2], [3, 4]], [[10, 20], [30, 40]]], np.float32)
    params = jaxrl.make("storm", payoff=table).default_params
    state = dataclasses.replace(face_to_face(), inventory=jnp.array([[1, 3], [2, 0]]))
    _, _, reward, *_ = step(state, [3, 3], params=params)
    np.testing.assert_allclose(reward, [0.25 * 1 + 0.75 * 3, 0.25 * 10 + 0.75 * 30])
    _, _, reward, *_ = step(state, [3, 3], params=dataclasses.replace(params, payoff=-table))
    np.testing.assert_allclose(reward, [-2.5, -25.0])


def test_in_a_crowd_everybody_has_at_most_one_partner_and_every_pair_is_tried():
    """JaxMARL tries as many pairs as there are players, freezes third ones, and overwrites rewards."""
    luck = jax.random.uniform(jax.random.key(0), (300, 28))
    everybody = jnp.ones((8, 8), bool) & ~jnp.eye(8, dtype=bool)
    met = np.asarray(jax.vmap(rules.match, (None, 0))(everybody, luck))
    assert (met.sum(2) == 1).all()
    assert (met == met.transpose(0, 2, 1)).all()
    assert (met.any(0) == everybody).all()
    wants = jax.random.bernoulli(jax.random.key(1), 0.3, (300, 8, 8))
    wants = wants & wants.transpose(0, 2, 1) & everybody
    met, possible = np.asarray(jax.vmap(rules.match)(wants, luck)), np.asarray(wants)
    assert not (met & ~possible).any()
    free = ~np.any(met, axis=2)
    assert not (possible & free[:, None] & free[:, :, None]).any()


def test_three_in_a_ring_of_zaps():
    """Only the pair that meets is paid and frozen, whoever else would have liked to."""
    env = jaxrl.make("storm", num_agents=3)
    state = dataclasses.replace(
        face_to_face(3),
        position=jnp.array([[3, 3], [3, 4], [3, 5]], jnp.int32),
        direction=jnp.array([0, 0, 2], jnp.int32),  # 2 sees 1 and 0; they look towards 2
        inventory=jnp.array([[1, 0], [1, 0], [1, 0]], jnp.int32),
    )
    jitted = jax.jit(env.step_env)
    partners = set()
    for key in range(12):
        _, after, reward, *_ = jitted(jax.random.key(key), state, jnp.full(3, rules.INTERACT), env.default_params)
        np.testing.assert_array_equal(reward, jnp.where(after.frozen > 0, 3, 0))
        assert int((after.frozen > 0).sum()) == 2
        partners.add(tuple((after.frozen > 0).tolist()))
    assert partners == {(True, False, True), (False, True, True)}


def slow_move(state, action, luck):
    """`rules.move` as loops: the luckiest of each cell's rivals, and then whoever is stopped stops others."""
    old = [tuple(p) for p in state.position.tolist()]
    wanted = []
    for p, d, a in zip(old, state.direction.tolist(), action.tolist(), strict=True):
        x, y = np.array(p) + (STEPS[d] if a == rules.FORWARD else 0)
        wanted.append((min(max(x, 0), 7), min(max(y, 0), 7)))
    goes = [w != p for w, p in zip(wanted, old, strict=True)]
    rivals = [[j for j in range(len(old)) if wanted[j] == wanted[i] and goes[j]] for i in range(len(old))]
    goes = [goes[i] and max(rivals[i], key=lambda j: luck[j]) == i for i in range(len(old))]
    while True:
        stopped = [
            i for i in range(len(old)) if goes[i] and any(wanted[i] == old[j] and not goes[j] for j in range(len(old)))
        ]
        if not stopped:
            return [wanted[i] if goes[i] else old[i] for i in range(len(old))]
        for i in stopped:
            goes[i] = False


@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.slow), 6])
def test_nobody_enters_a_taken_cell(n):
    """Two players of jaxmarl's `storm` can stand in one cell, and more of them in a chain."""
    keys = jax.random.split(jax.random.key(n), (3, 400))
    states = jax.jit(jax.vmap(lambda key: random_state(key, n)))(keys[0])
    action = jax.vmap(lambda key: jax.random.choice(key, 5, (n,), p=jnp.array([0.1, 0.1, 0.7, 0.05, 0.05])))(keys[1])
    luck = jax.vmap(lambda key: jax.random.uniform(key, (n,)))(keys[2])
    position, _ = jax.jit(jax.vmap(rules.move))(states, action, luck)
    states, action, luck, position = jax.tree.map(np.asarray, (states, action, luck, position))
    contested = 0
    for row in range(len(position)):
        state = jax.tree.map(lambda leaf, row=row: leaf[row], states)
        expected = slow_move(state, action[row], luck[row])
        assert position[row].tolist() == [list(cell) for cell in expected]
        assert len(set(expected)) == n
        contested += expected == [tuple(p) for p in state.position.tolist()]
    assert contested < 400


def test_players_start_anywhere_and_look_anywhere_but_never_on_a_coin():
    """JaxMARL's first player starts in one corner, nobody looks in the last direction, and some hide under coins."""
    env = jaxrl.make("storm", num_agents=8)
    _, states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2000))
    cells = np.asarray(rules.place(states.position))
    free = sorted(set(SPAWN_CELLS.tolist()) - set(COIN_CELLS.tolist()))
    for player in (0, 7):
        counts = [(cells[:, player] == cell).sum() for cell in free]
        assert sum(counts) == 2000
        assert 80 < min(counts) <= max(counts) < 180
    assert all(len(set(row)) == 8 for row in cells.tolist())
    assert (np.bincount(np.asarray(states.direction).ravel(), minlength=4) > 3600).all()
    assert np.asarray(states.kind[:, 0]).mean() == pytest.approx(0.5, abs=0.05)  # in jaxmarl always the same


def test_whoever_comes_back_takes_a_free_place():
    again = jnp.array([True, True, False, False])
    cells = jnp.array([30, 31, int(SPAWN_CELLS[0]), int(SPAWN_CELLS[1])])
    coins = rules.board_of(SPAWN_CELLS[2:-2])
    luck = jax.random.uniform(jax.random.key(0), (200, 4))
    found = np.asarray(jax.vmap(rules.respawn, (None, None, None, 0))(again, cells, coins, luck))
    assert (found[:, 2:] == cells[2:]).all()
    assert {frozenset(row) for row in found[:, :2].tolist()} == {frozenset(SPAWN_CELLS[-2:].tolist())}


def test_the_rules_hold_whatever_the_players_do():
    env = jaxrl.make("storm", num_agents=4, inner_steps=10_000)

    def one(state, key):
        key_action, key_step = jax.random.split(key)
        action = jax.random.choice(key_action, 5, (4,), p=jnp.array([0.15, 0.15, 0.3, 0.35, 0.05]))
        _, after, reward, *_ = env.step_env(key_step, state, action, env.default_params)
        return after, (state, after, reward)

    _, start = jax.jit(env.reset)(jax.random.key(0))
    scan = jax.jit(lambda state, keys: jax.lax.scan(one, state, keys)[1])
    before, after, reward = jax.tree.map(np.asarray, scan(start, jax.random.split(jax.random.key(1), 3000)))
    cells = np.asarray(rules.place(after.position))
    assert all(len(set(row)) == 4 for row in cells.tolist())
    assert not ((cells[:, :, None] == COIN_CELLS) & after.there[:, None]).any()
    # A coin leaves its place only into the inventory of who stands there; inventories are emptied only on return.
    gone, back = before.there & ~after.there, (before.frozen > 0) & (after.frozen == 0)
    gained = (after.inventory - before.inventory).sum(-1)
    np.testing.assert_array_equal(np.where(back, 0, gained).sum(1), gone.sum(1))
    assert not after.inventory[back].any()
    assert not (gained < 0)[~back].any()
    still = (before.frozen > 0) & ~back
    np.testing.assert_array_equal(before.position[still], after.position[still])
    assert (np.abs(reward) > 0).sum() > 5
    assert back.sum() > 5


def slow_view(state, i, kinds):
    """Planes `[5, 5, N + K + 6]` of player i, cell by cell."""
    n = len(state.direction)
    players = {tuple(p): j for j, p in enumerate(state.position.tolist())}
    order = [i, *(j for j in range(n) if j != i)]
    coins = {int(c): int(k) for c, k, t in zip(COIN_CELLS, state.kind, state.there, strict=True) if t}
    lit = {c for c in range(64) if state.beams[c // 32] >> np.uint32(c % 32) & 1}
    seen = np.zeros((5, 5, n + kinds + 6))
    d = state.direction[i]
    for side in range(5):
        for ahead in range(5):
            x, y = state.position[i] + ahead * STEPS[d] + (side - 2) * STEPS[(d + 1) % 4]
            at = seen[side, ahead]
            if not (0 <= x < 8 and 0 <= y < 8):
                at[n + kinds] = 1
                continue
            cell = int(x * 8 + y)
            if cell in coins:
                at[n + coins[cell]] = 1
            at[n + kinds + 1] = cell in lit
            if (x, y) in players:
                j = players[x, y]
                at[order.index(j)] = 1
                if j != i:
                    at[n + kinds + 2 + (state.direction[j] - d) % 4] = 1
    return seen


def test_every_plane_shows_what_is_there():
    """JaxMARL's `storm` shows turns in the wrong cells, and some of them as another turn."""
    env = jaxrl.make("storm", payoff=np.eye(3), num_agents=4, picture=True)
    states = jax.jit(jax.vmap(lambda key: random_state(key, 4, kinds=3)))(jax.random.split(jax.random.key(0), 20))
    views, states = jax.tree.map(np.asarray, (jax.jit(jax.vmap(env.observation))(states), states))
    for row, view in enumerate(views):
        state = jax.tree.map(lambda leaf, row=row: leaf[row], states)
        for i in range(4):
            np.testing.assert_array_equal(view[i, ..., :13], slow_view(state, i, 3))


def test_what_others_hold_is_hidden_until_they_have_met():
    """JaxMARL's `storm` shows all inventories to all."""
    env = jaxrl.make("storm", num_agents=3)
    state, see = face_to_face(3), jax.jit(env.observation)
    other = dataclasses.replace(state, inventory=state.inventory.at[1].set(jnp.array([4, 2])))
    same = np.all(np.asarray(see(state) == see(other)), 1)
    assert same.tolist() == [True, False, True]
    frozen = dataclasses.replace(other, frozen=jnp.array([0, 3, 0]))
    shown = np.asarray(see(frozen))[0, -9:]
    assert shown.tolist() == [1, 0, 1, 1, 4, 2, 1, 0, 0]  # mine and ready; player 1 ready with 4 and 2; player 2 ready


@pytest.mark.parametrize("name", MATRICES)
def test_every_matrix_has_a_name(name):
    env = jaxrl.make(f"storm/{name}")
    kinds = env.default_params.payoff.shape[1]
    assert env.observation_space().shape == (25 * (8 + kinds) + 2 * (kinds + 1),)


@pytest.mark.parametrize(
    "options",
    [
        {"payoff": [[1, 2, 3], [4, 5, 6]]},
        {"payoff": "chess"},
        {"payoff": np.zeros((5, 5))},
        {"num_agents": 9},
        {"num_agents": 1},
        {"freeze_steps": 0},
    ],
)
def test_an_option_out_of_range_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        jaxrl.make("storm", **options)


def test_pictures_tell_twelve_kinds_apart():
    env = jaxrl.make("storm", payoff=np.eye(12))
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], jax.jit(env.reset)(jax.random.key(0))[1])
    shapes = env.draw(states).shapes
    coins = {shape.fill[0] for shape in shapes if shape.tip is not None and shape.tip.title == "coin"}
    assert len(coins) == 12
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    assert [shape.size <= 2 / len(shape.text[0]) for shape in texts] == [True, True]  # about as wide as its cell


def test_numbers_are_legible_and_players_turn_and_come_back_at_once():
    """At 480 pixels; a quarter turn is one, to either side, and who starts anew does not glide there."""
    env = jaxrl.make("storm")
    state = jax.jit(env.reset)(jax.random.key(0))[1]
    frames = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], 4, axis=0), state)
    direction, position = frames.direction.copy(), frames.position.copy()
    direction[:, 0], position[:, 0] = [2, 3, 0, 3], [[1, 1], [1, 2], [3, 2], [3, 3]]
    scene = env.draw(dataclasses.replace(frames, direction=direction, position=position))
    player = next(shape for shape in scene.shapes if isinstance(shape, Polygon))
    np.testing.assert_allclose(np.abs(np.diff(player.angle)), np.pi / 2)
    text = next(shape for shape in scene.shapes if isinstance(shape, Text))
    assert text.size * 480 / scene.width > 12
    assert jumps(player, scene).tolist() == jumps(text, scene).tolist() == [False, True, False, False]
