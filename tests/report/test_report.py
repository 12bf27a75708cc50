"""`jaxrl report`, from the command line to the files, and on a run that was really trained."""

import csv
import json
from pathlib import Path

import pytest

from jaxrl.cli import main

TOYS = Path(__file__).resolve().parent.parent / "train"


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_two_algorithms_compared(capsys, tmp_path, write_run):
    for name in ("ippo", "mappo"):
        write_run(tmp_path / name, algorithm=name, num_seeds=5)
    main(["report", "ippo", "mappo", "--out", "out", "--check"])
    out, err = capsys.readouterr()
    assert err == ""
    assert "| smax/3m | mappo | 5 | win rate |" in out
    assert "Wrote out/report.html" in out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "report.html",
        "curves.png",
        "profiles.png",
        "table.md",
        "table.csv",
    }


def test_check_says_each_problem_in_a_sentence_and_writes_nothing(capsys, tmp_path, write_run):
    write_run(tmp_path / "a", git={"commit": "0123456789abcdef", "dirty": True})
    write_run(tmp_path / "b", algorithm="mappo", num_seeds=5)
    with pytest.raises(SystemExit) as exit_info:
        main(["report", "a", "b", "--out", "out", "--check"])
    assert exit_info.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 3
    for line, words in zip(lines, ("1 seed, but at least 5", "the same seeds", "uncommitted changes"), strict=True):
        assert line.startswith("jaxrl: ")
        assert line.endswith(".")
        assert words in line
    assert not (tmp_path / "out").exists()

    main(["report", "a", "b", "--out", "out"])  # without --check they are warnings
    out, err = capsys.readouterr()
    assert err.splitlines() == [line.replace("jaxrl:", "!") for line in lines]
    assert "Wrote" in out


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("report", "There is no run in runs/ yet"),
        ("report nowhere", "nowhere holds no run"),
        ("report a:1", "A report takes all seeds of a; leave out :1."),
        ("report a --out a/run.json", "a/run.json is not a folder; name another place with --out"),
    ],
)
def test_wrong_input_is_explained(capsys, tmp_path, write_run, command, sentence):
    write_run(tmp_path / "a", win_rate=False)
    with pytest.raises(SystemExit) as exit_info:
        main(command.split())
    assert exit_info.value.code == 2
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    assert sentence in err


def test_runs_that_were_really_trained(capsys, tmp_path, monkeypatch):
    """The latest run is reported if none is named; five seeds side by side equal what run.json says of them."""
    monkeypatch.syspath_prepend(str(TOYS))
    monkeypatch.setenv("JAXRL_CACHE", "0")
    from jaxrl import algos

    monkeypatch.setitem(algos._MODULES, "toy", "toy_algorithm")
    main(
        [
            "train",
            "toy",
            "--num-seeds",
            "5",
            "--run-dir",
            "runs/toy",
            "--quiet",
            "--eval-episodes",
            "8",
            "--no-pictures",
        ]
    )
    main(["report"])
    out, _ = capsys.readouterr()
    assert "| toy/countdown | toy_algorithm | 5 | win rate | 1.000 | 1.000 to 1.000 (95 %) |" in out
    about = json.loads((tmp_path / "runs" / "toy" / "run.json").read_text())
    assert about["evaluation"]["win_rate"] == [1.0] * 5
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000


def test_what_a_stranger_wrote_is_reported_harmlessly(capsys, tmp_path, write_run):
    """No control character on the terminal, no formula in a spreadsheet, no row of a table cut in two."""
    odd = "=1+1\x1b[2J\x07\ud800\n|b"
    write_run(tmp_path / "a\x1b", algorithm=odd, env=f"@{odd}", git={"commit": odd, "dirty": True})
    main(["report", str(tmp_path / "a\x1b"), "--out", "out"])
    said = capsys.readouterr()
    assert not set("\x1b\x07\ud800") & set(said.out + said.err)
    [row] = (tmp_path / "out" / "table.md").read_text().splitlines()[2:]
    shown = "=1+1\ufffd[2J\ufffd\ufffd"
    assert row.startswith(f"| @{shown} \\|b | {shown} \\|b | 1 |")
    [cells] = csv.reader((tmp_path / "out" / "table.csv").read_text().splitlines()[1:])
    assert cells[:2] == [f"'@{shown} |b", f"'{shown} |b"]
