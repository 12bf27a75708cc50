"""How `fit` takes a logger along."""

from pathlib import Path
from typing import Any

import pytest

from jaxrl.train.loggers import Logger, follow, make_logger


class Recorder(Logger):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def open(self, about: dict[str, Any], folder: Path | None, say: Any) -> None:
        self.told.append(("open", about["status"], folder))

    def row(self, row: dict[str, Any]) -> None:
        self.told.append(("row", row["timesteps"]))

    def evaluation(self, row: dict[str, Any]) -> None:
        self.told.append(("evaluation", row["timesteps"]))

    def close(self, about: dict[str, Any]) -> None:
        self.told.append(("close", about["status"]))


@pytest.mark.quick
def test_a_logger_of_ones_own_is_told_everything_in_order(tmp_path: Path) -> None:
    import toy_algorithm as toy

    from jaxrl.train.fit import fit

    recorder, config = Recorder(), toy.Config()
    options: dict[str, Any] = {"log_every": 4, "eval_every": 8, "eval_episodes": 4, "pictures": False, "quiet": True}
    fit(toy.make(config), config, tmp_path / "run", logger=recorder, **options)
    rows = [("evaluation", 0), ("row", 32), ("row", 64), ("evaluation", 64), ("row", 80), ("evaluation", 80)]
    assert recorder.told == [("open", "running", tmp_path / "run"), *rows, ("close", "finished")]


@pytest.mark.parametrize("method", ["row", "evaluation", "close"])
def test_one_that_fails_is_told_once_and_costs_nothing_else(
    method: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import toy_algorithm as toy

    from jaxrl.train.fit import fit

    def wrong(self: Logger, about: dict[str, Any]) -> None:
        raise KeyError("no such column")

    monkeypatch.setattr(Recorder, method, wrong)
    config, recorder = toy.Config(), Recorder()
    result = fit(toy.make(config), config, logger=recorder, log_every=2, eval_episodes=4, quiet=True)
    assert len(result.metrics["timesteps"]) == 5
    assert result.evaluation is not None
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "The Recorder logger has failed and is off; training goes on. It said: KeyError: 'no such column'" in said[0]
    assert "(test_base.py, line " in said[0]


def test_it_is_closed_whatever_happens() -> None:
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), follow(recorder, {"status": "running"}, None, print):
        raise ZeroDivisionError
    assert recorder.told[-1] == ("close", "running")


def test_names_and_mappings_become_loggers_and_are_recorded() -> None:
    assert make_logger(None)[1] == {"kind": "jsonl", "names": "jaxrl", "per_seed": False}
    assert make_logger("jsonl")[1] == make_logger({"kind": "jsonl"})[1]
    assert make_logger(Recorder())[1] is None


def test_what_there_is_not_is_said() -> None:
    with pytest.raises(ValueError, match="kind must be one of jsonl, wandb, tensorboard; got 'carrier-pigeon'"):
        make_logger("carrier-pigeon")
    for own in ({"names": "cleanrl"}, {"per_seed": True}):
        with pytest.raises(ValueError, match=r"have no effect on metrics\.jsonl; leave them out"):
            make_logger(own)
    with pytest.raises(ValueError, match="names must be one of jaxrl, cleanrl; got 'sb3'"):
        make_logger({"kind": "jsonl", "names": "sb3"})


@pytest.mark.parametrize(
    ("kind", "module", "extra"), [("wandb", "wandb", "wandb"), ("tensorboard", "tensorboardX", "tensorboard")]
)
def test_without_its_package_the_line_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, module: str, extra: str
) -> None:
    import sys

    import toy_algorithm as toy

    from jaxrl.train.fit import fit

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"jaxrl.train.loggers.to_{kind}", raising=False)
    config = toy.Config()
    with pytest.raises(ImportError, match=rf"pip install 'jaxrl\[{extra}\]'"):
        fit(toy.make(config), config, tmp_path / "run", logger=kind)
    assert not (tmp_path / "run").exists()


def test_a_failing_logger_does_not_end_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboardX")
    logger, _ = make_logger("tensorboard")
    said: list[str] = []
    about = {"config": {"seed": 0, "env": "e"}, "config_class": "a:B", "algorithm": "a", "env": "e", "num_seeds": 1}
    logger.open(about, Path("/dev/null/nowhere"), said.append)
    for _ in range(3):
        logger.row({"timesteps": 1, "seconds": 1.0, "losses": {}})
    logger.close(about)
    assert len(said) == 1
    assert said[0].startswith("The tensorboard logger has failed and is off; training goes on. It said:")
