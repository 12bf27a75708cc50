"""The optimisation that the PPO family shares: epochs of shuffled minibatches, each one step of the optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxrl.acting.rollout import Observation, Transition
from jaxrl.algos.config import Hyperparams, OnPolicyConfig
from jaxrl.rl.devices import num_devices, pcast_varying, psum
from jaxrl.rl.minibatch import shuffled_indices, take_rows, to_sequences
from jaxrl.rl.optimizer import OPTIMIZERS

__all__ = ["Batch", "new_opt_state", "optimise", "sequences"]


class Batch(NamedTuple):
    """R rows of sequences of L steps: leaves `[L, R, ...]`."""

    observation: Observation
    reset: jax.Array  # [L, R]
    carry: Any  # [1, R, ...] memory before the first step
    action: jax.Array  # [L, R, N, ...]
    log_prob: jax.Array  # [L, R, N] of the policy that acted
    value: jax.Array  # [L, R, N] of the critic at that time
    advantage: jax.Array  # [L, R, N]


# loss(params, minibatch) -> (scalar, {name: scalar}), this device's share of means over the minibatch
Loss = Callable[[Any, Batch], tuple[jax.Array, dict[str, jax.Array]]]


def new_opt_state(params: Any, optimizer: str) -> Any:
    """The optimiser's state before the first step."""
    flat, as_params = ravel_pytree(params)
    return OPTIMIZERS[optimizer](as_params).init(flat)


def sequences(transitions: Transition, advantage: jax.Array, length: int) -> Batch:
    """A rollout `[T, B, ...]` as sequences of L = `length` steps."""
    t = transitions
    observation, reset, *rest = to_sequences((t.observation, t.reset, t.action, t.log_prob, t.value, advantage), length)
    return Batch(observation, reset, to_sequences(t.carry, 1), *rest)


def optimise(
    loss: Loss, params: Any, opt_state: Any, batch: Batch, keys: jax.Array, config: OnPolicyConfig, h: Hyperparams
) -> tuple[Any, Any, dict[str, jax.Array]]:
    """All epochs on one batch: `(params, opt_state, losses)`, each loss the mean over the minibatches.

    Args:
        loss: Of a minibatch.
        params: Parameters.
        opt_state: The optimiser's state.
        batch: This device's share of the rollout.
        keys: `[E, R / S, S / devices]`, for shuffling the R rows in each of the E epochs. Consumed.
        config: Counts, `optimizer` and `target_kl`.
        h: Hyperparameters as they are in this update.
    """
    num_envs = config.num_envs // num_devices()

    def step(learner: _Learner, index: jax.Array) -> tuple[_Learner, dict[str, jax.Array]]:
        return _step(loss, config, h, learner, take_rows(batch, index, axis=1))

    index = jax.vmap(lambda epoch: shuffled_indices(epoch, num_envs, config.num_minibatches))(keys)
    index = index.reshape(config.update_epochs * config.num_minibatches, -1)
    learner, losses = jax.lax.scan(step, _Learner(params, opt_state, jnp.bool_(False)), index)
    return learner.params, learner.opt_state, psum(jax.tree.map(jnp.mean, losses))


class _Learner(NamedTuple):
    params: Any
    opt_state: Any
    stopped: jax.Array  # the policy has moved by target_kl, so nothing more is learned from this batch


def _step(
    loss: Loss, config: OnPolicyConfig, h: Hyperparams, learner: _Learner, minibatch: Batch
) -> tuple[_Learner, dict[str, jax.Array]]:
    """One step down the gradient of one minibatch, scaled down to `max_grad_norm`."""
    grads, losses = jax.grad(loss, has_aux=True)(pcast_varying(learner.params), minibatch)
    gradient, as_params = ravel_pytree(grads)
    gradient = psum(gradient)
    norm = jnp.linalg.norm(gradient)
    scale = jnp.minimum(1.0, h.max_grad_norm / (norm + 1e-6))
    direction, opt_state = OPTIMIZERS[config.optimizer](as_params).update(gradient * scale, learner.opt_state)
    step = as_params(jnp.asarray(direction))
    params = jax.tree.map(lambda p, u: p - h.lr * u, learner.params, step)
    losses = {**losses, "grad_norm": _share(norm)}
    if config.target_kl is None:
        return _Learner(params, opt_state, learner.stopped), losses
    stopped = learner.stopped | (psum(losses["approx_kl"]) > config.target_kl)
    moved = _Learner(params, opt_state, stopped)
    kept = jax.tree.map(lambda new, old: jnp.where(stopped, old, new), moved, learner)._replace(stopped=stopped)
    return kept, {**losses, "stopped": _share(stopped.astype(jnp.float32))}


def _share(x: jax.Array) -> jax.Array:
    """This device's share of what is the same on all, to be added up with the losses."""
    return x / num_devices()
