"""The command line: what it does, and that wrong input is one sentence and exit code 2."""

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxrl import algos
from jaxrl.algos import ippo
from jaxrl.cli import main

ROOT = Path(__file__).resolve().parents[2]
TOYS = ROOT / "tests" / "train"
QUICK = ["--quiet", "--eval-episodes", "8", "--no-pictures"]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, and the toy among the algorithms."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(TOYS))
    monkeypatch.setitem(algos._MODULES, "toy", "toy_algorithm")
    monkeypatch.setenv("JAXRL_CACHE", "0")
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a wrong command says."""
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("trian ippo", "There is no command 'trian'. Did you mean train"),
        ("train", "Say which algorithm"),
        ("train ipo", "There is no algorithm 'ipo'. Did you mean ippo"),
        ("train ippo --env smax/3mm", "Did you mean smax/3m"),
        ("train ippo --env smax/3m?steps=9", "smax/3m has no option 'steps'"),
        ("train ippo --num-minibatches 7", "num_envs=128 is not divisible by num_minibatches=7; use num_minibatches=4"),
        ("train ippo --num-envs -4", "num_envs must be at least 1, got -4."),
        ("train ippo --total-timesteps 0", "total_timesteps must be at least 1"),
        ("train ippo --total-timesteps 100", "use at least total_timesteps=4096"),
        ("train ippo --num-env 4", "Perhaps you meant"),
        ("train ippo --num-envs four", "'four' is not a whole number"),
        ("train ippo --num-envs 2.5", "it must be a whole number; got 2.5"),
        ("train ippo --lr nan", "lr must be a finite number that float32 has; got nan"),
        ("train ippo --seed 4294967296", "seed must be a whole number from 0 to 4294967295, got 4294967296"),
        ("train ippo --memory-size 32", "memory_size=32 has no effect with memory=none; leave it at 64, or choose"),
        ("train ippo --squash", "squash=True has no effect with env=smax/3m; leave it at False, or choose"),
        ("train toy --logger-names cleanrl", "names=cleanrl and per_seed=False have no effect on metrics.jsonl"),
        ("train toy --checkpoint-every-minutes nan", "checkpoint_every_minutes must be a finite number"),
        ("sweep toy --lr 0.5 1.0 --samples 3", "samples=3 has no effect without a range"),
        ("plan toy --memory-gb nan", "--memory-gb must be a finite number"),
        ("eval --seed -1", "--seed must be a whole number from 0 to 4294967295, got -1"),
        ("render --seed 4294967296", "--seed must be a whole number from 0 to 4294967295"),
        ("train ippo --preset jaxmral", "ippo has no preset 'jaxmral'. Did you mean jaxmarl"),
        ("train toy --num-seeds 0", "num_seeds must be a whole number of at least 1"),
        ("train toy --eval-every -5", "eval_every must be positive"),
        ("train toy --keep-checkpoints 0", "keep_checkpoints must be a whole number of at least 1"),
        ("train toy --logger carrier-pigeon", "carrier-pigeon"),
        ("eval nowhere", "nowhere holds no run"),
        (f"train toy --run-dir {'x' * 300}", "File name too long: 'xxx"),
        ("eval", "There is no run in runs/ yet"),
        ("resume nowhere", "nowhere holds no run"),
        ("render --out film.mov", "--out must end in .gif, .html or .mp4"),
        ("render --out film.html --episodes 4", "An HTML page plays one episode: name film.html .gif or .mp4"),
        ("render --episodes 0", "--episodes must be from 1 to 100"),
        ("render --episodes 1e3", "--episodes must be from 1 to 100, got 1000"),
        ("render --out file/film.gif", "file is not a folder; name another place with --out"),
        ("eval --seed 1e10", "--seed must be a whole number from 0 to 4294967295, got 10000000000"),
        ("arena a b --games -1e2", "--games must be at least 1, got -100"),
        ("arena a b --out file", "file is not a folder; name another place with --out"),
        ("bench smax/3mm", "Did you mean smax/3m"),
        ("bench smax/3m --num-envs -1e1", "num_envs must be at least 1, and whole, got -10."),
        ("envs nonsense", "No environment matches 'nonsense'"),
        ("envs ./my_env.py", "./my_env.py is a file; say which class in it is the environment"),
    ],
)
def test_wrong_input_is_explained(capsys: pytest.CaptureFixture[str], command: str, sentence: str) -> None:
    Path("file").touch()
    assert sentence in error_of(capsys, *command.split())


@pytest.mark.quick
def test_wrong_input_leaves_no_folder_behind(capsys: pytest.CaptureFixture[str], workplace: Path) -> None:
    error_of(capsys, "train", "toy", "--num-seeds", "0")
    error_of(capsys, "train", "ippo", "--env", "smax/3mm")
    assert list(workplace.iterdir()) == []


@pytest.mark.quick
def test_help_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "jaxrl train ippo --env smax/3m" in capsys.readouterr().out
    for command in ("train", "sweep", "search", "plan"):
        main([command, "--help"])
        text = capsys.readouterr().out
        assert "ippo" in text
        assert "vdn, or a file such as ./my_ppo.py." in text
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "ippo", "--help"])
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    for word in ("--env", "--total-timesteps", "Learning rate", "--num-seeds", "--run-dir", "jaxmarl"):
        assert word in text


@pytest.mark.quick
def test_rare_flags_are_shown_to_who_asks_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for words in (["--help"], ["--help", "all"]):
        with pytest.raises(SystemExit):
            main(["train", "ippo", *words])
        texts[len(words)] = capsys.readouterr().out
    few, everything = texts[1], texts[2]
    assert 2 * len(few.splitlines()) < len(everything.splitlines())
    flags = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(ippo.Config)}
    assert flags <= set(everything.replace(",", " ").split())
    assert "--num-shards" not in few
    assert "--mesh.member INT" in everything
    places = [everything.index(text) for text in ("\nThe networks.\n", "--memory-size", "--num-seeds")]
    assert places == sorted(places)


def test_a_reader_who_leaves_early_gets_no_traceback() -> None:
    """As in `jaxrl train ippo --help | head`."""
    with jaxrl("train", "ippo", "--help") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
@pytest.mark.parametrize(
    ("command", "code"), [("last_words('ends') or 75", 75), ("last_words('ends') or 0", 0), ("print('ends') or 0", 2)]
)
def test_the_end_of_a_training_keeps_its_exit_code_when_its_words_are_lost(command: str, code: int) -> None:
    program = f"from jaxrl.cli import guarded, last_words; guarded(lambda: {command})"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert done.returncode == code
    assert done.stderr == ("jaxrl: [Errno 28] No space left on device\n" if code == 2 else "")


def test_an_encoding_that_lacks_a_character_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    latin = io.TextIOWrapper(io.BytesIO(), "latin-1")
    monkeypatch.setattr(sys, "stdout", latin)
    main(["--version"])
    print("compiling…", flush=True)
    assert latin.buffer.getvalue().endswith(b"compiling?\n")  # pyright: ignore[reportAttributeAccessIssue]
    main(["new", "ppo"])
    assert latin.encoding == "utf-8"


def test_bench_prints_steps_per_second(capsys: pytest.CaptureFixture[str]) -> None:
    main(["bench", "smax/3m", "--num-envs", "4", "--steps", "2", "--repeats", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("smax/3m, 4 environments")
    assert "steps/s" in lines[1]
    main(["bench", "smax/3m", "--num-envs", "4", "--steps", "2", "--repeats", "1", "--as-json"])
    assert json.loads(capsys.readouterr().out)["num_envs"] == 4


def test_presets_are_defaults_that_flags_override(workplace: Path) -> None:
    main(["train", "toy", "--run-dir", "a", "--preset", "long", "--lr", "0.5", "--sizes", "7", "8", *QUICK])
    config = json.loads((workplace / "a" / "run.json").read_text())["config"]
    assert (config["total_timesteps"], config["lr"], config["sizes"]) == (160, 0.5, [7, 8])


def test_of_a_flag_that_stands_twice_the_last_one_counts(workplace: Path) -> None:
    main(["train", "toy", "--run-dir", "a", "--preset", "default", "--preset=long", *QUICK])
    assert json.loads((workplace / "a" / "run.json").read_text())["config"]["total_timesteps"] == 160


def test_what_to_type_next_is_quoted_for_a_shell(capsys: pytest.CaptureFixture[str], workplace: Path) -> None:
    main(["train", "toy", "--run-dir", "my runs/a", "--eval-episodes", "8", "--no-pictures"])
    assert "\n  jaxrl eval 'my runs/a'\n  jaxrl render 'my runs/a' --out team.gif\n" in capsys.readouterr().out
    main(["sweep", "toy", "--run-dir", "my runs/b", "--eval-episodes", "8", "--lr", "0.1", "0.2"])
    assert "\n  jaxrl report 'my runs/b'\n" in capsys.readouterr().out


def test_train_eval_and_an_existing_folder(capsys: pytest.CaptureFixture[str], workplace: Path) -> None:
    main(["train", "toy", "--num-seeds", "2", "--eval-episodes", "8"])  # with pictures, and not quiet
    [folder] = (workplace / "runs").iterdir()
    assert folder.name.startswith("toy-toy-countdown-")
    assert {path.name for path in folder.iterdir()} >= {"run.json", "metrics.jsonl", "checkpoints", "curve.png"}
    text = capsys.readouterr().out
    assert "No replay" in text
    assert "jaxrl render" not in text
    assert f"jaxrl eval runs/{folder.name}" in text
    main(["eval", "--episodes", "16"])
    text = capsys.readouterr().out
    assert f"{folder.name}: toy_algorithm on toy/countdown, 16 greedy episodes" in text
    assert "seeds 1.000 1.000" in text
    assert "already holds another run: num_seeds is 2 there and 1 here" in error_of(
        capsys, "train", "toy", "--run-dir", str(folder)
    )


def test_without_viz_training_ends_well_and_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    main(["train", "toy", "--run-dir", "run", "--quiet", "--eval-episodes", "8"])
    assert "pip install 'jaxrl[viz]'" in capsys.readouterr().err


def test_a_diverged_run_ends_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["train", "toy", "--run-dir", "run", "--nan-at", "3", *QUICK])
    assert exit_info.value.code == 1
    assert "After update 3 of 10 training has diverged" in capsys.readouterr().err


def failure_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a command says that ends with code 1."""
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 1
    return capsys.readouterr().err


