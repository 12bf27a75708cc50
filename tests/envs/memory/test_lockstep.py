"""The tasks for memory equal POPGym's, episode by episode, with the same cards, arms, ships and mines."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import jaxrl
from tests.envs.memory import policies
from tests.envs.memory.popgym_replay import Episode, Fixed, half_right, order, play, play_many, until_end

popgym = pytest.importorskip("popgym.envs")
gymnasium = pytest.importorskip("gymnasium")

LEVELS = {"": "Easy", "_medium": "Medium", "_hard": "Hard"}


def theirs(name: str) -> Any:
    """POPGym's environment of the name that ours has as an alias."""
    aliases = [alias for alias, target in jaxrl.registry._ALIASES.items() if target == name]
    return gymnasium.make(aliases[0]).unwrapped


def in_versions(*tasks: str, levels: Iterable[str] = ("", "_hard")):
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(f"memory/{t}{level}", marks=pytest.mark.slow if level else ())
            for t in tasks
            for level in levels
        ],
    )


def assert_equal(ours: Episode, env: Any, seen: Any, to_action: Any = int) -> None:
    """Both are the same, and something was right and something wrong."""
    assert_same(ours, env, seen, to_action)
    assert (ours.reward > 0).any()
    assert (ours.reward < 0).any()


def assert_same(ours: Episode, env: Any, seen: Any, to_action: Any = int) -> None:
    """Step theirs, which has begun, through our actions; `seen` is what theirs should show, from the first step on."""
    for t, action in enumerate(ours.action):
        obs, reward, terminated, truncated, _ = env.step(to_action(action))
        np.testing.assert_array_equal(obs, seen[t], err_msg=f"step {t}")
        np.testing.assert_allclose(reward, ours.reward[t], rtol=1e-6, err_msg=f"step {t}")
        assert bool(terminated) == bool(ours.terminated[t]), t
        assert bool(truncated and not terminated) == bool(ours.truncated[t]), t
    assert ours.terminated[-1] or ours.truncated[-1]
    assert not (ours.terminated[:-1] | ours.truncated[:-1]).any()


@in_versions("repeat_previous", "repeat_first", "higher_lower")
def test_games_with_one_deck(name):
    env = theirs(name)
    deck = env.deck
    ours = play(name, seed=0, steps=deck.num_cards - 1)
    kinds = ours.obs.argmax(-1)
    of_card = deck.ranks_idx if "higher" in name else deck.suits_idx
    env.np_random = Fixed([order(kinds, of_card)])
    assert env.reset()[0] == kinds[0]
    assert_equal(ours, env, list(kinds[1:]))


@in_versions("autoencode")
def test_autoencode(name):
    env = theirs(name)
    cards = env.deck.num_cards
    ours = play(name, seed=0, steps=2 * cards - 1)
    suits, watching = ours.obs[:, 1:].argmax(-1), ours.obs[:, 0]
    env.np_random = Fixed([order(suits[:cards], env.deck.suits_idx)])
    assert env.reset()[0] == (1, suits[0])
    assert_equal(ours, env, list(zip(watching[1:], suits[1:], strict=True)))


@in_versions("count_recall")
def test_count_recall(name):
    env = theirs(name)
    ours = play(name, seed=0, steps=env.value_deck.num_cards - 1)
    pairs = ours.obs.reshape(len(ours.obs), 2, -1).argmax(-1)
    env.np_random = Fixed([order(kinds, env.deck_idx_type) for kinds in pairs.T])
    np.testing.assert_array_equal(env.reset()[0], pairs[0])
    assert_equal(ours, env, list(pairs[1:]))


