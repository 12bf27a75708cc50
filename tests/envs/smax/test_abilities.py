"""Shields, armour, hits, splash, healing and flight, against results that were worked out by hand."""

import numpy as np
import pytest

from jaxrl.envs.smax import UnitType
from jaxrl.envs.smax.terrain import Zone
from tests.envs.smax.sandbox import DUMMY, RIFLE, STOP, UP, attack, battle, play, start

SIDE_BY_SIDE = ((10.0, 10.0), (13.0, 10.0))


def strikes_to_kill(shooter: UnitType, target: UnitType) -> int:
    """How many shots kill the target, one each step."""
    env = battle({"shooter": shooter, "target": target}, ["shooter"], ["target"], SIDE_BY_SIDE, max_steps=100)
    states, _ = play(env, start(env), [attack(0), STOP], 40)
    return int((np.asarray(states.health)[:, 1] > 0).sum()) + 1


@pytest.mark.parametrize(
    ("shooter", "target", "strikes"),
    [
        ({"damage": 6}, {"health": 45}, 8),
        ({"damage": 6}, {"health": 45, "armour": 1}, 9),  # 45 / 5
        ({"damage": 8, "hits": 2}, {"health": 100, "armour": 1}, 8),  # 100 / (2 (8 - 1)), rounded up
        ({"damage": 10, "hits": 2}, {"health": 100}, 5),
        ({"damage": 10, "bonus": (("target", 10.0),)}, {"health": 100}, 5),
        ({"damage": 10, "bonus": (("marine", 10.0),)}, {"health": 100}, 10),
        ({"damage": 16}, {"health": 100, "shield": 50}, 10),  # 150 / 16, rounded up
        ({"damage": 10}, {"health": 40, "shield": 30, "armour": 2}, 8),  # 3 on the shield, then 40 / 8
        ({"damage": 10}, {"health": 40, "shield": 5, "armour": 2}, 6),  # half of the first hit: 4, then 36 / 8
        ({"damage": 10}, {"health": 40, "armour": 10}, 41),  # never
    ],
)
def test_duels(shooter, target, strikes):
    assert strikes_to_kill(RIFLE._replace(**shooter), DUMMY._replace(**target)) == strikes


def test_a_shield_comes_back_after_a_while_and_health_does_not():
    kind = DUMMY._replace(shield=50, shield_delay=2, shield_regen=4)
    env = battle({"kind": kind}, ["kind"], ["kind"], SIDE_BY_SIDE)
    states, _ = play(env, start(env, shield=[10, 50], health=[70, 100]), [STOP, STOP], 8)
    # Nobody was hit: it counts from the start. Two seconds without change, then two per step of half a second.
    np.testing.assert_allclose(
        np.asarray(states.shield)[:, 0], [10, 10, 10, 10.25, 12.25, 14.25, 16.25, 18.25], atol=1e-4
    )
    np.testing.assert_array_equal(states.health[:, 0], np.full(8, 70))
    np.testing.assert_array_equal(np.asarray(states.shield)[:, 1], np.full(8, 50))  # never more than it can have


def test_regeneration_heals_the_living_up_to_their_maximum():
    kind = DUMMY._replace(regen=8)
    env = battle({"kind": kind}, ["kind", "kind"], ["kind"], (*SIDE_BY_SIDE, (20.0, 20.0)))
    states, _ = play(env, start(env, health=[90, 0, 100]), [STOP] * 3, 4)
    np.testing.assert_allclose(states.health, [[94, 0, 100], [98, 0, 100], [100, 0, 100], [100, 0, 100]], atol=1e-4)


BOMB = DUMMY._replace(damage=80, splash=1.0, splash_radius=2.2, splash_depth=2.2, suicide=True)


@pytest.mark.parametrize("near", [0, 1, 3, 5])
def test_a_suicide_kills_everybody_near_its_target(near):
    """A baneling: 80 to the target and to all opponents whose bodies are within 2.2, none to its mates, and it dies."""
    around = [(13 + 2.2 * np.cos(a), 10 + 2.2 * np.sin(a)) for a in np.linspace(0.5, 5.5, 5)]
    places = [(10.0, 10.0), (12.0, 11.0), (13.0, 10.0), *around[:near]]
    weak = DUMMY._replace(health=60)
    env = battle({"bomb": BOMB, "weak": weak}, ["bomb", "weak"], ["weak"] * (1 + near), places)
    states, _ = play(env, start(env), [attack(0), STOP, *[STOP] * (1 + near)])
    np.testing.assert_array_equal(states.health[0], [0, 60, *[0] * (1 + near)])


