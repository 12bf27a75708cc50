"""A run as loggers see it: for each seed, or for all together, flat rows of numbers under one of two sets of names.

`CsvLogger` writes them as they are.

CleanRL's names are those that the tools of Open RL Benchmark read: `charts/episodic_return` over `global_step`, with
`env_id`, `exp_name` and `seed` in the config.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxrl.train.folder.json_file import infinities_as_text
from jaxrl.train.folder.run_folder import config_from_json
from jaxrl.train.folder.trust import known_class
from jaxrl.train.loggers.base import Logger, Names
from jaxrl.train.members import describe_member, point_at
from jaxrl.train.metrics import flat_row, mean_over_members, own_metrics

__all__ = ["CsvLogger", "Track", "tracks"]

_CLEANRL = {
    "return_mean": "charts/episodic_return",
    "length_mean": "charts/episodic_length",
    "win_rate": "charts/win_rate",
    "losses/policy": "losses/policy_loss",
    "losses/value": "losses/value_loss",
    "losses/clip_fraction": "losses/clipfrac",
}
"""CleanRL's names where they differ; the other losses keep their names."""
_CLEANRL_EVALUATION = {
    "return_mean": "eval/episodic_return",
    "length_mean": "eval/episodic_length",
    "win_rate": "eval/win_rate",
}
_RANGED = ("return_mean", "length_mean", "win_rate")


@dataclasses.dataclass(frozen=True)
class Track:
    """One curve of each metric: that of one member, or the mean over all members."""

    name: str
    """A name fit for a file: `seed-3`, or `all`."""
    title: str
    """A readable name: `ippo smax/3m seed 3, lr=0.1`."""
    seed: int
    """The seed of the member, or of the first member."""
    config: dict[str, Any]
    """The config, including the member's own fields."""
    names: Names
    member: int | None
    """The index of the member; None for all members, or for the only one."""
    algorithm: str
    _about: Mapping[str, Any]

    @property
    def step(self) -> str:
        """The name of the column that counts environment steps."""
        return "timesteps" if self.names == "jaxrl" else "global_step"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The config; under CleanRL's names, with the environment and algorithm in the fields its tools look for."""
        extra = {"env_id": self.config["env"], "exp_name": self.algorithm} if self.names == "cleanrl" else {}
        return {"algorithm": self.algorithm, **self.config, **extra}

    def row(self, row: dict[str, Any]) -> dict[str, float]:
        """A row of metrics.jsonl as flat numbers, including the steps; unknown values are left out."""
        flat = flat_row(row)
        if self.names == "jaxrl":
            return self._numbers(flat)
        numbers = self._numbers(
            {_CLEANRL.get(k, k): v for k, v in flat.items() if k in _CLEANRL or k.startswith(("losses/", "info/"))}
        )
        seconds, steps = row["seconds"], row["timesteps"]
        numbers["charts/SPS"] = steps / max(seconds, 1e-9)
        rate = self._learning_rate(steps)
        return {"global_step": steps, **numbers} | ({} if rate is None else {"charts/learning_rate": rate})

    def evaluation(self, row: dict[str, Any]) -> dict[str, float]:
        """A row of evaluations.jsonl in the same form."""
        if self.names == "cleanrl":
            flat = flat_row(row)
            names = _CLEANRL_EVALUATION | {name: f"eval/{name}" for name in own_metrics(flat)}
            known = {names[k]: v for k, v in flat.items() if k in names}
            return {"global_step": row["timesteps"], **self._numbers(known)}
        known = {k if k == "timesteps" else f"evaluation/{k}": v for k, v in flat_row(row).items() if k != "seconds"}
        return self._numbers(known)

    def _numbers(self, flat: dict[str, Any]) -> dict[str, float]:
        """One number per name: the member's value, or the mean, with the minimum and maximum for some metrics."""
        numbers: dict[str, float | None] = {}
        for name, value in flat.items():
            if not isinstance(value, list):
                numbers[name] = value
            elif self.member is not None:
                numbers[name] = value[self.member]
            else:
                known = [v for v in value if v is not None]
                numbers[name] = mean_over_members(value)
                if name.rpartition("/")[2] in _RANGED:
                    numbers[f"{name}_min"] = min(known, default=None)
                    numbers[f"{name}_max"] = max(known, default=None)
        return {name: value for name, value in numbers.items() if value is not None and math.isfinite(value)}

    def _learning_rate(self, steps: int) -> float | None:
        """The learning rate of the last update in a row; None if the config has no schedule or may not be loaded, or
        if it is not known: that of several members at once, or of a population, whose members take over others'.
        """
        config = self._typed_config
        together = self.member is None and len({own.get("lr") for own in self._about.get("members") or ()}) > 1
        if not hasattr(config, "annealed") or together or "population" in self._about:
            return None
        update = steps // config.steps_per_update - 1
        config = _config_then(config, self._about, steps, update)
        return float(config.annealed(config.hyperparams, update).lr)

    @functools.cached_property
    def _typed_config(self) -> Any:
        kind = known_class(self._about["config_class"])
        with contextlib.suppress(ValueError):  # of another version
            return None if kind is None else config_from_json(kind, infinities_as_text(self.config))
        return None


