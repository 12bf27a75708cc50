"""Event files, by the real tensorboardX, read back record by record."""

import importlib
import struct
from pathlib import Path
from typing import Any

import pytest
import toy_algorithm as toy

from jaxrl.train.fit import fit
from jaxrl.train.loggers import make_logger

pytest.importorskip("tensorboardX")


def numbers_in(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The scalars of all event files of a folder, oldest file first, as (step, value)."""
    event_type = importlib.import_module("tensorboardX.proto.event_pb2").Event
    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.glob("events.*"), key=lambda file: file.stat().st_mtime_ns):
        data = file.read_bytes()
        while data:  # length and its checksum, the record, its checksum
            (length,) = struct.unpack("<Q", data[:8])
            event = event_type.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            if event.HasField("session_log"):
                found.setdefault("session", []).append((event.step, event.session_log.status))
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_a_run_is_written(tmp_path: Path) -> None:
    config = toy.Config()
    fit(
        toy.make(config),
        config,
        tmp_path,
        logger="tensorboard",
        log_every=4,
        eval_episodes=4,
        pictures=False,
        quiet=True,
    )
    found = numbers_in(tmp_path / "tensorboard")
    assert [step for step, _ in found["losses/policy"]] == [32, 64, 80]
    assert found["losses/policy"][-1][1] == pytest.approx((1 / 9 + 1 / 10) / 2)
    assert [step for step, _ in found["evaluation/win_rate"]] == [0, 80]
    assert "hyperparameters/text_summary" in found


def test_each_seed_has_a_folder_if_asked(tmp_path: Path) -> None:
    config = toy.Config()
    logger = {"kind": "tensorboard", "names": "cleanrl", "per_seed": True}
    options: dict[str, Any] = {"eval_episodes": 4, "pictures": False, "quiet": True}
    fit(toy.make(config), config, tmp_path, num_seeds=2, logger=logger, **options)
    assert sorted(path.name for path in (tmp_path / "tensorboard").iterdir()) == ["seed-0", "seed-1"]
    found = numbers_in(tmp_path / "tensorboard" / "seed-1")
    assert {"charts/episodic_return", "charts/SPS", "losses/policy_loss", "eval/episodic_return"} <= set(found)
    assert len(found["losses/policy_loss"]) == 10


def test_a_continued_run_takes_back_what_it_writes_anew(tmp_path: Path) -> None:
    """TensorBoard drops what an older file has from the step of the new one's start mark on."""
    about = {"config": {"seed": 0, "env": "e"}, "config_class": "a:B", "algorithm": "a", "env": "e", "num_seeds": 1}
    for steps in ((10, 20, 30), (20, 30, 40)):
        logger, _ = make_logger("tensorboard")
        logger.open(about, tmp_path, print)
        for step in steps:
            logger.row({"timesteps": step, "seconds": 1.0, "losses": {"policy": 0.5}})
        logger.close(about)
    found = numbers_in(tmp_path / "tensorboard")
    assert (20, 1) in found["session"]


def test_it_needs_a_place() -> None:
    with pytest.raises(ValueError, match="give a run_dir"):
        make_logger("tensorboard")[0].open({}, None, print)
