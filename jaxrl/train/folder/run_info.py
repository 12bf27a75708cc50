"""The contents of run.json, checklist.json and sweep.json, checked when they are read.

Readers of a run folder get the types that are written here, or one sentence that says what is wrong.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from jaxrl.train.folder.json_file import DamagedFileError, from_json, read_json
from jaxrl.train.folder.json_lines import check_lengths

__all__ = ["PLAN_FILES", "RunInfo", "plan_in", "read_checklist", "read_ending", "read_run_info"]

PLAN_FILES = {"sweep": "sweep.json", "search": "checklist.json"}
"""The kinds of folders with several runs, and the file that marks each."""

Measure = float | None | list[float | None]
"""A number, one for each member, or None where none is known."""


def plan_in(folder: Path) -> str | None:
    """`"sweep"` or `"search"` if the folder holds one, otherwise None."""
    return next((what for what, name in PLAN_FILES.items() if (folder / name).is_file()), None)


class Options(TypedDict, total=False):
    """The options of `fit`."""

    log_every: int | None
    eval_every: int | None
    checkpoint_every_updates: int | None
    checkpoint_every_minutes: float | None
    eval_episodes: int
    stop_at: float | None
    init_from: InitFrom | None
    keep_checkpoints: int
    on_nan: str
    pictures: bool
    logger: LoggerChoice | None


class InitFrom(TypedDict, total=False):
    """The fields of `InitFrom`: the run that this one starts from."""

    run: str
    learner: bool
    best: bool
    member: int | None


class LoggerChoice(TypedDict, total=False):
    """The fields of `LoggerOptions`."""

    kind: str
    names: str
    per_seed: bool


class Mesh(TypedDict):
    """Devices along each axis."""

    member: int
    data: int


class Git(TypedDict):
    """The state of a repository."""

    commit: str
    dirty: bool


class _Played(TypedDict):
    return_mean: Measure


class Evaluation(_Played, total=False):
    """The fields of the final greedy evaluation that runs are compared by."""

    length_mean: Measure
    win_rate: Measure


class Goal(TypedDict):
    """The evaluation that reached the goal."""

    stop_at: float
    metric: str
    score: float
    timesteps: int


class _Lengthened(TypedDict):
    total_timesteps: int


class Lengthened(_Lengthened, total=False):
    """The length of the run before it was made longer, and the steps it had made then."""

    timesteps: int


class _Source(TypedDict):
    file: str
    path: str
    sha256: str


class Source(_Source, total=False):
    """A file of the user's own that the run is made of; `beside` has the hashes of what it imports from its folder."""

    beside: dict[str, str]


class _Needed(TypedDict):
    algorithm: str
    env: str
    seed: int
    num_seeds: int
    config: dict[str, Any]


class RunInfo(_Needed, total=False):
    """The fields of run.json that jaxrl reads."""

    status: str
    error: str
    command: str
    config_class: str
    trust_id: str
    sources: dict[str, Source]
    segment: list[int]
    members: list[dict[str, int | float]] | None
    mesh: Mesh
    options: Options
    versions: dict[str, str]
    git: Git | None
    devices: list[str]
    xla_flags: str
    jax_settings: dict[str, str]
    resumed: int
    changed: list[str]
    tuning_seeds: list[int] | None
    test_seeds: list[int] | None
    diverged: list[int] | None
    initial_state: str
    loss: str
    lineage: dict[str, Any]
    population: dict[str, Any]
    notes: list[str]
    lengthened: list[Lengthened]
    goal: Goal | None
    evaluation: Evaluation | None
    compile_seconds: float | None
    compile_cached: bool | None
    rollout_share: float | None
    train_seconds: float | None
    steps_per_second: float | None
    timesteps: int


_UNSAID: dict[str, Any] = {
    "status": "unfinished",
    "command": "",
    "config_class": "",
    "members": None,
    "mesh": {"member": 1, "data": 1},
    "options": {},
    "versions": {},
    "git": None,
    "devices": [],
    "diverged": [],
}
"""The values of fields that a run.json leaves out."""


def read_run_info(path: Path) -> dict[str, Any]:
    """The content of a run.json, a `RunInfo` with all required fields.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        DamagedFileError: It has another content.
    """

    def check(content: dict[str, Any]) -> dict[str, Any]:
        about = {**_UNSAID, **from_json(RunInfo, content, "")}
        members = about["num_seeds"]
        most = _most_members(path.parent)
        if not 1 <= members <= most:
            raise ValueError(f"num_seeds must be from 1 to {most} beside rows of this size, got {members}")
        if about["members"] is not None and len(about["members"]) != members:
            raise ValueError(f"it has {len(about['members'])} members and num_seeds={members}")
        for config in (about["config"], *(about["members"] or ())):
            from_json(int, config.get("seed", 0), "seed")  # which makes paths
        if min(about["mesh"].values()) < 1:
            raise ValueError(f"mesh must be positive, got {about['mesh']}")
        if unknown := sorted({*_unknown(RunInfo, content, "")} - {*about.get("notes", ())}):
            raise ValueError(f"{unknown[0]} is not known")
        check_lengths([about.get("evaluation") or {}], members)
        return about

    return _checked(path, check)


def _most_members(folder: Path) -> int:
    """The most seeds that the run in a folder can have: in metrics.jsonl each has a number in each row."""
    rows = folder / "metrics.jsonl"
    return max(65_536, rows.stat().st_size if rows.is_file() else 0)


def _unknown(hint: Any, value: Any, name: str) -> Iterator[str]:
    """The fields at any depth that a type does not have; an evaluation has any numbers."""
    if typing.is_typeddict(hint) and hint is not Evaluation and isinstance(value, dict):
        hints = typing.get_type_hints(hint)
        for key, inner in value.items():
            yield from _unknown(hints[key], inner, f"{name}{key}.") if key in hints else [f"{name}{key}"]
    elif typing.get_origin(hint) in (dict, list) and value is not None:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _unknown(typing.get_args(hint)[-1], inner, name)
    else:
        for kind in typing.get_args(hint):
            yield from _unknown(kind, value, name)


def read_ending(path: Path) -> tuple[str, str | None]:
    """The progress of a run or a sweep, by its run.json or sweep.json, and the reason why it diverged if it has.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        DamagedFileError: It has another content.
    """
    content = _checked(path, lambda content: from_json(_Ending, content, ""))
    return content["status"], content.get("error")


class _Ended(TypedDict):
    status: str


class _Ending(_Ended, total=False):
    error: str | None


class _Method(TypedDict):
    name: str


class _Budget(TypedDict):
    runs: int
    timesteps: int


class _Values(TypedDict):
    values: list[Any]


class _Range(TypedDict):
    low: float
    high: float
    log: bool


class _Trial(TypedDict):
    point: dict[str, Any]
    scores: list[float | None]


class _Incumbent(TypedDict):
    timesteps: int
    score: float
    point: dict[str, Any]


class _Planned(TypedDict):
    method: _Method
    budget: _Budget
    space: dict[str, _Values | _Range]
    tuning_seeds: list[int]
    test_seeds: list[int]


class Checklist(_Planned, total=False):
    """The fields of checklist.json that reports read."""

    trials: list[_Trial]
    incumbents: list[_Incumbent]
    test: dict[str, Any] | None


def read_checklist(path: Path) -> dict[str, Any]:
    """The content of a search's checklist.json, a `Checklist`.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        DamagedFileError: It has another content.
    """
    return _checked(path, lambda content: from_json(Checklist, content, ""))


def _checked(path: Path, check: Any) -> Any:
    try:
        return check(read_json(path))
    except DamagedFileError:
        raise
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: {error}.") from error
