"""The script that `jaxrl launch` writes: bash can read it, and it comes back from the queue to the same run."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from jaxrl.cli import EXIT_STOPPED, main
from jaxrl.cli.launch import LaunchFlags, slurm_script

TRAIN = ["--", "train", "ppo", "--env", "classic/cartpole", "--num-envs", "64", "--num-shards", "16"]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    main(["launch", "--slurm", "--nodes", "4", "--gpus-per-node", "2", "--out", "job.sbatch", *TRAIN])
    return tmp_path / "job.sbatch"


def test_bash_reads_it(script: Path):
    subprocess.run(["bash", "-n", script], check=True)


def test_it_asks_for_what_was_said(script: Path):
    text = script.read_text()
    for line in ("nodes=4", "ntasks-per-node=2", "gpus-per-node=2", "signal=TERM@120", "requeue", "time=24:00:00"):
        assert f"#SBATCH --{line}\n" in text
    assert "--account" not in text


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (EXIT_STOPPED, True), (1, False)])
def test_a_stopped_run_is_queued_again(script: Path, tmp_path: Path, code: int, requeued: bool):
    for name, body in (("srun", f'echo "srun $@"; exit {code}'), ("scontrol", 'echo "scontrol $@"')):
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("scontrol requeue 7" in done.stdout) == requeued
    command = done.stdout.splitlines()[0]
    assert command.startswith("srun jaxrl train ppo --env classic/cartpole")
    assert "--run-dir runs/ppo-classic-cartpole-" in command
    assert command.endswith("--distributed")


def test_words_are_quoted():
    text = slurm_script(["jaxrl", "train", "ppo", "--run-dir", "my $runs"], LaunchFlags(), "name")
    assert "srun jaxrl train ppo --run-dir 'my $runs'\n" in text


def read_by_sbatch(text: str) -> dict[str, str]:
    """The options of a script as SLURM reads them: words as in a shell, up to a #."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            assert len(words) == 1, line
            option, _, value = words[0].removeprefix("--").partition("=")
            found[option] = value
    return found


@pytest.mark.parametrize(
    ("run_dir", "name"),
    [
        ("runs/my run", "my-run"),
        ("runs/50%j's #2", "50-j-s-2"),
        ("runs/a\nb\\c", "a-b-c"),
        ("runs/größe", "gr-e"),
        (".", "jaxrl"),
    ],
)
def test_any_name_of_a_run_makes_a_name_of_a_job(run_dir: str, name: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["launch", "--slurm", "--partition", "gpu,long", "--account", "me@lab", *TRAIN[:-2], "--run-dir", run_dir])
    text = (tmp_path / f"{name}.sbatch").read_text()
    asked = read_by_sbatch(text)
    assert (asked["job-name"], asked["output"]) == (name, f"{name}-%j.log")
    assert (asked["partition"], asked["account"]) == ("gpu,long", "me@lab")
    command = text.split("\nsrun ")[1].split("\ncode=")[0]
    assert shlex.split(command)[-3:] == ["--run-dir", run_dir, "--distributed"]
    assert f"sbatch {name}.sbatch\n" in capsys.readouterr().out


def test_the_line_that_submits_is_quoted(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["launch", "--slurm", "--out", "my job.sbatch", *TRAIN[:-2]])
    assert "sbatch 'my job.sbatch'\n" in capsys.readouterr().out


@pytest.mark.parametrize(("time", "save"), [("0", 120), ("1-2", 93_599), ("1:0:0", 3_599), ("3", 179)])
def test_there_is_time_to_train_before_the_save(time, save, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["launch", "--slurm", "--time", time, "--save-seconds", str(save), "--out", "job.sbatch", *TRAIN[:-2]])
    assert f"#SBATCH --signal=TERM@{save}\n" in (tmp_path / "job.sbatch").read_text()


def test_a_missing_folder_is_made(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["launch", "--slurm", "--out", "jobs/new/job.sbatch", *TRAIN[:-2]])
    assert (tmp_path / "jobs/new/job.sbatch").read_text().startswith("#!/bin/bash\n")


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for out in (".", "file/job.sbatch"):
        with pytest.raises(SystemExit) as ended:
            main(["launch", "--slurm", "--out", out, *TRAIN[:-2]])
        assert ended.value.code == 2
        assert f"{out} cannot be written: " in (said := capsys.readouterr().err)
        assert said.endswith("Name another place with --out.\n")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--nodes", "2", *TRAIN], "--slurm"),
        (["--slurm"], "comes after `--`"),
        (["--slurm", "--", "sweep", "ppo"], "is a training"),
        (["--slurm", "--nodes", "2", *TRAIN[1:]], "comes after `--` and is a training. For example: jaxrl launch"),
        (["--slurm", "--nodes", "0", *TRAIN], "must be at least 1"),
        (["--slurm", "--gpus-per-node", "2", "--time", "soon", *TRAIN], "hours:minutes:seconds"),
        (["--slurm", "--time", "2", *TRAIN], "--save-seconds 120 leaves no time to train in --time 2, which is 120 s"),
        (["--slurm", "--time", "1:30", *TRAIN], "in --time 1:30, which is 90 seconds; give more time, or save later"),
        (["--slurm", "--time", "1-2", "--save-seconds", "93600", *TRAIN], "in --time 1-2, which is 93600 seconds"),
        (["--slurm", "--time", "1:00:00", "--save-seconds", "3600", *TRAIN], "which is 3600 seconds"),
        (["--slurm", "--nodes", "3", "--gpus-per-node", "1", *TRAIN], "be multiples of 3"),
        (["--slurm", "--", "train", "nobody"], "nobody"),
        (["--slurm", "--partition", "gpu --exclusive", *TRAIN], "--partition 'gpu --exclusive' is not what SLURM"),
        (["--slurm", "--account", "a#b", *TRAIN], "--account 'a#b'"),
        (["--slurm", "--account", "a\nb", *TRAIN], "--account"),
        (["--slurm", "--account", "", *TRAIN], "--account ''"),
    ],
)
def test_mistakes_are_found_before_the_queue(argv, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["launch", *argv])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_its_help_says_what_it_does(capsys):
    with pytest.raises(SystemExit):
        main(["launch", "--help"])
    assert "Write a script that submits the training after `--`" in " ".join(capsys.readouterr().out.split())
