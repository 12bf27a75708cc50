"""Run by test_training.py with 2 forced devices: trains simple_tag on both and on one, prints what came out."""

import json
import sys

import jax
import numpy as np

import jaxrl
from jaxrl.algos import mappo
from jaxrl.train.devices.mesh import MeshShape

if __name__ == "__main__":
    config = mappo.Config(
        env="mpe/simple_tag?max_steps=6",
        num_envs=8,
        num_steps=8,
        total_timesteps=128,
        hidden=(8,),
        critic_hidden=(8,),
        num_shards=2,
    )
    outcome = {}
    for devices in (2, 1):
        folder = f"{sys.argv[1]}/{devices}"
        options = {"mesh": MeshShape(1, devices), "log_every": 1, "eval_episodes": 16, "quiet": True, "pictures": False}
        result = jaxrl.fit(mappo.make(config), config, folder, **options)
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(result.state.params)]
        outcome[devices] = {"params": np.concatenate(leaves).tolist(), "evaluation": result.evaluation}
    print(json.dumps(outcome))
