"""What cannot be saved waits for room, and is named in the end if there is none."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import CONFIG, read_rows, run

import jaxrl
from jaxrl.errors import CheckpointError
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.saver import Best
from jaxrl.train.metrics import rank, score
from jaxrl.train.result import UnsavedError


def at_the_end(act: Callable[[], object]) -> Callable[[dict[str, Any]], None]:
    """Does something when the last row comes."""

    def on_row(row: dict[str, Any]) -> None:
        if row["timesteps"] == CONFIG.total_timesteps:
            act()

    return on_row


def test_a_best_state_that_could_not_be_written_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last checkpoint: the evaluations that come meanwhile are compared with it."""
    save, full = Checkpoints.save, [True]

    def without_room(self: Checkpoints, *args: Any) -> Path:
        if self.folder.name == "best" and full:
            raise CheckpointError("The disk is full.")
        return save(self, *args)

    monkeypatch.setattr(Checkpoints, "save", without_room)
    run(run_dir=tmp_path / "run", eval_every=1, callbacks=[at_the_end(full.clear)])
    rows = read_rows(tmp_path / "run" / "evaluations.jsonl")[1:]
    best = max(rows, key=rank)
    assert load(tmp_path / "run", best=True).state.update * CONFIG.steps_per_update == best["timesteps"]
    events = [(event["kind"], event["text"]) for event in read_rows(tmp_path / "run" / "events.jsonl")]
    assert events == [
        ("unsaved", "The disk is full. The state waits in memory and is saved with the next checkpoint."),
        ("saved", "The state with the best evaluation, which had to wait, is saved."),
    ]


def test_everything_that_is_unsaved_in_the_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last state, the best one, and the rows."""

    def without_room(self: Checkpoints, *args: Any) -> Path:
        raise CheckpointError(f"No {self.folder.name}.")

    def no_flush(self: RunFolder) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(Checkpoints, "save", without_room)
    monkeypatch.setattr(RunFolder, "flush", lambda self: None)
    full = at_the_end(lambda: monkeypatch.setattr(RunFolder, "flush", no_flush))
    with pytest.raises(UnsavedError) as error:
        run(run_dir=tmp_path / "run", eval_every=5, callbacks=[full])
    for part in (
        "No best.",
        "The last state cannot be written: the disk is",
        "Rows of metrics cannot be written: the disk is",
    ):
        assert part in str(error.value)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "unsaved"


def keep(folder: RunFolder, update: int, row: dict[str, Any], state: Any = None) -> None:
    """Offer a state by itself, as a process that has just begun to train does."""
    best = Best(folder)
    best.offer(update, state or {"params": jnp.zeros(2)}, row)
    best.write()


def test_a_win_rate_counts_before_a_return_and_seeds_are_averaged():
    assert score({"return_mean": 3.0}) == 3.0
    assert score({"return_mean": 3.0, "win_rate": 0.5}) == 0.5
    assert score({"return_mean": [1.0, 2.0]}) == 1.5


def test_what_is_not_finite_neither_wins_nor_stands_in_the_way(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    for update, returns in enumerate([[float("nan"), 1.0], [1.0, None], [2.0, 2.0], [float("inf"), 9.0], [3.0, 3.0]]):
        keep(folder, update, {"timesteps": update + 1, "return_mean": returns})
        assert Checkpoints(folder.best).updates == {0: [], 1: [], 4: [4]}.get(update, [2])


def test_what_is_not_known_is_worse_than_anything():
    assert score({"return_mean": None}) == score({"return_mean": [1.0, None]}) == score({"return_mean": float("nan")})
    assert score({"return_mean": None}) < score({"return_mean": -1e9})


def test_only_what_beats_all_before_is_kept(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    for update, (returns, kept) in enumerate([(1.0, 0), (3.0, 1), (2.0, 1), (3.0, 1), (4.0, 4)]):
        keep(folder, update, {"timesteps": update + 1, "return_mean": returns}, {"params": jnp.full(2, returns)})
        with Checkpoints(folder.best) as best:
            restored = best.restore({"params": jax.ShapeDtypeStruct((2,), jnp.float32)})
        assert restored.update == kept
        assert restored.extra["evaluation"]["timesteps"] == kept + 1


def test_among_equal_win_rates_the_larger_return_is_kept(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    rows = [(0.0, 1.0, 0), (0.0, 3.0, 1), (0.0, 2.0, 1), (0.1, 0.5, 3), (0.1, 0.5, 3), (0.0, 9.0, 3)]
    for update, (wins, returns, kept) in enumerate(rows):
        keep(folder, update, {"timesteps": update + 1, "return_mean": returns, "win_rate": wins})
        assert Checkpoints(folder.best).updates == [kept]


def test_what_was_good_before_training_is_not_in_the_way(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    keep(folder, 0, {"timesteps": 0, "return_mean": 5.0})
    keep(folder, 1, {"timesteps": 1, "return_mean": 1.0})
    assert Checkpoints(folder.best).updates == [1]


def test_what_could_not_be_written_waits_and_what_was_lost_is_not_in_the_way(tmp_path, monkeypatch):
    """Also of a state whose memory is used again, as the loop's is."""
    folder, write = RunFolder.create(tmp_path / "run"), Checkpoints.save
    best, params = Best(folder), np.full(2, 5.0, np.float32)

    def full(*args: Any) -> Any:
        raise CheckpointError("The disk is full.")

    monkeypatch.setattr(Checkpoints, "save", full)
    best.offer(1, {"params": params}, {"timesteps": 1, "return_mean": 5.0})
    with pytest.raises(CheckpointError, match="The disk is full"):
        best.write()
    best.offer(2, {"params": jnp.zeros(2)}, {"timesteps": 2, "return_mean": 4.0})
    params[:] = 0.0
    monkeypatch.setattr(Checkpoints, "save", write)
    keep(folder, 2, {"timesteps": 2, "return_mean": 4.0})  # as after a kill
    assert Checkpoints(folder.best).updates == [2]
    best.write()
    restored = Checkpoints(folder.best).restore({"params": jax.ShapeDtypeStruct((2,), jnp.float32)})
    assert (restored.update, restored.state["params"].tolist()) == (1, [5.0, 5.0])


def test_a_run_with_evaluations_can_be_loaded_at_its_best(tmp_path):
    config = toy.Config(total_timesteps=400)
    algo = toy.make(config)
    options = {"pictures": False, "quiet": True, "eval_episodes": 8}
    jaxrl.fit(algo, config, tmp_path / "run", eval_every=2, **options)
    rows = RunFolder.open(tmp_path / "run").evaluations.read()
    best = max(rows[1:], key=score)
    state = load(tmp_path / "run", best=True).state
    assert int(state.update) * config.steps_per_update == best["timesteps"]
    jaxrl.fit(algo, config, tmp_path / "plain", **options)
    with pytest.raises(FileNotFoundError, match="no best checkpoint: they are kept when --eval-every is given"):
        load(tmp_path / "plain", best=True)
