"""Parameter sharing: each agent is served by its own group's parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.sharing import init_param_sets, number_param_sets, per_agent


def apply(params, x):
    return x * params


@pytest.mark.parametrize(
    ("sharing", "param_sets"), [("all", (0, 0, 0)), ("none", (0, 1, 2)), ("roles", (0, 0, 1)), ((0, 1, 0), (0, 1, 0))]
)
def test_agents_use_their_groups_parameters_and_train_only_those(sharing, param_sets):
    assert number_param_sets(sharing, (0, 0, 1)) == param_sets
    params = init_param_sets(lambda key: jax.random.normal(key), jax.random.key(0), param_sets)
    x = jnp.arange(6.0).reshape(2, 3)  # [B, N]
    shared = per_agent(apply, param_sets, agent_axes=(1,), out_axes=1)
    expected = x * np.broadcast_to(params, max(param_sets) + 1)[np.array(param_sets)]
    np.testing.assert_allclose(shared(params, x), expected)
    grad = jax.grad(lambda p: shared(p, x)[:, 0].sum())(params)  # the first agent's output
    assert np.count_nonzero(grad) == 1


@pytest.mark.parametrize("sharing", ["some", (0, 1), (0, 2, 2)])
def test_bad_sharing_is_explained(sharing):
    with pytest.raises(ValueError, match="sharing"):
        number_param_sets(sharing, (0, 0, 1))
