"""Turns scenes into pixels with Pillow (extra `viz`): drawn larger and scaled down, which smooths all edges."""

from __future__ import annotations

import functools
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrl.render.scene import Circle, Ellipse, Line, Picture, Polygon, Rect, Scene, Shape, Text, at

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

__all__ = ["Painted", "pillow", "rasterise"]

_SUPERSAMPLE = 3
_ANCHORS = {"left": "lm", "middle": "mm", "right": "rm"}


def pillow() -> None:
    """Check that Pillow is installed.

    Raises:
        ImportError: It is not; the message has the command that installs it.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise ImportError('Pictures need Pillow: pip install "jaxrl[viz]"') from error


def rasterise(scene: Scene, width: int = 480) -> np.ndarray:
    """All frames of a scene, uint8 `[F, H, W, 3]` with `W = width` pixels; H follows from the scene's view.

    Captions are not drawn; `scene.with_captions` turns them into shapes.

    Raises:
        ImportError: Pillow is not installed.
        ValueError: The width is less than 16.
    """
    painted = Painted(scene, width)
    return np.stack([painted[frame] for frame in range(len(painted))])


class Painted:
    """The frames of a scene like those of `rasterise`, each painted when it is asked for: long films fit in memory."""

    def __init__(self, scene: Scene, width: int = 480) -> None:
        pillow()
        from PIL import Image

        if width < 16:
            raise ValueError(f"A picture must be at least 16 pixels wide, got {width}.")
        self._scene = scene
        size = (width * _SUPERSAMPLE, max(1, round(width * scene.height / scene.width)) * _SUPERSAMPLE)
        still, self._moving = _split_still(scene.shapes)
        self._backdrop = Image.new("RGB", size, scene.background)
        _paint(self._backdrop, scene, still, 0)

    def __len__(self) -> int:
        return self._scene.num_frames

    def __getitem__(self, frame: int) -> np.ndarray:
        """One frame, uint8 `[H, W, 3]`."""
        image = self._backdrop.copy()
        _paint(image, self._scene, self._moving, frame)
        return np.asarray(image.reduce(_SUPERSAMPLE))


def _split_still(shapes: tuple[Shape, ...]) -> tuple[list[Shape], list[Shape]]:
    """The leading shapes that never change, painted once, and the rest."""
    for count, shape in enumerate(shapes):
        if any(isinstance(value, np.ndarray) and value.ndim for value in vars(shape).values()):
            return list(shapes[:count]), list(shapes[count:])
    return list(shapes), []


def _paint(image: Image.Image, scene: Scene, shapes: list[Shape], frame: int) -> None:
    from PIL import ImageDraw

    brush = ImageDraw.Draw(image, "RGBA")  # in this mode a fill with alpha is blended
    scale = image.width / scene.width
    for shape in shapes:
        alpha = float(at(shape.alpha, frame))
        if alpha <= 0:
            continue
        x = (float(at(shape.x, frame)) - scene.view[0]) * scale
        y = (scene.view[3] - float(at(shape.y, frame))) * scale
        if isinstance(shape, Picture):
            _paste(image, shape, frame, x, y, scale, alpha)
            continue
        _PAINTERS[type(shape)](brush, shape, frame, x, y, scale, alpha)


def _paste(image: Image.Image, shape: Picture, frame: int, x: float, y: float, s: float, alpha: float) -> None:
    from PIL import Image

    size = max(1, round(shape.width * s)), max(1, round(shape.height * s))
    with Image.open(io.BytesIO(at(shape.png, frame))) as picture:
        resized = picture.convert("RGB").resize(size)
    image.paste(resized, (round(x), round(y) - size[1]), Image.new("L", size, round(255 * min(alpha, 1.0))))


def _circle(brush: ImageDraw.ImageDraw, shape: Circle, frame: int, x: float, y: float, s: float, alpha: float) -> None:
    r = float(at(shape.radius, frame)) * s
    outline, width = _outline(shape, frame, s, alpha)
    # Pillow draws outlines inwards; a stroke is centred on the edge.
    r += width / 2
    brush.ellipse((x - r, y - r, x + r, y + r), _color(at(shape.fill, frame), alpha), outline, width)


def _polygon(brush: ImageDraw.ImageDraw, shape: Polygon, frame: int, x: float, y: float, s: float, a: float) -> None:
    r, start = float(at(shape.radius, frame)) * s, float(at(shape.angle, frame))
    turns = [start + 2 * math.pi * k / shape.sides for k in range(shape.sides)]
    corners = [(x + r * math.cos(turn), y - r * math.sin(turn)) for turn in turns]
    if (fill := _color(at(shape.fill, frame), a)) is not None:
        brush.polygon(corners, fill)
    outline, width = _outline(shape, frame, s, a)
    if outline is not None:
        brush.line([*corners, *corners[:2]], outline, width, joint="curve")


def _rect(brush: ImageDraw.ImageDraw, shape: Rect, frame: int, x: float, y: float, s: float, alpha: float) -> None:
    x, y = x + float(at(shape.dx, frame)) * s, y - float(at(shape.dy, frame)) * s
    width, height = float(at(shape.width, frame)) * s, float(at(shape.height, frame)) * s
    if width < 1 or height < 1:
        return
    box, color = (x, y - height, x + width - 1, y - 1), _color(at(shape.fill, frame), alpha)
    if isinstance(shape, Ellipse):
        brush.ellipse(box, color)
    else:
        brush.rounded_rectangle(box, min(shape.corner * s, width / 2, height / 2), color)


def _line(brush: ImageDraw.ImageDraw, shape: Line, frame: int, x: float, y: float, s: float, alpha: float) -> None:
    to_x, to_y = x + float(at(shape.dx, frame)) * s, y - float(at(shape.dy, frame)) * s
    width = max(1, round(float(at(shape.stroke_width, frame)) * s))
    color = _color(at(shape.stroke, frame), alpha)
    brush.line((x, y, to_x, to_y), color, width)
    if alpha >= 1 and width > 2:  # round ends; a translucent one would be painted twice where they overlap
        r = (width - 1) / 2
        for end_x, end_y in ((x, y), (to_x, to_y)):
            brush.ellipse((end_x - r, end_y - r, end_x + r, end_y + r), color)


def _text(brush: ImageDraw.ImageDraw, shape: Text, frame: int, x: float, y: float, s: float, alpha: float) -> None:
    color = _color(at(shape.fill, frame), alpha)
    brush.text((x, y), str(at(shape.text, frame)), color, _font(shape.size * s), _ANCHORS[shape.align])


_PAINTERS: dict[type, Any] = {Circle: _circle, Polygon: _polygon, Rect: _rect, Ellipse: _rect, Line: _line, Text: _text}


def _outline(shape: Circle, frame: int, s: float, alpha: float) -> tuple[tuple[int, int, int, int] | None, int]:
    color = _color(at(shape.stroke, frame), alpha)
    return color, 0 if color is None else max(1, round(float(at(shape.stroke_width, frame)) * s))


@functools.lru_cache(maxsize=4096)
def _color(text: str | None, alpha: float) -> tuple[int, int, int, int] | None:
    if text is None:
        return None
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16), round(255 * min(alpha, 1.0))


@functools.lru_cache(maxsize=64)
def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(max(size, 1.0))
