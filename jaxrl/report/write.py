"""A report as files: report.html, table.md, table.csv and pictures."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jaxrl import stats
from jaxrl.report.arena import Arena, draw_matrix, tables
from jaxrl.report.checks import problems, ranges, refuse_mixed_seeds
from jaxrl.report.collect import SeedGroup
from jaxrl.report.figures import draw_curves, draw_effects, draw_profiles, effects, looks_of, searches
from jaxrl.report.levels import Methods, draw_worst, methods_on_levels, worst_tables
from jaxrl.report.tables import (
    COLUMNS,
    Summary,
    across,
    as_row,
    between,
    csv_table,
    improvements,
    latex,
    markdown,
    number,
    summarise,
)
from jaxrl.train.pictures import short

__all__ = ["page", "write_report"]

_NAMED = 4  # the most configurations that the title names
_PROBLEMS = 6  # how many sentences are not folded away
_RIVALS = 12  # how many groups the best one is compared with
_INCUMBENTS = 12  # how many of a search's last incumbents are shown


def write_report(
    groups: Sequence[SeedGroup], out: str | Path, arena: Arena | None = None, *, tex: bool = False
) -> list[Path]:
    """Write all files of a report into a folder, replacing an earlier report; returns their paths, the page first.

    effects.png exists only if a hyperparameter had several values, profiles.png only if something had several seeds,
    levels.png only if a run has played a set of levels, arena.png only if there was an `arena`, table.tex only if `tex`
    is True.

    Raises:
        ValueError: Tuning seeds and other seeds are mixed.
        MissingExtraError: matplotlib is not installed; nothing is written then.
    """
    refuse_mixed_seeds(groups)
    out = Path(out)
    pictures = {"curves.png": _png(draw_curves(groups))}
    profiles, found, on_levels = draw_profiles(groups), effects(groups), methods_on_levels(groups)
    if profiles is not None:
        pictures["profiles.png"] = _png(profiles)
    if found:
        pictures["effects.png"] = _png(draw_effects(found))
    if on_levels:
        pictures["levels.png"] = _png(draw_worst(on_levels, looks_of(groups)))
    if arena is not None:
        pictures["arena.png"] = _png(draw_matrix(arena))
    summaries = summarise(groups)
    files: dict[str, str | bytes] = {
        "report.html": page(groups, summaries, pictures, arena, on_levels),
        **pictures,
        "table.md": markdown(summaries),
        "table.csv": csv_table(summaries),
    }
    files |= {"table.tex": latex(summaries)} if tex else {}
    out.mkdir(parents=True, exist_ok=True)
    # What an earlier report may have left.
    for left in {"effects.png", "profiles.png", "levels.png", "arena.png", "table.tex"} - files.keys():
        (out / left).unlink(missing_ok=True)
    for name, content in files.items():
        (out / name).write_bytes(content.encode(errors="replace") if isinstance(content, str) else content)
    return [out / name for name in files]


def page(
    groups: Sequence[SeedGroup],
    summaries: Sequence[Summary],
    pictures: Mapping[str, bytes],
    arena: Arena | None = None,
    on_levels: Sequence[Methods] = (),
) -> str:
    """One self-contained HTML page that needs no network. The pictures are PNG data by file name."""
    labels, envs = (list(dict.fromkeys(names)) for names in zip(*((g.label, g.env) for g in groups), strict=True))
    runs = len({run for group in groups for run in group.runs})
    counts = [len(group.members) for group in groups if not group.exploits]  # a league is one seed
    seeds = " to ".join(str(count) for count in sorted({min(counts, default=0), max(counts, default=0)}))
    several = f"{len(counts)} configurations of " if len(counts) > 1 else ""
    seeds = f"{several}{seeds} seed{'s' * (seeds != '1')}"
    what = ", ".join(labels)
    if len(labels) > _NAMED:  # a title of many configurations would be longer than the page
        what = f"{', '.join(dict.fromkeys(group.algorithm for group in groups))}, {len(labels)} configurations,"
    values = {
        "title": html.escape(f"{what} on {', '.join(envs)}"),
        "about": f"{runs} run{'s' * (runs > 1)}, {seeds}",
        "problems": _problem_list(problems(groups)),
        "table": _table(COLUMNS, list(map(as_row, summaries)), numeric=(2, 4, 5, 6, 7, 8)),
        "across": _across_table(groups),
        "improvements": _improvement_table(groups),
        "curves": _image(pictures["curves.png"], "Learning curves over environment steps and over seconds"),
        "profiles": _profile_section(pictures.get("profiles.png")),
        "effects": _effect_section(pictures.get("effects.png")),
        "levels": _level_section(on_levels, pictures.get("levels.png")),
        "arena": "" if arena is None else _arena_section(arena, pictures["arena.png"]),
        "searches": _search_section(groups),
        "runs": _run_table(groups),
    }
    template = resources.files("jaxrl.report").joinpath("page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], template)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


def _image(png: bytes, alt: str) -> str:
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """An HTML table; the columns with indices in `numeric` are right-aligned."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = (' class="n"' if i in numeric else "" for i in range(len(row)))
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _problem_list(sentences: Sequence[str]) -> str:
    if not sentences:
        return (
            '<p class="good">Nothing speaks against this comparison: enough seeds, the same for all, all counted; '
            "equal steps, evaluations and software.</p>"
        )
    items = [f"<li>{html.escape(sentence)}</li>" for sentence in sentences]
    shown, more = "".join(items[:_PROBLEMS]), "".join(items[_PROBLEMS:])
    if more:
        more = f"<details><summary>and {len(items) - _PROBLEMS} more</summary><ul>{more}</ul></details>"
    return f'<div class="care"><h2>Read with care</h2><ul>{shown}</ul>{more}</div>'


