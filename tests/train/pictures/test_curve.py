"""curve.png is drawn from rows of all kinds."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl.errors import MissingExtraError
from jaxrl.train.pictures.curve import new_figure, save_curve, short, verbatim


def rows(kind: str) -> list[dict[str, Any]]:
    table = []
    for i in range(60):
        value: Any = None if i < 3 else i / 60
        row = {"timesteps": 8192 * i, "seconds": i / 10, "return_mean": value, "win_rate": value, "losses": {}}
        if kind == "members":
            row |= {"return_mean": [value, i / 80], "win_rate": [value, i / 80]}
        if kind == "no winning":
            del row["win_rate"]
        if kind == "kinds of agents":
            del row["win_rate"]
            row["returns"] = {"wolf": [value, i / 80], "sheep": [None, -i / 80]}
        table.append(row)
    return table


def size_of(path: Path) -> tuple[int, ...]:
    from matplotlib.image import imread

    picture = imread(path)
    assert np.ptp(picture) > 0.5
    return picture.shape[:2]


@pytest.mark.parametrize("kind", ["one seed", "members", "no winning", "kinds of agents"])
def test_a_picture_is_made(tmp_path: Path, kind: str) -> None:
    table = rows(kind)
    path = tmp_path / "curve.png"
    save_curve(path, table, [table[10], table[-1]], "ippo on smax/3m")
    assert size_of(path) == (456, 1152)


def test_a_run_without_a_single_row_is_no_reason_to_fail(tmp_path: Path) -> None:
    save_curve(tmp_path / "curve.png", [], [])
    assert not (tmp_path / "curve.png").exists()


def test_without_matplotlib_the_pip_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaxrl\[viz\]'"):
        save_curve(tmp_path / "curve.png", rows("one seed"), [])


def test_steps_in_short_have_three_digits_and_the_unit_they_round_to() -> None:
    shown = {0: "0", 999: "999", 1024: "1.02k", 999_424: "999k", 999_936: "1M", 2_500_000: "2.5M", 999_999_999: "1G"}
    assert {steps: short(steps) for steps in shown} == shown


def test_every_name_stands_in_a_legend_as_it_is() -> None:
    figure = new_figure("a test", 2, 2)
    axes = figure.add_subplot()
    for name in ("_mine", "$mine$"):
        axes.plot([0, 1], label=verbatim(name))
    texts = [text.get_text() for text in axes.legend().get_texts()]
    assert texts == [" _mine", r"\$mine\$"]
