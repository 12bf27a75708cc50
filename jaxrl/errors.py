"""The errors that jaxrl raises on purpose, and the texts that they share."""

from __future__ import annotations

import difflib
import shlex
import traceback
from collections.abc import Collection, Iterable
from pathlib import Path

__all__ = [
    "CheckpointError",
    "DivergedError",
    "MissingExtraError",
    "UnknownNameError",
    "check_synonyms",
    "error_text",
    "nearest",
    "printable",
    "shell_path",
    "suggestion",
]


class UnknownNameError(ValueError):
    """A name is not registered; the message lists the nearest names."""


class MissingExtraError(ImportError):
    """A package that only some features need is missing; the message has the command that installs it."""


class DivergedError(RuntimeError):
    """A loss or a parameter is no longer a finite number; the message says where and since when.

    Args:
        text: The message.
        update: The update that ended the run, counted from 1; None if only the outcome is known.
    """

    def __init__(self, text: str, update: int | None = None) -> None:
        super().__init__(text)
        self.update = update


class CheckpointError(RuntimeError):
    """No checkpoint can be written, or there is no good and matching one to read."""


_MOST = 20  # names in a sentence


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that lists the known names nearest to `name`."""
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.4)
    inside = [k for low, k in lowered.items() if name.lower() in low and low not in close]
    names = list(dict.fromkeys([*(lowered[c] for c in close), *inside]))[:3]
    if names:
        return f"Did you mean {' or '.join(names)}?"
    more = f" and {len(lowered) - _MOST} more" if len(lowered) > _MOST else ""
    return f"Known: {', '.join(sorted(lowered.values())[:_MOST])}{more}."


def printable(text: str) -> str:
    """Text of unknown origin as one harmless line: no line breaks, and a mark for control characters and the like."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shell_path(path: str | Path) -> str:
    """A path as a word of a command: quoted for the shell, and with a `./` where it would be taken for a flag."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def error_text(error: Exception) -> str:
    """The text of an error; if it points to a bug, also its type and where it was raised.

    For example `ValueError: no such sprite (my_env.py, line 12)`. The place is the innermost one outside installed
    packages, because those are rarely to blame.
    """
    if isinstance(error, (ImportError, NotImplementedError, OSError)):
        return str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


_SYNONYMS = {
    "learning_rate": "lr",
    "n_envs": "num_envs",
    "n_steps": "num_steps",
    "rollout_length": "num_steps",
    "n_epochs": "update_epochs",
    "epochs": "update_epochs",
    "ppo_epochs": "update_epochs",
    "n_minibatches": "num_minibatches",
    "clip_range": "clip_eps",
    "clip_coef": "clip_eps",
    "clip_param": "clip_eps",
    "entropy_coef": "ent_coef",
    "entropy_coeff": "ent_coef",
    "value_coef": "vf_coef",
    "lam": "gae_lambda",
    "start_e": "eps_start",
    "end_e": "eps_finish",
    "exploration_fraction": "eps_decay",
    "exploration_final_eps": "eps_finish",
    "exploration_initial_eps": "eps_start",
    "lambda": "q_lambda",
    "buffer_capacity": "buffer_size",
    "polyak": "tau",
    "target_network_frequency": "target_update_interval",
    "gradient_clip": "max_grad_norm",
    "env_id": "env",
    "env_name": "env",
    "total_steps": "total_timesteps",
    "timesteps": "total_timesteps",
    "n_seeds": "num_seeds",
    "num_seeds": "tuning_seeds",
}
"""Our names for flags and fields by those in Stable-Baselines3, CleanRL, RLlib and the SMAC code bases; the last is for
`jaxrl search`."""


def _ours(name: str, known: Collection[str]) -> str | None:
    """Our name for what other libraries call `name`, perhaps in capitals; None if it is not among the `known` ones."""
    lowered = name.lower()
    here = _SYNONYMS.get(lowered, lowered)
    return here if here in known and name not in known else None


def suggestion(name: str, known: Collection[str]) -> str:
    """A sentence that says which of the `known` names an unknown one may mean."""
    here = _ours(name, known)
    return f"Did you mean {here}?" if here else nearest(name, known)


def check_synonyms(given: Iterable[str], known: Collection[str]) -> None:
    """Raise for the first flag that this command calls by another name.

    Args:
        given: The names of the flags on the command line, with underscores.
        known: The names that the command has.

    Raises:
        ValueError: The message says what to type.
    """
    for name in given:
        here = _ours(name, known)
        if here is not None:
            raise ValueError(f"There is no flag --{name.replace('_', '-')}; did you mean --{here.replace('_', '-')}?")
