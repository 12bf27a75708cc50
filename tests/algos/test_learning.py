"""The presets of PPO solve classic control, five seeds of five (minutes: run by `make test-slow`)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algos import ppo
from jaxrl.train.evaluate import evaluate
from jaxrl.train.programs import member_keys


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "wanted"),
    [
        ("default", 475.0),
        ("acrobot", -90.0),
        ("pendulum", -200.0),
        ("mountain_car", -130.0),
        ("mountain_car_continuous", 90.0),
    ],
)
def test_five_seeds_at_once(preset, wanted):
    config = ppo.PRESETS[preset]
    algo, env = ppo.make(config), config.make_env()
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        states, _ = jax.jit(jax.vmap(ppo.make_train(config)))(member_keys(0, 5))
        played = jax.vmap(lambda state, key: evaluate(algo, env, state, key, 256))(states, member_keys(0, 5, stream=1))
    returns = np.asarray(jnp.mean(played.returns, axis=1))
    assert np.all(returns >= wanted), returns
