"""Other-play: every agent learns in its own renaming of the game, so none can rely on arbitrary conventions."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp

from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.wrappers.base import StatefulWrapper, Wrapped, Wrapper

__all__ = ["OtherPlay"]


class OtherPlay(StatefulWrapper):
    """In each episode, every agent sees and acts under its own randomly drawn symmetry of the environment.

    Partners that train apart break symmetries differently: one names red to say "play", another blue. Here red can have
    any name, so agents learn only what works under all names, and such policies also fit together (Hu et al. 2020,
    https://arxiv.org/abs/2003.02979). The global state stays as it is.

    Args:
        env: An environment with `symmetries`, such as Hanabi.

    Raises:
        ValueError: It has none, or a wrapper in between has changed what they are about.
    """

    def __init__(self, env: MultiAgentEnvironment) -> None:
        super().__init__(env)
        found = env.symmetries
        if found is None and self.unwrapped.symmetries is not None:
            raise ValueError(
                f"{env.name} has symmetries, and a wrapper around it changes or renames what they are about; put "
                f"OtherPlay inside that one, as in FrameStack(OtherPlay(env), 2), and only once."
            )
        if found is None or not isinstance(env, MultiAgentEnvironment):
            raise ValueError(f"{env.name} describes no symmetries, as hanabi/2p does, so there is nothing to rename.")
        self._count = len(found)
        self._obs, self._action = found.observation, found.action

    @property
    def _inner(self) -> MultiAgentEnvironment:
        """The environment inside, which `against_script` may replace in a copy."""
        return cast(MultiAgentEnvironment, self.env)

    @property
    def symmetries(self) -> None:
        """None: they are used up here."""
        return None

    @property
    def entities(self) -> None:
        """None, as a renaming may tear them apart."""
        return None

    @property
    def has_observation(self) -> bool:
        return self._inner.has_observation

    def observation(self, state: Wrapped, params: Any = None) -> jax.Array:
        return self._seen(self._inner.observation(state.env, self._params(params)), state.own)

    def batch_observation(self, state: Wrapped, params: Any = None, *, own_params: bool = False) -> jax.Array:
        obs = self._inner.batch_observation(state.env, self._params(params), own_params=own_params)
        return jax.vmap(self._seen)(obs, state.own)

    def mutate(self, key: jax.Array, state: Wrapped, params: Any = None) -> Wrapped:
        return state._replace(env=Wrapper.mutate(self, key, state, params))

    def action_mask(self, state: Wrapped, params: Any = None) -> jax.Array:
        mask = self._inner.action_mask(state.env, self._params(params))
        return jnp.take_along_axis(mask, jnp.asarray(self._action)[state.own], axis=1)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Wrapped]:
        key_env, key_own = jax.random.split(key)
        return self._renamed(key_own, *self._inner.reset_env(key_env, params))

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Wrapped]:
        keys_env, keys_own = jax.vmap(lambda key: tuple(jax.random.split(key)))(keys)
        obs, state = self._inner.batch_reset(keys_env, self._params(params), own_params=own_params)
        return jax.vmap(self._renamed)(keys_own, obs, state)

    def before_step(self, key: jax.Array, state: Wrapped, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        return key, jnp.asarray(self._action)[state.own, self._inner.action_space().clip(action)]

    def after_step(self, state: Wrapped, action: Any, stepped: Step) -> Step:
        return self._seen(stepped[0], state.own), Wrapped(stepped[1], state.own), *stepped[2:]

    def _renamed(self, key: jax.Array, obs: jax.Array, state: Any) -> tuple[jax.Array, Wrapped]:
        """Observation and state at the beginning of an episode. Consumes `key`."""
        own = jax.random.randint(key, (self._inner.num_agents,), 0, self._count, jnp.int32)
        return self._seen(obs, own), Wrapped(state, own)

    def _seen(self, obs: jax.Array, own: jax.Array) -> jax.Array:
        """The observations `[N, D]` of N agents under their symmetries `own[N]`."""
        return jnp.take_along_axis(obs, jnp.asarray(self._obs)[own], axis=1)
