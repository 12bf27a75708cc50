"""How objects show themselves as the last line of a notebook's cell."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

__all__ = ["as_html"]


def as_html(title: str, rows: Mapping[str, Any]) -> str:
    """A small table: a title and a row for each name."""
    cells = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return (
        f"<table><thead><tr><th colspan=2 style='text-align:left'>{html.escape(title)}</th></tr></thead>{cells}</table>"
    )
