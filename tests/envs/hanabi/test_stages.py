"""Points that the team keeps at first, although it has lost its last life."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.hanabi.stages import kept_points


@pytest.mark.parametrize("own", [1.0, 0.5])
def test_points_are_kept_at_first_and_lost_as_they_should_be_in_the_end(own: float) -> None:
    params = dataclasses.replace(jaxrl.make("hanabi/2p").default_params, lost_share=np.float32(own))
    at = np.array([0, 0.3, 0.5, 0.7, 1], np.float32)
    now = [kept_points(jax.random.key(0), params, progress) for progress in at]
    np.testing.assert_allclose([each.lost_share for each in now], np.array([0, 0, 0.5, 1, 1]) * own, atol=1e-6)
    assert all(each.life_tokens == params.life_tokens for each in now)
