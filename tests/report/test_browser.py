"""The page in a real browser: pictures are shown and nothing sticks out, with 1, 8 and 64 members.

Skipped where there is no Chromium. To look yourself: `jaxrl report RUN --out out`, then `chromium --headless
--screenshot=page.png --window-size=1280,2600 out/report.html`.
"""

import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from jaxrl.report import collect, write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAPER, WHITE, BLUE = (244, 246, 249), (255, 255, 255), (0, 114, 178)


def shot(page, width: int) -> np.ndarray:
    """The page as pixels `[height, width, 3]`."""
    picture = page.with_suffix(".png")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},2400"]
    command = [
        str(CHROMIUM),
        *flags,
        f"--screenshot={picture}",
        f"--user-data-dir={page.parent / 'browser'}",
        page.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return np.asarray(Image.open(picture).convert("RGB"))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize(("members", "rates", "width"), [(1, 1, 1280), (8, 1, 600), (64, 8, 1280), (64, 64, 1280)])
def test_the_page_looks_as_it_should(members, rates, width, tmp_path, write_run):
    own = [{"seed": m % (members // rates), "lr": 10.0 ** -(1 + m * rates // members)} for m in range(members)]
    run = write_run(tmp_path / "run", num_seeds=members, members=own if rates > 1 else None)
    pixels = shot(write_report(collect([run]), tmp_path / "out")[0], width)
    assert pixels.shape == (2400, width, 3)
    assert (pixels[:, -8:] == PAPER).all()  # nothing reaches the right edge
    assert (pixels == WHITE).all(-1).mean() > 0.1  # tables and pictures
    assert (np.abs(pixels - np.array(BLUE)).max(-1) < 40).sum() > 300  # a curve
