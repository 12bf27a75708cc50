"""The shared parts of the adapters: an installation hint, options of other libraries, agents' arrays, a stepper."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import MAX_COUNT, as_whole, typed
from jaxrl.environment import Environment, MultiAgentEnvironment, check_environment
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.keys import abstract_key
from jaxrl.registry import shared
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space, check_action

__all__ = [
    "Adapted",
    "Compiled",
    "Extra",
    "Stepper",
    "check_name",
    "clocked",
    "defaults",
    "explained",
    "fitting",
    "joined",
    "look",
    "narrow",
    "no_action",
    "observed",
    "observed_space",
    "own_params",
    "padded",
    "raw_key",
    "sampling_mask",
    "split_agents",
    "split_mask",
    "stack_agents",
    "typed_key",
    "writable",
]


_PLAIN = (bool, int, float, str)
_CLOCKS = ("max_steps", "max_steps_in_episode", "max_timesteps", "num_inner_steps", "time_limit", "n_frames")
"""The libraries' names for the steps after which an episode is over; the last, brax's, are of physics in a step."""
_REFUSALS = (TypeError, ValueError, AttributeError, AssertionError, NotImplementedError, LookupError, ArithmeticError)


class Adapted(Environment):
    """Another library's environment as one of ours, whose spaces no parameter changes; subclasses say which."""

    _observation_space: Space
    _action_space: Space

    def observation_space(self, params: Any = None) -> Space:
        return self._observation_space

    def action_space(self, params: Any = None) -> Space:
        return self._action_space

    def draw(self, states: Any, params: Any = None) -> Any:
        """Raises NotImplementedError: the other library draws its environments, we do not."""
        raise NotImplementedError(f"{self.name} has no picture here: its own library draws its states, from env.env.")


