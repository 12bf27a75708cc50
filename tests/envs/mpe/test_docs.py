"""The scenario table of docs/mpe.md is the truth: `python tests/envs/mpe/test_docs.py` writes it anew."""

from itertools import groupby
from pathlib import Path

import jax

import jaxrl
from jaxrl.check import check_env
from jaxrl.envs.mpe import SCENARIOS

PAGE = Path(__file__).parents[3] / "docs" / "mpe.md"
HEAD = "| name | agents | observation | actions | continuous | global state |\n| --- | --- | --- | --- | --- | --- |\n"
END = "\nWhere agents differ"


def table():
    rows = []
    for name in SCENARIOS:
        env, smooth = (jaxrl.make(f"mpe/{name}", action_type=kind) for kind in ("discrete", "continuous"))
        stems = [agent.rstrip("0123456789_") for agent in env.agents]
        agents = ", ".join(f"{len(list(group))} {stem}" for stem, group in groupby(stems))
        first = [stems.index(stem) for stem in dict.fromkeys(stems)]
        sizes = [
            [list(env.agent_observation_spaces.values())[i].shape[0] for i in first],
            [list(env.agent_action_spaces.values())[i].n for i in first],
            [list(smooth.agent_action_spaces.values())[i].shape[0] for i in first],
        ]
        world = env.world
        whole = 2 * len(world.bodies) + 2 * len(world.movers) + len(world.speakers) * world.words + sum(env.choices)
        cells = [", ".join(map(str, dict.fromkeys(size) if len(set(size)) == 1 else size)) for size in sizes]
        rows.append(f"| `mpe/{name}` | {agents} | {' | '.join(cells)} | {whole} |\n")
    return "".join(rows)


def test_table_of_scenarios():
    assert HEAD + table() + END in PAGE.read_text(encoding="utf-8"), "Run python tests/envs/mpe/test_docs.py"


def test_the_scenario_of_ones_own():
    page = PAGE.read_text(encoding="utf-8")
    block = next(text for text in page.split("```python\n")[1:] if "class Rendezvous" in text).split("```")[0]
    code, _, registration = block.rpartition("\n\n\n")
    names = {"jaxrl": jaxrl}
    exec(code, names)
    assert "Rendezvous" in registration
    env = names["Rendezvous"]()  # pyright: ignore
    obs, *_ = jax.eval_shape(env.reset, jax.random.key(0))
    assert obs.shape == (3, 2 + 2 * 3)
    check_env(env, num_steps=52)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(HEAD)
    PAGE.write_text(before + HEAD + table() + rest[rest.index(END) :], encoding="utf-8")
