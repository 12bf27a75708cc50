"""Checks of an environment that somebody else has written, before it is trained on: methods, spaces, shapes and dtypes.

They trace it once and run nothing. Training looks at neither again; `jaxrl.check_env` examines much more.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.keys import abstract_key
from jaxrl.spaces import Discrete, Space, misfits, num_actions
from jaxrl.wrappers import Wrapper
from jaxrl.wrappers.base import nested

__all__ = ["check_log_info", "check_methods", "info_numbers", "quick_check", "wrong_methods"]

_HINT = "jaxrl.check_env(env) finds what else is missing."
_METHODS = (
    "reset_env",
    "step_env",
    "observation_space",
    "action_space",
    "observation",
    "mutate",
    "action_mask",
    "agent_mask",
    "global_state",
)
_PROPERTIES = (
    "default_params",
    "num_agents",
    "teams",
    "roles",
    "kinds",
    "agent_observation_spaces",
    "agent_action_spaces",
    "entities",
    "state_entities",
    "symmetries",
)


def quick_check(env: Environment) -> None:
    """Check that an environment returns what training needs, by tracing a reset and a step of it.

    Raises:
        TypeError: It does not; the message says what to return.
    """
    _check_spaces(env)
    _check_agents(env)

    def trace(key: jax.Array) -> jax.Array:
        key_reset, key_step = jax.random.split(key)
        params, space = env.default_params, env.action_space()
        begun = env.reset_env(key_reset, params)
        _check_reset(begun, env)
        action = jnp.zeros((*_agent_axis(env), *space.shape), space.dtype)
        stepped = env.step_env(key_step, begun[1], action, params)
        _check_step(stepped, env)
        _check_same_form(begun, stepped[:2])
        _check_views(env, begun[1], params)
        return key_reset

    jax.eval_shape(trace, abstract_key())


def _check_reset(begun: Any, env: Environment) -> None:
    if not isinstance(begun, tuple) or len(begun) != 2:
        raise TypeError(f"reset_env returned {_kind(begun)}; return (obs, state). {_HINT}")
    obs, state = begun
    if not jax.tree.leaves(state):
        raise TypeError(
            f"reset_env returned a state without an array; give it one, such as the number of steps, by which vmap "
            f"knows how many environments there are. {_HINT}"
        )
    _check_observation(obs, env, "reset_env")


def _check_step(stepped: Any, env: Environment) -> None:
    several = isinstance(stepped, tuple | list)
    if not several or len(stepped) != 6:
        values = f"{len(stepped)} values" if several else _kind(stepped)
        given = f"{values}; return (obs, state, reward, terminated, truncated, info)"
        raise TypeError(f"step_env returned {given}. {_HINT}")
    obs, _, reward, terminated, truncated, info = stepped
    _check_observation(obs, env, "step_env")

    # A reward for each agent, but one flag for all of them.
    agents = _agent_axis(env)
    flag = "one boolean" + (", the same for all agents" if agents else "")
    for name, value, shape, kind in (
        ("reward", reward, agents, f"one number for each of the {agents[0]} agents" if agents else "one number"),
        ("terminated", terminated, (), flag),
        ("truncated", truncated, (), flag),
    ):
        if isinstance(value, dict):
            raise TypeError(f"step_env returned a dict as {name}; return an array {list(shape)}: {kind}. {_HINT}")
        if jnp.shape(value) != shape:
            got = f"{name} of shape {list(jnp.shape(value))}"
            raise TypeError(f"step_env returned {got}; return {list(shape)}: {kind}. {_HINT}")
        if name != "reward" and jnp.result_type(value) != np.bool_:
            raise TypeError(f"step_env returned {name} as {jnp.result_type(value)}; return {kind}. {_HINT}")
    _check_info(info)


def _check_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise TypeError(f"step_env returned a {type(info).__name__} as info; return a dict, such as {{}}. {_HINT}")
    if "final_observation" in info:
        raise TypeError(
            f'step_env returned info["final_observation"], which step adds; call step_env of the environment inside: '
            f"its step has reset it already where an episode ends. {_HINT}"
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(info):
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float):
            where = f"info{jax.tree_util.keystr(path)} as a {type(leaf).__name__}"
            raise TypeError(f"step_env returned {where}; make it a number, or leave it out. {_HINT}")
    won = info.get("won", False)
    if jnp.shape(won) or jnp.result_type(won) != np.bool_:
        got = f'info["won"] as {jnp.result_type(won)}{list(jnp.shape(won))}'
        raise TypeError(f"step_env returned {got}; return one boolean, or call it something else. {_HINT}")


def _check_same_form(begun: tuple[Any, Any], stepped: tuple[Any, Any]) -> None:
    """Check that observations and states have the same form after a reset as after a step."""
    for name, first, second in zip(("observation", "state"), begun, stepped, strict=True):
        if jax.tree.structure(first) != jax.tree.structure(second):
            trees = f"{name} as {jax.tree.structure(second)}, and reset_env as {jax.tree.structure(first)}"
            raise TypeError(f"step_env returned {trees}; build the same in both. {_HINT}")
        leaves = jax.tree_util.tree_leaves_with_path(first)
        for (path, before), after in zip(leaves, jax.tree.leaves(second), strict=True):
            kinds = [f"{_dtype(leaf)}{list(jnp.shape(leaf))}" for leaf in (after, before)]
            if kinds[0] != kinds[1]:
                where = f"{name}{jax.tree_util.keystr(path)} as {kinds[0]}, and reset_env as {kinds[1]}"
                raise TypeError(f"step_env returned {where}; return the same from both. {_HINT}")


def _check_views(env: Environment, state: Any, params: Any) -> None:
    """Check the masks and the global state, those that there are."""
    wanted = {}
    if isinstance(env.action_space(), Discrete):
        wanted["action_mask"] = (*_agent_axis(env), num_actions(env.action_space()))
    if isinstance(env, MultiAgentEnvironment):
        wanted["agent_mask"] = _agent_axis(env)
    for name, shape in wanted.items():
        mask = getattr(env, name)(state, params)
        if jnp.shape(mask) != shape or mask.dtype != np.bool_:
            got = f"{name} of {env.name} is {mask.dtype}{list(mask.shape)}"
            raise TypeError(f"{got}; return bool{list(shape)}. {_HINT}")
    shape = jnp.shape(env.global_state(state, params)) if env.has_global_state else (1,)
    if len(shape) != 1:
        raise TypeError(f"global_state of {env.name} has the shape {list(shape)}; return one vector [G]. {_HINT}")


def _check_observation(obs: Any, env: Environment, source: str) -> None:
    """Check that an observation is one array of the space's shape."""
    shape = (*_agent_axis(env), *env.observation_space().shape)
    own = getattr(obs, "shape", () if isinstance(obs, int | float) else None)
    if own != shape:
        got = f"type {type(obs).__name__}" if own is None else f"shape {list(own)}"
        wanted = f"return one array {list(shape)}, as in observation_space()"
        raise TypeError(f"{source} returned an observation of {got}; {wanted}. {_HINT}")


