"""Ours and jaxmarl 0.2.0's SMAX side by side, in states that are hard on purpose."""

import contextlib
import functools
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.batching import batch_first, batch_last
from jaxrl.envs.smax import SMAX, State
from jaxrl.envs.smax.battle import outcome
from jaxrl.envs.smax.state import bodies_of

pytest.importorskip("jaxmarl")

with contextlib.redirect_stdout(io.StringIO()):  # it greets
    from jaxmarl.environments.smax import heuristic_enemy_smax_env, map_name_to_scenario, smax_env

B = 64  # states compared at once


def make(name, **options) -> SMAX:
    env = jaxrl.make(name, **options)
    assert isinstance(env, SMAX)
    return env


class Pair:
    """One battle in both implementations, both teams commanded from outside."""

    def __init__(self, name, observation_type="unit_list", action_type="discrete"):
        options: dict[str, Any] = {"observation_type": observation_type, "action_type": action_type}
        self.ours = make(f"smax/{name}", mode="selfplay", compat="jaxmarl-0.2", **options)
        self.cooperative = make(f"smax/{name}", compat="jaxmarl-0.2", **options)
        scenario = map_name_to_scenario(name)
        self.theirs = smax_env.SMAX(scenario=scenario, use_self_play_reward=True, **options)
        self.theirs_cooperative = smax_env.SMAX(scenario=scenario, **options)
        self.num_allies, self.num_units = self.ours.num_allies, self.ours.num_units
        self.random_types = self.ours.scenario.random_types
        self.step_theirs = jax.jit(jax.vmap(self._step_theirs))
        self.step_ours = jax.jit(self._step_ours)

    def _step_theirs(self, key, state, action):
        actions = {agent: action[i] for i, agent in enumerate(self.theirs.agents)}
        obs, new, reward, done, _ = self.theirs.step_env(key, state, actions)
        damage = self.theirs_cooperative.compute_reward(new, state.unit_health, new.unit_health)
        return {
            "obs": jnp.stack([obs[a] for a in self.theirs.agents]),
            "world_state": obs["world_state"],
            "reward": jnp.stack([reward[a] for a in self.theirs.agents]),
            "ally_reward": damage["ally_0"],
            "done": done["__all__"],
            "dead": jnp.stack([done[a] for a in self.theirs.agents]),
            "masks": self.theirs.get_avail_actions(new),
        }, new

    def _step_ours(self, key, state, action, deviation):
        """`deviation` [8, N, B] are jaxmarl's own draws; the key is for what nobody compares."""
        params = self.ours.default_params
        state, action = batch_last((state, action))
        new, reward, terminated, truncated, info = self.ours._advance(key, state, action, params, deviation)
        cooperative = self.cooperative.default_params
        stats = self.cooperative.battle.stats(state.unit_type, cooperative)
        worth = (bodies_of(state), bodies_of(new), stats, new.step, cooperative)
        ally_reward = outcome(self.cooperative.battle, self.cooperative.options, *worth)[0]
        obs, reward, new = batch_first((self.ours._observe(new, params), reward, new))
        seen = {"obs": obs, "reward": reward, "ally_reward": ally_reward[0], "done": terminated, "dead": ~new.alive}
        seen["world_state"] = jax.vmap(self.ours.global_state)(new)
        if self.ours.options.action_type == "discrete":
            seen["mask"] = jax.vmap(self.ours.action_mask)(new)
        return {**seen, "truncated": truncated, "won": info["won"]}, new

    def states(self, seed):
        """B hard states, as ours: overlaps, walls, dead units, targets at the edge of the range, full cooldowns."""
        rng = np.random.default_rng(seed)
        n, a = self.num_units, self.num_allies
        types = np.broadcast_to(self.ours.scenario.unit_types, (B, n))
        types = rng.integers(0, 6, (B, n)) if self.random_types else types
        stats = jax.tree.map(lambda column: np.asarray(column)[types], self.ours.default_params.units)
        spread = rng.choice([0.5, 2.0, 6.0, 15.0], (B, 1, 1)) * max(1.0, n / 12)  # a pile of 50 is chaos
        position = np.clip(rng.uniform(5, 27, (B, 1, 2)) + rng.uniform(-1, 1, (B, n, 2)) * spread, 0.05, 31.95)
        at_wall = rng.random((B, n, 1)) < 0.1
        border = rng.choice([0.01, 31.6], (B, n, 2)) + rng.uniform(0, 0.39, (B, n, 2))
        position = np.where(at_wall & (rng.random((B, n, 2)) < 0.6), border, position)
        for b in range(0, B, 4):  # somebody stands a hair inside or outside of somebody's range
            i, j = rng.integers(a), a + rng.integers(n - a)
            angle = rng.uniform(0, 2 * np.pi)
            reach = stats.range[b, i] + rng.choice([-1e-3, 1e-3])
            position[b, j] = np.clip(position[b, i] + reach * np.array([np.cos(angle), np.sin(angle)]), 0.05, 31.95)
        health = stats.health * rng.choice([1.0, 0.5, 0.05], (B, n), p=[0.3, 0.3, 0.4])
        health = np.where(rng.random((B, n)) < 0.2, 0.0, health)
        health[0, :a], health[1, a:] = 0.0, 0.0  # a team that is gone
        walked = rng.random((B, n)) < 0.5
        move = np.where(walked[..., None], np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])[rng.integers(0, 4, (B, n))], 0)
        opponents = np.where(np.arange(n) < a, n - a, a)
        return State(
            position=jnp.asarray(position, jnp.float32),
            health=jnp.asarray(health, jnp.float32),
            cooldown=jnp.asarray(
                rng.choice([-1.0, 0.0, 0.2, 2.0], (B, n)) + rng.uniform(-0.1, 0.1, (B, n)), jnp.float32
            ),
            unit_type=jnp.asarray(types, jnp.int32),
            move=jnp.asarray(move, jnp.float32),
            attack=jnp.asarray(np.where(walked, 0, 5 + rng.integers(0, opponents, (B, n))), jnp.int32),
            memory=None,
            step=jnp.asarray(rng.choice([0, 57, 98, 99, 100], B), jnp.int32),
        )

    def as_theirs(self, state):
        teams = jnp.broadcast_to(
            (jnp.arange(self.num_units) >= self.num_allies).astype(jnp.float32), state.health.shape
        )
        return smax_env.State(
            done=jnp.zeros(state.step.shape, bool),
            step=state.step,
            unit_positions=state.position,
            unit_alive=state.health > 0,
            unit_teams=teams,
            unit_health=state.health,
            unit_types=state.unit_type.astype(jnp.uint8),
            unit_weapon_cooldowns=state.cooldown,
            prev_movement_actions=state.move,
            prev_attack_actions=state.attack,
        )

    def actions(self, seed):
        """Half of all actions are attacks. `[B, N]`."""
        rng = np.random.default_rng(seed)
        opponents = np.where(
            np.arange(self.num_units) < self.num_allies, self.num_units - self.num_allies, self.num_allies
        )
        attack = 5 + rng.integers(0, opponents, (B, self.num_units))
        return jnp.asarray(np.where(rng.random((B, self.num_units)) < 0.5, attack, rng.integers(0, 5, attack.shape)))

    def deviations(self, keys):
        """What jaxmarl draws in `step_env(key)`, for keys [B]: `[8, N, B]`. Its splitting is smax_env's."""
        return jnp.moveaxis(jax.vmap(functools.partial(_deviations, self.num_units))(keys), 0, -1)


@functools.partial(jax.jit, static_argnums=0)
def _deviations(num_units, key):
    key, _ = jax.random.split(key)

    def tick(key, _):
        key, key_tick = jax.random.split(key)
        dt = 1 / 16
        draw = jax.vmap(lambda k: jax.random.uniform(k, minval=-dt, maxval=2 * dt))
        return key, draw(jax.random.split(key_tick, num_units))

    return jax.lax.scan(tick, key, None, 8)[1]


def same(ours, theirs, what="", atol=1e-4):
    np.testing.assert_allclose(
        np.asarray(ours, np.float64), np.asarray(theirs, np.float64), atol=atol, rtol=0, err_msg=what
    )


@pytest.fixture(scope="package")
def pair():
    """`pair(name, observation_type, action_type)`: a `Pair`, compiled once."""
    return functools.lru_cache(maxsize=None)(Pair)


@pytest.fixture(scope="package")
def heuristic():
    """`heuristic(name)`: jaxmarl's environment with a scripted enemy."""

    def make(name, **options):
        return heuristic_enemy_smax_env.HeuristicEnemySMAX(scenario=map_name_to_scenario(name), **options)

    return functools.lru_cache(maxsize=None)(make)


@pytest.fixture(scope="package")
def assert_same():
    return same
