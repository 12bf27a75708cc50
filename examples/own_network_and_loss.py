"""A network and a loss of your own, in any algorithm.

    python examples/own_network_and_loss.py            # half a minute on two CPU cores
    jaxrl train ppo --env CartPole-v1 --network ./examples/own_network_and_loss.py:Residual

The network replaces the torso: it maps a batch of observations to features; memory, heads and the critic's own copy of
the torso stay jaxrl's. The loss adds a term to PPO's, which appears in the log by its name.
"""

from __future__ import annotations

import argparse
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

import jaxrl
from jaxrl.algos import ppo


class Residual(nn.Module):
    """Blocks with a way around them: `[..., D]` to `[..., width]`."""

    width: int = 64
    blocks: int = 2

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Dense(self.width)(x)
        for _ in range(self.blocks):
            x = x + nn.Dense(self.width)(nn.relu(nn.Dense(self.width)(nn.LayerNorm()(x))))
        return nn.LayerNorm()(x)


def regularised(agent: Any, h: Any, params: Any, batch: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    """PPO's loss and a small penalty on the weights."""
    total, facts = ppo.loss(agent, h, params, batch)
    squares = [jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params)]
    penalty = 1e-5 * jnp.stack(squares).sum()
    return total + penalty, {**facts, "penalty": penalty}


def main() -> None:
    """Train two seeds and print how well they play."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total-timesteps", type=int, default=100_000)
    config = ppo.Config(
        env="CartPole-v1", network=Residual, lr=1e-3, total_timesteps=parser.parse_args().total_timesteps
    )
    result = jaxrl.fit(ppo.make(config, loss=regularised), config, num_seeds=2, quiet=True)
    print(result)
    print("penalty:", result.metrics["losses/penalty"][-1].round(4))


if __name__ == "__main__":
    main()
