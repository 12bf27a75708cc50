"""The tables of speed, from the raw numbers of `baselines/speed`."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean, median
from typing import Any

from record import RESULTS
from table_parts import SPEED, Row, latest, load, load_csv, million

LIBRARIES = {"jaxmarl": "JaxMARL", "gymnax": "gymnax", "envpool": "EnvPool"}


def environment_speed() -> list[Row]:
    """A row per environment and peer: random play."""
    rows: list[Row] = [("environment", "copies", "peer", "ratio", "jaxrl, steps per second", "peer, steps per second")]
    for result in comparisons("smax", "mpe", "overcooked", "overcooked_v2", "hanabi", "social", "classic", "minatar"):
        speeds = [f"{result[side]['steps_per_second']:,.0f}" for side in ("ours", "peer")]
        rows.append((result["env"], f"{result['num_envs']:,}", peer(result), f"{result['ratio']:.1f}", *speeds))
    return rows


def hide_and_seek_speed() -> list[Row]:
    """A row per number of worlds: random play."""
    rows: list[Row] = [("environment", "copies", "steps per second", "compiled in")]
    for result in load(latest("hide_and_seek"))["results"]:
        ours = result["ours"]
        rate, seconds = f"{ours['steps_per_second']:,.0f}", f"{ours['compile_seconds']:.0f} s"
        rows.append((result["env"], f"{result['num_envs']:,}", rate, seconds))
    return rows


def kernels() -> list[Row]:
    """A row per environment and update that `baselines/speed/kernels.py` has compiled for an H100, with any peer."""
    rows: dict[str, Row] = {}
    for path in sorted(SPEED.glob("kernels_h100_*.json")):
        about = load(path)
        for name, sides in (about["envs"] | about["updates"]).items():
            peer = next((key for key in sides if key in LIBRARIES and sides[key]), "")
            shown = [cell for side in ("jaxrl", peer) for cell in _kernels(sides.get(side))]
            if peer or name not in rows:
                rows[name] = (name, *shown, LIBRARIES.get(peer, ""))
    return [("a step of 1,024, or an update", "kernels", "MB", "peer's kernels", "MB", "peer"), *rows.values()]


def _kernels(work: dict[str, float] | None) -> tuple[str, str]:
    """Kernels of a program, and megabytes that they read and write."""
    return (f"{work['kernels']:,.0f}", f"{(work['read'] + work['written']) / 1e6:,.1f}") if work else ("", "")


def training_speed() -> list[Row]:
    """A row per algorithm and map: training with the same hyperparameters."""
    rows: list[Row] = [
        ("algorithm", "map", "jaxrl runs on", "ratio", "jaxrl, steps per second", "JaxMARL, steps per second")
    ]
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
    rows: list[Row] = [("steps in the buffer", "jaxrl, microseconds", "flashbax, microseconds")]
    median = load(latest("replay"))["microseconds"]
    for size in ("10,000", "1,000,000"):
        rows.append((size, *(f"{median[f'{library}, {size}'][1]:.0f}" for library in ("ours", "flashbax"))))
    return rows


def seconds_to_090() -> list[Row]:
    """A row per map: how soon each side wins nine battles of ten."""
    rows: list[Row] = [("map", "jaxrl: steps", "jaxrl: seconds", "JaxMARL: steps", "JaxMARL: seconds", "ratio")]
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
        about = load(RESULTS / "seconds_to_090" / "about.json")["maps"][name]
        self.our_steps, self.our_seconds = zip(*(run["reached"] for run in about["jaxrl"]), strict=True)
        self.our_compile = max(run["compile_seconds"] for run in about["jaxrl"])
        curves, self.ends = RESULTS / "seconds_to_090" / f"{name}_jaxmarl.csv", []
        """Where JaxMARL never won nine of ten: how long each seed was trained, and its win rate then."""
        firsts = first_wins(curves)
        self.their_steps = [steps for steps in firsts if steps]
        if None in firsts:
            self.ends = last_win_rates(curves)
            self.their_steps = [max(steps for steps, _ in self.ends)]
        self.their_seconds = [steps / about["jaxmarl"]["steps_per_second"] for steps in self.their_steps]

    @property
    def ratio(self) -> str:
        """Their median seconds over ours; our compiling counts, theirs does not."""
        ratio = median(self.their_seconds) / (median(self.our_seconds) + self.our_compile)
        return f"over {math.floor(ratio)}" if self.ends else f"{ratio:.0f}"


def first_wins(path: Path) -> list[int | None]:
    """For each seed the steps after which the mean win rate of its last ten rows is 0.9, or None."""
    rows, firsts = load_csv(path), []
    for name in list(rows[0])[1:]:
        points = [(int(row["timesteps"]), float(row[name])) for row in rows if row[name]]
        ends = range(10, len(points) + 1)
        firsts.append(next((points[i - 1][0] for i in ends if mean(win for _, win in points[i - 10 : i]) >= 0.9), None))
    return firsts


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
    """Rows of the README's table: how many times as fast jaxrl is as others."""

    def row(what: str, kind: str, *libraries: str) -> Row:
        spans, names = [], []
        for library in libraries:
            met = [result for result in comparisons(kind) if result["peer"]["library"] == library]
            ratios = [result["ratio"] for result in met]
            spans.append(f"{min(ratios):.1f} to {max(ratios):.1f}")
            names.append(peer(met[0]))
        return what, f"{', '.join(spans)} times", ", ".join(names), f"`python baselines/speed/{kind}.py`"

    trained = {(run["algorithm"], run["map"]): run["ratio"] for run in load(RESULTS / "training_speed.json")["runs"]}
    ippo, mappo = (" and ".join(f"{trained[name, env]:.1f}" for env in ("3m", "2s3z")) for name in ("ippo", "mappo"))
    theirs, how = "JaxMARL's scripts", "[baselines](baselines/README.md"
    sweep = f"{load(latest('sweep'))['ratio']:.1f} times"
    cases = load(latest("values"))["cases"]
    small, large = (cases[f"dqn, {size}"]["ratio of ours"][1] for size in ("1e4", "1e6"))
    replay = f"{small:.1f}, {large:.0f} times"
    race = f"{Race('2s3z').ratio} times"
    return [
        row("five SMAX battles, random play", "smax", "jaxmarl"),
        row("five MPE scenarios, random play", "mpe", "jaxmarl"),
        row("classic control, random play", "classic", "gymnax", "envpool"),
        ("IPPO training, 3m and 2s3z", f"{ippo} times", theirs, f"{how}#training-speed)"),
        ("MAPPO training, 3m and 2s3z", f"{mappo} times", theirs, f"{how}#training-speed)"),
        ("IPPO on 2s3z, to nine wins in ten", race, theirs, f"{how}#seconds-to-nine-wins-in-ten)"),
        ("DQN training, buffers of 1e4 and 1e6", replay, "rejax", "[baselines](baselines/speed/README.md)"),
        ("64 PPO agents in one program", sweep, "64 separate runs", "`python baselines/speed/sweep.py`"),
    ]


def comparisons(*kinds: str) -> list[dict[str, Any]]:
    """Results of `baselines/speed/against.py`, the latest file of each kind."""
    return [result for kind in kinds for result in load(latest(f"{kind}_fresh"))["results"]]


def peer(result: dict[str, Any]) -> str:
    """A library and its version."""
    library = result["peer"]["library"]
    return f"{LIBRARIES[library]} {result['versions'][library]}"
