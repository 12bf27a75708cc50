"""The tables of what is learned on SMAX, from runs that `baselines/record.py` has kept."""

from __future__ import annotations

from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from learning_tables import runs, won, won_by_run
from record import RESULTS, iqm_of
from table_parts import Row, interval, load, load_csv, million, short

from jaxrl import stats

TODAY = {
    "ippo_smax_3m": None,
    "smax_entities": "smax_entities",
    "smax_five_seeds": "smax_entities",
    "smax_relations": "smax_relations",
    "smax_discount": "smax_discount",
}
"""The folders of runs of today's presets, and of trials beside them, and where their battles in JaxMARL's are kept."""
BATTLES = {
    "smax/3m": "–",
    "smax/8m": "–",
    "smax/25m": "–",
    "smax/2s3z": "0.99 to 1.00",
    "smax/3s5z": "0.99 to 1.00",
    "smax/3s_vs_5z": "0.99 to 1.00",
    "smax/6h_vs_8z": "0.99 to 1.00",
    "smax/10m_vs_11m": "0.84 to 0.96",
    "smax/5m_vs_6m": "0.86 to 0.92",
    "smax/27m_vs_30m": "0.98 to 1.00",
    "smax/3s5z_vs_3s6z": "0.87 to 0.94",
    "smax/smacv2_5_units": "0.76 to 0.88",
    "smax/smacv2_10_units": "0.75 to 0.79",
    "smax/smacv2_20_units": "0.57 to 0.65",
}
"""The battles, and the best win rates that are published for them, after 10 and after 20 million steps where there are
two: those of Mahjoub et al. 2025 (Sable), read off their figure 13; for 5 and 20 units of several papers, after 10.
"""
PUBLISHED = {env: float(text.split()[-1]) for env, text in BATTLES.items() if text[-4:] not in ("–", "1.00")}
"""The best published win rate of the battles in which it is below 0.995."""


class Trained(NamedTuple):
    """What as many test seeds as were trained alike have won on a battle: lists, an item for each seed."""

    env: str
    algorithm: str
    steps: str
    seeds: list[int]
    greedy: list[float]
    sampled: list[float]  # while training, as the mean over the last sixtieth
    in_jaxmarl: list[float]  # empty if they have not played there

    @property
    def worth(self) -> tuple[int, float]:
        """What makes it the result to tell: five seeds or more rather than one, then how much they win."""
        return min(len(self.seeds), 5), stats.iqm(self.greedy)


def trained_on_smax() -> list[Trained]:
    """For each battle and algorithm the result to tell, of today's presets and of trials beside them."""
    alike: dict[tuple[Any, ...], Trained] = {}
    for folder, played in TODAY.items():
        theirs = _in_jaxmarl(played) if played else {}
        for path in sorted((RESULTS / folder).glob("*.json")):
            about, last = load(path), load_csv(path.with_suffix(".csv"))[-1]
            env, algorithm, steps = about["env"], about["algorithm"], million(about["timesteps"])
            key = (env, algorithm, steps, about["config"]["gamma"], about["config"].get("torso"))
            group = alike.setdefault(key, Trained(env, algorithm, steps, [], [], [], []))
            for seed, rate in enumerate(np.atleast_1d(about["evaluation"]["win_rate"]).tolist(), about["seed"]):
                if seed < 10 or seed in group.seeds:  # tuned on, or trained twice
                    continue
                group.seeds.append(seed)
                group.greedy.append(rate)
                group.sampled.append(float(last[f"win_rate_seed_{seed}"]))
                group.in_jaxmarl.extend([theirs[env, algorithm, steps, seed]] if theirs else [])
    kept: dict[tuple[str, str], Trained] = {}
    for group in sorted((group for group in alike.values() if group.seeds), key=lambda group: group.worth):
        kept[group.env, group.algorithm] = group
    return sorted(kept.values(), key=lambda group: (list(BATTLES).index(group.env), group.algorithm))


def best_on_smax() -> list[Row]:
    """A row per battle and algorithm."""
    head = ("battle", "best published", "algorithm", "steps per seed", "seeds", "greedy, IQM (interval)", "sampled")
    rows: list[Row] = [(*head, "seeds above 0.8", "in JaxMARL's SMAX")]
    for group in trained_on_smax():
        count, above = len(group.seeds), sum(rate > 0.8 for rate in group.greedy)
        greedy, sampled, there = (_iqm(values) for values in (group.greedy, group.sampled, group.in_jaxmarl))
        head = (group.env.removeprefix("smax/"), BATTLES[group.env], group.algorithm, group.steps, str(count))
        rows.append((*head, greedy, sampled.partition(" ")[0], f"{above} of {count}", there.partition(" ")[0]))
    return rows


