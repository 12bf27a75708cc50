"""`jaxrl watch`: the dashboard of a run in another terminal, or of one that has ended."""

from __future__ import annotations

import dataclasses
import io
import re
import time
from pathlib import Path
from typing import Any

import tyro

from jaxrl.cli.common import check_folder
from jaxrl.errors import shell_path
from jaxrl.train.folder.disk import writing
from jaxrl.train.folder.run_folder import RunFolder, latest_run
from jaxrl.train.folder.run_info import PLAN_FILES, plan_in, read_ending
from jaxrl.train.live.heartbeat import Follower
from jaxrl.train.live.progress import evaluation_line, on_terminal, row_line

__all__ = ["watch"]

_LATE = ("finalists", "test")
"""The runs of a search that train after all others, in this order."""


@dataclasses.dataclass(frozen=True)
class WatchFlags:
    """Show a run that is training in another terminal, until it ends. Ctrl-C only stops watching."""

    run: tyro.conf.Positional[Path | None] = None
    """The folder of a run, a sweep or a search; the latest run in runs/ if left out."""
    every: float = 1.0
    """Seconds between updates of the view."""
    once: bool = False
    """Show the current state and exit."""
    svg: Path | None = None
    """Also save the view as an SVG picture when the run ends, or at once with --once."""
    width: int | None = None
    """Characters per line; left out, the width of the terminal, up to 120."""


def watch(argv: list[str]) -> int:
    """`jaxrl watch [RUN]`; returns the exit code: 1 if the run diverged, was not saved, or its process is gone."""
    flags = tyro.cli(WatchFlags, args=argv, prog="jaxrl watch")
    if flags.every <= 0:
        raise ValueError(f"--every must be positive, got {flags.every}.")
    if flags.width is not None and flags.width < 1:
        raise ValueError(f"--width must be at least 1, got {flags.width}.")
    if flags.svg is not None:
        check_folder(flags.svg.parent, "--svg")
    folder = flags.run or latest_run()
    try:
        if kind := plan_in(folder):
            return _watch_many(folder, kind, flags)
        if not (folder / "live.json").exists():  # a run that is still compiling has no run.json yet
            RunFolder.open(folder)
        follower = _watch(folder, flags)
    except KeyboardInterrupt:
        print(f"The run goes on. Look again with: jaxrl watch {shell_path(folder)}")
        return 0
    return 1 if follower.gone or follower.status in ("diverged", "failed", "unsaved") else 0


def _watch(folder: Path, flags: WatchFlags) -> Follower:
    """Watch one run until it ends."""
    follower = Follower(RunFolder(folder))
    if on_terminal() and not flags.once:
        _show(follower, flags)
    else:
        _print(follower, flags)
    if flags.svg is not None:
        _save(follower, flags)
    if follower.error:
        print(follower.error)
    if follower.gone:
        again = f"jaxrl resume {shell_path(folder)}"
        print(f"Its process is gone. What was saved can be continued with: {again}")
    return follower


def _watch_many(folder: Path, kind: str, flags: WatchFlags) -> int:
    """Watch the runs of a sweep or a search: the newest one, then each that follows; returns the exit code."""
    done: set[Path] | None = None
    while True:
        status, _ = read_ending(folder / PLAN_FILES[kind])
        groups = _runs_in(folder)
        done = set(groups[:-1]) if done is None else done
        for group in [group for group in groups if group not in done]:
            print(f"{group.relative_to(folder)} of {folder}")
            follower = _watch(group, flags)
            done.add(group)
            if follower.gone and not flags.once:
                return 1
        if status == "failed":
            print(f"The {kind} in {folder} has failed; where it ran, an error says why.")
        if status != "running" or flags.once:
            return 0 if status in ("running", "finished") else 1
        time.sleep(flags.every)


def _runs_in(folder: Path) -> list[Path]:
    """The runs of a sweep or a search that have begun, in the order in which they train."""
    places = ("group-*", "tuning/*", "tuning/batch-*/group-*", "test")
    found = [path.parent for place in places for path in folder.glob(f"{place}/live.json")]
    return sorted(found, key=lambda run: (_LATE.index(run.name) if run.name in _LATE else -1, run))


def _show(follower: Follower, flags: WatchFlags) -> None:
    """Show the dashboard until the run ends."""
    from rich.console import Console
    from rich.live import Live

    console = Console(width=flags.width)
    with Live(get_renderable=lambda: _drawn(follower, console.width), console=console, auto_refresh=False) as live:
        while True:
            follower.read()
            live.refresh()
            if follower.ended:
                return
            time.sleep(flags.every)


def _print(follower: Follower, flags: WatchFlags) -> None:
    """Without a terminal: print the dashboard once, or a line whenever there is news."""
    from rich.console import Console

    view = follower.read()
    if flags.once:
        console = Console(width=flags.width)
        console.print(_drawn(follower, console.width))
        return
    print(view.title, flush=True)
    shown: tuple[Any, Any] = (None, None)
    while True:
        if view.row is not None and view.row is not shown[0]:
            print(row_line(view), flush=True)
        if view.evaluation is not None and view.evaluation is not shown[1]:
            print(evaluation_line(view.evaluation), flush=True)
        shown = (view.row, view.evaluation)
        if follower.ended:
            print(view.phase)
            return
        time.sleep(flags.every)
        view = follower.read()


def _drawn(follower: Follower, width: int) -> Any:
    from jaxrl.train.live.dashboard import draw

    return draw(follower.view, width)


def _save(follower: Follower, flags: WatchFlags) -> None:
    """Save the view as an SVG picture."""
    from rich.console import Console

    assert flags.svg is not None
    width = flags.width or 100
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(_drawn(follower, width))
    picture = console.export_svg(title=f"jaxrl watch {flags.run or ''}".strip())
    # Remove the fonts that it would download; any monospaced font will do.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    with writing(flags.svg, "--svg"):
        flags.svg.parent.mkdir(parents=True, exist_ok=True)
        flags.svg.write_text(picture, encoding="utf-8")
    print(f"Wrote {flags.svg}")
