"""`jaxrl play` and `jaxrl edit`: a person plays, with a trained partner, or draws a map to play on."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from jaxrl.cli.common import WHOLE, check_film, use_cache, use_cores
from jaxrl.config import as_seed
from jaxrl.errors import shell_path

if TYPE_CHECKING:
    from jaxrl.environment import Environment
    from jaxrl.play import Editor, Screen, Session, Words
    from jaxrl.play.session import Partner

__all__ = ["edit", "play"]

_PAUSE = 0.3  # seconds between moments in which the person has no choice


@dataclasses.dataclass(frozen=True)
class PlayFlags:
    """Play an environment yourself, in the terminal; the game is kept as a replay."""

    env: tyro.conf.Positional[str]
    """The environment, such as overcooked/cramped_room, hanabi/2p, smax/3m or minatar/breakout."""
    partner: Annotated[str | None, tyro.conf.arg(name="with")] = None
    """The run folder whose policy acts for all other agents. RUN:2 is the seed with index 2; the best one if left out.
    "scripted" is the environment's own rules, such as Hanabi's. Without a partner, they act at random."""
    seat: int = 0
    """Which agent is yours."""
    seed: int = 0
    """Seed of the game."""
    greedy: bool = True
    """The partner takes the most likely actions; --no-greedy draws them."""
    out: Path | None = None
    """Where to write the replay: .html, .gif or .mp4. By default play.html, then play-2.html and so on."""
    record: Path | None = None
    """Add the game to this folder of recorded steps, to learn from: jaxrl train bc --data FOLDER."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""


def play(argv: list[str]) -> int:
    """`jaxrl play ENV`; returns the exit code."""
    flags = tyro.cli(PlayFlags, args=argv, prog="jaxrl play", registry=WHOLE)
    as_seed("--seed", flags.seed)
    out = flags.out or _unused(Path("play.html"))
    check_film(out)
    use_cores()
    use_cache()
    from jaxrl.play import Screen, Session, Words
    from jaxrl.play.input import from_keys, from_lines, has_keys
    from jaxrl.registry import make

    env = make(flags.env)
    partner = None if flags.partner is None else _partner(env, flags)
    session = Session(env, partner, seat=flags.seat, seed=flags.seed, greedy=flags.greedy)
    screen, words = Screen(Console()), Words(session.names)
    keys = words.single and has_keys(sys.stdin)
    screen.say(_welcome(flags, session, words, keys))
    try:
        with contextlib.closing(from_keys(sys.stdin) if keys else from_lines(sys.stdin)) as typed:
            _play(session, screen, words, typed)
    except KeyboardInterrupt:
        screen.say("")
    _keep(flags, session, screen, out)
    return 0


def _unused(path: Path) -> Path:
    """The path, or the first with `-2`, `-3`, … behind its name that is not there: nobody plays a game twice."""
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], others) if not each.exists())


def _partner(env: Environment, flags: PlayFlags) -> Partner:
    """The policy of the run, which must have been trained in this environment, or the environment's own rules."""
    from jaxrl.play.session import ByRules, ForSome
    from jaxrl.registry import canonical
    from jaxrl.train.folder.load import load
    from jaxrl.train.folder.sources import portable
    from jaxrl.wrappers import as_multi_agent
    from jaxrl.wrappers.players import SCRIPTED

    here = as_multi_agent(env)
    if here.num_agents == 1:
        raise ValueError(f"{flags.env} has a single agent, and it is yours; leave out --with.")
    if flags.partner == SCRIPTED:
        if here.scripted_policy is None:
            raise ValueError(f"{flags.env} has no rules by which the others could act; give --with a run, or nothing.")
        return ByRules(here.scripted_policy)
    run = load(flags.partner, trust=flags.trust).member()
    there = as_multi_agent(run.env)
    base = [portable(canonical(name)).partition("?")[0] for name in (flags.env, run.config.env)]  # a file and its copy
    forms = [(each.observation_space().shape, each.action_space()) for each in (here, there)]
    if base[0] != base[1] or forms[0] != forms[1] or there.num_agents > here.num_agents:
        itself = f"type jaxrl play {shlex.quote(run.config.env)} --with {shell_path(str(flags.partner))}"
        raise ValueError(
            f"The run in {run.folder.path} was trained in {run.config.env} and does not fit {flags.env}; "
            + (itself if there.num_agents > 1 else "it has no seat for another; give --with another run.")
        )
    if there.num_agents == here.num_agents:
        return run.policy
    free = [number for number, agent in enumerate(here.agents) if agent not in there.agents]
    if free != [flags.seat]:
        hint = f"take the other seat: --seat {free[0]}" if len(free) == 1 else "that leaves others without a policy"
        raise ValueError(f"The run in {run.folder.path} acts for {', '.join(there.agents)} alone; {hint}.")
    return ForSome(run.policy, [here.agents.index(agent) for agent in there.agents])


def _welcome(flags: PlayFlags, session: Session, words: Words, keys: bool) -> str:
    """Who plays, and what can be typed."""
    others = [agent for number, agent in enumerate(session.env.agents) if number != session.seat]
    by = f"are played by {flags.partner}" if flags.partner else "act at random; --with RUN gives them a policy"
    how = "Press a key, or an arrow" if keys else "Type, and press Enter"
    return (
        f"{flags.env}: you are {session.env.agents[session.seat]}."
        + (f" The others, {', '.join(others)}, {by}." if others else "")
        + f"\n{how}: {words.legend(range(len(words.names)))}. q ends the game, ? lists what is possible now."
    )


