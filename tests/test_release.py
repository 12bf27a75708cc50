"""What a release needs says the same everywhere, and its steps work here, up to the one that needs an account."""

import fnmatch
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PACKED = {"jaxrl", "pyproject.toml", "README.md", "LICENSE"}
"""What a wheel is built from: see `test_package.py`."""


def workflow(name: str) -> dict[str, Any]:
    content = yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in content.items()}  # YAML 1.1 reads `on` as True


def steps(name: str, job: str) -> list[dict[str, Any]]:
    return workflow(name)["jobs"][job].get("steps", [])


def scripts(name: str, job: str) -> dict[str, str]:
    """The shell scripts of a job, by the names of their steps."""
    return {step.get("name", step["run"]): step["run"] for step in steps(name, job) if "run" in step}


# The workflows.


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_the_form_that_the_host_reads(name: str) -> None:
    content = workflow(name)
    assert content.keys() <= {"name", "on", "permissions", "concurrency", "jobs"}
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        assert ("uses" in job) != ("steps" in job)
        assert set(job.get("needs", [])) <= content["jobs"].keys()
        assert "uses" in job or {"runs-on", "steps"} <= job.keys()
        for step in job.get("steps", []):
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)", step.get("uses", "a/b@v1"))
            done = subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, capture_output=True)
            assert done.returncode == 0, done.stderr
    local = [job["uses"] for job in content["jobs"].values() if "uses" in job]
    assert all((ROOT / path).is_file() for path in local)