def test_splash_across_the_line_of_fire():
    """A colossus burns a strip: the neighbours of its target, not who stands before or behind it."""
    beam = RIFLE._replace(splash=0.5, splash_radius=1.4, splash_depth=0.15)
    places = [(10.0, 10.0), (13.0, 10.0), (13.0, 11.3), (13.0, 8.7), (13.0, 11.8), (14.0, 10.0), (12.0, 10.0)]
    env = battle({"beam": beam, "dummy": DUMMY}, ["beam"], ["dummy"] * 6, places)
    states, _ = play(env, start(env), [attack(0), *[STOP] * 6])
    np.testing.assert_allclose(states.health[0], [100, 90, 95, 95, 100, 100, 100])


MEDIVAC = UnitType(
    health=150, damage=0, range=4, cooldown=1, speed=3.5, radius=0.1, sight=9,
    heal=9.0, energy=200, energy_start=50, energy_cost=3, energy_regen=0.5625, flies=True,
)  # fmt: skip


def test_a_medivac_heals_nine_health_a_second_until_its_energy_is_gone():
    """50 energy at 3 a second, less what comes back, last 50 / (3 - 0.5625) = 20.5 seconds: 184.6 health."""
    patient = DUMMY._replace(health=1000)
    env = battle(
        {"medivac": MEDIVAC, "patient": patient}, ["medivac", "patient"], ["patient"], [*SIDE_BY_SIDE, (20, 20)]
    )
    heal = attack(1)  # after the one opponent: the first of the others
    states, _ = play(env, start(env, health=[150, 100, 1000]), [heal, STOP, STOP], 60)
    health = np.asarray(states.health)[:, 1]
    np.testing.assert_allclose(health[:41], 100 + 4.5 * np.arange(1, 42), atol=0.05)
    # From then on it lives on what comes back: 3 health for each energy.
    np.testing.assert_allclose(health[41:], 100 + 3 * (50 + 0.5625 * 0.5 * np.arange(42, 61)), atol=1.7)
    assert np.asarray(states.energy)[-1, 0] < 0.3


@pytest.mark.parametrize(
    ("change", "healed"),
    [
        ({}, True),
        ({"health": [150, 100, 100]}, False),
        ({"health": [150, 0, 100]}, False),
        ({"energy": [0, 0, 0]}, False),
    ],
)
def test_who_can_be_healed(change, healed):
    """The mask allows to heal mates that live, are hurt and near, while there is energy; healers cannot shoot."""
    tired = MEDIVAC._replace(energy_regen=0)
    env = battle({"medivac": tired, "dummy": DUMMY}, ["medivac", "dummy"], ["dummy"], [*SIDE_BY_SIDE, (12, 12)])
    state = start(env, **{"health": [150, 50, 100], **change})
    mask = np.asarray(env.action_mask(state))
    assert mask[0, attack(1)] == (healed or "energy" in change)
    assert not mask[0, attack(0)]
    assert not mask[1, attack(1)]  # a rifleman heals nobody
    states, _ = play(env, state, [attack(1), STOP, STOP])
    assert (states.health[0, 1] > state.health[1]) == healed


def test_damage_and_healing_hold_at_once():
    """10 damage and 4.5 healing in a step: the order of units does not matter, and nobody is healed above the most."""
    medic = MEDIVAC._replace(flies=False)
    for allies in (["medic", "dummy"], ["dummy", "medic"]):
        places = SIDE_BY_SIDE if allies[0] == "medic" else SIDE_BY_SIDE[::-1]
        env = battle({"medic": medic, "dummy": DUMMY, "rifle": RIFLE}, allies, ["rifle"], [*places, (15.0, 10.0)])
        own = allies.index("dummy")
        state = start(env, health=[150, 60, 100] if own else [60, 150, 100])
        actions = [attack(1), STOP] if own else [STOP, attack(1)]
        states, _ = play(env, state, [*actions, attack(own)])
        np.testing.assert_allclose(states.health[0, own], 60 - 10 + 4.5, atol=0.01)


def test_flight():
    """Flyers pass over walls and other units, and who cannot hit the air cannot shoot them."""
    bird = DUMMY._replace(flies=True)
    claws = RIFLE._replace(hits_air=False)
    wall = Zone("wall", 10, 12, 3, 0.5)
    places = [(10.0, 10.0), (8.0, 10.0), (10.0, 8.0)]
    env = battle({"bird": bird, "dummy": DUMMY, "claws": claws}, ["bird", "dummy"], ["claws"], places, [wall])
    states, _ = play(env, start(env), [UP, UP, STOP], 4)
    np.testing.assert_allclose(states.position[-1, 0], [10, 14], atol=1e-4)
    assert states.position[-1, 1, 1] < 11.5
    mask = np.asarray(env.action_mask(start(env)))
    assert not mask[2, attack(0)]
    assert mask[2, attack(1)]
    states, _ = play(env, start(env), [STOP, STOP, attack(0)], 3)
    assert (np.asarray(states.health)[:, 0] == 100).all()
