"""The tables of results in README.md, docs/results.md and baselines/README.md, made from the raw numbers.

`python docs/tables.py` writes them into the pages; the tests fail if a page says anything else than the raw numbers.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

from record import RESULTS, iqm_of, scores

ROOT = Path(__file__).resolve().parent.parent
SPEED = Path(__file__).resolve().parent / "speed" / "results"
Row = tuple[str, ...]

LIBRARIES = {"jaxmarl": "JaxMARL", "gymnax": "gymnax", "envpool": "EnvPool"}


# Learning: runs that `baselines/record.py` has kept.


def runs(folder: str, timed: bool = False) -> list[Row]:
    """A row per run of several seeds, or one per kind of agents where kinds want different things.

    Args:
        folder: Under baselines/results.
        timed: Whether the machine was quiet, so that seconds are worth a column.
    """
    head = ("environment", "algorithm", "steps per seed", "seeds", "IQM (95 %)", "seed by seed")
    rows: list[Row] = [(*head, "seconds")] if timed else [head]
    kept = [load(path) for path in sorted((RESULTS / folder).glob("*.json"))]
    trained = [about for about in kept if {"algorithm", "iqm"} <= set(about)]  # by jaxrl
    for about in sorted(trained, key=lambda about: (about["env"], about["algorithm"])):
        seeds = f"{about['seed']} to {about['seed'] + about['num_seeds'] - 1}"
        head = (about["env"], about["algorithm"], million(about["timesteps"]), seeds)
        rows += [(*head, *cells, *([seconds(about)] if timed else [])) for cells in score_cells(about)]
    return rows


def score_cells(about: dict[str, Any]) -> list[tuple[str, str]]:
    """The interquartile mean with its interval, and each seed's score; a pair for each kind of agents that differs."""
    cells = []
    for name, values in scores(about["evaluation"]).items():
        digits = 3 if name == "win_rate" else 1
        kind = "" if name in ("win_rate", "return_mean") else f"{name.removeprefix('return_')}: "
        shown = " ".join(f"{value:.{digits}f}" for value in values)
        cells.append((kind + interval(about["iqm"][name], digits), shown))
    # Where agents of several kinds want different things, the mean over all of them says little.
    differ = len({shown for _, shown in cells}) > 1
    return cells[1:] if differ else cells[:1]


def ippo_on_3m() -> list[Row]:
    """A row per seed, and one for all of them."""
    abouts = sorted((load(path) for path in (RESULTS / "ippo_smax_3m").glob("*.json")), key=lambda about: about["seed"])
    rows = [("seed", "steps", "greedy win rate", "seconds"), *((str(about["seed"]), *won(about)) for about in abouts)]
    return [*rows, ("IQM (95 %)", "", interval(iqm_of([about["evaluation"]["win_rate"] for about in abouts]), 3), "")]


def won_by_run(folder: str) -> list[Row]:
    """A row per run of one seed."""
    abouts = [load(path) for path in sorted((RESULTS / folder).glob("*.json"))]
    rows = [("environment", "algorithm", "seed", "steps", "greedy win rate", "seconds")]
    return [*rows, *((about["env"], about["algorithm"], str(about["seed"]), *won(about)) for about in abouts)]


def entities_on_smax() -> list[Row]:
    """A row per run with networks of entities, and what its policy wins in JaxMARL's own environment."""
    theirs = {
        (run["env"], run["algorithm"], run["seed"]): run["jaxmarl"]
        for run in load(RESULTS / "smax_entities_in_jaxmarl.json")["runs"]
    }
    head, *rows = won_by_run("smax_entities")
    played = [f"{theirs[row[0], row[1], int(row[2])]:.3f}" for row in rows]
    return [(*head, "in JaxMARL's SMAX"), *((*row, wins) for row, wins in zip(rows, played, strict=True))]


def won(about: dict[str, Any]) -> Row:
    """Steps, win rate and seconds of a run of one seed."""
    return million(about["timesteps"]), f"{about['evaluation']['win_rate']:.3f}", seconds(about)


