"""The presets of PPO solve classic control, five seeds of five (minutes: run by `make test-slow`)."""

import numpy as np
import pytest
from family import greedy_returns

from jaxrl.algos import ppo


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
    returns = greedy_returns(ppo, ppo.PRESETS[preset])
    assert np.all(returns >= wanted), returns
