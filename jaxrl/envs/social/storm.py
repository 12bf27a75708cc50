"""STORM: matrix games in space and time (Khan et al. 2024, https://arxiv.org/abs/2312.12568).

They go back to the dilemmas of Leibo et al. 2017 (https://arxiv.org/abs/1702.03037). The rules are JaxMARL's.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, as_arrays, select
from jaxrl.envs.batching import same_key, uniform_rows
from jaxrl.envs.options import flag, whole
from jaxrl.envs.social import storm_rules as rules
from jaxrl.envs.social.draw import draw_storm, storm_board
from jaxrl.envs.social.storm_rules import (
    COIN_CELLS,
    MATRICES,
    SIZE,
    SPAWN_CELLS,
    VIEW,
    Params,
    State,
    as_payoff,
    facts,
    planes,
)
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Storm"]

_PLACES = len(COIN_CELLS)
_MOST_PLAYERS = 8


class Storm(MultiAgentEnvironment):
    """Players on 8 x 8 cells collect coins of K kinds. When two meet, the coins they hold are their mixed strategies.

    Two players meet if both hold a coin, and each zaps the other in the same step; a zap reaches one and two cells
    ahead, and the two beside the first. With the shares p and q of their coins, the one with the lower number gets
    p A q and the other one p B q from the tables A and B. Both stand still for `freeze_steps`, show what they hold,
    then lose it, and are put somewhere else. A place without a coin gets a new one every 3 to 9 steps, if it is free.

    Observation of each agent float32 `[25 (N + K + 6) + N (K + 1)]`: the planes of `storm_view.planes`, and then
    `storm_view.facts`; with `picture`, `[5, 5, C]`, in which every fact fills a plane.
    Action Discrete(5): turn left, turn right, forward, interact (zap), stay.
    Reward: each player's own payoff.
    Truncated after `outer_steps` rounds of `inner_steps` steps each; `info["inner_end"]` tells the end of a round.
    `info["meetings"]` is the number of players who met in this step.

    Args:
        payoff: The tables of the row player and of the column player, `[2, K, K]`, or one of a symmetric game.
        num_agents: N, 2 to 8.
        inner_steps: Steps of a round. The next one starts with everything anew.
        outer_steps: Rounds of an episode.
        freeze_steps: See `Params.freeze_steps`.
        shuffle_coins: Whether every round deals the kinds anew to the 12 places. Otherwise it keeps the pattern, and
            draws which kind is which.
        picture: Whether observations are `[5, 5, C]`.

    Raises:
        ValueError: An option is out of its range.
    """

    action_names = ("left", "right", "forward", "interact", "stay")

    def __init__(
        self,
        *,
        payoff: Any = MATRICES["prisoners_dilemma"],
        num_agents: int = 2,
        inner_steps: int = 152,
        outer_steps: int = 1,
        freeze_steps: int = 5,
        shuffle_coins: bool = False,
        picture: bool = False,
    ) -> None:
        table = as_payoff(payoff, _PLACES)
        count = whole("num_agents", num_agents, 2)
        if count > _MOST_PLAYERS:
            raise ValueError(f"num_agents must be at most {_MOST_PLAYERS}, got {count}.")
        self.agents = tuple(f"agent_{i}" for i in range(count))
        self._kinds, self._shuffles = table.shape[1], flag("shuffle_coins", shuffle_coins)
        self._picture = flag("picture", picture)
        self._rounds, inner = whole("outer_steps", outer_steps), whole("inner_steps", inner_steps)
        freeze = whole("freeze_steps", freeze_steps)
        refill = np.array([3, 9], np.int32)
        steps = whole("inner_steps * outer_steps", inner * self._rounds)
        self._default_params = as_arrays(Params(table, freeze, refill, inner, steps))
        # Rows of draws: those of a step, of a round's start within an episode, and of an episode's start.
        pairs = count * (count - 1) // 2
        self._sizes = np.array([count, pairs, 2 * count, _PLACES])
        self._step_draws, self._start_draws = int(self._sizes.sum()), 2 * count + 1 + 2 * _PLACES

    @property
    def default_params(self) -> Params:
        return self._default_params

    def observation_space(self, params: Params | None = None) -> Box:
        n, kinds = self.num_agents, self._kinds
        channels, numbers = n + kinds + 6, n * (kinds + 1)
        return Box(0, np.inf, (VIEW, VIEW, channels + numbers) if self._picture else (VIEW**2 * channels + numbers,))

    def action_space(self, params: Params | None = None) -> Discrete:
        return Discrete(5)

    split_key = same_key  # steps and starts draw different rows of a key

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        draws = uniform_rows(key, self._start_draws, self._step_draws + self._start_draws)
        state = self._start(draws, params, jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        again = self._start_draws if self._rounds > 1 else 0
        draws = uniform_rows(key, self._step_draws + again)
        after, reward, met = self._play(state, self.action_space().clip(action), draws[: self._step_draws], params)
        truncated = after.step >= params.max_steps
        inner_end = after.step % params.inner_steps == 0
        if self._rounds > 1:
            start = self._start(draws[self._step_draws :], params, after.step)
            after = select(inner_end & ~truncated, start, after)
        info = {"inner_end": inner_end, "meetings": met}
        return self.observation(after), after, reward, jnp.zeros_like(truncated), truncated, info

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[N, D]`, or `[N, 5, 5, C]` with `picture`."""
        seen, known = planes(state, self._kinds).astype(jnp.float32), facts(state)
        if self._picture:
            filled = jnp.broadcast_to(known[:, None, None], (*seen.shape[:3], known.shape[1]))
            return jnp.concatenate([seen, filled], -1)
        return jnp.concatenate([seen.reshape(self.num_agents, -1), known], 1)

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[64 (N + K) + N (K + 5)]`: who and which coins are in each cell; for each player its direction
        one-hot, its coins by kind, and whether it is frozen.
        """
        cells = np.arange(SIZE * SIZE)
        boards = [rules.board_of(COIN_CELLS, state.there & (state.kind == kind)) for kind in range(self._kinds)]
        parts = (
            rules.place(state.position)[:, None] == cells,
            *(rules.holds(board, cells) for board in boards),
            state.direction[:, None] == np.arange(4),
            state.inventory,
            state.frozen > 0,
        )
        return jnp.concatenate([part.astype(jnp.float32).reshape(-1) for part in parts])

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw_storm(str(self.name), states)

    def board(self, state: State) -> str:
        """One state in letters, see `storm_board`."""
        return storm_board(state)

    def _start(self, draws: jax.Array, params: Params, step: jax.Array) -> State:
        """The start of a round, from `[start_draws]` uniform draws."""
        n = self.num_agents
        spots, looks, offset, deal, timer = jnp.split(draws, np.cumsum([n, n, 1, _PLACES]))
        place = jnp.argsort(deal) if self._shuffles else jnp.arange(_PLACES, dtype=jnp.int32)
        kind = (place + (offset[0] * self._kinds).astype(jnp.int32)) % self._kinds
        coins = rules.board_of(COIN_CELLS)
        cells = rules.respawn(jnp.ones(n, bool), jnp.zeros(n, jnp.int32), coins, spots)
        return State(
            position=_position(cells),
            direction=(looks * 4).astype(jnp.int32),
            inventory=jnp.zeros((n, self._kinds), jnp.int32),
            frozen=jnp.zeros(n, jnp.int32),
            kind=kind.astype(jnp.int32),
            there=jnp.ones(_PLACES, bool),
            timer=_refill(timer, params),
            beams=jnp.zeros(2, jnp.uint32),
            step=step,
        )

    def _play(
        self, state: State, action: jax.Array, draws: jax.Array, params: Params
    ) -> tuple[State, jax.Array, jax.Array]:
        """A step: the state after it, the rewards float32 `[N]`, and how many players met.

        Args:
            state: The state before.
            action: int32 `[N]`.
            draws: `[step_draws]` uniform draws.
            params: The parameters.
        """
        luck, pair_luck, again_luck, timer_luck = jnp.split(draws, np.cumsum(self._sizes)[:-1])
        action = jnp.where(state.frozen > 0, rules.STAY, action)
        position, direction = rules.move(state, action, luck)
        inventory, there = rules.collect(state, rules.place(position), self._kinds)

        zaps = action == rules.INTERACT
        reach = rules.place(rules.targets(position, direction))  # [N, 4]
        aims = jnp.any(reach[:, None] == rules.place(position)[:, None], -1)  # [i, j]: i aims at j
        able = zaps & (inventory.sum(1) > 0)
        others = ~np.eye(self.num_agents, dtype=bool)
        met = rules.match(aims & aims.T & able[:, None] & able & others, pair_luck)
        meets = jnp.any(met, 1)
        reward = jnp.sum(jnp.where(met, self._payoffs(inventory, params), 0), 1)

        frozen = jnp.where(meets, params.freeze_steps, jnp.maximum(state.frozen - 1, 0))
        back = (state.frozen > 0) & (frozen == 0)
        spots, looks = jnp.split(again_luck, 2)
        coins = rules.board_of(COIN_CELLS, there)
        cells = rules.respawn(back, rules.place(position), coins, spots)
        # A beam lights only cells that were empty before the step too.
        full = rules.board_of(rules.place(state.position)) | rules.board_of(COIN_CELLS, state.there)
        now = rules.board_of(cells)
        lit = rules.board_of(reach.reshape(-1), jnp.repeat(zaps, reach.shape[1])) & ~full & ~now

        due = state.timer <= 1
        blocked = rules.holds(now | lit, COIN_CELLS)
        after = State(
            position=_position(cells),
            direction=jnp.where(back, (looks * 4).astype(jnp.int32), direction),
            inventory=jnp.where(back[:, None], 0, inventory),
            frozen=frozen.astype(jnp.int32),
            kind=state.kind,
            there=there | (due & ~blocked),
            timer=jnp.where(due, _refill(timer_luck, params), state.timer - 1),
            beams=lit,
            step=state.step + 1,
        )
        return after, reward, meets.sum(dtype=jnp.int32)

    def _payoffs(self, inventory: jax.Array, params: Params) -> jax.Array:
        """float32 `[N, N]`: the payoff `[i, j]` of i if it meets j. The one with the lower number is the row player."""
        share = inventory / jnp.maximum(inventory.sum(1, keepdims=True), 1).astype(jnp.float32)
        pair = share[:, None, :, None] * share[None, :, None]  # [i, j, coin of i, coin of j]
        row, column = ((pair * table).sum((2, 3)) for table in (params.payoff[0], params.payoff[1]))
        is_row = np.triu(np.ones((self.num_agents, self.num_agents), bool))
        return jnp.where(is_row, row, column.T)


def _position(cells: jax.Array) -> jax.Array:
    """int32 `[N, 2]` from cells `[N]`."""
    return jnp.stack([cells // SIZE, cells % SIZE], -1)


def _refill(luck: jax.Array, params: Params) -> jax.Array:
    """The steps until the next try, int32 `[12]`."""
    fewest, most = params.refill_steps[0], params.refill_steps[1]
    return fewest + (luck * (most - fewest + 1)).astype(jnp.int32)


assert len(set(SPAWN_CELLS.tolist()) - set(COIN_CELLS.tolist())) >= 2 * _MOST_PLAYERS, "there is room for everybody"