def wins_on_smax() -> list[Row]:
    """Rows of the README's table: the best algorithm's greedy win rates where published ones leave room."""
    best: dict[str, Trained] = {}
    for group in sorted(trained_on_smax(), key=lambda group: stats.iqm(group.greedy)):
        best[group.env] = group

    def row(what: str, after: str, *names: str) -> Row:
        groups = [best[f"smax/{name}"] for name in names]
        ours = ", ".join(f"{stats.iqm(group.greedy):.2f}" for group in groups)
        seeds = ", ".join(str(len(group.seeds)) for group in groups)
        theirs = ", ".join(f"{PUBLISHED[group.env]:.2f}" for group in groups)
        steps = ", ".join(group.steps.removesuffix(".0 M") for group in groups)
        ours += f" after {steps} M" if after else ""
        return (
            what,
            f"{ours} (seeds: {seeds})",
            f"best published: {theirs}{after}",
            "[results](docs/results.md#learning-smax)",
        )

    return [
        row("SMAX wins: 5m_vs_6m, 10m_vs_11m, 3s5z_vs_3s6z", " after 20 M", "5m_vs_6m", "10m_vs_11m", "3s5z_vs_3s6z"),
        row("smacv2 with 5, 10, 20 units", "", "smacv2_5_units", "smacv2_10_units", "smacv2_20_units"),
    ]


def _iqm(values: list[float]) -> str:
    """The interquartile mean with its interval, or the only value; `–` without any."""
    if len(values) < 2:
        return f"{values[0]:.3f}" if values else "–"
    return interval(iqm_of(values), 3)


def ippo_on_3m() -> list[Row]:
    """A row per seed, and one for all of them."""
    abouts = sorted((load(path) for path in (RESULTS / "ippo_smax_3m").glob("*.json")), key=lambda about: about["seed"])
    rows: list[Row] = [
        ("seed", "steps", "greedy win rate", "seconds"),
        *((str(about["seed"]), *won(about)) for about in abouts),
    ]
    return [*rows, ("IQM (95 %)", "", interval(iqm_of([about["evaluation"]["win_rate"] for about in abouts]), 3), "")]


def units_on_smax(folder: str) -> list[Row]:
    """A row per run with networks of units, and one for each five of them or more.

    It also tells the sampled win rate at the end, when that was first above the best published one, and what the policy
    wins in JaxMARL's own environment.
    """
    theirs = _in_jaxmarl(folder)
    head, *rows = won_by_run(folder)
    table: list[Row] = [(*head, "sampled", "above the best published one after", "in JaxMARL's SMAX")]
    seeds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row, path in zip(rows, sorted((RESULTS / folder).glob("*.csv")), strict=True):
        env, algorithm, seed = row[0], row[1], row[2]
        curve = load_csv(path)
        rates = [float(moment[f"win_rate_seed_{seed}"] or 0) for moment in curve]
        best = PUBLISHED.get(env, 1.0)
        passed = next((moment for moment, rate in zip(curve, rates, strict=True) if rate > best), None)
        when = "never" if env in PUBLISHED else "–"
        if passed:
            when = f"{million(float(passed['timesteps']))}, {float(passed['seconds']):.0f} s"
        there = theirs[env, algorithm, row[3], int(seed)]
        table.append((*row, f"{rates[-1]:.3f}", when, f"{there:.3f}"))
        seeds.setdefault((env, algorithm), []).append((float(row[4]), there))
    for (env, algorithm), wins in seeds.items():
        if len(wins) >= 5:
            here, there = (interval(iqm_of(list(each)), 3) for each in zip(*wins, strict=True))
            table.append((env, algorithm, f"IQM of {len(wins)} (95 %)", "", here, "", "", "", there))
    return table


def seeds_on_smax(folder: str, played: str) -> list[Row]:
    """A row per run of several seeds with networks of entities, likewise; `played` in JaxMARL's own environment."""
    theirs = _in_jaxmarl(played)

    def wins(env: str, algorithm: str, steps: str, seeds: str, *_: str) -> str:
        first, last = map(int, seeds.split(" to "))
        return interval(iqm_of([theirs[env, algorithm, steps, seed] for seed in range(first, last + 1)]), 3)

    head, *rows = runs(folder)
    return [(*head, "in JaxMARL's SMAX"), *((*row, wins(*row)) for row in rows)]


def _in_jaxmarl(folder: str) -> dict[tuple[str, str, str, int], float]:
    """The share of battles won in JaxMARL's own environment, by battle, algorithm, steps and seed."""
    played = load(RESULTS / f"{folder}_in_jaxmarl.json")["runs"]
    return {(run["env"], run["algorithm"], million(run["timesteps"]), run["seed"]): run["jaxmarl"] for run in played}


def transfer() -> list[Row]:
    """A row per battle that policies play without having trained for it."""
    rows: list[Row] = [("trained on", "steps", "plays", "seeds", "greedy win rates")]
    kept = [row for row in load(RESULTS / "smax_transfer.json")["runs"] if "?" not in row["env"]]
    for own, there in dict.fromkeys((row["trained_on"], row["env"]) for row in kept):
        found = sorted((r for r in kept if (r["trained_on"], r["env"]) == (own, there)), key=lambda row: row["seed"])
        wins = " ".join(f"{row['win_rate']:.3f}" for row in found)
        seeds = " ".join(str(row["seed"]) for row in found)
        rows.append((own, million(found[0]["steps"]), there, seeds, wins))
    return rows


