"""A map that is drawn key by key."""

import io
import re

import pytest

import jaxrl
from jaxrl.envs.smax import NAMED, SCENARIOS, UNIT_NAMES, parse_scenario
from jaxrl.envs.smax.scenario import scenario_of
from jaxrl.envs.smax.units import UNIT_TABLES
from jaxrl.play import Editor
from jaxrl.play.input import from_lines
from jaxrl.play.screen import sketched
from jaxrl.registry import list_envs, parse_options

ROOM = "overcooked?layout=XXPXX|O1 2O|X   X|XDXSX"


def typed(editor: Editor, *keys: str) -> Editor:
    for key in keys:
        editor.type(key)
    return editor


def test_a_character_goes_into_the_cell_and_the_next_cell_follows():
    editor = typed(Editor(ROOM), "right", "T", "T")
    assert editor.sketch.rows[0] == "XTTXX"
    assert (editor.sketch.y, editor.sketch.x) == (0, 3)


def test_the_cell_stays_in_the_map():
    editor = typed(Editor(ROOM), "up", "left", *["down"] * 9, *["right"] * 9)
    assert (editor.sketch.y, editor.sketch.x) == (3, 4)
    assert typed(editor, "D").sketch.rows[3] == "XDXSD"


@pytest.mark.parametrize("key", [" ", ".", "\x7f", "floor"])
def test_each_of_these_is_the_floor(key: str):
    assert typed(Editor(ROOM), "down", "right", key).sketch.rows[1] == "O  2O"


def test_a_meaning_stands_for_its_character():
    assert typed(Editor(ROOM), "pot").sketch.rows[0] == "PXPXX"


@pytest.mark.parametrize("name", ["overcooked/cramped_room", "overcooked_v2/cramped_room", "jaxnav/own"])
def test_each_character_that_the_legend_names_can_be_typed_line_by_line(name: str):
    editor = Editor(name)
    named = re.findall(r"(?:^|, |\bto )(\S+)", editor.legend)
    assert len(named) > 4
    for word in named:
        cell = editor.sketch
        typed(editor, *from_lines(io.StringIO(f"{word}\n")))
        assert editor.sketch.rows[cell.y][cell.x] == (" " if word == "space" else word)


def test_a_new_column_has_walls_and_floor_but_nothing_that_stands_on_it():
    editor = typed(Editor(ROOM), "right", "]")
    assert editor.sketch.rows == ("XXXPXX", "O 1 2O", "X    X", "XXDXSX")


def test_a_new_row_has_walls_and_floor_but_nothing_that_stands_on_it():
    editor = typed(Editor(ROOM), "down", "}")
    assert editor.sketch.rows == ("XXPXX", "X   X", "O1 2O", "X   X", "XDXSX")


def test_rows_and_columns_go_and_the_cell_stays_in_the_map():
    editor = typed(Editor(ROOM), *["right"] * 4, *["down"] * 3, "[", "{")
    assert editor.sketch.rows == ("XXPX", "O1 2", "X   ")
    assert (editor.sketch.y, editor.sketch.x) == (2, 3)


def test_two_rows_and_columns_stay():
    editor = typed(Editor(ROOM), *["{"] * 2, *["["] * 3)
    for key in "{[":
        with pytest.raises(ValueError, match="at least two rows and columns"):
            editor.type(key)
    assert editor.sketch.rows == ("O ", "XX") or editor.sketch.rows == (" X", "SX")
    assert Editor(editor.name).sketch.rows == editor.sketch.rows


def test_a_character_that_means_nothing_can_be_mended():
    editor = Editor("overcooked?layout=XXPXX|O1 2z|X   X|XDXSX")
    assert "'z' means nothing" in str(editor.problem)
    assert "z" in sketched(editor, colors=True).plain
    assert typed(editor, "down", *["right"] * 4, "O").problem is None


def test_changes_are_taken_back_one_by_one():
    editor = typed(Editor(ROOM), "P", "}", "[", "down", "u", "u", "u")
    assert editor.name == ROOM
    with pytest.raises(ValueError, match="nothing to take back"):
        editor.type("u")


def test_an_unknown_character_changes_nothing_and_says_what_there_is():
    editor = Editor(ROOM)
    with pytest.raises(ValueError, match=r"no 'Z'.*P pot.*1 to 9 cook.*arrows move"):
        editor.type("Z")
    assert editor.name == ROOM


def test_what_the_rules_forbid_is_a_problem_until_it_is_mended():
    editor = typed(Editor(ROOM), "floor")
    assert editor.problem is not None
    assert "row 1, column 1" in editor.problem
    assert typed(editor, "left", "X").problem is None


def test_an_unfinished_map_can_be_taken_up_again():
    editor = typed(Editor(ROOM), *["right"] * 4, "floor", "down", "left", "floor")
    again = Editor(editor.name)
    assert again.sketch.rows == editor.sketch.rows == ("XXPX ", "O1  O", "X   X", "XDXSX")
    assert again.problem == editor.problem is not None


def test_short_rows_are_filled_with_walls():
    assert Editor("overcooked?layout=XXPXX|O1").sketch.rows == ("XXPXX", "O1XXX")


