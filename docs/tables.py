"""The generated tables of all pages: `python docs/tables.py` writes them; the site and the tests fail if one is stale.

This file makes the tables of environments, from the environments themselves; baselines/result_tables.py makes those of
results, from raw numbers. The tables of scenarios in docs/smax.md and docs/mpe.md have scripts of their own,
tests/envs/smax/test_docs.py and tests/envs/mpe/test_docs.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

import jaxrl
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

FOLDER = Path(__file__).resolve().parent
FAMILIES = ("smax/…", "mpe/…", "overcooked/…", "overcooked_v2/…", "hanabi/…", "coin_game", "switch_riddle", "storm/…")
FAMILIES += ("hide_and_seek/…", "jaxnav/…", "maze/…", "matrix/…", "classic/…", "quadrotor/…", "memory/…", "minatar/…")
FAMILIES += ("probe/…",)
ALONE = ("overcooked", "overcooked_v2", "hanabi", "hide_and_seek", "jaxnav", "classic", "quadrotor", "memory")
ALONE += ("maze", "minatar", "probe")
SOCIAL = ("coin_game", "switch_riddle", "storm/…")
PAGES: dict[str, str] = {**dict.fromkeys(SOCIAL, "social_games.md"), "matrix/…": "self_play.md"}
"""The page of families that have none of their own name."""
Row = tuple[str, ...]
Tables = Mapping[Path, Mapping[str, Callable[[], Iterable[Row]]]]
"""For each page the function behind each table, by the name that its marker has."""


def stale(pages: Tables, write: bool = False) -> list[str]:
    """The tables that are not what their functions say; with `write` they are corrected.

    A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`.

    Raises:
        ValueError: A page lacks a table's markers.
    """
    found = []
    for path, tables in pages.items():
        old = text = path.read_text(encoding="utf-8")
        for name, make in tables.items():
            marker = f"<!-- table: {name} -->\n"
            before, begin, rest = text.partition(marker)
            shown, end, after = rest.partition("<!-- end of table -->")
            if not end:
                raise ValueError(f"{path.name} needs the lines {marker.strip()} and <!-- end of table -->.")
            table = f"\n{markdown(make())}\n"
            if shown != table:
                found.append(f"{path.name}: {name}")
            text = before + begin + table + end + after
        if write and text != old:
            path.write_text(text, encoding="utf-8")
    return found


def families() -> list[Row]:
    """A row per family."""
    rows = [("family", "environments", "agents", "observation", "actions", "page")]
    for family in FAMILIES:
        envs = [jaxrl.make(name) for name in jaxrl.list_envs(family.replace("…", "*"))]
        agents = [env.num_agents if isinstance(env, MultiAgentEnvironment) else 1 for env in envs]
        sizes = [int(np.prod(env.observation_space().shape)) for env in envs]
        counts = [env.action_space().n for env in envs if isinstance(env.action_space(), Discrete)]
        actions = span(counts) if counts else " or ".join(dict.fromkeys(describe(env.action_space()) for env in envs))
        page = PAGES.get(family, f"{family.partition('/')[0]}.md")
        rows.append((f"`{family}`", str(len(envs)), span(agents), span(sizes), actions, f"[{page}]({page})"))
    return rows


def single(*patterns: str) -> Callable[[], list[Row]]:
    """A row per environment, with spaces and limits."""

    def table() -> list[Row]:
        rows = [("name", "also called", "agents", "observation", "actions", "at most")]
        for name in (name for pattern in patterns for name in jaxrl.list_envs(pattern)):
            env = jaxrl.make(name)
            agents = str(env.num_agents) if isinstance(env, MultiAgentEnvironment) else "–"
            spaces = (describe(env.observation_space()), describe(env.action_space()))
            rows.append((f"`{name}`", aliases(name), agents, *spaces, limit(env)))
        return rows

    return table


def describe(space: Space) -> str:
    """A space in a few characters."""
    if isinstance(space, Discrete):
        return f"{space.n} choices"
    if isinstance(space, MultiDiscrete):
        return " × ".join(map(str, space.nvec)) + " choices"
    assert isinstance(space, Box)
    shape = " × ".join(map(str, space.shape)) or "1"
    low, high = float(np.min(space.low)), float(np.max(space.high))
    numbers = "number" if shape == "1" else "numbers"
    return f"{shape} {numbers}" + (f" in {low:g} … {high:g}" if np.isfinite([low, high]).all() else "")


def aliases(name: str) -> str:
    """The other names of an environment."""
    return ", ".join(f"`{alias}`" for alias, target in jaxrl.registry._ALIASES.items() if target == name) or "–"


def limit(env: Environment) -> str:
    """The number of steps after which the clock ends an episode."""
    steps = getattr(env.default_params, "max_steps", None)
    return "–" if steps is None else f"{int(steps)} steps"


def span(numbers: list[int]) -> str:
    """`3` or `3 to 27`."""
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def markdown(rows: Iterable[Row]) -> str:
    """Rows as a table, the first as its head."""
    head, *body = rows
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *body)]
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


def all_tables() -> Tables:
    """Those of the environments and those of the results."""
    folder = str(FOLDER.parent / "baselines")
    sys.path.append(folder)
    try:
        from result_tables import TABLES
    finally:
        sys.path.remove(folder)
    alone = {f"{family}.md": single(f"{family}/*") for family in ALONE}
    social = single(*(family.replace("…", "*") for family in SOCIAL))
    environments = {"environments.md": families, "social_games.md": social, **alone}
    return {**{FOLDER / page: {"environments": make} for page, make in environments.items()}, **TABLES}


if __name__ == "__main__":
    print("Rewritten:", ", ".join(stale(all_tables(), write=True)) or "nothing")
