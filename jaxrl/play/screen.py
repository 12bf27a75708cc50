"""A moment in a terminal: in words, as a picture of coloured half blocks, or in letters; and a map as a sketch."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from jaxrl.play.editor import Editor
from jaxrl.play.session import Session, Turn
from jaxrl.render import scene as shapes
from jaxrl.render.raster import Painted, pillow

__all__ = ["Screen", "captions", "facts", "half_blocks", "sketched"]

_MARK = "#ff4fd8"
_TILE_COLORS = ("yellow", "cyan", "green", "magenta", "bright_blue", "red")
_WIDEST, _MOST_FACTS = 80, 12
_BESIDES = 12  # lines that a picture leaves for everything else


class Screen:
    """The terminal in which a person sees a game or a map.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._told = False  # why there are no pictures

    def say(self, text: str | Text) -> None:
        """Print lines as they are: only the terminal breaks one that is too long, so that it can be copied."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, session: Session, last: Turn | None = None) -> None:
        """Print the present moment, and what happened just before."""
        words = session.text()
        if words is not None:
            self.say(f"\n{words}")
        else:
            self._draw(session)
        you = session.env.agents[session.seat]
        self.say(f"step {session.num_steps}, you are {you}, your return {session.returns[session.seat]:g}")
        # The words contain only what the viewer may know; the actions of others may be hidden.
        line = "" if last is None else told(session, last.actions if words is None else (), last.rewards)
        if line:
            self.say(line)

    def sketch(self, editor: Editor) -> None:
        """Print the map that is being drawn, in place of what was shown before."""
        room = (max(4, self.console.height - _BESIDES), max(4, self.console.width // 3))
        if self.console.is_terminal:
            self.console.clear()
        colors = self.console.color_system is not None and not self.console.no_color
        self.say(sketched(editor, colors, room if self.console.is_terminal else None))

    def _draw(self, session: Session) -> None:
        """The picture and the facts; where it can't be shown, the board in letters, or only the facts."""
        try:
            scene = session.scene()
        except NotImplementedError:
            seen = np.array2string(session.obs, precision=3, threshold=200)
            self.say(f"\n{session.board() or f'You observe {seen}'}")
            return
        if self.console.is_terminal:
            self.console.clear()
        else:
            self.say("")
        missing = self._missing()
        if missing is None:
            marked, rows = with_mark(scene, session.env.agents[session.seat]), max(8, self.console.height - _BESIDES)
            self.say(half_blocks(pixels(marked, min(self.console.width, _WIDEST), rows)))
        elif not self._told:
            self.say(missing)
            self._told = True
        board = None if missing is None else session.board()
        for line in facts(scene) if board is None else [captions(scene), board]:
            self.say(line)

    def _missing(self) -> str | None:
        """Why there are no pictures here, and what to do about it; None if there are."""
        try:
            pillow()
        except ImportError as error:
            return str(error)
        if self.console.no_color:
            return "Pictures need colours: unset NO_COLOR"
        if self.console.is_dumb_terminal:
            return "Pictures need colours: set TERM to another terminal than a dumb one"
        return None if self.console.color_system else "Pictures need colours: set FORCE_COLOR=1"


def told(session: Session, actions: Sequence[str], rewards: np.ndarray) -> str:
    """The last step in a line, such as `you: up · agent_1: stay · reward +20`."""
    players = ["you" if agent == session.seat else name for agent, name in enumerate(session.env.agents)]
    parts = [f"{player}: {action}" for player, action in zip(players, actions, strict=False)]
    reward = float(rewards[session.seat])
    return " · ".join([*parts, *([f"reward {reward:+g}"] if reward else [])])


