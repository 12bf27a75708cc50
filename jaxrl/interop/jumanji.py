"""The environments of jumanji as ours: `from_jumanji(env)`."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.interop.common import Adapted, Extra, check_name, defaults, explained, fitting, narrow, observed
from jaxrl.keys import abstract_key
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

with Extra("jumanji"):
    from jumanji import env as their_env
    from jumanji import registration, specs

__all__ = ["FromJumanji", "FromJumanjiTeam", "from_jumanji", "make", "names"]

_PICTURES = ("grid", "board")
_BESIDES = ("action_mask", "step_count", "num_mines")  # what a picture goes without: legal moves, the clock, a constant
_VIEWS = ("agents_view", "searcher_views")  # what each agent sees for itself
_PLACES = ("agents_locations", "positions", "vehicles", "machines_job_ids", "machines_remaining_times")
"""The fields with a row for each agent, which all of them see."""
_MOST_ACTIONS = 10_000  # of several choices as one: FlatPack has 8100
_ENDLESS = 2**31 - 1


def from_jumanji(env: Any) -> FromJumanji:
    """A jumanji environment as one of ours, so that it can be trained on.

    Where jumanji has several agents they are agents here: `agent_0`, `agent_1` and so on, a team if they share one
    reward. So are the machines of its job shop, because each has legal actions of its own. Several choices that are
    legal only together, such as row, column and digit in Sudoku, become one Discrete action, in the order of C.

    A picture is what jumanji calls a grid or a board, if it is all that there is to see; anything else is one vector.
    Observations are float32 without bounds, and legal actions are the mask. An end by `time_limit` is truncated, even
    where jumanji does not tell it from others; an observation that is a picture lacks the clock. What jumanji calls
    extras is the `info`. JAX's 64-bit mode has no effect.

    Args:
        env: The environment that `jumanji.make` returned, without wrappers.

    Raises:
        TypeError: `env` is not an environment of jumanji.
        ValueError: It is for several agents, and has none.
    """
    if not isinstance(env, their_env.Environment):
        hint = "from_jumanji(jumanji.make(id)), or jaxrl.make of a name such as jumanji:Snake-v1"
        raise TypeError(f"from_jumanji takes one of jumanji's environments, as in {hint}; not a {type(env).__name__}.")
    return FromJumanji(env) if _num_agents(env) is None else FromJumanjiTeam(env)


def names() -> list[str]:
    """Jumanji's names for its environments."""
    return sorted(registration.registered_environments())


def make(name: str, **options: Any) -> FromJumanji:
    """`from_jumanji(jumanji.make(name, **options))`; options of the generator of its problems count as well."""
    check_name("jumanji", name, names())
    try:
        theirs = registration.make(name)
    except OSError as error:
        raise OSError(
            f"jumanji cannot make {name}, whose levels it downloads: {error} Others can be given in Python: "
            f"jaxrl.interop.from_jumanji(jumanji.make({name!r}, generator=…)), such as the ToyGenerator of its Sokoban."
        ) from error
    return _with_options(name, theirs, options) if options else from_jumanji(theirs)


def _with_options(name: str, theirs: Any, options: dict[str, Any]) -> FromJumanji:
    """The same environment with other options."""
    own = {option: value for option, value in defaults(type(theirs)).items() if option != "viewer"}
    generator = vars(theirs).get("generator", vars(theirs).get("_generator"))
    inner = {} if generator is None else {option: _value(generator, option) for option in defaults(type(generator))}
    if "generator" in options:
        inner = {}
    given = fitting(f"jumanji:{name}", options, {**inner, **own})
    with explained("jumanji", name):
        if not given.keys() <= own.keys():
            chosen = {option: value for option, value in given.items() if option not in own}
            given = {option: value for option, value in given.items() if option in own}
            given["generator"] = type(generator)(**{**inner, **chosen})
        return from_jumanji(registration.make(name, **given))


