"""A pool of past selves, earlier versions of the agent, which play one side of some environments.

In a league, the pool of every member holds the past of all members.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxrl.acting.agent import Agent, draw_action, next_rollout, rollout_policy
from jaxrl.acting.normaliser import normalised
from jaxrl.acting.rollout import Observation, Policy, Transition, draw_by_shard
from jaxrl.rl.devices import psum
from jaxrl.rl.episodes import points
from jaxrl.rl.learn import all_finite

__all__ = [
    "Opponents",
    "Preference",
    "Role",
    "Seats",
    "add_snapshot",
    "against_opponents",
    "chances",
    "count_results",
    "is_main",
    "meets",
    "new_opponents",
    "new_seats",
    "rollout_of_learners",
    "seats_after",
]

Preference = Literal["uniform", "latest", "hard"]
Role = Literal["main", "exploiter"]
"""The role of a league's member: a main one plays itself and everybody's past, an exploiter the newest main ones."""

_DECAY = 0.99  # the weight of past results falls by this factor in each update
_RECENT = 0.8  # "latest" draws each past self by this factor less often than the next newer one


class Opponents(NamedTuple):
    """K past selves in generations of M, one of each member; the oldest generation makes way for the next one.

    M is 1 outside of leagues. Slot s holds member s % M, and K is the leading axis.
    """

    params: Any
    normaliser: Any
    added: jax.Array  # int32, how many generations were ever added; the newest has slots from (added - 1) * M % K
    wins: jax.Array  # float32 [K], points that the learner scored against each: a win is 1, a draw 1/2
    games: jax.Array  # float32 [K]


class Seats(NamedTuple):
    """Who plays in each of B environments: what a rollout remembers instead of the learner's memory alone."""

    carry: Any  # the learner's memory, leaves [B, ...]
    theirs: Any  # the opponent's
    opponent: jax.Array  # int32 [B], the slot of the pool; K where the learner plays both sides
    side: jax.Array  # int32 [B], the team that the learner plays
    replaced: jax.Array  # bool [B], whether the opponent has made way for a newer self since the game began


def new_opponents(params: Any, normaliser: Any, count: int) -> Opponents:
    """A pool of `count` places, which holds one generation, all alike."""

    def copies(leaf: jax.Array) -> jax.Array:
        return jnp.broadcast_to(leaf, (count, *jnp.shape(leaf)))

    nothing = jnp.zeros(count, jnp.float32)
    return Opponents(jax.tree.map(copies, params), jax.tree.map(copies, normaliser), jnp.int32(1), nothing, nothing)


def add_snapshot(pool: Opponents, params: Any, normaliser: Any, now: jax.Array) -> Opponents:
    """The pool with one more generation, leaves `[M, …]`, in place of the oldest, if `now`.

    A member that has diverged is left out: its slot keeps the self that it held.
    """
    (count,), members = pool.wins.shape, jax.tree.leaves(params)[0].shape[0]
    first = pool.added * members % count
    fine = jax.vmap(all_finite)(params)

    def put(selves: jax.Array, newest: jax.Array) -> jax.Array:
        oldest = jax.lax.dynamic_slice_in_dim(selves, first, members, axis=0)
        kept = jnp.where((fine & now).reshape(-1, *(1,) * (newest.ndim - 1)), newest, oldest)
        return jax.lax.dynamic_update_slice_in_dim(selves, kept, first, axis=0)

    unknown = jnp.zeros(members, jnp.float32)
    return Opponents(
        jax.tree.map(put, pool.params, params),
        jax.tree.map(put, pool.normaliser, normaliser),
        pool.added + now,
        put(pool.wins, unknown),
        put(pool.games, unknown),
    )


def meets(pool: Opponents, roles: tuple[Role, ...], number: jax.Array) -> jax.Array:
    """The slots, bool `[K]`, that a league's member meets, by its number; `roles` has a role for each of M members."""
    newest = _age(pool, len(roles)) == 0
    return is_main(roles, number) | (newest & is_main(roles, jnp.arange(pool.wins.size) % len(roles)))


def is_main(roles: tuple[Role, ...], number: jax.Array) -> jax.Array:
    """Whether the league's members with these numbers are main ones, bool of the same shape."""
    return jnp.asarray([role == "main" for role in roles])[number]


