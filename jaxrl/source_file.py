"""Code in files of the user's own: algorithms and environments that are not part of an installed module.

A file is imported under its own name and a hash of its content and of what it imports from its folder, so that two
versions of it can be loaded at once, and the version that a run was made with is never mistaken for the present one.
What it imports from its folder is loaded in the same way, so that two folders may each have a `helper.py`.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from jaxrl.errors import UnknownNameError, nearest

__all__ = [
    "SourceFile",
    "algorithm_name",
    "check_not_loading",
    "class_reference",
    "closure",
    "is_loaded",
    "load_named",
    "load_source",
    "lying_in",
    "part_of",
    "read_source",
    "source_of",
]

_KNOWN: dict[str, _Code] = {}  # what can be imported, by the name of the module
_COPIES: dict[Path, SourceFile] = {}  # the copies in run folders, as they were when they were checked
_LOADING: list[Path] = []  # the files whose code is being executed


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file of Python code and what it imports from its folder, as they were when they were read."""

    path: Path
    files: Files
    """The contents of the file and of what it imports from its folder, directly or not, by the paths from there."""

    @property
    def beside(self) -> dict[str, bytes]:
        """The `files` without the file itself."""
        return {name: content for name, content in self.files.items() if name != self.path.name}

    @property
    def sha256(self) -> str:
        """The hash of the file itself."""
        return hashlib.sha256(self.files[self.path.name]).hexdigest()

    @property
    def module_name(self) -> str:
        """The name that the file's module has in `sys.modules`."""
        return _name(self.path.stem, self.files)


def read_source(path: str | Path) -> SourceFile:
    """The file at a path; a copy in a run folder is never read again, but is what `load_source` was given.

    Raises:
        UnknownNameError: There is no such file.
    """
    path = Path(path)
    if path.absolute() in _COPIES:
        return _COPIES[path.absolute()]
    if not path.is_file():
        raise UnknownNameError(f"There is no file {path}; give the path of a Python file, such as ./my_ppo.py.")
    return SourceFile(path, closure({path.name: path.read_bytes()}, partial(lying_in, path.parent)))


def load_source(file: SourceFile | str | Path) -> ModuleType:
    """The file as a module; one with the same name and content is imported only once. Runs its code.

    Args:
        file: The path of a file, which can import the modules beside it by computed names too, as a script can; or a
            copy in a run folder, which finds only what it holds, also when its path is loaded later.

    Raises:
        UnknownNameError: There is no such file.
        Exception: Whatever its code raises.
    """
    path = []
    if isinstance(file, SourceFile):
        _COPIES[file.path.absolute()] = file
    else:
        file = read_source(file)
        path = [] if file.path.absolute() in _COPIES else [str(file.path.absolute().parent)]
    name = _introduce(file.path.stem, {file.path.name: file.files[file.path.name]}, file.files, file.path.parent)
    try:
        sys.path[:0] = path
        return importlib.import_module(name)
    finally:
        for entry in path:
            sys.path.remove(entry)


@dataclasses.dataclass(frozen=True)
class _Code(Loader):
    """The loader of one module: it executes the content that was read, and imports in it find what lay beside it."""

    path: Path
    content: bytes
    folder: Path
    """The folder in which its absolute imports look first."""
    files: Files
    """The files that they find there."""
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    """The names in `sys.modules` of what it has imported from the folder."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the code. Its functions keep `__import__`, so they find whatever they import when they are called."""
        module.__file__ = str(self.path.absolute())
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self.find}
        _LOADING.append(self.path)
        try:
            exec(compile(self.content, module.__file__, "exec"), module.__dict__)
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
        """The module that Python's `__import__` returns, but from the folder, if it is there."""
        top, dot, rest = name.partition(".")
        if level or not (own := part_of(self.files, top)):
            return __import__(name, globals, locals, fromlist or (), level)
        if top not in self.names:
            self.names[top] = _introduce(top, own, self.files, self.folder)
        first = self.names[top]
        try:
            importlib.import_module(first + dot + rest)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith(f"{first}."):  # a name that nobody has written
                raise ModuleNotFoundError(f"No module named {name!r}", name=name) from error
            raise
        return __import__(first + dot + rest, fromlist=fromlist) if fromlist else sys.modules[first]


