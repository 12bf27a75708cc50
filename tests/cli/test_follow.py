"""`jaxrl watch`, `rerun` and `export`, on one run of the toy."""

import csv
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxrl.cli import main
from jaxrl.train.folder.load import Run

TOYS = Path(__file__).resolve().parent.parent / "train"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with two seeds, which tests copy."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    command = ["train", "toy", "--num-seeds", "2", "--eval-episodes", "8", "--no-pictures", "--quiet"]
    done = subprocess.run(toy([*command, "--run-dir", str(folder)]), env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(finished: Path, workplace: Path) -> Path:
    shutil.copytree(finished, workplace / "runs" / "a")
    return Path("runs/a")


def toy(argv: list[str]) -> list[str]:
    """`jaxrl …` as a process of its own, with the toy."""
    code = "import sys; from jaxrl import algos, cli; algos._MODULES['toy'] = 'toy_algorithm'; cli.main(sys.argv[1:])"
    return [sys.executable, "-c", code, *argv]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TOYS), "JAX_PLATFORMS": "cpu", "JAXRL_CACHE": "0"}


def code_of(*argv: str) -> int:
    """The exit code of a command that does not end well."""
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


# watch


@pytest.mark.quick
def test_a_finished_run_can_be_looked_at(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["watch", str(run), "--once", "--width", "80"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("╭─ toy_algorithm on toy/countdown, 2 seeds ─")
    assert lines[-1].startswith("╰─ finished ─")
    main(["watch"])  # the latest one, as lines since this is no terminal
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("steps 80  steps/s")
    assert lines[2].startswith("greedy evaluation after 80 steps: win rate 1.000")
    assert lines[3] == "finished"


def test_the_view_can_be_saved_as_a_picture(run: Path, workplace: Path) -> None:
    main(["watch", str(run), "--once", "--svg", "view.svg"])
    text = (workplace / "view.svg").read_text()
    assert text.startswith("<svg")
    assert "toy_algorithm" in text
    assert "url(http" not in text.replace('"', "")


def test_a_picture_of_the_view_goes_into_a_new_folder_and_not_into_a_file(
    run: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["watch", str(run), "--once", "--svg", "new/folder/view.svg"])
    assert (workplace / "new" / "folder" / "view.svg").read_text(encoding="utf-8").startswith("<svg")
    capsys.readouterr()
    assert code_of("watch", str(run), "--once", "--svg", f"{run}/run.json/view.svg") == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "jaxrl: runs/a/run.json is not a folder; name another place with --svg.\n")
    assert code_of("watch", str(run), "--once", "--svg", "new") == 2
    assert "new cannot be written" in capsys.readouterr().err


def test_watching_a_diverged_or_killed_run_ends_with_code_1(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "status": "diverged", "error": "After update 3 …"}))
    assert code_of("watch", str(run)) == 1
    assert capsys.readouterr().out.endswith("diverged\nAfter update 3 …\n")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    live = json.loads((run / "live.json").read_text())
    (run / "live.json").write_text(json.dumps({**live, "phase": "training", "pid": dead.pid}))
    assert code_of("watch", str(run)) == 1
    assert "Its process is gone. What was saved can be continued with: jaxrl resume runs/a" in capsys.readouterr().out