def _value(generator: Any, option: str) -> Any:
    """A generator keeps its options under their names, perhaps with an underscore."""
    return getattr(generator, option, getattr(generator, f"_{option}", None))


class FromJumanji(Adapted):
    """See `from_jumanji`."""

    intended = ("same_start",)  # Pac-Man

    def __init__(self, env: Any) -> None:
        self.env = env
        self.name = f"jumanji:{type(env).__name__}"
        # Whether only the clock ends an episode is what the same environment says without one.
        self._endless = copy.copy(env) if hasattr(env, "time_limit") else None
        if self._endless is not None:
            self._endless.time_limit = _ENDLESS
        _, begun = jax.eval_shape(partial(narrow, env.reset), abstract_key())
        self._mask = getattr(begun.observation, "action_mask", None)
        self._action_space = self._actions()
        agent_axes = 1 if isinstance(self, MultiAgentEnvironment) else 0
        shape = jax.eval_shape(self._seen, begun.observation).shape[agent_axes:]
        self._observation_space = Box(-np.inf, np.inf, shape)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        state, timestep = narrow(self.env.reset, key)
        return self._seen(timestep.observation), self._state(state, timestep)

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        before = state[0].replace(key=key)
        action = self._theirs(self._action_space.clip(action))
        after, timestep = narrow(_step, self.env, before, action)
        over, no_future = timestep.last(), (timestep.discount == 0).all()
        if self._endless is not None:
            again = before.replace(key=jax.random.clone(key))  # the same draws decide
            no_future &= narrow(_step, self._endless, again, action)[1].last()
        obs, after = self._seen(timestep.observation), self._state(after, timestep)
        reward, info = self._reward(timestep.reward), dict(timestep.extras)
        return obs, after, reward, over & no_future, over & ~no_future, info

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        return super().action_mask(state, params) if self._mask is None else state[1]

    def _actions(self) -> Space:
        """The space of actions; several choices are one if they are legal only together."""
        spec, space = self.env.action_spec, _space(self.env.action_spec)
        if not isinstance(space, MultiDiscrete) or self._mask is None:
            return space
        joint = self._mask.shape == space.nvec and math.prod(space.nvec) <= _MOST_ACTIONS
        self._mask = self._mask if joint else None
        return Discrete(math.prod(space.nvec)) if joint else _space(spec)

    def _theirs(self, action: jax.Array) -> jax.Array:
        """Our action as jumanji's."""
        if self._mask is not None and len(self._mask.shape) > 1:
            action = jnp.stack(jnp.unravel_index(action, self._mask.shape))
        return action.astype(self.env.action_spec.dtype)

    def _state(self, state: Any, timestep: Any) -> tuple[Any, Any]:
        """A state of jumanji, without the key that each step brings along, and the mask."""
        return state.replace(key=None), self._legal(timestep)

    def _legal(self, timestep: Any) -> Any:
        """The mask; nothing without one."""
        return () if self._mask is None else timestep.observation.action_mask.astype(bool).reshape(-1)

    def _seen(self, obs: Any) -> jax.Array:
        return narrow(_seen, obs)

    def _reward(self, reward: jax.Array) -> jax.Array:
        return reward.astype(jnp.float32)


class FromJumanjiTeam(FromJumanji, MultiAgentEnvironment):
    """See `from_jumanji`."""

    def __init__(self, env: Any) -> None:
        self.agents = tuple(f"agent_{agent}" for agent in range(_num_agents(env) or 0))
        if not self.agents:
            raise ValueError(f"from_jumanji takes environments with agents, and this {type(env).__name__} has none.")
        self._shared = not env.reward_spec.shape
        super().__init__(env)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0,) * self.num_agents if self._shared else super().teams

    def _actions(self) -> Space:
        spec = self.env.action_spec
        if self._mask is not None:
            return Discrete(self._mask.shape[1])
        low, high = (np.broadcast_to(bound, spec.shape)[0] for bound in (spec.minimum, spec.maximum))
        return Box(low, high, spec.shape[1:])

    def _theirs(self, action: jax.Array) -> jax.Array:
        return action.astype(self.env.action_spec.dtype)

    def _legal(self, timestep: Any) -> Any:
        return () if self._mask is None else timestep.observation.action_mask.astype(bool)

    def _seen(self, obs: Any) -> jax.Array:
        return narrow(_seen_by_each, obs, self.num_agents)

    def _reward(self, reward: jax.Array) -> jax.Array:
        return jnp.broadcast_to(reward, (self.num_agents,)).astype(jnp.float32)


