"""Code in files of the user's own: loaded by path, named by content, and not mistaken for a later version."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import pytest

import jaxrl
from jaxrl import algos
from jaxrl.errors import UnknownNameError
from jaxrl.registry import own_code
from jaxrl.source_file import SourceFile, closure, load_source, lying_in, part_of, read_source, source_of

ENV = """
from jaxrl.envs.classic.cartpole import CartPole

class Mine(CartPole):
    pass

class Options(CartPole):
    def __init__(self, length: int = 3) -> None:
        super().__init__(max_steps=length)
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_is_imported_once_and_another_content_is_another_module(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", "class A:\n    pass\n")
    first = load_source(path)
    assert load_source(path) is first
    assert source_of(first.A).sha256 == read_source(path).sha256  # pyright: ignore[reportOptionalMemberAccess]
    second = load_source(write(path, "class A:\n    x = 1\n"))
    assert second is not first
    assert second.A.x == 1
    assert source_of(jaxrl.VectorEnv) is None


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write(tmp_path / "broken.py", "import json\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_source(path)
    assert read_source(path).module_name not in sys.modules
    with pytest.raises(UnknownNameError, match="There is no file"):
        load_source(tmp_path / "nothing.py")


def test_a_script_imports_what_lies_beside_it_and_a_kept_copy_only_what_was_kept(tmp_path: Path) -> None:
    write(tmp_path / "beside_it.py", "x = 3\n")
    path = write(tmp_path / "script.py", "import beside_it\ny = beside_it.x\n")
    assert load_source(path).y == 3
    copy = write(tmp_path / "copy.py", path.read_text())
    with pytest.raises(ModuleNotFoundError, match="No module named 'beside_it'"):
        load_source(SourceFile(copy, {"copy.py": copy.read_bytes()}))
    kept = load_source(SourceFile(copy, {"copy.py": copy.read_bytes(), "beside_it.py": b"x = 4"}))
    assert kept.y == 4
    assert load_source(copy) is kept
    assert str(tmp_path) not in sys.path
    assert "beside_it" not in sys.modules


def test_folders_have_helpers_of_their_own(tmp_path: Path) -> None:
    """Also those with the same name, in packages, and of a file that is the same in both folders."""
    for folder, reward in (("c1", 1), ("c2", 100)):
        (tmp_path / folder / "game" / "parts").mkdir(parents=True)
        write(tmp_path / folder / "helper.py", f"from game import parts\nREWARD = {reward} + parts.MORE\n")
        write(tmp_path / folder / "game" / "__init__.py", "from . import rules\nfrom .rules import MORE as M\n")
        write(tmp_path / folder / "game" / "rules.py", f"from game.parts.some import MORE\nREWARD = {reward}\n")
        write(tmp_path / folder / "game" / "parts" / "some.py", "MORE = 5\n")
        write(tmp_path / folder / "game" / "parts" / "__init__.py", "from ..parts.some import MORE\n")
        text = "from helper import REWARD\nimport game.rules\nimport game.parts.some as s\n"
        write(tmp_path / folder / "env.py", f"{text}G = game.rules.REWARD + s.MORE\n")
    first, second = (load_source(tmp_path / folder / "env.py") for folder in ("c1", "c2"))
    assert (first.REWARD, first.G, second.REWARD, second.G) == (6, 6, 105, 105)
    again = load_source(write(tmp_path / "c1" / "other.py", "import helper\nimport game as g\nR = helper.REWARD\n"))
    assert (again.R, again.g) == (6, first.game)


def test_files_of_one_folder_share_what_they_import(tmp_path: Path) -> None:
    """Even those that import each other."""
    write(tmp_path / "shapes.py", "class Shape:\n    pass\n")
    write(tmp_path / "one.py", "import two\nfrom shapes import Shape\n")
    write(tmp_path / "two.py", "import one\nfrom shapes import Shape\n")
    one, two, shapes = (load_source(tmp_path / f"{name}.py") for name in ("one", "two", "shapes"))
    assert one.Shape is two.Shape is shapes.Shape
    assert one.two is two
    assert source_of(one.Shape).path.name == "shapes.py"  # pyright: ignore[reportOptionalMemberAccess]


def test_a_function_imports_what_lies_beside_its_file_when_it_is_called(tmp_path: Path) -> None:
    write(tmp_path / "later.py", "def scale():\n    from even_later import SCALE\n    return SCALE\n")
    write(tmp_path / "even_later.py", "SCALE = 7\n")
    path = write(tmp_path / "lazy.py", "def loss():\n    import later\n    return later.scale()\n")
    assert load_source(path).loss() == 7
    write(tmp_path / "even_later.py", "SCALE = 8\n")
    assert load_source(path).loss() == 8


def test_what_is_missing_has_the_name_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "game").mkdir()
    write(tmp_path / "game" / "rules.py", "x = 1\n")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'game\.rule'$"):
        load_source(write(tmp_path / "mine.py", "import game.rule\n"))
    with pytest.raises(SyntaxError):
        load_source(write(tmp_path / "broken.py", "import game.rule\nclass\n"))


def test_environments_are_made_from_files_and_modules(tmp_path: Path) -> None:
    path = write(tmp_path / "my_env.py", ENV)
    assert type(jaxrl.make(f"{path}:Mine")).__name__ == "Mine"
    assert int(jaxrl.make(f"{path}:Options?length=5").default_params.max_steps) == 5
    assert type(jaxrl.make("jaxrl.envs.classic.cartpole:CartPole")).__name__ == "CartPole"
    assert own_code(f"{path}:Options?length=5") == (str(path), "Options")
    assert own_code("smax/3m") is None
    assert own_code("gymnax:CartPole-v1") is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("{folder}/my_env.py:Min", "There is no 'Min' in .*Did you mean Mine"),
        ("{folder}/other.py:Mine", "There is no file .*other.py"),
        ("errno:CartPole-v1", "There is no 'CartPole-v1' in errno. Write ./FILE.py:NAME .*, or one of brax:NAME"),
        ("no_such_module:Mine", "cannot be imported.*on PYTHONPATH, or write ./FILE.py:NAME"),
        (":Mine", "cannot be imported.*FILE.py:NAME"),
        (".sibling:Mine", "cannot be imported.*FILE.py:NAME"),
        ("{folder}/my_env.py", "my_env.py is a file; say which class .*my_env.py:CLASS"),
    ],
)
def test_a_wrong_name_is_told(tmp_path: Path, name: str, sentence: str) -> None:
    write(tmp_path / "my_env.py", ENV)
    with pytest.raises(UnknownNameError, match=sentence):
        jaxrl.make(name.format(folder=tmp_path))


