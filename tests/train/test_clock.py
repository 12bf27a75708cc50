"""Which time is training: none of evaluation's, and of a run that goes on also what came before."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_runs import read_rows, run

from jaxrl.train.callbacks import Callback
from jaxrl.train.intervals import ChunkSizer


class Slow(Callback):
    """Time passes in here alone: a second with each row of training, a hundred with each evaluation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop_at: int = 0) -> None:
        self.now, self.stop_at = 0.0, stop_at
        monkeypatch.setattr("jaxrl.train.intervals.time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)

    def row(self, row: dict[str, Any]) -> bool:
        self.now += 1
        return row["timesteps"] == self.stop_at

    def evaluation(self, row: dict[str, Any]) -> None:
        self.now += 100


def test_evaluation_is_no_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(run_dir=tmp_path / "run", log_every=1, eval_every=4, callbacks=[Slow(monkeypatch)])
    assert [row["seconds"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == list(range(10))
    assert result.train_seconds == 10


def test_a_run_that_goes_on_counts_what_it_took_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "run"
    options: dict[str, Any] = {"log_every": 1, "eval_every": 4}
    first = run(run_dir=place, callbacks=[Slow(monkeypatch, stop_at=24)], **options)
    assert first.stopped == "callback"
    result = run(run_dir=place, callbacks=[Slow(monkeypatch)], resume=True, **options)
    assert [row["seconds"] for row in read_rows(place / "metrics.jsonl")] == list(range(10))
    assert result.train_seconds == 10
