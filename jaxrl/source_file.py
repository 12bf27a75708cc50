"""Code in files of the user's own: algorithms and environments that are not part of an installed module.

A file is imported under its own name and a hash of its content and of what it imports from its folder, so that two
versions of it can be loaded at once, and the version that a run was made with is never mistaken for the present one.
What it imports from its folder is loaded in the same way, so that two folders may each have a `helper.py`.
"""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxrl.errors import UnknownNameError, nearest
from jaxrl.neighbours import Files, closure, lying_in, part_of

__all__ = [
    "SourceFile",
    "algorithm_name",
    "check_not_loading",
    "class_reference",
    "is_loaded",
    "load_named",
    "load_source",
    "read_source",
    "source_of",
]

_PREFIX = "jaxrl_file_"
_FILES: dict[str, SourceFile] = {}  # by the name of the module
_LOADING: list[SourceFile] = []  # the files whose code is being executed
_KNOWN: dict[str, _Code] = {}  # what can be imported, by the name of the module
_KEPT: dict[Path, SourceFile] = {}  # the copies in run folders, with what was kept beside them


class SourceFile:
    """A file of Python code and what it imports from its folder, as they were when they were read.

    Args:
        path: The path of the file.
        beside: What it can import from its folder, by the paths from there; None for what lies there.

    Raises:
        UnknownNameError: There is no such file.
    """

    def __init__(self, path: str | Path, beside: Files | None = None) -> None:
        self.path = Path(path)
        known = beside or {}
        if self.path.name not in known and not self.path.is_file():
            raise UnknownNameError(f"There is no file {path}; give the path of a Python file, such as ./my_ppo.py.")
        self.content = known[self.path.name] if self.path.name in known else self.path.read_bytes()
        self.sha256 = hashlib.sha256(self.content).hexdigest()
        find = partial(lying_in, self.path.parent) if beside is None else partial(part_of, beside)
        self.files = closure({self.path.name: self.content}, find)

    @property
    def beside(self) -> dict[str, bytes]:
        """What it imports from its folder, directly or not, by the paths from there."""
        return {name: content for name, content in self.files.items() if name != self.path.name}

    @property
    def module_name(self) -> str:
        """The name that the file's module has in `sys.modules`."""
        return _name(self.path.stem, self.files)


def load_source(file: SourceFile | str | Path, beside: bool = True) -> ModuleType:
    """The file as a module; one with the same name and content is imported only once. Runs its code.

    Args:
        file: The file.
        beside: Whether it can import the modules beside it by computed names too, as a script can. Otherwise it is a
            kept copy, which finds only those in `file.files`, also when its path is loaded later.

    Raises:
        UnknownNameError: There is no such file.
        Exception: Whatever its code raises.
    """
    file = file if isinstance(file, SourceFile) else read_source(file)
    folder = file.path.absolute().parent
    if not beside:
        _KEPT[file.path.absolute()] = file
    name = file.module_name
    if name in sys.modules:
        return sys.modules[name]
    _KNOWN[name] = _Code(file, folder, file.files, beside)
    path = [str(folder)] if beside else []
    try:
        sys.path[:0] = path
        return importlib.import_module(name)
    finally:
        for entry in path:
            sys.path.remove(entry)


def read_source(path: str | Path) -> SourceFile:
    """The file at a path; for a kept copy that was loaded, with what was kept beside it.

    Raises:
        UnknownNameError: There is no such file.
    """
    kept = _KEPT.get(Path(path).absolute())
    return SourceFile(path, None if kept is None else kept.beside)


@dataclasses.dataclass(frozen=True)
class _Code(Loader):
    """The loader of one module: it executes the content that was read, and imports in it find what lay beside it."""

    file: SourceFile
    folder: Path
    """Where its absolute imports look first."""
    beside: Files
    """What they find there."""
    more: bool
    """Whether a package finds other files in its folder too, such as compiled modules."""
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    """The names in `sys.modules` of what it has imported from the folder."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the code. Its functions keep `__import__`, so they find whatever they import when they are called."""
        module.__file__ = str(self.file.path.absolute())
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self.find}
        _FILES[module.__name__] = self.file
        _LOADING.append(self.file)
        try:
            exec(compile(self.file.content, module.__file__, "exec"), module.__dict__)
        except BaseException:
            del _FILES[module.__name__]
            raise
        finally:
            _LOADING.pop()

    def find(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What Python's `__import__` returns, but from the folder, if it is there."""
        top, dot, rest = name.partition(".")
        if level or not (own := part_of(self.beside, top)):
            return __import__(name, globals, locals, fromlist or (), level)
        if top not in self.names:
            self.names[top] = self._introduce(top, own)
        first = self.names[top]
        try:
            importlib.import_module(first + dot + rest)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith(f"{first}."):  # a name that nobody has written
                raise ModuleNotFoundError(f"No module named {name!r}", name=name) from error
            raise
        return __import__(first + dot + rest, fromlist=fromlist) if fromlist else sys.modules[first]

    def _introduce(self, top: str, own: Files) -> str:
        """Make the files of a module or package importable, and return its name."""
        files = closure(own, partial(part_of, self.beside))
        first = _name(top, files)
        for path, content in own.items():
            place = self.folder / path
            inner = [part for part in Path(path).with_suffix("").parts[1:] if part != "__init__"]
            file = SourceFile(place, files if place.parent == self.folder else {place.name: content})
            _KNOWN[".".join([first, *inner])] = _Code(file, self.folder, files, self.more)
        return first


class _Finder(MetaPathFinder):
    """Finds the modules in `_KNOWN`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's loader and, for a package, where its parts are."""
        code = _KNOWN.get(fullname)
        if code is None:
            return None
        place = code.file.path
        spec = ModuleSpec(fullname, code, origin=str(place), is_package=place.name == "__init__.py")
        if code.more and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(place.parent))
        return spec


sys.meta_path.insert(0, _Finder())


def _name(stem: str, files: Files) -> str:
    """The name in `sys.modules` of a module or package, which stands for its content."""
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    digest = hashlib.sha256(repr(hashes).encode()).hexdigest() if len(hashes) > 1 else next(iter(hashes.values()))
    return f"{_PREFIX}{stem}_{digest[:12]}"


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