def test_a_diverged_run_can_be_continued_without_the_bad_updates(
    capsys: pytest.CaptureFixture[str], workplace: Path
) -> None:
    train = ["train", "toy", "--run-dir", "run", "--nan-at", "7", "--checkpoint-every-updates", "5", *QUICK]
    assert "The last good checkpoint is in" in failure_of(capsys, *train)
    assert "type: jaxrl resume run --on-nan skip" in error_of(capsys, *train)  # the same command again
    main(["resume", "run", "--quiet", "--on-nan", "skip"])
    err = capsys.readouterr().err
    assert "Continues after update 5 of 10." in err
    assert "Update 7 of 10 of training was skipped" in err
    assert json.loads((workplace / "run" / "run.json").read_text())["status"] == "finished"
    main(train)
    assert "is finished after 80 steps: `jaxrl eval run` plays it" in capsys.readouterr().out


def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew_in_silence(
    capsys: pytest.CaptureFixture[str], workplace: Path
) -> None:
    train = ["train", "toy", "--run-dir", "run", "--nan-at", "7", *QUICK]
    failure_of(capsys, *train)
    about = json.loads((workplace / "run" / "run.json").read_text())
    (workplace / "run" / "run.json").write_text(json.dumps({**about, "status": "running"}))
    assert "given again, begins it anew: " in failure_of(capsys, "resume", "run")
    assert "so it begins anew; what it had written is in run/interrupted-1." in failure_of(capsys, *train)