def _play(session: Session, screen: Screen, words: Words, typed: Iterator[str]) -> None:
    """Play until the game or the input ends, or the person quits."""
    turn = None
    screen.show(session)
    while not session.done:
        legal = session.legal
        forced = len(legal) == 1 < len(session.names)
        if forced and screen.console.is_terminal:
            time.sleep(_PAUSE)
        action = legal[0] if forced else _choice(legal, screen, words, typed)
        if action is None:
            return
        turn = session.step(action)
        screen.show(session, turn)


def _choice(legal: list[int], screen: Screen, words: Words, typed: Iterator[str]) -> int | None:
    """The action that the person chooses; None to quit."""
    for text in typed:
        if text == "q":
            return None
        try:
            if text == "?":
                screen.say(f"You can type {words.legend(legal)}.")
            else:
                return words.find(text, legal)
        except ValueError as error:
            screen.say(str(error))
    return None


def _keep(flags: PlayFlags, session: Session, screen: Screen, out: Path) -> None:
    """Say how it ended, and write the replay to `out`."""
    from jaxrl.render import save
    from jaxrl.train.folder.disk import writing

    if not session.num_steps:
        screen.say("Nothing was played.")
        return
    replay = session.replay()
    screen.say(f"\n{replay.title}. Your return is {session.returns[session.seat]:g}.")
    if flags.record is not None:
        _record(flags, session, flags.record, screen)
    try:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            save(replay, out)
        screen.say(f"Wrote {out}, the whole game to look at again.")
    except NotImplementedError as error:
        screen.say(f"No replay: {error}")
    chosen = f" --with {shell_path(flags.partner)}" if flags.partner else ""
    seat = f" --seat {flags.seat}" if flags.seat else ""
    screen.say(f"Another game: jaxrl play {shlex.quote(flags.env)}{chosen}{seat} --seed {flags.seed + 1}")


def _record(flags: PlayFlags, session: Session, folder: Path, screen: Screen) -> None:
    """Add the game to a folder of recorded steps."""
    from jaxrl.data import Writer
    from jaxrl.registry import made_name
    from jaxrl.train.folder.disk import writing

    origin = {"player": "a person", "seat": flags.seat, "with": flags.partner, "seed": flags.seed}
    with writing(folder, "--record"):
        Writer(folder, made_name(session.env), 1, origin).write(session.steps())
    screen.say(f"Added {session.num_steps} steps to {folder}: jaxrl data {shell_path(str(folder))}")


_DONE, _QUIT = ("\n", "\r", "done"), "q"


@dataclasses.dataclass(frozen=True)
class EditFlags:
    """Draw a map of your own in the terminal; it becomes part of the environment's name, and a battle a file."""

    env: tyro.conf.Positional[str]
    """The environment whose map to begin with: overcooked/cramped_room, jaxnav/own, smax/3m, smax/my_battle.txt …"""
    out: Path | None = None
    """Of a battle: the .txt file to keep it in, by default my_battle.txt, or an .html page to draw with the mouse."""


def edit(argv: list[str]) -> int:
    """`jaxrl edit ENV`; returns the exit code."""
    flags = tyro.cli(EditFlags, args=argv, prog="jaxrl edit")
    use_cores()
    from jaxrl.envs.smax.drawing import battle_page
    from jaxrl.play import Editor, Screen
    from jaxrl.play.input import from_keys, from_lines, has_keys
    from jaxrl.registry import make, spelled
    from jaxrl.spaces import Discrete

    screen, keys, replaces = Screen(Console()), has_keys(sys.stdin), False
    if flags.out is not None and flags.out.suffix == ".html":
        _write(flags.out, battle_page(flags.env), screen)
        screen.say("Open it, draw, and save battle.txt. Train in it: jaxrl train ippo --env smax/battle.txt")
        return 0
    editor = Editor(flags.env)
    out = flags.out or Path(editor.map.file)
    if flags.out is not None and (out.suffix != ".txt" or not editor.map.file):
        raise ValueError("--out is for battles, such as smax/3m, and names a .txt file or an .html page.")
    try:
        with contextlib.closing(from_keys(sys.stdin) if keys else from_lines(sys.stdin)) as typed:
            _draw(editor, screen, typed, "Enter" if keys else "done")
            if editor.map.file and out.exists():
                screen.say(f"Replace {out}? y does, and anything else keeps it.")
                replaces = next(typed, "") in ("y", "yes")
    except KeyboardInterrupt:
        screen.say("")
    name, problem = shlex.quote(editor.name), editor.problem
    if editor.map.file:
        out = out if replaces else _unused(out)
        _write(out, editor.map.text(editor.sketch.rows).replace("|", "\n") + "\n", screen)
        name = shlex.quote(spelled(f"{editor.map.env}/{out}", {**editor.map.others}))
    if problem is not None:
        screen.say(f"The map is not finished. {problem}\nGo on with it: jaxrl edit {name}")
        return 0
    if isinstance(make(editor.name).action_space(), Discrete):
        screen.say(f"Play in it: jaxrl play {name}")
    screen.say(f"Train in it: jaxrl train ippo --env {name}\nChange it: jaxrl edit {name}")
    return 0


def _write(out: Path, text: str, screen: Screen) -> None:
    """Write a file, and say so."""
    from jaxrl.train.folder.disk import writing

    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    screen.say(f"Wrote {out}.")


def _draw(editor: Editor, screen: Screen, typed: Iterator[str], finish: str) -> None:
    """Draw until the person is done, or the input ends."""
    keys = f"{editor.legend}\n{editor.keys}, {finish} finishes, {_QUIT} stops{editor.map.note}"
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