def chances(pool: Opponents, preference: Preference, members: int = 1, met: ArrayLike = True) -> jax.Array:
    """The probability `[K]` that each past self is drawn.

    `"hard"` is prioritised fictitious self-play with the weight (1 - p)² of a self that the learner beats with
    probability p (Vinyals et al. 2019, https://doi.org/10.1038/s41586-019-1724-z), where p begins at 1/2.

    Args:
        pool: The past selves.
        preference: Which of them are drawn more often.
        members: M of the league.
        met: bool `[K]`, False for those that are never drawn, see `meets`.
    """
    age = _age(pool, members)
    weight = jnp.ones(pool.wins.shape, jnp.float32)
    if preference == "latest":
        weight = _RECENT ** age.astype(jnp.float32)
    if preference == "hard":
        weight = jnp.square(1.0 - (pool.wins + 1.0) / (pool.games + 2.0)) + 1e-3
    weight = jnp.where((age < pool.added) & met, weight, 0.0)
    return weight / weight.sum()


def new_seats(agent: Agent, num_envs: int, count: int) -> Seats:
    """The seats before the first episodes, which `reset` deals anew."""
    nobody = jnp.zeros(num_envs, jnp.int32)
    carry, theirs = agent.networks.new_carry(num_envs), agent.networks.new_carry(num_envs)
    return Seats(carry, theirs, nobody + count, nobody, jnp.zeros(num_envs, bool))


def seats_after(seats: Seats, pool: Opponents, now: jax.Array, members: int = 1) -> Seats:
    """The seats after `add_snapshot`: games against a self that was replaced go on against the newcomer in its slot.

    The results of such games count for neither.
    """
    newest = jnp.append(_age(pool, members) == 0, False)  # slot K is nobody's
    return seats._replace(replaced=seats.replaced | (now & newest[seats.opponent]))


