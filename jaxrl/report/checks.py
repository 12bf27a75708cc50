"""Problems that make a comparison unfair, in sentences that say what to do about them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jaxrl.errors import shell_path
from jaxrl.report.collect import Member, SeedGroup, runs_of_sweep
from jaxrl.train.folder.run_info import PLAN_FILES, plan_in, read_ending
from jaxrl.train.folder.sources import hashes
from jaxrl.train.pictures import short

__all__ = ["MIN_SEEDS", "problems", "ranges", "refuse_mixed_seeds", "unequal"]

MIN_SEEDS = 5
_MOST = 3  # configurations of one algorithm that may be compared without a warning about selection
_SLACK = 1.05  # of steps: algorithms round them to whole updates

_Runs = Mapping[Path, Mapping[str, Any]]  # the content of run.json by folder


def problems(groups: Sequence[SeedGroup], min_seeds: int = MIN_SEEDS) -> list[str]:
    """Sentences about problems to fix before anyone trusts the report; empty if there are none.

    What several configurations of one algorithm on an environment share, as those of a sweep do, is said once.

    * Chosen and judged by the same seeds: more than 3 configurations of one algorithm on an environment.
    * Too few seeds: a group has fewer than `min_seeds` different seeds; a league counts as one.
    * Mixed seeds: a group counts a seed twice; or two groups on the same environment have different sets of seeds; or a
      seed was used for tuning (`tuning_seeds` in the run.json of any run of that algorithm and environment).
    * Missing scores: a run was stopped, diverged or has not ended, so the table would show only the successful ones.
      Or a sweep has not ended, so the table would show only the groups that it has come to.
    * Diverged seeds: they are left out, so the table shows only the others.
    * Unequal: runs on an environment differ in steps, in whether they were made longer on the way, in episodes of the
      evaluation, `on_nan`, versions, git commits or the file of the environment.
    * Dirty git: a run was made with uncommitted changes.
    """
    found = _chosen_and_judged(groups) + _too_few(groups, min_seeds)
    for group in groups:
        found += _counted_twice(group)
    found += _different_sets(groups) + _tuned_on(groups) + _without_score(groups) + _incomplete(groups)
    found += _diverged(groups)
    return list(dict.fromkeys(found + unequal(groups) + _dirty(groups)))


def _chosen_and_judged(groups: Sequence[SeedGroup]) -> list[str]:
    found = []
    for family in _families(groups):
        group = family[0]
        count = sum(len(other.scores) > 0 and not other.exploits for other in family)
        if count > _MOST:
            found.append(
                f"The best of {count} configurations of {group.algorithm} on {group.env} is chosen and judged by the "
                f"same seeds, which flatters it: let `jaxrl search {_typed(group)} …` choose, "
                f"which judges on test seeds, or train the best again with other seeds and report that run alone."
            )
    return found


def _typed(group: SeedGroup) -> str:
    """A group's algorithm and environment on a command line; those in files by the paths that they had."""
    files = next(iter(group.runs.values())).get("sources", {})
    algorithm = files["algorithm"]["path"] if "algorithm" in files else group.algorithm
    env = f"{files['env']['path']}:{group.env.rpartition(':')[2]}" if "env" in files else group.env
    return f"{shlex.quote(algorithm)} --env {shlex.quote(env)}"


def _too_few(groups: Sequence[SeedGroup], min_seeds: int) -> list[str]:
    few = [group for group in groups if len(set(group.seeds)) < min_seeds]
    found = [_too_few_leagues(family, min_seeds) for family in _families([group for group in few if group.role])]
    for family in _families([group for group in few if not group.role]):
        counts = sorted({len(set(group.seeds)) for group in family})
        have = f"{counts[0]} seed{'s' * (counts[-1] > 1)}"
        if len(family) > 1:
            have = f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{have} each"
            found.append(
                f"{_who(family)} have {have}, but at least {min_seeds} are needed: sweep with --num-seeds {min_seeds}, "
                f"or take this for a first look, and train the best with {min_seeds} other seeds."
            )
            continue
        [group] = family
        missing = min_seeds - counts[0]
        more = f"--seed {group.seeds[-1] + 1}" + (f" --num-seeds {missing}" if missing > 1 else "")
        found.append(f"{group.name} has {have}, but at least {min_seeds} are needed: train more with {more}.")
    return found


def _too_few_leagues(family: Sequence[SeedGroup], min_seeds: int) -> str:
    count = min(len(set(group.seeds)) for group in family)
    free = max(about["seed"] + about["num_seeds"] for group in family for about in group.runs.values())
    return (
        f"{family[0].algorithm} on {family[0].env} has {count} league{'s' * (count > 1)}, but at least {min_seeds} are "
        f"needed, as the members of a league depend on each other and count as one seed: train another with --seed "
        f"{free}."
    )


def _counted_twice(group: SeedGroup) -> list[str]:
    found = []
    for seed in sorted(set(group.seeds)):
        runs = [str(member.run) for member in group.members if member.seed == seed]
        if len(runs) > 1:
            found.append(f"{group.name} counts seed {seed} more than once, in {' and '.join(runs)}: leave one out.")
    return found


