"""Cross-play: do agents that have never met understand each other?

    python examples/cross_play.py          # about two minutes on two CPU cores

A speaker sees which landmark is the goal and a listener moves; they have three words. Each seed invents a language of
its own, so a speaker and a listener of one seed play well, and those of different seeds do not. All seeds train in one
program, and all pairs play in another.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

import jaxrl
from jaxrl.algos import mappo


def pair(states: Any, speaker: jax.Array, listener: jax.Array) -> Any:
    """A train state with one seed's speaker and another seed's listener.

    The agents have different roles, so each has its own set of parameters, the first axis after the seeds'.
    """
    actor = jax.tree.map(lambda leaf: jnp.stack([leaf[speaker, 0], leaf[listener, 1]]), states.params["actor"])
    state = jax.tree.map(lambda leaf: leaf[speaker], states)
    return dataclasses.replace(state, params={**state.params, "actor": actor})


def main() -> None:
    """Train the seeds, then print the mean return of each speaker (row) with each listener (column)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total-timesteps", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    flags = parser.parse_args()
    if flags.seeds < 2:
        parser.error(f"--seeds must be at least 2, so that there is another's partner, got {flags.seeds}")
    config = dataclasses.replace(mappo.PRESETS["speaker_listener"], total_timesteps=flags.total_timesteps)
    algo, env = mappo.make(config), config.make_env()
    seeds = jnp.arange(flags.seeds)

    states, _ = jax.jit(jax.vmap(mappo.make_train(config)))(jax.random.split(jax.random.key(0), flags.seeds))

    def play(speaker: jax.Array, listener: jax.Array) -> jax.Array:
        return jaxrl.evaluate(algo, env, pair(states, speaker, listener), jax.random.key(1), 256).returns.mean()

    returns = jax.jit(jax.vmap(jax.vmap(play, (None, 0)), (0, None)))(seeds, seeds)
    print("speaker \\ listener" + "".join(f"{seed:9}" for seed in range(flags.seeds)))
    for seed, row in enumerate(returns):
        print(f"{seed:18}" + "".join(f"{value:9.1f}" for value in row))
    own = jnp.trace(returns) / flags.seeds
    others = (returns.sum() - jnp.trace(returns)) / (flags.seeds * (flags.seeds - 1))
    print(f"with their own partner {own:.1f}, with another's {others:.1f}")


if __name__ == "__main__":
    main()