def test_every_python_that_is_promised_is_tested_by_the_script_that_developers_run() -> None:
    matrix = workflow("test")["jobs"]["linux"]["strategy"]["matrix"]["python"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
    assert matrix == named
    assert PROJECT["requires-python"] == f">={matrix[0]}"
    assert f"Python {matrix[0]} to {matrix[-1]}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert list(scripts("test", "linux").values()) == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_macos_runs_the_quick_subset_as_the_newest_jax_does() -> None:
    [mac] = scripts("test", "macos").values()
    here = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace(".venv-newest", ".venv")
    lines = [line for line in mac.splitlines() if " -m pip " in line or " -m pytest " in line]
    assert len(lines) == 2
    assert all(line in here for line in lines)


def test_only_a_tag_publishes_and_only_after_all_tests_and_without_a_secret() -> None:
    content = workflow("release")
    assert content["on"] == {"push": {"tags": ["v*"]}}
    publish = content["jobs"]["publish"]
    assert set(publish["needs"]) == {"test", "build"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1] == {"uses": "pypa/gh-action-pypi-publish@release/v1"}
    assert all("permissions" not in content["jobs"][job] for job in ("test", "build"))
    assert "secrets." not in WORKFLOWS["release"].read_text(encoding="utf-8")
    names = [
        step["with"]["name"]
        for job in ("build", "publish")
        for step in steps("release", job)
        if "artifact" in str(step)
    ]
    assert names == ["dist", "dist"]


# The version and who is named.


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The files with a version, and a changelog as it is when that is released."""
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "jaxrl/__init__.py", ".ci/check_version"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changes = tmp_path / "CHANGELOG.md"
    section = f"## [Unreleased]\n\n## [{PROJECT['version']}] - 2030-01-31\n"
    changes.write_text(changes.read_text(encoding="utf-8").replace("## [Unreleased]\n", section), encoding="utf-8")
    return tmp_path


def checked(folder: Path, tag: str) -> tuple[int, str]:
    """The step of the release that compares versions."""
    script = scripts("release", "build")["The tag is the version"].replace("python ", f"{sys.executable} ")
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_tag_that_is_the_version_passes(released: Path) -> None:
    assert checked(released, f"v{PROJECT['version']}") == (0, "All say the same.\n")


def test_another_tag_or_a_forgotten_file_is_named(released: Path) -> None:
    code, said = checked(released, "v9.9.9")
    assert (code, said) == (1, f"The tag says 9.9.9, pyproject.toml {PROJECT['version']}.\n")
    project = released / "pyproject.toml"
    text = project.read_text(encoding="utf-8").replace(f'version = "{PROJECT["version"]}"', 'version = "9.9.9"')
    project.write_text(text, encoding="utf-8")
    code, said = checked(released, "v9.9.9")
    assert code == 1
    assert [line.partition(" says")[0] for line in said.splitlines()] == [
        "jaxrl/__init__.py",
        "CITATION.cff",
        "The first dated section of CHANGELOG.md",
    ]


def test_the_citation_is_one_by_the_rules_of_cff() -> None:
    """Those of version 1.2.0 for the keys that are used here."""
    content = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= content.keys()
    assert content.keys() <= {
        *("cff-version", "message", "title", "authors", "type", "abstract", "version", "license", "keywords"),
        *("date-released", "repository-code", "url"),
    }
    assert (content["cff-version"], content["type"], content["license"]) == ("1.2.0", "software", PROJECT["license"])
    assert all(author.keys() == {"name"} for author in content["authors"])
    assert [author["name"] for author in content["authors"]] == [author["name"] for author in PROJECT["authors"]]
    assert content["keywords"] == PROJECT["keywords"]
    assert str(content["version"]) == PROJECT["version"]


def test_the_changelog_has_the_form_that_it_names() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    sections = [line for line in lines if line.startswith("## ")]
    assert sections[0] == "## [Unreleased]"
    assert all(re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line) for line in sections[1:])
    kinds = {line[4:] for line in lines if line.startswith("### ")}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


# Images.


def left_in(files: list[str]) -> set[str]:
    """The files that .dockerignore leaves for an image; the last pattern that fits decides, as Docker does it."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]

    def kept(file: str) -> bool:
        keep = True
        parts = Path(file).parts
        heads = ["/".join(parts[: size + 1]) for size in range(len(parts))]
        for line in patterns:
            pattern = line.removeprefix("!")
            inside = pattern.removeprefix("**/")
            tails = [head.rpartition("/")[2] for head in heads] if pattern.startswith("**/") else heads
            if any(fnmatch.fnmatch(each, inside) for each in tails):
                keep = line.startswith("!")
        return keep

    return {file for file in files if kept(file)}


def test_an_image_gets_what_a_wheel_is_built_from() -> None:
    """The files from which `test_package.py` builds a complete one."""
    package = [path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxrl").rglob("*") if path.is_file()]
    others = ["pyproject.toml", "README.md", "LICENSE", "Makefile", "runs/a/run.json", ".venv/bin/python", "docs/a.md"]
    left = left_in([*package, *others, "jaxrl/cli/__pycache__/flags.cpython-311.pyc"])
    assert left == {*(name for name in package if "__pycache__" not in name), *(PACKED - {"jaxrl"})}


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_an_image_installs_this_project_and_runs_the_command(name: str) -> None:
    text = (ROOT / "docker" / f"{name}.Dockerfile").read_text(encoding="utf-8")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#"]
    instructions = {line[0]: line[1] for line in lines}
    assert list(instructions) == ["FROM", "COPY", "RUN", "WORKDIR", "ENTRYPOINT", "CMD"]
    assert instructions["FROM"].removeprefix("python:").removesuffix("-slim") in str(PROJECT["classifiers"])
    source, place = instructions["COPY"].split()
    extras = re.search(rf"pip install --no-cache-dir '{place}\[(\w+)\]'", instructions["RUN"])
    assert source == "."
    assert extras
    assert extras[1] in PROJECT["optional-dependencies"]
    assert ("jax[cuda13]" in instructions["RUN"]) == (name == "cuda")
    assert json.loads(instructions["ENTRYPOINT"])[0] in PROJECT["scripts"]
    assert f"docker build -f docker/{name}.Dockerfile " in text  # as its first lines say
    assert f"docker build -f docker/{name}.Dockerfile " in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


# Notebooks in Colab.


def install_cell(path: Path) -> str:
    """The first cell of code, which installs jaxrl."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    return "".join(cells[0]["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_opens_from_the_address_in_pyproject(path: Path) -> None:
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "docs" / "notebooks" / "run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = json.loads(path.read_text(encoding="utf-8"))
    after = json.loads(json.dumps(before))
    module.installable(after, path.name)
    assert after == before, "Run make address"
    address = PROJECT["urls"]["Repository"]
    assert f"git+{address}" in install_cell(path)
    assert f"/github/{address.removeprefix('https://github.com/')}/blob/main/{path.relative_to(ROOT)})" in str(before)


def test_the_first_cell_does_nothing_where_jaxrl_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("It has started a program.")

    monkeypatch.setattr(subprocess, "run", started)
    exec(install_cell(NOTEBOOKS[0]), {})


@pytest.mark.parametrize("there", [["jax"], []], ids=["colab", "nothing there"])
def test_elsewhere_the_first_cell_installs_jaxrl_and_keeps_the_jax_that_is_there(
    monkeypatch: pytest.MonkeyPatch, there: list[str]
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    exec(install_cell(NOTEBOOKS[0]), {})
    kept = [f"jax=={importlib.metadata.version('jax')}"] if there else []
    [command] = commands
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert command[5:] == [f"jaxrl[viz] @ git+{PROJECT['urls']['Repository']}", *kept]


def test_the_address_is_written_once() -> None:
    """Elsewhere only in the notebooks, which take it from there."""
    place = PROJECT["urls"]["Repository"].removeprefix("https://")
    command = ["git", "grep", "--untracked", "-l", "--fixed-strings", place]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        pytest.skip("not a git checkout")
    assert {name for name in done.stdout.splitlines() if not name.endswith(".ipynb")} == {"pyproject.toml"}


# The steps of a release, without a network: what would be installed is there.

PYTHON = """\
#!/bin/bash
case "$*" in
    "-m pip install --quiet build twine") exit 0 ;;
    "-m build") exec {python} -m build --no-isolation ;;
    "-m twine "*) {python} -c "import twine" 2>/dev/null || exit 0 ;;
