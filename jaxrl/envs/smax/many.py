"""Many battles as one program: random ones of equal price, and named ones of different sizes, one in each episode."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.options import whole
from jaxrl.envs.smax import terrain
from jaxrl.envs.smax.env import SMAX
from jaxrl.envs.smax.scenario import scenario_of
from jaxrl.envs.smax.state import Params
from jaxrl.envs.smax.terrain import BURN, SLOW, WALL, Zone, Zones
from jaxrl.envs.smax.units import Scenario, all_types, table
from jaxrl.wrappers.params import RandomParams

__all__ = ["mix", "random_battles"]

_ARMIES, _DEAREST = 48, 8  # random armies, and those of them from which the allies are chosen
_SPOTS = 16  # random places, of which a unit takes the first that is in no wall
_NOTHING = Zone("none", 1.0, 1.0, 1.0, 1.0)


def random_battles(
    budget: float | None = None,
    *,
    units: str = "smax",
    max_units: int = 8,
    num_zones: int = 4,
    script: str | None = None,
    map_size: float = 32.0,
    max_steps: int = 100,
    mode: str = "enemy",
) -> RandomParams:
    """Battles that are drawn anew in every episode: armies of about equal price, their places, and zones.

    Left and right mirror each other in distribution, and zones do so exactly. Armies have no flyers, and no healer
    alone. `mutate` exchanges, moves or resizes one thing.

    Args:
        budget: What an army may cost, as in `UnitType.price` (default: five average units).
        units: The table of unit types; they need prices.
        max_units: Places in each team; what is not used of them is free.
        num_zones: Zones of the map, an even number; a fifth of them is nothing.
        script: Who plays the enemies, see `SMAX`.
        map_size: Side of the map, in map units.
        max_steps: Steps after which a battle is truncated.
        mode: `"enemy"` or `"selfplay"`, see `SMAX`.

    Raises:
        ValueError: An option is out of range, or an army of this price has no unit.
    """
    whole("max_units", max_units)
    if whole("num_zones", num_zones, 0) % 2:
        raise ValueError(f"num_zones must be even, since zones mirror each other; got {num_zones}.")
    count, half = 2 * max_units, map_size / 2
    places = tuple((half / 2 if unit < max_units else 3 * half / 2, half) for unit in range(count))
    scenario = Scenario(
        (0,) * max_units, (0,) * max_units, units=units, places=places, variable=True, zones=(_NOTHING,) * num_zones
    )
    env = SMAX(scenario, mode=mode, script=script, map_size=map_size, max_steps=max_steps)  # pyright: ignore
    env.name = "smax/random"  # of its pictures
    shop = _Shop.of(units, budget)

    def draw(key: jax.Array, params: Params, progress: jax.Array) -> Params:
        del progress
        key_types, key_zones, key_places = jax.random.split(key, 3)
        zones = None if params.zones is None else _zones(key_zones, params, num_zones // 2)
        types = shop.two_armies(key_types, max_units)
        x, y = _spots(key_places, zones, params, max_units)
        assert params.lineup is not None
        lineup = dataclasses.replace(params.lineup, unit_type=types, x=x, y=y)
        return dataclasses.replace(params, lineup=lineup, zones=zones)

    def edit(key: jax.Array, own: Params) -> Params:
        return _edited(key, own, shop)

    return RandomParams(env, draw, edit)


def mix(
    battles: str = "3m,2s3z,3s5z", *, play: str | None = None, room: str | None = None, script: str | None = None
) -> RandomParams:
    """One of several named battles in each episode, as one program for a policy of all of them.

    Args:
        battles: Names or files of battles, separated by commas, such as `"3m,8m,2s3z"`. They share a table of units.
        play: The only one to play, such as one that is held out; observations fit those of the others (default: all).
        room: Places of the allies and of the enemies, such as `"10v11"` (default: of the largest battle).
        script: Who plays the enemies, see `SMAX`.

    Raises:
        ValueError: A battle does not fit the others, or the room.
    """
    names = [name.strip() for name in str(battles).split(",")]
    played = names if play is None else [str(play)]
    scenarios = {name: scenario_of(name) for name in dict.fromkeys([*names, *played])}
    for name, scenario in scenarios.items():
        if scenario.random_types or scenario.own_types:
            raise ValueError(f"The battle {name} has random types, or types of its own, and mixes with no others.")
        if scenario.units != scenarios[names[0]].units:
            raise ValueError(f"The battles {names[0]} and {name} have units of different tables, so they do not mix.")
        if script is None and scenario.script != scenarios[names[0]].script:
            raise ValueError(f"The battles {names[0]} and {name} have different scripts; give one, script=mixed.")
    largest = [max(len(_teams(scenario)[side]) for scenario in scenarios.values()) for side in range(2)]
    if room is not None:
        wanted = [int(side) if side.isdigit() else 0 for side in str(room).split("v")]
        if len(wanted) != 2 or any(size < least for size, least in zip(wanted, largest, strict=True)):
            raise ValueError(f'room must be at least "{largest[0]}v{largest[1]}" for these battles, got {room!r}.')
        largest = wanted
    num_zones = max(len(scenario.zones) for scenario in scenarios.values())
    padded = [_padded(scenarios[name], largest[0], largest[1], num_zones) for name in played]
    envs = [SMAX(scenario, script=script) for scenario in padded]
    worlds = jax.tree.map(lambda *leaves: np.stack(leaves), *[env.default_params for env in envs])
    envs[0].name = "smax/mix"
    return RandomParams(envs[0], worlds)


def _teams(scenario: Scenario) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return scenario.allies, scenario.enemies


def _padded(scenario: Scenario, num_allies: int, num_enemies: int, num_zones: int) -> Scenario:
    """The battle with room for so many units and zones, as a variable one."""
    width, height = np.broadcast_to(scenario.map_size, (2,)).tolist()
    places, jitter = scenario.places, scenario.jitter
    if not places:
        if scenario.spawn != "sides":
            raise ValueError("Only battles with places, or whose teams begin on their sides, can be mixed.")
        sides = [(width * share, height / 2) for share in (0.25, 0.75)]
        places = (*[sides[0]] * len(scenario.allies), *[sides[1]] * len(scenario.enemies))
        jitter = min(2.0, width / 8, height / 8)
    split, free = len(scenario.allies), (width / 2, height / 2)
    rooms = (num_allies - split, num_enemies - len(scenario.enemies))
    return dataclasses.replace(
        scenario,
        allies=scenario.allies + (-1,) * rooms[0],
        enemies=scenario.enemies + (-1,) * rooms[1],
        places=(*places[:split], *[free] * rooms[0], *places[split:], *[free] * rooms[1]),
        jitter=jitter,
        variable=True,
        zones=(*scenario.zones, *[_NOTHING] * (num_zones - len(scenario.zones))),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Shop:
    """The types from which armies are bought, arrays `[K]`."""

    price: np.ndarray
    sold: np.ndarray
    fights: np.ndarray
    budget: float

    @classmethod
    def of(cls, units: str, budget: float | None) -> _Shop:
        types = all_types(None, units)
        price = np.asarray([unit.price for unit in types.values()], np.float32)
        stats, _ = table(types)
        sold = (price > 0) & ~np.asarray([unit.flies or not unit.speed for unit in types.values()])
        if not sold.any():
            raise ValueError(f"The units of {units!r} have no prices.")
        budget = 5 * float(price[sold].mean()) if budget is None else budget
        if not budget >= price[sold].min():
            raise ValueError(
                f"With a budget of {budget}, an army has no unit; the cheapest costs {price[sold].min():g}."
            )
        return cls(price, sold, np.asarray(stats.damage) > 0, float(budget))

    def two_armies(self, key: jax.Array, places: int) -> jax.Array:
        """Two random armies of about the same price: int32 `[2 places]`, -1 where nobody is. Consumes `key`.

        An army is random units until the next one would be too dear; the first is a fighter. Of many armies, the allies
        are the dearest of a few, so that they spend their budget, and the enemies the nearest to them in price.
        """
        draws = uniform_rows(key, _ARMIES * places).reshape(_ARMIES, places)
        kinds, fighters = np.flatnonzero(self.sold), np.flatnonzero(self.sold & self.fights)
        types = jnp.asarray(kinds)[jnp.floor(draws * len(kinds)).astype(jnp.int32)]
        types = types.at[:, 0].set(jnp.asarray(fighters)[jnp.floor(draws[:, 0] * len(fighters)).astype(jnp.int32)])
        spent = jnp.cumsum(jnp.asarray(self.price)[types], axis=1)
        armies = jnp.where(spent <= self.budget, types, -1).astype(jnp.int32)
        price = jnp.where(spent <= self.budget, spent, 0.0).max(1)
        first = jnp.argmax(price[:_DEAREST])
        second = _DEAREST + jnp.argmin(jnp.abs(price[_DEAREST:] - price[first]))
        return jnp.concatenate([armies[first], armies[second]])


def _zones(key: jax.Array, params: Params, pairs: int) -> Zones:
    """Random zones and their mirror images."""
    keys = jax.random.split(key, 6)
    low, high = 1.0, params.map_width / 8
    kind = jax.random.randint(keys[0], (pairs,), 0, len(terrain.KINDS))
    x, y = (jax.random.uniform(keys[i], (pairs,), minval=2.0, maxval=size - 2.0) for i, size in _sides(params))
    width, height = jax.random.uniform(keys[3], (2, pairs), minval=low, maxval=high)
    round_ = jax.random.bernoulli(keys[4], 0.5, (pairs,))
    effect = _effect(kind, jax.random.uniform(keys[5], (pairs,)))
    one = Zones(kind, x, y, width, height, round_, effect)
    other = dataclasses.replace(one, x=params.map_width - x)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), one, other)


def _sides(params: Params) -> tuple[tuple[int, jax.Array], tuple[int, jax.Array]]:
    return (1, params.map_width), (2, params.map_height)


def _effect(kind: jax.Array, uniform: jax.Array) -> jax.Array:
    """The effect of zones of some kinds, from draws in [0, 1)."""
    slow, burn = 0.2 + 0.6 * uniform, 2.0 + 8.0 * uniform
    wall = (uniform < 0.5).astype(jnp.float32)
    return jnp.where(kind == WALL, wall, jnp.where(kind == SLOW, slow, jnp.where(kind == BURN, burn, 0.0)))


def _spots(key: jax.Array, zones: Zones | None, params: Params, places: int) -> tuple[jax.Array, jax.Array]:
    """Where two teams begin, each within the outer third of its half: `(x, y)`, `[2 places]` each, in no wall."""
    draws = jax.random.uniform(key, (2, _SPOTS, 2 * places))
    x = 2.0 + draws[0] * (params.map_width / 3 - 2.0)
    x = jnp.where(np.arange(2 * places) < places, x, params.map_width - x)
    y = 2.0 + draws[1] * (params.map_height - 4.0)
    if zones is None:
        return x[0], y[0]
    free = ~jax.vmap(lambda x, y: terrain.in_wall(zones, x, y, 1.0))(x, y)
    first = jnp.argmax(free, axis=0)
    return tuple(jnp.take_along_axis(place, first[None], axis=0)[0] for place in (x, y))  # pyright: ignore


def _edited(key: jax.Array, own: Params, shop: _Shop) -> Params:
    """One small edit of a battle: another unit of about the same price, another place, or another zone."""
    keys = jax.random.split(key, 5)
    lineup, zones = own.lineup, own.zones
    assert lineup is not None
    what = jax.random.randint(keys[0], (), 0, 2 if zones is None else 4)
    there = lineup.unit_type >= 0
    unit = jax.random.categorical(keys[1], jnp.where(there, 0.0, -jnp.inf))
    is_unit = np.arange(len(there)) == unit
    # Another type, as long as its price is within a tenth of the budget from the old one.
    price = jnp.asarray(shop.price)
    near = shop.sold & shop.fights & (jnp.abs(price - price[lineup.unit_type[unit]]) <= 0.1 * shop.budget)
    kind = jax.random.categorical(keys[2], jnp.where(near, 0.0, -1e9)).astype(jnp.int32)
    fights = jnp.asarray(shop.fights)[lineup.unit_type[unit]]
    types = jnp.where(is_unit & (what == 0) & near.any() & fights, kind, lineup.unit_type)
    # Another place, at most three map units away.
    step = jax.random.uniform(keys[3], (2,), minval=-3.0, maxval=3.0)
    moves = is_unit & (what == 1)
    x = jnp.where(moves, jnp.clip(lineup.x + step[0], 1.0, own.map_width - 1.0), lineup.x)
    y = jnp.where(moves, jnp.clip(lineup.y + step[1], 1.0, own.map_height - 1.0), lineup.y)
    if zones is not None:
        zones = _edited_zones(keys[4], zones, own, what)
        walled = terrain.in_wall(zones, x, y, jnp.float32(0.0)) & there
        zones = jax.tree.map(lambda new, old: jnp.where(walled.any(), old, new), zones, own.zones)
        blocked = terrain.in_wall(zones, x, y, jnp.float32(0.0))
        x, y = jnp.where(blocked, lineup.x, x), jnp.where(blocked, lineup.y, y)
    lineup = dataclasses.replace(lineup, unit_type=types, x=x, y=y)
    return dataclasses.replace(own, lineup=lineup, zones=zones)


def _edited_zones(key: jax.Array, zones: Zones, own: Params, what: jax.Array) -> Zones:
    """One pair of zones of another kind (2), or moved and resized (3)."""
    keys = jax.random.split(key, 4)
    pairs = len(zones.kind) // 2
    number = jax.random.randint(keys[0], (), 0, pairs)
    chosen = np.arange(2 * pairs) % pairs == number
    kind = jax.random.randint(keys[1], (), 0, len(terrain.KINDS))
    effect = _effect(kind, jax.random.uniform(keys[2]))
    step = jax.random.uniform(keys[3], (4,), minval=-2.0, maxval=2.0)
    right = np.where(np.arange(2 * pairs) < pairs, 1.0, -1.0)  # mirror images move the other way
    other, moves = chosen & (what == 2), chosen & (what == 3)
    most = own.map_width / 8
    return Zones(
        kind=jnp.where(other, kind, zones.kind),
        x=jnp.where(moves, jnp.clip(zones.x + right * step[0], 2.0, own.map_width - 2.0), zones.x),
        y=jnp.where(moves, jnp.clip(zones.y + step[1], 2.0, own.map_height - 2.0), zones.y),
        half_width=jnp.where(moves, jnp.clip(zones.half_width + step[2] / 2, 1.0, most), zones.half_width),
        half_height=jnp.where(moves, jnp.clip(zones.half_height + step[3] / 2, 1.0, most), zones.half_height),
        round=zones.round,
        effect=jnp.where(other, effect, zones.effect),
    )
