"""What the tests of the algorithms share."""

from __future__ import annotations

from typing import Any

import jax

from jaxrl.algos import ippo, mappo, ppo
from jaxrl.algos.agent import Parts
from jaxrl.algos.rollout import Eyes, Transition, rollout
from jaxrl.rl.devices import shard_keys
from jaxrl.vector import VectorEnv

MODULES = {"ppo": ppo, "ippo": ippo, "mappo": mappo}


def parts_of(algo: Any) -> Parts:
    """What the algorithm's configuration was made into."""
    return algo.update.args[0]


def collect(algo: Any, state: Any, key: jax.Array) -> Transition:
    """A rollout with the state's parameters, outside of an update."""
    parts = parts_of(algo)
    config = parts.config

    def policy(carry, view, reset):
        carry, distribution, prediction = parts.networks.apply(state.params, carry, view, reset)
        return carry, distribution, config.value.decode(prediction)

    eyes = Eyes(VectorEnv(parts.env, config.num_envs), parts.central, config.shards)
    _, keys = shard_keys(key, config.shards, eyes.keys_per_step * config.num_steps)
    keys = keys.reshape(config.num_steps, eyes.keys_per_step, -1)
    return rollout(eyes, policy, state.loop, keys, config.train_length)[1]
