"""What agents see of jumanji's observations, which are trees: a picture or a vector."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.interop.common import observed

__all__ = ["num_agents", "seen", "seen_by_each"]

_PICTURES = ("grid", "board")
_BESIDES = ("action_mask", "step_count", "num_mines")  # what a picture goes without: legal moves, the clock, a constant
_VIEWS = ("agents_view", "searcher_views")  # what each agent sees for itself
_PLACES = ("agents_locations", "positions", "vehicles", "machines_job_ids", "machines_remaining_times")
"""What has a row for each agent, which all of them see."""


def num_agents(env: Any) -> int | None:
    """How many agents a jumanji environment has: one with a reward or a row of legal actions each; None for one."""
    if env.reward_spec.shape:
        return env.reward_spec.shape[0]
    actions, mask = env.action_spec.shape, getattr(env.observation_spec, "action_mask", None)
    if mask is None or not actions or len(mask.shape) != 2 or mask.shape[0] != actions[0]:
        return None
    joint = mask.shape == tuple(np.ravel(getattr(env.action_spec, "num_values", ())))
    return None if joint else actions[0]


def seen(obs: Any) -> jax.Array:
    """What a single agent sees: a picture `[H, W, C]` or a vector."""
    fields = obs._asdict()
    rest = [field for field in fields if field not in _BESIDES]
    if len(rest) == 1 and rest[0] in _PICTURES:
        picture = observed(fields[rest[0]])
        return picture if picture.ndim == 3 else picture[..., None]
    return observed([value for field, value in fields.items() if field != "action_mask"])


def seen_by_each(obs: Any, count: int) -> jax.Array:
    """What each of several agents sees, `[N, …]`: a view of its own, or all that there is, with itself in front.

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
