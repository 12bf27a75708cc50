"""Battles as text: what the lines and the drawing mean, that nothing is lost, and what is said of each mistake."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import SCENARIOS, Scenario, parse_army, parse_scenario, scenario_text
from jaxrl.envs.smax.scenario import NAMED, rectangles, scenario_of
from jaxrl.envs.smax.terrain import Zone
from jaxrl.envs.smax.units import UNIT_TABLES, table
from jaxrl.errors import UnknownNameError

DRAWN = """
    ; A comment.
    units: smac
    m: ally marine
    k: enemy zealot health 200 bonus_marine 3
    max_steps: 200
    script: medium
    slow: 0.25

    ......##..
    .m....##.k
    .m.~~...^.
    .."~~..=..
    ..........
    """


def test_a_drawing_is_a_battle():
    battle = parse_scenario(DRAWN)
    assert battle.units == "smac"
    assert (battle.map_size, battle.max_steps, battle.script) == ((20.0, 10.0), 200, "medium")
    [(name, zealot)] = battle.own_types
    true = UNIT_TABLES["smac"]["zealot"]
    assert name == "zealot_k"
    assert zealot == true._replace(health=200.0, bonus=(("marine", 3.0),))
    names = (*UNIT_TABLES["smac"], "zealot_k")
    assert [names[kind] for kind in battle.unit_types] == ["marine", "marine", "zealot_k"]
    assert battle.places == ((3.0, 7.0), (3.0, 5.0), (19.0, 7.0))  # in the middle of cells of 2 x 2, from the top
    assert battle.zones == (
        Zone("wall", 14.0, 8.0, 2.0, 2.0),
        Zone("wall", 15.0, 3.0, 1.0, 1.0, effect=0.0),  # who stands behind it can be shot
        Zone("slow", 8.0, 4.0, 2.0, 2.0, effect=0.25),
        Zone("cover", 5.0, 3.0, 1.0, 1.0),
        Zone("burn", 17.0, 5.0, 1.0, 1.0),
    )


@pytest.mark.parametrize("army", ["2s 3z", "2s3z", "s 1stalker 3zealot", "stalker s 3z"])
def test_armies_without_places_begin_by_the_spawn(army):
    battle = parse_scenario(f"allies: {army}|enemies: z")
    assert battle == Scenario(parse_army("2s3z"), parse_army("1z"))


def test_letters_are_those_of_the_table():
    names = tuple(UNIT_TABLES["tabx"])
    assert [names[kind] for kind in parse_army("2F1M", names)] == ["farmer", "farmer", "mammoth"]
    smac = tuple(UNIT_TABLES["smac"])
    assert [smac[kind] for kind in parse_army("1M1c1sc1zg", smac)] == [
        *("marauder", "colossus", "spine_crawler", "zergling"),
    ]
    with pytest.raises(ValueError, match=r"such as 2F1K \(F farmer, S assassin"):
        parse_army("3s", names)


def test_several_units_stand_in_a_square():
    battle = parse_scenario("place: ally 4marine 10 12|place: enemy zealot 20 12")
    offset = 0.425  # half of two radii and a gap
    corners = [(10 + x, 12 + y) for x in (-offset, offset) for y in (-offset, offset)]
    np.testing.assert_allclose(sorted(battle.places[:4]), corners)


@pytest.mark.parametrize("name", [*SCENARIOS, *NAMED])
def test_a_text_gives_the_same_battle(name):
    battle = scenario_of(name)
    text = scenario_text(battle)
    assert parse_scenario(text) == battle
    assert parse_scenario(text.replace("\n", "|")) == battle
    assert scenario_of(text) == battle


def test_a_text_gives_the_same_battle_of_everything_that_there_is():
    strider = UNIT_TABLES["smac"]["colossus"]._replace(flies=True, bonus=(("marine", 5.0), ("zealot", 1 / 3)))
    battle = Scenario(
        *((10, 10), (0,)),
        units="smac",
        own_types=(("strider", strider), ("marine", strider._replace(hits_air=True))),
        places=((1 / 3, 4.0), (5.5, 6.0), (7.0, 8.0)),
        jitter=0.1,
        variable=True,
        zones=(Zone("none", 1, 2, 3, 4), Zone("slow", 30, 20, 10, 5, True, 0.6)),
        map_size=(40.0, 30.0),
        max_steps=7,
        script="held_out",
    )
    assert parse_scenario(scenario_text(battle)) == battle


@pytest.mark.parametrize("seed", range(20))
def test_rectangles_cover_the_drawn_cells_once(seed):
    rng = np.random.default_rng(seed)
    cells = rng.random((rng.integers(1, 9), rng.integers(1, 9))) < rng.random()
    count = np.zeros(cells.shape, int)
    for top, left, height, width in rectangles(cells):
        for y in range(top, top + height):
            for x in range(left, left + width):
                count[y, x] += 1
    np.testing.assert_array_equal(count, cells)


def test_a_frame_is_four_rectangles():
    frame = np.ones((6, 9), bool)
    frame[1:-1, 1:-1] = False
    assert len(rectangles(frame)) == 4


FIGHT = "allies: 3m\nenemies: 3m\n"
MAP = "m: ally marine\nz: enemy zealot\n\n"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (FIGHT + "max_step: 9", (3, 1), "There is no 'max_step' here. Did you mean max_steps"),
        (FIGHT + "max_steps 9", (3, 1), "A line is `key: value`; a drawing begins after an empty line"),
        (FIGHT + "max_steps:", (3, 11), "'max_steps' needs a value after the colon"),
        (FIGHT + "max_steps: soon", (3, 12), "'soon' is not a number"),
        (FIGHT + "max_steps: 1.5", (3, 12), "max_steps must be a whole number"),
        (FIGHT + "allies: 3z", (3, 1), "'allies' stands in line 1 already"),
        (FIGHT + "units: tabs", (3, 8), "units must be 'smax' or 'smac' or 'tabx', got 'tabs'"),
        (FIGHT + "script: clever", (3, 9), "script must be 'classic' or"),
        (FIGHT + "spawn: here", (3, 8), "spawn must be 'sides' or 'smacv2'"),
        (FIGHT + "random_types: perhaps", (3, 15), "random_types must be 'yes' or 'no'"),
        (FIGHT + "size: 4", (3, 7), "at least 8 wide and high, not 4 x 4"),
        (FIGHT + "cell: 4", (3, 7), "Leave 'cell' out: there is no drawing"),
        (FIGHT + "zone: swamp 1 2 3 4", (3, 7), "the kind of a zone must be 'none' or 'wall'"),
        (FIGHT + "zone: slow 1 2", (3, 7), "write it like `zone: slow 30 20 10 5 0.6 round`"),
        (FIGHT + "zone: slow 1 2 3 4 5 6", (3, 7), "its middle, half its width and height"),
        (FIGHT + "zone: slow 1 2 3 4 5", (3, 7), "The effect of a zone slow is a number from 0 on, up to 1"),
        (FIGHT + "zone: slow 1 2 3 four", (3, 18), "'four' is not a number"),
        (FIGHT + "type: tank marin health 3", (3, 12), "There is no unit type 'marin'. Did you mean marine"),
        (FIGHT + "type: tank marine heath 3", (3, 19), "Units have no 'heath'. Did you mean health"),
        (FIGHT + "type: tank marine health", (3, 19), "'health' needs a value"),
        (FIGHT + "type: tank marine health 0", (3, 7), "health of the unit type 'tank' must be a positive number"),
        (FIGHT + "type: tank marine flies 1", (3, 25), "flies must be 'yes' or 'no'"),
        (FIGHT + "type: tank marine bonus_me 1", (3, 7), "bonus of the unit type 'tank' is on 'me'"),
        (FIGHT + "place: ally marine 3 4", (1, 9), "The units have places, so leave 'allies' out"),
        ("allies: 3m", (1, 11), "There are no enemies; add `enemies: 2s 3z`"),
        ("allies: 3q\nenemies: 3m", (1, 9), "There is no unit type 'q'; an army is written such as 3s5z"),
        ("m: friend marine\n", (1, 4), "The team must be 'ally' or 'enemy', got 'friend'"),
        ("m: ally", (1, 4), "Something is missing; write it like `m: ally marine`"),
        ("place: ally marine 10", (1, 8), "write it like `place: ally marine 10 12`"),
        ("place: ally marine 40 2\nplace: enemy marine 4 4", (1, 13), "40 2 is outside of the map, which is 32 x 32"),
        ("jitter: 2\nplace: ally marine 1 9\nplace: enemy marine 4 4", (2, 13), "1 9 is outside of the map"),
        (MAP + "....\n.mx.\n....\n..z.", (5, 3), "No unit is called 'x'; add a line such as `x: enemy zealot`, or use"),
        (MAP + "....\n.m!.\n....\n..z.", (5, 3), "No unit is called '!'; use one of m z . # = ~ \" ^"),
        (MAP + "....\n.m.\n....\n..z.", (5, 4), "This row is 3 long and the first one 4; fill it up with dots"),
        (MAP + "....\n.m...\n....\n..z.", (5, 5), "This row is 5 long and the first one 4"),
        (MAP + "...\n.m.\n..z", (4, 1), "A map is at least 8 wide and high, not 6 x 6"),
        ("slow: 2\n" + MAP + "....\n.m..\n....\n..z.", (1, 7), "The effect of a zone slow is a number"),
        ("size: 9\n" + MAP + "....\n.m..\n....\n..z.", (1, 7), "Leave 'size' out: there is a drawing"),
        ("cell: 0.9\n" + MAP.replace("marine", "stalker") + ".#m......\n" + 8 * "....z....\n", (5, 3), "in a wall"),
        ("zone: wall 3 5 1 1\n" + MAP + "....\n.m..\n....\n..z.", (6, 2), "radius 0.375, would stand in a wall"),
        ("units: tabx\nM: ally mammoth\nF: enemy farmer\n\n....\n.M#.\n....\n..F.", (6, 2), "larger cells, such as"),
    ],
)
def test_mistakes_are_said_where_they_are(text, where, what):
    with pytest.raises(ValueError, match=re.escape(f"Line {where[0]}, column {where[1]}: ") + ".*" + re.escape(what)):
        parse_scenario(text)


def test_a_name_that_is_no_text_is_looked_up():
    with pytest.raises(UnknownNameError, match=r"no scenario 'coridor'\. Did you mean corridor"):
        scenario_of("coridor")


def test_no_unit_of_a_table_is_out_of_reach_of_another():
    """Bodies that touch are within the range of everybody who can hit them."""
    for units in ("smac", "tabx"):
        types = UNIT_TABLES[units]
        table(types)  # checks all numbers
        for name, unit in types.items():
            walking = [other.radius for other in types.values() if not other.flies]
            assert unit.flies or unit.range > unit.radius + max(walking), name


def test_numbers_of_the_tables():
    """Shots to kill, by hand: 13 + 5 less 1 of armour on a marauder; 25 on a shield; two hits of a zealot."""
    smac, tabx = UNIT_TABLES["smac"], UNIT_TABLES["tabx"]
    assert dict(smac["stalker"].bonus)["marauder"] + smac["stalker"].damage - smac["marauder"].armour == 17
    assert (smac["zealot"].hits, smac["zealot"].damage, smac["zealot"].shield) == (2, 8, 50)
    assert smac["marine"].range == 5 + 0.375 + 0.7
    assert {name: unit.price for name, unit in tabx.items() if unit.heal} == {"healer": 190, "paladin": 230}
    assert tabx["farmer"].range == pytest.approx(2.5 + 1 + 0.7071)


SMALL = ("mmm", "superking", "2s_vs_1sc", "cross")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow) for name in NAMED]
)
def test_named_battles_can_be_fought(name):
    env = jaxrl.make(f"smax/{name}")
    battle = scenario_of(name)

    @jax.jit
    def fight(key):
        (obs, state), reward = env.reset(key), 0.0
        keys = jax.random.split(key, 5)
        for each in keys:
            mask = env.action_mask(state)
            action = jnp.argmax(mask * jax.random.uniform(each, mask.shape), axis=1)
            obs, state, reward, *_ = env.step_env(each, state, action, env.default_params)
        return obs, state, reward

    with jax.debug_key_reuse(False):
        obs, state, reward = fight(jax.random.key(0))
    for leaf in jax.tree.leaves((obs, state.position, state.health, reward)):
        assert np.isfinite(leaf).all()
    assert state.alive.sum() > 0
    assert len(state.health) == len(battle.unit_types)


def test_names_of_other_libraries():
    assert jaxrl.make("MMM2").name == "smax/mmm2"
    assert jaxrl.make("corridor").scenario == scenario_of("corridor")


def test_types_of_a_battle_keep_their_numbers_beside_ones_of_the_caller():
    tank = UNIT_TABLES["tabx"]["mammoth"]
    env = jaxrl.make("smax/encirclement", unit_types={"tank": tank})
    assert env.unit_names[env.scenario.enemies[0]] == "cannon_weak"
    assert env.default_params.units.damage[env.scenario.enemies[0]] == 39
    assert env.unit_names[-1] == "tank"
