"""An algorithm and an environment in files of one's own."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import toy_algorithm

from jaxrl import algos, source_file
from jaxrl.train.folder import trust

OPTIONS: dict[str, Any] = {"pictures": False, "quiet": True, "eval_episodes": 4}
ENV = "from toy_algorithm import Countdown\n\n\nclass Mine(Countdown):\n    pass\n"


def forget() -> None:
    """As in another process: no file of the user's own is loaded."""
    for name in source_file._KNOWN:
        sys.modules.pop(name, None)
    for known in (source_file._KNOWN, source_file._COPIES, trust._CLASSES, trust._TRUSTED):
        known.clear()


def write_algorithm(path: Path) -> ModuleType:
    """The toy as a file, whose config makes the environment that it names."""
    text = Path(toy_algorithm.__file__).read_text()
    text = text.replace(
        "        return Countdown()", "        return Countdown() if 'toy' in self.env else jaxrl.make(self.env)"
    )
    path.write_text(text)
    return algos.load(path)
