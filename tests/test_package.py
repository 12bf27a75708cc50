"""The package as it is installed: complete, and light to import."""

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import jaxrl

ROOT = Path(__file__).resolve().parent.parent


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    shutil.copytree(ROOT / "jaxrl", source / "jaxrl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("jaxrl/")}
    tree = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxrl").rglob("*") if path.is_file()}
    assert packed == {name for name in tree if "__pycache__" not in name}


def test_files_and_functions_can_be_read_at_once() -> None:
    """No file has over 500 lines, no function over 80 with its docstring."""
    folders = ("jaxrl", "tests", "examples", "baselines", "docs")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 80, f"{path}: {node.name}"


@pytest.mark.quick
def test_import_is_light_and_touches_no_device() -> None:
    code = """
import sys
import jaxrl
heavy = {"flax", "matplotlib", "PIL", "orbax", "distrax", "tensorflow_probability", "tyro", "rich"} & set(sys.modules)
assert not heavy, f"import jaxrl has loaded {heavy}"
jaxrl.make("smax/3m")
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized(), "import jaxrl has touched a device"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_training_is_imported_on_first_use() -> None:
    assert jaxrl.fit.__module__ == "jaxrl.train.fit"
    assert jaxrl.evaluate.__module__ == "jaxrl.train.evaluate"
    assert {"fit", "evaluate", "make"} <= set(dir(jaxrl))
    for name in jaxrl.__all__:
        assert getattr(jaxrl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        jaxrl.nonsense  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["interop", "render.save", "replay.record", "stats.iqm", "wrappers.Flatten"])
def test_what_the_documentation_calls_jaxrl_dot_needs_no_import_of_its_own(name: str) -> None:
    code = f"import jaxrl; jaxrl.{name}; assert {name.partition('.')[0]!r} in dir(jaxrl)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_help_comes_without_jax() -> None:
    code = "import sys; from jaxrl.cli import main; main(['--help']); assert 'orbax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)
