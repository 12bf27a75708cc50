"""`jaxrl edit`: a person draws a map, and gets the name of the environment that has it."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import tyro
from rich.console import Console

from jaxrl.cli.cores import use_cores

if TYPE_CHECKING:
    from jaxrl.play import Editor, Screen

__all__ = ["main"]

_DONE, _QUIT = ("\n", "\r", "done"), "q"


@dataclasses.dataclass(frozen=True)
class EditFlags:
    """Draw a map of your own in the terminal; it becomes part of the environment's name."""

    env: tyro.conf.Positional[str]
    """The environment whose map to begin with: overcooked/cramped_room, overcooked_v2/two_rooms, jaxnav/own …"""


def main(argv: list[str]) -> int:
    """`jaxrl edit ENV`; returns the exit code."""
    flags = tyro.cli(EditFlags, args=argv, prog="jaxrl edit")
    use_cores()
    from jaxrl.play import Editor, Screen
    from jaxrl.play.keyboard import from_keys, from_lines, has_keys
    from jaxrl.registry import make
    from jaxrl.spaces import Discrete

    editor, screen, keys = Editor(flags.env), Screen(Console()), has_keys(sys.stdin)
    try:
        with contextlib.closing(from_keys(sys.stdin) if keys else from_lines(sys.stdin)) as typed:
            _draw(editor, screen, typed, "Enter" if keys else "done")
    except KeyboardInterrupt:
        screen.say("")
    name, problem = shlex.quote(editor.name), editor.problem
    if problem is not None:
        screen.say(f"The map is not finished. {problem}\nGo on with it: jaxrl edit {name}")
        return 0
    if isinstance(make(editor.name).action_space(), Discrete):
        screen.say(f"Play in it: jaxrl play {name}")
    screen.say(f"Train in it: jaxrl train ippo --env {name}\nChange it: jaxrl edit {name}")
    return 0


def _draw(editor: Editor, screen: Screen, typed: Iterator[str], finish: str) -> None:
    """Draw until the person is done, or the input ends."""
    keys = f"{editor.legend}\n{editor.keys}, {finish} finishes, {_QUIT} stops"
    _show(editor, screen, keys)
    for key in typed:
        if key == _QUIT or (key in _DONE and editor.problem is None):
            return
        if not key:
            continue
        try:
            if key not in _DONE:
                editor.type(key)
        except ValueError as error:
            screen.say(str(error))
            continue
        _show(editor, screen, keys if screen.console.is_terminal else "")


def _show(editor: Editor, screen: Screen, keys: str) -> None:
    """The map, what is wrong with it, and what can be typed."""
    screen.sketch(editor)
    screen.say(f"\n{editor.problem or 'This map can be played.'}\n")
    if keys:
        screen.say(keys)
