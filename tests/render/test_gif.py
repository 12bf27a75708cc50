import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jaxrl.render import save, save_gif
from jaxrl.replay import Replay

pytestmark = pytest.mark.quick


def _read(path: Path) -> tuple[np.ndarray, list[int], dict]:
    with Image.open(path) as image:
        frames, durations = [], []
        for index in range(getattr(image, "n_frames", 1)):
            image.seek(index)
            frames.append(np.asarray(image.convert("RGB")))
            durations.append(image.info["duration"])
        return np.stack(frames), durations, dict(image.info)


def test_a_replay_plays_at_its_pace_and_rests_at_the_end(tmp_path: Path, replay: Replay) -> None:
    save_gif(replay, tmp_path / "a.gif", fps=20)
    frames, durations, info = _read(tmp_path / "a.gif")
    assert frames.shape[2:] == (480, 3)
    assert info["loop"] == 0
    playing = sum(durations[:-2]) / 1000  # before the last frame of the episode, and the banner
    assert playing == pytest.approx(replay.num_steps * 0.2, abs=0.11)
    assert set(durations[:-1]) == {50}
    assert 1000 <= durations[-1] <= 2000
    save_gif(replay, tmp_path / "b.gif", fps=20, speed=2.0)
    assert len(_read(tmp_path / "b.gif")[0]) == pytest.approx(len(frames) / 2, abs=2)


def test_what_is_read_is_what_was_drawn(tmp_path: Path) -> None:
    """A square that moves over a gradient: every frame, whole, although a file holds only what changes."""
    frames = np.zeros((7, 40, 60, 3), np.uint8)
    frames[..., 2] = np.arange(60) * 2
    for k, frame in enumerate(frames):
        frame[10:20, 5 * k : 5 * k + 10] = (240, 130, 20)
    save_gif(frames, tmp_path / "a.gif", fps=10)
    read, durations, _ = _read(tmp_path / "a.gif")
    assert read.shape == frames.shape
    assert durations[0] == 100
    assert np.abs(read.astype(int) - frames).max() <= 8


def test_a_single_frame_is_a_picture(tmp_path: Path) -> None:
    frame = np.full((1, 20, 30, 3), 77, np.uint8)
    save_gif(frame, tmp_path / "a.gif")
    np.testing.assert_array_equal(_read(tmp_path / "a.gif")[0], frame)


def test_the_suffix_chooses_the_form(tmp_path: Path, replay: Replay) -> None:
    save(replay, tmp_path / "a.GIF")
    assert (tmp_path / "a.GIF").read_bytes().startswith(b"GIF89a")
    save(replay, str(tmp_path / "a.html"))
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(ValueError, match=r"as \.gif, \.html or \.mp4; name the file so"):
        save(replay, tmp_path / "a.avi")
    with pytest.raises(ValueError, match=r"plays one episode; save several as \.gif or \.mp4"):
        save([replay, replay], tmp_path / "a.html")


def test_without_pillow_the_error_says_what_to_install(
    tmp_path: Path, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'pip install "jaxrl\[viz\]"'):
        save(replay, tmp_path / "a.gif")
    save(replay, tmp_path / "a.html")  # needs nothing


@pytest.mark.parametrize(
    "frames", [np.zeros((2, 4, 4), np.uint8), np.zeros((0, 4, 4, 3), np.uint8), np.zeros((1, 4, 4, 3))]
)
def test_what_is_no_frames_is_refused(tmp_path: Path, frames: np.ndarray) -> None:
    with pytest.raises(ValueError, match="uint8 \\[F, H, W, 3\\]"):
        save_gif(frames, tmp_path / "a.gif")


def test_pace_out_of_range_is_refused(tmp_path: Path, replay: Replay) -> None:
    with pytest.raises(ValueError, match="from 1 to 50"):
        save_gif(replay, tmp_path / "a.gif", fps=0)
    with pytest.raises(ValueError, match="speed must be positive"):
        save_gif(replay, tmp_path / "a.gif", speed=0.0)
