"""`jaxrl new`: lists the scripts, writes one, and says what it does not know."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxrl.cli import main
from jaxrl.cli.new import scripts

TEMPLATES = Path(__file__).resolve().parents[2] / "jaxrl" / "templates"


def test_it_lists_each_script_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["new"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in lines] == sorted(scripts())
    assert all(40 < len(line) <= 120 for line in lines)


def test_it_writes_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    main(["new", "ppo"])
    assert capsys.readouterr().out == (TEMPLATES / "ppo.py").read_text()


@pytest.mark.parametrize(
    ("argv", "words"),
    [(["new", "ppoo"], "no script 'ppoo'. Did you mean ppo"), (["eject", "ppo"], "`jaxrl new` writes scripts instead")],
)
def test_what_there_is_not_is_told(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 2
    assert words in capsys.readouterr().err


def test_the_script_runs_where_it_is_written(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    script = tmp_path / "my_ppo.py"
    script.write_text(scripts()["ppo"])
    flags = ["--env", "probe/action_reward", "--total-timesteps", "16384", "--num-seeds", "2", "--num-lines", "2"]
    command = [sys.executable, script.name, *flags, "--wandb", "demo"]
    offline = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    done = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[:2] == ["16,384", "steps"]
    assert all(float(x) > 0.9 for x in last[-2:])  # of each seed: what 1 is the best of
    assert (tmp_path / "ppo.png").stat().st_size > 1000
    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
