"""PQN-VDN: PQN for teams that share a reward, by value decomposition (Gallici et al. 2024,
https://arxiv.org/abs/2407.04811; Sunehag et al. 2018, https://arxiv.org/abs/1706.05296). Run it:
`python algos/pqn_vdn.py --env smax/3m`, or `jaxrl train pqn_vdn --env smax/3m`.

It is PQN (`jaxrl/algos/pqn.py` holds networks, update and loss) with one value for a team: the sum of the values that
its living members give to their own actions. The sum is learned, so each member learns what its action adds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from jaxrl.acting.agent import Agent, act
from jaxrl.acting.rollout import team_share, team_sum
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import ppo, pqn
from jaxrl.algos.config.run import TeamLayer
from jaxrl.algos.config.values import QConfig
from jaxrl.algos.config.values import QHyperparams as Hyperparams
from jaxrl.config import Name, check_config, check_loss

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamLayer, QConfig):
    """PQN-VDN's configuration."""

    env: Name = "smax/3m"
    total_timesteps: int = 4_000_000
    num_envs: int = 128
    num_steps: int = 32
    lr: float = 3e-3
    q_lambda: float = 0.85


# An episode has only 25 steps: gamma and lambda match the short horizon.
_MPE: dict[str, Any] = {
    "env": "mpe/simple_spread",
    "total_timesteps": 1_000_000,
    "num_minibatches": 8,
    "lr": 6e-3,
    "gamma": 0.9,
    "q_lambda": 0.5,
}

# A soup is many steps away from its reward, and is found by chance. Shaped rewards go to the team as well.
_KITCHEN: dict[str, Any] = {
    "num_envs": 64,
    "lr": 1e-3,
    "q_lambda": 0.9,
    "normalise_reward": True,
    "shared_reward": True,
    "eps_decay": 0.5,
}

PRESETS: dict[str, Config] = {
    "default": Config(),
    "3m": Config(total_timesteps=6_000_000, optimizer="muon"),
    "mpe": Config(**_MPE),
    "spread": Config(**_MPE, shared_reward=True),  # part of each agent's reward is its own: this makes them a team
    "overcooked": Config(env="overcooked/cramped_room?observe=vector", total_timesteps=2_000_000, **_KITCHEN),
    "counter_circuit": Config(
        env="overcooked/counter_circuit?observe=vector",
        params="jaxrl.envs.overcooked.stages:full_counters",
        total_timesteps=3_000_000,
        **_KITCHEN,
    ),
    "hanabi": Config(env="hanabi/2p", total_timesteps=10_000_000, optimizer="muon"),
    # The agents have to remember who was in the room.
    "switch_riddle": Config(env="switch_riddle?deadline=terminates", total_timesteps=1_000_000, memory="gru"),
    # A third of random actions tells and so ends the riddle: with fewer of them, agents see more of what comes later.
    "switch_riddle_history": Config(
        env="switch_riddle?deadline=terminates&observe=history",
        total_timesteps=1_000_000,
        q_lambda=0.95,
        eps_start=0.2,
        eps_decay=0.5,
    ),
}


def team_loss(agent: Agent, h: Hyperparams, params: Any, batch: pqn.Batch) -> tuple[jax.Array, dict[str, jax.Array]]:
    """PQN's loss with one error for each team that has a living member, however many they are."""
    return pqn.loss(agent, h, params, batch, team_share(batch.observation.agent_mask, agent.env.teams))


def make(config: Config, loss: Any = team_loss) -> Algorithm:
    """PQN-VDN as three pure functions of the train state."""
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    param_sets = config.param_sets(env)
    networks, behaviour = pqn.q_networks(config, env, param_sets), partial(pqn.explore, config)
    agent = Agent(config, env, param_sets, networks, loss, behaviour=behaviour, team_value=team_sum)
    return Algorithm(partial(ppo.init, agent), partial(pqn.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[ppo.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
