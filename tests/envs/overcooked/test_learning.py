"""Cooks learn to serve soups."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxrl.algos import ippo
from jaxrl.train.evaluate import evaluate


@pytest.mark.slow
def test_cooks_learn_to_serve_soups():
    config = dataclasses.replace(ippo.PRESETS["overcooked"], total_timesteps=1_000_000)
    state, _ = jax.jit(ippo.make_train(config))(jax.random.key(0))
    played = evaluate(ippo.make(config), config.make_env(), state, jax.random.key(1), 64, greedy=False)
    assert np.asarray(played.returns).mean() >= 200  # ten soups; who acts at random serves none
