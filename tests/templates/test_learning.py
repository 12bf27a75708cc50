"""The scripts of `jaxrl new` learn what the library's algorithms learn (minutes: run by `make test-slow`)."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budgets import ON_POLICY, REPLAY

import jaxrl
from jaxrl.source_file import load_source

SPEED = load_source(Path(__file__).resolve().parents[2] / "baselines" / "speed" / "templates.py")

PROBES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("observation_action", ON_POLICY),
    "ppo_rnn": ("memory_recall", ON_POLICY | {"num_envs": 32, "total_timesteps": 512 * 150, "memory_size": 16}),
    "ippo": ("death", ON_POLICY),
    "mappo": ("hidden_state", ON_POLICY),
    "pqn": ("observation_action", ON_POLICY),
    "dqn": ("observation_action", REPLAY),
    "qmix": ("two_step", REPLAY | {"eps_decay": 0.8, "total_timesteps": 64 * 300}),
    "sac": ("continuous_action", REPLAY | {"gradient_steps": 16}),
}


def check(name: str, **fields: Any) -> None:
    """The intervals of both sides' mean returns, of five seeds each, overlap."""
    sides: tuple[np.ndarray, np.ndarray] = SPEED.learned(name, **fields)
    (low, high), (library_low, library_high) = map(SPEED.interval, sides)
    assert low <= library_high, sides
    assert library_low <= high, sides


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBES)
def test_probes_are_learned_as_well(name: str) -> None:
    probe, fields = PROBES[name]
    solution = jaxrl.make(f"probe/{probe}").solution
    check(name, env=f"probe/{probe}", gamma=solution.gamma, hidden=(16,) if name == "ppo_rnn" else (32,), **fields)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPEED.TASKS)
def test_small_tasks_are_learned_as_well(name: str) -> None:
    check(name, **SPEED.TASKS[name])


def test_both_sides_have_the_same_hyperparameters() -> None:
    for name, (_, fields) in PROBES.items():
        script = importlib.import_module(f"jaxrl.templates.{name}")
        config = script.Config(**fields)
        _, ours = SPEED.library(name, config)
        assert ours.lr == config.lr[0]
        assert (ours.hidden, ours.gamma, ours.num_updates) == (config.hidden, config.gamma, config.num_updates)
