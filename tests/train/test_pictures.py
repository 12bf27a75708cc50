"""Which member is shown, and that a missing picture is no reason to fail."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import run

from jaxrl import render
from jaxrl.errors import MissingExtraError
from jaxrl.render.scene import Circle, Scene
from jaxrl.replay import Replay
from jaxrl.train import pictures
from jaxrl.train.pictures import (
    new_figure,
    record_episode,
    record_episodes,
    save_curve,
    save_replays,
    short,
    verbatim,
)


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
    monkeypatch.setattr(pictures, "FILM_STEPS", 12)
    assert replays(tmp_path, Config(kind="Endless"), said.append) == ["replay.gif", "replay.html"]
    assert said == ["The episode goes on after 12 steps but its film ends; `jaxrl render RUN --max-steps N` films N."]
    assert "cut short after 12 steps" in (tmp_path / "replay.html").read_text()


def test_a_bug_in_a_picture_is_told_and_the_result_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: Any) -> None:
        raise ZeroDivisionError("no rows")

    monkeypatch.setattr(pictures, "save_curve", wrong)
    config = Config(kind="Bug")
    result = run(toy.make(config), config, tmp_path / "run", pictures=True)
    assert result.evaluation is not None
    assert result.stopped is None
    text = capsys.readouterr().err
    for picture, error in (("curve.png", "ZeroDivisionError: no rows"), ("replay.gif", "KeyError: 'sprite'")):
        assert f"No {picture}: {error} (test_pictures.py, line " in text


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
    assert said[0].startswith("No replay: TypeError: no such state (test_pictures.py, line ")


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


def rows(kind: str) -> list[dict[str, Any]]:
    table = []
    for i in range(60):
        value: Any = None if i < 3 else i / 60
        row = {"timesteps": 8192 * i, "seconds": i / 10, "return_mean": value, "win_rate": value, "losses": {}}
        if kind == "members":
            row |= {"return_mean": [value, i / 80], "win_rate": [value, i / 80]}
        if kind == "no winning":
            del row["win_rate"]
        if kind == "kinds of agents":
            del row["win_rate"]
            row["info/$focus"] = i
            row["returns"] = {"wolf": [value, i / 80], "sheep": [None, -i / 80]}
        table.append(row)
    return table


def size_of(path: Path) -> tuple[int, ...]:
    from matplotlib.image import imread

    picture = imread(path)
    assert np.ptp(picture) > 0.5
    return picture.shape[:2]


@pytest.mark.parametrize("kind", ["one seed", "members", "no winning", "kinds of agents"])
def test_a_picture_is_made(tmp_path: Path, kind: str) -> None:
    table = rows(kind)
    path = tmp_path / "curve.png"
    save_curve(path, table, [table[10], table[-1]], "ippo on smax/3m")
    assert size_of(path) == (912 if kind == "kinds of agents" else 456, 1152)  # a number of one's own has panels too


def test_a_run_without_a_single_row_is_no_reason_to_fail(tmp_path: Path) -> None:
    save_curve(tmp_path / "curve.png", [], [])
    assert not (tmp_path / "curve.png").exists()


def test_without_matplotlib_the_pip_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaxrl\[viz\]'"):
        save_curve(tmp_path / "curve.png", rows("one seed"), [])


def test_steps_in_short_have_three_digits_and_the_unit_they_round_to() -> None:
    shown = {0: "0", 999: "999", 1024: "1.02k", 999_424: "999k", 999_936: "1M", 2_500_000: "2.5M", 999_999_999: "1G"}
    assert {steps: short(steps) for steps in shown} == shown


def test_every_name_stands_in_a_legend_as_it_is() -> None:
    figure = new_figure("a test", 2, 2)
    axes = figure.add_subplot()
    for name in ("_mine", "$mine$"):
        axes.plot([0, 1], label=verbatim(name))
    texts = [text.get_text() for text in axes.legend().get_texts()]
    assert texts == [" _mine", r"\$mine\$"]
