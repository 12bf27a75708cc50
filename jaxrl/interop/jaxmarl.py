"""Our environments for JaxMARL, `to_jaxmarl(env)`, and its environments as ours, `from_jaxmarl(env)`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import spaces
from jaxrl.config import MAX_COUNT, as_whole
from jaxrl.environment import Environment, MultiAgentEnvironment, Step
from jaxrl.interop.common import (
    Adapted,
    Extra,
    check_name,
    clocked,
    defaults,
    explained,
    fitting,
    joined,
    narrow,
    observed,
    observed_space,
    own_params,
    padded,
    split_agents,
    split_mask,
    stack_agents,
    typed_key,
)
from jaxrl.keys import abstract_key

with Extra("jaxmarl"):
    import jaxmarl
    from jaxmarl.environments import spaces as their_spaces
    from jaxmarl.environments.multi_agent_env import MultiAgentEnv

__all__ = ["DictView", "FromJaxMARL", "from_jaxmarl", "make", "names", "to_jaxmarl"]

_WORLD = "world_state"  # beside the agents, in a dict of observations
_MABRAX = ("ant_4x2", "halfcheetah_6x1", "hopper_3x1", "humanoid_9|8", "walker2d_2x3")  # brax's bodies, shared
_BODIES = (
    *("rad", "moveable", "silent", "collide", "mass", "accel", "max_speed", "u_noise", "c_noise"),
    *("damping", "contact_force", "contact_margin"),
)
"""The options of MPE besides the named arguments."""


def to_jaxmarl(env: MultiAgentEnvironment, params: Any = None) -> DictView:
    """`env` in the form that JaxMARL's scripts and wrappers expect: dicts of agents in and out, and still pure.

    `dones[agent]` is True for dead agents and, at the end of an episode, for all agents. `infos` has what the
    environment's `info` tells of the episode or of each agent, such as `won`, and `terminated` and `truncated`, `[N]`
    each, as JaxMARL's scripts reshape them; only `shaped_reward` is a dict by agent, as they add it to the rewards. A
    global state is added to the observations as `"world_state"`, as in JaxMARL's SMAX. Attributes that the view or its
    states lack are looked up on `env` and on our states.

    Args:
        env: The environment.
        params: Its parameters; None for its defaults.
    """
    return DictView(env, params)


def from_jaxmarl(env: Any, time_limit: int | None = None) -> FromJaxMARL:
    """A JaxMARL environment as one of ours, so that it can be trained on.

    Observations are float32 arrays without bounds, because JaxMARL does not always keep declared shapes, dtypes and
    bounds; if an agent observes several arrays (STORM), they become one vector. `"world_state"`, which SMAX has, is the
    global state. JAX's 64-bit mode has no effect on it.

    Args:
        env: The environment that `jaxmarl.make` returned.
        time_limit: JaxMARL does not distinguish a time-out from an end. Given the number of steps after which its clock
            ends an episode, such ends are `truncated`, and their values are bootstrapped; else all are `terminated`.
            MABrax says itself how long its episodes are.

    Raises:
        TypeError: `env` is not a JaxMARL environment, does not return dicts of agents, or the agents' spaces are too
            different to fit in one array; or it is one of MABrax that resets itself inside its steps.
        ValueError: `time_limit` is not a whole number of steps, at least 1; or there are no agents.
    """
    if not isinstance(env, MultiAgentEnv):
        hint = "from_jaxmarl(jaxmarl.make(id)), or jaxrl.make of a name such as jaxmarl:overcooked"
        raise TypeError(f"from_jaxmarl takes one of JaxMARL's environments, as in {hint}; not a {type(env).__name__}.")
    if getattr(env, "auto_reset", False):
        kind = type(env).__name__
        raise TypeError(f"from_jaxmarl resets environments itself; make this {kind} with auto_reset=False.")
    if time_limit is None and (length := getattr(env, "episode_length", None)):
        time_limit = -(-length // getattr(env, "action_repeat", 1))
    return FromJaxMARL(env, time_limit)


def names() -> list[str]:
    """JaxMARL's names for its environments."""
    return list(jaxmarl.registered_envs)


