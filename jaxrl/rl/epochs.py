"""Several epochs of shuffled minibatches on one batch, with one optimiser step per minibatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.rl.devices import pmean
from jaxrl.rl.minibatch import shuffled_indices, take_rows
from jaxrl.rl.optimizer import gradient_step

__all__ = ["Loss", "update_epochs"]

Loss = Callable[[Any, Any], tuple[jax.Array, dict[str, jax.Array]]]
"""`loss(params, minibatch) -> (scalar, {name: scalar})`; the mean over devices, and over parts, counts."""


class _Learner(NamedTuple):
    params: Any
    opt_state: Any
    stopped: jax.Array  # whether the policy has moved by target_kl, so that nothing more is learned from this batch


def update_epochs(
    loss: Loss,
    params: Any,
    opt_state: Any,
    batch: Any,
    keys: jax.Array,
    *,
    num_envs: int,
    num_minibatches: int,
    optimizer: str,
    lr: Any,
    max_grad_norm: jax.Array,
    weight_decay: float = 0.0,
    target_kl: float | None = None,
    prepare: Callable[[Any], Any] | None = None,
    num_parts: int = 1,
) -> tuple[Any, Any, dict[str, jax.Array]]:
    """Run all epochs on one batch: `(params, opt_state, losses)`, each loss the mean over the minibatches.

    Args:
        loss: The loss of a minibatch.
        params: Parameters.
        opt_state: The optimiser's state.
        batch: This device's share of the rollout, leaves `[L, R, ...]`: R sequences of L steps.
        keys: `[E, R / S, S / devices]`, for shuffling the R rows in each of E epochs. Consumed.
        num_envs: B, this device's environments.
        num_minibatches: Optimiser steps per epoch.
        optimizer: A name in `OPTIMIZERS`.
        lr: Learning rate, or several: see `gradient_step`.
        max_grad_norm: Gradients are scaled down to this global norm.
        weight_decay: See `gradient_step`.
        target_kl: Stop learning once `loss` reports a larger `approx_kl`.
        prepare: Prepares each minibatch as a whole, before `loss` sees it, perhaps in parts.
        num_parts: See `gradient_of_parts`.
    """

    def step(learner: _Learner, index: jax.Array) -> tuple[_Learner, dict[str, jax.Array]]:
        minibatch = take_rows(batch, index, axis=1)
        minibatch = minibatch if prepare is None else prepare(minibatch)
        params, opt_state, losses = gradient_step(
            loss, learner.params, learner.opt_state, minibatch, optimizer, lr, max_grad_norm, weight_decay, num_parts
        )
        return _stop_at(target_kl, learner, _Learner(params, opt_state, learner.stopped), losses)

    index = jax.vmap(lambda epoch: shuffled_indices(epoch, num_envs, num_minibatches))(keys)
    index = index.reshape(len(keys) * num_minibatches, -1)
    learner, losses = jax.lax.scan(step, _Learner(params, opt_state, jnp.bool_(False)), index)
    return learner.params, learner.opt_state, pmean(jax.tree.map(jnp.mean, losses))


def _stop_at(
    target_kl: float | None, before: _Learner, after: _Learner, losses: dict[str, jax.Array]
) -> tuple[_Learner, dict[str, jax.Array]]:
    """The learner after a step, or the one before it once the policy has moved by `target_kl`."""
    if target_kl is None:
        return after, losses
    stopped = before.stopped | (pmean(losses["approx_kl"]) > target_kl)
    moved = after._replace(stopped=stopped)
    kept = jax.tree.map(lambda new, old: jnp.where(stopped, old, new), moved, before)._replace(stopped=stopped)
    return kept, {**losses, "stopped": stopped.astype(jnp.float32)}
