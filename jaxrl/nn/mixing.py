"""Mixers: from the values of agents' own actions to the value of their team's joint action."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn.encoder import Torso
from jaxrl.nn.layers import Dense, orthogonal
from jaxrl.spaces import Box, Space

__all__ = ["MonotonicMixer"]


class MonotonicMixer(nn.Module):
    """QMIX's mixer (Rashid et al. 2018, https://arxiv.org/abs/1803.11485, eq. 4 to 6): the value of each of K teams.

    A hypernetwork computes its weights and biases from the state. Weights are not negative, so the team's value never
    falls when an agent's rises: the action that is best by each agent's own value is best for the team. Only living
    members count. A team without any has the value 0, as in VDN: since nothing is learned from such a team, any other
    value would be arbitrary.
    """

    teams: tuple[int, ...]
    """The team of each of N agents, from 0."""
    size: int = 32
    """Features of the hidden layer."""
    sizes: tuple[int, ...] = (64,)
    """Layers between the state and the mixer's weights."""
    activation: str = "relu"
    layer_norm: bool = False
    space: Space | None = None
    """The space of the states; None for vectors `[G]`."""

    @nn.compact
    def __call__(self, value: jax.Array, alive: jax.Array, state: jax.Array) -> jax.Array:
        """The teams' values `[..., K]`.

        Args:
            value: `[..., N]` of each agent's own action.
            alive: `[..., N]` bool.
            state: `[..., *space.shape]`.
        """
        num_agents, num_teams = len(self.teams), max(self.teams) + 1
        lead = (*value.shape[:-1], num_teams)
        space = Box(-np.inf, np.inf, state.shape[-1:]) if self.space is None else self.space
        state = jnp.broadcast_to(state[..., None, *[slice(None)] * len(space.shape)], (*lead, *space.shape))
        team = jnp.broadcast_to(np.eye(num_teams, dtype=np.float32), (*lead, num_teams)) if num_teams > 1 else None
        features = Torso(space, self.sizes, self.activation, self.layer_norm, name="torso")(state, team)

        def read(size: int, name: str) -> jax.Array:
            return Dense(size, kernel_init=orthogonal(0.1), name=name)(features)

        even = self.size**-0.5  # at first, weights make about a sum of the members' values
        mine = np.equal.outer(range(num_teams), self.teams)
        living = alive[..., None, :] & mine
        own = jnp.where(living, value[..., None, :], 0.0)
        weights = jnp.abs(even + read(num_agents * self.size, "weights")).reshape(*lead, num_agents, self.size)
        hidden = nn.elu(jnp.einsum("...n,...nh->...h", own, weights) + read(self.size, "bias"))
        output_weights = jnp.abs(even + read(self.size, "output_weights"))
        mixed = jnp.sum(hidden * output_weights, axis=-1) + read(1, "output_bias")[..., 0]
        return jnp.where(living.any(axis=-1), mixed, 0.0)
