"""Small policies of all kinds, each with a state in which nothing is symmetric, and observations for them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algos import ippo, mappo, mat, ppo
from jaxrl.deploy.policy import Policy

SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "total_timesteps": 16, "num_minibatches": 1, "hidden": (8,)}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "mlp": (ppo, {}),
    "continuous": (ppo, {"env": "classic/pendulum", "normalise_obs": True, "activation": "silu"}),
    "squashed": (ppo, {"env": "classic/pendulum", "squash": True, "activation": "gelu"}),
    "pictures": (ppo, {"env": "minatar/breakout", "channels": (2,)}),
    "lstm": (ppo, {"memory": "lstm", "memory_size": 4}),
    "s5": (ppo, {"memory": "s5", "memory_size": 4}),
    "gtrxl": (ppo, {"memory": "gtrxl", "memory_size": 4, "memory_window": 3}),
    "deltanet": (ppo, {"memory": "deltanet", "memory_size": 8}),
    "team": (ippo, {"env": "smax/3m", "torso": "entities", "memory": "gru", "memory_size": 4}),
    "gru": (ippo, {"env": "smax/3m", "memory": "gru", "memory_size": 4}),
    "in turn": (mat, {"env": "smax/3m", "torso": "entities"}),
    "roles": (mappo, {"env": "mpe/simple_tag", "memory": "gru", "memory_size": 4, "sharing": "none"}),
}
PLAIN = ("mlp", "continuous", "squashed", "lstm", "gru", "team", "roles")
"""Those of dense layers, over entities too, GRU and LSTM."""
B, T = 3, 4


class Subject(NamedTuple):
    """A policy, and what it is made of."""

    algo: Any
    state: Any
    policy: Policy
    obs: np.ndarray
    """`[T, B, …]`."""
    mask: dict[str, Any]
    """`action_mask[B, …]`, if there are masks."""
    reset: np.ndarray
    """bool `[T, B]`."""


@functools.cache
def subject(kind: str) -> Subject:
    module, options = KINDS[kind]
    config = module.Config(**SMALL | options)
    algo, env = module.make(config), config.make_env()
    state = jax.jit(algo.init)(jax.random.key(0))
    rng = np.random.default_rng(0)

    def moved(leaf: Any) -> Any:
        return jnp.asarray(leaf + rng.normal(size=leaf.shape), leaf.dtype) if leaf.dtype == jnp.float32 else leaf

    normaliser = jax.tree.map(lambda leaf: jnp.abs(moved(leaf)) + 1, state.normaliser)
    state = state.__class__(**{**vars(state), "params": jax.tree.map(moved, state.params), "normaliser": normaliser})
    policy = Policy(algo, env, state)
    agents = (env.num_agents,) if hasattr(env, "num_agents") else ()
    space = env.observation_space()
    obs = rng.normal(size=(T, B, *agents, *space.shape)).astype(np.float32)
    obs = obs > 0 if space.dtype == jnp.bool_ else obs
    mask = {}
    if env.has_action_mask:
        allowed = rng.random((B, *agents, env.action_space().n)) < 0.5
        allowed[..., 0] = True
        mask = {"action_mask": allowed}
    reset = np.zeros((T, B), bool)
    reset[0] = reset[2, 1] = True
    return Subject(algo, state, policy, obs, mask, reset)


@functools.cache
def expected(kind: str) -> list[np.ndarray]:
    """What the algorithm itself does, `[B, …]` for each of T steps."""
    s = subject(kind)
    act, actions, carry = jax.jit(s.algo.act), [], None
    for obs, reset in zip(s.obs, s.reset, strict=True):
        action, carry = act(s.state, obs, carry, reset=reset, **s.mask)
        actions.append(np.asarray(s.policy.env.action_space().clip(action)))
    return actions
