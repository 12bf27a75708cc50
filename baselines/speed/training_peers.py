"""The training loops of other libraries as functions that can be compiled: what values.py and race.py measure.

The scripts of PureJaxQL and JaxMARL are imported from a checkout and run as they are, with their configuration files.
Only what belongs to their command lines (hydra, omegaconf, wandb) is left out, and with it logging and the evaluation
during training, which ours does not have either; IPPO's script still calls its host once an update.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import yaml

__all__ = ["Train", "jaxmarl_hanabi", "jaxmarl_ippo", "jaxmarl_script", "purejaxql_cartpole", "rejax_train"]

Train = Callable[[jax.Array], Any]
"""A whole run, given a key."""


def purejaxql_cartpole(checkout: Path, updates: int) -> Train:
    """PureJaxQL's PQN on gymnax's CartPole."""
    script = _script(checkout / "purejaxql" / "pqn_gymnax.py")
    config = _read(checkout / "purejaxql" / "config" / "alg" / "pqn_cartpole.yaml")
    config |= _without_logging(updates * config["NUM_ENVS"] * config["NUM_STEPS"])
    return _of_old_key(script.make_train(config))


def jaxmarl_script(checkout: Path, name: str, settings: str, updates: int, **changes: Any) -> Train:
    """A script of JaxMARL's that learns the values of a team's actions.

    Args:
        checkout: Of JaxMARL's repository.
        name: The script's, such as `"vdn_rnn"`.
        settings: The name of its configuration.
        updates: Of the run.
        **changes: Of the configuration.
    """
    folder = checkout / "baselines" / "QLearning"
    script, config = _script(folder / f"{name}.py"), _read(folder / "config" / "alg" / f"{settings}.yaml") | changes
    config |= _without_logging(updates * config["NUM_ENVS"] * config["NUM_STEPS"])
    env, _ = script.env_from_config(config)
    return _of_old_key(script.make_train(config, env))


def jaxmarl_ippo(checkout: Path, map_name: str, updates: int) -> tuple[Train, int]:
    """JaxMARL's `ippo_rnn_smax.py` on a map of SMAX, and the environment steps of so many updates."""
    folder = checkout / "baselines" / "IPPO"
    script, config = _script(folder / "ippo_rnn_smax.py"), _read(folder / "config" / "ippo_rnn_smax.yaml")
    steps = int(updates * config["NUM_ENVS"] * config["NUM_STEPS"])
    config |= {"MAP_NAME": map_name, "TOTAL_TIMESTEPS": steps}
    return _of_old_key(script.make_train(config)), steps


def jaxmarl_hanabi(checkout: Path, steps: int, log: Callable[[dict[str, Any]], None]) -> tuple[Train, Any, int]:
    """JaxMARL's `ippo_ff_hanabi.py`, with its configuration but for the number of steps.

    Args:
        checkout: Of JaxMARL's repository.
        steps: Environment steps of the run.
        log: Takes what the script logs of each update: `"env_step"` and `"returns"`.

    Returns:
        The run; the network, whose `apply(params, (obs, done, mask))` gives a policy and values; and the steps of the
        run, those of whole updates.
    """
    folder = checkout / "baselines" / "IPPO"
    script, config = _script(folder / "ippo_ff_hanabi.py"), _read(folder / "config" / "ippo_ff_hanabi.yaml")
    script.wandb.log = log
    train = _of_old_key(script.make_train(config | {"TOTAL_TIMESTEPS": steps}))
    num_actions = script.jaxmarl.make(config["ENV_NAME"]).action_spaces["agent_0"].n
    update = int(config["NUM_ENVS"] * config["NUM_STEPS"])
    return train, script.ActorCritic(num_actions, config=config), steps // update * update


def rejax_train(name: str, updates: int, settings: dict[str, Any]) -> Train:
    """An algorithm of rejax, without its evaluations.

    Args:
        name: `"DQN"`, `"SAC"` or `"TD3"`.
        updates: Training iterations of the run.
        settings: Its configuration.
    """
    import rejax

    steps = updates * settings["num_envs"] * settings.get("policy_delay", 1)
    run = {"total_timesteps": steps, "eval_freq": steps, "skip_initial_evaluation": True}
    algo = getattr(rejax, name).create(**settings, **run)
    return _of_old_key(algo.replace(eval_callback=lambda *_: jnp.zeros(())).train)


def _script(path: Path) -> Any:
    """The module in a file."""
    command_line = {name: mock.MagicMock() for name in ("hydra", "omegaconf", "wandb")}
    spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = {name: sys.modules[name] for name in command_line if name in sys.modules}
    sys.modules.update(command_line)
    try:
        spec.loader.exec_module(module)
    finally:
        for name in command_line:
            del sys.modules[name]
        sys.modules.update(before)
    return module


def _read(path: Path) -> dict[str, Any]:
    """A configuration file; numbers such as 1e7, which YAML takes for words, become numbers."""

    def number(value: Any) -> Any:
        try:
            return float(value) if isinstance(value, str) else value
        except ValueError:
            return value

    return {name: number(value) for name, value in yaml.safe_load(path.read_text()).items()}


def _without_logging(steps: int) -> dict[str, Any]:
    """Changes of a configuration: so many steps, and nothing that is not training."""
    lengths = {"TOTAL_TIMESTEPS": steps, "TOTAL_TIMESTEPS_DECAY": steps}
    # Test environments are made even if nothing is tested.
    return {**lengths, "TEST_DURING_TRAINING": False, "TEST_NUM_ENVS": 1, "WANDB_MODE": "disabled"}


def _of_old_key(train: Callable[[jax.Array], Any]) -> Train:
    """The run of a typed key, for a library that takes the other kind."""
    return lambda key: train(jax.random.key_data(key))