@in_versions("multiarmed_bandit")
def test_multiarmed_bandit(name):
    env = theirs(name)
    ours = play(name, seed=0, steps=env.max_episode_length)
    paid, pulled = ours.obs[:, 0], ours.obs[1:, 1:]
    chance = ours.states.chance[0]
    env.np_random = Fixed([], [chance, *np.where(paid[1:], -1.0, 2.0)])
    assert env.reset()[0] == paid[0]
    assert_equal(ours, env, list(paid[1:]))
    np.testing.assert_array_equal(pulled.argmax(-1), ours.action)
    np.testing.assert_array_equal(pulled.sum(-1), 1)


@in_versions("battleship")
def test_battleship(name):
    env = theirs(name)
    size = env.board_size
    ours = play(name, seed=0, steps=size**2)  # random shots repeat themselves and never sink all ships
    assert env.reset(seed=0)[0] == ours.obs[0, 0]
    env.board = ours.states.ship[0].reshape(size, size).astype(np.int8)
    assert_equal(ours, env, list(ours.obs[1:, 0]), lambda cell: divmod(int(cell), size))
    row, column = ours.obs[1:, 1 : 1 + size].argmax(-1), ours.obs[1:, 1 + size :].argmax(-1)
    np.testing.assert_array_equal(row * size + column, ours.action)


def assert_same_tables(env: Any, played: Iterable[Episode]) -> None:
    """Concentration is the same. What nobody has turned may lie anywhere in theirs."""
    kinds = env.facedown_card
    for ours in played:
        table = ours.states.kind[-1].copy()
        table[table < 0] = np.random.default_rng(0).permutation(np.repeat(np.arange(kinds), ours.states.left[-1]))
        env.np_random = Fixed([order(table, env.deck_idx_type)[::-1]])
        shown = ours.obs.reshape(len(ours.obs), -1, kinds)
        seen = np.where(shown.any(-1), shown.argmax(-1), env.facedown_card)
        np.testing.assert_array_equal(env.reset()[0], seen[0])
        np.testing.assert_array_equal(env.state, table)
        assert_same(ours, env, seen[1:])


@in_versions("concentration", levels=LEVELS)
@pytest.mark.parametrize("policy", [half_right, policies.forget, policies.remember, policies.turn_again])
def test_concentration(name, policy):
    env = theirs(name)
    played = [until_end(ours) for ours in play_many(name, range(16), env.episode_length, policy)]
    assert_same_tables(env, played)
    returns, won = [ours.reward.sum() for ours in played], [ours.terminated[-1] for ours in played]
    if policy is policies.remember:
        assert all(won)
    elif policy is policies.turn_again:
        np.testing.assert_allclose(returns, -1.0, rtol=1e-5)
    else:
        rewards = np.concatenate([ours.reward for ours in played]) * env.episode_length
        assert set(np.round(rewards).tolist()) == {-2, -1, 0, 4}  # all there is: a pair pays 2 / N, which is 4 / T


@in_versions("concentration", levels=LEVELS)
def test_the_last_pair_of_concentration_in_the_last_step_is_no_time_out(name):
    env = theirs(name)
    steps = len(until_end(play_many(name, [0], env.episode_length, policies.remember)[0]).action)
    [ours] = play_many(f"{name}?max_steps={steps}", [0], env.episode_length, policies.remember)
    env.episode_length, env.failure_reward_scale = steps, -1 / steps
    ours = until_end(ours)
    assert (len(ours.action), ours.terminated[-1], ours.truncated[-1]) == (steps, True, False)
    assert_same_tables(env, [ours])