esac
exec {python} "$@"
"""


@pytest.mark.slow
def test_the_steps_of_a_release_build_check_install_and_train(released: Path, tmp_path_factory: Any) -> None:
    for name in PACKED - {"pyproject.toml", "jaxrl"}:
        shutil.copy(ROOT / name, released)
    shutil.copytree(
        ROOT / "jaxrl", released / "jaxrl", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    runner = tmp_path_factory.mktemp("runner")
    (runner / "bin").mkdir()
    (runner / "bin" / "python").write_text(PYTHON.format(python=sys.executable))
    (runner / "bin" / "python").chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("XLA")},
        **{"PATH": f"{runner / 'bin'}:{os.environ['PATH']}", "RUNNER_TEMP": str(runner), "JAXRL_CACHE": "0"},
        **{"GITHUB_REF_NAME": f"v{PROJECT['version']}", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"},
        "PYTHONPATH": sysconfig.get_paths()["purelib"],  # of the dependencies: jaxrl itself is not in there
    }
    for name, script in scripts("release", "build").items():
        done = subprocess.run(
            ["bash", "-ec", script], cwd=released, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, f"{name}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    # The wheel comes from the source distribution, so both are complete.
    assert {path.suffix for path in (released / "dist").iterdir()} == {".whl", ".gz"}
    [wheel] = (released / "dist").glob("*.whl")
    assert wheel.name == f"jaxrl-{PROJECT['version']}-py3-none-any.whl"
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("jaxrl/")}
    tree = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxrl").rglob("*") if path.is_file()}
    assert packed == {name for name in tree if "__pycache__" not in name}
    run = json.loads((runner / "run" / "run.json").read_text())
    assert run["status"] == "finished"
