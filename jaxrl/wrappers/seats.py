"""Who plays the seats that do not learn: policies of runs and scripts, one of which is drawn for each episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment

__all__ = ["Player", "Seat", "act_from", "check_roles", "seated_player"]


class Kin(NamedTuple):
    """Policies that differ in their parameters alone."""

    policies: tuple[Any, ...]
    """`Policy` objects of one algorithm, or one `Script`."""
    sees: np.ndarray
    """The indices of the agents whose observations they take, and for which they act."""

    @property
    def carry(self) -> tuple[jax.Array, ...]:
        """Their memory at first."""
        first = self.policies[0]
        return first.new_carry() if isinstance(first, Policy) else ()


class Player(NamedTuple):
    """Who plays some agents: one of these policies in each episode."""

    kin: tuple[Kin, ...]
    plays: np.ndarray
    """The indices of the agents that it acts for."""
    sees: np.ndarray
    """The indices of the agents whose observations one of them takes."""


class Seat(NamedTuple):
    """What a player knows before a step."""

    obs: jax.Array
    """Of the agents that it sees."""
    carry: tuple[Any, ...]
    """Its memory, for each kin."""
    begins: jax.Array
    """Whether an episode begins: then the memory is cleared."""
    member: jax.Array
    """int32, which of its policies plays this episode."""


def check_roles(who: str, trained: Any, env: MultiAgentEnvironment, seats: Sequence[int]) -> None:
    """Raise ValueError if a policy for some of the agents would play agents of other roles.

    Args:
        who: What the message calls the policy.
        trained: The environment of the policy, whose agents may be some of `env`'s.
        env: The environment to play in.
        seats: The numbers of the agents to play.
    """
    names = trained.agents if isinstance(trained, MultiAgentEnvironment) else ()
    if len(names) != len(seats) or len(names) == env.num_agents or not set(names) <= set(env.agents):
        return
    if [env.roles[env.agents.index(name)] for name in names] != [env.roles[seat] for seat in seats]:
        wanted = ", ".join(env.agents[seat] for seat in seats)
        raise ValueError(f"{who} was trained for {', '.join(names)} and cannot play {wanted}, whose role is another.")


def seated_player(env: MultiAgentEnvironment, policy: Any, plays: np.ndarray) -> Player:
    """Who plays the agents `plays`, from what `FixedPolicies` takes for them.

    Raises:
        ValueError: Nobody is given, or a policy does not fit.
    """
    given: dict[int, list[Any]] = {}
    for each in policy if isinstance(policy, Sequence) else (policy,):
        given.setdefault(id(each.algo if isinstance(each, Policy) else each), []).append(each)
    if not given:
        raise ValueError("FixedPolicies takes at least one policy for each pattern, and got an empty sequence.")
    kin = tuple(Kin(tuple(policies), _seen(env, policies[0], plays)) for policies in given.values())
    return Player(kin, plays, max((each.sees for each in kin), key=len))


def _seen(env: MultiAgentEnvironment, policy: Any, plays: np.ndarray) -> np.ndarray:
    """The agents that a policy acts for: those that it plays, or all, as in its training; raises if it does not fit."""
    if not isinstance(policy, Policy):
        if not callable(policy):
            raise ValueError(
                f"FixedPolicies takes the policy of a run, as in jaxrl.load(RUN).policy, a function act(obs, "
                f"action_mask, key), or several of them, not {policy!r}."
            )
        return plays
    trained = policy.env
    count = trained.num_agents if isinstance(trained, MultiAgentEnvironment) else 1
    if count not in (len(plays), env.num_agents):
        raise ValueError(
            f"The policy of {trained.name} acts for {count} agents; here it should play {len(plays)} of "
            f"{env.num_agents}."
        )
    check_roles(f"policies: the policy of {trained.name}", trained, env, plays.tolist())
    for kind, here in (("observation_space", env.observation_space()), ("action_space", env.action_space())):
        there = getattr(trained, kind)()
        if there != here:
            raise ValueError(f"The policy of {trained.name} has the {kind} {there}, and {env.name} has {here}.")
    return plays if count == len(plays) else np.arange(env.num_agents)


def act_from(player: Player, seat: Seat, mask: Any, key: jax.Array) -> tuple[jax.Array, Any]:
    """The actions of the agents that a player plays, and its memory. Consumes `key`."""
    keys = jax.random.split(key, len(player.kin)) if len(player.kin) > 1 else [key]
    chosen, carries, first = None, [], 0
    for kin, carry, own in zip(player.kin, seat.carry, keys, strict=True):
        obs, own_mask = (_rows(x, kin.sees, player.sees) for x in (seat.obs, mask))
        own_seat = Seat(obs, carry, seat.begins, seat.member - first)
        action, carry = _act_as(kin, own_seat, own_mask, own)
        action = _rows(action, player.plays, kin.sees)
        chosen = action if chosen is None else jnp.where(seat.member < first, chosen, action.astype(chosen.dtype))
        carries.append(carry)
        first += len(kin.policies)
    assert chosen is not None
    return chosen, tuple(carries)


def _rows(x: Any, wanted: np.ndarray, there: np.ndarray) -> Any:
    """The rows of the `wanted` agents in an array with a row for each agent `there`; None for None."""
    return x if x is None or len(wanted) == len(there) else x[np.searchsorted(there, wanted)]


def _act_as(kin: Kin, seat: Seat, mask: Any, key: jax.Array) -> tuple[jax.Array, Any]:
    """The actions of the agents that some kin sees, and its memory. Consumes `key`."""
    policy = kin.policies[0]
    if not isinstance(policy, Policy):
        return policy(seat.obs, mask, key), ()
    trees: list[Any] = [each.params for each in kin.policies]
    params = trees[0]
    if len(trees) > 1:
        member = seat.member.clip(0, len(trees) - 1)  # if another kin plays, its actions go unused
        params = jax.tree.map(lambda *leaves: jnp.stack(leaves)[member], *trees)
    alone = not isinstance(policy.env, MultiAgentEnvironment)
    obs, mask = (seat.obs[0], None if mask is None else mask[0]) if alone else (seat.obs, mask)
    action, carry = policy.apply(params, obs, seat.carry, key, action_mask=mask, reset=seat.begins)
    return action[None] if alone else action, carry
