"""Parameter sharing: each agent is served by its own group's parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.nn.sharing import agent_groups, init_groups, per_agent


def apply(params, x):
    return x * params


@pytest.mark.parametrize(
    ("sharing", "groups"), [("all", (0, 0, 0)), ("none", (0, 1, 2)), ("roles", (0, 0, 1)), ((0, 1, 0), (0, 1, 0))]
)
def test_agents_use_their_groups_parameters_and_train_only_those(sharing, groups):
    assert agent_groups(sharing, (0, 0, 1)) == groups
    params = init_groups(lambda key: jax.random.normal(key), jax.random.key(0), groups)
    x = jnp.arange(6.0).reshape(2, 3)  # [B, N]
    shared = per_agent(apply, groups, agent_axes=(1,), out_axes=1)
    expected = x * np.broadcast_to(params, max(groups) + 1)[np.array(groups)]
    np.testing.assert_allclose(shared(params, x), expected)
    grad = jax.grad(lambda p: shared(p, x)[:, 0].sum())(params)  # the first agent's output
    assert np.count_nonzero(grad) == 1


@pytest.mark.parametrize("sharing", ["some", (0, 1), (0, 2, 2)])
def test_bad_sharing_is_explained(sharing):
    with pytest.raises(ValueError, match="sharing"):
        agent_groups(sharing, (0, 0, 1))
