"""Who plays which agents: policies by name, which learn, and policies that are held fixed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.wrappers.fixed import FixedPolicies, matching, random_policy_in

__all__ = [
    "SCRIPTED",
    "ambiguous_names",
    "as_pairs",
    "fixed_policies",
    "fixed_runs",
    "learning_policies",
    "member_named",
    "named_param_sets",
    "policy_names",
    "runs_near",
    "with_fixed",
]

_RANDOM = "random"
SCRIPTED = "scripted"
"""The name of the environment's own script, wherever a policy is named."""
_RULES = (_RANDOM, SCRIPTED)


def as_pairs(policies: Mapping[str, str] | tuple[str, ...]) -> tuple[str, ...]:
    """`{pattern: policy}` as `("pattern=policy", …)`, the form in which a configuration keeps it.

    Raises:
        ValueError: A pair has no "=", or a pattern is given twice.
    """
    pairs = policies
    if isinstance(policies, Mapping):
        pairs = tuple(f"{pattern}={policy}" for pattern, policy in policies.items())
    for pair in pairs:
        if not all(_halves(pair)):
            raise ValueError(
                f'policies needs PATTERN=POLICY, such as "ally_.*=A" or "enemy_.*=runs/their_run"; got {pair!r}.'
            )
    patterns = [_halves(pair)[0] for pair in pairs]
    if len(set(patterns)) < len(patterns):
        raise ValueError(f"policies names a pattern twice: {', '.join(patterns)}.")
    return tuple(pairs)


def with_fixed(env: MultiAgentEnvironment, pairs: tuple[str, ...]) -> MultiAgentEnvironment:
    """The environment for the agents that learn: fixed policies play all others.

    Raises:
        FileNotFoundError: There is no such run.
        ValueError: See `FixedPolicies`.
        NotImplementedError: The environment has no script.
    """
    by_pattern = _split(pairs)
    matched = matching(env, by_pattern)
    fixed = {pattern: policy for pattern, policy in by_pattern.items() if not learns(policy)}
    mixed = [policy for policy in fixed.values() if policy != SCRIPTED and SCRIPTED in _named(policy)]
    if mixed and env.scripted_policy is None:
        raise ValueError(
            f"policies: {env.name} has no script that could take turns with others, as in {mixed[0]}; leave it out."
        )
    if SCRIPTED in fixed.values() and env.scripted_policy is None:
        against = env.against_script()
        second = [i for i, team in enumerate(env.teams) if team != env.teams[0]]
        played = [i for i, pattern in enumerate(matched) if pattern and by_pattern[pattern] == SCRIPTED]
        if played != second:
            raise ValueError(f"The script of {env.name} plays {', '.join(env.agents[i] for i in second)}.")
        env = against
        fixed = {pattern: policy for pattern, policy in fixed.items() if policy != SCRIPTED}
    if not fixed:
        return env
    by_rule = {_RANDOM: (random_policy_in(env.action_space()),), SCRIPTED: (env.scripted_policy,)}

    def players(policy: str) -> list[Any]:
        return [player for name in _named(policy) for player in by_rule.get(name) or _of_run(name)]

    playing = {pattern: players(policy) for pattern, policy in fixed.items()}
    return FixedPolicies(env, playing)  # pyright: ignore[reportReturnType]


def named_param_sets(env: MultiAgentEnvironment, pairs: tuple[str, ...], otherwise: tuple[int, ...]) -> tuple[int, ...]:
    """The parameter set of each of N agents: those of one policy share one; the others are as in `otherwise`."""
    names = policy_names(env, pairs)
    owners = [number if name is None else name for number, name in zip(otherwise, names, strict=True)]
    first: dict[Any, int] = {}
    return tuple(first.setdefault(owner, len(first)) for owner in owners)


def policy_names(env: MultiAgentEnvironment, pairs: tuple[str, ...]) -> tuple[str | None, ...]:
    """The policy that learns to play each of N agents; None for those that no pattern matches."""
    learning = {pattern: policy for pattern, policy in _split(pairs).items() if learns(policy)}
    return tuple(None if pattern is None else learning[pattern] for pattern in matching(env, learning))


