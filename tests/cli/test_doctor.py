"""`jaxrl doctor`, and what any command says where JAX has no device."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jaxrl.cli import main

ROOT = Path(__file__).parents[2]


def without_device(platform: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """`jaxrl …` where JAX looks for a platform that this machine does not have."""
    command = [sys.executable, "-m", "jaxrl", *argv]
    env = {**os.environ, "JAX_PLATFORMS": platform}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_the_doctor_looks_at_everything(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    main(["doctor"])
    text = capsys.readouterr().out
    for word in ("python", "orbax-checkpoint", "cpu:0", "pip install 'jaxrl[wandb]'", "for tests only"):
        assert word in text


def test_the_doctor_looks_for_every_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    main(["doctor"])
    text = capsys.readouterr().out
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in extras.keys() - {"interop", "docs", "notebooks"}:  # others together, and what builds the documentation
        assert f"missing: pip install 'jaxrl[{extra}]'" in text


@pytest.mark.parametrize("platform", ["cuda", "abacus"])
def test_the_doctor_says_that_there_is_no_device(platform: str) -> None:
    found = without_device(platform, "doctor")
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert "! JAX finds no device" in found.stdout
    assert f"JAX_PLATFORMS is {platform!r}: unset it, or install JAX for it." in found.stdout


def test_a_command_says_that_there_is_no_device() -> None:
    found = without_device("cuda", "train", "ppo", "--env", "classic/cartpole", "--total-timesteps", "2048")
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert found.stderr.splitlines()[-1].startswith("jaxrl: JAX finds no device")