def tracks(about: dict[str, Any], names: Names, per_seed: bool) -> list[Track]:
    """The tracks of a run: one for each member, or a single one.

    Args:
        about: The content of run.json.
        names: The naming of metrics.
        per_seed: Whether every member has its own track.
    """
    base, count = {"seed": about.get("seed", 0), **about["config"]}, about["num_seeds"]
    members = about.get("members") or [{"seed": base["seed"] + m} for m in range(count)]
    if not per_seed and count > 1:
        members, index = members[:1], [None]
    else:
        index = list(range(count)) if count > 1 else [None]
    made, seen = [], set()
    for m, own in zip(index, members, strict=True):
        config = {**base, **own}
        who = (
            describe_member({"seed": config["seed"], **own}) if m is not None or count == 1 else f"all {count} members"
        )
        name = "all" if m is None and count > 1 else f"seed-{config['seed']}"
        if name in seen:  # several members may share a seed
            name = f"{name}-member-{m}"
        seen.add(name)
        title = f"{about['algorithm']} {about['env']} {who}"
        made.append(Track(name, title, config["seed"], config, names, m, about["algorithm"], about))
    return made


def _config_then(config: Any, about: Mapping[str, Any], steps: int, update: int) -> Any:
    """The config of a run after so many steps: before it was made longer, and in that generation of its lineage."""
    for before in about.get("lengthened", ()):
        if steps <= before.get("timesteps", 0):
            config = dataclasses.replace(config, total_timesteps=before["total_timesteps"])
            break
    if "lineage" not in about:
        return config
    return dataclasses.replace(config, **point_at(about["lineage"], update))


class CsvLogger(Logger):
    """Writes `<track>.csv` for `jaxrl export`, with the columns of the rows; evaluations are left out.

    The files are written at the end, when all columns are known.
    """

    def __init__(self, names: Names = "jaxrl", per_seed: bool = False) -> None:
        self._names: Names = names
        self._per_seed = per_seed
        self._rows: list[tuple[Track, list[dict[str, float]]]] = []
        self._folder = Path()

    def open(self, about: dict[str, Any], folder: Path | None, say: Callable[[str], None]) -> None:
        if folder is None:
            raise ValueError("CSV files need a place: name a folder.")
        self._folder = folder
        self._rows = [(track, []) for track in tracks(about, self._names, self._per_seed)]

    def row(self, row: dict[str, Any]) -> None:
        for track, rows in self._rows:
            rows.append(track.row(row))

    def close(self, about: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for track, rows in self._rows:
            columns = list(dict.fromkeys(name for row in rows for name in row))
            with (self._folder / f"{track.name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(rows)
