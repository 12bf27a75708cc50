"""The cases of values.py: the configurations of other libraries, and ours with the same hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training_peers import Train, jaxmarl_script, purejaxql_cartpole, rejax_train

from jaxrl.algos import dqn, pqn, pqn_vdn, qmix, sac, td3, vdn

__all__ = ["Case", "cases"]


@dataclasses.dataclass
class Case:
    """A comparison."""

    peer: str
    algo: Any
    config: Any
    train: Callable[[], Train]
    """Makes the peer's run."""
    wanted: float
    """The ratio to the peer's speed."""


def cases(purejaxql: Path | None, jaxmarl: Path | None) -> dict[str, Case]:
    """All comparisons with what there is a checkout of, by name."""
    found = {}
    if purejaxql:
        found["pqn"] = _pqn(purejaxql, 24)
    if jaxmarl:
        found["pqn_vdn"] = _pqn_vdn(jaxmarl, 4)
        found["vdn"] = _replayed_team("vdn", vdn, jaxmarl, 129, {})
        found["qmix"] = _replayed_team("qmix", qmix, jaxmarl, 129, {"mixer_size": 32, "mixer_hidden": (128,)})
    for size, name, wanted in ((10_000, "1e4", 1.5), (1_000_000, "1e6", 5.0)):
        found[f"dqn, {name}"] = _dqn(size, 600 if size < 1e6 else 140, wanted)
        found[f"sac, {name}"] = _sac(size, 2000 if size < 1e6 else 500, wanted)
        found[f"td3, {name}"] = _td3(size, 1000 if size < 1e6 else 250, wanted)
    return found


def _pqn(checkout: Path, updates: int) -> Case:
    """On CartPole, as in pqn_cartpole.yaml."""
    config = pqn.Config(
        total_timesteps=updates * 32 * 64,
        num_envs=32,
        num_steps=64,
        num_minibatches=16,
        update_epochs=4,
        hidden=(256, 256),
        lr=1e-4,
        eps_finish=0.2,
        q_lambda=0.95,
        normalise_reward=False,
    )
    return Case("PureJaxQL", pqn, config, lambda: purejaxql_cartpole(checkout, updates), 1.5)


def _pqn_vdn(checkout: Path, updates: int) -> Case:
    """On simple_spread, as in pqn_vdn_rnn_mpe.yaml."""
    config = pqn_vdn.Config(
        env="mpe/simple_spread",
        shared_reward=True,
        total_timesteps=updates * 256 * 16,
        num_envs=256,
        num_steps=16,
        num_minibatches=16,
        update_epochs=4,
        hidden=(256, 256),
        memory="gru",
        memory_size=256,
        lr=5e-4,
        anneal_lr=False,
        max_grad_norm=1.0,
        eps_finish=0.1,
        eps_decay=0.1,
        gamma=0.9,
        q_lambda=0.3,
        normalise_reward=False,
        sharing="all",
    )
    script = lambda: jaxmarl_script(checkout, "pqn_vdn_rnn", "pqn_vdn_rnn_mpe", updates)  # noqa: E731
    return Case("JaxMARL", pqn_vdn, config, script, 1.7)


def _replayed_team(name: str, module: Any, checkout: Path, updates: int, mixer: dict[str, Any]) -> Case:
    """On simple_spread, as in ql_rnn_mpe.yaml: whole episodes, from the 49th rollout on a minibatch of 32 of them."""
    config = module.Config(
        env="mpe/simple_spread",
        shared_reward=True,
        total_timesteps=updates * 8 * 26,
        num_envs=8,
        num_steps=26,
        buffer_size=5000 * 26,
        batch_size=32,
        gradient_steps=1,
        learning_starts=10_000,
        hidden=(64,),
        layer_norm=False,
        memory="gru",
        memory_size=64,
        lr=5e-3,
        optimizer="radam",
        max_grad_norm=25.0,
        tau=1.0,
        target_update_interval=200,
        n_step=1,
        gamma=0.9,
        eps_decay=0.1,
        sharing="all",
        **mixer,
    )
    script = lambda: jaxmarl_script(checkout, f"{name}_rnn", "ql_rnn_mpe", updates)  # noqa: E731
    return Case("JaxMARL", module, config, script, 1.7)


def _dqn(buffer_size: int, updates: int, wanted: float) -> Case:
    """On CartPole, as in rejax's cartpole.yaml: ten steps, then five minibatches of 100."""
    config = dqn.Config(
        total_timesteps=updates * 10,
        num_envs=10,
        num_steps=1,
        buffer_size=buffer_size,
        batch_size=100,
        gradient_steps=5,
        learning_starts=1010,
        hidden=(64, 64),
        dueling=True,
        activation="silu",
        layer_norm=False,
        n_step=1,
        lr=1e-3,
        anneal_lr=False,
        tau=0.02,
        target_update_interval=5,
        eps_decay=0.5,
    )
    settings = {
        "env": "CartPole-v1",
        "agent": "DuelingQNetwork",
        "agent_kwargs": {"activation": "swish"},
        "num_envs": 10,
        "buffer_size": buffer_size,
        "fill_buffer": 1000,
        "batch_size": 100,
        "max_grad_norm": 10,
        "learning_rate": 1e-3,
        "num_epochs": 5,
        "polyak": 0.98,
        "exploration_fraction": 0.5,
    }
    return Case("rejax", dqn, config, lambda: rejax_train("DQN", updates, settings), wanted)


_PENDULUM: dict[str, Any] = {"env": "classic/pendulum", "num_envs": 1, "hidden": (64, 64), "activation": "silu"}
_REJAX_PENDULUM: dict[str, Any] = {"env": "Pendulum-v1", "num_envs": 1, "normalize_observations": True}


def _sac(buffer_size: int, updates: int, wanted: float) -> Case:
    """On Pendulum, as in rejax's pendulum.yaml: a minibatch of 256 for each step."""
    config = sac.Config(
        **_PENDULUM,
        total_timesteps=updates,
        num_steps=1,
        buffer_size=buffer_size,
        batch_size=256,
        gradient_steps=1,
        learning_starts=257,
        normalise_obs=True,
        lr=1e-2,
        anneal_lr=False,
        tau=0.02,
    )
    settings = _REJAX_PENDULUM | {
        "agent_kwargs": {"activation": "swish"},
        "buffer_size": buffer_size,
        "fill_buffer": 256,
        "batch_size": 256,
        "learning_rate": 1e-2,
        "polyak": 0.98,
    }
    return Case("rejax", sac, config, lambda: rejax_train("SAC", updates, settings), wanted)


def _td3(buffer_size: int, updates: int, wanted: float) -> Case:
    """On Pendulum, as in rejax's pendulum.yaml, except that it begins to learn sooner: a minibatch of 100 for each
    step, and for every second one a step of the actor.
    """
    config = td3.Config(
        **_PENDULUM,
        total_timesteps=updates * 2,
        num_steps=2,
        buffer_size=buffer_size,
        batch_size=100,
        gradient_steps=2,
        policy_delay=2,
        learning_starts=258,
        normalise_obs=True,
        lr=1e-3,
        anneal_lr=False,
        tau=0.05,
    )
    settings = _REJAX_PENDULUM | {
        "actor_kwargs": {"activation": "swish"},
        "critic_kwargs": {"activation": "swish"},
        "buffer_size": buffer_size,
        "fill_buffer": 256,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "max_grad_norm": 100,
        "polyak": 0.95,
        "policy_delay": 2,
    }
    return Case("rejax", td3, config, lambda: rejax_train("TD3", updates, settings), wanted)
