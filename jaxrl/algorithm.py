"""The Algorithm triple: what the training loop knows about an algorithm, and all it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

__all__ = ["Act", "Algorithm", "Metrics", "scan_updates"]

# What one update reports, reduced on the device: scalars
#   episodes, return_sum, length_sum     over the episodes that ended in this rollout (agents' mean return)
#   won_sum                              only where the environment's info has "won"
#   return_sums: {kind: sum}             only with several kinds of agents (see `MultiAgentEnvironment.kinds`)
#   losses: {name: mean over the update's minibatches}
Metrics = dict[str, Any]


class Act(Protocol):
    """Chooses actions with a trained state; see `Algorithm.act`."""

    def __call__(
        self,
        state: Any,
        obs: Any,
        carry: Any = None,
        key: jax.Array | None = None,
        *,
        action_mask: jax.Array | None = None,
        reset: jax.Array | None = None,
    ) -> tuple[Any, Any]: ...


class Algorithm(NamedTuple):
    """Three pure functions, in the manner of optax; `jit`, `vmap` and `scan` them as you like."""

    init: Callable[..., Any]
    """`init(key, hyperparams=None) -> state`: the whole train state, a pytree. Consumes `key`."""
    update: Callable[[Any], tuple[Any, Metrics]]
    """`update(state) -> (state, metrics)`: one rollout of `num_envs * num_steps` steps and its optimisation."""
    act: Act
    """`act(state, obs, carry=None, key=None, *, action_mask=None, reset=None) -> (action, carry)`.

    `obs[B, N, D]` (no N for a single agent) gives `action[B, N]`. `carry` is the memory returned by the last call;
    `None` starts afresh, and so does every environment with `reset[B]` True. Without a `key` the action is greedy.
    """


def scan_updates(algo: Algorithm, num_updates: int) -> Callable[..., tuple[Any, Metrics]]:
    """`train(key, hyperparams=None) -> (state, metrics)`: init and all U updates as one function, metrics `[U]`."""

    def train(key: jax.Array, hyperparams: Any = None) -> tuple[Any, Metrics]:
        return jax.lax.scan(lambda state, _: algo.update(state), algo.init(key, hyperparams), length=num_updates)

    return train
