"""What the tests of the algorithms share."""

from __future__ import annotations

from typing import Any

import jax

from jaxrl.acting.agent import Agent
from jaxrl.acting.rollout import Collector, Transition, rollout
from jaxrl.algos import ippo, mappo, ppo
from jaxrl.rl.devices import shard_keys
from jaxrl.vector import VectorEnv

MODULES = {"ppo": ppo, "ippo": ippo, "mappo": mappo}


def agent_of(algo: Any) -> Agent:
    """What the algorithm's configuration was made into."""
    return algo.update.args[0]


def collect(algo: Any, state: Any, key: jax.Array) -> Transition:
    """A rollout with the state's parameters, outside of an update."""
    agent = agent_of(algo)
    config = agent.config

    def policy(carry, observation, reset):
        carry, distribution, prediction = agent.networks.apply(state.params, carry, observation, reset)
        return carry, distribution, config.value.decode(prediction)

    collector = Collector(VectorEnv(agent.env, config.num_envs), agent.central, config.shards)
    _, keys = shard_keys(key, config.shards, collector.keys_per_step * config.num_steps)
    keys = keys.reshape(config.num_steps, collector.keys_per_step, -1)
    return rollout(collector, policy, state.runner, keys, config.train_length)[1]
