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

__all__ = [
    "Train",
    "jaxmarl_ippo",
    "jaxmarl_ippo_config",
    "jaxmarl_ippo_script",
    "jaxmarl_script",
    "purejaxql_cartpole",
    "rejax_train",
]

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
    config = jaxmarl_ippo_config(checkout, "ippo_rnn_smax")
    steps = int(updates * config["NUM_ENVS"] * config["NUM_STEPS"])
    train, _ = jaxmarl_ippo_script(checkout, "ippo_rnn_smax", config | {"MAP_NAME": map_name, "TOTAL_TIMESTEPS": steps})
    return train, steps


def jaxmarl_ippo_config(checkout: Path, name: str) -> dict[str, Any]:
    """The configuration file of one of JaxMARL's scripts of IPPO."""
    return _read(checkout / "baselines" / "IPPO" / "config" / f"{name}.yaml")


def jaxmarl_ippo_script(checkout: Path, name: str, config: dict[str, Any]) -> tuple[Train, Any]:
    """One of JaxMARL's scripts of IPPO.

    Args:
        checkout: Of JaxMARL's repository.
        name: The script's, such as `"ippo_ff_hanabi"`.
        config: As in its configuration file.

    Returns:
        The run, and the script's module, which has its network.
    """
    script = _script(checkout / "baselines" / "IPPO" / f"{name}.py")
    return _of_old_key(script.make_train(config)), script


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
