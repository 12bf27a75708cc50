"""What JaxMARL's script learns in Hanabi: `python baselines/hanabi_jaxmarl.py --jaxmarl CHECKOUT --steps 4e6`.

    git clone https://github.com/FLAIROx/JaxMARL

`ippo_ff_hanabi.py` trains with its own configuration, and for as many steps as asked, one seed. Then its policy plays
512 whole games in JaxMARL's Hanabi, greedily and with drawn actions. Its curve and both scores go to
`results/hanabi/jaxmarl_2p.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
from record import RESULTS

sys.path.append(str(Path(__file__).parent / "speed"))
from training_peers import jaxmarl_hanabi

import jaxrl
from jaxrl.algorithm import Algorithm
from jaxrl.interop.jaxmarl import from_jaxmarl
from jaxrl.train.folder.provenance import versions

EPISODES = 512


def main() -> None:
    """Train, play, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jaxmarl", type=Path, required=True, help="a checkout of JaxMARL's repository")
    parser.add_argument("--steps", type=float, default=4e6)
    parser.add_argument("--seed", type=int, default=20)
    flags = parser.parse_args()
    curve: list[dict[str, float]] = []
    train, network, steps = jaxmarl_hanabi(flags.jaxmarl, int(flags.steps), partial(_log, curve))
    before = time.perf_counter()
    program = jax.jit(train).lower(jax.random.key(flags.seed)).compile()
    compiled = time.perf_counter()
    params = jax.block_until_ready(program(jax.random.key(flags.seed)))["runner_state"][0][0].params
    after = time.perf_counter()
    env = from_jaxmarl(jaxmarl.make("hanabi"))
    games = {
        how: jaxrl.evaluate(playing(network), env, params, jax.random.key(7), EPISODES, greedy=how == "greedy").returns
        for how in ("greedy", "sampled")
    }
    about = {
        "what": "The script as it is, its configuration but for the number of steps, in jaxmarl's own Hanabi.",
        "algorithm": "JaxMARL's `ippo_ff_hanabi.py`",
        "env": "hanabi/2p",
        "seed": flags.seed,
        "num_seeds": 1,
        "timesteps": steps,
        "compile_seconds": round(compiled - before, 2),
        "train_seconds": round(after - compiled, 2),
        "episodes": EPISODES,
        "evaluation": {"return_mean": [round(float(np.mean(games["greedy"])), 3)]},
        "sampled": {"return_mean": [round(float(np.mean(games["sampled"])), 3)]},
        "curve": [{**row, "seconds": round(row["seconds"] - compiled, 2)} for row in curve],
        "versions": {**versions(), "jaxmarl": jaxmarl.__version__},
    }
    (RESULTS / "hanabi" / "jaxmarl_2p.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print({name: about[name] for name in ("timesteps", "train_seconds", "evaluation", "sampled")})


def _log(curve: list[dict[str, float]], row: dict[str, Any]) -> None:
    """Keep what the script tells of an update; it counts updates from 0."""
    now = {"env_step": int(row["env_step"]), "returns": round(float(row["returns"]), 3), "seconds": time.perf_counter()}
    curve.append(now)
    print(now, flush=True)


def playing(network: Any) -> Algorithm:
    """The script's policy as an algorithm that only plays: its state is the network's parameters."""

    def act(params: Any, obs: jax.Array, carry: Any = None, key: Any = None, *, action_mask: Any, reset: Any) -> Any:
        del reset
        policy, _ = network.apply(params, (obs, jnp.zeros(obs.shape[:-1], bool), action_mask))
        return policy.mode() if key is None else policy.sample(seed=jax.random.key_data(key)), carry

    def no_training(*_: Any) -> Any:
        raise NotImplementedError

    return Algorithm(no_training, no_training, act)


if __name__ == "__main__":
    main()
