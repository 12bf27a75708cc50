"""A policy deployed in real Gymnasium: train in jaxrl's CartPole, play Gymnasium's, by NumPy alone if you like.

    pip install 'jaxrl[gymnasium,deploy]'
    python examples/deploy_in_gymnasium.py                      # trains PPO in a few seconds, then plays
    python examples/deploy_in_gymnasium.py --run runs/a         # plays with a run that you have trained

The policy goes three ways into the same loop: as it is, as a file that needs JAX, as a file that needs NumPy. All three
choose the same actions, so the returns are the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

import jaxrl
from jaxrl.algos import ppo


def trained(total_timesteps: int) -> jaxrl.Policy:
    """A policy for CartPole, fresh from training."""
    config = ppo.Config(env="CartPole-v1", total_timesteps=total_timesteps)
    return jaxrl.fit(ppo.make(config), config, quiet=True).policy


def with_jax(policy: jaxrl.Policy, folder: Path) -> Callable[[Any], Any]:
    """The policy through a file for programs that have JAX, but not jaxrl."""
    content = policy.export(folder / "policy.stablehlo").read_bytes()
    exported = jax.export.deserialize(bytearray(content))
    return lambda obs: np.asarray(exported.call(obs[None]))[0]


def with_numpy(policy: jaxrl.Policy, folder: Path) -> Callable[[Any], Any]:
    """The policy through a file for programs that have NumPy alone; they `import policy` and call `policy.act`."""
    spec = importlib.util.spec_from_file_location("policy", policy.export(folder / "policy.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.act


def mean_return(act: Callable[[Any], Any], episodes: int) -> float:
    """The mean return in Gymnasium's CartPole-v1; episodes have at most 500 steps, each worth 1."""
    env, returns = gymnasium.make("CartPole-v1"), []
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        done, total = False, 0.0
        while not done:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            done, total = terminated or truncated, total + float(reward)
        returns.append(total)
    return float(np.mean(returns))


def main() -> None:
    """Train or load, then play in three ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="a run folder; trains if left out")
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    parser.add_argument("--episodes", type=int, default=10)
    args = parser.parse_args()
    policy = jaxrl.load(args.run).member().policy if args.run else trained(args.total_timesteps)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ways = {"predict": policy.predict, "JAX": with_jax(policy, place), "NumPy": with_numpy(policy, place)}
        for way, act in ways.items():
            print(f"{way:<8} mean return {mean_return(act, args.episodes):5.1f}")


if __name__ == "__main__":
    main()
