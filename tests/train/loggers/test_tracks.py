"""Rows under the names that other tools read."""

from typing import Any

import pytest

from jaxrl.algos import ppo
from jaxrl.train.folder.run_folder import config_to_json
from jaxrl.train.loggers import tracks

CONFIG = ppo.Config(num_envs=4, num_steps=8, total_timesteps=320, seed=3, lr=1e-3)  # ten updates of 32 steps
ROW: dict[str, Any] = {
    "timesteps": 64,
    "seconds": 2.0,
    "steps_per_second": 96.0,
    "episodes": [2, 1, 0],
    "return_mean": [10.0, 20.0, None],
    "length_mean": [10.0, 20.0, None],
    "returns": {"wolf": [1.0, 3.0, None]},
    "losses": {"policy": [0.1, 0.2, 0.3], "clip_fraction": [0.0, 0.0, 0.6]},
}


def about(count: int, members: Any = None) -> dict[str, Any]:
    made = {
        "algorithm": "ppo",
        "env": "classic/cartpole",
        "num_seeds": count,
        "config": config_to_json(CONFIG),
        "config_class": "jaxrl.algos.ppo:Config",
    }
    return made if members is None else {**made, "members": members}


def test_together_there_is_the_mean_and_for_what_matters_the_range() -> None:
    [track] = tracks(about(3), "jaxrl", per_seed=False)
    row = track.row(ROW)
    assert (row["return_mean"], row["return_mean_min"], row["return_mean_max"]) == (15.0, 10.0, 20.0)
    assert row["losses/policy"] == pytest.approx(0.2)
    assert row["returns/wolf"] == 2.0
    assert (row["timesteps"], row["episodes"]) == (64, 1.0)
    assert (track.name, track.step) == ("all", "timesteps")


def test_each_seed_has_its_own_and_what_is_not_known_is_left_out() -> None:
    first, _, last = tracks(about(3), "jaxrl", per_seed=True)
    assert (first.name, last.name, last.seed) == ("seed-3", "seed-5", 5)
    assert first.row(ROW)["return_mean"] == 10.0
    assert "return_mean" not in last.row(ROW)
    assert last.row(ROW)["losses/clip_fraction"] == 0.6
    assert last.hyperparameters["seed"] == 5


@pytest.mark.quick
def test_cleanrls_names() -> None:
    track = tracks(about(3), "cleanrl", per_seed=True)[1]
    assert track.row(ROW) == {
        "global_step": 64,
        "charts/episodic_return": 20.0,
        "charts/episodic_length": 20.0,
        "charts/SPS": 32.0,
        "charts/learning_rate": pytest.approx(1e-3 * 0.9),  # of the second update of ten
        "losses/policy_loss": 0.2,
        "losses/clipfrac": 0.0,
    }
    assert {name: track.hyperparameters[name] for name in ("env_id", "exp_name", "seed")} == {
        "env_id": "classic/cartpole",
        "exp_name": "ppo",
        "seed": 4,
    }
    evaluation = {"timesteps": 320, "seconds": 9.0, "episodes": 8, "return_mean": [1.0, 2.0, 3.0]}
    assert track.evaluation(evaluation) == {"global_step": 320, "eval/episodic_return": 2.0}


def test_evaluations_by_our_names() -> None:
    [track] = tracks(about(1), "jaxrl", per_seed=True)
    evaluation = {"timesteps": 320, "seconds": 9.0, "episodes": 8, "return_mean": 2.0, "returns": {"wolf": 1.0}}
    assert track.evaluation(evaluation) == {
        "timesteps": 320,
        "evaluation/episodes": 8,
        "evaluation/return_mean": 2.0,
        "evaluation/returns/wolf": 1.0,
    }


def test_members_have_their_own_learning_rates_and_names() -> None:
    members = [{"seed": 3, "lr": 1e-3}, {"seed": 3, "lr": 1e-2}]
    first, second = tracks(about(2, members), "cleanrl", per_seed=True)
    assert (first.name, second.name) == ("seed-3", "seed-3-member-1")
    assert second.title == "ppo classic/cartpole seed 3, lr=0.01"
    row = {"timesteps": 32, "seconds": 1.0, "losses": {}}
    assert second.row(row)["charts/learning_rate"] == pytest.approx(1e-2)
    assert second.hyperparameters["lr"] == 1e-2


def rates(**facts: Any) -> list[float | None]:
    """The learning rates of ten updates."""
    track = tracks(about(1) | facts, "cleanrl", per_seed=True)[0]
    rows = [track.row({"timesteps": 32 * update, "seconds": 1.0, "losses": {}}) for update in range(1, 11)]
    return [row.get("charts/learning_rate") for row in rows]


def test_learning_rates_are_those_of_the_time() -> None:
    """Of a run that was made twice as long, of one that follows a lineage, and of members that differ."""
    longer = rates(lengthened=[{"total_timesteps": 160, "timesteps": 160}])
    assert longer[:5] == pytest.approx([1e-3 * (1 - update / 5) for update in range(5)])
    assert longer[5:] == pytest.approx([1e-3 * (1 - update / 10) for update in range(5, 10)])
    lineage = {"every_updates": 4, "points": [{"lr": 1e-2}, {"lr": 2e-2}]}
    assert rates(lineage=lineage)[3:5] == pytest.approx([1e-2 * 0.7, 2e-2 * 0.6])
    assert rates(lineage=lineage)[-1] == pytest.approx(2e-2 * 0.1)
    assert rates(population={"generations": 2}) == [None] * 10
    members = [{"seed": 3, "lr": 1e-3}, {"seed": 3, "lr": 1e-2}]
    [together] = tracks(about(2, members), "cleanrl", per_seed=False)
    assert "charts/learning_rate" not in together.row({"timesteps": 32, "seconds": 1.0, "losses": {}})
