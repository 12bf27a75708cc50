"""What JaxMARL's scripts of IPPO learn in Hanabi and in kitchens, in as many steps as ours.

    git clone https://github.com/FLAIROx/JaxMARL
    python baselines/jaxmarl_learning.py --jaxmarl JaxMARL --env hanabi/2p --steps 1.5e6
    python baselines/jaxmarl_learning.py --jaxmarl JaxMARL --env overcooked/coord_ring --steps 2e6 --num-seeds 5
    python baselines/jaxmarl_learning.py --jaxmarl JaxMARL --env overcooked_v2/cramped_room --steps 1e6 --num-seeds 5

The script trains as it is, with its own configuration but for the number of steps and, in kitchens, the step until
which shaped rewards fade. Its calls of the host once an update, which log, are left out, and a kitchen answers
`ippo_cnn_overcooked`, which asks for the actions without naming a cook. One seed is trained after the other: side by
side by `vmap`, five hang on two cores. Then each policy plays 512 whole episodes in JaxMARL's own environment,
greedily and with drawn actions, without shaped rewards. Both scores, and in kitchens a curve, go to `results/hanabi/`
or `results/overcooked/`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
from jaxmarl.environments.overcooked import Overcooked, overcooked_layouts
from record import RESULTS

sys.path.append(str(Path(__file__).parent / "speed"))
from training_peers import jaxmarl_ippo_config, jaxmarl_ippo_script

import jaxrl
from jaxrl import spaces
from jaxrl.algorithm import Algorithm
from jaxrl.interop.jaxmarl import FromJaxMARL, from_jaxmarl
from jaxrl.train.folder.provenance import versions

EPISODES = 512


def main() -> None:
    """Train, play, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jaxmarl", type=Path, required=True, help="a checkout of JaxMARL's repository")
    parser.add_argument("--env", required=True, help="hanabi/2p, overcooked/LAYOUT or overcooked_v2/LAYOUT")
    parser.add_argument("--script", help="another than ippo_ff_hanabi or ippo_ff_overcooked, as ippo_cnn_overcooked")
    parser.add_argument("--steps", type=float, default=1e6, help="environment steps of each seed")
    parser.add_argument("--shaped", type=float, default=0.5, help="share of the steps after which no reward is shaped")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--num-seeds", type=int, default=1)
    flags = parser.parse_args()
    family, _, variant = flags.env.partition("/")
    name = flags.script or f"ippo_ff_{family.removesuffix('_v2')}"
    config = jaxmarl_ippo_config(flags.jaxmarl, name) | {"TOTAL_TIMESTEPS": int(flags.steps)}
    if family != "hanabi":
        kwargs = {"layout": overcooked_layouts[variant] if family == "overcooked" else variant}
        until = flags.shaped * flags.steps
        config |= {"ENV_NAME": family, "ENV_KWARGS": kwargs, "REW_SHAPING_HORIZON": until}
    about = {
        "what": "The script as it is, its configuration but for steps and shaping, in jaxmarl's own environment.",
        "algorithm": f"JaxMARL's `{name}.py`",
        "env": flags.env,
        "seed": flags.seed,
        "num_seeds": flags.num_seeds,
        **learned(flags.jaxmarl, name, config, range(flags.seed, flags.seed + flags.num_seeds)),
        "versions": {**versions(), "jaxmarl": jaxmarl.__version__},
    }
    prefix = {"overcooked_v2": "v2_"}.get(family, "") + variant
    label = f"jaxmarl_{prefix}" + (f"_{flags.script}" if flags.script else "")
    path = RESULTS / family.removesuffix("_v2") / f"{label}.json"
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print({field: about[field] for field in ("timesteps", "train_seconds", "evaluation", "sampled")})


