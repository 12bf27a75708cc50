"""IPPO: every agent learns by proximal policy optimisation from its own observation (de Witt et al. 2020,
https://arxiv.org/abs/2011.09533). Run it: `python algos/ippo.py --env smax/3m`, or `jaxrl train ippo --env smax/3m`.

It is PPO (`jaxrl/algos/ppo.py` holds rollout, update and loss) with N agents that act at once; agents of one group
share parameters. Dead agents contribute no loss; they get the value of their living team-mates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from jaxrl.acting.agent import act, own_numbers
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import ppo
from jaxrl.algos.config.learning import OptimizerName, PolicyLayer
from jaxrl.algos.config.rules import has_memory
from jaxrl.algos.config.run import TeamLayer
from jaxrl.algos.team import team_agent
from jaxrl.config import NOT_NEGATIVE, Allowed, Effect, Name, check_config, check_loss
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.spaces import Box

__all__ = ["HANABI", "KITCHENS", "PRESETS", "Config", "TeamConfig", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeamConfig(TeamLayer, PolicyLayer):
    """The fields that IPPO and MAPPO add."""

    env: Name = "smax/3m"
    total_timesteps: int = 4_400_000
    num_envs: int = 128
    num_steps: int = 32
    optimizer: OptimizerName = "muon"
    lr: float = 3e-3
    gae_lambda: float = 0.97
    clip_eps: float = 0.1
    ent_coef: float = 0.005
    agents_per_step: int = 0
    """Agents of each step to learn from, drawn from the living; 0 means all. Team-mates have much the same experience,
    so a few of a large team are enough, and take less time."""

    allowed: ClassVar[dict[str, Allowed]] = {"agents_per_step": NOT_NEGATIVE}
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("agents_per_step", ("memory",), lambda c, e: not has_memory(c, e), "choose memory=none"),
    )

    def make_env(self) -> MultiAgentEnvironment:
        """The environment that `env` names; a single-agent one becomes a team of one.

        Raises:
            ValueError: See `SharingLayer.make_env`, or `agents_per_step` agents cannot be drawn.
        """
        env = super().make_env()
        param_sets, count = self.param_sets(env), self.agents_per_step
        if count >= len(param_sets):
            raise ValueError(
                f"agents_per_step={count} leaves out no agent of {self.env}, which has {len(param_sets)}; use fewer, "
                f"or 0 for all."
            )
        if count and max(param_sets):
            raise ValueError(
                f"agents_per_step={count} draws from agents that share their parameters, and those of {self.env} have "
                f"{max(param_sets) + 1} sets; use sharing=all, or agents_per_step=0."
            )
        if count and isinstance(env.action_space(), Box) and not own_numbers(env).all():
            raise ValueError(
                f"agents_per_step={count} draws from agents whose actions have equally many numbers, unlike those of "
                f"{self.env}; use agents_per_step=0."
            )
        return env


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamConfig):
    """IPPO's configuration. The defaults suit all of SMAX; `PRESETS["smax"]` wins more, by networks of units."""


# In the particle world, returns are larger than SMAX's and an episode has only 25 steps: the critic must neither
# dominate the policy in a shared torso nor be held back by clipping, and gamma matches the short horizon. With Muon,
# steps three times as large as SMAX's win much; see baselines/history.md.
_MPE: dict[str, Any] = {
    "lr": 1e-2,
    "gamma": 0.95,
    "clip_value": False,
    "share_torso": False,
}

# Returns grow from a few shaped points to hundreds, so rewards are scaled, and the critic has a torso of its own. A
# large entropy bonus finds the hatch; it falls to zero, because cooks who hesitate are in each other's way.
_KITCHEN: dict[str, Any] = {
    "num_envs": 64,
    "num_steps": 128,
    "optimizer": "adam",
    "lr": 1e-3,
    "gae_lambda": 0.95,
    "clip_eps": 0.2,
    "ent_coef": 0.1,
    "anneal_ent": True,
    "clip_value": False,
    "normalise_reward": True,
    "activation": "relu",
    "share_torso": False,
}

# The kitchens' presets, which mappo has as well.
KITCHENS: dict[str, dict[str, Any]] = {
    "overcooked": {"env": "overcooked/cramped_room?observe=vector", "total_timesteps": 2_000_000, **_KITCHEN},
    # Cooks who put soups down wherever there is place find the far hatch once there is none.
    "counter_circuit": {
        "env": "overcooked/counter_circuit?observe=vector",
        "params": "jaxrl.envs.overcooked.stages:full_counters",
        "total_timesteps": 3_000_000,
        **_KITCHEN,
    },
    "overcooked_v2": {"env": "overcooked_v2/cramped_room", "total_timesteps": 1_000_000, **_KITCHEN},
}

