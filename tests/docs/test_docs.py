"""The documentation cannot drift: tables come from environments and raw numbers, code runs, the site builds."""

import importlib.util
import inspect
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import jax
import pytest
from pages import ROOT, blocks, shell_lines

from jaxrl import algos
from jaxrl.algos import ippo
from jaxrl.cli import _COMMANDS
from jaxrl.cli.flags import parse_flags
from jaxrl.cli.plan import PlanFlags
from jaxrl.display import data_size

DOCS = ROOT / "docs"

# Blocks marked `python` are ours, and run; those marked `py` show other libraries, or parts of something.
QUICK = [
    "../README.md",
    "algorithms.md",
    "from_gymnax.md",
    "hide_and_seek.md",
    "many_worlds.md",
    "minatar.md",
    "mpe.md",
    "overcooked.md",
    "overcooked_v2.md",
    "quadrotor.md",
    "self_play.md",
    "smax.md",
    "social_games.md",
]
LONG = [
    "tour.md",
    "environments.md",
    "going_on.md",
    "hanabi.md",
    "play.md",
    "stream_q.md",
    "your_own_algorithm.md",
    "interop.md",
    "split.md",
    "envpool.md",
    "wrappers.md",
    "deploy.md",
    "from_jaxmarl.md",
    "from_purejaxrl.md",
    "from_cleanrl.md",
    "from_sb3.md",
]
TIMES = ("500_000", "20_480")  # what pages train for, and the tests'


@pytest.mark.parametrize("page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in LONG)])
def test_code_runs(page, monkeypatch: pytest.MonkeyPatch):
    for library in ("gymnax", "jaxmarl", "gymnasium", "pettingzoo", "brax"):
        pytest.importorskip(library)
    code_blocks = blocks(DOCS / page, "python")
    assert code_blocks
    module = ModuleType("a_notebook")  # in which the names of classes are found again, as in `__main__`
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with jax.debug_key_reuse(False):  # a page repeats keys where that is simpler to read
        for number, code in enumerate(code_blocks):
            exec(compile(code.replace(*TIMES), f"{page}, block {number}", "exec"), vars(module))


def test_readme_is_short():
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert len(words) <= 700, "Move what is not needed at first sight to docs/."


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_those_of_environments_and_raw_numbers(tables):
    assert tables.stale(tables.all_tables()) == [], "Run python docs/tables.py"


def test_every_table_has_a_function_and_every_function_a_table(tables):
    """A table that nobody makes would never be stale."""
    made = {(path, name) for path, each in tables.all_tables().items() for name in each}
    pages = [path for folder in ("docs", "baselines") for path in (ROOT / folder).glob("**/*.md")]
    marker = "<!-- table: "
    shown = [
        (path, line.removeprefix(marker).removesuffix(" -->"))
        for path in [ROOT / "README.md", *pages]
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(marker)
    ]
    assert sorted(shown) == sorted(made)


def test_another_number_is_found_and_corrected(tables, tmp_path: Path):
    page = tmp_path / "page.md"
    old = "<!-- table: wins -->\n\n| seed | wins |\n| --- | --- |\n| 0 | 0.97 |\n\n<!-- end of table -->\n\nAfter.\n"
    page.write_text(old, encoding="utf-8")
    made = {page: {"wins": lambda: [("seed", "wins"), ("0", "0.79")]}}
    assert tables.stale(made) == ["page.md: wins"]
    assert page.read_text(encoding="utf-8") == old
    assert tables.stale(made, write=True) == ["page.md: wins"]
    assert page.read_text(encoding="utf-8") == old.replace("0.97", "0.79")
    assert tables.stale(made) == []
    with pytest.raises(ValueError, match="needs the lines <!-- table: losses -->"):
        tables.stale({page: {"losses": lambda: [("seed", "losses")]}})


def test_every_raw_number_of_a_run_is_shown(tables):
    """Runs that are recorded stand in a table of docs/results.md, named by folder in baselines/README.md."""
    baselines = (ROOT / "baselines" / "README.md").read_text(encoding="utf-8")
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "baselines").glob("*table*.py"))
    for path in (ROOT / "baselines" / "results").iterdir():
        if path.suffix != ".txt":  # notes from tuning, named in baselines/history.md
            assert f"baselines/results/{path.name}" in baselines, (
                f"Say in baselines/README.md how {path.name} was made."
            )
            assert path.is_file() or path.name in scripts, f"Make a table of {path.name} in baselines/result_tables.py."


def test_every_algorithm_has_a_page():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for name in algos.names():
        assert (DOCS / f"{name}.md").is_file(), (
            f"Write docs/{name}.md: equations, details, command, link to its results."
        )
        assert f"\n{name}\n" in index, f"Name {name} under Algorithms in docs/index.md."


def test_the_arguments_of_every_loss_are_told():
    """The losses that `make` takes unless told otherwise, of all algorithms but those that learn as PPO does."""
    rows = re.findall(r"^\| (`.*) \| .* \| `\((.*)\)` \|$", (DOCS / "your_own_algorithm.md").read_text("utf-8"), re.M)
    told = {name: arguments.split(", ") for names, arguments in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(told) == set(algos.names()) - {"ppo", "ippo", "mappo", "mat", "self_play"}
    for name, arguments in told.items():
        parameters = inspect.signature(inspect.signature(algos.load(name).make).parameters["loss"].default).parameters
        required = [each.name for each in parameters.values() if each.default is each.empty]
        assert arguments == required, name


@pytest.mark.parametrize("page", ["going_on.md", "sweeps.md"])
def test_commands_that_go_on_with_a_run_find_it(page: str):
    """Typed in the order of the page, in an empty folder."""
    made = set()
    for line in shell_lines((DOCS / page).read_text(encoding="utf-8")):
        words = line.split()
        made |= {folder for flag, folder in itertools.pairwise(words) if flag == "--run-dir"}
        assert {word for word in words if word.startswith("runs/")} <= made, line
        assert "--stop-at" not in words or words[1] != "train" or "--run-dir" in words, "the page gives it twice"


def test_the_plan_that_is_shown_is_that_of_its_command():
    (shown,) = [block for block in blocks(DOCS / "hosts.md", "text") if block.startswith("$ jaxrl plan ippo")]
    config, _ = parse_flags("ippo", ippo, shown.splitlines()[0].split()[4:], PlanFlags(), "plan")
    state = jax.eval_shape(ippo.make(config).init, jax.random.key(0))
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    assert f": {config.num_updates:,} updates of {config.steps_per_update:,} steps\n" in shown
    assert f"\n  parameters         {parameters:,} ({data_size(4 * parameters)})\n" in shown


def test_the_tour_shows_every_command():
    """As the README says."""
    shown = (DOCS / "tour.md").read_text(encoding="utf-8")
    assert [command for command in _COMMANDS if f"\njaxrl {command} " not in shown] == []


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path):
    for library in ("furo", "myst_nb"):
        pytest.importorskip(library)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "notebooks" / "7_self_play.html").is_file()
