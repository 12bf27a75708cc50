"""Run folders as a training run leaves them, but made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS = 40


def _write_run(
    path: Path,
    *,
    algorithm: str = "ippo",
    env: str = "smax/3m",
    seed: int = 0,
    num_seeds: int = 1,
    skill: float = 0.8,
    config: dict[str, Any] | None = None,
    win_rate: bool = True,
    scores: list[float] | None = None,
    own: str = "",
    evaluated: bool = False,
    **about: Any,
) -> Path:
    """A run whose curves rise to about `skill`, with the final `scores` (those of the curves if left out).

    `own` is the name of a number of `log_info`; `evaluated` runs have a greedy evaluation at the start, of 0.
    """
    path.mkdir(parents=True)
    rng = np.random.default_rng([seed, num_seeds, len(algorithm)])
    final = skill + 0.05 * rng.normal(size=num_seeds)
    progress = np.arange(1, ROWS + 1) / ROWS
    curves = final * (1 - np.exp(-4 * progress))[:, None] + 0.03 * rng.normal(size=(ROWS, num_seeds))
    final_scores = final.tolist() if scores is None else scores

    def one_or_all(values: Any) -> Any:
        return [float(v) for v in values] if num_seeds > 1 else float(values[0])

    rows = []
    for i, values in enumerate(curves):
        row: dict[str, Any] = {"timesteps": 1000 * (i + 1), "seconds": 0.5 * (i + 1), "steps_per_second": 2000.0}
        row["return_mean"] = one_or_all(100 * values)
        row["length_mean"] = one_or_all(10 + values)
        if win_rate:
            row["win_rate"] = one_or_all(values) if i else None if num_seeds == 1 else [None] * num_seeds
        if own:
            row[own] = one_or_all(7 * values)
        rows.append({**row, "losses": {"policy": one_or_all(values)}})
    evaluation: dict[str, Any] = {"episodes": 512, "return_mean": one_or_all(100 * np.array(final_scores))}
    evaluation["length_mean"] = one_or_all([12.0] * num_seeds)
    if win_rate:
        evaluation["win_rate"] = one_or_all(final_scores)
    if own:
        evaluation[own] = one_or_all([7.0] * num_seeds)
    if evaluated:
        played = [dict.fromkeys(evaluation, one_or_all([0.0] * num_seeds)), evaluation]
        steps = ({"timesteps": 0, "seconds": 0.0}, {"timesteps": 1000 * ROWS, "seconds": ROWS / 2})
        lines = [json.dumps({**each, **now, "episodes": 512}) + "\n" for now, each in zip(steps, played, strict=True)]
        (path / "evaluations.jsonl").write_text("".join(lines))
    run = {
        "status": "finished",
        "command": f"jaxrl train {algorithm} --env {env} --seed {seed}",
        "algorithm": algorithm,
        "env": env,
        "seed": seed,
        "num_seeds": num_seeds,
        "config": {"env": env, "seed": seed, "lr": 1e-3, **(config or {})},
        "versions": {"jaxrl": "0.1.0", "jax": "0.10.2"},
        "git": {"commit": "0123456789abcdef", "dirty": False},
        "devices": ["cpu:0 cpu"],
        "train_seconds": ROWS / 2,
        "steps_per_second": 2000.0 * num_seeds,
        "timesteps": 1000 * ROWS,
        "evaluation": evaluation,
        **about,
    }
    (path / "run.json").write_text(json.dumps(run))
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def write_run() -> Callable[..., Path]:
    """`write_run(folder, seed=…, …)`; see above for what may be given."""
    return _write_run