def _introduce(top: str, own: Files, beside: Files, folder: Path) -> str:
    """Make the files of a module or package importable, and return its name."""
    files = closure(own, partial(part_of, beside))
    first = _name(top, files)
    for path, content in own.items():
        inner = [part for part in Path(path).with_suffix("").parts[1:] if part != "__init__"]
        module = ".".join([first, *inner])
        if module not in sys.modules:  # which stays what it is, wherever it is found once more
            _KNOWN[module] = _Code(folder / path, content, folder, files)
    return first


class _Finder(MetaPathFinder):
    """Finds the modules in `_KNOWN`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's loader and, for a package, where its parts are."""
        code = _KNOWN.get(fullname)
        is_package = code is not None and code.path.name == "__init__.py"
        return code and ModuleSpec(fullname, code, origin=str(code.path), is_package=is_package)


sys.meta_path.insert(0, _Finder())


def _name(stem: str, files: Files) -> str:
    """The name in `sys.modules` of a module or package, which stands for its content."""
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    digest = hashlib.sha256(repr(hashes).encode()).hexdigest() if len(hashes) > 1 else next(iter(hashes.values()))
    return f"jaxrl_file_{stem}_{digest[:12]}"


def is_loaded(module_name: str) -> bool:
    """True if a module with this name comes from `load_source`."""
    return module_name in _KNOWN


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


def class_reference(kind: type | Callable[..., Any]) -> str:
    """The name by which `load_named` finds a class or a function: `./my_net.py:Net` or `package.module:Net`.

    Raises:
        ValueError: It is defined inside a function or a class.
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
            f"{_LOADING[-1]} trains when it is imported, and finding a class in it imports it, as do `jaxrl eval` "
            f'and others with its run; put what it does as a script under `if __name__ == "__main__":`.'
        )


def source_of(kind: type | Callable[..., Any]) -> SourceFile | None:
    """The file that a class or function was defined in, if that was loaded by `load_source` or is the script that runs.

    None for those of modules that can be imported by their names, and for those of a notebook.
    """
    code = _KNOWN.get(kind.__module__)
    if code is not None:
        own = code.files if code.path.parent == code.folder else {code.path.name: code.content}
        return SourceFile(code.path, own)
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if kind.__module__ == "__main__" and script and Path(script).suffix == ".py":
        return read_source(script)
    return None


Files = Mapping[str, bytes]
"""The contents of Python files, by their paths from the folder of the file that imports them."""


def closure(start: Files, find: Callable[[str], Files]) -> dict[str, bytes]:
    """Some files and all that they import, directly or not.

    Args:
        start: The files to begin with.
        find: The files of the module or package with a name; none if it lies somewhere else.
    """
    found, todo = dict(start), list(start.values())
    while todo:
        for name in sorted(_imported(todo.pop())):
            new = {path: content for path, content in find(name).items() if path not in found}
            found |= new
            todo += new.values()
    return found


def lying_in(folder: Path, name: str) -> dict[str, bytes]:
    """The files of a module or package in a folder; none if it is not there, or is part of Python or of jaxrl.

    As for Python, a package with an `__init__.py` comes before a module, and a folder without one after whatever is
    installed under its name; it gets an empty `__init__.py`.
    """
    if name in sys.stdlib_module_names or name == __name__.partition(".")[0]:
        return {}
    module, package = folder / f"{name}.py", folder / name
    begins = package / "__init__.py"
    if module.is_file() and not begins.is_file():
        return {module.name: module.read_bytes()}
    if not package.is_dir() or (not begins.is_file() and _is_installed(name)):
        return {}
    inner = [path.relative_to(folder) for path in sorted(package.rglob("*.py"))]
    inner = [path for path in inner if all(part.isidentifier() for part in path.with_suffix("").parts)]
    parents = {parent for path in inner for parent in path.parents[:-1]}
    empty = {(parent / "__init__.py").as_posix(): b"" for parent in sorted(parents)}
    return empty | {path.as_posix(): (folder / path).read_bytes() for path in inner}


def part_of(files: Files, name: str) -> dict[str, bytes]:
    """Those of some files that make up the module or package with a name."""
    return {path: content for path, content in files.items() if PurePosixPath(path).with_suffix("").parts[0] == name}


@functools.lru_cache(256)
def _imported(content: bytes) -> frozenset[str]:
    """The first words of the modules that a file imports, inside functions too; none if it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError):  # whoever runs it hears of that
        return frozenset()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return frozenset(name.partition(".")[0] for name in names)


def _is_installed(name: str) -> bool:
    """True if there is such a module or package among those that are installed."""
    places = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    spec = PathFinder.find_spec(name, places)
    return spec is not None and spec.origin is not None  # a folder without `__init__.py` has no origin
