"""Battles for hypothesis: piles of units, units on the border, dead ones, tables of statistics with zeros in them.

All types are drawn, so that one compiled program plays every army of its size.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.batching import batch_first, batch_last
from jaxrl.envs.smax import SMAX, Params, State
from jaxrl.envs.smax.orders import Memory
from jaxrl.envs.smax.units import UnitStats, stats_of

B = 32  # battles at once
DT = 1 / 16
GRID = 1024  # positions are multiples of its inverse, so that mirroring one is exact

MODES: dict[str, dict[str, Any]] = {
    "selfplay": {"mode": "selfplay"},
    "continuous": {"mode": "selfplay", "action_type": "continuous"},
    "scripted": {"attack_mode": "random"},
    "policy": {"enemy": lambda action, obs, mask, key: action, "enemy_params": np.zeros(2, np.float32)},
    "continuous policy": {
        "enemy": lambda action, obs, mask, key: action,
        "enemy_params": np.zeros((2, 4), np.float32),
        "action_type": "continuous",
    },
    "compat": {"compat": "jaxmarl-0.2", "action_type": "continuous"},
}


class Example(NamedTuple):
    """What hypothesis varies: a table of statistics and rules, and B states."""

    seed: int
    params: Params
    state: State
    deviation: np.ndarray  # of the cooldowns, [B, 8, N]

    def __repr__(self) -> str:
        return f"Example({self.seed}, …)"


class Seen(NamedTuple):
    """What a step gives and shows, leaves `[B, …]`."""

    state: State
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    won: jax.Array
    unit_list: jax.Array
    conic: jax.Array
    global_state: jax.Array
    mask: jax.Array | None  # None where actions are continuous


class Arena:
    """So many units of any types against each other, in one of `MODES`, B battles at once."""

    def __init__(self, allies: int, enemies: int, mode: str) -> None:
        armies: dict[str, Any] = {"allies": f"{allies}m", "enemies": f"{enemies}m", "random_types": True}
        self.env = env = jaxrl.make("smax", **armies, **MODES[mode])
        cone = jaxrl.make("smax", **armies, **MODES[mode], observation_type="conic")
        assert isinstance(env, SMAX)
        assert isinstance(cone, SMAX)
        self.is_ally = np.arange(env.num_units) < allies
        self.num_opponents = np.where(self.is_ally, enemies, allies)
        self.look = jax.jit(functools.partial(_look, env, cone))
        self.step = jax.jit(functools.partial(_step, env, cone))

    def play(self, example: Example, action: np.ndarray, state: State | None = None) -> Any:
        """What is `Seen` after a step of an example, as NumPy arrays; from another `state` if one is given."""
        state = example.state if state is None else state
        keys = jax.random.split(jax.random.key(example.seed), B)
        return jax.tree.map(np.asarray, self.step(keys, state, action, example.params, example.deviation))

    def examples(self, *, piles: bool = True) -> st.SearchStrategy[Example]:
        """Any battle, or any but those of units all in one place; it shrinks to those with the usual statistics."""
        spreads = st.sampled_from([4.0, 1.0, 15.0, 0.2, *([0.0] if piles else [])])
        return st.builds(self.example, seed=st.integers(0, 2**32 - 1), wild=st.booleans(), spread=spreads)

    def example(self, seed: int, wild: bool, spread: float) -> Example:
        """Units within `spread` map units of a random point; some on the border, many dead, weapons in any state."""
        rng, n, a = np.random.default_rng(seed), self.env.num_units, self.env.num_allies
        params = _params(self.env.default_params, rng, wild)
        types = rng.integers(0, 6, (B, n))
        health = np.asarray(stats_of(params.units, types).health) * rng.choice([1.0, 0.5, 0.125], (B, n))
        health = np.where(rng.random((B, n)) < 0.2, 0.0, np.ceil(health))
        health[0, :a], health[1, a:], health[2] = 0.0, 0.0, 0.0  # a team that is gone, and everybody
        walked = rng.random((B, n)) < 0.5
        ways = np.array([(0, 1), (1, 0), (0, -1), (-1, 0), (0, 0)])
        memory = None
        if self.env._scripted:
            goal = jnp.asarray(rng.uniform(-4, 40, (B, n - a, 2)), jnp.float32)
            memory = Memory(goal, jnp.asarray(rng.integers(-1, a, (B, n - a)), jnp.int32))
        state = State(
            position=jnp.asarray(_positions(params, rng, n, spread), jnp.float32),
            health=jnp.asarray(health, jnp.float32),
            cooldown=jnp.asarray(rng.choice([-50.0, 0.0, 0.21, 2.0], (B, n)), jnp.float32),
            unit_type=jnp.asarray(types, jnp.int32),
            move=jnp.asarray(np.where(walked[..., None], ways[rng.integers(0, 5, (B, n))], 0), jnp.float32),
            attack=jnp.asarray(np.where(walked, 0, 5 + rng.integers(0, self.num_opponents, (B, n))), jnp.int32),
            memory=memory,
            step=jnp.asarray(rng.integers(0, 60, B), jnp.int32),
        )
        return Example(seed, params, state, rng.uniform(-DT, 2 * DT, (B, 8, n)).astype(np.float32))

    def orders(self, seed: int) -> np.ndarray:
        """Proper actions of the N agents, as float32 `[B, N]` (half of them attacks) or `[B, N, 4]`."""
        rng, n = np.random.default_rng(seed + 1), self.env.num_agents
        if self.env.options.action_type == "continuous":
            return rng.random((B, n, 4), np.float32)
        attack = 5 + rng.integers(0, self.num_opponents[:n], (B, n))
        return np.where(rng.random((B, n)) < 0.5, attack, rng.integers(0, 5, (B, n))).astype(np.float32)


def _params(params: Params, rng: np.random.Generator, wild: bool) -> Params:
    """Another map, other rewards and, if `wild`, another table of statistics, with zeros where they are allowed."""

    def scaled(column: Any, *factors: float) -> Any:
        return column * rng.choice(np.array(factors, np.float32), 6)

    units: UnitStats = params.units
    if wild:
        units = dataclasses.replace(
            units,
            damage=np.round(8 * scaled(units.damage, 0, 1, 4)) / 8,  # eighths, so that sums of them are exact
            range=scaled(units.range, 0, 0.5, 2),
            cooldown=scaled(units.cooldown, 0.1, 1, 2),
            speed=scaled(units.speed, 0, 1, 3),
            radius=scaled(units.radius, 0, 1, 2.9),  # so that contact is at nobody's range exactly
            sight=scaled(units.sight, 0.3, 1, 3),
        )
    return dataclasses.replace(
        params,
        units=units,
        map_width=np.float32(rng.choice([16, 32, 48])),
        map_height=np.float32(rng.choice([16, 32])),
        max_steps=np.int32(rng.choice([1, 50])),
        won_battle_bonus=np.float32(rng.choice([0, 1, 3])),
        damage_reward=np.float32(rng.choice([0, 1, 5])),
        see_enemy_actions=np.bool_(rng.random() < 0.5),
        walls_cause_death=np.bool_(rng.random() < 0.5),
    )


def _positions(params: Params, rng: np.random.Generator, num_units: int, spread: float) -> np.ndarray:
    """`[B, N, 2]`, one in seven at the border or on it."""
    size, shape = np.array([params.map_width, params.map_height], np.float32), (B, num_units, 2)
    position = rng.uniform(0, 1, (B, 1, 2)) * size + rng.uniform(-1, 1, shape) * spread
    position = np.where((position < 0) | (position > size), rng.uniform(0, 1, shape) * size, position)
    border = rng.choice([0.0, 0.05, 0.5, 1.0], shape)
    border = np.where(rng.random(shape) < 0.5, border, size - border)
    position = np.where(rng.random((B, num_units, 1)) < 0.15, border, position)
    return np.round(position * GRID) / GRID


def _look(env: SMAX, cone: SMAX, state: State, params: Params) -> tuple[Any, ...]:
    """Both observations, the global state and the mask of states `[B, …]`."""
    inside = batch_last(state)
    mask = None
    if env.options.action_type == "discrete":
        mask = jax.vmap(env.action_mask, (0, None))(state, params)
    everything = jax.vmap(env.global_state, (0, None))(state, params)
    return (*batch_first((env._observe(inside, params), cone._observe(inside, params))), everything, mask)


def _step(
    env: SMAX, cone: SMAX, keys: jax.Array, state: State, action: jax.Array, params: Params, deviation: jax.Array
) -> Seen:
    """One step of B battles."""
    state, action, deviation = batch_last((state, action, deviation))
    after, reward, terminated, truncated, info = env._advance(keys, state, action, params, deviation)
    out = batch_first((after, reward, terminated, truncated, info["won"]))
    return Seen(*out, *_look(env, cone, out[0], params))


@pytest.fixture(scope="session")
def arena():
    """`arena(allies, enemies, mode)`: an `Arena`, made once."""
    return functools.cache(Arena)
