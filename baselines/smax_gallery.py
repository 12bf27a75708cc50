"""The picture of docs/smax.md, six battles between scripts: `python baselines/smax_gallery.py`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.smax import SMAX, battle, orders
from jaxrl.envs.smax.state import Params, State, bodies_of, field_of
from jaxrl.render import rasterise
from jaxrl.render.scene import Caption, Scene, resample, with_captions

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "smax_battles.png"
BATTLES = (("mmm2", 0), ("corridor", 0), ("2c_vs_64zg", 0), ("bane_vs_bane", 0), ("crossfire", 0), ("random", 4))
"""The battles, row by row, and the seed of each."""
COLUMNS, WIDTH, GAP = 3, 480, 8
SHAPE = 3 / 2  # of a panel, width to height
STEPS, BEFORE = 120, 40  # steps of a battle, and frames of it that a picture knows: shots and the fallen fade


def main() -> None:
    """Play the battles and put the most violent moment of each side by side."""
    from PIL import Image

    panels = [panel(name, seed) for name, seed in BATTLES]
    high, wide, _ = panels[0].shape
    rows = len(panels) // COLUMNS
    picture = np.full((rows * (high + GAP) - GAP, COLUMNS * (wide + GAP) - GAP, 3), 255, np.uint8)
    for number, each in enumerate(panels):
        y, x = (number // COLUMNS) * (high + GAP), (number % COLUMNS) * (wide + GAP)
        picture[y : y + high, x : x + wide] = each
    Image.fromarray(picture).quantize(128).save(OUT, optimize=True)
    print(f"Wrote {OUT}, {OUT.stat().st_size / 1000:.0f} kB")


def panel(name: str, seed: int) -> np.ndarray:
    """A battle in its midst, uint8 `[H, W, 3]`."""
    env, key = jaxrl.make(f"smax/{name}"), jax.random.key(seed)
    params = env.default_params
    if name == "random":
        env, params = env.env, env.reset(key)[1].own
    env = SMAX(env.scenario, script=["expert", "expert"])
    states = jax.tree.map(np.asarray, fight(env, dataclasses.replace(params, scripts=env.default_params.scripts), key))
    moment = midst(states)
    shown = jax.tree.map(lambda leaf: leaf[max(0, moment - BEFORE) : moment + 1], states)
    scene = env.draw(shown, params)
    scene = resample(scene, np.array([scene.num_frames - 1]))
    left, _, right = scene.captions
    view = around(scene, shown, params)
    scene = dataclasses.replace(scene, view=view, captions=(left, Caption(name, "#ffffff"), right))
    return rasterise(with_captions(scene), WIDTH)[0]


def fight(env: SMAX, params: Params, key: jax.Array) -> State:
    """A battle between two scripts, leaves `[F, …]`: all ticks of all steps."""
    kernel = env.battle

    def step(carry: tuple[State, list[Any]], key: jax.Array) -> tuple[tuple[State, list[Any]], State]:
        state, memories = carry
        draws = uniform_rows(key, 5 * env.num_units).reshape(5, env.num_units)
        sides = []
        for team in range(2):
            order, memory = battle.scripted(
                kernel, env.options, team, memories[team], state, draws[1:3], params, draws[3:]
            )
            memories = [*memories[:team], memory, *memories[team + 1 :]]
            sides.append(battle.possible(kernel, team, order, state, params))
        order = orders.join(*sides)
        stats, deviation = kernel.stats(state.unit_type, params), kernel.deviation(draws[0], params)
        bodies = kernel.fight(bodies_of(state), state.unit_type, order, stats, params, deviation, trace=True)
        fixed = (state.unit_type, order, None, state.step + 1, kernel.heading(state, order))
        ticks = jax.vmap(lambda each: kernel.pack(each, *fixed))(bodies)
        return (jax.tree.map(lambda leaf: leaf[-1], ticks), memories), ticks

    @jax.jit
    def play(key: jax.Array) -> State:
        key, key_spawn = jax.random.split(key)
        state = env._spawn(key_spawn, params)
        teams = [jax.tree.map(lambda leaf, rows=rows: leaf[rows], bodies_of(state)) for rows in kernel.teams]
        memories = [orders.new_memory(team, field_of(params))._replace(script=jnp.int32(0)) for team in teams]
        first = (dataclasses.replace(state, memory=None), memories)
        ticks = jax.lax.scan(step, first, jax.random.split(key, STEPS))[1]
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), ticks)

    return play(key)


def midst(states: State) -> int:
    """The frame in which most shots are seen while a third of all units at most has fallen."""
    there = states.unit_type[0] >= 0
    fallen = 1 - (states.health[:, there] > 0).mean(1)
    fired = np.diff(states.cooldown, axis=0, prepend=states.cooldown[:1]) > 0
    seen = np.convolve((fired & there).sum(1), [1.0, 0.7, 0.4])[: len(fired)]
    return int(np.argmax(np.where((fallen > 0.1) & (fallen < 0.34), seen, seen / 100)))


def around(scene: Scene, states: State, params: Params) -> tuple[float, float, float, float]:
    """The part of the map about all who live, with the shape of a panel."""
    alive = (states.health[-1] > 0) & (states.unit_type[-1] >= 0)
    place, size = states.position[-1][alive], np.array([params.map_width, params.map_height])
    low, high = place.min(0), place.max(0)
    height = max(*((high - low) * (1 / SHAPE, 1) + 0.1 * size.max()), 0.28 * size.max())
    half = np.array([SHAPE, 1]) * height / 2
    middle = (low + high) / 2
    middle = np.where(2 * half < size, np.clip(middle, half, np.maximum(size - half, half)), size / 2)
    left, bottom, right, top = map(float, (*(middle - half), *(middle + half)))
    return left, bottom, right, top


if __name__ == "__main__":
    main()
