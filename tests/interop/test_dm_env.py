"""dm_env's own conformance tests, run on CartPole until it falls."""

import numpy as np
import pytest

import jaxrl

dm_env = pytest.importorskip("dm_env")
from absl.testing import absltest  # noqa: E402
from dm_env import test_utils  # noqa: E402

from jaxrl.interop import to_dm_env  # noqa: E402


class CartPoleTest(test_utils.EnvironmentTestMixin, absltest.TestCase):
    def make_object_under_test(self, **unused_kwargs):
        return to_dm_env(jaxrl.make("CartPole-v1"))

    def make_action_sequence(self):
        yield from [np.int32(1)] * 30  # a push to one side ends an episode after ten steps


def test_discount_tells_an_end_from_a_time_out():
    fallen, timed_out = to_dm_env(jaxrl.make("CartPole-v1")), to_dm_env(jaxrl.make("CartPole-v1?max_steps=3"))
    for env, discount in ((fallen, 0.0), (timed_out, 1.0)):
        step = env.reset()
        while not step.last():
            step = env.step(1)
        assert step.discount == discount
        assert env.step(1).first()


def test_specs_of_other_spaces():
    assert to_dm_env(jaxrl.make("probe/multi_discrete_action")).action_spec().dtype == np.int32
    assert to_dm_env(jaxrl.make("Pendulum-v1")).action_spec().shape == (1,)
    with pytest.raises(ValueError, match="dm_env knows one"):
        to_dm_env(jaxrl.make("smax/3m"))
