"""IQL: every agent of a team learns the values of its own actions, as if it were alone (Tan 1993; Tampuu et al. 2017,
https://doi.org/10.1371/journal.pone.0172395). Run it: `python algos/iql.py --env smax/3m`, or
`jaxrl train iql --env smax/3m`.

It is DQN (`jaxrl/algos/dqn.py` holds update and loss) with N agents that act at once; agents of one group share
parameters. A member that dies bootstraps from the mean value of its living team-mates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from jaxrl.acting.agent import Agent, act
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import dqn, off_policy, pqn
from jaxrl.algos.config.run import TeamLayer
from jaxrl.algos.config.values import ReplayQConfig
from jaxrl.config import Name, check_config, check_loss

__all__ = ["PRESETS", "Config", "TeamQConfig", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeamQConfig(TeamLayer, ReplayQConfig):
    """The fields that IQL, VDN and QMIX share."""

    env: Name = "smax/3m"
    total_timesteps: int = 2_000_000
    num_envs: int = 64
    num_steps: int = 16
    lr: float = 3e-3
    n_step: int = 3
    batch_size: int = 256
    learning_starts: int = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamQConfig):
    """IQL's configuration. The defaults suit SMAX."""


# In the particle world an episode has only 25 steps: gamma matches the short horizon.
SPREAD: dict[str, Any] = {"env": "mpe/simple_spread", "total_timesteps": 1_000_000, "gamma": 0.9, "lr": 4e-3}

PRESETS: dict[str, Config] = {"default": Config(), "mpe": Config(**SPREAD)}


def make(config: Config, loss: Any = dqn.loss) -> Algorithm:
    """IQL as three pure functions of the train state.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `dqn.loss`.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    param_sets = config.param_sets(env)
    networks, behaviour = pqn.q_networks(config, env, param_sets), partial(pqn.explore, config)
    agent = Agent(config, env, param_sets, networks, loss, behaviour=behaviour)
    return Algorithm(partial(off_policy.init, agent), partial(dqn.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[off_policy.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
