"""The page on which a person draws a battle: it reads and writes texts as Python does, and the mouse draws on it.

What needs Node or Chromium is skipped where there is none.
"""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl.envs.smax import NAMED, SCENARIOS, parse_scenario, scenario, scenario_text
from jaxrl.envs.smax.drawing import battle_page
from jaxrl.envs.smax.scenario import rectangles, scenario_of
from jaxrl.envs.smax.units import UNIT_TABLES, all_types

NODE = shutil.which("node")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_node = pytest.mark.skipif(NODE is None, reason="no Node here")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

DRAWN = """
    ; A comment.
    units: smac
    m: ally marine
    k: enemy zealot health 200 bonus_marine 3 flies yes
    type: tank marine health 300
    max_steps: 200
    slow: 0.25

    ......##..
    .m....##.k
    .m.~~...^.
    .."~~..=..
    ..........
    """
ARMIES = "allies: 2s 3z|enemies: 3m stalker|size: 40 20|deadly_border: no|jitter: 0.5|script: mixed|random_types: yes"
MISTAKES = {
    "nothing": "",
    "no value": "allies:",
    "no pair": "hello",
    "twice": "allies: 3m\nallies: 2m",
    "unknown table": "units: smag",
    "no number": "max_steps: x",
    "short place": "place: ally marine 1",
    "no team": "place: aly marine 1 2",
    "outside": "place: ally marine 1 2\nplace: enemy marine 50 2",
    "near the border": "jitter: 2\nplace: ally marine 1 2\nplace: enemy marine 5 5",
    "in a wall": "place: ally marine 1 2\nplace: enemy marine 5 5\nzone: wall 5 5 1 1",
    "in a round wall": "place: ally marine 1 2\nplace: enemy marine 5 5\nzone: wall 5 5 1 1 round",
    "no kind": "zone: wal 5 5 1 1",
    "short zone": "zone: wall 5 5 1",
    "long zone": "zone: wall 5 5 1 1 1 1 1",
    "effect": "zone: slow 5 5 1 1 1.5",
    "small": "size: 4 40\nallies: 3m\nenemies: 3m",
    "short row": "m: ally marine\nmap:\n....\n...",
    "no letter": "m: ally marine\nmap:\n....\n.q..",
    "no field value": "m: ally marine health\nmap:\n..",
    "neither yes nor no": "m: ally marine flies 3\nmap:\n..",
    "bonus": "type: x marine bonus_foo 3\nallies: 3m\nenemies: 3m",
    "cell without drawing": "cell: 3\nallies: 3m",
    "both": "allies: 3m\nm: ally marine\nM: enemy marine\nmap:\nm...M\n.....\n.....\n.....\n.....",
    "no army": "allies: 3m",
    "what every object of JavaScript has": "m: ally constructor",
    "a field that every object of JavaScript has": "m: ally marine constructor 3",
}


