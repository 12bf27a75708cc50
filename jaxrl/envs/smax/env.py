"""SMAX: simplified multi-agent combat, the task family of JaxMARL, as one batched kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, Step, auto_reset, select
from jaxrl.envs.smax import observe, scripted, spawn
from jaxrl.envs.smax.draw import draw
from jaxrl.envs.smax.dynamics import Bodies, Field, Orders, run_ticks
from jaxrl.envs.smax.scenarios import SCENARIOS, Scenario
from jaxrl.envs.smax.units import UNIT_NAMES, UnitStats, default_unit_stats, stats_of
from jaxrl.registry import UnknownNameError, nearest
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Discrete

__all__ = ["Params", "SMAX", "State"]

_TICKS = 8  # of physics in a step
_FIRST_ATTACK = 5  # actions: 0 up, 1 right, 2 down, 3 left, 4 stop, 5+k attack opponent k


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Everything about a battle that can vary without recompilation; `vmap` over it gives many different battles."""

    units: UnitStats
    """Statistics of the unit types, leaves `[K]`."""
    map_width: Any
    map_height: Any
    time_per_step: Any
    """Seconds a tick; a step has eight ticks."""
    max_steps: Any
    """Steps after which an undecided battle is truncated."""
    won_battle_bonus: Any
    see_enemy_actions: Any
    """Whether the last actions of visible opponents are seen."""
    walls_cause_death: Any
    """Whether touching the map's border kills (as in JaxMARL) or merely stops."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A battle: A allies, then E enemies, N in all."""

    position: jax.Array
    """`[N, 2]`, map units, origin at the bottom left."""
    health: jax.Array
    """`[N]`; a unit is alive while it is positive."""
    cooldown: jax.Array
    """`[N]` seconds until the weapon is ready; negative after a wait."""
    unit_type: jax.Array
    """`[N]` int32, index into `UNIT_NAMES`."""
    move: jax.Array
    """`[N, 2]`, direction walked in the last step."""
    attack: jax.Array
    """`[N]` int32, the last action where it was an attack (5+k), else 0."""
    memory: scripted.Memory
    """What the scripted enemies remember, leaves `[E]`."""
    step: jax.Array
    """int32, steps since the episode began."""

    @property
    def alive(self) -> jax.Array:
        """Who lives, bool `[N]`."""
        return self.health > 0


