"""Running normalisation of what networks see and of rewards, as part of the train state.

Moments are learned after a rollout and used from the next one on, so a rollout and the optimisation on it see the same
numbers. Agents that share parameters share moments. Views hold floats here, see `Eyes.floats`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algos.config import OnPolicyConfig
from jaxrl.algos.rollout import Transition, View
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

__all__ = ["Normaliser", "learn_observations", "new_normaliser", "normalised", "scaled_rewards"]


class Normaliser(NamedTuple):
    """Moments of all that was seen so far, for each of G parameter groups; None for what is not normalised."""

    obs: Moments | None  # of [D] (or other axes), leaves [G, ...]
    state: Moments | None  # of [G'], what the central critic sees
    returns: Moments | None  # of scalars, leaves [G, ...]


def new_normaliser(
    config: OnPolicyConfig, env: Environment, groups: tuple[int, ...], state_size: int = 0
) -> Normaliser:
    """Nothing seen yet."""
    space, num_groups = env.observation_space(), max(groups) + 1

    def fresh(*shape: int) -> Moments:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_groups, *leaf.shape)), new_moments(shape))

    return Normaliser(
        obs=fresh(*space.shape) if config.normalise_obs else None,
        state=new_moments((state_size,)) if config.normalise_obs and state_size else None,
        returns=fresh() if config.normalise_reward else None,
    )


def normalised(normaliser: Normaliser, view: View, groups: tuple[int, ...]) -> View:
    """The view `[T, B, ...]` as networks see it."""
    if normaliser.obs is None:
        return view
    own = _of_agents(normaliser.obs, groups)
    obs = jax.vmap(standardise, in_axes=(2, 0), out_axes=2)(view.obs, own)
    seen = view.state if view.state is None or normaliser.state is None else standardise(view.state, normaliser.state)
    return view._replace(obs=obs, state=seen)


def learn_observations(normaliser: Normaliser, view: View, groups: tuple[int, ...]) -> Normaliser:
    """The moments with those of a rollout's views `[T, B, ...]` merged in; what the dead see does not count."""
    if normaliser.obs is None:
        return normaliser
    obs = jax.vmap(merge)(normaliser.obs, _by_group(view.obs, view.alive, groups))
    if view.state is None or normaliser.state is None:
        return normaliser._replace(obs=obs)
    new = _everywhere(moments_of(view.state, jnp.ones(view.state.shape[:2])))
    return normaliser._replace(obs=obs, state=merge(normaliser.state, new))


def scaled_rewards(
    normaliser: Normaliser, discounted: jax.Array, transitions: Transition, groups: tuple[int, ...], gamma: jax.Array
) -> tuple[Normaliser, jax.Array, jax.Array]:
    """Rewards divided by the deviation of the discounted returns seen so far, this rollout's included.

    Returns:
        The normaliser, the discounted sums to go on from `[B, N]`, and the rewards `[T, B, N]`.
    """
    if normaliser.returns is None:
        return normaliser, discounted, transitions.reward
    cut = transitions.cut[..., None]
    discounted, sums = discounted_returns(discounted, transitions.reward, cut, gamma)
    returns = jax.vmap(merge)(normaliser.returns, _by_group(sums, transitions.view.alive, groups))
    own = _of_agents(returns, groups)
    reward = jax.vmap(scale_reward, in_axes=(2, 0), out_axes=2)(transitions.reward, own)
    return normaliser._replace(returns=returns), discounted, reward


def _by_group(x: jax.Array, alive: jax.Array, groups: tuple[int, ...]) -> Moments:
    """Moments of `x[T, B, N, ...]` over all devices, for each group: leaves `[G, ...]`."""
    members = [np.flatnonzero(np.equal(groups, g)) for g in range(max(groups) + 1)]
    moments = [_everywhere(moments_of(x[:, :, who], alive[:, :, who])) for who in members]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *moments)


def _of_agents(moments: Moments, groups: tuple[int, ...]) -> Moments:
    """Each agent's own: leaves `[G, ...]` to `[N, ...]`."""
    return jax.tree.map(lambda leaf: leaf[np.asarray(groups)], moments)


def _everywhere(moments: Any) -> Any:
    """Those of all devices' samples."""
    return merge_shards(moments, AXIS) if num_devices() > 1 else moments
