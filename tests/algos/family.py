"""What the tests of the algorithms share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, make_collector, rollout_policy
from jaxrl.acting.rollout import Transition, rollout
from jaxrl.algos import dqn, ippo, iql, mappo, mat, ppo, pqn, pqn_vdn, qmix, sac, stream_ac, stream_q, td3, vdn
from jaxrl.rl.devices import shard_keys
from jaxrl.train.evaluate import evaluate
from jaxrl.train.programs import member_keys

MODULES = {
    "ppo": ppo,
    "ippo": ippo,
    "mappo": mappo,
    "mat": mat,
    "pqn": pqn,
    "pqn_vdn": pqn_vdn,
    "dqn": dqn,
    "iql": iql,
    "vdn": vdn,
    "qmix": qmix,
    "sac": sac,
    "td3": td3,
    "stream_q": stream_q,
    "stream_ac": stream_ac,
}


def agent_of(algo: Any) -> Agent:
    """What the algorithm's configuration was made into."""
    return algo.update.args[0]


def collect(algo: Any, state: Any, key: jax.Array) -> Transition:
    """A rollout with the state's parameters, outside of an update."""
    agent = agent_of(algo)
    config, collector = agent.config, make_collector(agent, state.update)
    _, keys = shard_keys(key, config.shards, collector.keys_per_step * config.num_steps)
    keys = keys.reshape(config.num_steps, collector.keys_per_step, -1)
    return rollout(collector, rollout_policy(agent, state), state.runner, keys, config.train_length)[1]


def greedy_returns(module: Any, config: Any, seed: int = 0) -> np.ndarray:
    """The mean greedy return of each of five seeds from `seed` on, which are trained at once."""
    algo, env = module.make(config), config.make_env()
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        states, _ = jax.jit(jax.vmap(module.make_train(config)))(member_keys(seed, 5))
        play = jax.vmap(lambda state, key: evaluate(algo, env, state, key, 256))
        played = play(states, member_keys(seed, 5, stream=1))
    return np.asarray(jnp.mean(played.returns, axis=1))