def _step(env: Any, state: Any, action: jax.Array) -> Any:
    """A step of jumanji, of a copy of the state: some write into what they are given."""
    return env.step(jax.tree.map(lambda leaf: leaf, state), action)


def _space(spec: Any) -> Space:
    """An action space of jumanji as one of ours."""
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(int(spec.num_values))
    if isinstance(spec, specs.MultiDiscreteArray):
        return MultiDiscrete(tuple(np.ravel(spec.num_values).tolist()))
    return Box(np.asarray(spec.minimum), np.asarray(spec.maximum), spec.shape)


def _num_agents(env: Any) -> int | None:
    """The number of agents of a jumanji environment: one with a reward or a row of legal actions each; None for one."""
    if env.reward_spec.shape:
        return env.reward_spec.shape[0]
    actions, mask = env.action_spec.shape, getattr(env.observation_spec, "action_mask", None)
    if mask is None or not actions or len(mask.shape) != 2 or mask.shape[0] != actions[0]:
        return None
    joint = mask.shape == tuple(np.ravel(getattr(env.action_spec, "num_values", ())))
    return None if joint else actions[0]


def _seen(obs: Any) -> jax.Array:
    """The observation of a single agent: a picture `[H, W, C]` or a vector."""
    fields = obs._asdict()
    rest = [field for field in fields if field not in _BESIDES]
    if len(rest) == 1 and rest[0] in _PICTURES:
        picture = observed(fields[rest[0]])
        return picture if picture.ndim == 3 else picture[..., None]
    return observed([value for field, value in fields.items() if field != "action_mask"])


def _seen_by_each(obs: Any, count: int) -> jax.Array:
    """The observations of several agents, `[N, …]`: a view of its own, or all that there is, with itself in front.

    Without a view of its own, a vector ends with who the agent is, one-hot. The grid of wires, whose numbers are kinds
    of things and agents, becomes a picture with three channels for each agent, itself first: wire, head, target.
    """
    return jax.vmap(lambda agent: _seen_by(agent, obs, count))(jnp.arange(count, dtype=jnp.int32))


def _seen_by(agent: jax.Array, obs: Any, count: int) -> jax.Array:
    fields = {field: value for field, value in obs._asdict().items() if field != "action_mask"}
    if set(fields) == {"grid", "step_count"}:
        return _wires(agent, fields["grid"], count)
    own = {field: jax.tree.map(lambda leaf: leaf[agent], fields[field]) for field in _VIEWS if field in fields}
    rolled = {
        field: jax.tree.map(lambda leaf: jnp.roll(leaf, -agent, axis=0), fields[field])
        for field in _PLACES
        if field in fields
    }
    name = [] if own else [jax.nn.one_hot(agent, count, dtype=jnp.float32)]
    if list(own) == ["agents_view"] and own["agents_view"].ndim == 3:
        return jnp.moveaxis(observed(own["agents_view"]), 0, -1)
    return observed([*{**fields, **own, **rolled}.values(), *name])


def _wires(agent: jax.Array, grid: jax.Array, count: int) -> jax.Array:
    """The grid of jumanji's Connector: 0 is nothing, and agent k has 1 + 3 k and the next two numbers."""
    mine = jnp.where(grid > 0, (grid - 1 - 3 * agent) % (3 * count), -1)
    return jax.nn.one_hot(mine, 3 * count, dtype=jnp.float32)
