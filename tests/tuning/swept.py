"""The toy with a learning rate that members may differ in, and sweeps of it; with lr = 0 its loss is infinite."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import toy_algorithm as toy

import jaxrl
from jaxrl.algorithm import Algorithm, Nested, Replicated
from jaxrl.algos import ppo
from jaxrl.train.folder.run_folder import JsonLines
from jaxrl.train.metrics import columns


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    lr: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    toy: Nested[toy.State]
    hyperparams: Replicated[Hyperparams]

    @property
    def params(self) -> Any:
        return self.toy.params


@dataclasses.dataclass(frozen=True)
class Config(toy.Config):
    @property
    def hyperparams(self) -> Hyperparams:
        return Hyperparams(np.float32(self.lr))


def make(config: Config) -> Algorithm:
    plain = toy.make(config)

    def init(key: jax.Array, hyperparams: Any = None) -> State:
        chosen = config.hyperparams if hyperparams is None else hyperparams
        return State(plain.init(key), jax.tree.map(jnp.float32, chosen))

    def update(state: State) -> Any:
        after, metrics = toy.make(dataclasses.replace(config, lr=state.hyperparams.lr)).update(state.toy)
        return State(after, state.hyperparams), metrics

    def act(state: State, obs: Any, carry: Any = None, key: Any = None, **given: Any) -> Any:
        return plain.act(state.toy, obs, carry, key, **given)

    return Algorithm(init, update, act)


PRESETS = {"default": Config()}
TOY = sys.modules[__name__]
CONFIG = Config()
OPTIONS: dict[str, Any] = {"eval_episodes": 8, "quiet": True}
PPO_CONFIG = ppo.Config(
    env="probe/observation_action", num_envs=4, num_steps=8, total_timesteps=4 * 8 * 3, hidden=(4,), num_shards=1
)


def curves(run: Path) -> dict[str, np.ndarray]:
    """The columns of a run that do not tell the time."""
    table = columns(JsonLines(run / "metrics.jsonl").read())
    return {name: values for name, values in table.items() if name not in ("seconds", "steps_per_second")}


def sweep_toys(folder: Path | None, **changed: Any) -> Any:
    options = {"lr": [0.25, 1.0], "num_envs": [2, 4], "seeds": 2, "max_members": 2, **OPTIONS, **changed}
    return jaxrl.sweep(TOY, CONFIG, folder, **options)
