"""Where results come from, and in what two runs differ."""

import importlib.metadata
import subprocess
from pathlib import Path
from typing import Any

import pytest

import jaxrl
from jaxrl.train.folder.provenance import device_names, differences, git_state, on_devices, versions

ABOUT: dict[str, Any] = {
    "versions": {"python": "3.11.7", "jax": "0.10.2"},
    "git": {"commit": "a" * 40, "dirty": False},
    "devices": ["cpu:0 cpu", "cpu:1 cpu"],
    "xla_flags": "",
    "jax_settings": {"jax_enable_x64": "False"},
    "mesh": {"member": 1, "data": 2},
}


def git(folder: Path, *command: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *names, *command], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package in it, which jaxrl is said to be."""
    source = tmp_path / "checkout"
    (source / "jaxrl").mkdir(parents=True)
    (source / "jaxrl" / "__init__.py").touch()
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-qm", "one")
    monkeypatch.setattr(jaxrl, "__file__", str(source / "jaxrl" / "__init__.py"))
    return source


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own repository, in which one works."""
    folder = tmp_path / "project"
    (folder / "runs").mkdir(parents=True)
    (folder / "my_env.py").touch()
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "mine")
    monkeypatch.chdir(folder)
    return folder


def head(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD").strip()


def test_git_is_that_of_the_users_project(checkout: Path, project: Path) -> None:
    assert git_state() == {"commit": head(project), "dirty": False}
    (checkout / "jaxrl" / "__init__.py").write_text("changed = True")
    assert git_state() == {"commit": head(project), "dirty": False}
    (project / "my_env.py").write_text("changed = True")
    assert git_state() == {"commit": head(project), "dirty": True}


def test_a_picture_makes_no_project_dirty(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    (checkout / "team.gif").touch()  # `jaxrl render --out team.gif`
    assert git_state() == {"commit": head(checkout), "dirty": False}


def test_outside_a_repository_git_is_that_of_the_source(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert git_state() == {"commit": head(checkout), "dirty": False}


def test_the_version_of_a_checkout_outside_the_project_names_its_commit(
    checkout: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = importlib.metadata.version("jaxrl")
    assert versions()["jaxrl"] == f"{plain}+{head(checkout)[:10]}"
    (checkout / "jaxrl" / "__init__.py").write_text("changed = True")
    assert versions()["jaxrl"] == f"{plain}+{head(checkout)[:10]}.dirty"
    monkeypatch.chdir(checkout)  # git_state has its commit
    assert versions()["jaxrl"] == plain


def test_an_installed_package_does_not_belong_to_the_repository_around_it(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = checkout / ".venv" / "jaxrl"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    monkeypatch.setattr(jaxrl, "__file__", str(installed / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    assert git_state() is None
    monkeypatch.chdir(checkout)  # where the user's own code is
    assert git_state() == {"commit": head(checkout), "dirty": False}


@pytest.mark.quick
def test_the_same_surroundings_differ_in_nothing() -> None:
    assert differences(ABOUT, ABOUT) == []
    more_cores = {**ABOUT, "devices": ["cpu:0 cpu"], "xla_flags": "--xla_force_host_platform_device_count=2"}
    assert differences(ABOUT, more_cores) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"versions": {"python": "3.11.7", "jax": "0.12.0"}}, "jax was 0.10.2 and is 0.12.0 now."),
        ({"versions": {"python": "3.11.7"}}, "jax was 0.10.2 and is none now."),
        ({"devices": ["gpu:0 NVIDIA H200"]}, "The device was cpu and is NVIDIA H200 now."),
        ({"git": {"commit": "b" * 40, "dirty": False}}, "The git commit was aaaaaaaaaa and is bbbbbbbbbb now."),
        ({"git": {"commit": "a" * 40, "dirty": True}}, "Files differ from their git commit now."),
        ({"git": None}, "The git commit of one of the two is not known."),
        ({"jax_settings": {"jax_enable_x64": "True"}}, "JAX_ENABLE_X64 was False and is True now."),
        ({"xla_flags": "--xla_cpu_enable_fast_math=true"}, "XLA_FLAGS was '' and is '--xla_cpu_enable_fast_math=true'"),
    ],
)
def test_each_difference_is_a_sentence(change: dict[str, Any], sentence: str) -> None:
    [found] = differences(ABOUT, {**ABOUT, **change})
    assert found.startswith(sentence)


def test_versions_and_devices_of_this_process() -> None:
    assert set(versions()) >= {"python", "jax", "jaxrl"}
    assert device_names()[0].startswith("cpu:0 ")
    assert on_devices(ABOUT) == "2 x cpu"
