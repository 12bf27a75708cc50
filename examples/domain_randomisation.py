"""Domain randomisation with a curriculum: one policy balances poles from a quarter to four times the usual length.

    python examples/domain_randomisation.py                  # under a minute on two CPU cores
    jaxrl train ppo --env CartPole-v1 --params examples/domain_randomisation.py:draw

Every episode has a pole of its own. At first all poles are nearly alike; the range of lengths grows as training goes
on. For comparison, a second policy trains with the usual pole only.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

import jaxrl
from jaxrl.algos import ppo

WIDEST = 4.0  # the longest pole, as a multiple of the usual one, and the shortest, as a fraction


def draw(key: jax.Array, params: Any, progress: jax.Array) -> Any:
    """The parameters of one episode; `progress` is the share of the training that is done, 0 to 1."""
    widest = WIDEST ** jnp.minimum(2 * progress, 1)  # the whole range from half-time on
    scale = widest ** jax.random.uniform(key, minval=-1, maxval=1)
    return dataclasses.replace(params, half_length=params.half_length * scale)


def steps_upright(config: ppo.Config, lengths: jax.Array) -> jax.Array:
    """Train, then balance poles of each of these lengths: the mean steps of greedy episodes."""
    algo = ppo.make(config)
    state, _ = jax.jit(ppo.make_train(config))(jax.random.key(config.seed))
    env = jaxrl.make(config.env)  # without `draw`

    def played(length: jax.Array) -> jax.Array:
        params = dataclasses.replace(env.default_params, half_length=length)
        return jaxrl.evaluate(algo, env, state, jax.random.key(1), 64, params=params).lengths.mean()

    return jax.vmap(played)(lengths)


def main() -> None:
    """Train both policies and print how long each keeps which pole upright."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total-timesteps", type=int, default=300_000)
    usual = ppo.Config(env="CartPole-v1", total_timesteps=parser.parse_args().total_timesteps)
    randomised = dataclasses.replace(usual, params=f"{__file__}:draw")

    scales = WIDEST ** jnp.linspace(-1, 1, 5)
    lengths = jaxrl.make(usual.env).default_params.half_length * scales
    print("pole length      " + "".join(f"{scale:8.2f}" for scale in scales))
    for name, config in (("usual pole only", usual), ("randomised", randomised)):
        print(f"{name:<17}" + "".join(f"{steps:8.0f}" for steps in steps_upright(config, lengths)), flush=True)


if __name__ == "__main__":
    main()