def make(name: str, *, time_limit: int | None = None, **options: Any) -> FromJaxMARL:
    """`from_jaxmarl(jaxmarl.make(name, **options))`."""
    check_name("jaxmarl", name, names())
    if name in _MABRAX:
        options.setdefault("auto_reset", False)
    if options and name.startswith("MPE_"):  # which would ignore what they do not know
        kinds = reversed(type(jaxmarl.make(name)).__mro__[:-1])
        own = {option: value for kind in kinds for option, value in defaults(kind).items()}
        options = fitting(f"jaxmarl:{name}", options, own | dict.fromkeys(_BODIES))
    options = clocked(options)
    more = "What needs more than numbers and text can be made in Python: jaxrl.interop.from_jaxmarl(jaxmarl.make("
    with explained("jaxmarl", name, f"{more}{name!r}, …))."):
        theirs = jaxmarl.make(name, **options)
    return from_jaxmarl(theirs, time_limit)


class ViewState(NamedTuple):
    """Our state and the agents' observations of it; other attributes, such as `recipe`, are those of our state."""

    env_state: Any
    obs: dict[str, jax.Array]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env_state, name)


class DictView(MultiAgentEnv):
    """See `jaxrl.interop.to_jaxmarl`."""

    def __init__(self, env: MultiAgentEnvironment, params: Any = None) -> None:
        if not isinstance(env, MultiAgentEnvironment):
            hint = "; use to_gymnax, or jaxrl.wrappers.as_multi_agent first" if isinstance(env, Environment) else ""
            raise TypeError(f"to_jaxmarl takes an environment with agents, not a {type(env).__name__}{hint}.")
        super().__init__(num_agents=env.num_agents)
        self.env: Any = env  # some have more than an environment must have, such as a kitchen
        self.params = own_params(env, params)
        self.agents = list(env.agents)
        self.observation_spaces = {name: _theirs(space) for name, space in env.agent_observation_spaces.items()}
        self.action_spaces = {name: _theirs(space) for name, space in env.agent_action_spaces.items()}
        self._world = env.has_global_state

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: jax.Array) -> tuple[dict[str, jax.Array], ViewState]:
        """Start an episode."""
        obs, state = self.env.reset_env(typed_key(key), self.params)
        seen = self._seen(obs, state)
        return seen, ViewState(state, seen)

    def step_env(self, key: jax.Array, state: Any, actions: dict[str, jax.Array]) -> tuple[Any, Any, Any, Any, Any]:
        """One step without a reset; the inherited `step` resets."""
        env, key = self.env, typed_key(key)
        action = stack_agents(env, actions)
        obs, after, reward, terminated, truncated, info = env.step_env(key, state.env_state, action, self.params)
        over = terminated | truncated
        done = over | ~env.agent_mask(after, self.params)
        seen = self._seen(obs, after)
        facts = {**info, "terminated": terminated, "truncated": truncated}
        infos: dict[str, Any] = {
            name: jnp.broadcast_to(x, env.num_agents)
            for name, x in facts.items()
            if jnp.shape(x) in ((), (env.num_agents,))
        }
        if "shaped_reward" in infos:
            infos["shaped_reward"] = self._by_agent(infos["shaped_reward"])
        dones = self._by_agent(done) | {"__all__": over}
        return seen, ViewState(after, seen), self._by_agent(reward), dones, infos

    def get_obs(self, state: Any) -> dict[str, jax.Array]:
        """The agents' observations of `state`."""
        return state.obs

    @partial(jax.jit, static_argnums=0)
    def get_avail_actions(self, state: Any) -> dict[str, jax.Array]:
        """The actions that each agent can choose, bool arrays."""
        return split_mask(self.env, self.env.action_mask(state.env_state, self.params))

    get_legal_moves = get_avail_actions  # as scripts for Hanabi call it

    def observation_space(self, agent: str | None = None) -> their_spaces.Space:
        """The space of what an agent observes; None for the first, as in scripts for Overcooked."""
        return self.observation_spaces[agent or self.agents[0]]

    def action_space(self, agent: str | None = None) -> their_spaces.Space:
        """The space of an agent's actions; None for the first."""
        return self.action_spaces[agent or self.agents[0]]

    @property
    def name(self) -> str:
        """Our name with an underscore; JaxMARL's wrappers look for `smax` in it."""
        return self.env.name.replace("/", "_")

    @property
    def state_size(self) -> int:
        """G, the size of `"world_state"`."""
        return jax.eval_shape(self.reset, abstract_key())[0][_WORLD].shape[0]

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """The agents of each role."""
        roles = [f"role_{role}" for role in self.env.roles]
        return {name: [a for a, role in zip(self.agents, roles, strict=True) if role == name] for name in roles}

    @property
    def obs_size(self) -> int:
        """D, the size of an observation."""
        return self.env.observation_space(self.params).shape[0]

    @property
    def unit_features(self) -> range:
        """The numbers that an agent sees of each other unit, which come first in its observation."""
        return range(self.env.entities.groups[0].parts[0][1])

    @property
    def own_features(self) -> range:
        """The numbers that an agent sees of itself, which come last."""
        return range(self.obs_size - sum(group.count for group in self.env.entities.groups) * len(self.unit_features))

    @property
    def possible_recipes(self) -> np.ndarray:
        """The ingredients of each recipe that a kitchen may ask for, `[R, 3]`."""
        from jaxrl.envs.overcooked_v2.layout import kinds_in

        return np.array([kinds_in(int(recipe)) for recipe in self.env.kitchen.recipes])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def _seen(self, obs: jax.Array, state: Any) -> dict[str, jax.Array]:
        world = {_WORLD: self.env.global_state(state, self.params)} if self._world else {}
        return split_agents(self.env, obs) | world

    def _by_agent(self, values: jax.Array) -> dict[str, jax.Array]:
        return {agent: values[i] for i, agent in enumerate(self.agents)}


