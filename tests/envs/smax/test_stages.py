"""Lost health that costs something: how much, and when."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax.stages import costly_losses

B, HEALTH = 16, 45.0


@pytest.mark.parametrize("options", ["", "&mode=selfplay&own_losses=0.25"])
def test_lost_health_costs_as_much_as_it_says(options: str) -> None:
    """In the same battles under the same actions, whichever team loses it."""
    costly, free = jaxrl.make(f"smax/3m?damage_cost=0.5{options}"), jaxrl.make(f"smax/3m?damage_cost=0{options}")
    step, step_free, mask = jax.jit(costly.batch_step), jax.jit(free.batch_step), jax.jit(jax.vmap(costly.action_mask))
    _, state = jax.jit(costly.batch_reset)(jax.random.split(jax.random.key(0), B))
    total = np.zeros(6)
    for t in range(30):
        shoots = mask(state)[..., 5:]
        action = jnp.where(shoots.any(-1), 5 + jnp.argmax(shoots, -1), 1)
        keys = jax.random.split(jax.random.key(t), B)
        _, _, gain, *_ = step_free(keys, state, action)
        _, after, reward, _, _, info = step(jax.random.clone(keys), state, action)
        hurt = (state.health - info["final_state"].health) / HEALTH
        lost = jnp.repeat(hurt.reshape(B, 2, 3).mean(axis=-1), 3, axis=1)[:, : costly.num_agents]
        np.testing.assert_allclose(reward, gain - 0.5 * lost, atol=1e-5)
        total[: costly.num_agents] += lost.sum(axis=0)
        state = after
    assert total[: costly.num_agents].min() > B / 2


@pytest.mark.parametrize("own", [0.0, 0.5])
def test_it_costs_most_in_the_first_third_of_a_training_and_what_it_should_in_the_last(own: float) -> None:
    params, at = jaxrl.make("smax/3m", damage_cost=own).default_params, np.array([0, 1 / 3, 0.5, 2 / 3, 1], np.float32)
    costs = [costly_losses(jax.random.key(0), params, progress).damage_cost for progress in at]
    np.testing.assert_allclose(costs, [2, 2, 1 + own / 2, own, own], atol=1e-6)
