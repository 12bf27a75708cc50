"""The pictures of a finished run: curve.png, replay.gif, replay.html."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxrl.algorithm import Algorithm
from jaxrl.environment import Environment
from jaxrl.replay import Replay, record
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.health.mishap import in_words
from jaxrl.train.pictures.curve import save_curve
from jaxrl.train.signals import until_a_signal

__all__ = [
    "FILM_STEPS",
    "record_episode",
    "record_episodes",
    "save_pictures",
    "save_replays",
]


FILM_STEPS = 1000
"""The most steps in a replay: some environments never end."""


def save_pictures(
    folder: RunFolder, algo: Algorithm, env: Environment, state: Any, title: str, say: Callable[[str], None]
) -> list[Path]:
    """Write the curve and the replays of a run; report what cannot be made and why. Returns the files that were made.

    Nothing is raised, whatever goes wrong: the run is over and its result must not be lost. A signal only ends the
    drawing.

    Args:
        folder: The run's folder.
        algo: The run's algorithm.
        env: The run's environment.
        state: The train state of the member to show.
        title: The title of the curve.
        say: Called with a sentence for each picture that is missing.
    """

    def draw(path: Path) -> None:
        save_curve(path, folder.metrics.read(), folder.evaluations.read(), title)

    replays = [folder.path / "replay.gif", folder.path / "replay.html"]
    made: list[Path] = []
    with until_a_signal() as request:
        made += _made(folder.path / "curve.png", draw, say)
        made += save_replays(replays, algo, env, state, say)
    if request:
        say(f"{request.name} ended the drawing; `jaxrl render RUN` films the run.")
    return made


def save_replays(
    paths: Sequence[Path], algo: Algorithm, env: Environment, state: Any, say: Callable[[str], None], seed: int = 0
) -> list[Path]:
    """Record one greedy episode and write it to each of `paths` (`.gif`, `.html`). Returns the files that were made."""
    from jaxrl.render import save

    try:
        replay = record_episode(algo, env, state, seed, say=say)
    except Exception as error:
        say(f"No replay: {in_words(error)}")
        return []
    return [made for path in paths for made in _made(path, lambda new: save(replay, new), say)]


def _made(path: Path, write: Callable[[Path], None], say: Callable[[str], None]) -> list[Path]:
    """Have `write` make a file, which appears once it is complete. Returns `[path]`, or `[]` after saying why."""
    new = path.with_name(f"{path.stem}.new{path.suffix}")
    try:
        write(new)
        if not new.exists():  # there was nothing to show
            return []
        os.replace(new, path)
    except Exception as error:  # an author's `draw` may raise anything
        say(f"No {path.name}: {in_words(error)}")
        return []
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
    return [path]


def record_episode(
    algo: Algorithm,
    env: Environment,
    state: Any,
    seed: int = 0,
    max_steps: int | None = None,
    say: Callable[[str], None] = print,
) -> Replay:
    """The first of `record_episodes`."""
    return record_episodes(algo, env, state, 1, seed, max_steps, say)[0]


def record_episodes(
    algo: Algorithm,
    env: Environment,
    state: Any,
    count: int,
    seed: int = 0,
    max_steps: int | None = None,
    say: Callable[[str], None] = print,
) -> list[Replay]:
    """Record episodes of the greedy policy in `state` (the state of one member).

    Args:
        algo: The algorithm.
        env: The environment to play in.
        state: The train state.
        count: The number of episodes.
        seed: Determines the first episode; the next one has the next seed.
        max_steps: The most steps of each to record; None for `FILM_STEPS`.
        say: Called with a sentence if an episode is cut.
    """

    def act(obs: Any, carry: Any, key: jax.Array, action_mask: Any) -> tuple[Any, Any]:
        obs, action_mask = jax.tree.map(lambda leaf: leaf[None], (obs, action_mask))
        action, carry = algo.act(state, obs, carry, action_mask=action_mask)
        return jax.tree.map(lambda leaf: leaf[0], action), carry

    most = FILM_STEPS if max_steps is None else max_steps
    replays = [record(env, act, jax.random.key(seed + number), max_steps=most) for number in range(count)]
    for replay in replays:
        if replay.cut:
            say(
                f"The episode goes on after {replay.num_steps:,} steps but its film ends; "
                f"`jaxrl render RUN --max-steps N` films N."
            )
            break
    return replays
