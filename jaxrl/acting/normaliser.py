"""Running normalisation of networks' inputs and of rewards, as part of the train state.

Moments are updated after a rollout and used from the next one on, so a rollout and its optimisation see the same
numbers. Agents that share parameters share moments. Observations hold floats here, see `Collector.floats`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.collector import Observation
from jaxrl.acting.rollout import Transition
from jaxrl.environment import Environment
from jaxrl.rl.devices import AXIS, num_devices
from jaxrl.rl.normalise import (
    Moments,
    discounted_returns,
    merge,
    merge_shards,
    moments_of,
    new_moments,
    scale_reward,
    standardise,
)

__all__ = ["Normaliser", "new_normaliser", "normalised", "rescaled", "scaled_rewards", "update_obs_stats"]


class Normaliser(NamedTuple):
    """Moments of everything seen so far, for each of P parameter sets; None for inputs that are not normalised."""

    obs: Moments | None  # of [D] (or other axes), leaves [P, ...]
    global_state: Moments | None  # of [G], the central critic's input
    returns: Moments | None  # of scalars, leaves [P, ...]


def new_normaliser(
    env: Environment,
    param_sets: tuple[int, ...],
    *,
    obs: bool,
    reward: bool,
    global_state_size: int = 0,
) -> Normaliser:
    """A normaliser that has seen nothing yet.

    Args:
        env: The environment.
        param_sets: The number of each agent's parameter set.
        obs: Whether observations are standardised.
        reward: Whether rewards are scaled.
        global_state_size: G, if there is a central critic.
    """
    space, num_sets = env.observation_space(), max(param_sets) + 1

    def fresh(*shape: int) -> Moments:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_sets, *leaf.shape)), new_moments(shape))

    return Normaliser(
        obs=fresh(*space.shape) if obs else None,
        global_state=new_moments((global_state_size,)) if obs and global_state_size else None,
        returns=fresh() if reward else None,
    )


def normalised(normaliser: Normaliser, observation: Observation, param_sets: tuple[int, ...]) -> Observation:
    """The observation `[T, B, ...]`, normalised for the networks."""
    if normaliser.obs is None:
        return observation
    own = _of_agents(normaliser.obs, param_sets)
    obs = jax.vmap(standardise, in_axes=(2, 0), out_axes=2)(observation.obs, own)
    observation = observation._replace(obs=obs)
    if observation.global_state is None or normaliser.global_state is None:
        return observation
    return observation._replace(global_state=standardise(observation.global_state, normaliser.global_state))


def update_obs_stats(normaliser: Normaliser, observation: Observation, param_sets: tuple[int, ...]) -> Normaliser:
    """Merge in the moments of a rollout's observations `[T, B, ...]`; those of dead agents do not count."""
    if normaliser.obs is None:
        return normaliser
    obs = jax.vmap(merge)(normaliser.obs, _by_param_set(observation.obs, observation.agent_mask, param_sets))
    if observation.global_state is None or normaliser.global_state is None:
        return normaliser._replace(obs=obs)
    new = _everywhere(moments_of(observation.global_state, jnp.ones(observation.global_state.shape[:2])))
    return normaliser._replace(obs=obs, global_state=merge(normaliser.global_state, new))


def scaled_rewards(
    normaliser: Normaliser,
    discounted: jax.Array,
    traj: Transition,
    param_sets: tuple[int, ...],
    gamma: jax.Array,  # scalar or [N]
) -> tuple[Normaliser, jax.Array, jax.Array]:
    """Rewards divided by the deviation of the discounted returns seen so far, including this rollout's.

    Returns:
        The normaliser, the discounted sums to continue from, `[B, N]`, and the rewards `[T, B, N]`.
    """
    if normaliser.returns is None:
        return normaliser, discounted, traj.reward
    cut = traj.cut[..., None]
    discounted, sums = discounted_returns(discounted, traj.reward, cut, gamma)
    returns = jax.vmap(merge)(normaliser.returns, _by_param_set(sums, traj.observation.agent_mask, param_sets))
    normaliser = normaliser._replace(returns=returns)
    return normaliser, discounted, rescaled(normaliser, traj.reward, param_sets)


def rescaled(normaliser: Normaliser, reward: jax.Array, param_sets: tuple[int, ...]) -> jax.Array:
    """Rewards `[T, B, N]` divided by the deviation of the discounted returns seen so far."""
    if normaliser.returns is None:
        return reward
    own = _of_agents(normaliser.returns, param_sets)
    return jax.vmap(scale_reward, in_axes=(2, 0), out_axes=2)(reward, own)


def _by_param_set(x: jax.Array, alive: jax.Array, param_sets: tuple[int, ...]) -> Moments:
    """Moments of `x[T, B, N, ...]` over all devices, for each parameter set: leaves `[P, ...]`."""
    members = [np.flatnonzero(np.equal(param_sets, g)) for g in range(max(param_sets) + 1)]
    moments = [_everywhere(moments_of(x[:, :, who], alive[:, :, who])) for who in members]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *moments)


def _of_agents(moments: Moments, param_sets: tuple[int, ...]) -> Moments:
    """The moments of each agent: leaves `[P, ...]` to `[N, ...]`."""
    return jax.tree.map(lambda leaf: leaf[np.asarray(param_sets)], moments)


def _everywhere(moments: Any) -> Any:
    """The moments of all devices' samples."""
    return merge_shards(moments, AXIS) if num_devices() > 1 else moments
