"""What a finished run leaves for people to look at: curve.png, replay.gif, replay.html."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm
from jaxrl.environment import Environment
from jaxrl.train.curve import save_curve
from jaxrl.train.run_folder import RunFolder

if TYPE_CHECKING:
    from jaxrl.render import Replay

__all__ = ["best_member", "member_of", "record_episode", "save_pictures", "save_replays"]


def save_pictures(
    folder: RunFolder, algo: Algorithm, env: Environment, state: Any, title: str, say: Callable[[str], None]
) -> list[Path]:
    """Write the curve and the replays of a run; what cannot be made is said, with the reason. Returns what was made.

    Args:
        folder: The run.
        algo: Its algorithm.
        env: Its environment.
        state: The train state of the member to show.
        title: Of the curve.
        say: Told what is missing.
    """
    made = []
    try:
        save_curve(folder.path / "curve.png", folder.metrics.read(), folder.evaluations.read(), title)
        made += [path for path in [folder.path / "curve.png"] if path.exists()]
    except (ImportError, OSError) as error:
        say(str(error))
    return made + save_replays([folder.path / "replay.gif", folder.path / "replay.html"], algo, env, state, say)


def save_replays(
    paths: Sequence[Path], algo: Algorithm, env: Environment, state: Any, say: Callable[[str], None], seed: int = 0
) -> list[Path]:
    """Record one greedy episode and write it to each of `paths` (`.gif`, `.html`). Returns those that were made."""
    from jaxrl.render import save

    made = []
    try:
        replay = record_episode(algo, env, state, seed)
    except NotImplementedError as error:
        say(f"No replay: {error}")
        return made
    for path in paths:
        try:
            save(replay, path)
            made.append(path)
        except (ImportError, NotImplementedError, OSError) as error:
            say(f"No {path.name}: {error}")
    return made


def record_episode(algo: Algorithm, env: Environment, state: Any, seed: int = 0) -> Replay:
    """One episode of the greedy policy in `state` (that of one member)."""
    from jaxrl.render import record

    def act(obs: Any, carry: Any, key: jax.Array, action_mask: Any) -> tuple[Any, Any]:
        obs, action_mask = jax.tree.map(lambda leaf: leaf[None], (obs, action_mask))
        action, carry = algo.act(state, obs, carry, action_mask=action_mask)
        return jax.tree.map(lambda leaf: leaf[0], action), carry

    return record(env, act, jax.random.key(seed))


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
