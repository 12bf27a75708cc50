"""Comparison of two run.json: of the same run everything that determines its rows is equal, the rest may differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

import jaxrl
from jaxrl.train.devices import hosts
from jaxrl.train.folder.run_folder import class_name, config_from_json, config_to_json
from jaxrl.train.folder.sources import describe_sources, hashes
from jaxrl.train.members import Lineage, describe_member

__all__ = ["MAY_CHANGE", "check_hosts", "config_in", "differences", "run_differences", "wanted"]

MAY_CHANGE = frozenset(
    {
        "checkpoint_every_updates",
        "checkpoint_every_minutes",
        "eval_every",
        "keep_checkpoints",
        "on_nan",
        "pictures",
        "time_split",
        "logger",
        "mesh",
        "quiet",
        "stop_at",
    }
)
"""The options of a run, sweep or search that may change when it is continued."""

_FACTS = ("num_seeds", "segment", "lineage", "population", "loss")
"""Other entries of run.json that determine the rows, besides config, options and members."""


def wanted(
    config: Any,
    members: int | Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    segment: tuple[int, int] | None = None,
    lineage: Lineage | None = None,
) -> dict[str, Any]:
    """Everything that determines the rows of a run, in the form of run.json.

    Args:
        config: The run's config.
        members: The members in the form that `Members.of` takes.
        options: The options of `fit`, by name; those in `MAY_CHANGE` do not matter to `decide`.
        segment: The updates done before the run and at its end; None for all updates.
        lineage: The hyperparameters of each generation, if they change.
    """
    count = members if isinstance(members, int) else len(members)
    about = {"config": config_to_json(config), "config_class": class_name(config), "num_seeds": count}
    said = {name: value.to_json() if hasattr(value, "to_json") else value for name, value in options.items()}
    about |= {"options": said, **describe_sources(config)}
    if not isinstance(members, int):
        about["members"] = [dict(own) for own in members]
    if segment is not None:
        about["segment"] = list(segment)
    if lineage is not None:
        about["lineage"] = dict(lineage)
    return about


def run_differences(config: Any, there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The ways in which a run.json describes another run, for example `["lr is 0.001 there and 0.002 here"]`.

    Args:
        config: The config of the requested run.
        there: The content of run.json.
        here: The requested run, see `wanted`.
    """
    changed = _changed_files(there, here)
    own = _own_fields(there) & _own_fields(here)
    then, now = ({k: v for k, v in _deciding(config, each).items() if k not in own} for each in (there, here))
    return changed or [*differences(then, now), *_other_members(there, here)]


def config_in(about: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """The config in a run.json.

    If it has the same class as `config`, options that the class did not have at the time get their defaults.
    """
    own = about["config"]
    same = about["config_class"] == class_name(config)
    return config_to_json(config_from_json(type(config), own)) if same else own


def _changed_files(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The user's own files whose content differs now."""
    before, now = there.get("sources", {}), here.get("sources", {})
    found = []
    for role in now:
        if role in before:
            then, current = hashes(before[role]), hashes(now[role])
            names = {**current, **then} if "beside" in before[role] else [Path(now[role]["path"]).name]
            folder = Path(now[role]["path"]).parent
            found += [f"{folder / name} has changed since" for name in names if then.get(name) != current.get(name)]
    return list(dict.fromkeys(found))


def _own_fields(about: Mapping[str, Any]) -> set[str]:
    """The fields of the config that determine nothing, because every member has its own value.

    The seed is not among them: points are drawn from the one in the config.
    """
    members = [set(own) for own in about.get("members") or ()]
    return set.intersection(*members) - {"seed"} if members else set()


def _deciding(config: Any, about: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that determines the rows except the members, by name."""
    options = {name: value for name, value in about.get("options", {}).items() if name not in MAY_CHANGE}
    facts = {name: about.get(name) for name in _FACTS}
    return {**config_in(about, config), "algorithm": about["config_class"], **facts, **options}


def check_hosts(about: Mapping[str, Any]) -> None:
    """Compare what determines the rows in every process of a run, which would drift apart; all must call it.

    Args:
        about: What run.json says before the run starts, and whether there is a `time_split`.

    Raises:
        ValueError: In all processes: two of them have other settings, files or versions.
    """
    if jax.process_count() == 1:
        return
    sources = about.get("sources", {})
    files = {f"{role}: {name}": text for role, own in sources.items() for name, text in hashes(own).items()}
    package = sorted(Path(jaxrl.__file__).parent.rglob("*.py"))
    files["jaxrl"] = hashlib.sha256(b"".join(path.read_bytes() for path in package)).hexdigest()
    flags = " ".join(flag for flag in about["xla_flags"].split() if "device_count" not in flag)
    options = {name: value for name, value in about["options"].items() if name != "logger"}  # process 0's alone
    facts = {
        name: about.get(name) for name in (*_FACTS, "config_class", "members", "versions", "jax_settings", "time_split")
    }
    mine = {**about["config"], **options, **facts, "files": files, "xla_flags": flags}
    first, *others = hosts.exchange(mine)
    for i, other in enumerate(others, start=1):
        found = ", ".join(differences(first, other, ("in process 0", f"in process {i}")))
        if found:
            raise ValueError(
                f"The processes of this run would not train the same: {found}. Start the same command with the same "
                f"files and versions in each."
            )


def differences(
    there: Mapping[str, Any], here: Mapping[str, Any], places: tuple[str, str] = ("there", "here")
) -> Iterator[str]:
    """The differences, for example `lr is 0.001 there and 0.002 here`; missing values count as None."""
    for name in dict.fromkeys([*here, *there]):
        then, now = there.get(name), here.get(name)
        if isinstance(then, Mapping) and isinstance(now, Mapping):
            yield from (f"{name}.{text}" for text in differences(then, now, places))
        elif _differ(then, now):
            yield f"{name} is {_words(then)} {places[0]} and {_words(now)} {places[1]}"


def _other_members(before: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about the first member that differs, if any does."""
    if before["num_seeds"] != about["num_seeds"] or not ("members" in before or "members" in about):
        return
    for m, (then, now) in enumerate(zip(_members(before), _members(about), strict=True)):
        if _differ(then, now):
            yield f"member {m} is {describe_member(then)} there and {describe_member(now)} here"
            return


def _members(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    first = about["config"].get("seed", 0)
    return about.get("members") or [{"seed": first + m} for m in range(about["num_seeds"])]


def _differ(then: Any, now: Any) -> bool:
    """True if two values differ, also as JSON text, in which a tuple is a list and NaN equals itself."""
    return then != now and json.dumps(then, sort_keys=True) != json.dumps(now, sort_keys=True)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):  # such as the run to start from; what is left out says nothing
        text = " ".join(f"{name}={own}" for name, own in value.items() if own is not None and own is not False)
    else:
        text = "left out" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
