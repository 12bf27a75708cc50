"""Which member is shown, and that a missing picture is no reason to fail."""

import dataclasses
import signal
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import run

from jaxrl import render
from jaxrl.render.scene import Circle, Scene
from jaxrl.replay import Replay
from jaxrl.train.pictures import artifacts
from jaxrl.train.pictures.artifacts import record_episode, record_episodes, save_replays


def test_a_recorded_episode_is_played_by_the_policy() -> None:
    config = toy.Config(act_from=0.0)
    algo = toy.make(config)
    replay = record_episode(algo, config.make_env(), algo.init(jax.random.key(0)))
    assert replay.episode_return == replay.num_steps > 0


def test_each_of_several_episodes_has_its_own_seed() -> None:
    config = toy.Config()
    algo, env = toy.make(config), config.make_env()
    state = algo.init(jax.random.key(0))
    several = record_episodes(algo, env, state, 3, seed=5)
    for number, replay in enumerate(several):
        alone = record_episode(algo, env, state, 5 + number)
        jax.tree.map(np.testing.assert_array_equal, replay.states, alone.states)


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    config, said = toy.Config(), []
    algo = toy.make(config)
    assert (
        save_replays([tmp_path / "replay.html"], algo, config.make_env(), algo.init(jax.random.key(0)), said.append)
        == []
    )
    assert said == ["No replay.html: toy/countdown has no picture yet; a method draw(states) of its class makes one."]


class Drawn(toy.Countdown):
    """With a picture: a dot that sinks."""

    def draw(self, states: Any, params: Any = None) -> Scene:
        left = np.asarray(states)[:, 0].astype(float)
        return Scene(len(left), (0.0, 0.0, 6.0, 6.0), (Circle(x=3.0, y=left, radius=0.5),), step_seconds=0.5)


class Endless(Drawn):
    """No episode ends."""

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, *_, info = super().step_env(key, state, action, params)
        return obs, state, reward, jnp.array(False), jnp.array(False), info


class Bug(Drawn):
    """Its author has made a mistake."""

    def draw(self, states: Any, params: Any = None) -> Scene:
        raise KeyError("sprite")


@dataclasses.dataclass(frozen=True)
class Config(toy.Config):
    """The toy, on one of these."""

    kind: str = "Drawn"

    def make_env(self) -> toy.Countdown:
        return globals()[self.kind]()


def replays(folder: Path, config: Config, say: Any) -> list[str]:
    """Names of the replays that are made."""
    algo = toy.make(config)
    paths = [folder / "replay.gif", folder / "replay.html"]
    made = save_replays(paths, algo, config.make_env(), algo.init(jax.random.key(0)), say)
    return [path.name for path in made]


def test_an_episode_without_an_end_is_filmed_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    assert replays(tmp_path, Config(), said.append) == ["replay.gif", "replay.html"]
    assert said == []
    monkeypatch.setattr(artifacts, "FILM_STEPS", 12)
    assert replays(tmp_path, Config(kind="Endless"), said.append) == ["replay.gif", "replay.html"]
    assert said == ["The episode goes on after 12 steps but its film ends; `jaxrl render RUN --max-steps N` films N."]
    assert "cut short after 12 steps" in (tmp_path / "replay.html").read_text()


def test_a_bug_in_a_picture_is_told_and_the_result_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: Any) -> None:
        raise ZeroDivisionError("no rows")

    monkeypatch.setattr(artifacts, "save_curve", wrong)
    config = Config(kind="Bug")
    result = run(toy.make(config), config, tmp_path / "run", pictures=True)
    assert result.evaluation is not None
    assert result.stopped is None
    text = capsys.readouterr().err
    for picture, error in (("curve.png", "ZeroDivisionError: no rows"), ("replay.gif", "KeyError: 'sprite'")):
        assert f"No {picture}: {error} (test_artifacts.py, line " in text


class Slow(Drawn):
    """Whoever waits for its picture ends the program."""

    def draw(self, states: Any, params: Any = None) -> Scene:
        signal.raise_signal(signal.SIGTERM)
        return super().draw(states, params)


def test_a_signal_ends_the_drawing_and_the_result_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def kills(number: int, frame: Any) -> None:
        raise RuntimeError("killed")

    before = signal.signal(signal.SIGTERM, kills)
    try:
        config = Config(kind="Slow")
        result = run(toy.make(config), config, tmp_path / "run", pictures=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.evaluation is not None
    assert result.stopped is None
    assert "SIGTERM ended the drawing; `jaxrl render RUN` films the run." in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "run").iterdir() if path.suffix in (".png", ".gif")} == {"curve.png"}


def test_a_bug_in_an_episode_is_told_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, *args: Any) -> None:
        raise TypeError("no such state")

    monkeypatch.setattr(Drawn, "sub_states", wrong)
    said: list[str] = []
    assert replays(tmp_path, Config(), said.append) == []
    assert said[0].startswith("No replay: TypeError: no such state (test_artifacts.py, line ")


def test_half_a_picture_is_not_kept_and_harms_none_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(replay: Replay, path: Path) -> None:
        path.write_bytes(b"GIF89a")
        raise OSError(28, "No space left on device")

    (tmp_path / "replay.gif").write_bytes(b"whole")
    monkeypatch.setattr(render, "save", full)
    said: list[str] = []
    assert replays(tmp_path, Config(), said.append) == []
    assert said[0] == "No replay.gif: [Errno 28] No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["replay.gif"]
    assert (tmp_path / "replay.gif").read_bytes() == b"whole"
