"""The tables of docs/classic.md, docs/probe.md and docs/environments.md, made from the environments themselves.

`python docs/tables.py` writes them anew; building the site and the tests fail if a page has another one. The tables of
docs/smax.md and docs/mpe.md have more columns and scripts of their own, in tests/envs/*/test_docs.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import jaxrl
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

FOLDER = Path(__file__).resolve().parent


def stale(write: bool = False) -> list[str]:
    """The pages whose table is not what the environments say; with `write` they are corrected."""
    pages = []
    for page, make in TABLES.items():
        path = FOLDER / page
        text = path.read_text(encoding="utf-8")
        before, begin, rest = text.partition("<!-- table -->\n")
        _, end, after = rest.partition("<!-- end of table -->")
        if not end:
            raise ValueError(f"{page} needs the lines <!-- table --> and <!-- end of table -->.")
        new = before + begin + "\n" + make() + "\n" + end + after
        if new != text:
            pages.append(page)
            if write:
                path.write_text(new, encoding="utf-8")
    return pages


def families() -> str:
    """A row a family."""
    rows = [("family", "environments", "agents", "observation", "actions", "page")]
    for family, page in (("smax", "smax"), ("mpe", "mpe"), ("classic", "classic"), ("probe", "probe")):
        envs = [jaxrl.make(name) for name in jaxrl.list_envs(f"{family}/*")]
        agents = [env.num_agents if isinstance(env, MultiAgentEnvironment) else 1 for env in envs]
        sizes = [int(np.prod(env.observation_space().shape)) for env in envs]
        counts = [env.action_space().n for env in envs if isinstance(env.action_space(), Discrete)]
        rows.append(
            (f"`{family}/…`", str(len(envs)), span(agents), span(sizes), span(counts), f"[{page}.md]({page}.md)")
        )
    return markdown(rows)


def single(family: str) -> Callable[[], str]:
    """A row an environment, with spaces and limits."""

    def table() -> str:
        rows = [("name", "also called", "agents", "observation", "actions", "at most")]
        for name in jaxrl.list_envs(f"{family}/*"):
            env = jaxrl.make(name)
            agents = str(env.num_agents) if isinstance(env, MultiAgentEnvironment) else "–"
            spaces = (describe(env.observation_space()), describe(env.action_space()))
            rows.append((f"`{name}`", aliases(name), agents, *spaces, limit(env)))
        return markdown(rows)

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


def markdown(rows: list[tuple[str, ...]]) -> str:
    """Rows as a table, the first as its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]) + "\n"


TABLES = {"environments.md": families, "classic.md": single("classic"), "probe.md": single("probe")}

if __name__ == "__main__":
    print("Rewritten:", stale(write=True))
    sys.exit()