def _different_sets(groups: Sequence[SeedGroup]) -> list[str]:
    found = []
    for first, second in pairwise(groups):
        if first.env == second.env and set(first.seeds) != set(second.seeds):
            found.append(
                f"On {first.env}, {first.label} has the seeds {ranges(first.seeds)} but {second.label} has "
                f"{ranges(second.seeds)}: compare them on the same seeds."
            )
    return found


def refuse_mixed_seeds(groups: Sequence[SeedGroup]) -> None:
    """Raise if scores on tuning seeds are mixed with scores on other seeds.

    Raises:
        ValueError: They are, for some algorithm on some environment.
    """
    for family in _families(groups):
        tuning, seeds = _tuning_seeds(family), {seed for group in family for seed in group.seeds}
        if tuning & seeds and seeds - tuning:
            raise ValueError(
                f"The seeds {ranges(sorted(tuning & seeds))} of {family[0].algorithm} on {family[0].env} are those "
                f"that its hyperparameters were chosen by, and {ranges(sorted(seeds - tuning))} are not; a report "
                f"has no place for both. Leave out the runs with the former."
            )


def _tuning_seeds(family: Sequence[SeedGroup]) -> set[int]:
    """The seeds on which any run of the family was tuned."""
    abouts = [about for group in family for about in group.runs.values()]
    return {seed for about in abouts for seed in about.get("tuning_seeds") or ()}


def _tuned_on(groups: Sequence[SeedGroup]) -> list[str]:
    found = []
    for family in _families(groups):
        tuning = _tuning_seeds(family)
        tuned = [group for group in family if tuning & set(group.seeds)]
        if tuned:
            both = ranges(sorted({seed for group in tuned for seed in group.seeds if seed in tuning}))
            on = "is reported on seeds it was" if len(tuned) == 1 else "are reported on seeds they were"
            found.append(
                f"{_who(tuned)} {on} tuned on ({both}): report other ones, e.g. with --seed {max(tuning) + 1}."
            )
    return found


def _without_score(groups: Sequence[SeedGroup]) -> list[str]:
    found = []
    for path, family, seeds in _by_run(groups, lambda *of: not math.isfinite(of[1].score) and not _lost(*of)):
        status = family[0].runs[path].get("status", "unfinished")
        states = {"running": "has not ended", "stopped": "was stopped", "diverged": "has diverged"}
        state = {**states, "failed": "has failed"}.get(status)
        cure = f"jaxrl resume {shell_path(path)}" if status == "stopped" else "let it end, or run it again"
        state = f"{path} {state}" if state else f"{path} has no final score"
        found.append(f"{state}, so {seeds} of {_who(family)} cannot be counted: {cure}.")
    return found


def _incomplete(groups: Sequence[SeedGroup]) -> list[str]:
    runs = {path for group in groups for path in group.runs}
    found = []
    for sweep in sorted({path.parent for path in runs if plan_in(path.parent) == "sweep"}):
        whole = runs.issuperset(runs_of_sweep(sweep))  # and not one of its groups, chosen by hand
        if whole and read_ending(sweep / PLAN_FILES["sweep"])[0] != "finished":
            found.append(
                f"The sweep in {sweep} has not ended, so some of its configurations or seeds may be missing: let it "
                f"end, or continue it with its own command."
            )
    return found


def _diverged(groups: Sequence[SeedGroup]) -> list[str]:
    return [
        f"In {path}, {seeds} of {_who(family)} diverged and {'has' if seeds.startswith('seed ') else 'have'} no score: "
        f"say so, or leave {'the group' if len(family) == 1 else 'them'} out."
        for path, family, seeds in _by_run(groups, _lost)
    ]


def _lost(about: Mapping[str, Any], member: Member) -> bool:
    """True for a member that diverged in a run that came to its end; with no member left, the run itself diverged."""
    return about.get("status") == "finished" and bool(set(member.numbers) & set(about.get("diverged") or ()))


def _by_run(
    groups: Sequence[SeedGroup], concerned: Callable[[Mapping[str, Any], Member], bool]
) -> list[tuple[Path, list[SeedGroup], str]]:
    """For each run and family with members that are concerned: its folder, their groups, and their seeds in words."""
    found = []
    for family in _families(groups):
        for path in dict.fromkeys(path for group in family for path in group.runs):
            here = [group for group in family if path in group.runs]
            members = [
                (group, member)
                for group in here
                for member in group.members
                if member.run == path and concerned(group.runs[path], member)
            ]
            if members:
                seeds = {member.seed for _, member in members}
                some = [group for group in here if any(group is other for other, _ in members)]
                found.append((path, some, f"seed{'s' * (len(seeds) > 1)} {ranges(sorted(seeds))}"))
    return found


