"""A report as files: report.html, curves.png, profiles.png, table.md, table.csv."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jaxrl.report.checks import problems, ranges
from jaxrl.report.figures import draw_curves, draw_profiles
from jaxrl.report.groups import METRICS, Group
from jaxrl.report.tables import Summary, across, between, csv_table, improvements, markdown, number, speed, summarise
from jaxrl.train.curve import short

__all__ = ["page", "write_report"]


def write_report(groups: Sequence[Group], out: str | Path) -> list[Path]:
    """Write all files of a report into a folder, over those of an earlier one; returns their paths, the page first.

    Raises:
        MissingExtraError: matplotlib is not installed; nothing is written then.
    """
    out = Path(out)
    curves, profiles = _png(draw_curves(groups)), _png(draw_profiles(groups))
    summaries = summarise(groups)
    files: dict[str, str | bytes] = {
        "report.html": page(groups, summaries, curves, profiles),
        "curves.png": curves,
        "profiles.png": profiles,
        "table.md": markdown(summaries),
        "table.csv": csv_table(summaries),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return [out / name for name in files]


def page(groups: Sequence[Group], summaries: Sequence[Summary], curves: bytes, profiles: bytes) -> str:
    """One HTML page with everything in it, which needs no network. The pictures are PNG."""
    labels, envs = (list(dict.fromkeys(names)) for names in zip(*((g.label, g.env) for g in groups), strict=True))
    runs, seeds = sum(len(group.runs) for group in groups), sum(len(group.members) for group in groups)
    values = {
        "title": html.escape(f"{', '.join(labels)} on {', '.join(envs)}"),
        "about": f"{runs} run{'s' * (runs > 1)}, {seeds} seed{'s' * (seeds > 1)}",
        "problems": _problem_list(problems(groups)),
        "table": _score_table(summaries),
        "across": _across_table(groups),
        "improvements": _improvement_table(groups),
        "curves": _image(curves, "Learning curves over environment steps and over seconds"),
        "profiles": _image(profiles, "Share of seeds above each score"),
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
    """An HTML table; the columns whose indices are `numeric` are aligned to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = (' class="n"' if i in numeric else "" for i in range(len(row)))
        return "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _problem_list(sentences: Sequence[str]) -> str:
    if not sentences:
        return (
            '<p class="good">Nothing speaks against this comparison: enough seeds, the same for all, all counted.</p>'
        )
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f'<div class="care"><h2>Read with care</h2><ul>{items}</ul></div>'


def _score_table(summaries: Sequence[Summary]) -> str:
    head = ("environment", "algorithm", "seeds", "metric", "IQM", "95 % interval", "mean", "std", "steps", "steps/s")
    rows = []
    for s in summaries:
        row = (s.env, s.algorithm, str(s.seeds), METRICS[s.metric], number(s.iqm), between(s.low, s.high, s.iqm))
        rows.append((*row, number(s.mean), number(s.std, s.mean), short(s.timesteps), speed(s.steps_per_second)))
    return _table(head, rows, numeric=(2, 4, 5, 6, 7, 8, 9))


def _across_table(groups: Sequence[Group]) -> str:
    rows = [
        (label, *(f"{number(f.estimate)} ({between(f.low, f.high, 1.0)})" for f in found))
        for label, found in across(groups).items()
    ]
    if not rows:
        return ""
    head = ("algorithm", "IQM (95 % interval)", "median", "mean", "optimality gap")
    note = "Win rates of all environments together: the median is that of the environments' means, the gap is to 1."
    return f'<h2>Across environments</h2>{_table(head, rows, numeric=(1, 2, 3, 4))}<p class="note">{note}</p>'


def _improvement_table(groups: Sequence[Group]) -> str:
    rows = []
    for best, other, chance in improvements(groups):
        rows.append((best.env, best.label, other.label, number(chance.estimate), between(chance.low, chance.high, 1.0)))
    if not rows:
        return ""
    head = ("environment", "a run of", "beats one of", "with probability", "95 % interval")
    note = "An interval from 1 to 1 says only that the seeds at hand do not overlap."
    return f'<h2>Probability of improvement</h2>{_table(head, rows, numeric=(3, 4))}<p class="note">{note}</p>'


def _run_table(groups: Sequence[Group]) -> str:
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