def generalists() -> list[Row]:
    """A row per policy of many battles: how it plays each of them, and those that it never saw."""
    rows: list[Row] = [("trained on", "steps", "minutes", "wins in them", "wins in others")]
    runs_of = {(about := load(path))["env"]: about for path in (RESULTS / "smax_generalist").glob("*.json")}
    kept = [row for row in load(RESULTS / "smax_transfer.json")["runs"] if "&play=" in row["env"]]
    for own in dict.fromkeys(row["trained_on"] for row in kept):
        found = {row["env"].partition("&play=")[2]: row for row in kept if row["trained_on"] == own}
        names = own.partition("battles=")[2].partition("&")[0].split(",")
        shown = {battle: f"{battle} {row['win_rate']:.2f}" for battle, row in found.items()}
        ours, others = ([shown[b] for b in shown if (b in names) == inside] for inside in (True, False))
        minutes = f"{runs_of[own]['train_seconds'] / 60:.0f}"
        rows.append((f"`{own}`", million(runs_of[own]["timesteps"]), minutes, ", ".join(ours), ", ".join(others)))
    return rows


def won_by_seed(folder: str) -> list[Row]:
    """A row per run, with the greedy win rate of each seed."""
    rows: list[Row] = [("battle", "algorithm", "steps", "greedy win rates")]
    for path in sorted((RESULTS / folder).glob("*.json")):
        about = load(path)
        wins = np.atleast_1d(about["evaluation"]["win_rate"])
        blocks = ", no attention" if about["config"].get("num_blocks") == 0 else ""
        algorithm = f"{about['algorithm']}{blocks}"
        rows.append((about["env"], algorithm, million(about["timesteps"]), " ".join(f"{won:.3f}" for won in wins)))
    return [rows[0], *sorted(rows[1:])]


def ablation(env: str) -> list[Row]:
    """A row per change of the recipe: how long to a win rate, and whether the recipe is there sooner."""
    kept = [row for row in load(RESULTS / "smax_ablation.json")["runs"] if row["env"] == env]
    to = f"steps to winning {kept[0]['won']:g} of the battles"
    head = ("change", to, "recipe sooner (95 %)", "greedy at the end, IQM (95 %)")
    never = 10 * kept[0]["timesteps"]  # only the order counts
    times = [[steps or never for steps in row["steps_to_won"]] for row in kept]
    rows: list[Row] = [head]
    for row, taken in zip(kept, times, strict=True):
        shown = " ".join("never" if steps == never else short(steps) for steps in sorted(taken))
        sooner = stats.interval(stats.probability_of_improvement, taken, times[0], expand=True)
        changes = ", ".join(f"{name} {_shown(value)}" for name, value in row["changes"].items())
        won = interval(iqm_of(row["win_rate"]), 3)
        better = interval(sooner._asdict(), 2) if changes else ""
        rows.append((f"`{changes}`" if changes else "none", shown, better, won))
    return [rows[0], rows[1], *sorted(rows[2:], key=lambda row: row[2], reverse=True)]


def _shown(value: Any) -> str:
    """A field's value."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def self_play_on_smax() -> list[Row]:
    """A row per run in an arena, by battle: its scores against the script, and against runs that only met themselves.

    An arena's `runs` say how each of them was trained.
    """
    versus = "against those that only meet themselves (95 %)"
    rows: list[Row] = [("battle", "steps", "past selves", "script", "against the script", versus)]
    arenas = [load(path) for path in sorted((RESULTS / "arenas").glob("*.json"))]
    for arena in sorted((each for each in arenas if "runs" in each), key=_battle_and_steps):
        battle, runs = _battle_and_steps(arena)[0], sorted(arena["runs"].items(), key=lambda item: _shares(item[1]))
        of = {run: [i for i, name in enumerate(arena["names"]) if name.split(":")[0] == run] for run, _ in runs}
        alone = [i for run, how in runs if _shares(how) == (0, 0) for i in of[run]]
        for run, how in runs:
            scores = " ".join(f"{arena['matrix'][i][-1]:.2f}" for i in of[run])
            met = [mean(arena["matrix"][i][j] for j in alone) for i in of[run] if alone and i not in alone]
            head_to_head = interval(iqm_of(met), 2) if met else "–"
            shares = (f"{share:g}" for share in _shares(how))
            row = (battle, million(how["total_timesteps"]), *shares, scores, head_to_head)
            rows += [row] if row not in rows else []  # the same run may meet others in several arenas
    return rows


def _battle_and_steps(arena: dict[str, Any]) -> tuple[str, int]:
    """The battle of an arena, and how long its runs took."""
    battle = arena["env"].removeprefix("smax/").partition("?")[0]
    return battle, max(how["total_timesteps"] for how in arena["runs"].values())


def _shares(how: dict[str, Any]) -> tuple[float, float]:
    """The shares of battles against past selves and against the script."""
    return how["past_share"], how["script_share"]
