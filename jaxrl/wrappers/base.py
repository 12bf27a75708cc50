"""The base of all wrappers: it forwards everything, so that a wrapper holds only what it changes."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import jax
import jax.numpy as jnp

from jaxrl.environment import Environment, MultiAgentEnvironment, Script, Step, check_environment
from jaxrl.spaces import Space

if TYPE_CHECKING:
    from jaxrl.entities import Entities
    from jaxrl.environment import Symmetries
    from jaxrl.render.scene import Scene

__all__ = ["StatefulWrapper", "Wrapped", "Wrapper", "along_frames", "nested"]


def nested(env: Any) -> Iterator[Environment]:
    """An environment and those that it wraps, the outermost first."""
    while isinstance(env, Environment):
        yield env
        env = getattr(env, "env", None)


class Wrapper(Environment):
    """An environment that forwards everything to `env`; subclasses override what they change.

    Around a `MultiAgentEnvironment` it is one as well. It uses `env.batch_step` and the other batched methods, unless a
    subclass overrides `reset_env` or `step_env` alone: these methods for one environment are then vmapped. Such a class
    has no `observation`, unless it overrides that too or says `keeps_observation = True`.

    Raises:
        TypeError: `env` is not an environment.
    """

    def __new__(cls, env: Environment, *_: Any, **__: Any) -> Self:
        check_environment(env, cls.__name__)
        return super().__new__(cast(Any, _of_team(cls)) if isinstance(env, MultiAgentEnvironment) else cls)

    def __reduce__(self) -> tuple[Any, ...]:
        """How copies and pickles are made: the class for a team is created again, since no module contains it."""
        return _new, (vars(type(self)).get("_for_one", type(self)), self.env), vars(self)

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.name = env.name
        self.intended = env.intended
        self.action_names = env.action_names

    @property
    def unwrapped(self) -> Environment:
        """The innermost environment."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    def env_state(self, state: Any) -> Any:
        """The state of the environment inside (leaves may have leading axes)."""
        return state

    def env_params(self, state: Any, params: Any) -> Any:
        """The parameters with which the environment inside runs in `state`."""
        return params

    @property
    def default_params(self) -> Any:
        return self.env.default_params

    def params_at(self, progress: jax.Array) -> Any:
        return self.env.params_at(progress)

    def observation_space(self, params: Any = None) -> Space:
        return self.env.observation_space(params)

    def action_space(self, params: Any = None) -> Space:
        return self.env.action_space(params)

    @property
    def entities(self) -> Entities | None:
        return None if self._changes_spaces else self.env.entities

    @property
    def symmetries(self) -> Symmetries | None:
        return None if self._changes_spaces else self.env.symmetries

    @property
    def _changes_spaces(self) -> bool:
        spaces = (self.observation_space(), self.action_space())
        return spaces != (self.env.observation_space(), self.env.action_space())

    def split_key(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.env.split_key(key)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        return self.env.reset_env(key, params)

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        return self.env.step_env(key, state, action, params)

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Any]:
        return self.env.batch_reset(keys, self._params(params), own_params=own_params)

    def batch_step_env(
        self, keys: jax.Array, state: Any, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        return self.env.batch_step_env(keys, state, action, params, own_params=own_params)

    def batch_step(
        self,
        keys: jax.Array,
        state: Any,
        action: Any,
        params: Any = None,
        reset_to: tuple[Any, Any] | None = None,
        *,
        own_params: bool = False,
    ) -> Step:
        return self.env.batch_step(keys, state, action, self._params(params), reset_to, own_params=own_params)

    @property
    def has_observation(self) -> bool:
        return self.keeps_observation and self.env.has_observation

    def observation(self, state: Any, params: Any = None) -> Any:
        return self.env.observation(self.env_state(state), self.env_params(state, params))

    def batch_observation(self, state: Any, params: Any = None, *, own_params: bool = False) -> Any:
        return self.env.batch_observation(self.env_state(state), self._params(params), own_params=own_params)

    @property
    def has_mutate(self) -> bool:
        return super().has_mutate and self.env.has_mutate

    def mutate(self, key: jax.Array, state: Any, params: Any = None) -> Any:
        return self.env.mutate(key, self.env_state(state), self.env_params(state, params))

    @property
    def has_action_mask(self) -> bool:
        return self.env.has_action_mask

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        return self.env.action_mask(self.env_state(state), self.env_params(state, params))

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        return self.env.global_state(self.env_state(state), self.env_params(state, params))

    @property
    def has_global_state(self) -> bool:
        return self.env.has_global_state

    @property
    def state_entities(self) -> Entities | None:
        return self.env.state_entities

    def sub_states(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
        return self.env.sub_states(key, state, action, self._params(params))

    def draw(self, states: Any, params: Any = None) -> Scene:
        return self.env.draw(self.env_state(states), params)


class _Team(MultiAgentEnvironment):
    """What a wrapper also forwards if the environment inside has several agents."""

    @property
    def _inside(self) -> MultiAgentEnvironment:
        return cast(Any, self).env

    # Each is that of the environment inside.
    agents, agent_info, teams, roles, kinds, agent_observation_spaces, agent_action_spaces = (  # pyright: ignore
        property(operator.attrgetter(f"env.{name}"))
        for name in (
            *("agents", "agent_info", "teams", "roles", "kinds"),
            *("agent_observation_spaces", "agent_action_spaces"),
        )
    )

    def agent_mask(self, state: Any, params: Any = None) -> jax.Array:
        own = cast(Any, self)
        return self._inside.agent_mask(own.env_state(state), own.env_params(state, params))

    def against_script(self, share: float | None = None) -> MultiAgentEnvironment:
        other = copy.copy(self)
        cast(Any, other).env = self._inside.against_script(share)
        other.made_as = ""  # no name makes it
        return other

    @property
    def scripted_policy(self) -> Script | None:
        return None if cast(Any, self)._changes_spaces else self._inside.scripted_policy


def _new(cls: type[Wrapper], env: Environment) -> Wrapper:
    """A wrapper that has no attributes yet."""
    return cls.__new__(cls, env)


@functools.cache
def _of_team(cls: type[Wrapper]) -> type[Wrapper]:
    """The wrapper's class for environments with several agents."""
    if issubclass(cls, MultiAgentEnvironment):
        return cls
    names = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_for_one": cls}
    return type(cls.__name__, (cls, _Team), names)


class Wrapped(NamedTuple):
    """The state of a `StatefulWrapper`."""

    env: Any
    """The state of the environment inside."""
    own: Any
    """What the wrapper remembers between steps."""


class StatefulWrapper(Wrapper):
    """A wrapper that remembers something between steps; subclasses write the three hooks, for one environment."""

    split_key = Wrapper.split_key

    def before_step(self, key: jax.Array, state: Wrapped, action: Any) -> tuple[jax.Array, Any]:
        """The key and the action for the environment inside. Consumes `key`."""
        return key, action

    def after_reset(self, obs: Any, state: Any) -> tuple[Any, Wrapped]:
        """From observation and state of the environment inside, those of this one at the start of an episode."""
        raise NotImplementedError

    def after_step(self, state: Wrapped, action: Any, stepped: Step) -> Step:
        """From a raw step of the environment inside, that of this one, with a `Wrapped` state.

        Args:
            state: Before the step.
            action: The action that the environment inside took.
            stepped: Its `step_env`'s result.
        """
        raise NotImplementedError

    def env_state(self, state: Wrapped) -> Any:
        return state.env

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Wrapped]:
        return self.after_reset(*self.env.reset_env(key, params))

    def step_env(self, key: jax.Array, state: Wrapped, action: Any, params: Any) -> Step:
        key, action = self.before_step(key, state, action)
        stepped = self.env.step_env(key, state.env, action, self.env_params(state, params))
        return self.after_step(state, action, stepped)

    def mutate(self, key: jax.Array, state: Wrapped, params: Any = None) -> Wrapped:
        inside = super().mutate(key, state, params)
        # It remembers what it would if the episode had begun there.
        return self.after_reset(self.env.observation(inside, self.env_params(state, params)), inside)[1]

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Wrapped]:
        return jax.vmap(self.after_reset)(*self.env.batch_reset(keys, self._params(params), own_params=own_params))

    def batch_step_env(
        self, keys: jax.Array, state: Wrapped, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        keys, action = jax.vmap(self.before_step)(keys, state, action)
        params = self.env_params(state, params)
        stepped = self.env.batch_step_env(keys, state.env, action, params, own_params=own_params)
        return jax.vmap(self.after_step)(state, action, stepped)

    def sub_states(self, key: jax.Array, state: Wrapped, action: Any, params: Any = None) -> Wrapped:
        params = self._params(params)
        after = self.step_env(jax.random.clone(key), state, action, params)[1]
        key, action = self.before_step(key, state, action)
        passed = self.env.sub_states(key, state.env, action, self.env_params(state, params))
        return Wrapped(passed, along_frames(after.own, passed))


def along_frames(own: Any, passed: Any) -> Any:
    """What a wrapper remembers, once for each of the F states `[F, ...]` that a step passes through."""
    num_frames = jax.tree.leaves(passed)[0].shape[0]
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_frames, *leaf.shape)), own)
