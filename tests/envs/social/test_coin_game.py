"""The coin game: equal to jaxmarl 0.2.0 where that is right, and right where it is not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.social.coin_game import State
from jaxrl.render.scene import jumps


def in_lock_step(steps: int, egocentric: bool) -> None:
    """Random play on our side; every state is copied into theirs, which takes the same step."""
    jaxmarl = pytest.importorskip("jaxmarl")
    ours, theirs = jaxrl.make("coin_game", egocentric=egocentric), jaxmarl.make("coin_game", egocentric=egocentric)
    blank = theirs.reset(jax.random.key(0))[1]

    def both(carry, key):
        state, _ = carry
        key_action, key_step, key_theirs = jax.random.split(key, 3)
        action = jax.random.randint(key_action, (2,), 0, 5)
        red, blue, red_coin, blue_coin = state.things
        copied = blank.replace(
            red_pos=red,
            blue_pos=blue,
            red_coin_pos=red_coin,
            blue_coin_pos=blue_coin,
            step=state.step % 10,
            outer_t=state.step // 10,
        )
        actions = {"0": action[0], "1": action[1]}
        _, after, reward, done, info = theirs.step_env(key_theirs, copied, actions)
        seen = theirs.get_obs(copied)
        obs, next_state, our_reward, terminated, truncated, our_info = ours.step(key_step, state, action)
        final = our_info["final_state"].things
        rows = {
            "seen": (ours.observation(state), jnp.stack([seen["0"], seen["1"]])),
            "reward": (our_reward, jnp.stack([reward["0"], reward["1"]]).astype(jnp.float32)),
            "done": (terminated | truncated, done["__all__"]),
            "inner_end": (our_info["inner_end"], info["inner_episode_done"]),
            "players": (final[:2], jnp.stack([after.red_pos, after.blue_pos])),
            "coins": (final[2:], jnp.stack([after.red_coin_pos, after.blue_coin_pos])),
        }
        taken = jnp.any(jnp.all(final[:2][:, None] == state.things[2:], -1), 0)
        return (next_state, obs), (rows, taken, terminated)

    obs, state = ours.reset(jax.random.key(1))
    scan = jax.jit(lambda state, keys: jax.lax.scan(both, (state, obs), keys)[1])
    rows, taken, terminated = jax.tree.map(np.asarray, scan(state, jax.random.split(jax.random.key(2), steps)))
    inner = rows["inner_end"][0]
    assert not terminated.any()
    for name in ("seen", "done", "inner_end"):
        np.testing.assert_array_equal(*rows[name], err_msg=name)
    # What differs: the last reward of a round, which theirs is always 0; and where new things lie, which is drawn.
    mine, other = rows["reward"]
    np.testing.assert_array_equal(mine[~inner], other[~inner])
    assert not other[inner].any()
    assert mine[inner].any()
    np.testing.assert_array_equal(*(side[~inner] for side in rows["players"]))
    still = ~taken & ~inner[:, None]
    np.testing.assert_array_equal(*(side[still] for side in rows["coins"]))


def test_equals_jaxmarl():
    in_lock_step(2000, egocentric=False)


@pytest.mark.slow
@pytest.mark.parametrize("egocentric", [False, True])
def test_equals_jaxmarl_for_long(egocentric):
    in_lock_step(100_000, egocentric)


def stepped(env, things, action, step=0, params=None):
    state = State(jnp.array(things, jnp.int32), jnp.zeros((2, 2), jnp.int32), jnp.int32(step))
    return env.step_env(jax.random.key(0), state, jnp.array(action), env.default_params if params is None else params)


@pytest.mark.parametrize(
    ("things", "action", "reward"),
    [
        ([[0, 0], [2, 2], [0, 1], [2, 0]], [0, 4], [1, 0]),  # red takes its own coin
        ([[0, 0], [2, 2], [2, 0], [0, 1]], [0, 4], [1, -2]),  # red takes blue's
        ([[0, 0], [2, 2], [0, 1], [2, 0]], [0, 0], [1, 1]),  # both take their own, blue across the edge
        ([[0, 0], [0, 2], [0, 1], [2, 2]], [0, 1], [-1, 1]),  # both arrive at red's coin
        ([[0, 0], [2, 2], [0, 1], [0, 1]], [0, 4], [2, -2]),  # two coins in one cell
    ],
)
def test_the_rewards_are_those_of_the_paper(things, action, reward):
    *_, rewards, terminated, truncated, _ = stepped(jaxrl.make("coin_game"), things, action)
    assert rewards.tolist() == reward
    assert not terminated
    assert not truncated


def test_the_last_step_of_a_round_earns_too_and_only_the_clock_ends_an_episode():
    env = jaxrl.make("coin_game", inner_steps=5, outer_steps=2)
    things = [[0, 0], [2, 2], [0, 1], [2, 0]]
    for step, ends in ((3, (False, False)), (4, (True, False)), (9, (True, True))):
        *_, reward, terminated, truncated, info = stepped(env, things, [0, 4], step)
        assert reward.tolist() == [1, 0]
        assert (bool(info["inner_end"]), bool(truncated)) == ends
        assert not terminated


def test_a_team_shares_the_sum_and_payoffs_are_parameters():
    things = [[0, 0], [2, 2], [2, 0], [0, 1]]
    team = jaxrl.make("coin_game", shared_reward=True)
    assert team.teams == (0, 0)
    assert stepped(team, things, [0, 4])[2].tolist() == [-1, -1]
    env = jaxrl.make("coin_game")
    payoff = np.array([[7, 5, 0], [0, 0, -3]], np.float32)
    assert stepped(env, things, [0, 4], params=dataclasses.replace(env.default_params, payoff=payoff))[2].tolist() == [
        5,
        -3,
    ]


def test_each_player_sees_itself_as_the_first():
    """Swap the players and their coins: the observations are swapped."""
    for options in ({}, {"egocentric": True}, {"picture": True}):
        env = jaxrl.make("coin_game", **options)
        obs, state = env.reset(jax.random.key(3))
        swapped = env.observation(dataclasses.replace(state, things=state.things[jnp.array([1, 0, 3, 2])]))
        np.testing.assert_array_equal(obs, swapped[::-1])
    middle = jaxrl.make("coin_game", egocentric=True, picture=True).observation(state)
    assert middle[:, 1, 1, 0].all()


def best_team_return(steps: int) -> float:
    """The most that a team can expect in a round, by dynamic programming over all 9^4 states, slowly and exactly.

    A new round's states are all equally likely. The value of a state with taken coins is the mean over where they
    may lie next.
    """
    moves = [(0, 1), (0, 2), (1, 0), (2, 0), (0, 0)]
    to = np.array([[((c // 3 + r) % 3) * 3 + (c % 3 + k) % 3 for r, k in moves] for c in range(9)])
    cell = np.arange(9)
    value = np.zeros((9, 9, 9, 9))  # red, blue, red's coin, blue's coin
    for _ in range(steps):
        drawn = {
            (False, False): value,
            (True, False): np.broadcast_to(value.mean(2, keepdims=True), value.shape),
            (False, True): np.broadcast_to(value.mean(3, keepdims=True), value.shape),
            (True, True): np.broadcast_to(value.mean((2, 3), keepdims=True), value.shape),
        }
        after = np.empty_like(value)  # by the cells that the players have moved to
        for red in range(9):
            for blue in range(9):
                for a in (False, True):
                    for b in (False, True):
                        is_red_coin = ((cell == red) | (cell == blue)) == a
                        is_blue_coin = ((cell == red) | (cell == blue)) == b
                        at = np.ix_(is_red_coin, is_blue_coin)
                        after[red, blue][at] = drawn[a, b][red, blue][at]
                x, y = cell[:, None], cell[None, :]
                own = (x == red) * 1.0 + (y == blue)
                stolen = (y == red) * -1.0 + (x == blue) * -1.0
                after[red, blue] += own + stolen
        value = after[to[:, None, :, None], to[None, :, None, :]].max((2, 3))
    return float(value.mean())


def test_the_known_optimum_of_a_team():
    """docs/social_games.md names it: 10 rounds of 10 steps."""
    assert 10 * best_team_return(10) == pytest.approx(OPTIMUM, abs=0.05)


OPTIMUM = 120.52


def test_the_last_picture_is_still_of_the_last_round():
    """The caption counts a new round when it is dealt, and none after the last step."""
    env = jaxrl.make("coin_game", inner_steps=10, outer_steps=3)
    step = jnp.array([0, 9, 10, 29, 30])
    states = State(jnp.zeros((5, 4, 2), int), jnp.zeros((5, 2, 2), int), step)
    rounds = np.asarray(env.draw(states).captions[2].text).tolist()
    assert rounds == ["round 1, step 0", "round 1, step 9", "round 2, step 10", "round 3, step 29", "round 3, step 30"]
    longer = dataclasses.replace(env.default_params, max_steps=40)
    assert np.asarray(env.draw(states, longer).captions[2].text)[-1] == "round 4, step 30"


@pytest.mark.slow
def test_is_checked_again_in_the_same_process():
    """64-bit indices are sound once, and then jax takes its 32-bit copy of them for the original."""
    for _ in range(2):
        jaxrl.check_env(jaxrl.make("coin_game"), num_steps=1)


def test_coins_jump_to_where_they_lie_next():
    env = jaxrl.make("coin_game")
    states = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], 2, axis=0), env.reset(jax.random.key(0))[1])
    moved = states.things.copy()
    moved[1] = (moved[0] + 1) % 3
    scene = env.draw(dataclasses.replace(states, things=moved))
    coins = [shape for shape in scene.shapes if shape.tip is not None and shape.tip.title.endswith("coin")]
    assert [bool(jumps(coin, scene)[0]) for coin in coins] == [True, True]