def _check_spaces(env: Any) -> None:
    """Check that an environment's spaces are of `jaxrl.spaces` and not empty.

    Raises:
        TypeError: One is not; the message says what to return.
    """
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)()
        if not isinstance(space, Space):
            got = f"{name} of {env.name} returned a {type(space).__name__}"
            raise TypeError(f"{got}; return a Box, a Discrete or a MultiDiscrete of jaxrl.spaces. {_HINT}")
        if 0 in space.shape:
            got = f"{name} of {env.name} has the shape {list(space.shape)}, without a number"
            raise TypeError(f"{got}; give it at least one, such as a zero that stands for nothing. {_HINT}")


def _check_agents(env: Any) -> None:
    """Check that an environment with several agents names them, with the team, the role and the spaces of each.

    Raises:
        TypeError: It does not; the message says what to write.
    """
    if not hasattr(env, "agents"):
        return
    if not env.agents:
        raise TypeError(f'{env.name} has no agents; name them, such as agents = ("agent_0", "agent_1"). {_HINT}')
    for name, numbers in (("teams", env.teams), ("roles", env.roles)):
        if len(numbers) != len(env.agents):
            raise TypeError(
                f"{name} of {env.name} is {numbers} for {len(env.agents)} agents; give one for each. {_HINT}"
            )
    for name in ("observation", "action"):
        spaces, common = f"agent_{name}_spaces", getattr(env, f"{name}_space")()
        for problem, advice in misfits(spaces, getattr(env, spaces), env.agents, common):
            raise TypeError(f"{problem} {advice} {_HINT}")


def check_methods(env: Environment) -> None:
    """Check the methods of an environment that will be trained on, and of those inside it.

    Raises:
        TypeError: One cannot be called as training does, or is never called; the message says what to write.
    """
    for each in nested(env):
        for problem, advice in (*_misfits(each), *_unused(each)):
            raise TypeError(f"{problem} {advice} jaxrl.check_env(env) finds what else is missing.")


