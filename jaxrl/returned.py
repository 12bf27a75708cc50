"""Checks that an environment returns what training needs, by shapes and dtypes alone, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.spaces import Space, misfits, num_actions

__all__ = [
    "check_action_mask",
    "check_agent_mask",
    "check_agents",
    "check_global_state",
    "check_reset",
    "check_same_form",
    "check_spaces",
    "check_step",
    "check_values",
    "checked_info",
]

_HINT = "jaxrl.check_env(env) finds what else is missing."


def check_reset(begun: Any, env: Any) -> tuple[Any, Any]:
    """The observations and states of B environments `env`, if they have the form that training needs.

    Raises:
        TypeError: They do not; the message says what to return.
    """
    if not isinstance(begun, tuple) or len(begun) != 2:
        raise TypeError(f"reset_env returned {_kind(begun)}; return (obs, state). {_HINT}")
    obs, state = begun
    if not jax.tree.leaves(state):
        raise TypeError(
            f"reset_env returned a state without an array; give it one, such as the number of steps, by which vmap "
            f"knows how many environments there are. {_HINT}"
        )
    _check_observation(obs, env, 1, "reset_env")
    return obs, state


def check_step(stepped: Any, env: Any, environments: tuple[int, ...] = ()) -> Any:
    """What `env.step_env` returned, if its rewards, flags and info have the form that training needs.

    Args:
        stepped: The step, perhaps of several environments.
        env: The environment.
        environments: `[B]`, or nothing for a single one.

    Raises:
        TypeError: They do not; the message says what to return.
    """
    agents = _agent_axis(env)
    check_values(stepped)
    obs, _, reward, terminated, truncated, info = stepped
    if isinstance(info, dict) and "final_observation" in info:
        raise TypeError(
            f'step_env returned info["final_observation"], which step adds; call step_env of the environment inside: '
            f"its step has reset it already where an episode ends. {_HINT}"
        )
    _check_observation(obs, env, len(environments), "step_env")
    flag = "one boolean" + (", the same for all agents" if agents else "")
    for name, value, own, kind in (
        ("reward", reward, agents, f"one number for each of the {agents[0]} agents" if agents else "one number"),
        ("terminated", terminated, (), flag),
        ("truncated", truncated, (), flag),
    ):
        if isinstance(value, dict):
            raise TypeError(f"step_env returned a dict as {name}; return an array {list(own)}: {kind}. {_HINT}")
        shape, dtype = jnp.shape(value), jnp.result_type(value)
        if shape not in ((*environments, *own), own):  # `own` where vmap leaves a Python number as it is
            got = f"{name} of shape {list(shape[len(environments) :])}"
            raise TypeError(f"step_env returned {got}; return {list(own)}: {kind}. {_HINT}")
        if name != "reward" and dtype != np.bool_:
            raise TypeError(f"step_env returned {name} as {dtype}; return {kind}. {_HINT}")
    if not isinstance(info, dict):
        raise TypeError(f"step_env returned a {type(info).__name__} as info; return a dict, such as {{}}. {_HINT}")
    won = info.get("won", False)
    if jnp.shape(won) not in (environments, ()) or jnp.result_type(won) != np.bool_:
        got = f'info["won"] as {jnp.result_type(won)}{list(jnp.shape(won)[len(environments) :])}'
        raise TypeError(f"step_env returned {got}; return one boolean, or call it something else. {_HINT}")
    return stepped


def check_same_form(begun: tuple[Any, Any], stepped: tuple[Any, Any], num_axes: int) -> None:
    """Check that observations and states have the same form after a reset as after a step.

    Args:
        begun: `(obs, state)` after a reset.
        stepped: `(obs, state)` after a step.
        num_axes: How many axes of environments they have, 0 or 1.

    Raises:
        TypeError: They do not; the message names what differs.
    """
    for name, first, second in zip(("observation", "state"), begun, stepped, strict=True):
        if jax.tree.structure(first) != jax.tree.structure(second):
            trees = f"{name} as {jax.tree.structure(second)}, and reset_env as {jax.tree.structure(first)}"
            raise TypeError(f"step_env returned {trees}; build the same in both. {_HINT}")
        leaves = jax.tree_util.tree_leaves_with_path(first)
        for (path, before), after in zip(leaves, jax.tree.leaves(second), strict=True):
            kinds = [f"{_dtype(leaf)}{list(jnp.shape(leaf)[num_axes:])}" for leaf in (after, before)]
            if kinds[0] != kinds[1]:
                where = f"{name}{jax.tree_util.keystr(path)} as {kinds[0]}, and reset_env as {kinds[1]}"
                raise TypeError(f"step_env returned {where}; return the same from both. {_HINT}")


def checked_info(step_env: Callable[..., Any]) -> Callable[..., Any]:
    """`step_env`, which raises TypeError if its info has anything but numbers: `vmap` would not say where."""

    def checked(*inputs: Any) -> Any:
        stepped = step_env(*inputs)
        info = stepped[-1] if isinstance(stepped, tuple | list) and stepped else None
        for path, leaf in jax.tree_util.tree_leaves_with_path(info) if isinstance(info, dict) else ():
            if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float):
                where = f"info{jax.tree_util.keystr(path)} as a {type(leaf).__name__}"
                raise TypeError(f"step_env returned {where}; make it a number, or leave it out. {_HINT}")
        return stepped

    return checked


def check_values(stepped: Any) -> None:
    """Check that a step has six values.

    Raises:
        TypeError: It does not; the message says what to return.
    """
    several = isinstance(stepped, tuple | list)
    if not several or len(stepped) != 6:
        values = f"{len(stepped)} values" if several else _kind(stepped)
        given = f"{values}; return (obs, state, reward, terminated, truncated, info)"
        raise TypeError(f"step_env returned {given}. {_HINT}")


def check_action_mask(mask: jax.Array, env: Any) -> jax.Array:
    """The action masks of B environments `env`, if they are bool `[B, N, A]`.

    Raises:
        TypeError: They are not; the message says what to return.
    """
    return _check_mask("action_mask", mask, env, (*_agent_axis(env), num_actions(env.action_space())))


def check_agent_mask(mask: jax.Array, env: Any) -> jax.Array:
    """The agent masks of B environments `env`, if they are bool `[B, N]`.

    Raises:
        TypeError: They are not; the message says what to return.
    """
    return _check_mask("agent_mask", mask, env, _agent_axis(env))


def check_global_state(state: jax.Array, env: Any) -> jax.Array:
    """The global state of one environment `env`, if it is a vector `[G]`.

    Raises:
        TypeError: It is not; the message says what to return.
    """
    if jnp.ndim(state) != 1:
        raise TypeError(f"global_state of {env.name} has the shape {list(jnp.shape(state))}; return one vector [G].")
    return state


def check_spaces(env: Any) -> None:
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


def check_agents(env: Any) -> None:
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


def _check_mask(name: str, mask: jax.Array, env: Any, wanted: tuple[int, ...]) -> jax.Array:
    if mask.shape[1:] != wanted or mask.dtype != np.bool_:
        got = f"{name} of {env.name} is {mask.dtype}{list(mask.shape[1:])}"
        raise TypeError(f"{got}; return bool{list(wanted)}. {_HINT}")
    return mask


def _check_observation(obs: Any, env: Any, num_axes: int, source: str) -> None:
    """Check that an observation, after `num_axes` axes of environments, is one array of the space's shape."""
    try:
        shape = (*_agent_axis(env), *env.observation_space().shape)
    except NotImplementedError:  # an environment that is only stepped needs no space
        return
    own = getattr(obs, "shape", () if isinstance(obs, int | float) else None)
    if own is None or own[num_axes:] != shape:
        got = f"type {type(obs).__name__}" if own is None else f"shape {list(own[num_axes:])}"
        wanted = f"return one array {list(shape)}, as in observation_space()"
        raise TypeError(f"{source} returned an observation of {got}; {wanted}. {_HINT}")


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
