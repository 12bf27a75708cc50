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
        ({"target_kl": 0.0}, "target_kl must be positive"),
        ({"value_loss": "mae"}, "value_loss must be one of mse, hlgauss"),
        ({"value_range": (1.0, -1.0)}, "value_range needs its lower end first"),
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


@pytest.mark.parametrize(
    ("fields", "shards"),
    [
        ({}, 8),  # 16 environments each, of 32 steps
        ({"memory": "gru"}, 8),  # 16 sequences each, for 4 minibatches
        ({"memory": "gru", "num_envs": 16}, 4),  # with 8 there would be 2 sequences for 4 minibatches
        ({"num_envs": 100}, 5),
        ({"num_shards": 1}, 1),
    ],
)
def test_shards_are_as_many_as_split_everything_evenly(fields, shards):
    assert ippo.Config(**fields).shards == shards
