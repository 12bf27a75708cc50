"""Heads are chosen by the action space, and begin with a policy that is as good as uniform in it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.heads import DeterministicHead, QHead, SquashedHead, ValueHead, mask_size, policy_head
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

FEATURES = jax.random.normal(jax.random.key(0), (4, 3, 8))  # [T, B, H]
SPACES = [Discrete(5), MultiDiscrete((2, 3)), Box(-2.0, 2.0, (2,)), Box(0.0, 1.0, (2, 3)), Box(-np.inf, 3.0, ())]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_have_the_shape_of_their_space(space):
    head = policy_head(space, (6,))
    policy, params = jax.jit(head.init_with_output)(jax.random.key(1), FEATURES)
    action, log_prob = policy.sample_and_log_prob(seed=jax.random.key(2))
    assert action.shape == (4, 3, *space.shape)
    assert action.dtype == space.dtype
    assert log_prob.shape == policy.entropy().shape == policy.log_prob(action).shape == (4, 3)
    assert policy.mode().shape == action.shape
    if mask_size(space) is not None:
        mask = jnp.zeros(mask_size(space), bool).at[jnp.array([1, -1])].set(True)
        masked: Any = head.apply(params, FEATURES, jnp.broadcast_to(mask, (4, 3, len(mask))))
        choices = {(): {1, 4}, (2,): {1, 2}}  # the second of either component's, and its last
        assert set(np.unique(masked.sample(seed=jax.random.key(3)))) <= choices[space.shape]


def test_a_gaussian_begins_in_the_middle_of_its_box():
    policy, _ = policy_head(Box(np.array([0.0, -1.0]), np.array([10.0, 1.0]), (2,))).init_with_output(
        jax.random.key(1), FEATURES
    )
    middle, half = np.array([5.0, 0.0]), np.array([5.0, 1.0])
    np.testing.assert_allclose((policy.mode() - middle) / half, 0.0, atol=0.1)
    expected = 0.5 * np.log(2 * np.pi * np.e) * 2 + np.log(half).sum()
    np.testing.assert_allclose(policy.entropy(), expected, rtol=1e-5)


def test_a_gaussian_of_a_box_without_a_width_is_finite():
    """Bounds that are the same, or the largest floats, whose difference is none, are no scale."""
    most = np.finfo(np.float32).max
    space = Box(np.array([3.0, -most, 0.0]), np.array([3.0, most, 10.0]), (3,))
    policy, _ = policy_head(space).init_with_output(jax.random.key(1), FEATURES)
    action, log_prob = policy.sample_and_log_prob(seed=jax.random.key(2))
    assert np.isfinite(np.asarray(action)).all()
    assert np.isfinite(np.asarray(log_prob)).all()
    np.testing.assert_allclose(policy.mode() - np.array([0.0, 0.0, 5.0]), 0.0, atol=0.3)
    with pytest.raises(ValueError, match="squash=True needs finite bounds that differ"):
        policy_head(space, squash=True)


def test_squashed_actions_stay_inside():
    space = Box(0.0, 1.0, (2,))
    policy, _ = policy_head(space, squash=True).init_with_output(jax.random.key(1), FEATURES)
    actions = jax.vmap(lambda k: policy.sample(seed=k))(jax.random.split(jax.random.key(2), 100))
    assert np.all((np.asarray(actions) >= 0) & (np.asarray(actions) <= 1))
    np.testing.assert_allclose(policy.mode(), 0.5, atol=0.05)


def test_heads_of_finite_boxes_begin_about_the_centre():
    space = Box(np.zeros((2, 3)), np.full((2, 3), 10.0), (2, 3))
    policy, params = SquashedHead(space, (6,)).init_with_output(jax.random.key(1), FEATURES)
    assert policy.sample(seed=jax.random.key(2)).shape == (4, 3, 2, 3)
    np.testing.assert_allclose(policy.mode(), 5.0, atol=0.3)
    # As that of a normal with deviation 1 through tanh; its deviation depends on the features.
    one: Any = policy_head(space, squash=True).init_with_output(jax.random.key(1), FEATURES)[0]
    np.testing.assert_allclose(policy.entropy(), one.entropy(), atol=0.1)
    far: Any = SquashedHead(space, (6,)).apply(jax.tree.map(lambda leaf: 100 * leaf, params), FEATURES)
    assert np.ptp(np.asarray(far.entropy())) > 0.1
    assert np.isfinite(np.asarray(far.entropy())).all()
    fixed, _ = DeterministicHead(space, (6,)).init_with_output(jax.random.key(1), FEATURES)
    np.testing.assert_allclose(fixed.mode(), 5.0, atol=0.3)
    np.testing.assert_array_equal(fixed.sample(seed=jax.random.key(3)), fixed.mode())


def test_what_cannot_be_is_explained():
    with pytest.raises(ValueError, match="squash=False"):
        policy_head(Box(-np.inf, np.inf, (2,)), squash=True)
    with pytest.raises(ValueError, match="use Discrete, MultiDiscrete or Box"):
        policy_head(Space())
    with pytest.raises(ValueError, match="mask=None"):
        policy_head(Box(-1.0, 1.0, (2,))).init(jax.random.key(0), FEATURES, jnp.ones((4, 3, 2), bool))


@pytest.mark.parametrize(("num_bins", "shape"), [(None, (4, 3)), (7, (4, 3, 7))])
def test_a_value_head_gives_a_scalar_or_logits(num_bins, shape):
    y, _ = ValueHead((6,), num_bins=num_bins).init_with_output(jax.random.key(0), FEATURES)
    assert y.shape == shape


@pytest.mark.parametrize(("num_bins", "axis"), [(None, -1), (7, -2)])
def test_dueling_values_have_the_states_value_as_their_mean(num_bins, axis):
    head = QHead(3, (6,), dueling=True, num_bins=num_bins)
    values, params = jax.jit(head.init_with_output)(jax.random.key(0), FEATURES)
    assert values.shape == (4, 3, 3, 7)[: 3 if num_bins is None else 4]
    state: Any = ValueHead((6,), num_bins=num_bins).apply({"params": params["params"]["state"]}, FEATURES)
    np.testing.assert_allclose(values.mean(axis), state, atol=1e-5)
    assert values.std(axis).min() > 0