def test_other_options_stay_and_kitchens_keep_their_recipes():
    assert "max_steps=30" in Editor(f"{ROOM}&max_steps=30").name
    kitchen = Editor("overcooked_v2/grounded_coord_simple?view=2")
    assert kitchen.problem is None
    env = jaxrl.make(kitchen.name)
    assert env.view == 2
    assert (env.kitchen.recipes == jaxrl.make("overcooked_v2/grounded_coord_simple").kitchen.recipes).all()


@pytest.mark.parametrize("name", list_envs("overcooked*"))
def test_the_name_of_an_unchanged_kitchen_makes_the_same_kitchen(name: str):
    before, after = jaxrl.make(name), jaxrl.make(Editor(name).name)
    kitchens = [getattr(env, "kitchen", None) or env.layout for env in (before, after)]
    assert (kitchens[0].tiles == kitchens[1].tiles).all()
    assert sorted(kitchens[0].starts) == sorted(kitchens[1].starts)
    assert before.observation_space() == after.observation_space()


def test_other_environments_are_refused():
    with pytest.raises(ValueError, match=r"hanabi/2p is not a text; edit overcooked"):
        Editor("hanabi/2p")
    with pytest.raises(ValueError, match=r"smax/random is many battles; edit one"):
        Editor("smax/random")
    with pytest.raises(NotImplementedError, match="two things share a cell"):
        Editor("jaxnav/blank_cross2")


def test_a_battle_without_a_drawing_gets_an_empty_one_of_its_size_and_keeps_its_header():
    editor = Editor("smax/3m")
    assert editor.sketch.rows == ("." * 16,) * 16
    assert editor.problem is None
    assert jaxrl.make(editor.name).scenario == SCENARIOS["3m"]
    assert "Not drawn: allies: 3marine" in editor.map.note
    assert Editor("smax/grid").map.note.endswith("and 6 lines more")


def test_units_that_are_drawn_take_the_place_of_armies():
    editor = typed(Editor("smax/3m"), "m", "ally marauder", "#", "=", "~", '"', "^")
    assert "There are no enemies" in str(editor.problem)
    battle = parse_scenario(parse_options(typed(editor, "Z").name.partition("?")[2])["scenario"])
    assert [UNIT_NAMES[kind] for kind in battle.unit_types] == ["marine", "marauder", "zealot"]
    assert battle.places == ((1.0, 31.0), (3.0, 31.0), (15.0, 31.0))
    assert [zone.kind for zone in battle.zones] == ["wall", "wall", "slow", "cover", "burn"]
    assert jaxrl.make(typed(editor, *["u"] * 8).name).scenario == SCENARIOS["3m"]


@pytest.mark.parametrize("name", NAMED)
def test_an_unchanged_battle_stays_the_same(name: str):
    editor = Editor(f"smax/{name}")
    assert jaxrl.make(editor.name).scenario == scenario_of(name)
    again = Editor(editor.name)
    assert again.name == editor.name


def test_a_new_row_of_a_battle_repeats_the_ground_but_no_units():
    editor = Editor("smax?scenario=m: ally marine|M: enemy marine|cell: 4||m.=#|~^M.|....")
    assert typed(editor, "}").sketch.rows[0] == "..=#"
    assert typed(editor, "down", "down", "}").sketch.rows[2] == "~^.."


def test_an_unfinished_battle_can_be_taken_up_again():
    editor = Editor("smax?scenario=m: ally marine|M: enemy marine||m.?#|~^M.|...&max_steps=7")
    assert editor.problem is not None
    assert editor.sketch.rows == ("m.?#", "~^M.", "...#")
    assert Editor(editor.name).sketch.rows == editor.sketch.rows
    assert editor.name.startswith("smax?max_steps=7&scenario=")


def test_a_map_that_no_cells_fill_is_left_to_the_mouse():
    with pytest.raises(ValueError, match=r"33.3 x 20; use the mouse: --out battle.html"):
        Editor("smax?scenario=allies: 3m|enemies: 3m|size: 33.3 20")
    assert Editor("smax?scenario=allies: 3m|enemies: 3m|size: 9 12").sketch.rows == ("......",) * 8


def test_every_type_of_a_battle_has_a_letter_and_the_types_of_a_text_as_well():
    editor = Editor("smax?scenario=units: tabx|type: tank farmer health 300|f: ally archer|allies: 3F|enemies: 2tank")
    assert editor.map.tiles["f"] == "ally archer"
    assert {f"{team} {kind}" for team in ("ally", "enemy") for kind in (*UNIT_TABLES["tabx"], "tank")} <= set(
        editor.map.tiles.values()
    )


def test_only_what_is_about_the_cell_is_shown_where_there_is_little_room():
    editor = typed(Editor("smax/ambush"), *["down"] * 50, *["right"] * 60)
    lines = sketched(editor, colors=False, room=(5, 7)).plain.splitlines()
    assert lines == [" · " * 7] * 2 + [" · " * 3 + "[·]" + " · " * 3] + [" · " * 7] * 2


def test_the_cell_is_bright_or_in_brackets():
    editor = typed(Editor(ROOM), "right")
    assert sketched(editor, colors=False).plain.splitlines()[0] == " X [X] P  X  X "
    bright = [span for span in sketched(editor, colors=True).spans if getattr(span.style, "reverse", False)]
    assert [(span.start, span.end) for span in bright] == [(3, 6)]
