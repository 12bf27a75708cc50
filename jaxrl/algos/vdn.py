"""VDN: a team learns one value, the sum of what its members expect of their own actions (Sunehag et al. 2018,
https://arxiv.org/abs/1706.05296). Run it: `python algos/vdn.py --env smax/3m`, or `jaxrl train vdn --env smax/3m`.

It is DQN (`jaxrl/algos/dqn.py` holds update and loss) with one error for each team. Each member acts greedily by its
own value; since values add up, that is greedy for the team. Only living members count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax

from jaxrl.acting.agent import Agent, act
from jaxrl.acting.rollout import team_sum
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import dqn, off_policy, pqn
from jaxrl.algos.config.rules import NUMBERS
from jaxrl.algos.config.values import ReplayHyperparams
from jaxrl.algos.iql import SPREAD, TeamQConfig
from jaxrl.algos.off_policy import Batch
from jaxrl.config import Allowed, check_config, check_loss

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamQConfig):
    """VDN's configuration. The defaults suit SMAX."""

    allowed: ClassVar[dict[str, Allowed]] = {"value_loss": NUMBERS}


PRESETS: dict[str, Config] = {
    "default": Config(),
    "mpe": Config(**SPREAD),
    "spread": Config(**SPREAD, shared_reward=True),  # part of each agent's reward is its own: this makes them a team
}


def team_loss(
    agent: Agent, h: ReplayHyperparams, params: Any, target: Any, batch: Batch
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """DQN's loss of the sum over a team's living members, which is the agent's `team_value`."""
    return dqn.loss(agent, h, params, target, batch, per_team=True)


def make(config: Config, loss: Any = team_loss) -> Algorithm:
    """VDN as three pure functions of the train state.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `team_loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    param_sets = config.param_sets(env)
    networks, behaviour = pqn.q_networks(config, env, param_sets), partial(pqn.explore, config)
    agent = Agent(config, env, param_sets, networks, loss, behaviour=behaviour, team_value=team_sum)
    return Algorithm(partial(off_policy.init, agent), partial(dqn.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[off_policy.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