class Extra:
    """`with Extra("gymnasium"): import gymnasium` says what to install if the import fails."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, ImportError):
            extra = self.name.replace("_", "-")
            raise ImportError(f'This needs {self.name}: pip install "jaxrl[{extra}]"') from error


class Compiled:
    """`jax.jit(function)` that can be pickled, as other libraries do to reach their processes: a copy compiles anew."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._compiled = function, jax.jit(function)

    def __call__(self, *args: Any) -> Any:
        return self._compiled(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return Compiled, (self._function,)


def check_name(library: str, name: str, known: Sequence[str]) -> None:
    """Raise UnknownNameError unless the library has an environment of that name; the message has the nearest."""
    if name not in known:
        raise UnknownNameError(f"{library} has no environment {name!r}. {nearest(name, known)}")


@contextmanager
def explained(library: str, name: str, advice: str = "") -> Iterator[None]:
    """Say what a library refuses: some look into what they are given before they check it.

    Raises:
        ValueError: The library raises one; the message has its own, and the advice.
        TypeError: It raises something else.
    """
    try:
        yield
    except _REFUSALS as error:
        why = str(error).rstrip(". \n")
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{library} cannot make {name} of these options: {why}. {advice}".rstrip()) from error


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The named arguments of a function or class, and their default values, None without one."""
    arguments = inspect.signature(function).parameters.values()
    named = [a for a in arguments if a.kind in (a.POSITIONAL_OR_KEYWORD, a.KEYWORD_ONLY)]
    return {a.name: None if a.default is a.empty else a.default for a in named}


def clocked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, in which every clock has a step or more.

    Most libraries take 0, and end each episode after one step or stand still. What None means is theirs to say.

    Raises:
        ValueError: A number of steps is not a whole number, or less than 1.
    """
    counted = {name: options[name] for name in _CLOCKS if options.get(name) is not None}
    return {**options, **{name: as_whole(name, value, most=MAX_COUNT) for name, value in counted.items()}}


def fitting(label: str, options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options, converted to the types of the values whose place they take.

    Args:
        label: The name of their owner, for messages.
        options: The given ones.
        values: The value of each option that there is; where it is no number or text, any value is accepted.

    Raises:
        TypeError: There is no such option.
        ValueError: A value is not of the type, or a clock has no steps.
    """
    for name in options:
        if name not in values:
            has = f"It has {', '.join(values)}." if values else "It has none."
            raise TypeError(f"{label} has no option {name!r}. {has}")
    kinds = {name: type(values[name]) if isinstance(values[name], _PLAIN) else Any for name in options}
    return clocked({name: typed(name, kinds[name], value) for name, value in options.items()})


def own_params(env: Environment, params: Any) -> Any:
    """`params`, or the defaults for None.

    Raises:
        TypeError: They are not parameters of the environment.
    """
    own = env.default_params
    if params is None:
        return own
    if not isinstance(params, type(own)):
        kinds = f"a {type(own).__name__}, not a {type(params).__name__}"
        raise TypeError(f"params of {env.name} are like its default_params, {kinds}.")
    return params


def split_agents(env: MultiAgentEnvironment, obs: jax.Array) -> dict[str, jax.Array]:
    """`obs[N, …]` as a dict of agents, each cut to its own observation space."""
    return {
        agent: obs[i][tuple(slice(0, size) for size in space.shape)]
        for i, (agent, space) in enumerate(env.agent_observation_spaces.items())
    }


def stack_agents(env: MultiAgentEnvironment, actions: Mapping[str, Any]) -> jax.Array:
    """A dict of actions as `action[N, …]`, padded with zeros if an agent's own space is smaller.

    Raises:
        TypeError: `actions` is not a dict of agents.
        ValueError: An agent has no action, or something else.
    """
    if not isinstance(actions, Mapping):
        raise TypeError(f"step takes a dict of actions by agent, not a {type(actions).__name__}.")
    if missing := [agent for agent in env.agents if agent not in actions]:
        raise ValueError(f"{env.name} needs an action for each agent, and there is none for {', '.join(missing)}.")
    space = env.action_space()
    stacked = []
    for agent, own in env.agent_action_spaces.items():
        try:
            action = jnp.asarray(actions[agent]).reshape(own.shape)
        except (TypeError, ValueError) as error:
            raise no_action(agent, own, actions[agent]) from error
        stacked.append(padded(action, space.shape).astype(space.dtype))
    return jnp.stack(stacked)


def no_action(agent: str, own: Space, given: Any) -> ValueError:
    """The error for something that is not an action of this agent."""
    return ValueError(f"{agent} acts in {own}, and {given!r} is no such action.")


def split_mask(env: MultiAgentEnvironment, mask: Any) -> dict[str, Any]:
    """`mask[N, A]` as a dict of agents, each cut to its own actions."""
    own = env.agent_action_spaces.items()
    return {agent: mask[i, : space.n] for i, (agent, space) in enumerate(own) if isinstance(space, Discrete)}


def sampling_mask(mask: jax.Array) -> jax.Array:
    """A mask as Gymnasium's spaces take it to draw from: int8, 1 where it is True."""
    return mask.astype(jnp.int8)


def padded(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """`x` padded with zeros at the end of each axis."""
    return jnp.pad(x, [(0, size - have) for size, have in zip(shape, x.shape, strict=True)]) if shape else x


def joined(spaces: list[Space]) -> Space:
    """The smallest space that contains all the given spaces.

    Raises:
        TypeError: Some are Discrete and some are not, or their numbers of axes differ.
    """
    if all(isinstance(space, Discrete) for space in spaces):
        return Discrete(max(space.n for space in spaces if isinstance(space, Discrete)))
    if len(set(map(repr, spaces))) == 1 or all(isinstance(s, MultiDiscrete) and s == spaces[0] for s in spaces):
        return spaces[0]
    if not all(isinstance(space, Box) for space in spaces) or len({len(space.shape) for space in spaces}) > 1:
        raise TypeError(f"Agents with such different spaces cannot stand in one array: {spaces}.")
    boxes = [space for space in spaces if isinstance(space, Box)]
    shape = tuple(np.max([box.shape for box in boxes], axis=0).tolist())
    low = min(float(np.min(box.low)) for box in boxes)
    high = max(float(np.max(box.high)) for box in boxes)
    return Box(min(low, 0.0), max(high, 0.0), shape, boxes[0].dtype)  # padding is zero


def observed(obs: Any) -> jax.Array:
    """An observation as one float32 array; several arrays are concatenated into a vector."""
    if hasattr(obs, "shape"):
        return jnp.asarray(obs, jnp.float32)
    return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(obs)])


def observed_space(obs: Any) -> Box:
    """The unbounded space of `observed(obs)`; `obs` may be abstract."""
    return Box(-np.inf, np.inf, jax.eval_shape(observed, obs).shape)


def narrow(function: Callable[..., Any], *args: Any) -> Any:
    """Call `function` without JAX's 64-bit mode; results are not weakly typed, so that nothing compiles twice."""
    with jax.enable_x64(False):
        tree = function(*args)
        return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype), tree)


