"""The games of pgx as ours: `from_pgx(env)`. Board and card games are for several agents, who take turns."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.interop.common import Adapted, Extra, defaults, explained, fitting, narrow, observed, observed_space
from jaxrl.keys import abstract_key
from jaxrl.spaces import Box, Discrete

with Extra("pgx"):
    import pgx

__all__ = ["FromPgx", "FromPgxGame", "from_pgx", "make", "names"]

_SIZES = {"go_9x9": {"size": 9}, "go_19x19": {"size": 19}}  # what the name says and the class does not


def from_pgx(env: Any) -> FromPgx:
    """A game of pgx as one of ours, so that it can be trained on; with two players or more, it has an agent a player.

    The agents are pgx's players: who of them begins is drawn for each episode. All of them act in every step, and the
    action after pgx's last one, `wait`, is the only legal one for those who are not to move. Each observes the game
    from its own side, and has a reward of its own. An illegal move ends the game and costs what pgx says.

    Boolean observations stay boolean, all others are float32 arrays without bounds. JAX's 64-bit mode has no effect.

    Args:
        env: The game that `pgx.make` returned.

    Raises:
        TypeError: `env` is not a game of pgx.
    """
    if not isinstance(env, pgx.Env):
        hint = "from_pgx(pgx.make(id)), or jaxrl.make of a name such as pgx:tic_tac_toe"
        raise TypeError(f"from_pgx takes one of pgx's games, as in {hint}; not a {type(env).__name__}.")
    return FromPgx(env) if env.num_players == 1 else FromPgxGame(env)


def names() -> list[str]:
    """Pgx's names for its games."""
    return list(pgx.available_envs())


def make(name: str, **options: Any) -> FromPgx:
    """`from_pgx(pgx.make(name))`; options are those of the game's class, such as the `size` of Hex."""
    if name not in names():
        why = f"pgx has no game {name!r}. {nearest(name, names())}"
        if name in get_args(pgx.EnvId):
            why = (
                f"pgx has {name!r} only with a file of results; load it in Python: "
                f"jaxrl.interop.from_pgx(pgx.bridge_bidding.BridgeBidding(FILE))."
            )
        raise UnknownNameError(why)
    theirs: Any = pgx.make(name)  # pyright: ignore[reportArgumentType]
    if not options:
        return from_pgx(theirs)
    fixed = _SIZES.get(name, {})
    own = {option: value for option, value in defaults(type(theirs)).items() if option not in fixed}
    given = fitting(f"pgx:{name}", options, own)
    with explained("pgx", name):  # pgx's Hex has a size, but states of one size only
        return from_pgx(type(theirs)(**fixed, **given))


class FromPgx(Adapted):
    """See `from_pgx`."""

    intended = ("same_start",)  # Space Invaders

    def __init__(self, env: Any) -> None:
        self.env = env
        self.name = f"pgx:{env.id}"
        begun = jax.eval_shape(partial(narrow, env.init), abstract_key())
        self._num_moves: int = begun.legal_action_mask.shape[0]
        one = jax.eval_shape(partial(self._seen, seat=0), begun)
        self._observation_space = Box(0, 1, one.shape, bool) if one.dtype == bool else observed_space(one)
        self._action_space = Discrete(self._num_moves)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        state = narrow(self.env.init, key)
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Step:
        move = self._move(state, self._action_space.clip(action))
        # Who is to move and waits nevertheless has made an illegal move.
        legal = state.legal_action_mask & (move < self._num_moves)
        after = narrow(self.env.step, state.replace(legal_action_mask=legal), move, key)
        truncated = after.truncated | self._is_late(after)
        info = {"illegal_move": ~legal[move]}
        return self.observation(after), after, self._rewards(after), after.terminated & ~truncated, truncated, info

    def observation(self, state: Any, params: Any = None) -> jax.Array:
        """The observation of the agent, or of each of them."""
        return self._seen(state, 0)

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        return state.legal_action_mask

    def _move(self, state: Any, action: jax.Array) -> jax.Array:
        """The move that is made."""
        return action

    def _rewards(self, state: Any) -> jax.Array:
        return state.rewards[0].astype(jnp.float32)

    def _is_late(self, state: Any) -> jax.Array:
        """True where the clock ended the episode.

        Only Freeway in MinAtar has one: the limits of board games are rules, by which the position is a draw or counted
        out.
        """
        return state._terminate_timer < 0 if self.env.id == "minatar-freeway" else jnp.zeros((), bool)

    def _seen(self, state: Any, seat: Any) -> jax.Array:
        """The observation of the player `seat`."""
        with warnings.catch_warnings():  # pgx is to lose the argument, without which only who is to move sees
            warnings.simplefilter("ignore", DeprecationWarning)
            obs = narrow(self.env.observe, state, jnp.asarray(seat, jnp.int32))
        return obs if obs.dtype == bool else observed(obs)


class FromPgxGame(FromPgx, MultiAgentEnvironment):
    """See `from_pgx`."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.agents = tuple(f"player_{player}" for player in range(env.num_players))
        self.action_names = (*map(str, range(self._num_moves)), "wait")
        self._action_space = Discrete(self._num_moves + 1)

    @property
    def teams(self) -> tuple[int, ...]:
        return (0, 0, 1, 1) if self.env.id == "bridge_bidding" else super().teams

    def observation(self, state: Any, params: Any = None) -> jax.Array:
        return jax.vmap(lambda seat: self._seen(state, seat))(np.arange(self.num_agents, dtype=np.int32))

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        turn = self._turn(state)[:, None]
        return jnp.concatenate([turn & state.legal_action_mask, ~turn], axis=1)

    def _turn(self, state: Any) -> jax.Array:
        """True for who is to move, bool `[N]`."""
        return jnp.arange(self.num_agents, dtype=jnp.int32) == state.current_player

    def _move(self, state: Any, action: jax.Array) -> jax.Array:
        return jnp.where(self._turn(state), action, 0).sum(dtype=jnp.int32)

    def _rewards(self, state: Any) -> jax.Array:
        return state.rewards.astype(jnp.float32)