def spread_by_steps() -> list[Row]:
    """Returns on simple_spread after as many steps, ours and JaxMARL's."""
    ours, theirs = spread_curves()
    rows = [("steps per seed", "jaxrl", "JaxMARL")]
    for steps in (130_000, 260_000, 390_000, 500_000, 1_000_000, 4_000_000, 10_000_000):
        rows.append((short(steps), return_at(ours, steps), return_at(theirs, steps)))
    jaxrl = load(RESULTS / "ippo_mpe" / "simple_spread.json")["iqm"]["return_mean"]
    jaxmarl = load(RESULTS / "ippo_mpe" / "jaxmarl_simple_spread.json")["iqm"]["greedy"]
    return [*rows, ("at the end, greedy, IQM (95 %)", interval(jaxrl, 1), interval(jaxmarl, 1))]


def return_at(curve: list[tuple[int, float, float]], steps: int) -> str:
    """The return at the recorded point nearest to `steps`; empty where training ended long before."""
    if steps > 1.1 * curve[-1][0]:
        return ""
    return f"{min(curve, key=lambda point: abs(point[0] - steps))[2]:.1f}"


def spread_by_return() -> list[Row]:
    """Steps and seconds to a return on simple_spread, ours and JaxMARL's."""
    rows = [("return reached", "jaxrl", "JaxMARL")]
    for goal in (-21.0, -20.0, -19.5, -19.0):
        cells = []
        for curve in spread_curves():
            point = next((point for point in curve if point[2] >= goal), None)
            if point is None:
                cells.append(f"not in {short(curve[-1][0])} steps, {curve[-1][1]:,.0f} s")
            else:
                cells.append(f"{short(point[0])} steps, {point[1]:.0f} s")
        rows.append((f"{goal:g}", *cells))
    return rows


def spread_curves() -> tuple[list[tuple[int, float, float]], list[tuple[int, float, float]]]:
    """Steps, seconds and the mean over seeds of the sampled return, ours and JaxMARL's."""

    def curve(name: str, column: str) -> list[tuple[int, float, float]]:
        return [
            (int(row["timesteps"]), float(row["seconds"]), mean(float(row[k]) for k in row if k.startswith(column)))
            for row in load_csv(RESULTS / "ippo_mpe" / f"{name}.csv")
        ]

    return curve("simple_spread", "return_mean"), curve("jaxmarl_simple_spread", "sampled")


def team_runs(folder: str) -> list[Row]:
    """A row per run of several seeds, ours and JaxMARL's, by the most likely and by sampled actions."""
    scored = ("greedy, IQM (95 %)", "sampled, IQM (95 %)", "sampled, seed by seed")
    rows: list[Row] = [("environment", "trained by", "steps per seed", "seeds", *scored)]
    kept = [load(path) for path in (RESULTS / folder).glob("*.json")]
    for about in sorted(kept, key=lambda about: (about["env"], about["algorithm"])):
        greedy, sampled = about["evaluation"]["return_mean"], about["sampled"]["return_mean"]
        seeds = f"{about['seed']} to {about['seed'] + about['num_seeds'] - 1}"
        head = (about["env"].partition("?")[0], about["algorithm"], million(about["timesteps"]), seeds)
        shown = (interval(iqm_of(values), 1) for values in (greedy, sampled))
        rows.append((*head, *shown, " ".join(f"{value:.1f}" for value in sampled)))
    return rows


def strangers(name: str) -> list[Row]:
    """A row per seed of a run in a kitchen: the mean return with each of the others."""
    arena, first = load(RESULTS / "arenas" / f"{name}.json"), load(RESULTS / "overcooked" / f"{name}.json")["seed"]
    seeds = [f"seed {first + i}" for i in range(len(arena["names"]))]
    return [
        ("", *seeds),
        *((own, *(f"{value:.0f}" for value in row)) for own, row in zip(seeds, arena["matrix"], strict=True)),
    ]