def with_mark(scene: shapes.Scene, agent: str) -> shapes.Scene:
    """The scene with a pink ring around the shape whose tip is about this agent, if there is one."""
    about = [shape for shape in scene.shapes if shape.tip is not None and shape.tip.title.partition(",")[0] == agent]
    for shape in about[:1]:
        around = shape.radius if isinstance(shape, shapes.Circle) else 0.0
        radius, width = np.maximum(1.3 * around, 0.03 * scene.width), 0.012 * scene.width
        ring = shapes.Circle(
            x=shape.x, y=shape.y, alpha=shape.alpha, radius=radius, stroke="#ffffff", stroke_width=width
        )
        return dataclasses.replace(scene, shapes=(*scene.shapes, ring))
    return scene


def pixels(scene: shapes.Scene, columns: int, rows: int) -> np.ndarray:
    """The last frame, uint8 `[H, W, 3]`, W at most `columns` and H at most `2 rows`; texts would be too small."""
    width = max(16, min(columns, int(2 * rows * scene.width / scene.height)))
    drawn = tuple(shape for shape in scene.shapes if not isinstance(shape, shapes.Text))
    return Painted(dataclasses.replace(scene, shapes=drawn), width)[scene.num_frames - 1]


def half_blocks(picture: np.ndarray) -> Text:
    """uint8 `[H, W, 3]` as text: a character shows two pixels, the upper one as its colour, the lower one behind it."""
    if len(picture) % 2:
        picture = np.concatenate([picture, picture[-1:]])
    text = Text()
    for upper, lower in zip(picture[::2].tolist(), picture[1::2].tolist(), strict=True):
        for (front, back), run in itertools.groupby(zip(map(tuple, upper), map(tuple, lower), strict=True)):
            style = Style(color=Color.from_rgb(*front), bgcolor=Color.from_rgb(*back))
            text.append("▀" * len(list(run)), style)
        text.append("\n")
    text.right_crop(1)
    return text


def captions(scene: shapes.Scene) -> str:
    """The captions of the last frame, in a line."""
    return " · ".join(text for c in scene.captions if (text := str(shapes.at(c.text, scene.num_frames - 1))))


def facts(scene: shapes.Scene) -> list[str]:
    """The captions, then a line for each thing that a replay describes at the pointer."""
    lines = dict.fromkeys(_things(scene, scene.num_frames - 1))
    return [*filter(None, [captions(scene)]), *list(lines)[:_MOST_FACTS]]


def _things(scene: shapes.Scene, frame: int) -> Iterator[str]:
    """A line for each visible shape that has facts."""
    for shape in scene.shapes:
        if shape.tip is not None and shape.tip.rows and shapes.at(shape.alpha, frame) > 0:
            rows = [f"{label} {_in_words(shapes.at(value, frame))}" for label, value in shape.tip.rows.items()]
            yield f"  {shapes.at(shape.tip.title, frame)}: {', '.join(rows)}"


def _in_words(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def sketched(editor: Editor, colors: bool, room: tuple[int, int] | None = None) -> Text:
    """The map in letters; the cell that the next key changes is bright, or in brackets without colours.

    `room` is how many rows and columns are shown at most, those about the cell.
    """
    text, tiles, sketch = Text(), list(editor.map.tiles), editor.sketch
    high, wide = room or (len(sketch.rows), sketch.width)
    top = max(0, min(sketch.y - high // 2, len(sketch.rows) - high))
    left = max(0, min(sketch.x - wide // 2, sketch.width - wide))
    for y, row in enumerate(sketch.rows[top : top + high], top):
        for x, tile in enumerate(row[left : left + wide], left):
            here, letter = (y, x) == (sketch.y, sketch.x), "·" if tile in " ." else tile
            plain = tile in (" ", ".", editor.map.wall) or tile not in tiles
            color = None if plain else _TILE_COLORS[tiles.index(tile) % len(_TILE_COLORS)]
            style = Style(color=color, bold=color is not None, reverse=here) if colors else Style()
            text.append(f"[{letter}]" if here and not colors else f" {letter} ", style)
        text.append("\n")
    text.right_crop(1)
    return text
