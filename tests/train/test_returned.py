"""What an algorithm's update must return, and what becomes of metrics that no row holds."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from toy_runs import ALGO, CONFIG, run

from jaxrl.algorithm import Algorithm, scan_updates
from jaxrl.train.cost import estimate_cost

SWAPPED = r"update returned \(dict, State\); return \(state, metrics\), a State and a dict\."


def returning(change: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """The toy with an update that returns `change(state, metrics)`."""
    return ALGO._replace(update=lambda state: change(*ALGO.update(state)))


@pytest.mark.parametrize("num_seeds", [1, 2])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s, m: (m, s), SWAPPED),
        (lambda s, m: s, r"update returned \(State\); return"),
        (lambda s, m: (s, {"losses": m["losses"]}), "no metric 'episodes'; return the rollout's sums"),
        (lambda s, m: (s, {**m, "losses": {"own": jnp.ones(3)}}), r"metrics\['losses'\]\['own'\] as an array \[3\]"),
        (lambda s, m: (s, {**m, "losses": {"own": None}}), "as a NoneType; return a scalar, such as the mean"),
    ],
)
def test_what_an_update_must_return(change: Any, sentence: str, num_seeds: int) -> None:
    with pytest.raises(TypeError, match=sentence):
        run(returning(change), num_seeds=num_seeds)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"update": 0.5}, r"State.update as int32\[\] and returned it as float32\[\]; return .astype\(jnp.int32\)"),
        ({"update": jnp.zeros(3, int)}, r"State.update as int32\[\] and returned it as int32\[3\]; return it as"),
        ({"update": None}, r"State.update as int32\[\] and returned it as no array; return it as it was, or"),
        ({"params": {}}, r"State.params\['noise'\] as float32\[3\] and returned it as no array"),
        ({"update": (0, 0)}, r"State.update as int32\[\] and returned it as no array"),
        ({"update": "one"}, r"State.update as int32\[\] and returned it as a str"),
    ],
)
def test_a_state_keeps_its_names_shapes_and_dtypes(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=f"^update got {sentence}"):
        run(returning(lambda state, metrics: (dataclasses.replace(state, **change), metrics)))


def test_metrics_may_have_no_losses() -> None:
    result = run(returning(lambda s, m: (s, {name: value for name, value in m.items() if name != "losses"})))
    assert "episodes" in result.metrics
    assert not any("losses" in name for name in result.metrics)


def test_a_state_may_be_returned_with_numbers_of_python() -> None:
    algo = returning(lambda state, metrics: (dataclasses.replace(state, update=1, params={**state.params}), metrics))
    jax.eval_shape(scan_updates(algo, 2), jax.random.key(0))


@pytest.mark.parametrize(
    "trace",
    [
        lambda algo: jax.eval_shape(scan_updates(algo, 2), jax.random.key(0)),
        lambda algo: estimate_cost(algo, CONFIG),
        lambda algo: run(algo, on_nan="skip"),
    ],
)
def test_whoever_asks_for_an_update(trace: Callable[[Algorithm], Any]) -> None:
    with pytest.raises(TypeError, match=SWAPPED):
        trace(returning(lambda state, metrics: (metrics, state)))


def test_metrics_that_no_row_holds_are_named_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    run(returning(lambda state, metrics: (state, {**metrics, "own": jnp.float32(0)})))
    assert "metrics.jsonl leaves out own: put what it should have into losses." in capsys.readouterr().err
    run(on_nan="skip")
    assert "leaves out" not in capsys.readouterr().err
