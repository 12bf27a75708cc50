"""Parameter sharing: which agents use the same parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

__all__ = ["init_param_sets", "number_param_sets", "per_agent"]


def number_param_sets(sharing: str | Sequence[int], roles: Sequence[int]) -> tuple[int, ...]:
    """The index of the parameter set that each of N agents uses, from 0.

    Args:
        sharing: `"all"` for one set, `"roles"` for one per role, `"none"` for one per agent; or the indices themselves.
        roles: The role of each agent, `[N]`, from 0.
    """
    num_agents = len(roles)
    if isinstance(sharing, str):
        param_sets = {"all": [0] * num_agents, "roles": roles, "none": list(range(num_agents))}
        if sharing not in param_sets:
            raise ValueError(f'sharing must be "all", "roles", "none" or one number an agent, got {sharing!r}.')
        return tuple(param_sets[sharing])
    numbers = tuple(int(g) for g in sharing)
    if len(numbers) != num_agents or set(numbers) != set(range(max(numbers) + 1)):
        raise ValueError(
            f"sharing needs a parameter set's number for each of the {num_agents} agents, counted from 0 without gaps, "
            f"such as {tuple(range(num_agents))}; got {numbers}."
        )
    return numbers


def init_param_sets(init: Callable[[jax.Array], Any], key: jax.Array, param_sets: tuple[int, ...]) -> Any:
    """Parameters from `init(key)` for each parameter set: leaves `[P, ...]` (no leading axis if there is one set)."""
    num_sets = max(param_sets) + 1
    return init(key) if num_sets == 1 else jax.vmap(init)(jax.random.split(key, num_sets))


def per_agent(
    apply: Callable[..., Any], param_sets: tuple[int, ...], agent_axes: tuple[Any, ...], out_axes: Any
) -> Any:
    """`apply(params, *args)` with each agent's own parameter set.

    With one set, the agents are just another batch axis. Otherwise, `apply` is mapped over the agents: `agent_axes`
    gives the agent axis of each argument, `out_axes` that of each result.
    """
    if max(param_sets) == 0:
        return apply

    def mapped(params: Any, *args: Any) -> Any:
        own = jax.tree.map(lambda leaf: leaf[np.asarray(param_sets)], params)
        return jax.vmap(apply, in_axes=(0, *agent_axes), out_axes=out_axes)(own, *args)

    return mapped