def kitchen_speed() -> list[Row]:
    """A row per kitchen: training with each side's own settings, in turns on one core."""
    rows: list[Row] = [
        ("kitchen", "JaxMARL's script", "ratio", "jaxrl, steps per CPU second", "JaxMARL, steps per CPU second")
    ]
    for run in load(RESULTS / "kitchen_speed.json")["runs"]:
        speeds = f"{run['ours_sps']:,.0f}", f"{run['peer_sps']:,.0f}"
        rows.append((run["kitchen"], run["script"], f"{run['ratio']:.1f}", *speeds))
    return rows


def hide_and_seek() -> list[Row]:
    """A row per run of hide-and-seek: how each seed's policies play at the end."""
    head = ("run", "steps per seed", "seeds", "hider seen, IQM (95 %)", "seed by seed", "door blocked, seed by seed")
    rows: list[Row] = [head]
    for name in ("chase_seekers", "chase_hiders", "room_seekers", "room_hiders"):
        about = load(RESULTS / "hide_and_seek" / f"{name}.json")
        game, last = about["game"], about["seed"] + about["num_seeds"] - 1
        seen, blocked = (" ".join(f"{v:.2f}" for v in game[column]) for column in ("seen_fraction", "doors_blocked"))
        steps, first = million(about["timesteps"]), interval(iqm_of(game["seen_fraction"]), 2)
        rows.append((f"`{name}`", steps, f"{about['seed']} to {last}", first, seen, blocked if "room" in name else ""))
    return rows


def objects_moved() -> list[Row]:
    """A row per run in the room: what becomes of the box, by phase, as the mean over seeds."""
    numbers = ("boxes_moved_preparation", "boxes_moved_hunt", "boxes_locked_preparation", "boxes_locked_hunt")
    rows: list[Row] = [("run", *(name.replace("_", " ") for name in numbers))]
    for path in sorted((RESULTS / "hide_and_seek").glob("room_*.json"), reverse=True):
        game = load(path)["game"]
        rows.append((f"`{path.stem}`", *(f"{mean(game[name]):.2f}" for name in numbers)))
    return rows


def recovery() -> list[Row]:
    """A row per task and method."""
    rows = [
        (
            "task",
            "method",
            "searches that recover",
            "searches with every test seed at the goal",
            "test seeds at the goal",
        )
    ]
    for about in map(load, sorted(RESULTS.glob("recovery*.json"))):
        for task, method in dict.fromkeys((row["task"], row["method"]) for row in about["searches"]):
            found = [row for row in about["searches"] if (row["task"], row["method"]) == (task, method)]
            seeds = [(row["test_seeds_at_goal"], len(row["test"])) for row in found]
            counts = sum(row["recovered"] for row in found), sum(at == of for at, of in seeds)
            at_goal = f"{sum(at for at, _ in seeds)} of {sum(of for _, of in seeds)}"
            rows.append((task, method, *(f"{count} of {len(found)}" for count in counts), at_goal))
    return [rows[0], *sorted(rows[1:])]


# Speed.


def environment_speed() -> list[Row]:
    """A row per environment and peer: random play."""
    rows = [("environment", "copies", "peer", "ratio", "jaxrl, steps per second", "peer, steps per second")]
    for result in comparisons("smax", "mpe", "overcooked", "hanabi", "social", "classic", "minatar"):
        speeds = [f"{result[side]['steps_per_second']:,.0f}" for side in ("ours", "peer")]
        rows.append((result["env"], f"{result['num_envs']:,}", peer(result), f"{result['ratio']:.1f}", *speeds))
    return rows


def hide_and_seek_speed() -> list[Row]:
    """A row per number of worlds: random play."""
    rows = [("environment", "copies", "steps per second", "compiled in")]
    for result in load(latest("hide_and_seek"))["results"]:
        ours = result["ours"]
        rate, seconds = f"{ours['steps_per_second']:,.0f}", f"{ours['compile_seconds']:.0f} s"
        rows.append((result["env"], f"{result['num_envs']:,}", rate, seconds))
    return rows


