"""Step for step the same as the `minatar` package 1.0.15: both play from their own start, with the same draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.minatar.game import UP

minatar = pytest.importorskip("minatar")

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
STEPS = 6000


class FedRandom:
    """Stands in for the package's `numpy.random.RandomState`: it hands out the numbers that it is fed."""

    def __init__(self) -> None:
        self.queue: list[np.float32] = []

    def rand(self, *shape: int) -> Any:
        drawn = np.array([self.queue.pop(0) for _ in range(int(np.prod(shape)))], np.float32)
        return drawn.reshape(shape)[()]

    def randint(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        drawn = self.rand(*(() if size is None else (size,))) * np.float32(high - low)
        return low + np.floor(drawn).astype(int)


class Theirs:
    """The package's game, fed with our numbers."""

    def __init__(self, name: str, env: Any, **options: Any) -> None:
        self.random, self.env = FedRandom(), env
        self.game = minatar.Environment(name, **options)
        self.game.random = self.game.env.random = self.random  # pyright: ignore[reportAttributeAccessIssue]

    def reset(self, draws: np.ndarray) -> np.ndarray:
        self.random.queue = list(draws[1 + self.env.step_draws :])
        self.game.reset()
        self.game.last_action = 0  # the package would repeat an action of the episode before
        return self.game.state()

    def step(self, action: int, draws: np.ndarray) -> tuple[np.ndarray, float, bool]:
        sticky, rest = draws[:1], draws[1 : 1 + self.env.step_draws]
        if getattr(self.game.env, "e_spawn_timer", 0) > 0:  # of Seaquest, whose enemies take the first three
            rest = rest[3:]
        self.random.queue = [*sticky, *rest]
        reward, terminal = self.game.act(int(self.env._actions[action]))
        return self.game.state(), float(reward), bool(terminal)


def chosen(env: Any, seed: int, steps: int) -> np.ndarray:
    """Random actions that last a few steps, so that the player gets around: `[steps]`."""
    rng = np.random.default_rng(seed)
    drawn, kept = rng.integers(0, env.action_space().n, steps), rng.random(steps) < 0.5
    for t in range(1, steps):
        drawn[t] = drawn[t - 1] if kept[t] else drawn[t]
    return drawn.astype(np.int32)


def play(env: Any, actions: np.ndarray, policy: Any, ends: bool) -> Any:
    """Our side of a long game: observations, rewards, ends, and the random numbers of each step.

    Args:
        env: The environment.
        actions: `[T]`.
        policy: Maps an observation and the action to the action that is taken.
        ends: Whether a new episode begins where one ends; otherwise it goes on as if nothing had happened.
    """
    count = 1 + env.step_draws + env.start_draws

    def step(carry: Any, x: Any) -> Any:
        (obs, state), (key, action) = carry, x
        action = policy(obs, action)
        draws = uniform_rows(jax.random.clone(key), count)
        if ends:
            obs, state, reward, terminated, truncated, info = env.step(key, state, action)
            seen = info["final_observation"]
        else:
            obs, state, reward, terminated, truncated, _ = env.step_env(key, state, action, env.default_params)
            seen = obs
        return (obs, state), (action, draws, seen, obs, reward, terminated, truncated, state.board)

    def whole(key: jax.Array) -> Any:
        first, rest = jax.random.split(key)
        begun = env.reset(jax.random.clone(first))
        keys = jax.random.split(rest, len(actions))
        _, played = jax.lax.scan(step, begun, (keys, jnp.asarray(actions)))
        return uniform_rows(first, count), begun[0], played

    return jax.tree.map(np.asarray, jax.jit(whole)(jax.random.key(1)))


def as_drawn(obs: jax.Array, action: jax.Array) -> jax.Array:
    return action


def under_the_ball(obs: jax.Array, action: jax.Array) -> jax.Array:
    """Breakout: the paddle goes where the ball is, or now and then where it is going, so that all bricks get broken."""
    paddle, ball, trail, _ = jnp.argmax(obs.any(0), axis=0)
    goal = jnp.where(action == 2, jnp.clip(2 * ball - trail, 0, 9), ball)
    return jnp.where(goal < paddle, 1, jnp.where(goal > paddle, 2, 0))


def with_six_divers(obs: jax.Array, action: jax.Array) -> jax.Array:
    """Seaquest: as drawn, except that the submarine comes up only with six divers."""
    below, saved = obs[1, :, 0].any(), obs[9, :, 8].sum()
    return jnp.where((action == UP) & below & (saved < 6), 0, action)


def compare(name: str, env: Any, policy: Any = as_drawn, ends: bool = True, seed: int = 0, **options: Any) -> Any:
    """Play both and assert that all is the same; returns our boards and rewards."""
    first_draws, first, played = play(env, chosen(env, seed, STEPS), policy, ends)
    theirs = Theirs(name, env, **options)
    np.testing.assert_array_equal(theirs.reset(first_draws), first)
    action, draws, seen, after, reward, terminated, truncated, boards = played
    ended = truncated if name == "freeway" else terminated  # the package's clock looks like an end there
    for t in range(STEPS):
        obs, their_reward, terminal = theirs.step(action[t], draws[t])
        np.testing.assert_array_equal(seen[t], obs, err_msg=f"observation after step {t}")
        assert reward[t] == their_reward, t
        assert ended[t] == terminal, t
        if terminal and ends:
            np.testing.assert_array_equal(theirs.reset(draws[t]), after[t])
        elif terminal:
            theirs.game.env.terminal = False
    return boards, reward, ended


@pytest.mark.parametrize("name", GAMES)
def test_episodes_and_their_ends(name):
    _, reward, ended = compare(name, jaxrl.make(f"minatar/{name}"))
    assert ended.sum() >= (2 if name == "freeway" else 20)
    assert reward.sum() >= 2


@pytest.mark.parametrize("name", ["asterix", "seaquest", "space_invaders"])
def test_going_on_after_the_end(name):
    """Where the player cannot die, the game gets as hard and as crowded as it can."""
    boards, _, _ = compare(name, jaxrl.make(f"minatar/{name}"), ends=False)
    if name == "asterix":
        assert (boards.spawn_interval[-1], boards.move_interval[-1]) == (1, 1)
        assert boards.filled.all(axis=1).any()  # no lane was free
    if name == "seaquest":
        assert (boards.spawn_interval[-1], boards.move_interval[-1]) == (1, 2)
        assert boards.enemies.there.sum(axis=1).max() > 12
    if name == "space_invaders":
        assert boards.move_interval[-1] == 6


def test_six_divers_are_brought_home():
    boards, reward, _ = compare("seaquest", jaxrl.make("minatar/seaquest"), with_six_divers, ends=False)
    assert boards.saved.max() == 6
    assert boards.saved.min() == -1  # as in the package, after the bonus
    assert (np.abs(reward) > 1).any()  # the bonus, negative in the package too if there is no oxygen left


def test_a_wall_of_bricks_comes_back_without_sticky_actions():
    env = jaxrl.make("minatar/breakout", sticky_action_prob=0.0, max_steps=STEPS + 1)
    boards, _, _ = compare("breakout", env, under_the_ball, sticky_action_prob=0.0)
    cleared = (boards.bricks == 0).all(axis=1)
    assert (cleared[:-1] & ~cleared[1:]).any()


@pytest.mark.parametrize(
    "name", ["asterix", *(pytest.param(name, marks=pytest.mark.slow) for name in ("seaquest", "space_invaders"))]
)
def test_without_ramping_in_all_actions(name):
    env = jaxrl.make(f"minatar/{name}", difficulty_ramping=False, use_minimal_action_set=False)
    boards, _, _ = compare(name, env, ends=False, difficulty_ramping=False)
    assert (boards.level == 0).all()


@pytest.mark.quick
@pytest.mark.parametrize("name", GAMES)
def test_channels_and_actions_are_the_packages(name):
    env, theirs = jaxrl.make(f"minatar/{name}"), minatar.Environment(name)
    assert list(env.observation_space().shape) == theirs.state_shape()
    assert list(env.minimal_actions) == theirs.minimal_action_set()
    assert jaxrl.make(f"minatar/{name}", use_minimal_action_set=False).action_space().n == theirs.num_actions()
    assert float(env.default_params.sticky_action_prob) == pytest.approx(theirs.sticky_action_prob)
