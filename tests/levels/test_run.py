"""A run on chosen levels: its rows, and that it continues exactly."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eleven import Eleven

import jaxrl
from jaxrl.algos import ppo

QUIET = {"quiet": True, "pictures": False, "eval_episodes": 4, "log_every": 1}


@pytest.mark.parametrize("levels", ["plr?size=32&tries=2&min_fill=0.1", "sfl?keep=16&candidates=32&steps=8&every=2"])
def test_a_run_that_was_stopped_continues_exactly(tmp_path, levels):
    judging = 32 * 8 // 2 if levels.startswith("sfl") else 0
    config = ppo.Config(
        env=Eleven(length=3), levels=levels, num_envs=16, num_steps=8, total_timesteps=6 * (128 + judging), hidden=(4,)
    )
    algo = ppo.make(config)
    whole = jaxrl.fit(algo, config, tmp_path / "whole", **QUIET)
    stop = [lambda row: row["timesteps"] >= 3 * config.steps_per_update]
    jaxrl.fit(algo, config, tmp_path / "stopped", callbacks=stop, **QUIET)
    resumed = jaxrl.fit(algo, config, tmp_path / "stopped", resume=True, **QUIET)

    both = zip(jax.tree.leaves(whole.state), jax.tree.leaves(resumed.state), strict=True)
    for a, b in both:
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(a, b)
    rows = [json.loads(line)["levels"] for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 6
    assert rows[-1].keys() == {"filled", "effective", "score", "replayed", "trains"}
    assert 0 < rows[-1]["replayed"] < 1
