"""When a run has diverged, and that its rows tell how it came to that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from replayed import SMALL
from toy_runs import ALGO, CONFIG, read_rows, run, timeless

from jaxrl.algos import dqn, sac
from jaxrl.errors import DivergedError
from jaxrl.train.health.divergence import PATIENCE, Divergence, Idle
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.members import Members

NAN = float("nan")


@pytest.mark.parametrize("chunk", [1, 3, 10])
def test_the_rows_up_to_a_divergence_are_written(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many updates the chunk has that it happens in; what comes after it there is nobody's."""
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: min(chunk, limit))
    seen: list[int] = []
    config = toy.Config(nan_at=8)
    with pytest.raises(DivergedError, match="After update 8 of 10") as error:
        run(
            toy.make(config),
            config,
            tmp_path / "run",
            log_every=3,
            callbacks=[lambda row: seen.append(row["timesteps"])],
        )
    assert error.value.update == 8
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["timesteps"] for row in rows] == seen == [24, 48, 64]
    assert rows[2]["losses"] == {"policy": None}
    run(run_dir=tmp_path / "well", log_every=3)
    assert timeless(rows[:2]) == timeless(read_rows(tmp_path / "well" / "metrics.jsonl")[:2])
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (about["status"], about["timesteps"]) == ("diverged", 64)


def test_so_are_those_before_parameters_that_cannot_be_saved(tmp_path: Path) -> None:
    """The losses look well all the time; the row ends where the first checkpoint would be."""
    config = toy.Config(lr=NAN)

    def update(state: Any) -> Any:
        state, metrics = toy.make(config).update(state)
        return state, {**metrics, "losses": {"policy": jnp.float32(0)}}

    with pytest.raises(DivergedError, match="no longer finite"):
        run(ALGO._replace(update=update), config, tmp_path / "run", log_every=4, checkpoint_every_updates=6)
    assert [row["timesteps"] for row in read_rows(tmp_path / "run" / "metrics.jsonl")] == [32, 48]


def test_a_population_goes_on_while_somebody_is_left() -> None:
    """Everybody diverges at some time, but never all at once; who is revived and diverges again is reported again."""
    divergence = Divergence(Members.of(CONFIG, 2), num_updates=100, advice=lambda: "Think.", revives=True)

    def check(*losses: list[float], done: int) -> tuple[list[str], DivergedError | None]:
        return divergence.check_losses({"losses": {"policy": np.array(losses).T}}, done, None)

    said, error = check([1, NAN, NAN], [1, 1, 1], done=0)
    assert (len(said), error) == (1, None)
    assert check([NAN, NAN, 1], [1, 1, 1], done=3) == ([], None)
    said, error = check([1, NAN, 1], [1, 1, NAN], done=6)
    assert [text.split(" (")[0] for text in said] == ["After update 8 of 100 seed 0", "After update 9 of 100 seed 1"]
    assert error is None
    _, error = check([1, NAN, NAN], [NAN, NAN, NAN], done=9)
    assert error is not None
    assert error.update == 11
    assert divergence.found([{"losses": {"policy": [NAN, NAN]}}], None) == []


def test_a_run_ends_with_the_last_of_its_members() -> None:
    divergence = Divergence(Members.of(CONFIG, 3), num_updates=100, advice=lambda: "Think.")
    losses = np.ones((8, 3))
    losses[5:, 0] = losses[2:, 1] = NAN
    said, error = divergence.check_losses({"losses": {"policy": losses}}, 40, None)
    assert [text.split(" (")[0] for text in said] == ["After update 43 of 100 seed 1", "After update 46 of 100 seed 0"]
    assert error is None
    losses[6, 2] = np.inf
    said, error = divergence.check_losses({"losses": {"policy": losses}}, 48, None)
    assert said == []
    assert error is not None
    assert error.update == 55
    assert str(error) == "After update 55 of 100 seed 2 (member 2) has diverged: not finite: policy. Think."


def told(idle: Idle, norms: list[list[float]], total: int) -> list[int]:
    """The numbers of updates after which something is told, given the norms of each chunk."""
    when, done = [], 0
    for chunk in norms:
        done += len(chunk)
        losses = {"critic_grad_norm": np.array(chunk), "value": np.ones(len(chunk))}
        if idle.sentence({"losses": losses}, last=done == total):
            when.append(done)
    return when


def test_it_waits_until_learning_must_have_begun_and_says_it_once() -> None:
    zeros = [[0.0]] * (2 * PATIENCE)
    assert told(Idle(3), zeros, total=99) == [3 + PATIENCE]
    assert told(Idle(3), [[0.0] * 5] * 6, total=99) == [15]
    assert told(Idle(3), zeros[:5], total=5) == [5]  # no more come
    assert told(Idle(3), zeros[:3], total=3) == []  # none was to learn


def test_one_gradient_is_enough() -> None:
    for norm in (1e-9, float("nan")):
        assert told(Idle(0), [[0.0, norm], *[[0.0]] * 3 * PATIENCE], total=99) == []


def test_losses_without_a_gradients_norm_say_nothing() -> None:
    assert Idle(0).sentence({"losses": {"value": np.zeros(PATIENCE)}}, last=True) is None


def test_robust_methods_may_wait_for_their_pool_but_not_for_ever() -> None:
    fills = {"losses": {"grad_norm": np.zeros(PATIENCE)}, "levels": {"trains": np.zeros(PATIENCE)}}
    idle = Idle(0)
    assert idle.sentence(fills, last=False) is None
    assert "Lower size or min_fill in levels" in (idle.sentence(fills, last=True) or "")


@pytest.mark.parametrize(
    ("algo", "env", "says"),
    [
        (dqn, "classic/cartpole?max_steps=1", True),
        (dqn, "classic/cartpole?max_steps=2", False),
        pytest.param(sac, "classic/pendulum?max_steps=1", True, marks=pytest.mark.slow),
    ],
)
def test_episodes_of_one_step_that_the_clock_ends(algo: Any, env: str, says: bool, tmp_path: Path) -> None:
    """Nobody knows what follows such a step, so there is nothing to learn from."""
    config = algo.Config(env=env, **{**SMALL, "total_timesteps": 16 * (PATIENCE + 3)})
    run(algo.make(config), config, tmp_path / "run", eval_episodes=2)
    events = tmp_path / "run" / "events.jsonl"
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()] if events.exists() else []
    assert kinds.count("idle") == says