def _across_table(groups: Sequence[SeedGroup]) -> str:
    rows = [
        (label, *(f"{number(f.estimate)} ({between(f.low, f.high, 1.0)})" for f in found))
        for label, found in across(groups).items()
    ]
    if not rows:
        return ""
    head = ("algorithm", "IQM (95 % interval)", "median", "mean", "optimality gap")
    note = "Win rates of all environments together: the median is that of the environments' means, the gap is to 1."
    return f'<h2>Across environments</h2>{_table(head, rows, numeric=(1, 2, 3, 4))}<p class="note">{note}</p>'


def _improvement_table(groups: Sequence[SeedGroup]) -> str:
    rows = []
    for each in improvements(groups, _RIVALS):
        gap, verdict = (
            each.difference,
            "as good" if each.equal else "better" if each.clear else "not shown to be better",
        )
        row = (each.best.env, each.best.label, each.other.label, number(each.chance), number(gap.estimate))
        rows.append((*row, between(gap.low, gap.high, gap.estimate), verdict))
    if not rows:
        return ""
    head = (
        "environment",
        "highest IQM",
        "other",
        "probability of improvement",
        "mean higher by",
        "95 % interval",
        "the first is",
    )
    note = (
        "The best has the highest IQM; of equal ones, each is as good. The probability of improvement is the share "
        "of pairs of runs in which its run scores higher. The intervals are of the difference between the means and "
        "hold for all pairs of configurations on an environment at once (a bootstrap of the largest |t|, after Romano "
        "and Wolf, 2005): the best of many may "
        "only be lucky, so it is called better only where the interval is above 0. Fewer than "
        f"{stats.MIN_RUNS} seeds have no interval."
    )
    return f'<h2>The best and the others</h2>{_table(head, rows, numeric=(3, 4, 5))}<p class="note">{note}</p>'


def _profile_section(picture: bytes | None) -> str:
    if picture is None:
        return ""
    note = (
        "How many seeds end above a score τ, and hatched the 95 % interval, from five seeds on. The higher curve has "
        "scored better; where curves cross, neither has."
    )
    image = _image(picture, "Share of seeds above each score")
    return f'<h2>Performance profiles</h2>{image}<p class="note">{note}</p>'


