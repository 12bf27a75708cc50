"""What a battle does not have adds nothing to its program; what it has without effect changes no result."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import SCENARIOS, SMAX, Script, UnitType, Zone
from jaxrl.envs.smax.units import UNIT_TYPES

EQUATIONS = {
    "3m": 1333, "8m": 1858, "25m": 3064, "2s3z": 1543, "3s5z": 1858, "5m_vs_6m": 1596, "10m_vs_11m": 2121,
    "27m_vs_30m": 3334, "3s5z_vs_3s6z": 1911, "3s_vs_5z": 1428, "6h_vs_8z": 1743, "smacv2_5_units": 2419,
    "smacv2_10_units": 2944, "smacv2_20_units": 3535,
}  # fmt: skip
"""The equations in the program of a step with jax 0.10.2, counted before there were zones, scripts and abilities."""


def equations(env: SMAX) -> int:
    """How many equations the program of a step of four battles has."""

    def step(keys: jax.Array, state: Any, action: jax.Array, params: Any) -> Any:
        return env.batch_step(keys, state, action, params), jax.vmap(env.action_mask, (0, None))(state, params)

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 4))
    _, state = jax.eval_shape(env.batch_reset, keys)
    action = jax.ShapeDtypeStruct((4, env.num_agents), jnp.int32)
    return str(jax.make_jaxpr(step)(keys, state, action, env.default_params)).count(" = ")


@pytest.mark.skipif(jax.__version__ != "0.10.2", reason="other versions of jax write programs in other ways")
@pytest.mark.parametrize("name", list(SCENARIOS)[:14])
def test_old_battles_have_their_old_programs(name):
    assert equations(jaxrl.make(f"smax/{name}")) == EQUATIONS[name]


def test_a_program_grows_by_what_a_battle_has():
    """So the count above would notice."""
    assert equations(jaxrl.make("smax/3m", zones=[Zone("cover", 16, 16, 2, 2)])) > EQUATIONS["3m"]
    assert equations(jaxrl.make("smax/3m", script="expert")) > EQUATIONS["3m"]


NEUTRAL = {
    "armour and bonus": {"hits": 2.0, "damage": 4.5},
    "a shield of nothing": {"shield": 1e-9, "shield_regen": 0.0},
    "splash of nothing": {"splash": 1e-9, "splash_radius": 1.0, "splash_depth": 1.0},
    "regeneration of nothing": {"regen": 1e-9},
}


@pytest.mark.parametrize("case", [*NEUTRAL, "zones", "script"])
def test_what_has_no_effect_changes_nothing(case):
    """Forty steps of the same actions, with the rule switched on and off."""
    marine = UNIT_TYPES["marine"]
    options: dict[str, Any] = {"zones": [Zone("slow", 16, 16, 16, 16, False, 0.0), Zone("none", 8, 8, 8, 8)]}
    if case == "script":
        options = {"script": Script()}
    elif case != "zones":
        changed = UnitType(**{**marine._asdict(), **NEUTRAL[case]})
        options = {"unit_types": {"marine": changed}}
    seen = []
    for made in ({}, options):
        env = jaxrl.make("smax/3m", **made)
        # A billionth only switches a rule on.
        params = jax.tree.map(lambda leaf: np.where(leaf == np.float32(1e-9), 0, leaf), env.default_params)

        @jax.jit
        def run(key, env=env, params=params):
            def step(state, key):
                action = jax.random.randint(key, (3,), 0, 8)
                state, reward, *_ = env._advance(key, state, action, params)
                return state, (state.position, state.health, reward)

            return jax.lax.scan(step, env._spawn(key, params), jax.random.split(key, 40))[1]

        seen.append(run(jax.random.key(5)))
    for ours, theirs in zip(*seen, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_groups_are_none_where_nobody_has_them():
    bird = UNIT_TYPES["zergling"]._replace(flies=True)
    units = jaxrl.make("smax/3m", unit_types={"zergling": bird}).default_params.units
    assert units.flies is None
    units = jaxrl.make("smax", allies="1zergling", unit_types={"zergling": bird}).default_params.units
    assert units.flies is not None
    others = [field.name for field in dataclasses.fields(units) if field.default is None]
    assert {name for name in others if getattr(units, name) is not None} == {"flies", "hits_air", "hits_ground"}