class SMAX(MultiAgentEnvironment):
    """A team of units against a scripted one; each ally is an agent, all share one reward.

    Args:
        scenario: A name such as `"3m"` or `"3s5z_vs_3s6z"`, or a `Scenario`.
        max_steps: Steps after which an undecided battle is truncated.
        map_width: Of the map, in map units.
        map_height: Likewise.
        won_battle_bonus: Added to the reward of the step that wins.
        see_enemy_actions: Whether the last actions of visible opponents are observed.
        walls_cause_death: Whether touching the border kills.
        enemy_shoots: False for an enemy that only walks.
        attack_mode: How the scripted enemy chooses a target, `"closest"` or `"random"`.

    The dynamics equal jaxmarl 0.2.0's `HeuristicEnemySMAX` except for three of its faults: an episode has exactly
    `max_steps` steps (there one more), a time-out is `truncated` instead of mixed with the end of a battle, and the end
    of an episode is one flag for all agents, so that recurrent memory is cleared for the living as well.
    """

    def __init__(
        self,
        scenario: str | Scenario = "3m",
        *,
        max_steps: int = 100,
        map_width: float = 32.0,
        map_height: float = 32.0,
        won_battle_bonus: float = 1.0,
        see_enemy_actions: bool = True,
        walls_cause_death: bool = True,
        enemy_shoots: bool = True,
        attack_mode: str = "closest",
    ) -> None:
        if isinstance(scenario, str):
            if scenario not in SCENARIOS:
                raise UnknownNameError(f"SMAX has no scenario {scenario!r}. {nearest(scenario, list(SCENARIOS))}")
            scenario = SCENARIOS[scenario]
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}.")
        if attack_mode not in ("closest", "random"):
            raise ValueError(f'attack_mode must be "closest" or "random", got {attack_mode!r}.')
        self.scenario = scenario
        self.num_allies = len(scenario.allies)
        self.num_enemies = len(scenario.enemies)
        self.num_units = self.num_allies + self.num_enemies
        self.agents = tuple(f"ally_{i}" for i in range(self.num_allies))
        self.enemy_shoots = enemy_shoots
        self.attack_mode = attack_mode
        self._default_params = Params(
            units=default_unit_stats(),
            map_width=np.float32(map_width),
            map_height=np.float32(map_height),
            time_per_step=np.float32(1 / 16),
            max_steps=np.int32(max_steps),
            won_battle_bonus=np.float32(won_battle_bonus),
            see_enemy_actions=np.bool_(see_enemy_actions),
            walls_cause_death=np.bool_(walls_cause_death),
        )

    def _params(self, params: Params | None) -> Params:
        return self._default_params if params is None else params

    @property
    def default_params(self) -> Params:
        return self._default_params

    @property
    def teams(self) -> tuple[int, ...]:
        return (0,) * self.num_agents

    def observation_space(self, params: Any = None) -> Box:
        size = (self.num_units - 1) * (observe.NUM_OTHER_BASE + len(UNIT_NAMES))
        return Box(-1.0, 1.0, (size + observe.NUM_OWN_BASE + len(UNIT_NAMES),))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(_FIRST_ATTACK + self.num_enemies)

    # One environment: the batched kernel with no batch axis.

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        return self._observed(self._spawn(jax.random.uniform(key, (2, self.num_units)), params), params)

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        draws = jax.random.uniform(key, (self._num_draws,))
        stepped, reward, terminated, truncated, info = self._advance(draws, state, action, params)
        obs, stepped = self._observed(stepped, params)
        return obs, stepped, reward, terminated, truncated, info

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self, states, params)

    # B environments: units first, batch last inside; batch first outside.

    def batch_reset(self, keys: jax.Array, params: Params | None = None) -> tuple[jax.Array, State]:
        params = self._params(params)
        draws = jax.vmap(lambda key: jax.random.uniform(key, (2, self.num_units)))(keys)
        return self._observed(self._spawn(jnp.moveaxis(draws, 0, -1), params), params)

    def batch_step(
        self,
        keys: jax.Array,
        state: State,
        action: jax.Array,
        params: Params | None = None,
        reset_to: tuple[jax.Array, State] | None = None,
    ) -> Step:
        params = self._params(params)
        split = jax.vmap(jax.random.split)(keys)
        draws = jax.vmap(lambda key: jax.random.uniform(key, (self._num_draws,)))(split[:, 0])
        stepped, *outcome, info = self._advance(draws.T, state, action, params)
        final_obs = self._observe(stepped, params)
        if reset_to is not None:
            return auto_reset((final_obs, stepped, *outcome, info), reset_to)
        spawn_draws = jax.vmap(lambda key: jax.random.uniform(key, (2, self.num_units)))(split[:, 1])
        fresh = self._spawn(jnp.moveaxis(spawn_draws, 0, -1), params)
        _, terminated, truncated = outcome
        # Choosing the state first leaves one observation to build, unless the caller uses the final one as well.
        obs, next_state = self._observed(select(terminated | truncated, fresh, stepped), params)
        return obs, next_state, *outcome, {**info, "final_observation": final_obs}

    # Pure functions of the state.

    def action_mask(self, state: State, params: Params | None = None) -> jax.Array:
        """bool `[A, 5 + E]`: the living may move, stop and attack living enemies in range; the dead only stop."""
        params = self._params(params)
        bodies, stats = self._bodies(state), self._stats(state, params)
        shootable, _ = observe.in_range(bodies, stats.range, self.num_allies)
        alive = state.alive[: self.num_allies, None]
        moves = jnp.broadcast_to(alive, (self.num_allies, 4))
        return jnp.concatenate([moves, jnp.ones_like(alive), shootable], axis=1)

    def agent_mask(self, state: State, params: Params | None = None) -> jax.Array:
        return state.alive[: self.num_allies]

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[12 N]`: see `observe.global_state`."""
        is_enemy = np.arange(self.num_units) >= self.num_allies
        return observe.global_state(self._scene(state, self._params(params)), is_enemy, state.unit_type)

    # The kernel. Leaves of `State` are batch first here, everything computed in between is units first.

    @property
    def _num_draws(self) -> int:
        return self.num_units + 2 * self.num_enemies  # a weapon's deviation each; whom an enemy chases and shoots

    def _spawn(self, uniform: jax.Array, params: Params) -> State:
        """A new battle from draws `[2, N, …]`."""
        types = jnp.asarray(self.scenario.unit_types, jnp.int32)
        types = jnp.broadcast_to(types, (*uniform.shape[2:], self.num_units))
        stats = self._stats_of_types(types, params)
        field = _field(params)
        bodies = spawn.new_bodies(*spawn.fixed_spawn(uniform, self.num_allies, field), stats)
        memory = scripted.new_memory(jax.tree.map(lambda v: v[self.num_allies :], bodies), field)
        nothing = jnp.zeros_like(bodies.x)
        step = jnp.zeros(uniform.shape[2:], jnp.int32)
        return self._pack(bodies, types, nothing, nothing, nothing.astype(jnp.int32), memory, step)

    def _advance(
        self, draws: jax.Array, state: State, action: jax.Array, params: Params
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """The battle one step on, from draws `[N + 2 E, …]`: `(state, reward, terminated, truncated, info)`."""
        num_allies, num_enemies = self.num_allies, self.num_enemies
        field = _field(params)
        before, stats = self._bodies(state), self._stats(state, params)
        enemy_action, memory = self._enemy_actions(draws[self.num_units :], before, stats, state)
        ally_action = _units_first(self.action_space().clip(action))
        raw = jnp.concatenate([ally_action, enemy_action])
        attack = jnp.where(raw >= _FIRST_ATTACK, raw, 0)
        aimed = raw - _FIRST_ATTACK
        orders = Orders(
            move_x=(raw == 1).astype(jnp.float32) - (raw == 3),
            move_y=(raw == 0).astype(jnp.float32) - (raw == 2),
            ally_target=jnp.maximum(aimed[:num_allies], -1),
            # An enemy numbers the allies in reverse, as if the order of all units were turned around.
            enemy_target=jnp.where(aimed[num_allies:] >= 0, num_allies - 1 - aimed[num_allies:], -1),
        )
        deviation = (3.0 * draws[: self.num_units] - 1.0) * field.dt
        deviation = jnp.broadcast_to(deviation, (_TICKS, *deviation.shape))
        after = run_ticks(before, orders, stats, field, deviation)

        dead = after.health <= 0
        lost, enemies_dead = dead[:num_allies].all(0), dead[num_allies:].all(0)
        won = enemies_dead & ~lost
        damage = ((before.health - after.health) / stats.health)[num_allies:].sum(0) / num_enemies
        reward = damage + jnp.where(won, params.won_battle_bonus, 0.0)
        reward = jnp.broadcast_to(reward[..., None], (*reward.shape, num_allies)).astype(jnp.float32)
        terminated = lost | enemies_dead
        step = state.step + 1
        truncated = (step >= params.max_steps) & ~terminated
        next_state = self._pack(after, state.unit_type, orders.move_x, orders.move_y, attack, memory, step)
        return next_state, reward, terminated, truncated, {"won": won}

    def _enemy_actions(
        self, draws: jax.Array, bodies: Bodies, stats: UnitStats, state: State
    ) -> tuple[jax.Array, scripted.Memory]:
        allies, enemies = slice(None, self.num_allies), slice(self.num_allies, None)
        move, target, memory = scripted.decide(
            jax.tree.map(_units_first, state.memory),
            jax.tree.map(lambda v: v[enemies], bodies),
            jax.tree.map(lambda v: v[allies], bodies),
            stats.range[enemies],
            stats.sight[enemies],
            draws.reshape(2, self.num_enemies, *draws.shape[1:]),
            shoots=self.enemy_shoots,
            attack_mode=self.attack_mode,
        )
        return jnp.where(target >= 0, _FIRST_ATTACK + self.num_allies - 1 - target, move), memory

    def _observed(self, state: State, params: Params) -> tuple[jax.Array, State]:
        return self._observe(state, params), state

    def _observe(self, state: State, params: Params) -> jax.Array:
        """What the allies see: `[…, A, D]`, batch first."""
        size = (params.map_width, params.map_height)
        seen = observe.unit_list(self._scene(state, params), self.num_allies, params.see_enemy_actions, size)
        return jnp.moveaxis(seen, (0, 1), (-2, -1))

    def _scene(self, state: State, params: Params) -> observe.Scene:
        attack_scale = np.where(np.arange(self.num_units) < self.num_allies, self.num_enemies, self.num_allies) + 4
        types = np.eye(len(UNIT_NAMES), dtype=np.float32)[list(self.scenario.unit_types)]
        batch = state.health.ndim - 1
        return observe.Scene(
            self._bodies(state),
            self._stats(state, params),
            types.reshape(*types.shape, *(1,) * batch),
            _units_first(state.move[..., 0]),
            _units_first(state.move[..., 1]),
            _units_first(state.attack) / attack_scale.reshape(-1, *(1,) * batch),
        )

    def _stats(self, state: State, params: Params) -> UnitStats:
        return self._stats_of_types(state.unit_type, params)

    def _stats_of_types(self, unit_type: jax.Array, params: Params) -> UnitStats:
        """Statistics `[N, 1 …]`: types are the same in every copy of a fixed scenario, so nothing is looked up."""
        stats = stats_of(params.units, np.asarray(self.scenario.unit_types))
        return jax.tree.map(lambda v: v.reshape(v.shape + (1,) * (unit_type.ndim - 1)), stats)

    def _bodies(self, state: State) -> Bodies:
        leaves = (state.position[..., 0], state.position[..., 1], state.health, state.cooldown)
        return Bodies(*map(_units_first, leaves))

    def _pack(
        self,
        bodies: Bodies,
        unit_type: jax.Array,
        move_x: jax.Array,
        move_y: jax.Array,
        attack: jax.Array,
        memory: scripted.Memory,
        step: jax.Array,
    ) -> State:
        x, y, health, cooldown, move_x, move_y, attack = map(_units_last, (*bodies, move_x, move_y, attack))
        return State(
            position=jnp.stack([x, y], axis=-1),
            health=health,
            cooldown=cooldown,
            unit_type=unit_type,
            move=jnp.stack([move_x, move_y], axis=-1),
            attack=attack,
            memory=jax.tree.map(_units_last, memory),
            step=step,
        )


def _field(params: Params) -> Field:
    return Field(params.map_width, params.map_height, params.time_per_step, params.walls_cause_death)


def _units_first(leaf: jax.Array) -> jax.Array:
    return jnp.moveaxis(leaf, -1, 0)


def _units_last(leaf: jax.Array) -> jax.Array:
    return jnp.moveaxis(leaf, 0, -1)
