"""How runs play hide-and-seek: `python baselines/hide_and_seek.py RUN…`, after `baselines/record.py`.

For each seed of each run, 512 episodes with drawn actions in the true world: the means of all that the game's `info`
tells at their ends. They go under `game` in the run's file in baselines/results/hide_and_seek, a list with one number a
seed for each.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from record import RESULTS

import jaxrl
from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.train.folder.load import Run
from jaxrl.wrappers import as_multi_agent
from jaxrl.wrappers.params import Stage

EPISODES = 512


def main() -> None:
    """Measure the runs and write what they do into their files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    for folder in parser.parse_args().runs:
        seeds = games(jaxrl.load(folder))
        path = RESULTS / "hide_and_seek" / f"{folder.name}.json"
        about = json.loads(path.read_text(encoding="utf-8"))
        about["game"] = {name: [round(seed[name], 4) for seed in seeds] for name in seeds[0]}
        path.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        print(f"{folder.name}: {about['game']}")


def games(run: Run) -> list[dict[str, float]]:
    """For each seed, the means of the numbers in info at the end of the episodes."""
    policies = [run.member(i).policy for i in range(run.num_members)]
    play = jax.jit(partial(_last_info, as_multi_agent(run.env), policies[0]))
    told = [play(policy.params, jax.random.key(1_000_000 + i)) for i, policy in enumerate(policies)]
    return [{name: float(np.mean(values)) for name, values in info.items()} for info in told]


def _last_info(env: MultiAgentEnvironment, policy: Policy, params: Any, key: jax.Array) -> dict[str, jax.Array]:
    """The numbers `[E]` in the info of the last step of E episodes, which are all as long. Consumes `key`."""
    key_reset, key_play = jax.random.split(key)
    obs, state = env.batch_reset(jax.random.split(key_reset, EPISODES))

    def step(now: tuple[Any, Any, Any], key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        obs, state, carry = now
        key_act, key_step = jax.random.split(key)
        action, carry = policy.apply(params, obs, carry, key_act)
        obs, state, _, _, _, info = env.batch_step(jax.random.split(key_step, EPISODES), state, action)
        return (obs, state, carry), {name: info[name] for name in info if getattr(info[name], "ndim", 0) == 1}

    own = env.default_params
    length = int((own.params if isinstance(own, Stage) else own).max_steps)
    told = jax.lax.scan(step, (obs, state, policy.new_carry(EPISODES)), jax.random.split(key_play, length))[1]
    return {name: values[-1] for name, values in told.items()}


if __name__ == "__main__":
    main()
