"""Running normalisation of observations and rewards: the exact mean and variance of everything seen so far.

The statistics are a pytree in the train state, so they are saved with it. A batch becomes `Moments`; batches and shards
merge in any order (Chan, Golub & LeVeque 1983, https://doi.org/10.1080/00031305.1983.10483115):

    batch = moments_of(obs, weight)             # in shard_map also: batch = merge_shards(batch, "data")
    state = merge(state, batch)
    obs = standardise(obs, state)

Moments are updated after a rollout and used from the next one on, so a rollout and its optimisation see the same
numbers. Agents that share parameters share moments. Observations hold floats here, see `Collector.floats`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.rollout import Observation, Transition
from jaxrl.environment import Environment
from jaxrl.rl.devices import AXIS, num_devices

__all__ = [
    "Moments",
    "Normaliser",
    "deviation_of_returns",
    "discounted_returns",
    "merge",
    "merge_shards",
    "moments_of",
    "new_moments",
    "new_normaliser",
    "normalised",
    "rescaled",
    "scale_reward",
    "scaled_rewards",
    "standardise",
    "update_obs_stats",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Moments:
    """The mean and variance of samples of some shape, per component.

    The variance is stored instead of the sum of squares: it does not grow with the number of samples, so neither does
    its rounding error. The count is a 64-bit number in two halves, since float32 stops counting at 16.8 million.
    """

    count: jax.Array  # uint32 [2], the high and the low half
    mean: jax.Array  # [*shape]
    variance: jax.Array  # [*shape], population variance: the sum of squares divided by the number of samples


def new_moments(shape: tuple[int, ...]) -> Moments:
    """No samples yet; with these, `standardise` and `scale_reward` change nothing."""
    return Moments(jnp.zeros(2, jnp.uint32), jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))


def moments_of(x: jax.Array, weight: jax.Array) -> Moments:
    """The moments of the samples `x[..., *shape]` with `weight[...]` 1; those with weight 0 do not count."""
    leading = tuple(range(weight.ndim))
    x = x.astype(jnp.float32)
    keep = weight.astype(bool).reshape(weight.shape + (1,) * (x.ndim - weight.ndim))
    low = jnp.sum(weight.astype(bool), dtype=jnp.uint32)
    count = jnp.maximum(low.astype(jnp.float32), 1.0)
    mean = jnp.sum(jnp.where(keep, x, 0.0), axis=leading) / count
    variance = jnp.sum(jnp.where(keep, jnp.square(x - mean), 0.0), axis=leading) / count
    return Moments(jnp.stack([jnp.zeros_like(low), low]), mean, variance)


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of all samples of `a` and `b` together."""
    low = a.count[1] + b.count[1]  # wraps around if the sum does not fit
    high = a.count[0] + b.count[0] + (low < a.count[1]).astype(jnp.uint32)
    count = jnp.stack([high, low])
    share = _as_float(b.count) / jnp.maximum(_as_float(count), 1.0)
    step = b.mean - a.mean
    mean = a.mean + share * step
    variance = a.variance + share * (b.variance - a.variance + (1.0 - share) * jnp.square(step))
    return Moments(count, mean, variance)


def merge_shards(moments: Moments, axis_name: str) -> Moments:
    """The moments of all shards' samples along a mapped axis, the same on each (fewer than 2^32 samples in total).

    Merge the shards' new batches, not their running statistics: shared samples would count several times.
    """
    low = jax.lax.psum(moments.count[1], axis_name)
    share = _as_float(moments.count) / jnp.maximum(low.astype(jnp.float32), 1.0)
    mean = jax.lax.psum(share * moments.mean, axis_name)
    spread = moments.variance + jnp.square(moments.mean - mean)
    return Moments(jnp.stack([jnp.zeros_like(low), low]), mean, jax.lax.psum(share * spread, axis_name))


def standardise(x: jax.Array, moments: Moments, clip: float = 10.0) -> jax.Array:
    """`x[..., *shape]` with mean 0 and standard deviation 1 in each component, clipped to -clip … clip."""
    standard = (x - moments.mean) * _per_deviation(moments)
    return jnp.where(jnp.all(moments.count == 0), x, jnp.clip(standard, -clip, clip))


def discounted_returns(
    start: jax.Array, reward: jax.Array, cut: jax.Array, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """The discounted sum of past rewards in each episode (discounting the past, which suffices to find the scale).

    Args:
        start: `[...]` the sum before the first step; zeros at the beginning.
        reward: `[T, ...]`.
        cut: `[T, ...]` True where the episode ended with step t.
        gamma: Discount factor; it broadcasts to `start`.

    Returns:
        The sum to continue from, `[...]`, and the sums after each step, `[T, ...]`.
    """

    def step(total: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward_t, cut_t = inputs
        total = gamma * total + reward_t
        return jnp.where(cut_t, 0.0, total), total

    return jax.lax.scan(step, start, (reward, cut))


def scale_reward(reward: jax.Array, returns: Moments, clip: float = 10.0) -> jax.Array:
    """`reward[...]` divided by the standard deviation of the returns, without centring, clipped to -clip … clip.

    `returns` are moments, of shape `()`, of `discounted_returns` (Engstrom et al. 2020,
    https://arxiv.org/abs/2005.12729, section 3).
    """
    scaled = jnp.clip(reward * _per_deviation(returns), -clip, clip)
    return jnp.where(jnp.all(returns.count == 0), reward, scaled)


def _per_deviation(moments: Moments) -> jax.Array:
    """1 / the standard deviation. A single sample says nothing about it, so 1 is as good as any."""
    single = (moments.count[0] == 0) & (moments.count[1] == 1)
    return jax.lax.rsqrt(jnp.where(single, 1.0, moments.variance) + 1e-8)


def _as_float(count: jax.Array) -> jax.Array:
    return count[0].astype(jnp.float32) * 2.0**32 + count[1].astype(jnp.float32)


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
    new = _everywhere(moments_of(observation.global_state, observation.agent_mask.any(axis=-1)))
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


def deviation_of_returns(normaliser: Normaliser, param_sets: tuple[int, ...]) -> jax.Array | float:
    """What rewards, and so values, are divided by, `[N]`; 1 if rewards are not scaled."""
    if normaliser.returns is None:
        return 1.0
    own = _of_agents(normaliser.returns, param_sets)
    return 1.0 / jax.vmap(lambda returns: scale_reward(jnp.float32(1.0), returns, clip=jnp.inf))(own)


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