def test_what_is_no_wrong_input_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxrl.registry.list_envs", lambda pattern: json.loads("{"))
    with pytest.raises(ValueError, match="Expecting property name"):
        main(["envs"])


def jaxrl(*argv: str) -> subprocess.Popen[str]:
    """`jaxrl …` as a process of its own, with the toy."""
    code = "import sys; from jaxrl import algos, cli; algos._MODULES['toy'] = 'toy_algorithm'; cli.main(sys.argv[1:])"
    env = {**os.environ, "PYTHONPATH": str(TOYS), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", code, *argv]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_sigterm_saves_and_resume_goes_on(workplace: Path) -> None:
    metrics = workplace / "run" / "metrics.jsonl"
    endless = ["--total-timesteps", "400000", "--work", "64", "--log-every", "50"]
    process = jaxrl("train", "toy", "--run-dir", "run", *endless, *QUICK)
    until = time.monotonic() + 120
    while not (metrics.exists() and metrics.stat().st_size) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "Continue with: jaxrl resume run" in err
    about = json.loads((workplace / "run" / "run.json").read_text())
    assert about["status"] == "stopped"
    assert 0 < about["timesteps"] < 400_000

    second = jaxrl("resume", "run", "--quiet")
    time.sleep(0.1)
    seen = metrics.stat().st_size
    while metrics.stat().st_size <= seen and second.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=60)
    assert second.returncode == 75
    steps = [json.loads(line)["timesteps"] for line in metrics.read_text().splitlines()]
    assert steps == list(range(400, 400 * len(steps) + 1, 400))
    assert json.loads((workplace / "run" / "run.json").read_text())["timesteps"] > about["timesteps"]


def test_an_algorithms_file_runs_by_itself_and_leaves_pictures(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "--num-envs 8 --num-steps 8 --total-timesteps 128 --hidden 8 --eval-episodes 8 --run-dir run"
    command = [sys.executable, str(ROOT / "algos" / "ppo.py"), *small.split(" ")]
    done = subprocess.run(
        command, env={**os.environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    wanted = {"run.json", "metrics.jsonl", "checkpoints", "curve.png", "replay.gif", "replay.html"}
    assert {path.name for path in (workplace / "run").iterdir()} >= wanted
    about = json.loads((workplace / "run" / "run.json").read_text())
    assert about["algorithm"] == "ppo"
    assert about["evaluation"]["episodes"] == 8
    main(["render", "run", "--out", "films/film.html"])
    assert (workplace / "films" / "film.html").stat().st_size > 1000
    assert "goes on" not in capsys.readouterr().out
    main(["render", "run", "--out", "short.html", "--max-steps", "2"])
    assert "The episode goes on after 2 steps but its film ends" in capsys.readouterr().out
    assert "cut short after 2 steps" in (workplace / "short.html").read_text()
    with pytest.raises(SystemExit):
        main(["render", "run", "--best"])
    assert "no best checkpoint" in capsys.readouterr().err
