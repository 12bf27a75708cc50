"""Sets of levels: what is saved comes back, what does not fit is refused, and results belong to their level."""

import dataclasses
import io
import re
import types
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.algos import ppo
from jaxrl.levels.level_set import LevelSet, make_levels, read_set, take
from jaxrl.spaces import Box, Discrete
from jaxrl.train import level_results
from jaxrl.train.level_results import LevelResults, play_levels, shown_alphas, worst_levels
from jaxrl.wrappers import RandomParams

CARTPOLE = "classic/cartpole"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Start:
    level: Any
    key: Any = None


class Known(jaxrl.Environment):
    """Level k of 6 lasts k + 1 steps, returns k, and is won if k is odd."""

    name = "known"

    def observation_space(self, params: Any = None) -> Box:
        return Box(0.0, 6.0, (1,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        level = jax.random.randint(key, (), 0, 6)
        return level[None].astype(jnp.float32), (Start(level), jnp.int32(0))

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        start, step = state
        done = step >= start.level
        reward = jnp.where(done, start.level, 0).astype(jnp.float32)
        obs = start.level[None].astype(jnp.float32)
        return obs, (start, step + 1), reward, done, jnp.bool_(False), {"won": done & (start.level % 2 == 1)}


class Keyed(Known):
    """The same, and its state has a random key."""

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        key_level, key_own = jax.random.split(key)
        obs, (start, step) = super().reset_env(key_level, params)
        return obs, (dataclasses.replace(start, key=key_own), step)


KNOWN, KEYED = Known(), Keyed()


def same(first: Any, second: Any) -> bool:
    leaves = (jax.tree.map(lambda leaf: np.asarray(plain(leaf)), tree) for tree in (first, second))
    return all(jax.tree.leaves(jax.tree.map(lambda a, b: a.dtype == b.dtype and np.array_equal(a, b), *leaves)))


def plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


@pytest.fixture(scope="module")
def policy() -> tuple[Algorithm, Any]:
    algo = ppo.make(ppo.Config(env=KNOWN, num_envs=8))
    return algo, algo.init(jax.random.key(0))


def all_levels() -> LevelSet:
    drawn = make_levels(KNOWN, 6)
    return dataclasses.replace(drawn, starts=take(drawn.starts, np.argsort(drawn.starts[1][0].level)))


def other_gravity(key: jax.Array, params: Any, progress: jax.Array) -> Any:
    return dataclasses.replace(params, gravity=jax.random.uniform(key))


@pytest.mark.parametrize("kind", ["plain", "keys", "own parameters"])
def test_what_is_saved_comes_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    env = KEYED if kind == "keys" else jaxrl.make(CARTPOLE)
    if kind == "own parameters":
        env = RandomParams(env, other_gravity)
    made = dataclasses.replace(make_levels(env, 5, seed=3), score=np.array([0.5, -1, 2, 0, 1e-7], np.float32))
    made.save(tmp_path / "set.npz")
    found = LevelSet.load(tmp_path / "set.npz", env)
    assert jax.tree.structure(found.starts) == jax.tree.structure(made.starts)
    assert same(found.starts, made.starts)
    assert found.digest == made.digest != make_levels(env, 5, seed=4).digest
    assert (len(found), found.env, found.seed) == (5, made.env, 3)
    assert found.score is not None
    assert same(found.score, made.score)
    if kind == "own parameters":
        assert len(np.unique(found.starts[1].own.gravity)) == 5
    assert read_set(tmp_path / "set.npz")[0]["levels"] == 5
    obs, *_ = env.batch_step(jax.random.split(jax.random.key(1), 5), found.starts[1], jnp.zeros(5, int))
    assert obs.shape == found.starts[0].shape  # what comes back can be played


def test_a_seed_gives_the_same_levels_and_a_larger_set_begins_with_a_smaller() -> None:
    env = jaxrl.make(CARTPOLE)
    small, large, other = make_levels(env, 5), make_levels(env, 300), make_levels(env, 5, seed=1)
    assert same(small.starts, take(large.starts, np.arange(5)))
    assert not same(small.starts, other.starts)
    assert len({row.tobytes() for row in large.starts[0]}) == 300


def test_levels_differ_in_more_than_their_keys_and_there_may_be_few() -> None:
    assert sorted(make_levels(KEYED, 6).starts[1][0].level.tolist()) == list(range(6))
    with pytest.raises(ValueError, match="known has only 6 different starts, not 7; use a count of 6"):
        make_levels(KEYED, 7)
    with pytest.raises(ValueError, match="count must be at least 1"):
        make_levels(KNOWN, 0)


def damaged(path: Path, **entries: Any) -> None:
    with np.load(path) as file:
        content = {**file, **entries}
    np.savez(path, **{name: value for name, value in content.items() if value is not None})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "level set .* cannot be read: No such file"),
        (lambda path: path.write_bytes(b""), "damaged or no level set .*; make it again"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "damaged or no level set"),
        (lambda path: path.write_bytes(no_archive()), "damaged or no level set"),
        (lambda path: damaged(path, about=np.array([{}], dtype=object)), "damaged or no level set"),  # a pickle
        (lambda path: damaged(path, about=np.array("[1, 2]")), "damaged or no level set"),
        (lambda path: damaged(path, score=np.ones(4, np.float32)), "or the file is damaged"),
        (lambda path: damaged(path, **{"[0]": None}), "do not begin an episode here"),
        (lambda path: damaged(path, more=np.ones(3)), "do not begin an episode here"),
        (lambda path: damaged(path, **{"[0]": np.ones((3, 4))}), "do not begin an episode here"),
        (lambda path: damaged(path, **{"[0]": np.ones((2, 4), np.float32)}), "do not begin an episode here"),
        (lambda path: other_levels(path, "classic/acrobot"), "classic/acrobot, not of .*--env classic/acrobot"),
        (lambda path: wrapped_levels(path), "parameters, wrappers or versions differ"),
        (lambda path: none_left(path), "damaged or no level set"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_sentence(spoil: Any, message: str, tmp_path: Path) -> None:
    path, env = tmp_path / "set.npz", jaxrl.make(CARTPOLE)
    make_levels(env, 3).save(path)
    spoil(path)
    with pytest.raises((ValueError, OSError), match=message):
        LevelSet.load(path, env)


def no_archive() -> bytes:
    text = io.BytesIO()
    np.save(text, np.ones(3))
    return text.getvalue()


def other_levels(path: Path, name: str) -> None:
    make_levels(jaxrl.make(name), 2).save(path)


def wrapped_levels(path: Path) -> None:
    make_levels(RandomParams(jaxrl.make(CARTPOLE), other_gravity), 2).save(path)


def none_left(path: Path) -> None:
    made = make_levels(jaxrl.make(CARTPOLE), 3)
    dataclasses.replace(made, starts=take(made.starts, np.arange(0))).save(path)


def test_options_in_another_order_are_the_same_environment(tmp_path: Path) -> None:
    one = jaxrl.make("jaxnav/random?num_agents=1&num_beams=8")
    make_levels(one, 2).save(tmp_path / "set.npz")
    assert len(LevelSet.load(tmp_path / "set.npz", jaxrl.make("jaxnav/random?num_beams=8&num_agents=1"))) == 2
    with pytest.raises(ValueError, match=re.escape("not of jaxnav/random?num_agents=1&num_beams=9:")):
        LevelSet.load(tmp_path / "set.npz", jaxrl.make("jaxnav/random?num_agents=1&num_beams=9"))


def test_an_episode_begins_at_its_start(policy: tuple[Algorithm, Any]) -> None:
    algo, state = policy
    index = np.array([5, 0, 3, 3, 1, 2, 4])
    starts = take(all_levels().starts, index)
    played = jaxrl.evaluate(algo, KNOWN, state, jax.random.key(1), 7, starts=starts)
    assert played.returns.tolist() == index.tolist()
    assert played.lengths.tolist() == (index + 1).tolist()
    assert played.won is not None
    assert played.won.tolist() == (index % 2 == 1).tolist()
    with pytest.raises(ValueError, match=r"starts must be .* of 8 starts of known"):
        jaxrl.evaluate(algo, KNOWN, state, jax.random.key(1), 8, starts=starts)
    with pytest.raises(ValueError, match=r"starts must be .* of 7 starts of known"):
        jaxrl.evaluate(algo, KNOWN, state, jax.random.key(1), 7, starts=(starts[0], starts[1][0]))


def test_starts_that_reset_would_make_change_nothing() -> None:
    env = jaxrl.make(CARTPOLE)
    algo = ppo.make(ppo.Config(env=CARTPOLE, num_envs=8))
    state = algo.init(jax.random.key(0))
    key_reset, _ = jax.random.split(jax.random.key(1))
    starts = env.batch_reset(jax.random.split(key_reset, 4))
    played = [jaxrl.evaluate(algo, env, state, jax.random.key(1), 4, greedy=False, starts=s) for s in (starts, None)]
    assert played[0].returns.tolist() == played[1].returns.tolist()


def run_of(algo: Algorithm, state: Any, members: int = 1, index: int | None = None, env: Any = KNOWN) -> Any:
    config = types.SimpleNamespace(seed=7)
    run = types.SimpleNamespace(algo=algo, env=env, state=state, num_members=members, index=index, config=config)
    run.member = lambda number: types.SimpleNamespace(config=types.SimpleNamespace(seed=7 + number))
    return run


@pytest.mark.parametrize("episodes", [4096, 4])
def test_results_belong_to_their_level_however_they_are_split(
    episodes: int, policy: tuple[Algorithm, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighteen episodes in five chunks of four, the last of which is filled up; or all at once."""
    monkeypatch.setattr(level_results, "_EPISODES", episodes)
    levels = all_levels()
    backwards = dataclasses.replace(levels, starts=take(levels.starts, np.arange(6)[::-1]))
    played = play_levels(run_of(*policy), backwards, 3, 0)
    assert (played.metric, played.unfinished, played.seeds) == ("win_rate", 0, [7])
    assert played.array.tolist() == [[[1, 0, 1, 0, 1, 0]]] * 2  # not more than once in any try


def test_a_level_that_has_no_end_counts_as_lost(policy: tuple[Algorithm, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_results, "evaluate", partial(jaxrl.evaluate, max_steps=4))
    played = play_levels(run_of(*policy), all_levels(), 3, 0)
    assert played.array.tolist() == [[[0, 1, 0, 1, 0, 0]]] * 2  # the last one is won in its sixth step
    assert played.unfinished == 2 * 3 * 2


def test_seeds_play_alone_as_among_others_and_evaluations_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    env = jaxrl.make(CARTPOLE)
    algo = ppo.make(ppo.Config(env=CARTPOLE, num_envs=8))
    both = jax.vmap(algo.init)(jax.random.split(jax.random.key(0), 2))
    second = jax.tree.map(lambda leaf: leaf[1], both)
    levels = make_levels(env, 4)
    together = play_levels(run_of(algo, both, 2, env=env), levels, 2, 5)
    alone = play_levels(run_of(algo, second, 1, 1, env=env), levels, 2, 5)
    assert (together.metric, together.seeds, alone.members) == ("return_mean", [7, 8], [1])
    assert together.array.shape == (2, 2, 4)
    assert together.array[:, 1].tolist() == alone.array[:, 0].tolist()
    monkeypatch.setattr(level_results, "_EPISODES", 4)
    one = dataclasses.replace(levels, starts=take(levels.starts, np.zeros(4, int)))
    parts = play_levels(run_of(algo, second, env=env), one, 2, 5).array[0, 0]
    assert parts[:2].tolist() != parts[2:].tolist()  # chunks have keys of their own
    assert together.results[0] != together.results[1]  # sampled actions, and another seed


def test_the_worst_levels_by_hand() -> None:
    first, second = [0, 0.5, 1, 1], [0.2, 0.5, 0.9, 1]
    assert worst_levels(first, second, [0.25, 0.5, 1]) == pytest.approx([0.2, 0.35, 0.65])
    order = [2, 0, 3, 1]
    shuffled = worst_levels(np.take(first, order), np.take(second, order), [0.25, 0.5, 0.75, 1])
    assert shuffled == pytest.approx([0.2, 0.35, (0.2 + 0.5 + 0.95) / 3, 0.65])  # equal ones in either order
    assert worst_levels(first, second, [0.01]) == pytest.approx([0.2])  # at least one level
    assert worst_levels(second, first, [0.5]) == pytest.approx([0.25])  # the first sorts, the second counts
    for wrong in (([1], [1, 2], [1]), ([], [], [1]), (first, second, [0]), (first, second, [1.5])):
        with pytest.raises(ValueError, match="levels"):
            worst_levels(*wrong)


def test_shares_have_whole_levels() -> None:
    numbers = np.arange(100)
    means = worst_levels(numbers, numbers, [0.29, 0.05, 0.001])
    assert means.tolist() == [14, 2, 0]  # 0.29 * 100 is a bit less than 29
    assert shown_alphas(1000) == [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert shown_alphas(199) == [0.1, 0.2, 0.5, 1.0]
    assert shown_alphas(12) == [0.1, 0.2, 0.5, 1.0]
    assert shown_alphas(1) == [1.0]


def test_damaged_results_are_refused(tmp_path: Path) -> None:
    facts: dict[str, Any] = dict.fromkeys(("digest", "env", "levels"), "x") | {"tries": 1, "seed": 0, "unfinished": 0}
    good = LevelResults(**facts, metric="win_rate", greedy=False, members=[0], seeds=[0], results=[[[0.0, 1.0]]] * 2)
    path = good.write(tmp_path, "x")[0]
    assert LevelResults.read(path) == good
    text = path.read_text()
    for old, new in (('"metric": "win_rate"', '"metric": "luck"'), ("[[[0.0, 1.0]], ", "[")):
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(ValueError, match="damaged"):
            LevelResults.read(path)