def wrong_methods(env: Environment) -> Iterator[tuple[str, str]]:
    """What is wrong about the methods of an environment, and of those inside it, and what to write instead."""
    for each in nested(env):
        yield from _misfits(each)


def _misfits(env: Environment) -> Iterator[tuple[str, str]]:
    """The methods that are none, or that cannot take the arguments that they get."""
    kind = type(env).__name__
    if isinstance(env, Wrapper) and not hasattr(env, "env"):
        yield f"{kind} does not say what it wraps.", "Begin its __init__ with super().__init__(env)."
        return
    for name in _PROPERTIES:
        if inspect.isfunction(getattr(type(env), name, None)):
            yield f"{name} of {kind} is a method.", "Write @property above it."
    for name in _METHODS:
        method, takes = getattr(env, name, None), _arguments(name)
        if method is None:  # such as the agent mask of a single agent
            continue
        if not callable(method):
            yield f"{name} of {kind} is a {type(method).__name__}.", f"Write a method, def {name}(self, {takes})."
        elif not _can_take(method, takes):
            given = ", ".join(["self", *inspect.signature(method).parameters])
            yield f"{kind} has {name}({given}).", f"Write def {name}(self, {takes})."


def _arguments(name: str) -> str:
    """The arguments of a method as `MultiAgentEnvironment` declares it, such as `state, params=None`."""
    _, *arguments = inspect.signature(getattr(MultiAgentEnvironment, name)).parameters.values()  # without self
    return ", ".join(each.name + ("" if each.default is each.empty else f"={each.default}") for each in arguments)


def _can_take(method: Any, takes: str) -> bool:
    """Whether a method can be called with these arguments, and without those that have a default."""
    names = takes.split(", ")
    try:
        for given in (names, [name for name in names if "=" not in name]):
            inspect.signature(method).bind(*given)
    except TypeError:
        return False
    return True


def _unused(env: Environment) -> Iterator[tuple[str, str]]:
    """Methods that nothing calls: training steps many environments at once, and resets where an episode ends."""
    kind, base = type(env), Environment
    if kind.step is not base.step and (kind.batch_step is base.batch_step or _is_newer(kind, "step", "batch_step")):
        yield f"Training never calls step of {kind.__name__}.", "Write step_env instead; step follows from it."
    if kind.reset is not base.reset and (
        kind.batch_reset is base.batch_reset or _is_newer(kind, "reset", "batch_reset")
    ):
        yield f"Training never calls reset of {kind.__name__}.", "Write reset_env instead; reset follows from it."


def _is_newer(kind: type, name: str, batched: str) -> bool:
    """Whether a class overrides a method and inherits the batched one."""
    owners = [next(i for i, each in enumerate(kind.__mro__) if method in vars(each)) for method in (name, batched)]
    return owners[0] < owners[1]


def _dtype(leaf: Any) -> Any:
    """The dtype of an array, a row of keys or a Python number."""
    return leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)


def _kind(value: Any) -> str:
    if isinstance(value, jax.Array):
        return "one array"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _agent_axis(env: Any) -> tuple[int, ...]:
    """`[N]` with several agents, else nothing."""
    return (len(env.agents),) if hasattr(env, "agents") else ()


def check_log_info(env: Environment, names: Collection[str]) -> None:
    """Raise unless the environment's info has a number, or one for each agent, under each of these names.

    Raises:
        ValueError: The message lists the names that there are.
    """
    if not names:
        return
    numbers = sorted(info_numbers(env))
    for name in names:
        if name not in numbers:
            there = f"it has {', '.join(numbers)}" if numbers else "it has none"
            raise ValueError(f"log_info: the info of {env.name} has no number {name!r}; {there}.")


def info_numbers(env: Environment) -> list[str]:
    """The names of the numbers in an environment's info."""
    agents = (env.num_agents,) if isinstance(env, MultiAgentEnvironment) else ()
    space = env.action_space()

    def step(key: jax.Array) -> dict[str, Any]:
        key_reset, key_step = jax.random.split(key)
        _, state = env.reset(key_reset)
        return env.step(key_step, state, jnp.zeros((*agents, *space.shape), space.dtype))[-1]

    info = jax.eval_shape(step, abstract_key())
    return [
        name
        for name, leaf in info.items()
        if not name.startswith("final_") and isinstance(leaf, jax.ShapeDtypeStruct) and leaf.ndim <= len(agents)
    ]
