"""Short runs of the toy, and what to compare of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import toy_algorithm as toy

from jaxrl.algorithm import Algorithm
from jaxrl.train.fit import fit
from jaxrl.train.result import Result

CONFIG = toy.Config()  # ten updates of 4 environments x 2 steps
ALGO = toy.make(CONFIG)


def run(algo: Algorithm = ALGO, config: Any = CONFIG, run_dir: Path | None = None, **options: Any) -> Result:
    options = {"quiet": True, "pictures": False, "eval_episodes": 8, **options}
    return fit(algo, config, run_dir, **options)


def assert_same_state(a: Any, b: Any) -> None:
    """Bit for bit."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_array_equal(x, y)


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs between two runs that are the same."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "steps_per_second")} for row in rows]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
