"""`jaxrl export RUN --out FILE` writes the policy, in the format of the file's ending."""

from pathlib import Path

import numpy as np
import pytest

import jaxrl
from jaxrl.cli import main

QUICK = ["--quiet", "--eval-episodes", "8", "--no-pictures"]


def wrong(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 2
    return capsys.readouterr().err


def test_the_policy_goes_into_a_file(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "toy", "--run-dir", "run", "--num-seeds", "2", *QUICK])
    for ending in ("safetensors", "stablehlo", "py"):
        main(["export", "run", "--member", "1", "--out", f"policy.{ending}"])
        assert f"Wrote policy.{ending}: Policy(toy/countdown, 1 parameters)" in capsys.readouterr().out
    params = jaxrl.load_params("policy.safetensors")
    np.testing.assert_array_equal(params["params"]["theta"], jaxrl.load("run").state.params["theta"][1])
    scope: dict = {}
    exec(Path("policy.py").read_text(), scope)
    assert scope["act"]([[1.0], [2.0]]).tolist() == [1, 1]

    assert "--per-seed has no effect on a policy" in wrong(capsys, "export", "run", "--no-per-seed", "--out", "a.py")
    assert "--member has no effect on metrics; for the policy" in wrong(capsys, "export", "run", "--member", "1")
    assert "member must be from 0 to 1" in wrong(capsys, "export", "run", "--member", "2", "--out", "a.py")
    assert "no best checkpoint" in wrong(capsys, "export", "run", "--best", "--out", "a.py")
    main(["export", "run", "--out", "new/a.py"])
    assert Path("new/a.py").is_file()
    assert "run/run.json/a.py cannot be written" in wrong(capsys, "export", "run", "--out", "run/run.json/a.py")
