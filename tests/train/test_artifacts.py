"""Which member is shown, and that a missing picture is no reason to fail."""

from pathlib import Path

import jax
import jax.numpy as jnp
import toy_algorithm as toy

from jaxrl.train.artifacts import best_member, member_of, record_episode, save_replays


def test_the_best_member_is_shown() -> None:
    state = {"w": jnp.arange(3.0), "key": jax.random.split(jax.random.key(0), 3)}
    played = {"return_mean": [5.0, 4.0, 3.0], "win_rate": [0.1, 0.9, float("nan")]}
    assert float(best_member(state, played, 3)["w"]) == 1.0
    del played["win_rate"]
    assert float(best_member(state, played, 3)["w"]) == 0.0
    assert best_member(state, played, 1) is state


def test_looking_at_a_member_leaves_its_key_unused() -> None:
    state = {"key": jax.random.split(jax.random.key(0), 3)}
    jax.random.uniform(member_of(state, 1)["key"])
    jax.vmap(jax.random.uniform)(state["key"])


def test_a_recorded_episode_is_played_by_the_policy() -> None:
    config = toy.Config(act_from=0.0)
    algo = toy.make(config)
    replay = record_episode(algo, config.make_env(), algo.init(jax.random.key(0)))
    assert replay.episode_return == replay.num_steps > 0


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    config, said = toy.Config(), []
    algo = toy.make(config)
    assert (
        save_replays([tmp_path / "replay.html"], algo, config.make_env(), algo.init(jax.random.key(0)), said.append)
        == []
    )
    assert said == ["No replay.html: toy/countdown has no picture yet."]
