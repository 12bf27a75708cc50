"""Learning: sequences, shuffled minibatches, gradients, epochs of optimiser steps, and target networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.rl.devices import pcast_varying, pmean

__all__ = [
    "Loss",
    "all_finite",
    "gradient",
    "gradient_of_parts",
    "in_parts",
    "shuffled_indices",
    "take_rows",
    "to_sequences",
    "update_epochs",
    "update_target",
]

Loss = Callable[[Any, Any], tuple[jax.Array, dict[str, jax.Array]]]
"""A function of `(params, minibatch)`: the scalar, and scalars to log by name. Their means over devices count."""


def to_sequences(tree: Any, length: int) -> Any:
    """Reshape leaves `[T, B, ...]` into sequences `[L, R, ...]` with L = `length` and R = B T / L."""

    def cut(leaf: jax.Array) -> jax.Array:
        num_steps, num_envs = leaf.shape[:2]
        chunks = leaf.reshape(num_steps // length, length, num_envs, *leaf.shape[2:])
        return chunks.swapaxes(0, 1).reshape(length, -1, *leaf.shape[2:])

    return jax.tree.map(cut, tree)


def shuffled_indices(keys: jax.Array, num_envs: int, num_minibatches: int) -> jax.Array:
    """A random partition of the rows `(chunk, environment)` that `to_sequences` makes: int32 `[num_minibatches, K]`.

    Args:
        keys: `[R / S, S]`, one for each of the R rows. Each shard shuffles the rows of its own B / S environments, and
            each minibatch takes equally many from every shard. So a device with only some of the shards produces its
            part of exactly the same minibatches. Consumed (JAX's check can't see it).
        num_envs: B.
        num_minibatches: The number of minibatches.
    """
    rows, shards = keys.shape
    envs = num_envs // shards
    # Keys are themselves random numbers, so sorting them shuffles without drawing more. One sort is enough:
    # `jax.random.permutation` sorts several times to break ties, which are too rare to matter here.
    order = jnp.argsort(jax.random.key_data(keys)[..., 0], axis=0)
    # Row `order` of a shard is environment `order % envs` of chunk `order // envs`, so over all shards it is row
    # chunk * B + shard * B / S + environment.
    chunk = jax.lax.div(order, envs)
    index = chunk * (num_envs - envs) + order + envs * jnp.arange(shards)
    return index.reshape(num_minibatches, rows // num_minibatches * shards)


def take_rows(tree: Any, index: jax.Array, axis: int) -> Any:
    """The rows `index` of every leaf, counted along `axis`."""
    return jax.tree.map(lambda leaf: leaf.take(index, axis=axis, mode="clip"), tree)


def gradient(loss: Loss, params: Any, minibatch: Any) -> tuple[Any, dict[str, jax.Array]]:
    """The gradient of a loss on this device's share of a minibatch, and what the loss reports."""
    return jax.grad(loss, has_aux=True)(pcast_varying(params), minibatch)


def gradient_of_parts(loss: Loss, params: Any, minibatch: Any, num_parts: int) -> tuple[Any, dict[str, jax.Array]]:
    """`gradient` as a mean over the parts of a minibatch, one part after another.

    So an update needs the memory of one part, and a part that fits into a core's cache is faster.

    Args:
        loss: The loss of a part.
        params: What the gradient is taken with respect to.
        minibatch: Leaves `[L, R, ...]`; those of a carry are `[1, R, ...]`.
        num_parts: A divisor of R.
    """
    params = pcast_varying(params)

    def add(total: Any, part: Any) -> tuple[Any, dict[str, jax.Array]]:
        grads, facts = jax.grad(loss, has_aux=True)(params, part)
        return jax.tree.map(jnp.add, total, grads), facts

    grads, facts = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), in_parts(minibatch, num_parts))
    return jax.tree.map(lambda total: total / num_parts, grads), jax.tree.map(lambda fact: fact.mean(0), facts)


