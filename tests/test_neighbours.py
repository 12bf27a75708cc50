"""What a file imports from its folder."""

from pathlib import Path

import pytest

from jaxrl.neighbours import closure, lying_in, part_of


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}")


def test_a_module_a_package_and_a_folder_are_found(tmp_path: Path) -> None:
    names = ["a.py", "game/__init__.py", "game/rules.py", "game/data/no-module.py", "game.py", "envs/walk/flat.py"]
    write(tmp_path, *names, "envs/notes.txt", "empty/notes.txt")
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
    write(tmp_path, name)
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
