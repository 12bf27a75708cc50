"""The picture of a battle, checked against the battle itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import SMAX, State, UnitType
from jaxrl.envs.smax.draw import targets
from jaxrl.envs.smax.dynamics import Orders
from jaxrl.envs.smax.orders import attack_action
from jaxrl.envs.smax.state import Params
from jaxrl.envs.smax.terrain import Zone
from jaxrl.envs.smax.units import UNIT_TYPES, Scenario
from jaxrl.render import save_gif
from jaxrl.render.html import encode
from jaxrl.render.raster import rasterise
from jaxrl.render.scene import Circle, Ellipse, Line, Rect, Scene, Shape, Text, at
from jaxrl.replay import Replay, record


def _shoot_or_advance(obs: Any, carry: Any, key: jax.Array, mask: jax.Array) -> tuple[jax.Array, Any]:
    """Attack the first enemy in range, else walk right, while alive."""
    shootable = mask[:, 5:]
    forward = jnp.where(mask[:, 1], 1, 4)
    return jnp.where(shootable.any(1), 5 + jnp.argmax(shootable, axis=1), forward), carry


@pytest.fixture(scope="module")
def env() -> SMAX:
    env = jaxrl.make("smax/3m")
    assert isinstance(env, SMAX)
    return env


@pytest.fixture(scope="module")
def replay(env: SMAX) -> Replay:
    return record(env, _shoot_or_advance, jax.random.key(3))


def _bodies(scene: Any) -> list[Circle]:
    return [shape for shape in scene.shapes if isinstance(shape, Circle) and shape.tip is not None]


def test_bodies_are_where_the_units_are_while_they_live(env: SMAX, replay: Replay) -> None:
    scene = env.draw(replay.states)
    bodies = _bodies(scene)
    assert scene.num_frames == len(replay.states.step)
    assert len(bodies) == 6
    for unit, body in enumerate(bodies):
        np.testing.assert_allclose(np.stack([body.x, body.y], -1), replay.states.position[:, unit], rtol=1e-6)
        np.testing.assert_array_equal(np.asarray(body.alpha) > 0, replay.states.health[:, unit] > 0)
        assert body.radius == 0.375  # a marine, to scale
        assert body.tip is not None
        said = [float(text.split("/")[0]) for text in body.tip.rows["health"]]
        np.testing.assert_allclose(said, replay.states.health[:, unit], atol=0.5)
    assert bodies[0].fill == bodies[2].fill != bodies[3].fill == bodies[5].fill


def test_everybody_is_inside_the_view(env: SMAX, replay: Replay) -> None:
    left, bottom, right, top = env.draw(replay.states).view
    x, y = replay.states.position[..., 0], replay.states.position[..., 1]
    assert left + 1 < x.min()
    assert x.max() < right - 1
    assert bottom + 1 < y.min()
    assert y.max() < top - 1
    assert 4 / 3 - 1e-6 <= (right - left) / (top - bottom) <= 16 / 9 + 1e-6


def test_single_states_all_show_the_whole_map(env: SMAX, replay: Replay) -> None:
    pictures = [env.render(jax.tree.map(lambda leaf, t=t: leaf[t], replay.states)) for t in (0, -1)]
    assert pictures[0].shape == pictures[1].shape
    assert pictures[0].dtype == np.uint8
    assert (pictures[0] != pictures[1]).any()


def test_frames_change_as_units_move(env: SMAX, replay: Replay) -> None:
    scene = env.draw(replay.states)
    first = dataclasses.replace(scene, num_frames=5)
    frames = rasterise(first, 240)
    assert frames.dtype == np.uint8
    assert frames.shape[2:] == (240, 3)
    assert all((frames[t] != frames[t + 1]).any() for t in range(4))


@pytest.fixture(scope="module")
def duel(env: SMAX) -> tuple[State, State]:
    """Ally 1 shoots enemy 2 while enemies 0 and 1, far away, see nobody; enemy 2 shoots back."""
    _, state = jax.jit(env.reset)(jax.random.key(0))
    position = jnp.array([[2.0, 30.0], [14.0, 16.0], [2.0, 2.0], [30.0, 30.0], [30.0, 2.0], [17.0, 16.0]])
    state = dataclasses.replace(state, position=position)
    action = jnp.array([4, 5 + 2, 4])
    return state, jax.jit(env.step_env)(jax.random.key(1), state, action, env.default_params)[1]


def test_targets_are_those_who_were_hit(env: SMAX, duel: tuple[State, State]) -> None:
    before, after = duel
    np.testing.assert_array_equal(np.flatnonzero(after.health < before.health), [1, 5])
    np.testing.assert_array_equal(targets(np.asarray(after.attack)[None], env.num_allies)[0], [-1, 5, -1, -1, -1, 1])


def test_a_shot_is_a_line_from_the_shooter_to_the_target(env: SMAX, duel: tuple[State, State]) -> None:
    states = jax.tree.map(lambda *leaves: np.stack(leaves), *duel)
    shots = [
        shape
        for shape in env.draw(states).shapes
        if isinstance(shape, Line) and shape.stroke == "#ffffff" and at(shape.alpha, 1) > 0
    ]
    assert len(shots) == 2
    assert all(at(shot.alpha, 0) == 0 for shot in shots)
    ends = [(at(s.x, 1), at(s.x, 1) + at(s.dx, 1)) for s in shots]
    (ally, ally_end), (enemy, enemy_end) = ends
    assert 14.0 < ally < ally_end < 17.0
    assert 17.0 > enemy > enemy_end > 14.0
    assert ally_end > 16.5
    assert enemy_end < 14.5


def test_the_captions_count_the_living(env: SMAX, replay: Replay) -> None:
    captions = env.draw(replay.states).captions
    alive = replay.states.health > 0
    for caption, members in ((captions[0], slice(0, 3)), (captions[2], slice(3, 6))):
        counts = [int(text.split()[1]) for text in caption.text]
        np.testing.assert_array_equal(counts, alive[:, members].sum(1))


def test_unit_types_have_shapes_and_letters() -> None:
    env = jaxrl.make("smax/3s5z_vs_3s6z")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    stalker, zealot = _bodies(scene)[0], _bodies(scene)[3]
    assert vars(stalker)["sides"] != vars(zealot)["sides"]
    letters = [shape.text for shape in scene.shapes if isinstance(shape, Text)]
    assert letters == ["s"] * 3 + ["Z"] * 5 + ["s"] * 3 + ["Z"] * 6


def test_own_unit_types_are_drawn_by_their_names() -> None:
    tank = {"tank": (150, 30, 7, 2.0, 2.0, 0.8, 11), "zealot": (10, 30, 2, 2.0, 2.0, 0.5, 9)}
    env = jaxrl.make("smax", allies=["tank", "zealot"], enemies="1tank", unit_types=tank)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state))
    assert [shape.text for shape in scene.shapes if isinstance(shape, Text)] == ["t", "Z", "t"]
    titles = [body.tip.title for body in _bodies(scene) if body.tip is not None]
    assert titles == ["ally_0, tank", "ally_1, zealot", "enemy_0, tank"]


_MEDIVAC = UnitType(
    health=150, damage=0, range=4, cooldown=1, speed=3.5, radius=0.75, sight=9, heal=12.6, energy=200,
    energy_start=50, energy_cost=8, flies=True,
)  # fmt: skip
_TYPES = {
    "medivac": _MEDIVAC,
    "stalker": UNIT_TYPES["stalker"]._replace(shield=80.0),
    "baneling": UnitType(30, 16, 3, 1.0, 3.5, 0.375, 8, suicide=True, splash=1.0, splash_radius=2.2, splash_depth=2.2),
    "theking_2": UnitType(400, 40, 5, 2.0, 3.0, 2.0, 9),
}


def _play(env: Any, actions: list[list[int]], **changes: Any) -> State:
    """The battle from its spawn, with `changes`, through steps with these actions: leaves `[F, …]`."""
    step = jax.jit(env.step_env)
    states = [dataclasses.replace(env.reset(jax.random.key(0))[1], **changes)]
    for action in actions:
        states.append(step(jax.random.key(1), states[-1], jnp.array(action), env.default_params)[1])
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def _colored(scene: Scene, kind: type[Shape], color: str) -> list[Any]:
    """The shapes of a kind with this colour."""
    found = (shape for shape in scene.shapes if type(shape) is kind)
    return [shape for shape in found if color in (vars(shape).get("fill"), vars(shape).get("stroke"))]


def test_zones_lie_under_the_units_with_an_edge_and_a_tip() -> None:
    zones = [
        Zone("wall", 10, 20, 1, 5),
        Zone("wall", 22, 9, 2, 3, round=True, effect=0.0),
        Zone("slow", 24, 22, 4, 3, round=True, effect=0.25),
        Zone("cover", 7, 8, 3, 2),
        Zone("burn", 16, 6, 3, 2, effect=4.0),
        Zone("none", 16, 16, 9, 9),
    ]
    env = jaxrl.make("smax", allies="2m", zones=zones)
    scene = env.draw(_play(env, []))
    tips = {
        "wall": "stops walkers, sight and shots",
        "low wall": "stops walkers, not shots",
        "slow ground": "takes 25% of the speed",
        "cover": "hides those in it",
        "fire": "takes 4 health per second",
    }
    boxes = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.tip is not None]
    assert {box.tip.title: box.tip.rows["effect"] for box in boxes if box.tip} == tips
    for title, zone in zip(("wall", "low wall", "slow ground", "cover", "fire"), zones, strict=False):
        edge, inner = (box for box in boxes if box.tip is not None and box.tip.title == title)
        assert isinstance(edge, Ellipse) == zone.round
        assert (edge.x, edge.y, edge.dx, edge.dy) == (zone.x, zone.y, -zone.half_width, -zone.half_height)
        assert (edge.width, edge.height) == (2 * zone.half_width, 2 * zone.half_height)
        assert edge.width - 0.5 < inner.width < edge.width
        signs = _colored(scene, Line, edge.fill)
        assert bool(signs) == (title != "wall")
        assert all(abs(s.x - zone.x) < zone.half_width and abs(s.y - zone.y) < zone.half_height for s in signs)
    shapes = list(scene.shapes)
    assert max(map(shapes.index, boxes)) < min(map(shapes.index, _bodies(scene)))


def test_nothing_is_drawn_at_free_places() -> None:
    places = ((8.0, 8.0), (8.0, 24.0), (24.0, 8.0), (24.0, 24.0))
    env = jaxrl.make("smax", scenario=Scenario((0, 0), (0, 0), places=places, variable=True))
    lineup = dataclasses.replace(env.default_params.lineup, unit_type=np.array([0, -1, 0, -1], np.int32))
    params: Params = dataclasses.replace(env.default_params, lineup=lineup)
    _, state = env.reset(jax.random.key(0), params)
    scene = env.draw(jax.tree.map(lambda leaf: np.stack([leaf, leaf]), state), params)
    assert [body.tip.title for body in _bodies(scene) if body.tip] == ["ally_0, marine", "enemy_0, marine"]
    of_units = [shape for shape in scene.shapes if np.ndim(shape.x)]
    assert max(float(np.max(shape.y)) for shape in of_units) < 10.0
    assert scene.view[3] < 20.0  # nor is the view any wider for them
    assert [caption.text[0] for caption in scene.captions[::2]] == ["allies 1 / 1", "enemies 1 / 1"]


def test_the_other_units_of_the_team_are_targets_of_healers() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):  # three allies, numbers 0 to 2, against two enemies, 3 and 4
        aims = rng.integers(-1, 2, 3), rng.integers(-1, 3, 2)
        patient = np.array([*rng.integers(-1, 3, 3), *rng.choice([-1, 3, 4], 2)])
        patient[patient == np.arange(5)] = -1
        still = jnp.zeros(5)
        orders = Orders(still, still, *map(jnp.asarray, aims), patient=jnp.asarray(patient))
        attacked = np.concatenate([np.where(aims[0] < 0, -1, aims[0] + 3), aims[1]])
        wanted = np.where(patient >= 0, patient, attacked)
        np.testing.assert_array_equal(targets(np.asarray(attack_action(orders))[None], 3)[0], wanted)


@pytest.mark.parametrize("team", [0, 1])
def test_a_green_beam_leads_from_a_healer_to_its_patient_while_it_heals(team: int) -> None:
    army = ["marine", "medivac", "zealot"]
    env = jaxrl.make("smax", allies=army, unit_types=_TYPES, mode="selfplay", spawn="sides")
    place = np.array([[4.0, 4.0], [6.0, 6.0], [8.0, 4.0], [28.0, 28.0], [26.0, 26.0], [24.0, 28.0]], np.float32)
    hurt = jnp.array([45.0, 150.0, 149.0, 45.0, 150.0, 149.0])
    healer, patient = (1, 2) if team == 0 else (4, 5)
    action = [4] * 6
    action[healer] = 5 + 3 + 1  # the second of the others
    states = _play(env, [action, action], position=jnp.asarray(place), health=hurt)
    assert states.health[1, patient] == 150.0  # so there is nothing left to do in the second step
    scene = env.draw(states)
    beam, core, across, _ = _colored(scene, Line, "#4fe08a")
    for line in (beam, core, across):
        np.testing.assert_array_equal(np.asarray(line.alpha) > 0, [False, True, False])
    x, y = at(core.x, 1), at(core.y, 1)
    assert np.hypot(*(place[healer] - (x, y))) == pytest.approx(0.75 + 0.3, abs=1e-3)
    assert np.hypot(*(place[patient] - (x + at(core.dx, 1), y + at(core.dy, 1)))) < 0.5  # within its body
    tip = _bodies(scene)[sorted(range(6), key=lambda unit: unit in (1, 4)).index(healer)].tip
    assert tip is not None
    assert tip.rows["target"][1] == ("ally_2", "enemy_2")[team]
    assert tip.rows["energy"][0] == "50 / 200"


def test_shields_are_white_bars_above_the_health() -> None:
    env = jaxrl.make("smax", allies=["stalker", "marine"], enemies="1m", unit_types=_TYPES)
    states = _play(env, [], shield=jnp.array([20.0, 0.0, 0.0]))
    scene = env.draw(states)
    (shield,) = _colored(scene, Rect, "#f4f7fb")  # marines have none
    health = _colored(scene, Rect, "#7fc4ff")[0]
    assert health.width[0] == pytest.approx(2.3 * 0.625)
    assert shield.width[0] == pytest.approx(health.width[0] * 20 / 80)
    assert (shield.x[0], shield.dx) == (health.x[0], health.dx)
    assert shield.dy > health.dy + health.height
    assert [body.tip.rows.get("shield") for body in _bodies(scene) if body.tip] == [["20 / 80"], None, None]


def test_those_who_fly_are_above_the_others_with_a_shadow_and_a_ring() -> None:
    env = jaxrl.make("smax", allies=["medivac", "marine"], enemies="1m", unit_types=_TYPES)
    scene = env.draw(_play(env, []))
    titles = [body.tip.title for body in _bodies(scene) if body.tip]
    assert titles == ["ally_1, marine", "enemy_0, marine", "ally_0, medivac"]
    (shadow,) = _colored(scene, Circle, "#000000")
    assert (shadow.x[0], shadow.y[0]) != (at(_bodies(scene)[2].x, 0), at(_bodies(scene)[2].y, 0))


def test_those_whom_cover_hides_are_half_transparent_until_they_shoot() -> None:
    env = jaxrl.make("smax", allies="2m", zones=[Zone("cover", 8, 16, 2, 2)], enemy_shoots=False)
    place = jnp.array([[8.0, 16.0], [8.0, 25.0], [12.0, 16.0], [30.0, 30.0]])
    bodies = _bodies(env.draw(_play(env, [[5, 4]], position=place)))
    assert [at(body.alpha, 0) for body in bodies] == [0.5, 1.0, 1.0, 1.0]
    assert at(bodies[0].alpha, 1) == 1.0


def test_one_who_dies_of_its_own_shot_is_seen_to_hit_its_target() -> None:
    env = jaxrl.make("smax", allies=["marine", "baneling"], enemies="2m", unit_types=_TYPES, enemy_shoots=False)
    place = jnp.array([[2.0, 2.0], [14.0, 16.0], [30.0, 2.0], [16.0, 16.0]])
    states = _play(env, [[4, 6]], position=place)
    assert states.health[1, 1] == 0
    (shot,) = [line for line in _colored(env.draw(states), Line, "#ffffff") if at(line.alpha, 1) > 0]
    end = np.array([at(shot.x, 1) + at(shot.dx, 1), at(shot.y, 1) + at(shot.dy, 1)])
    assert np.linalg.norm(end - states.position[1, 3]) < 0.375  # in the body of enemy 1
    blast = [circle for circle in _colored(env.draw(states), Circle, "#7fc4ff") if at(circle.alpha, 1) > 0]
    assert [circle.radius for circle in blast] == [pytest.approx(2.2)]


def test_variants_of_a_type_look_like_it() -> None:
    env = jaxrl.make("smax", allies=["theking_2"], enemies="1m", unit_types=_TYPES)
    scene = env.draw(_play(env, []))
    assert [shape.text for shape in scene.shapes if isinstance(shape, Text)] == ["K", "m"]
    assert vars(_bodies(scene)[0])["sides"] == 5


def test_lines_are_thicker_where_the_map_is_large() -> None:
    thickness = []
    for map_size in (32, 48, (121, 78)):
        env = jaxrl.make("smax", allies="2m", map_size=map_size)
        thickness.append(_bodies(env.draw(_play(env, [])))[0].stroke_width)
    assert thickness == [0.07, 0.07, pytest.approx(0.07 * 121 / 50)]


def test_files_are_small(tmp_path: Path, replay: Replay) -> None:
    save_gif(replay, tmp_path / "a.gif")
    assert (tmp_path / "a.gif").stat().st_size < 50_000 * replay.num_steps  # 1.5 MB for 30 steps
    data = encode(replay.scene(), replay.frames_per_step)
    assert data["framesPerStep"] == replay.frames_per_step
