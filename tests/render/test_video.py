"""Films as pixels, alone and in a grid."""

import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from jaxrl.environment import Environment
from jaxrl.render import save, save_gif, save_mp4
from jaxrl.render.raster import rasterise
from jaxrl.render.scene import with_captions
from jaxrl.render.video import find_ffmpeg, frames_of
from jaxrl.replay import Policy, Replay, record

pytestmark = pytest.mark.quick

FPS = 10  # two frames a step of the walk


def test_frames_are_painted_when_they_are_asked_for(replay: Replay) -> None:
    painted = frames_of(replay, FPS, 120)
    assert painted[0].shape == (67, 120, 3)  # with the strip of captions
    scene = replay.scene()
    assert len(painted) == scene.num_frames
    np.testing.assert_array_equal(painted[3], rasterise(with_captions(scene), 120)[3])


def test_a_grid_shows_films_side_by_side_until_the_longest_ends(
    walk: Environment, forward: Policy, replay: Replay
) -> None:
    short = record(walk, forward, jax.random.key(1), max_steps=2)
    films = [short, replay, replay]
    grid = frames_of(films, FPS, 244)
    assert len(grid) == len(frames_of(replay, FPS, 120)) > len(frames_of(short, FPS, 120))
    assert grid[0].shape == (2 * 67 + 4, 244, 3)
    for number in (0, 5, len(grid) - 1):
        frame = grid[number]
        for (y, x), film in zip(((0, 0), (0, 124), (71, 0)), films, strict=True):
            alone = frames_of(film, FPS, 120)
            np.testing.assert_array_equal(frame[y : y + 67, x : x + 120], alone[min(number, len(alone) - 1)])
        assert len(np.unique(frame[71:, 124:])) == 1  # three films leave one place empty


def test_a_grid_needs_a_film_and_room() -> None:
    with pytest.raises(ValueError, match="at least one film"):
        frames_of([], FPS)


def test_many_films_are_small_but_not_tiny(replay: Replay) -> None:
    with pytest.raises(ValueError, match="at least 16 pixels wide"):
        frames_of([replay] * 4, FPS, 30)


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


FRAMES = np.random.default_rng(0).integers(0, 256, (3, 4, 6, 3), np.uint8)


@pytest.fixture
def ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name that writes its arguments and its input to files, or fails if the target says so."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "if sys.argv[-1].endswith('full.mp4'): sys.exit('No space left on device')\n"
        "pathlib.Path(sys.argv[-1]).write_bytes(sys.stdin.buffer.read())\n"
        "pathlib.Path(sys.argv[-1] + '.txt').write_text(' '.join(sys.argv[1:]))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def test_ffmpeg_is_given_every_frame_and_the_last_one_for_longer(ffmpeg: Path, tmp_path: Path) -> None:
    save_mp4(FRAMES, tmp_path / "a.mp4", fps=2)
    given = np.frombuffer((tmp_path / "a.mp4").read_bytes(), np.uint8).reshape(-1, *FRAMES.shape[1:])
    np.testing.assert_array_equal(given, FRAMES[[0, 1, 2, 2, 2, 2]])
    assert "-pix_fmt rgb24 -s 6x4 -r 2 -i -" in (tmp_path / "a.mp4.txt").read_text()


def test_what_ffmpeg_complains_about_is_told(ffmpeg: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"ffmpeg could not write .*full\.mp4: No space left on device"):
        save_mp4(FRAMES, tmp_path / "full.mp4")


def test_without_ffmpeg_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"ffmpeg, which is not on the PATH. Install it .* or name the file \.gif"):
        save_mp4(FRAMES, tmp_path / "a.mp4")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg here")
def test_the_real_one_makes_a_video(tmp_path: Path) -> None:
    assert find_ffmpeg() == shutil.which("ffmpeg")
    save_mp4(np.repeat(FRAMES, 9, 2).repeat(9, 1)[:, :35], tmp_path / "a.mp4")  # odd sizes, too
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"


def test_a_pace_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fps must be at least 1"):
        save_mp4(FRAMES, tmp_path / "a.mp4", fps=0)
