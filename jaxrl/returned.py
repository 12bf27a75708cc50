"""Whether what an environment returns has the form that training needs; all of it is known before anything runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.spaces import num_actions

__all__ = ["check_action_mask", "check_reset", "check_step", "check_values"]

_HINT = "jaxrl.check_env(env) finds what else is missing."


def check_reset(begun: Any, env: Any) -> tuple[Any, Any]:
    """The observations and states of B environments `env`, if they have the form that training needs.

    Raises:
        TypeError: They have not; the message says what to return.
    """
    if not isinstance(begun, tuple) or len(begun) != 2:
        raise TypeError(f"reset_env returned {_kind(begun)}; return (obs, state). {_HINT}")
    obs, state = begun
    if not jax.tree.leaves(state):
        raise TypeError(
            f"reset_env returned a state without an array; give it one, such as the number of steps, by which vmap "
            f"knows how many environments there are. {_HINT}"
        )
    try:
        shape = (*_agent_axis(env), *env.observation_space().shape)
    except NotImplementedError:  # who only steps an environment needs no space
        return obs, state
    if not hasattr(obs, "shape") or obs.shape[1:] != shape:
        got = f"shape {list(obs.shape[1:])}" if hasattr(obs, "shape") else f"type {type(obs).__name__}"
        wanted = f"return one array {list(shape)}, as in observation_space()"
        raise TypeError(f"reset_env returned an observation of {got}; {wanted}. {_HINT}")
    return obs, state


def check_step(stepped: Any, env: Any, environments: tuple[int, ...] = ()) -> Any:
    """What `env.step_env` returned, if its rewards, flags and info have the form that training needs.

    Args:
        stepped: The step, perhaps of several environments.
        env: The environment.
        environments: `[B]`, or nothing for a single one.

    Raises:
        TypeError: They have not; the message says what to return.
    """
    agents = _agent_axis(env)
    check_values(stepped)
    *_, reward, terminated, truncated, info = stepped
    flag = "one boolean" + (", the same for all agents" if agents else "")
    for name, value, own, kind in (
        ("reward", reward, agents, f"one number for each of the {agents[0]} agents" if agents else "one number"),
        ("terminated", terminated, (), flag),
        ("truncated", truncated, (), flag),
    ):
        if isinstance(value, dict):
            raise TypeError(f"step_env returned a dict as {name}; return an array {list(own)}: {kind}. {_HINT}")
        shape, dtype = jnp.shape(value), jnp.result_type(value)
        if shape not in ((*environments, *own), own):  # a Python number that vmap has not made an array of
            got = f"{name} of shape {list(shape[len(environments) :])}"
            raise TypeError(f"step_env returned {got}; return {list(own)}: {kind}. {_HINT}")
        if name != "reward" and jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(f"step_env returned {name} as {dtype}; return {kind}. {_HINT}")
    if not isinstance(info, dict):
        raise TypeError(f"step_env returned a {type(info).__name__} as info; return a dict, such as {{}}. {_HINT}")
    return stepped


def check_values(stepped: Any) -> None:
    """That a step has six values.

    Raises:
        TypeError: It has not; the message says what to return.
    """
    if len(stepped) != 6:
        given = f"{len(stepped)} values; return (obs, state, reward, terminated, truncated, info)"
        raise TypeError(f"step_env returned {given}. {_HINT}")


def check_action_mask(mask: jax.Array, env: Any) -> jax.Array:
    """The action masks of B environments `env`, if they are `[B, N, A]`.

    Raises:
        TypeError: They are not; the message says what to return.
    """
    wanted = (*_agent_axis(env), num_actions(env.action_space()))
    if mask.shape[1:] != wanted:
        got = f"action_mask of {env.name} has the shape {list(mask.shape[1:])}"
        raise TypeError(f"{got}; return bool {list(wanted)}. {_HINT}")
    return mask


def _kind(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"


def _agent_axis(env: Any) -> tuple[int, ...]:
    """`[N]` with several agents, else nothing."""
    return (len(env.agents),) if hasattr(env, "agents") else ()