def learned(checkout: Path, name: str, config: dict[str, Any], seeds: range) -> dict[str, Any]:
    """Train by a script, one seed after the other, and let each policy play whole episodes."""
    train, script = jaxmarl_ippo_script(checkout, name, config)
    started = time.perf_counter()
    with _as_the_script_expects():
        program = jax.jit(train).lower(jax.random.key(0)).compile()
    compiled = time.perf_counter() - started
    env = from_jaxmarl(jaxmarl.make(config["ENV_NAME"], **config.get("ENV_KWARGS", {})))
    algo = playing(script, name, config, env)

    @partial(jax.jit, static_argnames="greedy")
    def play(params: Any, greedy: bool) -> jax.Array:
        return jaxrl.evaluate(algo, env, params, jax.random.key(7), EPISODES, greedy=greedy).returns.mean()

    seconds, scores, metrics = [], [], []
    for seed in seeds:
        before = time.perf_counter()
        trained = jax.block_until_ready(program(jax.random.key(seed)))
        seconds.append(round(time.perf_counter() - before, 2))
        metrics.append(trained.get("metrics"))
        runner = trained["runner_state"]
        params = (runner[0] if hasattr(runner[0], "params") else runner[0][0]).params
        scores.append([round(float(play(params, greedy)), 3) for greedy in (True, False)])
        print(f"seed {seed}: {seconds[-1]:.0f} s, greedy {scores[-1][0]}, sampled {scores[-1][1]}", flush=True)

    greedy, sampled = zip(*scores, strict=True)
    update = int(config["NUM_ENVS"] * config["NUM_STEPS"])
    return {
        "config": {field: value for field, value in config.items() if isinstance(value, int | float)},
        "timesteps": config["TOTAL_TIMESTEPS"] // update * update,
        "compile_seconds": round(compiled, 2),
        "train_seconds": round(sum(seconds), 2),
        "seconds_by_seed": seconds,
        "evaluation": {"episodes": EPISODES, "return_mean": greedy},
        "sampled": {"episodes": EPISODES, "return_mean": sampled},
        "curve": [] if None in metrics else _curve(jax.tree.map(lambda *leaves: np.stack(leaves), *metrics)),
    }


@contextlib.contextmanager
def _as_the_script_expects() -> Iterator[None]:
    """What is traced meanwhile does not call the host, and a kitchen's cooks all have the actions of the first."""
    nothing = mock.MagicMock(return_value=None)
    of_agent = Overcooked.action_space
    with (
        mock.patch("jax.debug.callback", nothing),
        mock.patch("jax.experimental.io_callback", nothing),
        mock.patch.object(Overcooked, "action_space", lambda self, agent="agent_0": of_agent(self, agent)),
    ):
        yield


def _curve(metrics: dict[str, np.ndarray]) -> list[dict[str, float]]:
    """The mean return of the seeds, after each update or some hundred of them: `metrics[M, U]`."""
    steps, returns = metrics["env_step"][0], metrics["returned_episode_returns"].mean(0)
    every = max(1, len(steps) // 100)
    steps, returns = steps[every - 1 :: every], returns[every - 1 :: every]
    return [
        {"env_step": int(step), "returns": round(float(mean), 3)} for step, mean in zip(steps, returns, strict=True)
    ]


def playing(script: Any, name: str, config: dict[str, Any], env: FromJaxMARL) -> Algorithm:
    """The script's policy as an algorithm that only plays: its state is the network's parameters."""
    hanabi, num_actions = name == "ippo_ff_hanabi", spaces.num_actions(env.action_space())
    network = script.ActorCritic(
        num_actions, **({"config": config} if hanabi else {"activation": config["ACTIVATION"]})
    )
    flat = name.startswith("ippo_ff")

    def act(
        state: Any, obs: Any, carry: Any = None, key: Any = None, *, action_mask: Any = None, reset: Any = None
    ) -> Any:
        del reset
        rows = obs.reshape(-1, *([np.prod(obs.shape[2:])] if flat else obs.shape[2:]))  # a row for each agent
        mask = action_mask.reshape(-1, num_actions) if hanabi else None
        policy, _ = network.apply(state, (rows, jnp.zeros(len(rows), bool), mask) if hanabi else rows)
        action = policy.mode() if key is None else policy.sample(seed=jax.random.key_data(key))
        return action.reshape(obs.shape[:2]), carry

    def no_training(*_: Any) -> Any:
        raise NotImplementedError

    return Algorithm(no_training, no_training, act)


if __name__ == "__main__":
    main()