def against_opponents(
    agent: Agent, state: Any, chance: jax.Array, past_share: ArrayLike, *, scripted: bool = False
) -> Policy:
    """The agent's policy for a rollout in which past selves play the other side of some environments.

    At the start of each episode, the learner gets a side and an opponent. `extras` has the learner's own values, and
    `opponent[B]`, `side[B]`, `replaced[B]` and `learns[B, N]`, False for agents that a past self plays.

    Args:
        agent: The actor-critic; its environment has two teams.
        state: The learner's train state, whose `pool` has the past selves.
        chance: `[K]`, the probability of each of them, see `chances`.
        past_share: The share of episodes against a past self; in the others, the learner plays both sides.
        scripted: Whether the environment's script plays the second team in some episodes. No past self plays in these;
            they are known by the second team's agents being masked.
    """
    own, teams, pool = rollout_policy(agent, state), np.asarray(agent.env.teams), state.pool
    second, count = teams != teams[0], chance.size
    logits = jnp.log(chance)  # the same throughout the rollout

    def deal(seats: Seats, observation: Observation, reset: jax.Array, keys: jax.Array) -> Seats:
        drawn = jax.vmap(lambda key: _deal(key, reset.size // keys.size, logits, past_share))(keys)
        opponent, side = (leaf.reshape(-1) for leaf in drawn)
        if scripted:
            opponent = jnp.where(observation.agent_mask[:, second].any(-1), opponent, count)
        return seats._replace(
            opponent=jnp.where(reset, opponent, seats.opponent),
            side=jnp.where(reset, side, seats.side),
            replaced=seats.replaced & ~reset,
        )

    def act(seats: Seats, observation: Observation, reset: jax.Array, keys: jax.Array) -> Any:
        split = jax.vmap(lambda key: jax.random.split(key, 3))(keys)
        keys_deal, keys_own, keys_theirs = (split[:, stream] for stream in range(3))
        seats = deal(seats, observation, reset, keys_deal)
        carry, action, extras = own.act(seats.carry, observation, reset, keys_own)
        theirs, distribution = _theirs(agent, pool, seats, observation, reset)
        their_action = draw_by_shard(draw_action, distribution, keys_theirs)[0]
        both = (seats.opponent == count)[:, None]
        learns = both | (second == seats.side[:, None].astype(bool))
        chosen = jnp.where(learns.reshape(*learns.shape, *(1,) * (action.ndim - 2)), action, their_action)
        dealt = {"opponent": seats.opponent, "side": seats.side, "replaced": seats.replaced, "learns": learns}
        return seats._replace(carry=carry, theirs=theirs), chosen, {**extras, **dealt}

    return Policy(act, lambda seats, observation: own.bootstrap(seats.carry, observation))


def rollout_of_learners(
    agent: Agent, state: Any, policy: Policy, num_streams: int
) -> tuple[Any, Transition, dict[str, Any], jax.Array]:
    """`next_rollout` by such a policy: agents that others play count as dead, so normalisers and losses ignore them."""
    state, traj, sums, keys = next_rollout(agent, state, policy, num_streams)
    mask = traj.observation.agent_mask & traj.extras["learns"]
    return state, traj._replace(observation=traj.observation._replace(agent_mask=mask)), sums, keys


def count_results(
    pool: Opponents, traj: Transition, score: jax.Array, teams: tuple[int, ...]
) -> tuple[Opponents, jax.Array]:
    """The pool with the results of a rollout's games, and the score of the games that go on.

    The side with the larger mean return wins, see `points`. Games whose opponent was replaced do not count.

    Args:
        pool: The past selves.
        traj: Transitions `[T, B, ...]` of a policy `against_opponents`.
        score: `[B]`, how far the learner's side is ahead.
        teams: The team of each agent.
    """
    second = np.asarray(teams) != teams[0]
    ahead = traj.reward[..., second].mean(-1) - traj.reward[..., ~second].mean(-1)
    ahead = jnp.where(traj.extras["side"] == 1, ahead, -ahead)

    def step(score: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
        gain, cut = inputs
        score = score + gain
        return jnp.where(cut, 0.0, score), score

    score, final = jax.lax.scan(step, score, (ahead, traj.cut))
    ended = traj.cut & ~traj.extras["replaced"]
    met = jax.nn.one_hot(traj.extras["opponent"], pool.wins.shape[0], dtype=jnp.float32) * ended[..., None]
    wins, games = psum(((met * points(final)[..., None]).sum((0, 1)), met.sum((0, 1))))
    return pool._replace(wins=_DECAY * pool.wins + wins, games=_DECAY * pool.games + games), score


def _age(pool: Opponents, members: int) -> jax.Array:
    """How many generations are newer than each slot's, int32 `[K]`; at least `pool.added` for empty slots."""
    count = pool.wins.size
    return (pool.added - 1 - jnp.arange(count) // members) % (count // members)


def _deal(key: jax.Array, num_envs: int, logits: jax.Array, past_share: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Opponents, drawn by their `logits[K]`, and sides for some environments. Consumes `key`."""
    key_self, key_slot, key_side = jax.random.split(key, 3)
    slot = jax.random.categorical(key_slot, logits, shape=(num_envs,)).astype(jnp.int32)
    past = jax.random.bernoulli(key_self, jnp.float32(past_share), (num_envs,))
    side = jax.random.bernoulli(key_side, jnp.float32(0.5), (num_envs,)).astype(jnp.int32)
    return jnp.where(past, slot, logits.size), side


def _theirs(agent: Agent, pool: Opponents, seats: Seats, observation: Observation, reset: jax.Array) -> tuple[Any, Any]:
    """The memory and the distributions `[1, B, N]` of all environments' opponents."""

    def one(slot: jax.Array, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any]:
        params, normaliser = jax.tree.map(lambda selves: selves[slot], (pool.params, pool.normaliser))
        moment = jax.tree.map(lambda leaf: leaf[None, None], observation)
        carry = jax.tree.map(lambda leaf: leaf[None], carry)
        seen = normalised(normaliser, moment, agent.param_sets)
        carry, distribution, _ = agent.networks.apply(params, carry, seen, reset[None, None])
        return jax.tree.map(lambda leaf: leaf[0], (carry, jax.tree.map(lambda leaf: leaf[0], distribution)))

    slots = jnp.minimum(seats.opponent, pool.wins.shape[0] - 1)
    carry, distribution = jax.vmap(one)(slots, seats.theirs, observation, reset)
    return carry, jax.tree.map(lambda leaf: leaf[None], distribution)
