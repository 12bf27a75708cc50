"""The options of a battle: armies, unit types and maps of one's own, and what is said of wrong ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import UnitType
from jaxrl.errors import UnknownNameError


def test_battles_of_your_own():
    env = jaxrl.make("smax", allies="3s5z", enemies="3s6z", map_size=24, max_steps=50, see_enemy_actions=False)
    assert env.num_agents == 8
    assert env.action_space().n == 14
    tank = UnitType(health=300, damage=30, range=7, cooldown=2.0, speed=1.5, radius=1.0, sight=12)
    env = jaxrl.make("smax", allies="2tank1m", enemies=["zealot"] * 4, unit_types={"tank": tank}, map_size=(40, 20))
    _, state = jax.jit(env.reset)(jax.random.key(0))
    np.testing.assert_allclose(state.health, [300, 300, 45, 150, 150, 150, 150])
    assert env.observation_space().shape == (6 * 14 + 11,)


def stand(params, obs, mask, key):
    """A policy that does nothing."""
    return jnp.full(obs.shape[0], 4, jnp.int32)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"scenario": "3marines"}, UnknownNameError, "3m"),
        ({"allies": "3q"}, ValueError, "3s5z"),
        ({"allies": "marines"}, ValueError, "3s5z"),
        ({"allies": 3}, ValueError, "3s5z"),
        ({"enemies": "3m"}, ValueError, "allies"),
        ({"scenario": "3m", "random_types": "no"}, ValueError, "random_types must be True or False, got 'no'"),
        ({"enemy_shoots": "off"}, ValueError, "enemy_shoots must be True or False"),
        ({"walls_cause_death": "off"}, ValueError, "walls_cause_death must be True or False"),
        ({"see_enemy_actions": "no"}, ValueError, "see_enemy_actions must be True or False"),
        ({"scenario": "3m", "allies": "3m"}, ValueError, "not both"),
        ({"mode": "solo"}, ValueError, "selfplay"),
        ({"max_steps": 0}, ValueError, "at least 1"),
        ({"max_steps": "soon"}, ValueError, "max_steps must be a whole number"),
        ({"damage_reward": "much"}, ValueError, "damage_reward must be a finite number"),
        ({"map_size": "big"}, ValueError, "map_size must be"),
        ({"map_size": 3}, ValueError, "at least 8"),
        ({"mode": "selfplay", "own_losses": -1.0}, ValueError, "from 0 on"),
        ({"own_losses": 0.5}, ValueError, 'for mode="selfplay"'),
        ({"compat": "jaxmarl"}, ValueError, "jaxmarl-0.2"),
        ({"enemy_params": 3.0}, ValueError, "enemy_params are those of a policy"),
        ({"mode": "selfplay", "enemy_params": 3.0}, ValueError, "enemy_params are those of a policy"),
        ({"enemy": stand, "enemy_shoots": False}, ValueError, "are for the scripted enemy; leave them out"),
        ({"enemy": stand, "attack_mode": "random"}, ValueError, "are for the scripted enemy; leave them out"),
        ({"unit_types": [("tank", 1)]}, ValueError, "unit_types is a dict of types by name"),
        ({"unit_types": {"tank": (1.0, 2.0)}}, ValueError, "seven numbers"),
        ({"unit_types": {"tank": (0.0, 1, 1, 1, 1, 1, 1)}}, ValueError, "health of the unit type 'tank' must be a p"),
        ({"unit_types": {"tank": ("much", 1, 1, 1, 1, 1, 1)}}, ValueError, "health of the unit type 'tank' must be a"),
        ({"unit_types": {"tank": (1, 1, 1, 1, 1, 1, 1e39)}}, ValueError, "sight of the unit type 'tank' must be a f"),
        ({"scenario": 3}, ValueError, 'scenario must be a name, such as "3m", or a Scenario, got 3'),
    ],
)
def test_bad_options_say_what_to_give(options, error, words):
    with pytest.raises(error, match=words):
        jaxrl.make("smax", **options)
