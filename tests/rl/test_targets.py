"""Target networks move as often, and as far, as they should."""

import numpy as np
import pytest

from jaxrl.rl.targets import update_target


@pytest.mark.parametrize(("tau", "interval", "moves"), [(0.1, 1, 7), (0.3, 2, 3), (1.0, 4, 1), (1.0, 8, 0)])
def test_a_target_moves_when_it_is_due(tau, interval, moves):
    """After k moves towards parameters that rest, the share (1 - tau)^k of the distance is left."""
    target = {"kernel": np.ones(2, np.float32)}
    for step in range(1, 8):
        target = update_target({"kernel": np.zeros(2, np.float32)}, target, tau, step, interval)
    np.testing.assert_allclose(target["kernel"], (1 - tau) ** moves, atol=1e-6)