def learning_policies(pairs: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the policies that learn."""
    return tuple(dict.fromkeys(policy for policy in _split(pairs).values() if learns(policy)))


def ambiguous_names(pairs: tuple[str, ...]) -> list[str]:
    """A sentence for each policy that learns although a run lies in a folder of the same name."""
    return [
        f"policies trains a new policy called {name}; for the run in the folder of that name, write ./{name}."
        for name in learning_policies(pairs)
        if (Path(name) / "run.json").is_file()
    ]


def runs_near(pairs: Iterable[str], folder: Path) -> tuple[str, ...]:
    """`pairs`, in which paths of runs that do not exist here are looked up from the folders above `folder`.

    So a run in `folder` that was trained against `runs/their_run` can be evaluated from elsewhere.
    """

    def is_run(policy: str | Path) -> bool:
        return (member_named(policy)[0] / "run.json").is_file()

    def found(name: str) -> str:
        if name in _RULES or is_run(name):
            return name
        above = (parent / name for parent in folder.absolute().parents)
        return next((str(run) for run in above if is_run(run)), name)

    def all_found(policy: str) -> str:
        return policy if learns(policy) else ",".join(map(found, _named(policy)))

    return tuple(f"{pattern}={all_found(policy)}" for pattern, policy in _split(pairs).items())


def fixed_runs(pairs: Iterable[str]) -> tuple[str, ...]:
    """The runs whose policies are held fixed, as they are named."""
    held = [policy for policy in _split(pairs).values() if not learns(policy)]
    return tuple(name for policy in held for name in _named(policy) if name not in _RULES)


def fixed_policies(pairs: Iterable[str]) -> tuple[str, ...]:
    """The pairs that name runs, whether there are any or not."""
    return tuple(pair for pair in pairs if not learns(named := _halves(pair)[1]) and {*named.split(",")} - {*_RULES})


def member_named(name: str | Path) -> tuple[Path, int | None]:
    """The folder and the member's index in `RUN:2`; a folder of exactly this name comes first."""
    folder, _, index = str(name).rpartition(":")
    return (Path(folder), int(index)) if folder and index.isdigit() and not Path(name).exists() else (Path(name), None)


def learns(policy: str) -> bool:
    """Whether this is the name of a policy that learns, and not one that is held fixed."""
    return policy.isidentifier() and policy not in _RULES


def _named(policy: str) -> list[str]:
    """The policies that take turns in `runs/a,runs/b`; a folder of exactly this name comes first."""
    return [policy] if member_named(policy)[0].exists() else policy.split(",")


def _split(pairs: Iterable[str]) -> dict[str, str]:
    return dict(map(_halves, pairs))


def _halves(pair: str) -> tuple[str, str]:
    """The pattern and the policy of a pair; one of them is empty if it has only one.

    No agent's name has a "=", while folders may (`runs/lr=0.1`), and so do the groups (?=…) and (?<=…) of a pattern.
    """
    pattern, *policy = re.split(r"(?<!\(\?)(?<!\(\?<)=", pair, maxsplit=1)
    return pattern, "".join(policy)


def _of_run(name: str) -> tuple[Any, ...]:
    """The policies of all members of a run, or of the one in `RUN:2`, as they are now."""
    folder = member_named(name)[0].absolute()
    files = [file for file in (folder / "run.json", folder / "checkpoints") if file.exists()]
    return _of_run_as_of(name, folder, tuple(file.stat().st_mtime_ns for file in files))


@functools.lru_cache(maxsize=64)
def _of_run_as_of(name: str, folder: Path, when: tuple[int, ...]) -> tuple[Any, ...]:
    """The policies of a run in a folder whose files were written at these times: training it further makes others."""
    del folder, when
    import jaxrl  # `load` knows all algorithms

    run = jaxrl.load(name)
    members = range(run.num_members) if run.index is None else [run.index]
    with jax.ensure_compile_time_eval():
        # Not `run.member(index).policy`: by their one algorithm, they are known to differ in their parameters alone.
        return tuple(Policy(run.algo, run.env, run.member(index).state) for index in members)