def typed_key(key: jax.Array) -> jax.Array:
    """`key` as a typed key with the same bits, even if it was made by `jax.random.PRNGKey`."""
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)


def raw_key(key: jax.Array) -> jax.Array:
    """`key` as an array of bits, for libraries that use some keys twice: `jax_debug_key_reuse` sees typed ones only.

    A key of another kind than JAX's default stays as it is, because its bits would be taken for one of that kind.
    """
    return jax.random.key_data(key) if key.dtype == abstract_key().dtype else key


def writable(tree: Any) -> Any:
    """The arrays as copies, which users may change: what NumPy borrows from JAX is read-only."""
    return jax.tree.map(np.array, tree)


class Stepper:
    """One environment stepped from Python, without auto-reset: NumPy outputs, one compiled call per step.

    Args:
        env: The environment.
        params: Its parameters; None for its defaults.
    """

    def __init__(self, env: Environment, params: Any = None) -> None:
        check_environment(env, "This")
        self.env = env
        self.params = own_params(env, params)
        self.state: Any = None
        self._key = jax.random.key(0)
        self._space = env.action_space(self.params)

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Start an episode: `(obs, facts)`; `seed` determines all randomness until the next `reset`."""
        self._key, self.state, obs, facts = _reset(shared(self.env), jax.random.key(seed), self.params)
        return writable(obs), writable(facts)

    def step(self, action: Any) -> tuple[np.ndarray, np.ndarray, bool, bool, dict[str, Any]]:
        """One step: `(obs, reward, terminated, truncated, facts)`; facts are `info` and the masks of the new state.

        Raises:
            RuntimeError: No episode has begun.
            ValueError: The action has another shape.
        """
        self.check_begun("step")
        agents = len(getattr(self.env, "agents", ()))
        action = check_action(action, self._space, f"{self.env.name}.step", agents=agents)
        result = _step(shared(self.env), self._key, self.state, action, self.params)
        self._key, self.state, obs, reward, terminated, truncated, facts = result
        return writable(obs), writable(reward), bool(terminated), bool(truncated), writable(facts)

    def render(self) -> np.ndarray:
        """A picture of the state, uint8 `[H, W, 3]`.

        Raises:
            RuntimeError: No episode has begun.
        """
        self.check_begun("render")
        return self.env.render(self.state, self.params)

    def check_begun(self, method: str) -> None:
        """Raise RuntimeError unless an episode has begun; the message names the method that needs one."""
        if self.state is None:
            raise RuntimeError(f"No episode of {self.env.name} has begun; call reset before {method}.")


@partial(jax.jit, static_argnums=0)
def _reset(env: Environment, key: jax.Array, params: Any) -> tuple[Any, ...]:
    key, key_reset = jax.random.split(key)
    obs, state = env.reset_env(key_reset, params)
    return key, state, obs, look(env, state, params)


@partial(jax.jit, static_argnums=0)
def _step(env: Environment, key: jax.Array, state: Any, action: Any, params: Any) -> tuple[Any, ...]:
    key, key_step = jax.random.split(key)
    obs, state, reward, terminated, truncated, info = env.step_env(key_step, state, action, params)
    return key, state, obs, reward, terminated, truncated, {**info, **look(env, state, params)}


def look(env: Environment, state: Any, params: Any) -> dict[str, jax.Array]:
    """The facts about a state: its possible actions, and who is alive."""
    discrete = isinstance(env.action_space(), Discrete)
    facts = {"action_mask": sampling_mask(env.action_mask(state, params))} if discrete else {}
    if isinstance(env, MultiAgentEnvironment):
        facts["alive"] = env.agent_mask(state, params)
    return facts
