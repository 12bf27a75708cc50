"""Weights & Biases. Without a login, everything is written for a later `wandb sync`, without any prompt."""

from __future__ import annotations

import contextlib
import netrc
import os
import secrets
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl.errors import MissingExtraError
from jaxrl.train.folder.json_file import DamagedFileError, read_json, write_json
from jaxrl.train.loggers.base import Logger, Names
from jaxrl.train.loggers.tracks import Track, tracks

try:
    import wandb
except ImportError as error:
    raise MissingExtraError("The wandb logger needs wandb: pip install 'jaxrl[wandb]'") from error

__all__ = ["WandbLogger"]

INIT_SECONDS = 8.0
"""The time in which the server has to answer, or the run goes offline."""
FINISH_SECONDS = 60.0
"""The most time for the upload of the last rows."""


class WandbLogger(Logger):
    """Makes one wandb run for a run, or one for each of its members in a wandb group.

    wandb's environment variables set project, entity and server (without `WANDB_PROJECT`, the project is `jaxrl`).
    """

    def __init__(self, names: Names = "jaxrl", per_seed: bool = False) -> None:
        self._names: Names = names
        self._per_seed = per_seed
        self._runs: list[tuple[Track, Any]] = []
        self._mode: str | None = None

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        self._mode = _mode()
        chosen = tracks(about, self._names, self._per_seed)
        ids = _ids(folder, chosen)
        group = f"{about['algorithm']} {about['env']} {ids[chosen[0].name]}" if len(chosen) > 1 else None
        for track in chosen:
            self._runs.append((track, self._begin(track, ids[track.name], group, about, folder, say)))
        if self._mode == "offline":
            place = (folder or Path()) / "wandb"
            say(f"wandb is offline; `wandb sync {place}/offline-run-*` uploads this run later.")

    def row(self, row: dict[str, Any]) -> None:
        for track, run in self._runs:
            _log(run, track.row(row), row["timesteps"])

    def evaluation(self, row: dict[str, Any]) -> None:
        for track, run in self._runs:
            _log(run, track.evaluation(row), row["timesteps"])

    def close(self, about: dict[str, Any]) -> None:
        runs, self._runs = self._runs, []
        for track, run in runs:
            if about.get("evaluation"):
                run.summary.update(track.evaluation({"timesteps": about["timesteps"], **about["evaluation"]}))
            run.summary.update({"status": about["status"]})
        for _, run in runs:
            run.finish(exit_code=0 if about["status"] in ("finished", "stopped") else 1)

    def _begin(
        self,
        track: Track,
        run_id: str,
        group: str | None,
        about: dict[str, Any],
        folder: Path | None,
        say: Callable[[str], None],
    ) -> Any:
        """Start a wandb run: online if the server answers within seconds, otherwise offline with a message."""
        settings = {"silent": True, "console": "off", "init_timeout": INIT_SECONDS}
        if "finish_timeout" in wandb.Settings.model_fields:
            settings["finish_timeout"] = FINISH_SECONDS

        def init(mode: Any, run_id: str) -> Any:
            return wandb.init(
                project=os.environ.get("WANDB_PROJECT", "jaxrl"),
                id=run_id,
                name=track.title,
                group=group,
                dir=folder,
                config={**track.hyperparameters, "versions": about["versions"], "git": about["git"]},
                mode=mode,
                resume=None if mode == "offline" else "allow",
                reinit="create_new",
                settings=wandb.Settings(**settings),
            )

        # Without an answer everything is written for a later `wandb sync`.
        try:
            run = init(self._mode, run_id)
        except (wandb.Error, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            say(f"wandb cannot be reached, so this run goes offline. It said: {reason}")
            self._mode = "offline"
            run = init("offline", secrets.token_hex(4))  # wandb still holds the other id
        run.define_metric("*", step_metric=track.step)
        return run


def _log(run: Any, numbers: dict[str, float], timesteps: int) -> None:
    """Log a row under its environment steps, so that a resumed run goes on where wandb already has rows."""
    if timesteps >= run.starting_step:
        run.log(numbers, step=timesteps)


def _mode() -> Any:
    """The user's `WANDB_MODE`; if unset, online with a login and offline without."""
    if "WANDB_MODE" in os.environ:
        return os.environ["WANDB_MODE"]
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return "online"
    host = urllib.parse.urlsplit(os.environ.get("WANDB_BASE_URL") or wandb.Settings().base_url).hostname
    try:
        return "online" if netrc.netrc(os.environ.get("NETRC")).authenticators(host or "") else "offline"
    except (OSError, netrc.NetrcParseError):
        return "offline"


def _ids(folder: Path | None, chosen: list[Track]) -> dict[str, str]:
    """An id for each track; a continued run reuses the ids it had."""
    file = None if folder is None else folder / "wandb" / "ids.json"
    had: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError, DamagedFileError):
        had = {} if file is None else read_json(file)
    ids = {track.name: had.get(track.name) or secrets.token_hex(4) for track in chosen}
    if file is not None:
        file.parent.mkdir(exist_ok=True)
        write_json(file, {**had, **ids}, indent=None)
    return ids