@in_versions("minesweeper", levels=LEVELS)
@pytest.mark.parametrize("policy", [half_right, policies.sweep, policies.dawdle, policies.spoil])
def test_minesweeper(name, policy):
    env = theirs(name)
    size, counts = env.dims[0], env.observation_space.n
    played = [until_end(ours) for ours in play_many(name, range(32), env.max_episode_length, policy)]
    for ours in played:
        env.np_random = Fixed([np.flatnonzero(ours.states.mine[0])])
        np.testing.assert_array_equal(ours.obs[:, :counts].sum(-1), 1)
        seen = ours.obs[:, :counts].argmax(-1)
        assert env.reset()[0] == seen[0]
        assert_same(ours, env, seen[1:], lambda cell: divmod(int(cell), size))
        row, column = ours.obs[1:, counts : counts + size].argmax(-1), ours.obs[1:, counts + size :].argmax(-1)
        np.testing.assert_array_equal(row * size + column, ours.action)
        assert not ours.obs[0, counts:].any()
    if policy in (policies.sweep, policies.spoil):
        best = 1.0 if policy is policies.sweep else -1.0
        np.testing.assert_allclose([ours.reward.sum() for ours in played], best, rtol=1e-5)
        assert all(len(ours.action) == env.max_episode_length and ours.terminated[-1] for ours in played)
    elif policy is policies.dawdle:
        assert any(ours.truncated[-1] for ours in played)
    else:
        assert any(ours.terminated[-1] and len(ours.action) < env.max_episode_length for ours in played)


@pytest.mark.parametrize("name", ["memory/position_only_cartpole", "memory/velocity_only_cartpole"])
def test_partial_cartpole(name):
    env = theirs(name)
    env.reset(seed=0)
    ours = until_end(play(name, seed=1, steps=200))
    assert len(ours.action) > 8
    state = ours.states
    env.state = tuple(float(part[0]) for part in (state.position, state.velocity, state.angle, state.angular_velocity))
    for t, action in enumerate(ours.action):
        obs, reward, terminated, truncated, _ = env.step(int(action))
        np.testing.assert_allclose(obs, ours.obs[t + 1], atol=1e-5)
        np.testing.assert_allclose(reward, ours.reward[t], rtol=1e-6)
        assert (terminated, truncated) == (ours.terminated[t], ours.truncated[t])


def test_partial_pendulum():
    name = "memory/position_only_pendulum_hard"
    env = theirs(name)
    env.reset(seed=0)
    ours = play(name, seed=0, steps=100)
    env.state = np.array([ours.states.angle[0], ours.states.angular_velocity[0]], np.float64)
    for t, action in enumerate(ours.action):
        obs, reward, terminated, truncated, _ = env.step(action)
        np.testing.assert_allclose(obs, ours.obs[t + 1], atol=1e-3)
        np.testing.assert_allclose(reward, ours.reward[t], atol=1e-5)
        assert (terminated, truncated) == (ours.terminated[t], ours.truncated[t])
    assert ours.truncated[-1]


@pytest.mark.parametrize("name", jaxrl.list_envs("memory/*"))
def test_all_levels_have_popgyms_sizes(name):
    env, ours = theirs(name), jaxrl.make(name)
    size, limit = ours.observation_space().shape[0], getattr(ours.default_params, "max_steps", None)
    if "bandit" not in name and "battleship" not in name and "partial" not in type(ours).__name__.lower():
        space = env.observation_space
        parts = space.spaces if isinstance(space, gymnasium.spaces.Tuple) else [space]
        sizes = [int(np.sum(part.nvec)) if hasattr(part, "nvec") else int(part.n) for part in parts]
        hidden = env.deck.num_cards if "concentration" in name else "autoencode" in name  # theirs has a kind for these
        last = 2 * ours.size if "minesweeper" in name else 0
        assert sum(sizes) - hidden + last == size
    if hasattr(ours.action_space(), "n"):
        square = {"battleship": "board_size", "minesweeper": "dims"}
        cells = [np.max(getattr(env, attribute)) ** 2 for task, attribute in square.items() if task in name]
        assert ours.action_space().n == (cells[0] if cells else env.action_space.n)
    if limit is not None:
        assert int(limit) == (env.episode_length if "concentration" in name else env.max_episode_length)
    if "lag" in vars(ours) and "previous" in name:
        assert (ours.lag, ours.num_cards) == (env.k, env.deck.num_cards)
    if "noisy" in name:
        np.testing.assert_allclose(ours.default_params.noise, env.noise_sigma)
