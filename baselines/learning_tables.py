"""The tables of what is learned, from runs that `baselines/record.py` has kept."""

from __future__ import annotations

from statistics import mean
from typing import Any

import numpy as np
from record import RESULTS, iqm_of, scores
from table_parts import Row, interval, load, load_csv, million, seconds, short


def runs(folder: str, timed: bool = False, fields: tuple[str, ...] = ()) -> list[Row]:
    """A row per run of several seeds, or one per kind of agents where kinds want different things.

    Args:
        folder: Under baselines/results.
        timed: Whether the machine was quiet, so that seconds are worth a column.
        fields: Those of the configuration that get a column.
    """
    head = ("environment", "algorithm", *fields, "steps per seed", "seeds", "IQM (95 %)", "seed by seed")
    rows: list[Row] = [(*head, "seconds")] if timed else [head]
    kept = [load(path) for path in sorted((RESULTS / folder).glob("*.json"))]
    trained = [about for about in kept if {"algorithm", "iqm"} <= set(about)]  # by jaxrl
    for about in sorted(trained, key=lambda about: (about["env"], about["algorithm"])):
        seeds = f"{about['seed']} to {about['seed'] + about['num_seeds'] - 1}"
        own = (str(about["config"][field]) for field in fields)
        head = (about["env"], about["algorithm"], *own, million(about["timesteps"]), seeds)
        rows += [(*head, *cells, *([seconds(about)] if timed else [])) for cells in score_cells(about)]
    return rows


def worst(folder: str) -> list[Row]:
    """A row per run of several seeds: the worst of them, and the one in the middle."""
    rows: list[Row] = [("environment", "algorithm", "steps per seed", "seeds", "worst", "median")]
    kept = [load(path) for path in (RESULTS / folder).glob("*.json")]
    for about in sorted(kept, key=lambda about: (about["env"], about["algorithm"])):
        seeds, returns = (
            f"{about['seed']} to {about['seed'] + about['num_seeds'] - 1}",
            about["evaluation"]["return_mean"],
        )
        cells = (f"{min(returns):.1f}", f"{np.median(returns):.1f}")
        rows.append((about["env"], about["algorithm"], million(about["timesteps"]), seeds, *cells))
    return rows


def score_cells(about: dict[str, Any]) -> list[tuple[str, str]]:
    """The interquartile mean with its interval, and each seed's score; a pair for each kind of agents that differs."""
    cells = []
    for name, values in scores(about["evaluation"]).items():
        digits = 3 if max(map(abs, values)) <= 1.0 else 1
        kind = "" if name in ("win_rate", "return_mean") else f"{name.removeprefix('return_')}: "
        shown = " ".join(f"{value:.{digits}f}" for value in values)
        cells.append((kind + interval(about["iqm"][name], digits), shown))
    # Where agents of several kinds want different things, the mean over all of them says little.
    differ = len({shown for _, shown in cells}) > 1
    return cells[1:] if differ else cells[:1]


def won_by_run(folder: str) -> list[Row]:
    """A row per run of one seed."""
    abouts = [load(path) for path in sorted((RESULTS / folder).glob("*.json"))]
    rows: list[Row] = [("environment", "algorithm", "seed", "steps", "greedy win rate", "seconds")]
    return [*rows, *((about["env"], about["algorithm"], str(about["seed"]), *won(about)) for about in abouts)]


def returned_by_run(folder: str) -> list[Row]:
    """A row per run of one seed: its greedy return, with the standard deviation over episodes."""
    abouts = [load(path) for path in sorted((RESULTS / folder).glob("*.json"))]
    rows: list[Row] = [("environment", "algorithm", "seed", "steps", "greedy return (std)", "seconds")]
    for about in sorted(abouts, key=lambda about: (about["env"], about["algorithm"])):
        played = about["evaluation"]
        shown = f"{played['return_mean']:.1f} ({played['return_std']:.1f})"
        head = (about["env"], about["algorithm"], str(about["seed"]), million(about["timesteps"]))
        rows.append((*head, shown, seconds(about)))
    return rows


def won(about: dict[str, Any]) -> Row:
    """Steps, win rate and seconds of a run of one seed."""
    return million(about["timesteps"]), f"{about['evaluation']['win_rate']:.3f}", seconds(about)


def spread_by_steps() -> list[Row]:
    """Returns on simple_spread after as many steps, ours and JaxMARL's."""
    ours, theirs = spread_curves()
    rows: list[Row] = [("steps per seed", "jaxrl", "JaxMARL")]
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
    rows: list[Row] = [("return reached", "jaxrl", "JaxMARL")]
    for goal in (-21.0, -20.0, -19.0, -16.0, -13.0):
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