@pytest.fixture
def their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package: the code of `their_envs`, and the line in its entry-point group `jaxrl.envs`."""
    from jaxrl import registry

    def install(code: str, entry_point: str) -> None:
        write(tmp_path / "their_envs.py", code)
        info = tmp_path / "their_envs-1.0.dist-info"
        info.mkdir()
        write(info / "METADATA", "Metadata-Version: 2.1\nName: their-envs\nVersion: 1.0\n")
        write(info / "entry_points.txt", f"[jaxrl.envs]\n{entry_point}\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_envs", raising=False)
    for table in ("_FACTORIES", "_FIXED", "_ALIASES"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    registry._load.cache_clear()
    return install


REGISTERS = "import jaxrl\njaxrl.register('theirs/cart', 'jaxrl.envs.classic.cartpole:CartPole')\n"


def test_an_installed_package_registers_its_environments(their_package: Callable[[str, str], None]) -> None:
    """By the entry-point group `jaxrl.envs`: a module that registers when it is imported."""
    their_package(REGISTERS, "theirs = their_envs")
    assert "theirs/cart" in jaxrl.list_envs("theirs/*")
    assert jaxrl.make("theirs/cart").name == "theirs/cart"


@pytest.mark.parametrize("registers", ["", REGISTERS], ids=["unregistered", "registered"])
@pytest.mark.parametrize("name", ["CartPole", "cart"])
def test_an_installed_package_names_one_environment(
    their_package: Callable[[str, str], None], name: str, registers: str
) -> None:
    """By an entry point that is its class, or a function that makes it, as in `make("package.module:NAME")`."""
    code = "from jaxrl.envs.classic.cartpole import CartPole\n\ndef cart():\n    return CartPole()\n"
    own = registers.replace("'jaxrl.envs.classic.cartpole:CartPole'", name)
    their_package(code + own, f"theirs/cart = their_envs:{name}")
    assert jaxrl.list_envs("theirs/*") == ["theirs/cart"]
    assert jaxrl.make("theirs/cart").made_as == "theirs/cart"


def test_a_broken_package_takes_no_other_environment_along(monkeypatch: pytest.MonkeyPatch) -> None:
    from jaxrl import registry

    broken = importlib.metadata.EntryPoint("theirs", "nothing_of_that_name", "jaxrl.envs")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [broken])
    registry._load.cache_clear()
    with pytest.warns(UserWarning, match="environments of the package 'theirs' are missing: .* Reinstall that package"):
        assert "classic/cartpole" in jaxrl.list_envs()


def test_algorithms_are_loaded_by_path(tmp_path: Path) -> None:
    from jaxrl.algos import ppo

    assert algos.load("ppo") is ppo
    assert algos.load(ppo.__file__) is ppo
    with pytest.raises(TypeError, match="is not an algorithm: it has no Config and no PRESETS and no make"):
        algos.load(write(tmp_path / "empty.py", "x = 1\n"))
    with pytest.raises(UnknownNameError, match=r"no algorithm 'pp'.*ppo.*such as ./my_ppo.py"):
        algos.load("pp")


def test_a_file_with_the_config_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    """Its runs would be continued by that algorithm, without a word."""
    borrowed = "from jaxrl.algos import ppo\nfrom jaxrl.algos.ppo import PRESETS, Config, make\n"
    with pytest.raises(TypeError, match=r"has Config from jaxrl.algos.ppo, .* Define `class Config\(ppo.Config\)`"):
        algos.load(write(tmp_path / "borrowed.py", borrowed))
    write(tmp_path / "beside.py", "from jaxrl.algos import ppo\nclass Config(ppo.Config):\n    pass\n")
    helped = "from beside import Config\nfrom jaxrl.algos.ppo import PRESETS, make\n"
    with pytest.raises(TypeError, match=r"has Config from .*/beside\.py, .* Define `class Config\(beside.Config\)`"):
        algos.load(write(tmp_path / "helped.py", helped))
    half = borrowed + "class Config(ppo.Config):\n    pass\n"
    with pytest.raises(TypeError, match=r"has PRESETS\['default'\] from jaxrl.algos.ppo"):
        algos.load(write(tmp_path / "half.py", half))
    algos.load(write(tmp_path / "whole.py", half + "PRESETS = {'default': Config()}\n"))


@pytest.mark.parametrize("presets", ["[Config()]", "{'default': Config}", "{'default': {'lr': 1e-3}}"])
def test_presets_that_are_no_configurations_are_refused(tmp_path: Path, presets: str) -> None:
    text = "from jaxrl.algos import ppo\nclass Config(ppo.Config):\n    pass\nmake = ppo.make\n"
    with pytest.raises(TypeError, match=r"no dictionary of configurations; write PRESETS = \{'default': Config\(…\)\}"):
        algos.load(write(tmp_path / "listed.py", f"{text}PRESETS = {presets}\n"))


def test_a_class_that_no_name_finds_is_told_where_to_go() -> None:
    class Net(nn.Module):
        pass

    with pytest.raises(ValueError, match=r"Net is defined inside test_a_class.*; define it at the top of a file"):
        algos.load("ppo").Config(network=Net)


def test_a_script_that_trains_when_it_is_imported_is_told_so(tmp_path: Path) -> None:
    from jaxrl.algos import ppo

    text = "import jaxrl\nfrom jaxrl.algos import ppo\nc = ppo.Config()\njaxrl.fit(ppo.make(c), c)\n"
    with pytest.raises(RuntimeError, match=r'trains when it is imported.*if __name__ == "__main__":'):
        load_source(write(tmp_path / "trains.py", text))
    text = "import jax\nfrom jaxrl.algos import ppo\njax.jit(ppo.make_train(ppo.Config()))(jax.random.key(0))\n"
    with pytest.raises(RuntimeError, match=r"jitted.py trains when it is imported"):
        load_source(write(tmp_path / "jitted.py", text))
    config = ppo.Config(num_envs=4, num_steps=4, total_timesteps=32, hidden=(4,))
    assert jaxrl.fit(ppo.make(config), config, eval_episodes=4, quiet=True).evaluation


def write_all(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}")


def test_a_module_a_package_and_a_folder_are_found(tmp_path: Path) -> None:
    names = ["a.py", "game/__init__.py", "game/rules.py", "game/data/no-module.py", "game.py", "envs/walk/flat.py"]
    write_all(tmp_path, *names, "envs/notes.txt", "empty/notes.txt")
    assert list(lying_in(tmp_path, "a")) == ["a.py"]
    assert list(lying_in(tmp_path, "game")) == ["game/__init__.py", "game/rules.py"]
    assert lying_in(tmp_path, "envs") == {
        "envs/__init__.py": b"",
        "envs/walk/__init__.py": b"",
        "envs/walk/flat.py": b"# envs/walk/flat.py",
    }
    assert lying_in(tmp_path, "empty") == lying_in(tmp_path, "nothing") == {}


@pytest.mark.parametrize("name", ["jaxrl/ppo.py", "json.py", "jax/mine.py"])
def test_python_jaxrl_and_installed_packages_are_not_taken_from_the_folder(tmp_path: Path, name: str) -> None:
    write_all(tmp_path, name)
    assert lying_in(tmp_path, Path(name).parts[0].removesuffix(".py")) == {}


def test_a_closure_follows_all_imports() -> None:
    files = {
        "a.py": b"import b.c as x, json\n",
        "b/__init__.py": b"from .c import y\n",
        "b/c.py": b"def f():\n    from a import z\n    import d\n",
        "d.py": b"no Python",
        "c.py": b"",
    }
    start = part_of(files, "a")
    assert start == {"a.py": files["a.py"]}
    assert set(closure(start, lambda name: part_of(files, name))) == set(files) - {"c.py"}