# Half of all actions are waiting, so there is less to learn from a rollout than it seems: two epochs are enough. A team
# that looks far ahead fears for its points and hardly plays; see docs/hanabi.md. mappo has these fields as well.
HANABI: dict[str, Any] = {
    "env": "hanabi/2p",
    "params": "jaxrl.envs.hanabi.stages:kept_points",
    "total_timesteps": 10_000_000,
    "hidden": (128, 128),
    "activation": "relu",
    "gamma": 0.97,
    "gae_lambda": 0.9,
    "clip_eps": 0.2,
    "ent_coef": 0.01,
    "clip_value": False,
    "update_epochs": 2,
}

# Outnumbered teams tend to get stuck with meeting the enemy head on. With costly losses, a long horizon, and features
# of who is near whom, they find out that they can hide and ambush.
_OUTNUMBERED: dict[str, Any] = {
    "torso": "relations",
    "gamma": 0.995,
    "params": "jaxrl.envs.smax.stages:costly_losses",
}

PRESETS: dict[str, Config] = {
    "default": Config(),
    # Networks that know units; see docs/what_works_on_smax.md for what they cost and win.
    "smax": Config(env="smax/2s3z", total_timesteps=4_000_000, torso="entities"),
    # Four layers and little entropy win the last per cent of 3m, and lose 3s5z_vs_3s6z entirely.
    "3m": Config(total_timesteps=4_000_000, hidden=(64, 64, 64, 64), gae_lambda=0.95, ent_coef=0.002),
    "8m": Config(env="smax/8m", total_timesteps=8_000_000, torso="entities"),
    "5m_vs_6m": Config(env="smax/5m_vs_6m", total_timesteps=5_000_000, **_OUTNUMBERED),
    "10m_vs_11m": Config(env="smax/10m_vs_11m", total_timesteps=4_000_000, **_OUTNUMBERED),
    # Where every battle is another one, far rewards say little about an action; see docs/what_works_on_smax.md.
    "smacv2_5_units": Config(env="smax/smacv2_5_units", total_timesteps=10_000_000, torso="entities", gamma=0.97),
    "smacv2_10_units": Config(env="smax/smacv2_10_units", total_timesteps=3_000_000, torso="entities", gamma=0.97),
    "smacv2_20_units": Config(env="smax/smacv2_20_units", total_timesteps=2_000_000, torso="entities", gamma=0.97),
    # Thousands of environments keep an accelerator busy; minibatches grow with them, and there are as many steps of
    # the optimiser for a rollout as by default, so that learning takes more environment steps and less time.
    "gpu": Config(total_timesteps=20_000_000, num_envs=2048, num_minibatches=8),
    "mpe": Config(env="mpe/simple_spread", total_timesteps=1_000_000, **_MPE),
    # As a team, everyone takes only their own coins. Coins come after a step or two, so gamma is small.
    "coin_game": Config(
        env="coin_game",
        total_timesteps=400_000,
        shared_reward=True,
        gamma=0.9,
        gae_lambda=0.9,
        clip_value=False,
        ent_coef=0.01,
        anneal_ent=True,
        hidden=(128, 128),
        activation="relu",
        share_torso=False,
    ),
    **{name: Config(**fields) for name, fields in KITCHENS.items()},
    "hanabi": Config(**HANABI),
    # Three strengths of a push are enough to run anywhere, and are learned sooner than eleven. Memory, larger layers
    # and Adam learn more slowly here.
    "hide_and_seek": Config(
        env="hide_and_seek/chase?num_buckets=3",
        total_timesteps=3_000_000,
        clip_eps=0.2,
        clip_value=False,
        normalise_reward=True,
        share_torso=False,
    ),
    # Larger steps without a bonus for entropy learn to stand still, which is safe, before they find a goal.
    "jaxnav": Config(
        env="jaxnav/random",
        total_timesteps=10_000_000,
        reset="pool",
        num_steps=64,
        optimizer="adam",
        lr=3e-4,
        anneal_lr=False,
        gae_lambda=0.95,
        clip_eps=0.2,
        ent_coef=0.01,
        normalise_reward=True,
    ),
    # Config of JaxMARL's ippo_rnn_smax.
    "jaxmarl": Config(
        optimizer="adam",
        num_envs=128,
        num_steps=128,
        total_timesteps=10_000_000,
        lr=4e-3,
        gae_lambda=0.95,
        clip_eps=0.05,
        ent_coef=0.01,
        max_grad_norm=0.25,
        hidden=(128,),
        activation="relu",
        memory="gru",
        memory_size=128,
        head_hidden=(128,),
    ),
}


def make(config: Config, loss: Any = ppo.loss) -> Algorithm:
    """IPPO as three pure functions of the train state."""
    check_config(config, Config)
    loss = check_loss(loss, make)
    agent = team_agent(config, config.make_env(), ppo.actor_critic, loss)
    return Algorithm(partial(ppo.init, agent), partial(ppo.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[ppo.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