def _families(groups: Sequence[SeedGroup]) -> list[list[SeedGroup]]:
    """The groups by algorithm and environment."""
    found: dict[tuple[str, str], list[SeedGroup]] = {}
    for group in groups:
        found.setdefault((group.algorithm, group.env), []).append(group)
    return list(found.values())


def _who(family: Sequence[SeedGroup]) -> str:
    """The name of a group, or how many configurations there are."""
    first = family[0]
    return first.name if len(family) == 1 else f"{len(family)} configurations of {first.algorithm} on {first.env}"


def _dirty(groups: Sequence[SeedGroup]) -> list[str]:
    return [
        f"{path} was made with uncommitted changes to {about['git']['commit'][:10]}: commit them, run again."
        for group in groups
        for path, about in group.runs.items()
        if (about.get("git") or {}).get("dirty")
    ]


def ranges(seeds: Sequence[int]) -> str:
    """Seeds in short form: `0–4, 7`."""
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def unequal(groups: Sequence[SeedGroup]) -> list[str]:
    """For each environment, a sentence about everything that its runs should have in common but do not.

    The checks cover the steps trained, and whether a run was made longer on the way, the episodes of the final
    evaluation, `on_nan`, the versions of packages, the git commit, and an environment in a file of one's own. Values
    missing from a run.json are not compared.
    """
    found = []
    for env in dict.fromkeys(group.env for group in groups):
        here = [group for group in groups if group.env == env]
        runs = {path: about for group in here for path, about in group.runs.items()}
        differing = [_differing(runs, *each) for each in _SHARED]
        found += [f"On {env}, {sentence}" for sentence in (_steps(here), *differing, _versions(runs)) if sentence]
    return found


def _steps(groups: Sequence[SeedGroup]) -> str:
    """A sentence about unequal steps, among the members that have a score."""
    scored = [(int(m.timesteps[-1]), group.label, m.run) for group in groups for m in group.members if _counts(m)]
    if not scored:
        return ""
    (few, least, first), (many, most, last) = min(scored), max(scored)
    if many <= _SLACK * few:
        return ""
    return (
        f"{least} was trained for {short(few)} steps ({first}) but {most} for {short(many)} ({last}): compare them "
        f"after the same --total-timesteps."
    )


def _counts(member: Member) -> bool:
    return math.isfinite(member.score) and len(member.timesteps) > 0


def _differing(runs: _Runs, what: str, of: Callable[[Mapping[str, Any]], Any], cure: str) -> str:
    """A sentence about the values that `of` finds in the run.json of runs, if there are several."""
    values = _by_value(runs, of)
    return f"{what}, {_told(values)}: {cure}." if len(values) > 1 else ""


def _lengthened(about: Mapping[str, Any]) -> str:
    steps = [earlier.get("timesteps", 0) for earlier in about.get("lengthened") or ()]
    return " and ".join(f"after {short(each)} steps" for each in steps if each) or "never"


def _episodes(about: Mapping[str, Any]) -> int | None:
    planned = (about.get("options") or {}).get("eval_episodes")
    return (about.get("evaluation") or {}).get("episodes", planned)


def _env_file(about: Mapping[str, Any]) -> str:
    source = about.get("sources", {}).get("env")
    return "+".join(sha256[:8] for sha256 in hashes(source).values()) if source else ""


_SHARED = (
    (
        "some runs were made longer on the way, after which schedules take another course",
        _lengthened,
        "train each with all of its --total-timesteps from the beginning",
    ),
    ("scores are of different numbers of episodes", _episodes, "train with the same --eval-episodes"),
    (
        "runs were trained with different --on-nan",
        lambda about: (about.get("options") or {}).get("on_nan"),
        "one goes on where the other ends, so choose one",
    ),
    (
        "runs were made at different git commits",
        lambda about: ((about.get("git") or {}).get("commit") or "")[:10],
        "run them again at one",
    ),
    ("the file of the environment has changed from run to run", _env_file, "run them again with one"),
)
"""Facts that all runs on an environment should share: the problem, the fact in run.json, and the cure."""


def _versions(runs: _Runs) -> str:
    packages = dict.fromkeys(name for about in runs.values() for name in about.get("versions") or ())
    parts = []
    for package in packages:
        values = _by_value(runs, lambda about, name=package: (about.get("versions") or {}).get(name))
        if len(values) > 1:
            parts.append(f"{package} {_told(values)}")
    return f"runs were made with different versions, {'; '.join(parts)}: run them again with one." if parts else ""


def _by_value(runs: _Runs, of: Callable[[Mapping[str, Any]], Any]) -> dict[Any, list[Path]]:
    """The runs by the value that `of` finds in their run.json, if it finds any."""
    found: dict[Any, list[Path]] = {}
    for path, about in runs.items():
        if value := of(about):
            found.setdefault(value, []).append(path)
    return found


def _told(values: Mapping[Any, Sequence[Path]]) -> str:
    """The values, each with one of its runs: `64 (runs/a), 512 (runs/b and 3 more)`."""
    parts = []
    for value, paths in values.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        parts.append(f"{value} ({paths[0]}{more})")
    return ", ".join(parts)
