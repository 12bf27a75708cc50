"""What a finished run leaves for people to look at: curve.png, replay.gif, replay.html."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm
from jaxrl.environment import Environment
from jaxrl.replay import Replay, record
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.health.mishap import in_words
from jaxrl.train.pictures.curve import save_curve

__all__ = ["FILM_STEPS", "best_member", "member_of", "record_episode", "save_pictures", "save_replays"]


FILM_STEPS = 1000
"""Where the film of an episode is cut that has not ended: there are environments without an end."""


def save_pictures(
    folder: RunFolder, algo: Algorithm, env: Environment, state: Any, title: str, say: Callable[[str], None]
) -> list[Path]:
    """Write the curve and the replays of a run; what cannot be made is said, with the reason. Returns what was made.

    Whatever goes wrong, nothing is raised: the run is over and its result is to be had.

    Args:
        folder: The run.
        algo: Its algorithm.
        env: Its environment.
        state: The train state of the member to show.
        title: Of the curve.
        say: Told what is missing.
    """

    def draw(path: Path) -> None:
        save_curve(path, folder.metrics.read(), folder.evaluations.read(), title)

    replays = [folder.path / "replay.gif", folder.path / "replay.html"]
    return _made(folder.path / "curve.png", draw, say) + save_replays(replays, algo, env, state, say)


def save_replays(
    paths: Sequence[Path], algo: Algorithm, env: Environment, state: Any, say: Callable[[str], None], seed: int = 0
) -> list[Path]:
    """Record one greedy episode and write it to each of `paths` (`.gif`, `.html`). Returns those that were made."""
    from jaxrl.render import save

    try:
        replay = record_episode(algo, env, state, seed, say=say)
    except Exception as error:
        say(f"No replay: {in_words(error)}")
        return []
    return [made for path in paths for made in _made(path, lambda new: save(replay, new), say)]


def _made(path: Path, write: Callable[[Path], None], say: Callable[[str], None]) -> list[Path]:
    """Have `write` make a file, which appears when it is whole. Returns it, or nothing and says why."""
    new = path.with_name(f"{path.stem}.new{path.suffix}")
    try:
        write(new)
        if not new.exists():  # there was nothing to show
            return []
        os.replace(new, path)
    except Exception as error:  # an author's `draw` may raise anything
        say(f"No {path.name}: {in_words(error)}")
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        return []
    return [path]


def record_episode(
    algo: Algorithm,
    env: Environment,
    state: Any,
    seed: int = 0,
    max_steps: int | None = None,
    say: Callable[[str], None] = print,
) -> Replay:
    """One episode of the greedy policy in `state` (that of one member).

    Args:
        algo: The algorithm.
        env: Where to play.
        state: The train state.
        seed: Decides the episode.
        max_steps: Where it is cut if it has not ended; None for `FILM_STEPS`.
        say: Told if it is.
    """

    def act(obs: Any, carry: Any, key: jax.Array, action_mask: Any) -> tuple[Any, Any]:
        obs, action_mask = jax.tree.map(lambda leaf: leaf[None], (obs, action_mask))
        action, carry = algo.act(state, obs, carry, action_mask=action_mask)
        return jax.tree.map(lambda leaf: leaf[0], action), carry

    replay = record(env, act, jax.random.key(seed), max_steps=FILM_STEPS if max_steps is None else max_steps)
    if replay.cut:
        say(
            f"The episode goes on after {replay.num_steps:,} steps but its film ends; "
            f"`jaxrl render RUN --max-steps N` films N."
        )
    return replay


def best_member(state: Any, evaluation: dict[str, Any], members: int) -> Any:
    """The state of the member that did best in an evaluation's summary; `state` itself for one member."""
    if members == 1:
        return state
    scores = np.nan_to_num(np.asarray(evaluation.get("win_rate", evaluation["return_mean"]), np.float64), nan=-np.inf)
    return member_of(state, int(scores.argmax()))


def member_of(state: Any, member: int) -> Any:
    """The state of one member, out of leaves `[M, …]`."""

    def pick(leaf: jax.Array) -> jax.Array:
        # Looking at a key is not using it: the whole state stays good to train on.
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return (jax.random.clone(leaf) if is_key else leaf)[member]

    return jax.tree.map(pick, state)