def test_the_groups_of_a_sweep_are_watched_one_after_the_other(
    run: Path, workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = workplace / "sweep"
    sweep.mkdir()
    (sweep / "sweep.json").write_text(json.dumps({"status": "running"}))
    shutil.copytree(run, sweep / "group-000")
    shutil.copytree(run, sweep / "group-001")

    def next_group(seconds: float) -> None:
        shutil.copytree(run, sweep / "group-002")
        (sweep / "sweep.json").write_text(json.dumps({"status": "finished"}))

    monkeypatch.setattr("jaxrl.cli.watch.time.sleep", next_group)
    main(["watch", "sweep"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("group")] == ["group-001 of sweep", "group-002 of sweep"]


def test_the_runs_of_a_search_are_watched_and_its_test_comes_last(
    run: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = workplace / "search"
    shutil.copytree(run, search / "tuning" / "group-000")
    (search / "checklist.json").write_text(json.dumps({"status": "running"}))
    main(["watch", "search", "--once"])
    assert "all steps" in capsys.readouterr().out
    assert code_of("eval", "search") == 2
    assert "let it end, or continue" in capsys.readouterr().err
    shutil.copytree(run, search / "test")
    (search / "checklist.json").write_text(json.dumps({"status": "finished"}))
    main(["watch", "search"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith("of search")] == ["test of search"]


@pytest.mark.parametrize(
    ("before", "newest"),
    [
        ("tuning/batch-000/group-000", "tuning/batch-008/group-000"),
        ("tuning/population", "tuning/finalists"),
        ("tuning/rung-0", "tuning/rung-1"),
    ],
)
def test_the_runs_of_every_method_are_watched_in_their_order(
    before: str, newest: str, run: Path, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (before, newest):
        shutil.copytree(run, workplace / "search" / name)
    (workplace / "search" / "checklist.json").write_text(json.dumps({"status": "finished"}))
    main(["watch", "search"])
    shutil.copytree(run, workplace / "search" / "test")
    main(["watch", "search"])
    lines = capsys.readouterr().out.splitlines()
    shown = [line.removesuffix(" of search") for line in lines if line.endswith("of search")]
    assert shown == [newest, "test"]


def test_a_sweep_without_groups_is_not_waited_for(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = workplace / "sweep"
    sweep.mkdir()
    (sweep / "sweep.json").write_text(json.dumps({"status": "running"}))
    main(["watch", "sweep", "--once"])
    (sweep / "sweep.json").write_text(json.dumps({"status": "failed"}))
    assert code_of("watch", "sweep") == 1
    assert "The sweep in sweep has failed" in capsys.readouterr().out


def test_there_must_be_something_to_watch(capsys: pytest.CaptureFixture[str], workplace: Path) -> None:
    assert code_of("watch", "nowhere") == 2
    assert "nowhere holds no run" in capsys.readouterr().err
    assert code_of("watch", "nowhere", "--every", "0") == 2
    assert code_of("watch", "nowhere", "--width", "0") == 2
    assert "--width must be at least 1, got 0" in capsys.readouterr().err


# rerun


def test_a_rerun_brings_the_same_numbers(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["rerun", str(run), "--run-dir", "again", "--quiet"])
    assert "Reproduced: 10 rows of metrics are the same, bit for bit." in capsys.readouterr().out


def test_a_run_that_reached_its_goal_is_compared_too(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "toy", "--run-dir", "goal", "--stop-at", "0.01", "--eval-episodes", "8", "--no-pictures", "--quiet"])
    main(["rerun", "goal", "--run-dir", "again", "--quiet"])
    assert "Reproduced: " in capsys.readouterr().out


def test_a_run_that_diverged_is_compared_too(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["train", "toy", "--nan-at", "3", "--eval-episodes", "8", "--no-pictures", "--quiet"]
    assert code_of(*train, "--run-dir", "diverged") == 1
    main(["rerun", "diverged", "--run-dir", "again", "--quiet"])
    out, err = capsys.readouterr()
    assert "Reproduced: " in out
    assert "It diverges again: After update 3 of 10" in err


def test_other_numbers_are_told_with_what_may_be_the_reason(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def copied(original: Run, run_dir: Path, quiet: bool) -> SimpleNamespace:
        shutil.copytree(original.folder.path, run_dir)
        rows = (run_dir / "metrics.jsonl").read_text().splitlines()
        rows[4] = json.dumps({**json.loads(rows[4]), "win_rate": [0.5, 0.25]})
        (run_dir / "metrics.jsonl").write_text("\n".join(rows) + "\n")
        return SimpleNamespace(interrupted=None)

    monkeypatch.setattr("jaxrl.train.rerun.rerun", copied)
    about = json.loads((run / "run.json").read_text())
    about["versions"]["jax"] = "0.4.1"
    (run / "run.json").write_text(json.dumps(about))
    assert code_of("rerun", str(run), "--run-dir", "again", "--quiet") == 1
    out, err = capsys.readouterr()
    assert "Not reproduced: the curves differ from step 40 on, in win_rate." in out
    assert "Not the same as then: jax was 0.4.1 and is" in err


# export


@pytest.mark.quick
def test_csv_files_with_cleanrls_names(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(run)])
    assert "Wrote runs/a/export: seed-0.csv, seed-1.csv" in capsys.readouterr().out
    with (run / "export" / "seed-1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["global_step"] for row in rows] == [str(8 * i) for i in range(1, 11)]
    assert float(rows[3]["losses/policy_loss"]) == pytest.approx(1 / 4)
    assert {"charts/episodic_return", "charts/SPS"} <= set(rows[0])
    assert code_of("export", str(run)) == 2
    assert "has something in it already; name another place with --out" in capsys.readouterr().err
    assert code_of("export", str(run), "--out", "p.foo") == 2
    assert "must be a folder, or end in .stablehlo, .py or .safetensors, got p.foo" in capsys.readouterr().err
    Path("p.foo").mkdir()
    main(["export", str(run), "--out", "p.foo"])
    assert Path("p.foo/seed-0.csv").exists()


def test_one_csv_with_our_names(run: Path) -> None:
    main(["export", str(run), "--format", "jaxrl", "--no-per-seed", "--out", "mine"])
    with Path("mine/all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"timesteps", "win_rate", "win_rate_min", "win_rate_max", "losses/policy"} <= set(rows[-1])


def test_tensorboard_files(run: Path) -> None:
    pytest.importorskip("tensorboardX")
    main(["export", str(run), "--to", "tensorboard", "--out", "events"])
    assert len(list(Path("events/tensorboard").glob("seed-*/events.*"))) == 2


# In a real terminal


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize("members", [1, 8, 64])
def test_training_and_watching_in_real_terminals(workplace: Path, members: int) -> None:
    """One of 120 x 30 trains, one of 80 x 24 watches: both show whole dashboards, and end by themselves."""
    tmux = ["tmux", "-S", str(workplace / "socket")]
    command = ["train", "toy", "--num-seeds", str(members), "--run-dir", "run", "--eval-episodes", "8"]
    endless = ["--total-timesteps", "800000", "--work", "16", "--log-every", "100", "--no-pictures"]
    train = shlex.join(toy([*command, *endless]))
    wait = "until [ -e run/live.json ]; do sleep 0.1; done; "
    watch = wait + shlex.join(toy(["watch", "run", "--every", "0.2"]))

    def screen(name: str) -> list[str]:
        shown = subprocess.run([*tmux, "capture-pane", "-p", "-t", name], check=True, capture_output=True, text=True)
        return shown.stdout.splitlines()

    def until(name: str, word: str, seconds: float = 120.0) -> list[str]:
        end = time.monotonic() + seconds
        while not any(word in line for line in screen(name)):
            assert time.monotonic() < end, "\n".join(screen(name))
            time.sleep(0.2)
        time.sleep(0.5)  # the rest of that frame
        return screen(name)

    for name, size, line in (("train", ("120", "30"), train), ("watch", ("80", "24"), watch)):
        window = ["new-session", "-d", "-s", name, "-x", size[0], "-y", size[1]]
        subprocess.run(
            [*tmux, *window, f"unset CI COLUMNS LINES; {line}; echo ENDED; sleep 600"],
            check=True,
            cwd=workplace,
            env=environment(),
        )
    try:
        for name, width in (("train", 120), ("watch", 80)):
            frame = [line for line in until(name, "win rate") if line.startswith(("╭", "│", "╰"))]
            assert {len(line) for line in frame} == {width}
            assert frame[0].startswith("╭─ toy_algorithm on toy/countdown")
            assert any("ETA " in line for line in frame)
            assert any(f"range of {members}" in line for line in frame) == (members > 1)
        subprocess.run([*tmux, "send-keys", "-t", "train", "C-c"], check=True)
        assert any("all is saved" in line for line in until("train", "ENDED"))
        assert any("╰─ stopped" in line for line in until("watch", "ENDED"))
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
