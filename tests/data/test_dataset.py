"""A folder of recorded steps: what is written is read, bit for bit, after a crash too, and damage is told."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl.data import Dataset, Writer, load


def shard(done: list[list[str]], first: float = 0.0, reset: bool = True) -> dict[str, np.ndarray]:
    """T steps of B environments, whose observations count on; `done[t][b]` is "", "end" or "cut"."""
    ends = np.array(done, object)
    obs = np.float32(first) + np.arange(ends.size, dtype=np.float32).reshape(*ends.shape, 1)
    index = np.argwhere(ends != "").astype(np.int32)
    return {
        "obs": obs,
        "action": (obs[..., 0] % 3).astype(np.int32),
        "reward": obs[..., 0] / 7,
        "terminated": ends == "end",
        "truncated": ends == "cut",
        "reset": np.concatenate([np.full((1, ends.shape[1]), reset), (ends != "")[:-1]]),
        "final_index": index,
        "final_observation": -obs[index[:, 0], index[:, 1]],
    }


def written(path: Path, *shards: dict[str, np.ndarray]) -> Dataset:
    writer = Writer(path, "classic/cartpole", 2, {"run": "runs/demo"})
    for each in shards:
        writer.write(each)
    return load(path)


ONE = shard([["", ""], ["end", ""], ["", ""]])
NEXT = shard([["", "cut"], ["end", ""]], first=100, reset=False)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = written(tmp_path / "d", ONE, NEXT)
    for name in ("obs", "action", "reward", "terminated", "truncated", "reset"):
        expected = np.concatenate([ONE[name], NEXT[name]])
        assert found.steps[name].dtype == expected.dtype
        np.testing.assert_array_equal(found.steps[name], expected)
    assert found.final_index.tolist() == [[1, 0], [3, 1], [4, 0]]  # counted over both shards
    np.testing.assert_array_equal(found.final_observation[:, 0], [-2, -101, -102])
    assert (found.env, found.num_envs, found.num_steps) == ("classic/cartpole", 2, 10)
    assert found.about["origins"] == [{"run": "runs/demo"}]


def test_episodes_are_cut_at_their_ends(tmp_path: Path) -> None:
    episodes = list(written(tmp_path / "d", ONE, NEXT).episodes())
    observed = [episode.steps["obs"][:, 0].tolist() for episode in episodes]
    assert observed == [[0, 2], [4, 100, 102], [1, 3, 5, 101], [103]]
    assert [episode.finished for episode in episodes] == [True, True, True, False]
    finals = [episode.final_observation for episode in episodes if episode.final_observation is not None]
    assert [float(final[0]) for final in finals] == [-2, -102, -101]
    assert episodes[0].episode_return == pytest.approx(2 / 7)


def test_steps_of_two_recordings_are_not_one_episode(tmp_path: Path) -> None:
    """The last step of the first one counts as truncated: nobody knows what it led to."""
    written(tmp_path / "d", ONE)
    found = written(tmp_path / "d", shard([["", ""]], first=50))
    assert found.steps["truncated"].tolist() == [[False, False], [False, False], [True, True], [False, False]]
    assert [episode.finished for episode in found.episodes()] == [True, False, False, False, False]
    assert len(found.about["origins"]) == 2


def test_what_a_crash_leaves_behind_does_not_count(tmp_path: Path) -> None:
    written(tmp_path / "d", ONE)
    (tmp_path / "d" / "00001.npz").write_bytes(b"half")  # whole, but not yet named
    (tmp_path / "d" / "dataset.json.new").write_text("{")
    assert load(tmp_path / "d").num_steps == 6
    assert written(tmp_path / "d", NEXT).num_steps == 10  # and the next recording replaces it


WRITES = """
import sys, numpy as np
from jaxrl.data import Writer
steps = {name: np.zeros((64, 4), bool) for name in ("terminated", "truncated", "reset")}
steps |= {"obs": np.random.default_rng(0).normal(size=(64, 4, 99)), "action": np.zeros((64, 4), np.int32)}
steps |= {"reward": np.zeros((64, 4), np.float32)}
steps |= {"final_index": np.zeros((0, 2), np.int32), "final_observation": np.zeros((0, 99))}
writer = Writer(sys.argv[1], "probe/random", 4, {})
while True:
    writer.write(steps)
"""


def test_a_killed_recording_can_be_read(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path / "d")])
    while not (tmp_path / "d" / "00002.npz").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = load(tmp_path / "d")
    assert found.num_steps == 256 * len(found.about["shards"]) >= 2 * 256


def _lose(path: Path) -> None:
    (path / "00000.npz").unlink()


def _flip(path: Path) -> None:
    content = bytearray((path / "00000.npz").read_bytes())
    content[100] ^= 1
    (path / "00000.npz").write_bytes(content)


def _scribble(path: Path) -> None:
    (path / "dataset.json").write_text("[]")


def _renumber(path: Path) -> None:
    about = json.loads((path / "dataset.json").read_text())
    (path / "dataset.json").write_text(json.dumps({**about, "format": 9}))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_lose, r"00000.npz cannot be read: No such file"),
        (_flip, r"00000.npz is damaged"),
        (_scribble, r"dataset.json is damaged"),
        (_renumber, r"is of format 9, and this version of jaxrl reads 1"),
    ],
)
def test_damage_is_told(tmp_path: Path, harm: Any, message: str) -> None:
    written(tmp_path / "d", ONE)
    harm(tmp_path / "d")
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "d")


def test_a_folder_without_data_or_with_others(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no dataset in .*Record one: jaxrl record RUN --steps"):
        load(tmp_path)
    written(tmp_path / "d", ONE)
    with pytest.raises(ValueError, match=r"holds steps of classic/cartpole by 2 environments, not of smax/3m by 2"):
        Writer(tmp_path / "d", "smax/3m", 2, {})
