"""`check_env` finds nothing in any scenario and mode (against the script: tests/envs/test_registered.py)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.check import check_env
from jaxrl.envs.smax import SCENARIOS, UnitType, Zone


def keep_right(params, obs, mask, key):
    """A policy for the enemy, discrete."""
    return jnp.where(mask[:, 5:].any(-1), 5 + jnp.argmax(mask[:, 5:], -1), params["otherwise"])


def anything(params, obs, mask, key):
    """A policy for the enemy, continuous, and careless about bounds."""
    assert mask is None
    return 3 * jax.random.normal(key, (obs.shape[0], 4))


MODES = {
    "self-play of unequal teams": {"mode": "selfplay", "scenario": "5m_vs_6m"},
    "self-play, conic, continuous": {"mode": "selfplay", "observation_type": "conic", "action_type": "continuous"},
    "conic": {"observation_type": "conic", "attack_mode": "random"},
    "continuous": {"action_type": "continuous"},
    "policy": {"scenario": "5m_vs_6m", "enemy": keep_right, "enemy_params": {"otherwise": np.int32(1)}},
    "continuous policy": {"enemy": anything, "action_type": "continuous"},
    "compat": {"compat": "jaxmarl-0.2", "scenario": "smacv2_5_units"},
    "compat, conic, continuous": {
        "compat": "jaxmarl-0.2", "mode": "selfplay", "observation_type": "conic", "action_type": "continuous",
    },
    "an army of one's own": {"allies": "2zergling1m", "enemies": "2M", "map_size": (12, 20), "spawn": "smacv2"},
    "rules of one's own": {
        "see_enemy_actions": False, "walls_cause_death": False, "random_types": True, "max_steps": 7,
        "enemy_shoots": False,  # in longer battles, random actions beat an enemy who does not shoot
    },
    "everything at once": {
        "allies": ["tank", "medic", "bomb"], "enemies": ["marine", "tank", "medic"], "script": "mixed", "unit_types": {
            "tank": UnitType(
                50, 16, 5, 1, 3, 0.5, 9, shield=50, armour=1, hits=2, regen=0.4, bonus=(("marine", 5.0),),
                splash=0.5, splash_radius=1.4, splash_depth=0.2,
            ),
            "medic": UnitType(
                150, 0, 4, 1, 3.5, 0.75, 9, heal=9, energy=200, energy_start=50, energy_cost=3, energy_regen=0.5625,
                flies=True,
            ),
            "bomb": UnitType(30, 80, 1, 1, 3.5, 0.375, 8, splash=1, splash_radius=2.2, splash_depth=2.2, suicide=True),
        },
        "zones": [
            Zone("wall", 16, 16, 1, 3), Zone("burn", 12, 12, 2, 2, True), Zone("slow", 8, 8, 2, 2),
            Zone("cover", 20, 20, 2, 3),
        ],
    },
    "zones in self-play, conic": {
        "zones": [Zone("cover", 20, 20, 2, 3)], "mode": "selfplay", "observation_type": "conic",
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode):
    check_env(jaxrl.make("smax", **MODES[mode]))


def test_a_share_of_battles_against_scripted_healers():
    """Orders of the script and of actions are of one form, so that either can play."""
    env = jaxrl.make("smax?units=smac&allies=1medivac1marine", mode="selfplay").against_script(0.5)
    _, state = env.reset(jax.random.key(0))
    _, after, *_ = jax.jit(env.step)(jax.random.key(1), state, jnp.full(4, 4))
    assert jnp.isfinite(after.health).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_scenarios_in_selfplay(name):
    check_env(jaxrl.make(f"smax/{name}", mode="selfplay"))
