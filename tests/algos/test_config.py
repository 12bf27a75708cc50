"""Configurations: what is wrong is said before anything runs, with a value that works."""

import dataclasses

import pytest

from jaxrl import algos
from jaxrl.algos import ippo
from jaxrl.registry import UnknownNameError


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
        ({"num_steps": -3}, "num_steps must be at least 1"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"gamma": 1.5}, "gamma must lie between 0 and 1"),
        ({"clip_eps": -0.1}, "clip_eps must not be negative"),
        ({"memory": "gruu"}, "memory must be one of none, gru, lstm, s5"),
        ({"num_envs": 100, "num_minibatches": 8}, r"num_envs=100 .* num_minibatches=8; use num_minibatches=5 or"),
        ({"num_envs": 100, "num_minibatches": 8}, r"or num_envs=104\."),
        ({"num_steps": 32, "sequence_length": 7}, r"num_steps=32 .* sequence_length=7; use sequence_length=4"),
        ({"total_timesteps": 100, "num_envs": 8, "num_steps": 32}, "use at least total_timesteps=256"),
        ({"hidden": ()}, "hidden needs at least one layer"),
    ],
)
def test_bad_values_are_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        ippo.Config(**fields)


def test_configs_are_frozen_and_counts_follow():
    config = ippo.Config(num_envs=4, num_steps=8, total_timesteps=1000)
    assert (config.steps_per_update, config.num_updates) == (32, 31)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.lr = 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_algorithms_are_found_by_name():
    assert algos.load("ippo") is ippo
    with pytest.raises(UnknownNameError, match="Did you mean ippo"):
        algos.load("ipo")


def test_continuous_actions_are_refused_with_a_reason(monkeypatch):
    from jaxrl.spaces import Box

    env = ippo.Config().make_env()
    monkeypatch.setattr(env, "action_space", lambda: Box(0.0, 1.0, (2,)))
    monkeypatch.setattr(ippo.Config, "make_env", lambda self: env)
    with pytest.raises(ValueError, match="needs discrete actions"):
        ippo.make(ippo.Config())
