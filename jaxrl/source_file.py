"""Code in files of the user's own: algorithms and environments that are not part of an installed module.

A file is imported under its own name and a hash of its content, so that two versions of it can be loaded at once, and
the version that a run was made with is never mistaken for the present one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxrl.errors import UnknownNameError, nearest

__all__ = [
    "SourceFile",
    "algorithm_name",
    "check_not_loading",
    "class_reference",
    "is_loaded",
    "load_named",
    "load_source",
    "source_of",
]

_PREFIX = "jaxrl_file_"
_FILES: dict[str, SourceFile] = {}  # by the name of the module
_LOADING: list[SourceFile] = []  # the files whose code is being executed


class SourceFile:
    """A file of Python code, as it was when it was read.

    Args:
        path: The path of the file.

    Raises:
        UnknownNameError: There is no such file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise UnknownNameError(f"There is no file {path}; give the path of a Python file, such as ./my_ppo.py.")
        self.content = self.path.read_bytes()
        self.sha256 = hashlib.sha256(self.content).hexdigest()

    @property
    def module_name(self) -> str:
        """The name that the file's module has in `sys.modules`."""
        return f"{_PREFIX}{self.path.stem}_{self.sha256[:12]}"


def load_source(file: SourceFile | str | Path, beside: bool = True) -> ModuleType:
    """The file as a module; one with the same name and content is imported only once. Runs its code.

    Args:
        file: The file.
        beside: Whether it can import the modules beside it, as a script can.

    Raises:
        UnknownNameError: There is no such file.
        Exception: Whatever its code raises.
    """
    file = file if isinstance(file, SourceFile) else SourceFile(file)
    name = file.module_name
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(file.path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(file.path.absolute())
    sys.modules[name], _FILES[name] = module, file  # dataclasses look their module up while it is being executed
    path = [str(file.path.absolute().parent)] if beside else []
    _LOADING.append(file)
    try:
        sys.path[:0] = path
        exec(compile(file.content, module.__file__, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name], _FILES[name]
        raise
    finally:
        _LOADING.pop()
        for folder in path:
            sys.path.remove(folder)
    return module


def is_loaded(module_name: str) -> bool:
    """Whether a module with this name was loaded by `load_source`."""
    return module_name in _FILES


def load_named(place: str, attribute: str, hint: str = "") -> Any:
    """The object with a name in a file, or in a module that can be imported; see `class_reference`.

    Args:
        place: The path of a file that ends in .py, or the name of a module.
        attribute: The name, such as that of a class.
        hint: What else the user may have meant, for the message.

    Raises:
        UnknownNameError: There is none; the message says what to write.
    """
    if place.endswith(".py"):
        module = load_source(place)
    else:
        try:
            if not all(part.isidentifier() for part in place.split(".")):
                raise ImportError("that is not the name of a module")
            module = importlib.import_module(place)
        except ImportError as error:
            raise UnknownNameError(
                f"The module {place!r} of {place}:{attribute} cannot be imported ({error}). Put its folder on "
                f"PYTHONPATH, or write ./FILE.py:NAME for what is in a file{hint}."
            ) from error
    if not hasattr(module, attribute):
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        advice = nearest(attribute, names) if names else f"Write ./FILE.py:NAME for what is in a file{hint}."
        raise UnknownNameError(f"There is no {attribute!r} in {place}. {advice}")
    return getattr(module, attribute)


def class_reference(kind: type) -> str:
    """The name by which `load_named` finds a class: `./my_net.py:Net` or `package.module:Net`.

    Raises:
        ValueError: The class is defined inside a function or another class.
    """
    outer, dot, name = kind.__qualname__.rpartition(".")
    if dot:
        where = outer.removesuffix(".<locals>")
        raise ValueError(f"{name} is defined inside {where}, where no name finds it; define it at the top of a file.")
    file = source_of(kind)
    return f"{kind.__module__ if file is None else file.path}:{kind.__qualname__}"


def algorithm_name(kind: type | Callable[..., Any]) -> str:
    """The name of an algorithm, from its config's class or its `make`: the name of its module or of its file."""
    file = source_of(kind)
    return kind.__module__.rpartition(".")[2] if file is None else file.path.stem


def check_not_loading() -> None:
    """Raise while a file is being imported: a script that trains would train whenever its run is looked at.

    Raises:
        RuntimeError: The message says what to write.
    """
    if _LOADING:
        raise RuntimeError(
            f"{_LOADING[-1].path} trains when it is imported, and finding a class in it imports it, as do `jaxrl eval` "
            f'and others with its run; put what it does as a script under `if __name__ == "__main__":`.'
        )


def source_of(kind: type | Callable[..., Any]) -> SourceFile | None:
    """The file that a class or function was defined in, if that was loaded by `load_source` or is the script that runs.

    None for those of modules that can be imported by their names, and for those of a notebook.
    """
    if kind.__module__ in _FILES:
        return _FILES[kind.__module__]
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if kind.__module__ == "__main__" and script and Path(script).suffix == ".py":
        return SourceFile(script)
    return None
