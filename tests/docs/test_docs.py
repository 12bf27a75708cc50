"""The documentation cannot drift: tables come from the environments, code runs, the site builds without warnings."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from jaxrl import algos

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# Blocks marked `python` are ours, and run; those marked `py` show other libraries.
LONG = {"interop.md", "from_jaxmarl.md", "from_purejaxrl.md", "from_cleanrl.md", "from_sb3.md"}
PAGES = ["environments.md", "from_gymnax.md", *sorted(LONG)]


def blocks(page: str) -> list[str]:
    return [text.partition("```")[0] for text in (DOCS / page).read_text(encoding="utf-8").split("```python\n")[1:]]


@pytest.mark.parametrize("page", [pytest.param(p, marks=pytest.mark.slow if p in LONG else ()) for p in PAGES])
def test_code_runs(page):
    for library in ("gymnax", "jaxmarl", "gymnasium", "pettingzoo"):
        pytest.importorskip(library)
    names = {"__name__": "docs"}
    with jax.debug_key_reuse(False):  # a page repeats keys where that is simpler to read
        for number, code in enumerate(blocks(page)):
            exec(compile(code, f"{page}, block {number}", "exec"), names)


def test_tables_are_those_of_the_environments():
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert tables.stale() == [], "Run python docs/tables.py"


def test_every_algorithm_has_a_page():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for name in algos.names():
        assert (DOCS / f"{name}.md").is_file(), f"Write docs/{name}.md: equations, details, results, command."
        assert f"\n{name}\n" in index, f"Name {name} under Algorithms in docs/index.md."


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path):
    for library in ("furo", "myst_nb"):
        pytest.importorskip(library)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "notebooks" / "7_self_play.html").is_file()