def in_parts(tree: Any, count: int) -> Any:
    """Sequences `[L, R, ...]` in `count` equal parts: `[count, L, R / count, ...]`."""

    def cut(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(leaf.shape[0], count, -1, *leaf.shape[2:]).swapaxes(0, 1)

    return jax.tree.map(cut, tree)


class _Learner(NamedTuple):
    params: Any
    opt_state: Any
    stopped: jax.Array  # whether the policy has moved by target_kl, so that nothing more is learned from this batch


def update_epochs(
    grad: Callable[[Any, Any], tuple[Any, dict[str, jax.Array]]],
    step: Callable[[Any, Any, Any], tuple[Any, Any, jax.Array]],
    params: Any,
    opt_state: Any,
    batch: Any,
    keys: jax.Array,
    *,
    num_envs: int,
    num_minibatches: int,
    target_kl: float | None = None,
) -> tuple[Any, Any, dict[str, jax.Array]]:
    """Run all epochs on one batch: `(params, opt_state, losses)`, each loss the mean over the minibatches.

    Args:
        grad: `grad(params, minibatch) -> (gradient, losses)`.
        step: `step(params, opt_state, gradient) -> (params, opt_state, norm)`, see `jaxrl.rl.optimizer.take_step`.
        params: Parameters.
        opt_state: The optimiser's state.
        batch: This device's share of the rollout, leaves `[L, R, ...]`: R sequences of L steps.
        keys: `[E, R / S, S / devices]`, for shuffling the R rows in each of E epochs. Consumed.
        num_envs: B, this device's environments.
        num_minibatches: Optimiser steps per epoch.
        target_kl: Stop learning once `grad` reports a larger `approx_kl`; None for never.
    """

    def learn(learner: _Learner, index: jax.Array) -> tuple[_Learner, dict[str, jax.Array]]:
        grads, losses = grad(learner.params, take_rows(batch, index, axis=1))
        params, opt_state, norm = step(learner.params, learner.opt_state, grads)
        losses = {**losses, "grad_norm": norm}
        after = _Learner(params, opt_state, learner.stopped)
        return (after, losses) if target_kl is None else _stop_at(target_kl, learner, after, losses)

    # All epochs are one loop over minibatches, which compiles once.
    index = jax.vmap(lambda epoch: shuffled_indices(epoch, num_envs, num_minibatches))(keys)
    index = index.reshape(len(keys) * num_minibatches, -1)
    learner, losses = jax.lax.scan(learn, _Learner(params, opt_state, jnp.bool_(False)), index)
    return learner.params, learner.opt_state, pmean(jax.tree.map(jnp.mean, losses))


def _stop_at(
    target_kl: float, before: _Learner, after: _Learner, losses: dict[str, jax.Array]
) -> tuple[_Learner, dict[str, jax.Array]]:
    """The learner after a step, or the one before it once the policy has moved by `target_kl`."""
    stopped = before.stopped | (pmean(losses["approx_kl"]) > target_kl)
    moved = after._replace(stopped=stopped)
    kept = jax.tree.map(lambda new, old: jnp.where(stopped, old, new), moved, before)._replace(stopped=stopped)
    return kept, {**losses, "stopped": stopped.astype(jnp.float32)}


def update_target(
    params: Any, target: Any, tau: jax.Array | float, steps: jax.Array | int = 0, interval: int = 1
) -> Any:
    """The target after a gradient step: moved by the share `tau` towards the parameters if that is due.

    `tau` = 1 copies them (Mnih et al. 2015, https://doi.org/10.1038/nature14236), a small one at every step averages
    them (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971).

    Args:
        params: The learned parameters after the step.
        target: The target before it.
        tau: The share, 0 … 1.
        steps: Gradient steps taken so far, this one included.
        interval: Gradient steps between moves.
    """
    share = jnp.where(steps % interval == 0, tau, 0.0) if interval > 1 else tau
    return jax.tree.map(lambda old, new: (1.0 - share) * old + share * new, target, params)


def all_finite(tree: Any) -> jax.Array:
    """Whether all numbers in all leaves are finite, a bool; `jax.vmap` it over members `[M, …]`."""
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()
