"""The observations of policies and critics in many environments at once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax

from jaxrl.acting.central import central_state
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.torso import as_floats
from jaxrl.returned import check_action_mask, check_agent_mask
from jaxrl.rl.devices import num_devices
from jaxrl.spaces import Discrete
from jaxrl.vector import VectorEnv

__all__ = ["Collector", "Observation"]


class Observation(NamedTuple):
    """The observation of B environments with N agents at one time step; networks get T steps, `[T, B, ...]`."""

    obs: jax.Array  # [B, N, D]
    global_state: jax.Array | None  # [B, G], for a central critic; see `central_state`
    action_mask: jax.Array | None  # [B, N, A], where actions are Discrete
    agent_mask: jax.Array  # [B, N] True for an agent that is alive and acts


class Collector(NamedTuple):
    """Makes the observations of a `VectorEnv` for the networks."""

    venv: VectorEnv
    central: bool
    """Whether there is a central critic, which sees the global state."""
    num_shards: int
    """S, the shards on all devices; each draws random numbers for its own environments."""
    floats: bool = False
    """Whether integer observations are scaled to floats immediately, so that moments can be taken of them."""
    params: Any = None
    """The environments' parameters, which they share; None for the defaults."""
    log_info: tuple[str, ...] = ()
    """Names of numbers in the info whose means over episodes are logged."""

    @property
    def keys_per_step(self) -> int:
        """K, the keys a shard needs per step: one for its actions, and one for each of its environments.

        Environments that are reset from a pool share a single key, with which they draw their starts.
        """
        share = self.venv.num_envs * num_devices() // self.num_shards
        return 1 + (1 if self.venv.reset_strategy == "pool" else share)

    def observe(self, obs: jax.Array, env_state: Any) -> Observation:
        """`obs[B, N, D]` together with the masks and the global state from the environments' own states."""
        env = self.venv.env
        assert isinstance(env, MultiAgentEnvironment)
        obs = as_floats(env.observation_space(), obs) if self.floats else obs
        shared = (0, None)
        agent_mask = check_agent_mask(jax.vmap(env.agent_mask, shared)(env_state, self.params), env)
        action_mask = None
        if isinstance(env.action_space(), Discrete):
            action_mask = check_action_mask(jax.vmap(env.action_mask, shared)(env_state, self.params), env)
        central = jax.vmap(partial(central_state, env), (0, *shared))
        global_state = central(obs, env_state, self.params) if self.central else None
        return Observation(obs, global_state, action_mask, agent_mask)

    def observe_final(self, info: dict[str, Any]) -> Observation:
        """The observation after a step, before any reset."""
        env, state = self.venv.env, info["final_state"]
        if not env.has_observation:
            return self.observe(info["final_observation"], state)
        obs = jax.vmap(env.observation, (0, None))(state, self.params)  # XLA drops it if it is not used
        return self.observe(obs, state)