def _level_section(on_levels: Sequence[Methods], picture: bytes | None) -> str:
    if picture is None:
        return ""
    note = (
        "One evaluation sorts the levels, for each seed; the mean over the worst share α of them is that of another. "
        "Bold: mean over seeds; shaded, and after ±: its standard error; faint: the seeds."
    )
    parts = [_image(picture, "Mean result on the worst levels"), f'<p class="note">{note}</p>']
    for what, rows in worst_tables(on_levels):
        parts += [f'<p class="note">{html.escape(what)}</p>', _table(rows[0], rows[1:], range(1, len(rows[0])))]
    return f"<h2>Worst levels</h2>{''.join(parts)}"


def _arena_section(arena: Arena, picture: bytes) -> str:
    note = f"{arena.games} games of each pair on both sides, in {arena.env}."
    rows = "".join(_table(table[0], table[1:], numeric=range(1, len(table[0]))) for table in tables(arena))
    image = _image(picture, "Who beats whom")
    return f'<h2>Arena</h2>{image}{rows}<p class="note">{html.escape(note)}</p>'


def _effect_section(picture: bytes | None) -> str:
    if picture is None:
        return ""
    note = (
        "Each configuration at its value, whatever its other hyperparameters: dots are the IQM over its seeds with the "
        "95 % interval (with fewer than 5 seeds, their range), crosses the seeds. What a search has tried is scored on "
        "tuning seeds, which no table here counts."
    )
    image = _image(picture, "Final score over the values of each hyperparameter")
    return f'<h2>Effects of hyperparameters</h2>{image}<p class="note">{note}</p>'


def _search_section(groups: Sequence[SeedGroup]) -> str:
    """The course of each search, from its checklist.json."""
    parts = []
    for name, checklist in searches(groups):
        tuning, test = ranges(checklist["tuning_seeds"]), ranges(checklist["test_seeds"])
        budget = checklist["budget"]
        space = ", ".join(f"{name} {_dimension(each)}" for name, each in checklist["space"].items())
        about = (
            f"{name}: {checklist['method']['name']} search with the budget of {budget['runs']} runs a seed "
            f"({short(budget['timesteps'])} steps) over {space}; tuning seeds {tuning}, test seeds {test}."
        )
        rows = []
        for each in checklist.get("incumbents", ())[-_INCUMBENTS:]:
            point = ", ".join(f"{name}={_value(value)}" for name, value in each["point"].items())
            rows.append((short(each["timesteps"]), number(each["score"]), point))
        table = _table(("steps spent", "score", "best so far"), rows, numeric=(0, 1))
        parts.append(f'<p class="note">{html.escape(about)}</p>{table}')
    return f"<h2>How it was tuned</h2>{''.join(parts)}" if parts else ""


def _dimension(dimension: Mapping[str, Any]) -> str:
    if "values" in dimension:
        return f"in {', '.join(map(_value, dimension['values']))}"
    return f"from {dimension['low']:g} to {dimension['high']:g}{' (log)' if dimension['log'] else ''}"


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _run_table(groups: Sequence[SeedGroup]) -> str:
    rows = []
    for group in groups:
        for path, about in group.runs.items():
            git = about.get("git") or {}
            commit = (git.get("commit") or "not known")[:10] + (" with changes" if git.get("dirty") else "")
            seeds = ranges([member.seed for member in group.members if member.run == path])
            versions = about.get("versions", {})
            software = f"jaxrl {versions.get('jaxrl', '?')}, jax {versions.get('jax', '?')}"
            devices = sorted({device.partition(" ")[2] or device for device in about.get("devices", [])})
            row = (str(path), group.name, seeds, about.get("status", "?"), commit, software)
            rows.append((*row, f"{len(about.get('devices', []))} x {', '.join(devices)}", about.get("command", "")))
    head = ("run", "what", "seeds", "status", "commit", "software", "devices", "command")
    return _table(head, rows)
