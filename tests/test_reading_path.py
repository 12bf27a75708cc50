"""How much of the package a reader meets on the way through one update: functions that run while it is traced.

The limits are what has been reached. Whoever adds to the path takes as much out, or moves the feature to a function
that `make` composes only for those who ask for it.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import jax
import pytest

import jaxrl

ROOT = Path(jaxrl.__file__).resolve().parent

LIMITS = {  # algorithm: (environment, files, lines of functions with their docstrings)
    "ppo": ("classic/cartpole", 24, 1189),
    "ippo": ("mpe/simple_spread", 22, 1124),
    "mappo": ("mpe/simple_spread", 23, 1201),
    "pqn": ("classic/cartpole", 26, 1190),
    "dqn": ("classic/cartpole", 27, 1220),
    "sac": ("classic/pendulum", 27, 1338),
}
MOST_IMPORTED = 58
"""Files of the package that `import jaxrl.algos.ppo` loads."""


def functions_of_update(algo: str, env: str) -> dict[Path, set[int]]:
    """The lines of all functions that run while an update is traced, by file, without the environments' own."""
    module = importlib.import_module(f"jaxrl.algos.{algo}")
    algorithm = module.make(module.Config(env=env))
    state = jax.eval_shape(algorithm.init, jax.eval_shape(lambda: jax.random.key(0)))
    met: set[CodeType] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        del arg
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            met.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        jax.make_jaxpr(algorithm.update)(state)
    finally:
        sys.setprofile(before)
    lines: dict[Path, set[int]] = defaultdict(set)
    for code in met:
        path = Path(code.co_filename).resolve().relative_to(ROOT)
        if path.parts[0] != "envs" and code.co_name != "<module>":
            text, first = inspect.getsourcelines(code)
            lines[path].update(range(first, first + len(text)))
    return lines


@pytest.mark.parametrize("algo", LIMITS)
def test_an_update_is_read_in_few_files_and_lines(algo: str) -> None:
    env, most_files, most_lines = LIMITS[algo]
    jax.clear_caches()  # what another test has traced would not be met again
    lines = functions_of_update(algo, env)
    total = sum(map(len, lines.values()))
    assert Path("algos", "on_policy.py") in lines or Path("algos", "off_policy.py") in lines
    assert len(lines) <= most_files, sorted(map(str, lines))
    assert total <= most_lines, {str(path): len(of_file) for path, of_file in lines.items()}


def test_importing_an_algorithm_loads_few_files() -> None:
    program = "import sys, jaxrl.algos.ppo; print(sum(name.split('.')[0] == 'jaxrl' for name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) <= MOST_IMPORTED
