"""Problems that make a comparison unfair, in sentences that say what to do about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from jaxrl.report.collect import SeedGroup
from jaxrl.report.unequal import unequal

__all__ = ["MIN_SEEDS", "problems", "ranges", "refuse_mixed_seeds"]

MIN_SEEDS = 5
_MOST = 3  # configurations of one algorithm that may be compared without a warning about selection


def problems(groups: Sequence[SeedGroup], min_seeds: int = MIN_SEEDS) -> list[str]:
    """Sentences about problems to fix before anyone trusts the report; empty if there are none.

    * Chosen and judged by the same seeds: more than 3 configurations of one algorithm on an environment.
    * Too few seeds: a group has fewer than `min_seeds` different seeds.
    * Mixed seeds: a group counts a seed twice; or two groups on the same environment have different sets of seeds; or a
      seed was used for tuning (`tuning_seeds` in the run.json of any run of that algorithm and environment).
    * Missing scores: a run was stopped, diverged or has not ended, so the table would show only the successful ones.
    * Diverged seeds: their scores come from parameters that are not finite.
    * Unequal: runs on an environment differ in steps, episodes of the evaluation, `on_nan`, versions or git commits.
    * Dirty git: a run was made with uncommitted changes.
    """
    found = _chosen_and_judged(groups)
    for group in groups:
        found += _too_few(group, min_seeds) + _counted_twice(group)
    found += _different_sets(groups) + _tuned_on(groups)
    for group in groups:
        found += _without_score(group) + _diverged(group)
    return list(dict.fromkeys(found + unequal(groups) + _dirty(groups)))


def _chosen_and_judged(groups: Sequence[SeedGroup]) -> list[str]:
    found = []
    for group in groups:
        count = sum(len(other.scores) > 0 for other in _family(group, groups))
        if count > _MOST:
            found.append(
                f"The best of {count} configurations of {group.algorithm} on {group.env} is chosen and judged by the "
                f"same seeds, which flatters it: let `jaxrl search {group.algorithm} --env {group.env} …` choose, "
                f"which judges on test seeds, or train the best again with other seeds and report that run alone."
            )
    return found


def _too_few(group: SeedGroup, min_seeds: int) -> list[str]:
    seeds = sorted(set(group.seeds))
    missing = min_seeds - len(seeds)
    if missing <= 0:
        return []
    have = f"{len(seeds)} seed" + "s" * (len(seeds) > 1)
    more = f"--seed {seeds[-1] + 1}" + (f" --num-seeds {missing}" if missing > 1 else "")
    return [f"{group.name} has {have}, but at least {min_seeds} are needed: train more with {more}."]


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
    for group in groups:
        tuning = _tuning_seeds(group, groups)
        seeds = {seed for other in _family(group, groups) for seed in other.seeds}
        if tuning & seeds and seeds - tuning:
            raise ValueError(
                f"The seeds {ranges(sorted(tuning & seeds))} of {group.algorithm} on {group.env} are those that its "
                f"hyperparameters were chosen by, and {ranges(sorted(seeds - tuning))} are not; a report has no place "
                f"for both. Leave out the runs with the former."
            )


def _family(group: SeedGroup, groups: Sequence[SeedGroup]) -> list[SeedGroup]:
    """The groups of the same algorithm on the same environment."""
    return [other for other in groups if (other.algorithm, other.env) == (group.algorithm, group.env)]


def _tuning_seeds(group: SeedGroup, groups: Sequence[SeedGroup]) -> set[int]:
    """The seeds on which any run of the group's family was tuned."""
    abouts = [about for other in _family(group, groups) for about in other.runs.values()]
    return {seed for about in abouts for seed in about.get("tuning_seeds") or ()}


def _tuned_on(groups: Sequence[SeedGroup]) -> list[str]:
    found = []
    for group in groups:
        tuning = _tuning_seeds(group, groups)
        both = sorted(tuning & set(group.seeds))
        if both:
            found.append(
                f"{group.name} is reported on seeds it was tuned on ({ranges(both)}): report other ones, e.g. with "
                f"--seed {max(tuning) + 1}."
            )
    return found


def _without_score(group: SeedGroup) -> list[str]:
    found = []
    for path, about in group.runs.items():
        seeds = [member.seed for member in group.members if member.run == path and not math.isfinite(member.score)]
        if not seeds:
            continue
        status = about.get("status", "unfinished")
        state = {"running": "has not ended", "stopped": "was stopped", "diverged": "has diverged"}.get(status)
        cure = f"jaxrl resume {path}" if status == "stopped" else "let it end, or run it again"
        noun = f"seed{'s' * (len(seeds) > 1)} {ranges(seeds)}"
        state = f"{path} {state}" if state else f"{path} has no final score"
        found.append(f"{state}, so {noun} of {group.name} cannot be counted: {cure}.")
    return found


def _diverged(group: SeedGroup) -> list[str]:
    found = []
    for path, about in group.runs.items():
        # A diverged run with a single member, or with no member left, has no score.
        lost = set(about.get("diverged") or ()) if about.get("status") == "finished" else set()
        own = [member for member in group.members if member.run == path]
        seeds = [member.seed for member in own if member.number in lost]
        if seeds:
            noun = f"seed{'s' * (len(seeds) > 1)} {ranges(seeds)}"
            found.append(
                f"In {path}, {noun} of {group.name} diverged, and what is left of the policy "
                f"was scored: say so, or leave the group out."
            )
    return found


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