class TheirState(NamedTuple):
    """JaxMARL's state, the agents that are not done, the steps so far, and what JaxMARL calls the world state."""

    env_state: Any
    alive: jax.Array  # bool [N]
    step: jax.Array
    world: Any  # float32 [G]; () without one


class FromJaxMARL(Adapted, MultiAgentEnvironment):
    """See `from_jaxmarl`."""

    def __init__(self, env: Any, time_limit: int | None = None) -> None:
        self.env = env
        self.name = f"jaxmarl:{env.name}"
        self.time_limit = None if time_limit is None else as_whole("time_limit", time_limit, most=MAX_COUNT)
        self._names = list(env.agents)  # integers in some environments
        self.agents = tuple(map(str, self._names))
        if not self.agents:
            raise ValueError(f"from_jaxmarl takes environments with agents, and {env.name} has none.")
        obs, state = jax.eval_shape(partial(narrow, env.reset), abstract_key())
        numbered = isinstance(obs, tuple | list)  # as in STORM, whose agents are 0, 1, …
        if not set(self._names) <= set(range(len(obs)) if numbered else obs if isinstance(obs, dict) else ()):
            raise TypeError(
                f"from_jaxmarl takes environments that return dicts of agents, and {env.name} returns another tree: "
                f"{jax.tree.structure(obs)}. Its agents are {self._names}."
            )
        own: list[spaces.Space] = [observed_space(obs[name]) for name in self._names]
        acts = [_action_space(env.action_space(name)) for name in self._names]
        self._observation_spaces = dict(zip(self.agents, own, strict=True))
        self._action_spaces = dict(zip(self.agents, acts, strict=True))
        self._observation_space, self._action_space = joined(own), joined(acts)
        self._legal = _legal(env, state)
        self._has_world = isinstance(obs, dict) and _WORLD in obs

    @property
    def agent_observation_spaces(self) -> dict[str, spaces.Space]:
        return self._observation_spaces

    @property
    def agent_action_spaces(self) -> dict[str, spaces.Space]:
        return self._action_spaces

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, TheirState]:
        obs, state = narrow(self.env.reset, key)
        alive, step = jnp.ones(self.num_agents, bool), jnp.zeros((), jnp.int32)
        return self._stacked(obs), TheirState(state, alive, step, self._world(obs))

    def step_env(self, key: jax.Array, state: TheirState, action: jax.Array, params: Any) -> Step:
        own = [space.clip(_cut(action[i], space)) for i, space in enumerate(self._action_spaces.values())]
        actions = dict(zip(self._names, own, strict=True))
        obs, after, rewards, dones, info = narrow(self.env.step_env, key, state.env_state, actions)
        over = jnp.asarray(dones["__all__"], bool)
        dead = jnp.stack([jnp.asarray(dones.get(name, over), bool) for name in self._names])
        step = state.step + 1
        late = over & (step >= self.time_limit) if self.time_limit else jnp.zeros_like(over)
        reward = jnp.stack([jnp.asarray(rewards[name], jnp.float32).reshape(()) for name in self._names])
        state = TheirState(after, ~dead, step, self._world(obs))
        return self._stacked(obs), state, reward, over & ~late, late, info

    def action_mask(self, state: TheirState, params: Any = None) -> jax.Array:
        widest = super().action_mask(state, params).shape[1]
        own = [space.n for space in self._action_spaces.values() if isinstance(space, spaces.Discrete)]
        mask = jnp.asarray(np.arange(widest) < np.array(own)[:, None])
        if self._legal is None:
            return mask
        legal = self._legal(state.env_state)
        rows = [padded(jnp.asarray(legal[name], bool).reshape(-1), (widest,)) for name in self._names]
        return mask & jnp.stack(rows)

    def agent_mask(self, state: TheirState, params: Any = None) -> jax.Array:
        return state.alive

    @property
    def has_global_state(self) -> bool:
        """True if JaxMARL has a world state."""
        return self._has_world

    def global_state(self, state: TheirState, params: Any = None) -> jax.Array:
        """JaxMARL's world state."""
        return state.world if self._has_world else super().global_state(state, params)

    def _world(self, obs: Any) -> Any:
        return observed(obs[_WORLD]) if self._has_world else ()

    def _stacked(self, obs: Any) -> jax.Array:
        space = self._observation_space
        return jnp.stack([padded(observed(obs[name]), space.shape) for name in self._names])


def _action_space(space: Any) -> spaces.Space:
    """JaxMARL's action space as one of ours."""
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if isinstance(space, their_spaces.MultiDiscrete):
        return spaces.MultiDiscrete(tuple(np.asarray(space.num_categories).tolist()))
    return spaces.Box(np.asarray(space.low), np.asarray(space.high), tuple(space.shape))


def _cut(action: jax.Array, space: spaces.Space) -> jax.Array:
    """An agent's own part of a padded action."""
    return action[tuple(slice(0, size) for size in space.shape)]


def _legal(env: Any, state: Any) -> Any:
    """The environment's function for legal actions, whatever its name; None if all are legal."""
    for name in ("get_legal_moves", "get_avail_actions"):
        function = getattr(env, name, None)
        try:
            if function is not None:
                jax.eval_shape(function, state)
                return function
        except NotImplementedError:
            pass
    return None


def _theirs(space: spaces.Space) -> their_spaces.Space:
    if isinstance(space, spaces.Discrete):
        return their_spaces.Discrete(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return their_spaces.MultiDiscrete(space.nvec)
    assert isinstance(space, spaces.Box)
    return their_spaces.Box(space.low, space.high, space.shape, space.dtype)
