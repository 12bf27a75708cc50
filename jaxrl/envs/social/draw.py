"""The social games as pictures, from an episode's states (NumPy leaves `[F, …]`), and in letters for terminals."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxrl.envs.social.storm_rules import COIN_CELLS, SIZE, STEPS
from jaxrl.render.scene import Caption, Circle, Line, Polygon, Rect, Scene, Shape, Text, Tip

__all__ = ["coin_game_board", "draw_coin_game", "draw_storm", "draw_switch_riddle", "storm_board"]

_BOARD, _GRID, _AROUND, _INK, _DIM = "#141b27", "#2a374b", "#0f141d", "#0f141d", "#6b7a94"
_RED, _BLUE, _LIGHT, _DARK = "#e5534b", "#4da3ff", "#f2cc60", "#3b4557"
_COINS = (  # of up to twelve kinds
    *("#f2cc60", "#b062d9", "#4dd0c8", "#ff8f6b", "#9cc37a", "#e6edf7"),
    *("#3f6fd8", "#d9362b", "#8a5a2b", "#f7a8c8", "#2e8b57", "#7f8ea3"),
)
_PLAYERS = ("#4da3ff", "#e5534b", "#57ab5a", "#d9825c", "#ec407a", "#29b6f6", "#ab47bc", "#a1887f")


def draw_coin_game(states: Any, inner_steps: int, max_steps: int) -> Scene:
    """The torus, unrolled: players are discs, and their coins rings of the same colour.

    Args:
        states: Those of the episode.
        inner_steps: Steps of a round.
        max_steps: Steps of an episode.
    """
    things, step = np.asarray(states.things), np.asarray(states.step)
    shapes = _board(3)
    for number, (name, color) in enumerate((("red", _RED), ("blue", _BLUE))):
        # Two things in one cell stand beside each other: red to the left, coins above.
        side = (-0.22, 0.22)[number]
        coin, player = things[:, 2 + number], things[:, number]
        tip = Tip(f"{name}'s coin", {})
        x, y = coin[:, 1] + 0.5 + side, coin[:, 0] + 0.72
        ring = Circle(x=x, y=y, radius=0.13, fill=_BOARD, stroke=color, stroke_width=0.07, tip=tip, jump=True)
        shapes.append(ring)
        x, y = player[:, 1] + 0.5 + side, player[:, 0] + 0.3
        shapes.append(Circle(x=x, y=y, radius=0.2, fill=color, tip=Tip(name, {})))
    taken = np.asarray(states.taken)
    own, others = taken[:, 0, 0] + taken[:, 1, 1], taken[:, 0, 1] + taken[:, 1, 0]
    counts = np.array([f"own {a} · other's {b}" for a, b in zip(own.tolist(), others.tolist(), strict=True)])
    number = np.minimum(step, max_steps - 1) // inner_steps + 1  # the last step begins no round
    rounds = np.array([f"round {n}, step {t}" for n, t in zip(number.tolist(), step.tolist(), strict=True)])
    captions = (Caption("Coin game"), Caption(counts), Caption(rounds))
    return Scene(len(step), (-0.15, -0.15, 3.15, 3.15), tuple(shapes), captions, _AROUND, step_seconds=0.4)


def draw_switch_riddle(states: Any, days: np.ndarray) -> Scene:
    """The room with its light above, and the cells below it; a green mark is under prisoners who were in the room.

    Args:
        states: Those of the episode.
        days: The number of each frame's day, `[F]`.
    """
    has_been, in_room = np.asarray(states.has_been), np.asarray(states.in_room)
    frames, n = has_been.shape
    width = max(n, 3)
    first, middle = (width - n) / 2, width / 2
    light = np.where(np.asarray(states.bulb), _LIGHT, _DARK)
    shapes: list[Shape] = [
        Rect(x=middle - 0.8, y=1.5, width=1.6, height=1.9, fill=_BOARD, corner=0.08),
        Line(x=middle, y=3.4, dx=0.0, dy=-0.3, stroke=_DIM, stroke_width=0.04),
        Circle(x=middle, y=2.95, radius=0.2, fill=light, tip=Tip("light", {})),
    ]
    for i in range(n):
        x, inside = first + i, in_room == i
        shapes.append(Rect(x=x + 0.06, y=0.2, width=0.88, height=1.0, fill=_BOARD, corner=0.06))
        been = np.where(has_been[:, i], 1.0, 0.0)
        shapes.append(Rect(x=x + 0.06, y=0.05, width=0.88, height=0.09, fill="#57ab5a", corner=0.03, alpha=been))
        tip = Tip(f"agent_{i}", {})
        x, y = np.where(inside, middle, x + 0.5), np.where(inside, 2.0, 0.7)
        shapes.append(Circle(x=x, y=y, radius=0.3, fill=_PLAYERS[i % len(_PLAYERS)], tip=tip))
        shapes.append(Text(x=x, y=y, text=str(i), size=0.3, fill=_INK))
    count = np.array([f"{number} of {n} have been" for number in has_been.sum(1).tolist()])
    day = np.array([f"day {number}" for number in days.tolist()])
    captions = (Caption("Switch riddle"), Caption(count), Caption(day))
    return Scene(frames, (-0.2, -0.2, width + 0.2, 3.6), tuple(shapes), captions, _AROUND, step_seconds=0.8)


def draw_storm(name: str, states: Any) -> Scene:
    """The board with x to the right and y down; a player is an arrow with the coins it holds, grey while it is frozen.

    The colour of a coin is its kind; beams light the cells that players aimed at.
    """
    position, frozen = np.asarray(states.position), np.asarray(states.frozen)
    frames, n = frozen.shape
    shapes = [*_board(SIZE), *_beams(np.asarray(states.beams)), *_coins(states)]
    for i in range(n):
        x, y = position[:, i, 0] + 0.5, SIZE - 0.5 - position[:, i, 1]
        color = np.where(frozen[:, i] > 0, _DIM, _PLAYERS[i])
        step = STEPS[np.asarray(states.direction)[:, i]]
        angle = np.arctan2(-step[:, 1], step[:, 0])
        held = np.asarray(states.inventory)[:, i]
        text = np.array([" ".join(map(str, row)) for row in held.tolist()])
        size = min(0.28, 2 / max(map(len, text.tolist())))  # about as wide as a cell
        tip = Tip(f"agent_{i}", {"coins by kind": text, "frozen": frozen[:, i]})
        jump = np.append(np.abs(np.diff(position[:, i], axis=0)).sum(1) > 1, False)  # back at a start
        shapes.append(Polygon(x=x, y=y, radius=0.46, sides=3, angle=angle, fill=color, tip=tip, jump=jump))
        shapes.append(Text(x=x, y=y - 0.36, text=text, size=size, fill="#ffffff", jump=jump))
    pair = np.array([f"{number} frozen" for number in (frozen > 0).sum(1).tolist()])
    steps = np.array([f"step {t}" for t in np.asarray(states.step).tolist()])
    captions = (Caption(name), Caption(pair), Caption(steps))
    view = (-0.3, -0.3, SIZE + 0.3, SIZE + 0.3)
    return Scene(frames, view, tuple(shapes), captions, _AROUND, step_seconds=0.2)


def _board(size: int) -> list[Shape]:
    """A board of `size` x `size` cells."""
    shapes: list[Shape] = [Rect(x=0.0, y=0.0, width=size, height=size, fill=_BOARD)]
    for line in range(1, size):
        shapes.append(Line(x=0.0, y=line, dx=size, dy=0.0, stroke=_GRID, stroke_width=0.02))
        shapes.append(Line(x=line, y=0.0, dx=0.0, dy=size, stroke=_GRID, stroke_width=0.02))
    return shapes


def _beams(boards: np.ndarray) -> list[Shape]:
    """The lit cells, given `[F, 2]` words."""
    bits = (boards[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    lit = bits.reshape(len(boards), -1)
    cells = np.flatnonzero(lit.any(0)).tolist()
    place = {cell: (cell // SIZE, SIZE - 1 - cell % SIZE) for cell in cells}
    return [
        Rect(x=place[c][0], y=place[c][1], width=1.0, height=1.0, fill="#4a3f1c", alpha=lit[:, c].astype(np.float64))
        for c in cells
    ]


def _coins(states: Any) -> list[Shape]:
    """A disc for each place, in the colour of its kind."""
    kind, there = np.asarray(states.kind), np.asarray(states.there)
    colors = np.array(_COINS)[kind]
    return [
        Circle(
            x=cell // SIZE + 0.5,
            y=SIZE - 0.5 - cell % SIZE,
            radius=0.22,
            fill=colors[:, i],
            alpha=there[:, i].astype(np.float64),
            tip=Tip("coin", {"kind": kind[:, i]}),
        )
        for i, cell in enumerate(COIN_CELLS.tolist())
    ]


_HEADINGS = "v>^<"  # those of `STEPS`; y goes down
_KINDS = "abcdefghijkl"
_THINGS = "RBrb"


def coin_game_board(state: Any) -> str:
    """One state as text: three rows, the upper one first, and a line that explains the letters."""
    cells = [["", "", ""] for _ in range(3)]
    for letter, (row, column) in zip(_THINGS, np.asarray(state.things).tolist(), strict=True):
        cells[2 - row][column] += letter
    rows = ["  " + "".join(f"{cell or '.':5}" for cell in row).rstrip() for row in cells]
    return "\n".join(
        [*rows, "  R red, B blue, r red's coin, b blue's coin; a step over an edge leads to the other side"]
    )


def storm_board(state: Any) -> str:
    """One state as text: eight rows with what the players in them hold, and a line that explains the characters.

    A player is its number and where it looks.
    """
    state = jax.tree.map(np.asarray, state)
    bits = state.beams[:, None] >> np.arange(32, dtype=np.uint32) & 1
    cells = np.where(bits.reshape(-1), "* ", ". ").reshape(SIZE, SIZE)  # [x, y]
    for cell, kind in zip(COIN_CELLS[state.there].tolist(), state.kind[state.there].tolist(), strict=True):
        cells[divmod(cell, SIZE)] = _KINDS[kind]
    notes = [[] for _ in range(SIZE)]
    for number, (x, y) in enumerate(state.position.tolist()):
        cells[x, y] = f"{number}{_HEADINGS[state.direction[number]]}"
        notes[y].append(_player(number, state.inventory[number].tolist(), int(state.frozen[number])))
    drawn = ["".join(f"{cell:3}" for cell in row) for row in cells.T.tolist()]
    rows = [f"  {row}  {'; '.join(told)}".rstrip() for row, told in zip(drawn, notes, strict=True)]
    coins = [f"{letter} coin of kind {kind}" for kind, letter in enumerate(_KINDS[: state.inventory.shape[1]])]
    return "\n".join([*rows, f"  {', '.join(coins)}, * lit by a zap"])


def _player(number: int, held: list[int], frozen: int) -> str:
    """The things that a player holds, such as `agent_0 holds 2 a, 0 b`."""
    coins = ", ".join(f"{count} {_KINDS[kind]}" for kind, count in enumerate(held))
    return f"agent_{number} holds {coins}" + (f", frozen, steps left {frozen}" if frozen else "")