def in_page(page: str, name: str) -> str:
    """The content of the script element with that id."""
    found = re.search(f'<script [^>]*id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found
    return found[1]


def in_node(expression: str, values: list[Any]) -> list[Any]:
    """What the page's functions make of each `value`; an error's message where there is one."""
    page = battle_page("smax/3m")
    code = f"""{in_page(page, "text-of-battles")}
    const data = {in_page(page, "data")};
    const of = (value) => {{ try {{ return {expression}; }} catch (error) {{ return error.message; }} }};
    console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(0)).map(of)));"""
    done = subprocess.run([str(NODE), "-e", code], input=json.dumps(values), capture_output=True, text=True, timeout=60)
    assert not done.stderr
    return json.loads(done.stdout)


def test_the_page_has_the_battle_and_the_tables_and_loads_nothing():
    page = battle_page("smax/ambush")
    data = json.loads(in_page(page, "data"))
    assert parse_scenario(data["text"]) == scenario_of("ambush")
    assert list(data["tables"]) == list(UNIT_TABLES)
    for name, table in UNIT_TABLES.items():
        assert {kind: unit["radius"] for kind, unit in data["tables"][name].items()} == {
            kind: unit.radius for kind, unit in all_types(None, name).items() if kind in table
        }
    assert not re.search(r"https?://|<link|src=|@import|\{\{", page)


def test_no_text_can_end_the_script():
    page = battle_page("smax?scenario=type: </script> marine health 2|allies: 3m|enemies: 3m")
    assert page.count("</script>") == battle_page("smax/3m").count("</script>")


@needs_node
def test_a_text_is_written_as_python_writes_it():
    texts = [scenario_text(scenario_of(name)) for name in (*NAMED, *SCENARIOS)]
    assert in_node("write(parse(value, data))", texts) == texts


@needs_node
def test_a_text_as_the_page_writes_it_is_the_same_battle():
    folder = Path(str(scenario.__file__)).parent / "scenarios"
    texts = [DRAWN, ARMIES, *((folder / f"{name}.txt").read_text() for name in NAMED)]
    for before, after in zip(texts, in_node("write(parse(value, data))", texts), strict=True):
        assert parse_scenario(after) == parse_scenario(before)
    assert in_node("write(parse(value, data))", [DRAWN])[0].startswith("; A comment.\n")


@needs_node
def test_mistakes_are_told_in_the_words_of_python():
    messages = in_node("parse(value, data)", [*MISTAKES.values()])
    for (name, text), told in zip(MISTAKES.items(), messages, strict=True):
        with pytest.raises(ValueError, match=r"^Line \d+, column \d+: ") as error:
            parse_scenario(text)
        assert _without_hint(told) == _without_hint(str(error.value)), name


def _without_hint(message: str) -> str:
    return re.sub(r"Did you mean .*|Known: .*", "", message)


@needs_node
def test_rectangles_are_those_of_python():
    rng = np.random.default_rng(0)
    cells = [rng.random((6, 9)) < density for density in (0.1, 0.5, 0.7, 0.9, 1.0) for _ in range(4)]
    found = in_node("rectangles(value)", [each.tolist() for each in cells])
    assert [[*map(tuple, each)] for each in found] == [rectangles(each) for each in cells]


@needs_node
def test_a_zone_lies_between_the_corners_that_are_dragged():
    corners = [[{"x": 10, "y": 4}, {"x": 6, "y": 7}]]
    assert in_node("between(...value)", corners) == [{"x": 8, "y": 5.5, "halfWidth": 2, "halfHeight": 1.5}]
    assert in_node("snapped(value, 0.5)", [1.26, -0.3, 7]) == [1.5, -0.5, 7]


DRAWS = """<script>{  // in a block, since the page has its own `tool` and `drag`
window.confirm = () => true;
const at = ([x, y]) => {
  const point = new DOMPoint(x, battle.size[1] - y).matrixTransform(map.getScreenCTM());
  return { clientX: point.x, clientY: point.y, bubbles: true };
};
const drag = (...points) => points.forEach((point, i) => {
  const kinds = i ? ["pointermove"] : ["pointerdown"];
  if (i === points.length - 1) kinds.push("pointerup");
  const pick = document.elementFromPoint(at(point).clientX, at(point).clientY);
  for (const kind of kinds) (map.contains(pick) ? pick : map).dispatchEvent(new PointerEvent(kind, at(point)));
});
const tool = (id, label) => [...all(`#${id} button`)].find((each) => each.textContent === label).click();
const press = (key) => map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const set = (selector, value) => {
  Object.assign(document.querySelector(selector), { value }).dispatchEvent(new Event("change"));
};
const text = () => $("text").value, said = [text()];
tool("grounds", "wall"); drag([4, 20], [8, 22], [10, 26]);
tool("grounds", "select"); drag([7, 23], [9, 22]); drag([6, 25], [4, 27]);
$("shape").value = "ellipse"; $("effect").value = "7"; tool("grounds", "burn"); drag([30, 2], [26, 6]);
tool("ally", "marine"); drag([20, 5]); press("ArrowLeft"); press("ArrowUp");
tool("enemy", "zealot"); drag([22, 15]); said.push(text());
press("Delete"); said.push($("problem").textContent);
$("undo").click(); $("redo").click(); $("undo").click(); said.push(text());
set("#units", "tabx"); set("#max_steps", "50"); set("#width", "40"); said.push(text());
$("undo").click(); $("undo").click(); $("undo").click(); said.push(text());
$("text").value = "size: 20\\nm: ally marine"; $("text").dispatchEvent(new Event("input")); $("load").click();
said.push($("problem").textContent);
$("text").value = "m: ally marine|z: enemy zealot||m...|.##.|.##.|...z"; $("load").click(); said.push(text());
document.title = JSON.stringify(said);
}</script></body>"""


@needs_chromium
def test_the_mouse_draws_and_the_text_follows(tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(battle_page("smax/3m").replace("</body>", DRAWS))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1366,900", "--dump-dom"]
    flags += [f"--user-data-dir={tmp_path / 'browser'}", page.as_uri()]
    done = subprocess.run([str(CHROMIUM), *flags], check=True, capture_output=True, timeout=120, text=True)
    found = re.search("<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert found
    first, drawn, without, again, table, back, mistake, loaded = json.loads(html.unescape(found[1]))
    assert first == "allies: 3marine\nenemies: 3marine\n"
    assert drawn.splitlines() == [
        "zone: wall 8 23 4 4",
        "zone: burn 28 4 2 2 7 round",
        "place: ally marine 19.5 5.5",
        "place: enemy zealot 22 15",
    ]
    assert "There are no enemies" in without
    assert again == drawn == back
    assert parse_scenario(drawn).places == ((19.5, 5.5), (22.0, 15.0))
    assert table.splitlines() == ["units: tabx", "size: 40 32", "max_steps: 50", *drawn.splitlines()[:2]]
    assert mistake.startswith("Line 2, column 15: There are no allies")
    assert loaded.splitlines()[1:] == ["zone: wall 4 4 2 2", "place: ally marine 1 7", "place: enemy zealot 7 1"]
