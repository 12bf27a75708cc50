"""Matches: several trained policies play the agents of one environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.rl.episodes import points
from jaxrl.train.evaluate import evaluate
from jaxrl.train.folder.load import Run
from jaxrl.train.members import member_of
from jaxrl.wrappers import Wrapper, as_multi_agent
from jaxrl.wrappers.seats import check_roles

__all__ = [
    "Contender",
    "Result",
    "contenders",
    "play_match",
    "play_script",
    "script_of",
    "sides_for",
    "sides_of",
]


class Contender(NamedTuple):
    """A trained policy that takes part in matches."""

    name: str
    algo: Algorithm
    state: Any
    """The train state of one member."""
    trained_in: MultiAgentEnvironment
    """The environment it was trained in: how many agents it acts for, what they see and what they can do."""
    alike: Hashable
    """Equal for contenders whose states fit the same `algo`, so that their matches share a compiled program."""
    by_rules: bool = False
    """True if it follows rules, which draw where they do not decide, in a greedy match as well."""


class Result(NamedTuple):
    """The results of E games, from the point of view of the first side."""

    wins: int
    draws: int
    losses: int
    return_mean: float
    """The mean over the games of the agents' mean return, which counts where all agents cooperate."""


class _BySide(Wrapper):
    """The same environment, whose returns are counted for each side instead of each kind of agent."""

    def __init__(self, env: MultiAgentEnvironment, sides: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(env)
        self._sides = sides

    @property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """The agents of each side."""
        return {f"side_{number}": side for number, side in enumerate(self._sides)}


def contenders(run: Run, name: str) -> list[Contender]:
    """The policies in a run: one for each seed or member, with its number in the name if there are several."""
    env = as_multi_agent(run.env)
    alike = (type(run.config), dataclasses.replace(run.config, seed=0))
    if run.num_members == 1:
        return [Contender(name, run.algo, run.state, env, alike)]
    return [
        Contender(f"{name}:{index}", run.algo, member_of(run.state, index), env, alike)
        for index in range(run.num_members)
    ]


def script_of(env: MultiAgentEnvironment, name: str) -> Contender | None:
    """The environment's rules for single agents as a contender; None if it has none."""
    script = env.scripted_policy
    if script is None:
        return None

    def act(
        state: Any, obs: Any, carry: Any = None, key: Any = None, *, action_mask: Any = None, reset: Any = None
    ) -> Any:
        return jax.vmap(script)(obs, action_mask, jax.random.split(key, obs.shape[0])), carry

    return Contender(name, Algorithm(_refuse, _refuse, act), (), env, name, by_rules=True)


def sides_for(env: MultiAgentEnvironment, contender: Contender) -> tuple[int, ...]:
    """The sides, 0 and 1, that a contender can act for: one of them if it was trained for the agents of that side.

    Raises:
        ValueError: It can act for neither.
    """
    fits, refusals = [], []
    for number, side in enumerate(sides_of(env)):
        try:
            _on_side(contender, side, env)
            fits.append(number)
        except ValueError as refusal:
            refusals.append(refusal)
    if not fits:
        raise refusals[0]
    return tuple(fits)


def sides_of(env: MultiAgentEnvironment) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The agents of the two sides: the two teams, or the two kinds of agents if every agent is its own team.

    The sides of a single team are its first and its second half.

    Raises:
        ValueError: There are more than two teams and kinds, or there is only one agent.
    """
    num_teams, num_kinds = len(set(env.teams)), len(set(env.roles))
    sides = np.asarray(env.teams if num_teams <= 2 else env.roles)
    numbers = np.unique(sides)
    if env.num_agents < 2 or (num_teams > 2 and num_kinds != 2):
        raise ValueError(
            f"A match has two sides, and {env.name} has {num_teams} team{'s' if num_teams > 1 else ''} and "
            f"{num_kinds} kind{'s' if num_kinds > 1 else ''} of agents; choose runs in an environment with two teams, "
            f"or with one team of at least two agents, such as those trained with --shared-reward."
        )
    half = sides == numbers[0] if len(numbers) == 2 else np.arange(env.num_agents) < (env.num_agents + 1) // 2
    return tuple(np.flatnonzero(half).tolist()), tuple(np.flatnonzero(~half).tolist())


def play_match(
    env: MultiAgentEnvironment,
    first: Contender,
    second: Contender,
    key: jax.Array,
    games: int = 512,
    *,
    greedy: bool = False,
    programs: dict[Hashable, tuple[Algorithm, Any]] | None = None,
) -> Result:
    """Play `games` games at once, in which `first` acts for the first of the `sides_of` the environment.

    A side wins a game if the mean return of its agents is larger than the other side's, see `points`.

    Args:
        env: The environment.
        first: Acts for the first side.
        second: Acts for the second side.
        key: Consumed.
        games: E, all played at the same time.
        greedy: Whether to take the most likely actions; False draws them.
        programs: Keeps what alike contenders share, so that their matches are compiled once; give the same dictionary
            to every match in one environment.

    Raises:
        ValueError: A contender was trained to act for another number of agents.
    """
    programs = {} if programs is None else programs
    alike = (first.alike, second.alike, greedy)
    if alike not in programs:
        sides = sides_of(env)
        acts = [_on_side(each, side, env, greedy) for each, side in zip((first, second), sides, strict=True)]
        programs[alike] = _joined(acts, sides), _BySide(env, sides)
    algo, by_side = programs[alike]
    played = evaluate(algo, by_side, (first.state, second.state), key, games, greedy=False)  # `acts` know
    returns = {name: np.asarray(own) for name, own in played.kind_returns.items()}
    scored = np.asarray(points(jnp.asarray(returns["side_0"] - returns["side_1"])))
    wins, losses = int(np.sum(scored == 1)), int(np.sum(scored == 0))
    return Result(wins, games - wins - losses, losses, float(np.mean(played.returns)))


def play_script(
    env: MultiAgentEnvironment,
    first: Contender,
    key: jax.Array,
    games: int = 512,
    *,
    greedy: bool = False,
    programs: dict[Hashable, tuple[Algorithm, Any]] | None = None,
) -> Result:
    """Play `games` games against the environment's script, which acts for the second side; a game not won is lost.

    Args:
        env: The environment of two teams.
        first: Acts for the first side.
        key: Consumed.
        games: E, all played at the same time.
        greedy: Whether to take the most likely actions; False draws them.
        programs: See `play_match`.

    Raises:
        NotImplementedError: The environment has no script.
        ValueError: The contender was trained to act for another number of agents, or nobody wins in this environment.
    """
    programs = {} if programs is None else programs
    alike = (first.alike, greedy)
    if alike not in programs:
        programs[alike] = _alone(first, env, greedy), env.against_script()
    algo, alone = programs[alike]
    played = evaluate(algo, alone, first.state, key, games, greedy=False)  # `algo` knows
    if played.won is None:
        raise ValueError(f"{alone.name} does not say who won.")
    wins = int(np.sum(played.won))
    return Result(wins, 0, games - wins, float(np.mean(played.returns)))


def _alone(contender: Contender, env: MultiAgentEnvironment, greedy: bool) -> Algorithm:
    """An algorithm that only acts, for the first side, whose observations are the only ones."""
    side = np.array(sides_of(env)[0])
    on_side = _on_side(contender, tuple(side), env, greedy)

    def act(
        state: Any, obs: Any, carry: Any = None, key: Any = None, *, action_mask: Any = None, reset: Any = None
    ) -> Any:
        def seated(leaf: jax.Array) -> jax.Array:
            return jnp.zeros((leaf.shape[0], env.num_agents, *leaf.shape[2:]), leaf.dtype).at[:, side].set(leaf)

        mask = None if action_mask is None else seated(action_mask)
        return on_side(state, seated(obs), carry, key, action_mask=mask, reset=reset)

    return Algorithm(_refuse, _refuse, act)


def _on_side(
    contender: Contender, side: tuple[int, ...], env: MultiAgentEnvironment, greedy: bool = False
) -> Callable[..., Any]:
    """The contender's `act` for the agents of its side, given the observations `[B, N, …]` of all agents and a key."""
    # The contender has to fit: same spaces, a number of agents that it knows, and the same roles.
    trained_in = contender.trained_in
    there, here = ((each.observation_space(), each.action_space()) for each in (trained_in, env))
    if there != here:
        then, now = (each.made_as or each.name for each in (trained_in, env))
        raise ValueError(
            f"{contender.name} was trained in {then}, where agents see {there[0]} and do {there[1]}; in {now} they see "
            f"{here[0]} and do {here[1]}. Leave it out, or choose an environment in which all can play by --env."
        )
    if trained_in.num_agents not in (len(side), env.num_agents):
        raise ValueError(
            f"{contender.name} acts for {trained_in.num_agents} agents; a side of {env.name} has {len(side)} of "
            f"{env.num_agents}."
        )
    check_roles(contender.name, trained_in, env, side)
    # Policies of a whole game see all agents and give their side's actions, those of a side see only that.
    whole, own = trained_in.num_agents == env.num_agents, np.array(side)
    draws = contender.by_rules or not greedy

    def act(state: Any, obs: Any, carry: Any, key: Any, *, action_mask: Any, reset: Any) -> tuple[jax.Array, Any]:
        key = key if draws else None
        if not whole:
            obs, action_mask = obs[:, own], None if action_mask is None else action_mask[:, own]
        action, carry = contender.algo.act(state, obs, carry, key, action_mask=action_mask, reset=reset)
        return action[:, own] if whole else action, carry

    return act


def _joined(acts: Sequence[Callable[..., Any]], sides: Sequence[tuple[int, ...]]) -> Algorithm:
    """An algorithm that only acts, through two others: its state and its memory are pairs of theirs."""
    order = np.argsort(np.concatenate([np.array(side) for side in sides]))

    def act(
        state: Any, obs: Any, carry: Any = None, key: Any = None, *, action_mask: Any = None, reset: Any = None
    ) -> tuple[jax.Array, Any]:
        keys = jax.random.split(key)
        carries = (None, None) if carry is None else carry
        chosen = [
            one(own, obs, memory, draw, action_mask=action_mask, reset=reset)
            for one, own, memory, draw in zip(acts, state, carries, keys, strict=True)
        ]
        actions = jnp.concatenate([action for action, _ in chosen], axis=1)
        return actions[:, order], tuple(memory for _, memory in chosen)

    return Algorithm(_refuse, _refuse, act)


def _refuse(*_: Any) -> Any:
    raise NotImplementedError("The sides of a match play; they do not train.")