def team_runs(folder: str, fields: tuple[str, ...] = ()) -> list[Row]:
    """A row per run, ours and JaxMARL's, by greedy and by sampled actions; `fields` of our config get a column."""
    scored = ("greedy, IQM (95 %)", "sampled, IQM (95 %)", "sampled, seed by seed")
    rows: list[Row] = [("environment", "trained by", *fields, "steps per seed", "seeds", *scored)]
    kept = [load(path) for path in (RESULTS / folder).glob("*.json")]
    for about in sorted(kept, key=lambda about: (about["env"], about["algorithm"], about["timesteps"])):
        greedy, sampled = (np.atleast_1d(about[how]["return_mean"]).tolist() for how in ("evaluation", "sampled"))
        first, count = about["seed"], about["num_seeds"]
        seeds = f"{first} to {first + count - 1}" if count > 1 else str(first)
        own = (str(about.get("config", {}).get(field, "–")) for field in fields)
        head = (about["env"].partition("?")[0], about["algorithm"], *own, million(about["timesteps"]), seeds)
        shown = (interval(iqm_of(values), 1) if count > 1 else f"{values[0]:.1f}" for values in (greedy, sampled))
        rows.append((*head, *shown, " ".join(f"{value:.1f}" for value in sampled)))
    return rows


def strangers(arena: str, run: str, digits: int = 0) -> list[Row]:
    """A row per seed of a run, and for the rules where they play along: the mean return with each of the others."""
    met, first = load(RESULTS / "arenas" / f"{arena}.json"), load(RESULTS / f"{run}.json")["seed"]
    names = ["the rules" if name == "scripted" else f"seed {first + i}" for i, name in enumerate(met["names"])]
    return [
        ("", *names),
        *((own, *(f"{value:.{digits}f}" for value in row)) for own, row in zip(names, met["matrix"], strict=True)),
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
    head = ("run", "steps per seed", "seeds", "hider seen, IQM (95 %)")
    rows: list[Row] = [(*head, "seed by seed", "door blocked, seed by seed", "hider out of reach, seed by seed")]
    stages = ("chase_seekers", "chase_hiders", "room_seekers", "room_hiders", "room_seekers_2", "room_hiders_2")
    for name in stages:
        about = load(RESULTS / "hide_and_seek" / f"{name}.json")
        game, last = about["game"], about["seed"] + about["num_seeds"] - 1
        columns = ("seen_fraction", "doors_blocked", "out_of_reach") if "room" in name else ("seen_fraction",)
        shares = [" ".join(f"{v:.2f}" for v in game[column]) for column in columns]
        steps, first = million(about["timesteps"]), interval(iqm_of(game["seen_fraction"]), 2)
        rows.append((f"`{name}`", steps, f"{about['seed']} to {last}", first, *shares, *[""] * (3 - len(shares))))
    return rows


def objects_moved() -> list[Row]:
    """A row per run in the room: what becomes of the box, by phase, as the mean over seeds."""
    numbers = ("boxes_moved_preparation", "boxes_moved_hunt", "boxes_locked_preparation", "boxes_locked_hunt")
    rows: list[Row] = [("run", *(name.replace("_", " ") for name in numbers))]
    for name in ("room_seekers", "room_hiders", "room_seekers_2", "room_hiders_2"):
        game = load(RESULTS / "hide_and_seek" / f"{name}.json")["game"]
        rows.append((f"`{name}`", *(f"{mean(game[name]):.2f}" for name in numbers)))
    return rows


def recovery() -> list[Row]:
    """A row per task and method."""
    rows: list[Row] = [
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


def levels() -> list[Row]:
    """A row per method that chooses levels of mazes: over five seeds, the interquartile mean and its interval."""
    rows: list[Row] = [
        ("levels", "steps", "random mazes with a way", "their worst tenth", "the eight of the literature")
    ]
    for name, about in load(RESULTS / "levels_maze.json")["methods"].items():
        found = (interval(about["iqm"][part], 2) for part in ("win_rate", "worst_tenth", "held_out"))
        method, _, steps = name.rpartition("_")
        rows.append((f"`{method}`", steps.replace("m", " M"), *found))
    return rows


def levels_jaxnav() -> list[Row]:
    """A row per number of robots and method: one seed's win rate on other maps, and on the worst of them."""
    rows: list[Row] = [("robots", "levels", "steps", "win rate", "on the worse half", "on the worst tenth")]
    for about in load(RESULTS / "levels_jaxnav.json")["methods"].values():
        rates = (about["win_rate"], about["worst"]["0.5"], about["worst"]["0.1"])
        steps = f"{about['steps'] / 1e6:g} M"
        rows.append((str(about["robots"]), f"`{about['levels']}`", steps, *(f"{rate:.2f}" for rate in rates)))
    return rows
