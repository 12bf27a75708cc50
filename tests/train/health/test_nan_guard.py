"""`on_nan="skip"`: what is not finite is not learned from, is told, and touches nobody else."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import ALGO, CONFIG, assert_same_state, read_rows, run

from jaxrl.algorithm import Algorithm
from jaxrl.errors import DivergedError
from jaxrl.train.health import nan_guard
from jaxrl.train.intervals import ChunkSizer


def poisoned(at: int, leaf: str = "theta") -> Algorithm:
    """The toy with a parameter that becomes NaN in one update, while the loss looks well."""

    def update(state: toy.State) -> Any:
        new, metrics = ALGO.update(state)
        bad = jnp.where(state.update + 1 == at, jnp.nan, new.params[leaf])
        return dataclasses.replace(new, params={**new.params, leaf: bad}), metrics

    return ALGO._replace(update=update)


@pytest.mark.quick
def test_an_update_with_a_loss_that_is_not_finite_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = toy.Config(nan_at=7)
    result = run(toy.make(config), config, tmp_path / "run", log_every=5, on_nan="skip")
    assert float(result.state.params["theta"]) == 9.0  # ten updates add one each
    assert int(result.state.update) == 10
    assert result.diverged == []
    said = capsys.readouterr().err
    assert "Update 7 of 10 of training was skipped: not finite: losses ['policy']. Later ones" in said
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["skipped"] for row in rows] == [0, 1]
    applied = [1 / 6, 1 / 7, 1 / 8, 1 / 9]  # 1 / theta; the seventh update is tried again, so to speak, by the eighth
    np.testing.assert_allclose(rows[1]["losses"]["policy"], np.mean(applied), rtol=1e-6)


def test_parameters_that_are_not_finite_are_named_and_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(poisoned(at=3, leaf="noise"), on_nan="skip")
    assert "Update 3 of 10 of training was skipped: not finite: params ['noise']" in capsys.readouterr().err
    assert_same_state(result.state.params["noise"], ALGO.init(jax.random.key(CONFIG.seed)).params["noise"])


def test_environments_and_keys_go_on_meanwhile() -> None:
    """Otherwise the same rollout would be made, and skipped, again."""
    skipped, plain = run(poisoned(at=3), on_nan="skip").state, run().state
    assert_same_state((skipped.env, skipped.key, skipped.update), (plain.env, plain.key, plain.update))
    assert float(skipped.params["theta"]) == float(plain.params["theta"]) - 1


def test_where_all_is_finite_nothing_changes() -> None:
    assert_same_state(run(on_nan="skip").state, run().state)


def test_a_member_that_is_skipped_harms_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    plain = run(num_seeds=3, on_nan="skip")
    noise = np.asarray(plain.state.params["noise"])[:, 0]
    bad = int(noise.argmax())
    config = toy.Config(nan_at=4, nan_above=float(np.sort(noise)[1]))  # only the largest
    result = run(toy.make(config), config, num_seeds=3, log_every=10, on_nan="skip")
    assert f"Update 4 of 10 of seed {bad} (member {bad}) was skipped" in capsys.readouterr().err
    assert result.metrics["skipped"][0].tolist() == [float(m == bad) for m in range(3)]
    assert result.diverged == []
    assert np.asarray(result.state.params["theta"]).tolist() == [10.0 - (m == bad) for m in range(3)]
    healthy = np.arange(3) != bad
    for name in ("theta", "noise"):
        mine, others = (np.asarray(each.state.params[name])[healthy] for each in (result, plain))
        np.testing.assert_array_equal(mine, others)


# A run that is continued with the other option: some rows count under `skipped`, others do not.


@pytest.fixture
def one_update_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)


@pytest.mark.usefixtures("one_update_a_chunk")
def test_a_run_that_diverged_and_is_continued_by_skipping_is_healthy(tmp_path: Path) -> None:
    config, options = toy.Config(nan_at=3), {"log_every": 1, "checkpoint_every_updates": 1}
    with pytest.raises(DivergedError):
        run(toy.make(config), config, tmp_path / "run", **options)
    result = run(toy.make(config), config, tmp_path / "run", on_nan="skip", resume=True, **options)
    assert result.diverged == []
    np.testing.assert_array_equal(result.metrics["skipped"], [np.nan, np.nan, 1, *7 * [0]])
    np.testing.assert_array_equal(np.isfinite(result.metrics["losses/policy"]), [row != 2 for row in range(10)])


@pytest.mark.usefixtures("one_update_a_chunk")
def test_a_run_that_has_skipped_can_be_continued_without(tmp_path: Path) -> None:
    config = toy.Config(nan_at=3)
    first = run(toy.make(config), config, tmp_path / "run", log_every=1, on_nan="skip", callbacks=[at_row(5)])
    assert int(first.state.update) < 10
    result = run(toy.make(config), config, tmp_path / "run", log_every=1, resume=True)
    assert result.diverged == []
    assert np.nansum(result.metrics["skipped"]) == 1
    assert np.isnan(result.metrics["skipped"][-1])


@pytest.mark.usefixtures("one_update_a_chunk")
def test_a_member_that_diverged_before_others_were_skipped_is_still_named(tmp_path: Path) -> None:
    plain = run(num_seeds=2)
    noise = np.asarray(plain.state.params["noise"])[:, 0]
    config, options = toy.Config(nan_at=3, nan_above=float(noise.min())), {"num_seeds": 2, "log_every": 1}
    run(toy.make(config), config, tmp_path / "run", callbacks=[at_row(5)], **options)
    result = run(toy.make(config), config, tmp_path / "run", on_nan="skip", resume=True, **options)
    assert result.diverged == [int(noise.argmax())]


def at_row(number: int) -> Callable[[dict[str, Any]], bool]:
    """Ends training at that row; an update has eight steps."""
    return lambda row: row["timesteps"] == 8 * number


def test_when_nothing_is_learned_any_more_training_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nan_guard, "PATIENCE", 5)
    config = toy.Config(lr=float("nan"))
    with pytest.raises(DivergedError, match="The last 5 updates up to update 5 of 10 were not finite"):
        run(toy.make(config), config, tmp_path / "run", on_nan="skip", log_every=2)
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert [(row["timesteps"], row["skipped"]) for row in rows] == [(16, 2), (32, 2), (40, 1)]


def test_what_cannot_be_skipped_is_explained() -> None:
    with pytest.raises(ValueError, match='on_nan must be "stop" or "skip", got \'ignore\''):
        run(on_nan="ignore")
    with pytest.raises(TypeError, match="A train state is a dataclass that declares its fields' roles, not a int"):
        nan_guard.skip_bad_updates(Algorithm(lambda key: 0, lambda state: (state, {"episodes": 0}), ALGO.act)).update(0)
