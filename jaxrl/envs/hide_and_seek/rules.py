"""The rules of the game: who may act, what is rewarded, what is counted. Batch axes come last."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.bodies import Agents, Objects, any_of, total
from jaxrl.envs.hide_and_seek.doors import doors_blocked
from jaxrl.envs.hide_and_seek.world import HIDER, Cast, Params, State, Tally

__all__ = ["PHASES", "acting", "counted", "info", "moved", "outside", "reward", "seen"]

PHASES = ("preparation", "hunt")


def acting(step: jax.Array, cast: Cast, params: Params) -> jax.Array:
    """Who may act at this step, bool `[A, …]`: seekers wait until the preparation is over."""
    hider = np.equal(cast.teams, HIDER).reshape(-1, *(1,) * step.ndim)
    return hider | (step >= params.preparation)


def seen(state: State, cast: Cast) -> jax.Array:
    """Whether any seeker sees any hider, bool `[…]`."""
    hiders, seekers = range(cast.num_hiders), range(cast.num_hiders, cast.num_agents)
    return any_of([state.sight[s, h] for s in seekers for h in hiders])


def outside(state: State, params: Params) -> jax.Array:
    """Which agents are over the wall around the floor, bool `[A, …]`."""
    x, y = state.position[:, 0], state.position[:, 1]
    return (jnp.minimum(x, y) < params.border) | (jnp.maximum(x, y) > params.floor - params.border)


def reward(state: State, step: jax.Array, cast: Cast, params: Params) -> jax.Array:
    """float32 `[A, …]` for the state after step number `step`: 0 in the preparation.

    Then 1 for hiders and -1 for seekers if nobody is seen, otherwise the reverse; and every agent that is outside costs
    its whole team `leave_penalty`, since the members of a team share their reward.
    """
    gain = jnp.where(seen(state, cast), -1.0, 1.0)
    out = outside(state, params).astype(jnp.float32)
    hiders = gain - params.leave_penalty * total(out[: cast.num_hiders])
    seekers = -gain - params.leave_penalty * total(out[cast.num_hiders :])
    each = jnp.stack([hiders] * cast.num_hiders + [seekers] * cast.num_seekers)
    return jnp.where(step < params.preparation, 0.0, each).astype(jnp.float32)


def moved(state: State, agents: Agents, objects: Objects, params: Params) -> State:
    """The state with everybody at a new place."""
    place = jnp.stack([objects.x, objects.y], 1)
    return dataclasses.replace(
        state,
        position=jnp.stack([agents.x, agents.y], 1),
        velocity=jnp.stack([agents.vx, agents.vy], 1),
        heading=jnp.stack([agents.cos, agents.sin], 1),
        spin=agents.spin,
        height=agents.height,
        object_position=place,
        object_heading=jnp.stack([objects.cos, objects.sin], 1),
        object_velocity=(place - state.object_position) / params.time_step,
    )


def counted(before: State, state: State, cast: Cast, params: Params) -> State:
    """The state with the step from `before` in its tally."""
    hunting = before.step >= params.preparation
    phase = jnp.stack([~hunting, hunting])
    way = jnp.sqrt(jnp.square(state.object_position - before.object_position).sum(1))
    locked = (state.locked_by >= 0).astype(jnp.float32)
    groups = [np.flatnonzero(cast.is_ramp == ramp) for ramp in (False, True)]
    climbs = (state.height >= params.high) & (before.height < params.high)
    old = before.tally
    tally = Tally(
        seen=old.seen + (hunting & seen(state, cast)),
        moved=old.moved + jnp.where(phase[:, None], _by_group(way, groups), 0.0),
        locked=jnp.where(phase[:, None], _by_group(locked, groups), old.locked),
        climbs=old.climbs + jnp.where(phase, total(climbs.astype(jnp.float32)), 0.0),
    )
    return dataclasses.replace(state, tally=tally)


def _by_group(values: jax.Array, groups: list[np.ndarray]) -> jax.Array:
    """The sums `[G, …]` of `values[O, …]` over each group."""
    nothing = jnp.zeros(values.shape[1:], jnp.float32)
    return jnp.stack([sum((values[o] for o in group), nothing) for group in groups])


def info(state: State, params: Params) -> dict[str, jax.Array]:
    """What training logs can show (`log_info`): float32 numbers that are right at the end of an episode.

    `seen_fraction` of the hunt so far, `doors_blocked` (of the open doors, the share that nobody gets through now), and
    for both phases metres that boxes and ramps moved, how many were locked in the end, and climbs to the top of a ramp.
    """
    tally = state.tally
    hunted = jnp.maximum(state.step - params.preparation, 1).astype(jnp.float32)
    told: dict[str, Any] = {"seen_fraction": tally.seen / hunted, "doors_blocked": doors_blocked(state, params)}
    for p, phase in enumerate(PHASES):
        for g, group in enumerate(("boxes", "ramps")):
            told[f"{group}_moved_{phase}"] = tally.moved[p, g]
            told[f"{group}_locked_{phase}"] = tally.locked[p, g]
        told[f"ramps_used_{phase}"] = tally.climbs[p]
    return told