def training_speed() -> list[Row]:
    """A row per algorithm and map: training with the same hyperparameters."""
    rows = [("algorithm", "map", "jaxrl runs on", "ratio", "jaxrl, steps per second", "JaxMARL, steps per second")]
    for run in load(RESULTS / "training_speed.json")["runs"]:
        devices = "one device" if run.get("note") == "ours on one device" else "two devices, one a core"
        speeds = f"{run['ours_sps']:,.0f}", f"{run['peer_sps']:,.0f}"
        rows.append((run["algorithm"].upper(), f"smax/{run['map']}", devices, f"{run['ratio']:.2f}", *speeds))
    return rows


def value_speed() -> list[Row]:
    """A row per comparison of `baselines/speed/values.py`."""
    head = ("algorithm", "environment", "beside", "ratio by CPU seconds", "by the clock", "on a device for each core")
    rows: list[Row] = [(*head, "compiling, CPU seconds: ours / theirs")]
    for name, case in load(latest("values"))["cases"].items():
        clock, cpu = case["ratio of ours"]
        spread = case.get("ratio of ours, all devices")
        compiling = " / ".join(f"{case['compile_seconds'][side][0][1]:.1f}" for side in ("ours", "peer"))
        algorithm, _, size = name.partition(", ")
        what = algorithm.upper().replace("_", "-") + (f", {int(float(size)):,} steps in the buffer" if size else "")
        shown = (f"{cpu:.2f}", f"{clock:.2f}", "–" if spread is None else f"{spread[0]:.2f}")
        rows.append((what, case["env"], case["peer"], *shown, compiling))
    return rows


def replay_speed() -> list[Row]:
    """A row per size of the buffer in `baselines/speed/replay.py`."""
    rows = [("steps in the buffer", "jaxrl, microseconds", "flashbax, microseconds")]
    median = load(latest("replay"))["microseconds"]
    for size in ("10,000", "1,000,000"):
        rows.append((size, *(f"{median[f'{library}, {size}'][1]:.0f}" for library in ("ours", "flashbax"))))
    return rows


def seconds_to_090() -> list[Row]:
    """A row per map: how soon each side wins nine battles of ten."""
    rows = [("map", "jaxrl: steps", "jaxrl: seconds", "JaxMARL: steps", "JaxMARL: seconds", "ratio")]
    for name in ("3m", "2s3z", "8m"):
        race = Race(name)
        ours = " ".join(f"{value:.0f}" for value in race.our_seconds) + f" + {race.our_compile:.0f}"
        theirs = " ".join(f"{value:,.0f}" for value in race.their_seconds)
        if race.ends:
            wins = ", ".join(f"{win:.2f} after {million(steps)}" for steps, win in race.ends)
            their_steps, theirs = f"never; win rates {wins}", f"over {theirs}"
        else:
            their_steps = ", ".join(map(million, race.their_steps))
        rows.append((f"smax/{name}", ", ".join(map(million, race.our_steps)), ours, their_steps, theirs, race.ratio))
    return rows


class Race:
    """When both sides won nine battles of ten on a map, as baselines/results/seconds_to_090 has it."""

    def __init__(self, name: str) -> None:
        about = load(RESULTS / "seconds_to_090" / "about.json")
        reached = about["jaxrl_reached"][name].values()
        self.our_steps, self.our_seconds = [steps for steps, _ in reached], [value for _, value in reached]
        self.our_compile = max(r["compile_seconds"] for r in about["jaxrl"]["runs"][name] if not r["compile_cached"])
        self.ends: list[tuple[int, float]] = []
        """Where JaxMARL never won nine of ten: how long each seed was trained, and its win rate then."""
        if about["jaxmarl_reached"][name] is None:
            self.ends = last_win_rates(RESULTS / "seconds_to_090" / f"{name}_jaxmarl.csv")
            self.their_steps = [max(steps for steps, _ in self.ends)]
        else:
            self.their_steps = list(about["jaxmarl_reached"][name].values())
        self.their_seconds = [steps / about["jaxmarl"]["steps_per_second_alone"][name] for steps in self.their_steps]

    @property
    def ratio(self) -> str:
        """Their median seconds over ours; our compiling counts, theirs does not."""
        ratio = median(self.their_seconds) / (median(self.our_seconds) + self.our_compile)
        return f"over {math.floor(ratio)}" if self.ends else f"{ratio:.0f}"


