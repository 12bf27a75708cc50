"""The tables of results in README.md, baselines/README.md and pages of docs, made from the raw numbers.

`python docs/tables.py` writes them into the pages; the tests fail if a page says anything else than the raw numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from learning_tables import (
    hide_and_seek,
    kitchen_speed,
    levels,
    levels_jaxnav,
    objects_moved,
    recovery,
    returned_by_run,
    runs,
    spread_by_return,
    spread_by_steps,
    strangers,
    team_runs,
    won_by_run,
    worst,
)
from record import RESULTS
from smax_tables import (
    ablation,
    best_on_smax,
    generalists,
    ippo_on_3m,
    seeds_on_smax,
    self_play_on_smax,
    transfer,
    units_on_smax,
    wins_on_smax,
    won_by_seed,
)
from speed_tables import (
    environment_speed,
    hide_and_seek_speed,
    kernels,
    own_speed,
    peers,
    replay_speed,
    seconds_to_090,
    training_speed,
    value_speed,
)
from table_parts import ROOT, Row, load


def readme() -> list[Row]:
    """The README's one table: beside other libraries, how much is won and how fast."""
    return [("what", "jaxrl", "beside", "measured by"), *wins_on_smax(), *peers()]


def provenance() -> list[Row]:
    """A row for each file of raw numbers under baselines/results that a run of jaxrl has left."""
    rows = [("raw numbers", "command as it was typed", "commit", "jax")]
    for path in sorted(RESULTS.glob("**/*.json")):
        about = load(path)
        if {"command", "git", "versions"} <= set(about):
            commit = about["git"]["commit"][:9] + (" + changes" if about["git"]["dirty"] else "")
            shown = path.relative_to(RESULTS.parent).as_posix()
            rows.append(
                (
                    f"[{path.parent.name}/{path.stem}]({shown})",
                    f"`{about['command']}`",
                    commit,
                    about["versions"]["jax"],
                )
            )
    return rows


TABLES: Mapping[Path, Mapping[str, Callable[[], Iterable[Row]]]] = {
    ROOT / "README.md": {"peers": readme},
    ROOT / "baselines" / "README.md": {"provenance": provenance},
    ROOT / "docs" / "accelerators.md": {"kernels": kernels},
    ROOT / "docs" / "levels.md": {"levels": levels, "levels on JaxNav": levels_jaxnav},
    ROOT / "docs" / "results.md": {
        "smax, today": best_on_smax,
        "ippo on 3m": ippo_on_3m,
        "smax, ten million steps": lambda: won_by_run("smax_10m"),
        "smax, relations": lambda: units_on_smax("smax_relations"),
        "smax, entities": lambda: units_on_smax("smax_entities"),
        "smax, entities, five seeds": lambda: seeds_on_smax("smax_five_seeds", "smax_entities"),
        "smax, discount": lambda: seeds_on_smax("smax_discount", "smax_discount"),
        "smax": lambda: runs("smax"),
        "mpe": lambda: runs("mpe"),
        "mpe, eight seeds": lambda: runs("ippo_mpe"),
        "simple_spread by steps": spread_by_steps,
        "simple_spread by return": spread_by_return,
        "memory": lambda: runs("memory", fields=("memory",)),
        "quadrotor": lambda: runs("quadrotor"),
        "jaxnav": lambda: won_by_run("jaxnav"),
        "social games": lambda: runs("social", timed=True),
        "kitchens": lambda: team_runs("overcooked"),
        "kitchens, strangers": lambda: strangers("coord_ring", "overcooked/coord_ring"),
        "kitchens, speed": kitchen_speed,
        "hanabi": lambda: team_runs("hanabi", ("hidden", "gamma")),
        "hanabi, strangers": lambda: strangers("hanabi_2p", "hanabi/ippo_2p_ten", digits=1),
        "smax, transfer": transfer,
        "smax, generalists": generalists,
        "smax, named": lambda: won_by_seed("smax_named"),
        "smax, in turn": lambda: won_by_seed("mat_smax"),
        "smax, ablation": lambda: ablation("smax/2s3z"),
        "smax, ablation outnumbered": lambda: ablation("smax/3s5z_vs_3s6z"),
        "smax, ablation with random armies": lambda: ablation("smax/smacv2_5_units"),
        "self-play on SMAX": self_play_on_smax,
        "hide and seek, learning": hide_and_seek,
        "hide and seek, the box": objects_moved,
        "minatar": lambda: returned_by_run("minatar"),
        "classic": lambda: runs("ppo_classic", timed=True),
        "streams": lambda: runs("stream_classic"),
        "team values in the particle world": lambda: runs("team_q_mpe", timed=True),
        "team values on SMAX": lambda: won_by_run("team_q_smax"),
        "team values on SMAX, with Muon": lambda: won_by_run("pqn_vdn_3m_muon"),
        "PQN on classic control": lambda: runs("pqn_classic", timed=True),
        "DQN on classic control": lambda: runs("dqn_classic", timed=True),
        "worst of twenty": lambda: worst("worst_of_twenty"),
        "actors and critics": lambda: runs("actor_critic", timed=True),
        "recovery": recovery,
        "environments": environment_speed,
        "hide and seek": hide_and_seek_speed,
        "training": training_speed,
        "training of values": value_speed,
        "replay": replay_speed,
        "seconds to 0.9": seconds_to_090,
        "own speed": own_speed,
    },
}
