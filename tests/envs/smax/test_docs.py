"""The scenario table of docs/smax.md is the truth: `python tests/envs/smax/test_docs.py` writes it anew."""

from itertools import groupby
from pathlib import Path

import jaxrl
from jaxrl.envs.smax import SCENARIOS, UNIT_NAMES

PAGE = Path(__file__).parents[3] / "docs" / "smax.md"
HEAD = "| --- | --- | --- | --- | --- | --- |\n"


def table():
    rows = []
    for name, scenario in SCENARIOS.items():
        env = jaxrl.make(f"smax/{name}")
        armies = []
        for team in (scenario.allies, scenario.enemies):
            groups = [(len(list(units)), UNIT_NAMES[kind]) for kind, units in groupby(team)]
            armies.append(f"{len(team)} random" if scenario.random_types else ", ".join(f"{n} {u}" for n, u in groups))
        sizes = (env.observation_space().shape[0], env.action_space().n, 12 * env.num_units)
        rows.append(f"| `smax/{name}` | {armies[0]} | {armies[1]} | " + " | ".join(map(str, sizes)) + " |\n")
    return "".join(rows)


def test_table_of_scenarios():
    assert HEAD + table() in PAGE.read_text(encoding="utf-8"), "Run python tests/envs/smax/test_docs.py"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(HEAD)
    after = rest[rest.index("\nLetters:") :]
    PAGE.write_text(before + HEAD + table() + after, encoding="utf-8")
