"""Videos: what ffmpeg is given, and what is said without it."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxrl.render import save_mp4
from jaxrl.render.mp4 import find_ffmpeg

pytestmark = pytest.mark.quick

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