def last_win_rates(path: Path) -> list[tuple[int, float]]:
    """For each seed the steps it was trained for and the mean win rate of its last ten rows, the longest run first."""
    rows, ends = load_csv(path), []
    for name in rows[0]:
        points = [(int(row["timesteps"]), float(row[name])) for row in rows if row[name] and name != "timesteps"]
        if points:
            ends.append((points[-1][0], mean(win for _, win in points[-10:])))
    return sorted(ends, reverse=True)


def own_speed() -> list[Row]:
    """What many agents, devices, checkpoints and our convolution gain or cost, beside jaxrl itself."""
    names = ("sweep", "devices_smax_3m", "checkpoint_cost", "pictures_ppo_Breakout-MinAtar", "streams")
    sweep, devices, saves, pictures, streams = (load(latest(name)) for name in names)
    seconds = f"{sweep['sweep_seconds']:.0f} s instead of {sweep['separate_seconds']:,.0f} s"
    percent = saves["training"]["percent_at_one_a_minute"]
    ours, xla = (pictures[side]["steps_per_cpu_second"] for side in ("ours", "xla"))
    [large] = [size["seconds"] / 60 * 100 for size in saves["sizes"] if size["megabytes"] == 300]
    return [
        ("what", "result", "command"),
        (
            "64 agents in one program instead of 64 runs",
            f"{sweep['ratio']:.1f} times as fast ({seconds})",
            "`python baselines/speed/sweep.py`",
        ),
        (
            "two devices instead of one, same total size",
            f"{devices['feed-forward']['ratio']:.2f} times as fast; with a GRU {devices['gru']['ratio']:.2f} times",
            "`python baselines/speed/devices.py --turns 7 --seconds 2`",
        ),
        (
            "a checkpoint a minute",
            f"costs {percent:.2f} %; {large:.2f} % if the state is 300 MB",
            "`python baselines/speed/checkpoint_cost.py`",
        ),
        (
            "our convolution instead of XLA's, PPO on MinAtar's Breakout",
            f"{ours / xla:.0f} times as fast ({ours:,} steps per second of a core instead of {xla:,})",
            "`python baselines/speed/pictures.py`",
        ),
        *(
            (
                f"{row['learners']:,} stream Q learners in one program, {row['at_once']:,} at once",
                f"{row['steps_per_second']:,} steps per second of all together, each with its gradient step",
                "`python baselines/speed/streams.py`",
            )
            for row in streams["rows"][-2:]
        ),
    ]


def peers() -> list[Row]:
    """The table of the project's README: how many times as fast jaxrl is."""

    def span(kind: str, library: str) -> str:
        ratios = [result["ratio"] for result in comparisons(kind) if result["peer"]["library"] == library]
        return f"{min(ratios):.1f} to {max(ratios):.1f}"

    def row(what: str, kind: str, library: str) -> Row:
        known = next(result for result in comparisons(kind) if result["peer"]["library"] == library)
        return what, span(kind, library), peer(known), f"`python baselines/speed/{kind}.py`"

    training = {(run["algorithm"], run["map"]): run["ratio"] for run in load(RESULTS / "training_speed.json")["runs"]}
    ippo, mappo = (f"{training[name, '3m']:.1f} and {training[name, '2s3z']:.1f}" for name in ("ippo", "mappo"))
    theirs, how = "JaxMARL's script", "[as described](baselines/README.md"
    sweep = f"{load(latest('sweep'))['ratio']:.1f}"
    return [
        ("what", "times as fast", "as", "measured by"),
        row("five SMAX battles, random play", "smax", "jaxmarl"),
        row("five MPE scenarios, random play", "mpe", "jaxmarl"),
        row("classic control, random play", "classic", "gymnax"),
        row("classic control, random play", "classic", "envpool"),
        ("IPPO training, 3m and 2s3z", ippo, theirs, f"{how}#training-speed)"),
        ("MAPPO training, 3m and 2s3z", mappo, theirs, f"{how}#training-speed)"),
        ("IPPO on 2s3z, own defaults, to 90 % wins", Race("2s3z").ratio, theirs, f"{how}#seconds-to-nine-wins-in-ten)"),
        ("64 PPO agents in one program", sweep, "64 separate runs", "`python baselines/speed/sweep.py`"),
    ]


