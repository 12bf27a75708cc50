"""The files of a report: pictures that show something, one page that needs nothing else."""

import base64
import html.parser
import json
import re
import sys

import numpy as np
import pytest

from jaxrl.errors import MissingExtraError
from jaxrl.report import collect, write_report
from jaxrl.report.arena import Arena, as_markdown
from jaxrl.report.figures import draw_curves, draw_profiles


class Reader(html.parser.HTMLParser):
    """Collects the text, what is loaded from elsewhere, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.sources, self.open = "", [], []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def groups(tmp_path, write_run):
    """One seed, 8 and 64; one environment with win rates, one without."""
    return collect(
        [
            write_run(tmp_path / "many", num_seeds=64),
            *(write_run(tmp_path / f"m{seed}", algorithm="mappo", seed=seed) for seed in range(8)),
            write_run(tmp_path / "<b>&x", algorithm="single", env="mpe/tag", win_rate=False, skill=-0.5),
        ]
    )


def test_the_page_has_everything_and_needs_nothing_else(tmp_path, groups):
    paths = write_report(groups, tmp_path / "new" / "out")
    assert [path.name for path in paths] == ["report.html", "curves.png", "profiles.png", "table.md", "table.csv"]
    text = paths[0].read_text()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert len(reader.sources) == 2
    for source, path in zip(reader.sources, paths[1:3], strict=True):
        assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == path.read_bytes()
    without_pictures = re.sub('base64,[^"]*', "", text)
    assert not re.search(r"https?:|@import|url\(|<script|{{", without_pictures)
    for words in (
        "Read with care",
        "single on mpe/tag has 1 seed",
        "The best and the others",
        "10 runs, 3 configurations of 1 to 64 seeds",
    ):
        assert words in reader.text
    assert "<b>&x" in reader.text  # a folder's name is text, whatever it is
    assert "0123456789" in reader.text


def test_a_new_report_leaves_no_picture_of_the_earlier_one(tmp_path, write_run):
    several, alone = write_run(tmp_path / "a", num_seeds=3), write_run(tmp_path / "b")
    arena = Arena("game", ("a", "b"), 1, True, np.ones((2, 2, 3), np.int64), np.zeros((2, 2)))
    write_report(collect([several]), tmp_path / "report", arena)
    assert all((tmp_path / "report" / name).is_file() for name in ("profiles.png", "arena.png"))
    write_report(collect([alone]), tmp_path / "report")
    assert not any((tmp_path / "report" / name).exists() for name in ("profiles.png", "arena.png"))


def test_names_are_no_formulas(tmp_path, write_run):
    odd = {"algorithm": "$x^$", "env": "./$my_{$.py:World", "num_seeds": 2}
    runs = [write_run(tmp_path / name, config={"network": f"${name}^$"}, **odd) for name in "ab"]
    arena = Arena("$my_{$", ("$a^$", "b|c"), 1, True, np.ones((2, 2, 3), np.int64), np.zeros((2, 2)))
    assert len(write_report(collect(runs), tmp_path / "out", arena)) == 7
    head, _, first, second = as_markdown(arena).split("\n\n")[0].splitlines()
    assert head == "| score of row against column | $a^$ | b\\|c |"
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in (head, first, second)} == {4}


def test_a_league_is_one_seed_on_the_page(tmp_path, write_run):
    league = {"algorithm": "self_play", "config": {"league": ["main", "main", "exploiter"]}}
    text = write_report(collect([write_run(tmp_path / "a", num_seeds=3, **league)]), tmp_path)[0].read_text()
    assert "1 run, 1 seed<" in text
    assert "the members of a league depend on each other" in text
    assert "The best and the others" not in text


def test_a_good_report_says_so(tmp_path, write_run):
    groups = collect([write_run(tmp_path / "a", num_seeds=5)])
    text = write_report(groups, tmp_path)[0].read_text()
    assert "Nothing speaks against" in text
    assert "Read with care" not in text
    assert "The best and the others" not in text


def test_curves_show_every_seed_the_iqm_and_its_interval(groups):
    figure = draw_curves(groups)
    tag_steps, _, smax_steps, smax_seconds = figure.axes
    assert len(tag_steps.lines) == 1  # a single seed is its own mean, and has no interval
    for axes, end in ((smax_steps, 40_000), (smax_seconds, 20)):
        assert len(axes.lines) == 64 + 8 + 2
        assert len(axes.collections) == 2
        assert max(line.get_xdata()[-1] for line in axes.lines) == end
    bold = {line.get_label(): line for line in smax_steps.lines if line.get_linewidth() > 2}
    middle = groups[1].curve("timesteps")
    np.testing.assert_array_equal(bold["ippo, 64 seeds"].get_ydata(), middle[1].estimate)
    assert [text.get_text() for text in smax_seconds.get_legend().get_texts()] == ["ippo, 64 seeds", "mappo, 8 seeds"]


def test_what_is_never_won_while_training_shows_its_greedy_evaluations(tmp_path, write_run):
    """Sampled actions lose where greedy ones win: the picture has to agree with the table."""
    run = write_run(tmp_path / "a", num_seeds=4, scores=[0.2, 0.3, 0.3, 0.4], evaluated=True)
    other = write_run(tmp_path / "b", seed=4, skill=0.5)  # without evaluations on the way
    for axes, end in zip(draw_curves(collect([run])).axes, (40_000, 20.0), strict=True):
        [dots] = [line for line in axes.lines if line.get_marker() == "o"]
        assert (dots.get_xdata().tolist(), dots.get_ydata().tolist()) == ([0, end], [0.0, pytest.approx(0.3)])
    assert not [line for line in draw_curves(collect([run, other])).axes[0].lines if line.get_marker() == "o"]


def test_few_seeds_have_a_range_and_equal_ones_are_as_good(tmp_path, write_run):
    runs = [write_run(tmp_path / name, num_seeds=4, config={"lr": lr}) for name, lr in (("a", 0.1), ("b", 0.2))]
    text = write_report(collect(runs), tmp_path / "out", tex=True)[0].read_text()
    assert "2 runs, 2 configurations of 4 seeds<" in text
    assert text.count("(range)") == 2
    assert '<th class="n">interval</th>' in text  # and not one of 95 %, which four seeds do not have
    assert "as good" in text
    assert "not shown to be better" not in text
    tex = (tmp_path / "out" / "table.tex").read_text()
    assert r"smax/3m & ippo (lr=0.1) & 4 & win rate & 0." in tex
    assert r"IQM & interval & mean $\pm$ std" in tex
    assert {line.count(" & ") for line in tex.splitlines() if "&" in line} == {8}
    write_report(collect(runs), tmp_path / "out")
    assert not (tmp_path / "out" / "table.tex").exists()


def test_curves_without_an_episode_say_so(tmp_path, write_run):
    run = write_run(tmp_path / "a", env="mpe/tag", win_rate=False)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    unknown = [{**row, "episodes": 0, "return_mean": None, "length_mean": None} for row in rows]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unknown))
    empty, _, full, _ = draw_curves(collect([run, write_run(tmp_path / "b")])).axes
    assert [text.get_text() for text in empty.texts] == ["no episode has ended"]
    assert (len(empty.get_xticks()), len(full.texts)) == (0, 0)
    assert len(full.get_xticks()) > 0


def test_profiles_fall_from_one_to_zero(groups):
    figure = draw_profiles(groups)
    assert figure is not None
    [legend] = [axes.get_legend() for axes in figure.axes]
    names = ["ippo", "ippo, 95 % interval", "mappo", "mappo, 95 % interval"]
    assert sorted(text.get_text() for text in legend.get_texts()) == names
    assert len({band.get_hatch() for axes in figure.axes for band in axes.collections}) == 2
    for axes in figure.axes:
        for line in axes.lines:
            share = line.get_ydata()
            assert (share[0], share[-1]) == (1.0, 0.0)
            assert (np.diff(share) <= 0).all()


def test_profiles_of_few_seeds_have_no_band(tmp_path, write_run):
    """Between the least and the highest of four seeds, it would be anything from none to all of them."""
    figure = draw_profiles(collect([write_run(tmp_path / "a", num_seeds=4)]))
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["ippo"]


def test_runs_without_any_number_are_no_reason_to_fail(tmp_path, write_run):
    run = write_run(tmp_path / "a", evaluation=None, status="running")
    (run / "metrics.jsonl").write_text("")
    for win_rate in (True, False):
        extra = write_run(tmp_path / f"b{win_rate}", algorithm="b", win_rate=win_rate, evaluation=None)
        assert write_report(collect([run, extra]), tmp_path / "out")[0].exists()
    assert write_report(collect([run]), tmp_path / "out")[0].exists()


def test_without_matplotlib_the_pip_line_is_named_and_nothing_written(tmp_path, groups, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaxrl\[viz\]'"):
        write_report(groups, tmp_path / "out")
    assert not (tmp_path / "out").exists()
