"""What an algorithm's update must return, and what becomes of metrics that no row holds."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from toy_runs import ALGO, run


def returning(change: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """The toy with an update that returns `change(state, metrics)`."""
    return ALGO._replace(update=lambda state: change(*ALGO.update(state)))


@pytest.mark.parametrize("num_seeds", [1, 2])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s, m: (m, s), r"update returned \(dict, State\); return \(state, metrics\), a State and a dict\."),
        (lambda s, m: s, r"update returned \(State\); return"),
        (lambda s, m: (s, {"losses": m["losses"]}), "no metric 'episodes'; return the rollout's sums"),
        (lambda s, m: (s, {**m, "losses": {"own": jnp.ones(3)}}), r"metrics\['losses'\]\['own'\] as an array \[3\]"),
        (lambda s, m: (s, {**m, "losses": {"own": None}}), "as a NoneType; return a scalar, such as the mean"),
    ],
)
def test_what_an_update_must_return(change: Any, sentence: str, num_seeds: int) -> None:
    with pytest.raises(TypeError, match=sentence):
        run(returning(change), num_seeds=num_seeds)


def test_metrics_that_no_row_holds_are_named_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    run(returning(lambda state, metrics: (state, {**metrics, "own": jnp.float32(0)})))
    assert "metrics.jsonl leaves out own: put what it should have into losses." in capsys.readouterr().err
    run(on_nan="skip")
    assert "leaves out" not in capsys.readouterr().err
