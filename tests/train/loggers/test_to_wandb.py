"""Weights & Biases, by the real library: offline, and with a server that cannot be reached. No network is used."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jaxrl.train.loggers import Logger, make_logger
from jaxrl.train.loggers.tracks import tracks

wandb = pytest.importorskip("wandb")

ROW = {"timesteps": 64, "seconds": 2.0, "episodes": 3, "return_mean": 10.0, "losses": {"policy": 0.1}}
ABOUT: dict[str, Any] = {
    "status": "running",
    "algorithm": "toy_algorithm",
    "env": "toy/countdown",
    "num_seeds": 1,
    "config": {"seed": 0, "env": "toy/countdown"},
    "config_class": "toy_algorithm:Config",
    "versions": {"jax": "0"},
    "git": None,
}


@pytest.fixture(autouse=True)
def nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # whatever goes wrong, nothing leaves this machine


def log_a_run(folder: Path, about: dict[str, Any], logger: Logger | None = None, **options: Any) -> list[str]:
    """A short run from beginning to end; returns what was said."""
    said: list[str] = []
    logger = logger or make_logger({"kind": "wandb", **options})[0]
    logger.open(about, folder, said.append)
    logger.row(ROW)
    logger.evaluation({"timesteps": 64, "seconds": 2.0, "episodes": 8, "return_mean": 12.0})
    logger.close({**about, "status": "finished", "timesteps": 64, "evaluation": {"episodes": 8, "return_mean": 12.0}})
    return said


def records_of(file: Path) -> str:
    """What an offline run has written, as text: names of metrics are plain in it."""
    wandb.teardown()  # as at the end of a program: its service then writes what it still holds
    return file.read_bytes().decode("utf-8", errors="replace")


def test_without_a_login_all_is_kept_for_later(tmp_path: Path) -> None:
    [sentence] = log_a_run(tmp_path, ABOUT)
    assert sentence == f"wandb is offline; `wandb sync {tmp_path}/wandb/offline-run-*` uploads this run later."
    [file] = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    text = records_of(file)
    for word in ("return_mean", "losses/policy", "evaluation/return_mean", "toy_algorithm toy/countdown seed 0"):
        assert word in text
    [run_id] = json.loads((tmp_path / "wandb" / "ids.json").read_text()).values()
    assert run_id in file.name


def test_each_seed_is_a_run_of_one_group_if_asked(tmp_path: Path) -> None:
    config = {**ABOUT["config"], "total_timesteps": 80}
    log_a_run(tmp_path, {**ABOUT, "num_seeds": 2, "config": config}, names="cleanrl", per_seed=True)
    files = list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    texts = sorted(map(records_of, files), key=lambda text: "seed 1" in text)
    for seed, text in enumerate(texts):
        assert f"seed {seed}" in text
        for word in ("charts/episodic_return", "losses/policy_loss", "eval/episodic_return", "global_step", "exp_name"):
            assert word in text


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes connections and never answers; the worst there is."""
    wandb.teardown()  # it reads its environment once
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    wandb.teardown()


def test_a_server_that_does_not_answer_costs_seconds(
    silent_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", silent_server)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)  # as if logged in
    monkeypatch.setattr("jaxrl.train.loggers.to_wandb.INIT_SECONDS", 1.0)
    began = time.monotonic()
    said = log_a_run(tmp_path, ABOUT)
    assert time.monotonic() - began < 30
    assert said[0].startswith("wandb cannot be reached, so this run goes offline. It said:")
    assert said[1].startswith("wandb is offline;")
    [file] = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert "return_mean" in records_of(file)


def test_the_rows_of_a_continued_run_go_on() -> None:
    """By itself wandb counts rows from 0 in each process; what it has already is not logged again."""
    from jaxrl.train.loggers.to_wandb import WandbLogger

    rows: list[tuple[int, dict[str, float]]] = []
    begun = SimpleNamespace(starting_step=65, log=lambda numbers, step: rows.append((step, numbers)))
    logger: Any = WandbLogger()
    logger._runs = [(tracks(ABOUT, "jaxrl", per_seed=False)[0], begun)]
    for timesteps in (64, 128):
        logger.row({**ROW, "timesteps": timesteps})
        logger.evaluation({"timesteps": timesteps, "seconds": 2.0, "return_mean": 12.0})
    assert [step for step, _ in rows] == [128, 128]
    assert rows[1][1] == {"timesteps": 128, "evaluation/return_mean": 12.0}


def test_a_continued_run_keeps_its_id(tmp_path: Path) -> None:
    from jaxrl.train.loggers.to_wandb import _ids

    chosen = tracks(ABOUT, "jaxrl", per_seed=False)
    assert _ids(tmp_path, chosen) == _ids(tmp_path, chosen)
    assert _ids(None, chosen) != _ids(None, chosen)


@pytest.mark.parametrize(
    ("variables", "mode"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": "a" * 40}, "online"),
        ({"WANDB_API_KEY": "a" * 40, "WANDB_MODE": "disabled"}, "disabled"),
        ({"WANDB_BASE_URL": "https://wandb.example.org"}, "online"),
    ],
)
def test_only_who_is_logged_in_is_online(
    variables: dict[str, str], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jaxrl.train.loggers.to_wandb import _mode

    (tmp_path / "netrc").write_text("machine wandb.example.org login user password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _mode() == mode