# Provenance.


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


# Reading and writing.


def comparisons(*kinds: str) -> list[dict[str, Any]]:
    """Results of `baselines/speed/against.py`, the latest file of each kind."""
    return [result for kind in kinds for result in load(latest(f"{kind}_fresh"))["results"]]


def peer(result: dict[str, Any]) -> str:
    """A library and its version."""
    library = result["peer"]["library"]
    return f"{LIBRARIES[library]} {result['versions'][library]}"


def latest(name: str) -> Path:
    """The newest file of raw numbers that begins with `name`; dates sort."""
    return max(SPEED.glob(f"{name}_2*.json"))


def load(path: Path) -> dict[str, Any]:
    """A file of raw numbers."""
    return json.loads(path.read_text(encoding="utf-8"))


def load_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a curve."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def interval(iqm: dict[str, float], digits: int) -> str:
    """`0.969 (0.959 to 0.975)`."""
    estimate, low, high = (f"{iqm[part]:.{digits}f}" for part in ("estimate", "low", "high"))
    return f"{estimate} ({low} to {high})"


def million(steps: float) -> str:
    """`4.0 M`, or `0.04 M`."""
    digits = 1 if steps >= 95_000 else 2
    return f"{steps / 1e6:.{digits}f} M"


def short(steps: int) -> str:
    """`356 k` or `4.0 M`."""
    return million(steps) if steps >= 1e6 else f"{steps // 1000} k"


def seconds(about: dict[str, Any]) -> str:
    """Training and compiling."""
    return f"{about['train_seconds']:.0f} + {about['compile_seconds']:.0f}"


TABLES: Mapping[Path, Mapping[str, Callable[[], Iterable[Row]]]] = {
    ROOT / "README.md": {"peers": peers},
    ROOT / "baselines" / "README.md": {"provenance": provenance},
    ROOT / "docs" / "results.md": {
        "ippo on 3m": ippo_on_3m,
        "smax, ten million steps": lambda: won_by_run("smax_10m"),
        "smax, entities": entities_on_smax,
        "smax": lambda: runs("smax"),
        "mpe": lambda: runs("mpe"),
        "mpe, eight seeds": lambda: runs("ippo_mpe"),
        "simple_spread by steps": spread_by_steps,
        "simple_spread by return": spread_by_return,
        "social games": lambda: runs("social", timed=True),
        "kitchens": lambda: team_runs("overcooked"),
        "kitchens, strangers": lambda: strangers("coord_ring"),
        "kitchens, speed": kitchen_speed,
        "hanabi": lambda: team_runs("hanabi"),
        "hide and seek, learning": hide_and_seek,
        "hide and seek, the box": objects_moved,
        "classic": lambda: runs("ppo_classic", timed=True),
        "streams": lambda: runs("stream_classic"),
        "team values in the particle world": lambda: runs("team_q_mpe", timed=True),
        "team values on SMAX": lambda: won_by_run("team_q_smax"),
        "team values on SMAX, with Muon": lambda: won_by_run("pqn_vdn_3m_muon"),
        "actors and critics": lambda: runs("actor_critic"),
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
