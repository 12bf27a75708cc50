"""SMAX: simplified multi-agent combat, the task family of JaxMARL, as one batched kernel."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment, Step
from jaxrl.envs.batching import batch_first, batch_last, map_batch, same_key, uniform_rows
from jaxrl.envs.options import flag
from jaxrl.envs.smax import battle, observe, terrain
from jaxrl.envs.smax import orders as orders_of
from jaxrl.envs.smax.battle import SPAWN_ROWS, Battle, outcome
from jaxrl.envs.smax.draw import draw
from jaxrl.envs.smax.dynamics import Orders
from jaxrl.envs.smax.orders import FIRST_ATTACK, Script, action_names
from jaxrl.envs.smax.scenario import scenario_of
from jaxrl.envs.smax.state import (
    EnemyPolicy,
    Options,
    Params,
    State,
    army,
    bodies_of,
    default_params,
    field_of,
    scripts_of,
)
from jaxrl.envs.smax.terrain import Zone
from jaxrl.envs.smax.units import Scenario, UnitType, all_types
from jaxrl.render.scene import Scene
from jaxrl.spaces import Box, Space

__all__ = ["SMAX", "EnemyPolicy", "Params", "State"]


class SMAX(MultiAgentEnvironment):
    """Two teams of units fight; each unit of the allies (in self-play: of both teams) is an agent.

    Args:
        scenario: A name such as `"3m"` or `"3s5z_vs_3s6z"`, or a `Scenario`; or give `allies` and `enemies` instead.
        allies: An army such as `"3s5z"` or `["marine", "zealot"]`.
        enemies: The opposing army (default: the same).
        unit_types: Unit types to add to the six, or to replace some of them: `{"tank": UnitType(health=150, …)}`.
        mode: `"enemy"`: allies against `enemy`. `"selfplay"`: both teams are agents `ally_0 …, enemy_0 …`; enemies
            see and act mirrored, so that one policy can play both sides.
        enemy: `"scripted"`, or a policy `(params.enemy, obs[E, D], action_mask[E, A], key) -> action[E]`, which
            sees and acts mirrored, as in self-play.
        enemy_params: The default of `params.enemy`, a pytree of arrays.
        enemy_shoots: False for a scripted enemy that only walks.
        attack_mode: How the scripted enemy chooses a target, `"closest"` or `"random"`.
        observation_type: `"unit_list"`, or `"conic"` (sorted by direction, of a size that fits any battle).
        action_type: `"discrete"`, or `"continuous"` (see `orders.continuous`).
        max_steps: Steps after which an undecided battle is truncated (default: the scenario's own, else 100).
        map_size: Side of the square map, or (width, height), in map units (default: the scenario's own, else 32).
        won_battle_bonus: Reward for a win.
        damage_reward: Reward for taking all of the opponents' health.
        damage_cost: What it costs a team to lose all of its own health.
        own_losses: In self-play, how much of the opponents' reward a team loses: with 1, the default, the two sum to
            zero, and with 0 nobody has anything to lose by fighting.
        see_enemy_actions: Whether the last actions of visible opponents are observed.
        walls_cause_death: Whether touching the border kills (default: the scenario's own, else True).
        spawn: `"sides"` or `"smacv2"`, see `Scenario` (default: the scenario's own).
        random_types: Whether every episode draws new unit types (default: the scenario's own).
        units: The table of unit types, see `UNIT_TABLES` (default: the scenario's own, else `"smax"`).
        script: Who plays the enemies: a name of `SCRIPTS` or `MIXTURES`, such as `"expert"` or `"mixed"`, a `Script`,
            or several, one of which is drawn in each episode (default: the scenario's own, else JaxMARL's script).
        zones: Walls, slow ground, cover and fire, each a `Zone`, instead of the scenario's own.
        compat: `"jaxmarl-0.2"` repeats everything that JaxMARL 0.2 does differently; docs/smax.md lists it.

    Raises:
        ValueError: An option is out of range; the message says what to give instead.
    """

    def __init__(
        self,
        scenario: str | Scenario | None = None,
        *,
        allies: str | Sequence[str] | None = None,
        enemies: str | Sequence[str] | None = None,
        unit_types: Mapping[str, UnitType | tuple[float, ...] | Mapping[str, float]] | None = None,
        mode: Literal["enemy", "selfplay"] = "enemy",
        enemy: Literal["scripted"] | EnemyPolicy = "scripted",
        enemy_params: Any = None,
        enemy_shoots: bool = True,
        attack_mode: Literal["closest", "random"] = "closest",
        observation_type: Literal["unit_list", "conic"] = "unit_list",
        action_type: Literal["discrete", "continuous"] = "discrete",
        max_steps: int | None = None,
        map_size: float | tuple[float, float] | None = None,
        won_battle_bonus: float = 1.0,
        damage_reward: float | None = None,
        damage_cost: float = 0.0,
        own_losses: float | None = None,
        see_enemy_actions: bool = True,
        walls_cause_death: bool | None = None,
        spawn: Literal["sides", "smacv2"] | None = None,
        random_types: bool | None = None,
        units: str | None = None,
        script: str | Script | Sequence[str | Script] | None = None,
        zones: Sequence[Zone] | None = None,
        compat: Literal["jaxmarl-0.2"] | None = None,
    ) -> None:
        known = scenario_of(scenario) if isinstance(scenario, str) else scenario
        named = known if isinstance(known, Scenario) else Scenario((), (), units=units or "smax")
        if units not in (None, named.units):
            raise ValueError(f"The scenario has the units of {named.units!r}; leave units={units!r} out.")
        all_types(unit_types, named.units)  # raises if they are none
        types = all_types(
            {**dict(named.own_types), **(unit_types or {})}, named.units
        )  # a scenario's keep their numbers
        known = army(known, allies, enemies, spawn, random_types, tuple(types))
        changed = {"zones": None if zones is None else tuple(zones), "map_size": map_size, "max_steps": max_steps}
        changed["deadly_border"] = None if walls_cause_death is None else flag("walls_cause_death", walls_cause_death)
        self.scenario = dataclasses.replace(known, **{name: v for name, v in changed.items() if v is not None})
        scripts = scripts_of(known.script if script is None and not callable(enemy) else script)
        ways = (mode, enemy, observation_type, action_type, attack_mode, enemy_shoots, compat)
        self.options = Options(*ways, scripted_by=scripts)
        self.options.check_enemy_params(enemy_params)
        self.unit_names = tuple(types)
        self.selfplay = self.options.mode == "selfplay"
        self.enemy_policy = enemy if callable(enemy) else None
        if damage_reward is None:  # JaxMARL's self-play rewards only the end
            damage_reward = 0.0 if self.selfplay and self.options.jaxmarl else 1.0
        rules = (won_battle_bonus, damage_reward, damage_cost, own_losses, see_enemy_actions)
        self._default_params = default_params(types, *rules, enemy_params, self.selfplay, self.scenario, scripts)
        heals = self._default_params.units.heal is not None
        self.battle = Battle(self.scenario, len(types), heals, self.options.jaxmarl)
        self.num_allies, self.num_enemies = self.battle.num_allies, self.battle.num_enemies
        self.num_units = self.battle.num_units
        self.options.check_rules(self._default_params)
        names = [f"ally_{i}" for i in range(self.num_allies)]
        self.agents = (*names, *(f"enemy_{i}" for i in range(self.num_enemies if self.selfplay else 0)))
        most = self.num_enemies if heals else max(self.num_allies, self.num_enemies)
        self.action_names = action_names(most, self.num_allies - 1 if heals else 0)

    def _params(self, params: Params | None) -> Params:
        return self._default_params if params is None else params

    @property
    def default_params(self) -> Params:
        return self._default_params

    @property
    def teams(self) -> tuple[int, ...]:
        return tuple(int(agent.startswith("enemy")) for agent in self.agents)

    @property
    def roles(self) -> tuple[int, ...]:
        """One role for all: enemies see and act mirrored, so a policy for the allies can play them as well."""
        return (0,) * self.num_agents

    def against_script(self, share: float | None = None) -> SMAX:
        """The allies against the scripted enemies; with a `share`, self-play in which these play so many battles."""
        other = copy.copy(self)
        other.made_as = ""  # no name makes it
        if share is not None:
            if not self.selfplay:
                raise ValueError('A script with a share of the battles needs mode="selfplay"; leave the share out.')
            other.options = dataclasses.replace(self.options, script_share=share)
            return other
        other.options, other.selfplay = dataclasses.replace(self.options, mode="enemy", script_share=0.0), False
        other.agents = self.agents[: self.num_allies]
        return other

    def observation_space(self, params: Any = None) -> Box:
        others = self.num_units - 1 if self.options.observation_type == "unit_list" else observe.NUM_SLOTS
        about_units = others * (observe.NUM_OTHER_BASE + self._kinds) + observe.NUM_OWN_BASE + self._kinds
        return Box(-1.0, 1.0, (about_units + self.num_zones * observe.NUM_ZONE,))

    @property
    def num_zones(self) -> int:
        """Z, the number of zones of the map."""
        zones = self._default_params.zones
        return 0 if zones is None else len(zones.kind)

    @property
    def _kinds(self) -> int:
        """How many numbers about a unit are its type, and what only some battles have."""
        return len(self.unit_names) + observe.num_extras(self._default_params.units)

    @property
    def entities(self) -> Entities | None:
        """Units; None where they are sorted by direction, or where not all agents see as many of a kind."""
        uneven = self.selfplay and self.num_allies != self.num_enemies
        if uneven or self.options.observation_type == "conic":
            return None
        first = FIRST_ATTACK if self.options.action_type == "discrete" else None
        teams = self.num_allies, self.num_enemies
        return observe.entities(*teams, self._kinds, first, self.num_zones, self.battle.heals)

    @property
    def state_entities(self) -> Entities:
        """All units of both teams."""
        return observe.state_entities(self.num_allies, self.num_enemies, self._kinds, self.num_zones)

    def action_space(self, params: Any = None) -> Space:
        targets = [self.battle.num_targets(team) for team in range(2 if self.selfplay else 1)]
        return self.options.action_space(max(targets))

    @property
    def agent_action_spaces(self) -> dict[str, Space]:
        pairs = zip(self.agents, self.teams, strict=True)
        return {agent: self.options.action_space(self.battle.num_targets(team)) for agent, team in pairs}

    # One environment uses the kernel without a batch axis; B of them have that axis last inside, first outside.

    def reset_env(self, key: jax.Array, params: Params) -> tuple[jax.Array, State]:
        state = self._spawn(key, params)
        return self._observe(state, params), state

    def step_env(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> Step:
        state, reward, terminated, truncated, info = self._advance(key, state, action, params)
        return self._observe(state, params), state, reward, terminated, truncated, info

    split_key = same_key  # steps and spawns draw different rows of a key

    def batch_reset(
        self, keys: jax.Array, params: Params | None = None, *, own_params: bool = False
    ) -> tuple[jax.Array, State]:
        return batch_first(SMAX.reset_env(self, keys, self._kernel_params(params, own_params)))  # not a subclass's

    def batch_step_env(
        self, keys: jax.Array, state: State, action: jax.Array, params: Params, *, own_params: bool = False
    ) -> Step:
        if own_params and self.enemy_policy is not None:  # the kernel knows one policy only
            return super().batch_step_env(keys, state, action, params, own_params=True)
        params = self._kernel_params(params, own_params)
        return batch_first(SMAX.step_env(self, keys, batch_last(state), batch_last(action), params))  # likewise

    def batch_step(
        self,
        keys: jax.Array,
        state: State,
        action: jax.Array,
        params: Params | None = None,
        reset_to: tuple[jax.Array, State] | None = None,
        *,
        own_params: bool = False,
    ) -> Step:
        if reset_to is not None or (own_params and self.enemy_policy is not None):
            return super().batch_step(keys, state, action, params, reset_to, own_params=own_params)
        params = self._kernel_params(params, own_params)
        step_keys, reset_keys = self.split_key(keys)
        stepped = self._advance(step_keys, batch_last(state), batch_last(action), params)
        final, reward, terminated, truncated, info = stepped
        # Choosing the state first leaves one observation to build, unless the caller also uses the final one.
        fresh, done = self._spawn(reset_keys, params), terminated | truncated
        state = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, final)
        info = {**info, "final_observation": self._observe(final, params), "final_state": final}
        return batch_first((self._observe(state, params), state, reward, terminated, truncated, info))

    def _kernel_params(self, params: Params | None, own_params: bool) -> Params:
        """The parameters in the kernel's layout: with `own_params`, leaves `[…, B]`."""
        return batch_last(self._params(params)) if own_params else self._params(params)

    def sub_states(self, key: jax.Array, state: State, action: jax.Array, params: Params | None = None) -> State:
        """The states after each tick of the step that `step_env` takes with the same arguments, leaves `[8, …]`.

        They make pictures smooth; the last one is `step_env`'s. Consumes `key`.
        """
        params = self._params(params)
        orders, memory, deviation = self._orders(key, state, action, params)
        stats = self.battle.stats(state.unit_type, params)
        ticks = self.battle.fight(bodies_of(state), state.unit_type, orders, stats, params, deviation, trace=True)
        fixed = (state.unit_type, orders, memory, state.step + 1, self.battle.heading(state, orders))
        return jax.vmap(lambda bodies: self.battle.pack(bodies, *fixed))(ticks)

    def draw(self, states: State, params: Params | None = None) -> Scene:
        return draw(self, states, params)

    # Pure functions of the state.

    def observation(self, state: State, params: Params | None = None) -> jax.Array:
        return self._observe(state, self._params(params))

    def batch_observation(self, state: State, params: Params | None = None, *, own_params: bool = False) -> jax.Array:
        return batch_first(self._observe(batch_last(state), self._kernel_params(params, own_params)))

    def action_mask(self, state: State, params: Params | None = None) -> jax.Array:
        """Bool `[N, A]`: living agents may move, stop and attack living opponents in range; dead ones may only stop."""
        params = self._params(params)
        if self.options.action_type == "continuous":
            raise TypeError("Continuous actions have no mask; make the environment with action_type='discrete'.")
        ally, enemy = battle.masks(self.battle, self.options, state, params)
        if not self.selfplay:
            return ally
        most = max(ally.shape[1], enemy.shape[1])
        return jnp.concatenate([jnp.pad(m, ((0, 0), (0, most - m.shape[1]))) for m in (ally, enemy)])

    def agent_mask(self, state: State, params: Params | None = None) -> jax.Array:
        return battle.acting(self.battle, state)[: self.num_agents]

    def global_state(self, state: State, params: Params | None = None) -> jax.Array:
        """float32 `[12 N]`: see `observe.global_state`."""
        is_enemy = np.arange(self.num_units) >= self.num_allies
        params = self._params(params)
        around = self.battle.surroundings(state, params)
        return observe.global_state(around, is_enemy, state.unit_type, params.zones)

    def mutate(self, key: jax.Array, state: State, params: Params | None = None) -> State:
        """The start with one unit up to three map units elsewhere; where `params` say who is there, theirs."""
        params = self._params(params)
        if self.scenario.variable:
            return self._spawn(key, params)
        key_unit, key_step = jax.random.split(key)
        is_unit = jnp.arange(self.num_units) == jax.random.randint(key_unit, (), 0, self.num_units)
        step = jax.random.uniform(key_step, (2,), minval=-3.0, maxval=3.0)
        most = jnp.stack([params.map_width, params.map_height]) - 1.0
        moved = jnp.clip(state.position + step, 1.0, most)
        if params.zones is not None:
            walled = terrain.in_wall(params.zones, moved[:, 0], moved[:, 1], 0.0)
            moved = jnp.where(walled[:, None], state.position, moved)
        return dataclasses.replace(state, position=jnp.where(is_unit[:, None], moved, state.position))

    # What happens in a step.

    def _spawn(self, key: jax.Array, params: Params) -> State:
        bodies, types = self.battle.spawn(key, params)
        memory, share = None, self.options.script_share
        if self._scripted or share:
            own = orders_of.new_memory(jax.tree.map(lambda v: v[self.num_allies :], bodies), field_of(params))
            if params.scripts is not None:
                drawn = uniform_rows(key, 1, SPAWN_ROWS - 2)[0] * params.scripts.random.shape[0]
                own = own._replace(script=jnp.floor(drawn).astype(jnp.int32))
            memory = orders_of.Sometimes(own, uniform_rows(key, 1, SPAWN_ROWS - 1)[0] < share) if share else own
        heading = self.battle.first_heading(types, params)
        return self.battle.pack(bodies, types, None, memory, jnp.zeros(key.shape, jnp.int32), heading)

    def _advance(
        self, key: jax.Array, state: State, action: jax.Array, params: Params, deviation: Any = None
    ) -> tuple[State, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
        """The battle one step later: `(state, reward, terminated, truncated, info)`, for keys `[…]`. Consumes `key`.

        `deviation[8, N, …]`, in seconds, replaces the random one, to compare battles exactly.
        """
        orders, memory, drawn = self._orders(key, state, action, params)
        before, stats = bodies_of(state), self.battle.stats(state.unit_type, params)
        after = self.battle.fight(
            before, state.unit_type, orders, stats, params, drawn if deviation is None else deviation
        )
        heading = self.battle.heading(state, orders)
        next_state = self.battle.pack(after, state.unit_type, orders, memory, state.step + 1, heading)
        there = state.unit_type >= 0 if self.scenario.variable else None
        return next_state, *outcome(self.battle, self.options, before, after, stats, next_state.step, params, there)

    def _orders(self, key: jax.Array, state: State, action: jax.Array, params: Params) -> tuple[Orders, Any, jax.Array]:
        """The orders of all units: `(orders, memory, deviation)`. Consumes `key`."""
        key_policy = None
        if self.enemy_policy is not None:
            pair = (jax.vmap(jax.random.split) if key.ndim else jax.random.split)(key)
            key, key_policy = pair[..., 0], pair[..., 1]
        draws = uniform_rows(key, 3 * self.num_units).reshape(3, self.num_units, *key.shape)
        action = self.action_space().clip(action)
        allies = battle.decode(self.battle, self.options, 0, action[: self.num_allies], state, draws[1:], params)
        theirs = action[self.num_allies :] if key_policy is None else self._policy_actions(key_policy, state, params)
        more = None
        if params.scripts is not None and state.memory is not None:
            rows = orders_of.NUM_SCRIPT_DRAWS
            more = uniform_rows(key, rows * self.num_units, 3 * self.num_units).reshape(rows, *draws.shape[1:])
        enemies, memory = battle.enemies(self.battle, self.options, state, theirs, draws[1:], params, more)
        return orders_of.join(allies, enemies), memory, self.battle.deviation(draws[0], params)

    def _policy_actions(self, key: jax.Array, state: State, params: Params) -> jax.Array:
        """The actions of the enemy policy, `[E, …]`, clipped like the agents' actions."""
        assert self.enemy_policy is not None
        obs = battle.observe_team(self.battle, self.options, 1, state, params)
        discrete = self.options.action_type == "discrete"
        mask = battle.masks(self.battle, self.options, state, params)[1] if discrete else None
        act = map_batch(lambda obs, mask, key: self.enemy_policy(params.enemy, obs, mask, key), key.ndim)  # pyright: ignore
        return self.options.action_space(self.battle.num_targets(1)).clip(act(obs, mask, key))

    def _observe(self, state: State, params: Params) -> jax.Array:
        """The agents' observations, `[N, D, …]`."""
        sides = range(2 if self.selfplay else 1)
        return jnp.concatenate([battle.observe_team(self.battle, self.options, side, state, params) for side in sides])

    @property
    def _scripted(self) -> bool:
        return not self.selfplay and self.enemy_policy is None
