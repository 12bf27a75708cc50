"""Damage for the files of a run folder: what disks, editors, other versions and strangers make of them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

CODE = (
    "canary:Config",
    "canary:make",
    "setuptools._distutils.spawn:spawn",
    "os:system",
    "../canary:Config",
    "json:load",
)
"""What a stranger would have imported and called."""

_DEEP: Any = 0
for _ in range(300):
    _DEEP = [_DEEP]

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7.5, -0.0, 1e308, -1e308, 1e-320, float("nan"), float("inf")),
    *(2**31, 2**53, 2**63, -(2**63), 10**30, 10**400),
    *("", "x", "0", "inf", "../../outside", "/etc/passwd", "[/red] {0} %s", "\x1b[2J\x00", "é" * 400, "\ud800"),
    *([], [[]], [None], [1, 2], [1.0, 2.0, 3.0], ["x"], {}, {"a": {"b": [{}]}}, {"cmd": ["touch", "owned"]}, _DEEP),
    *CODE,
)
"""Values that stand where nobody expects them."""

Mutation = Callable[[Path, random.Random], str]
"""Damages a file and says how."""


def mutate(path: Path, rng: random.Random) -> str:
    """Damage a file, in its structure if it has one, or in its bytes; returns how."""
    structured = {".json": mutate_json, ".jsonl": mutate_line}.get(path.suffix)
    if path.name in ("metadata", "_METADATA", "_CHECKPOINT_METADATA"):
        structured = mutate_json
    if structured and rng.random() < 0.75:
        return structured(path, rng)
    return mutate_bytes(path, rng)


def mutate_json(path: Path, rng: random.Random) -> str:
    content = json.loads(path.read_text())
    how = mutate_value(content, rng)
    if isinstance(content, dict) and rng.random() < 0.5:  # a stranger's manifest has no hash that would give it away
        content.pop("sha256", None)
    path.write_text(json.dumps(content))
    return how


def mutate_line(path: Path, rng: random.Random) -> str:
    lines = path.read_text().splitlines()
    number = rng.randrange(len(lines))
    row = json.loads(lines[number])
    how = mutate_value(row, rng)
    lines[number] = json.dumps(row)
    path.write_text("\n".join(lines) + "\n")
    return f"line {number}: {how}"


def mutate_value(content: Any, rng: random.Random) -> str:
    """Change one place of a JSON value, any depth; every place is as likely as any other."""
    places: list[tuple[Any, Any, str]] = []

    def collect(value: Any, name: str) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in entries:
            places.append((value, key, f"{name}.{key}"))
            collect(inner, f"{name}.{key}")

    collect(content, "")
    if not places:
        return "nothing to change"
    holder, key, name = rng.choice(places)
    action = rng.choice(("replace", "replace", "replace", "delete", "rename", "wrap", "grow"))
    if action == "replace":
        holder[key] = rng.choice(ODD)
        return f"{name} = {str(holder[key])[:40]!r}"
    value = holder[key]
    if action == "wrap":
        holder[key] = rng.choice(([value], {"x": value}, str(value)))
    elif action == "grow" and isinstance(value, list):
        holder[key] = [*value, *(value or [0])]
    elif action == "grow" and isinstance(value, dict):
        holder[key] = {**value, "warp_factor": rng.choice(ODD)}
    else:
        del holder[key]
        if action == "rename" and isinstance(holder, dict):
            holder[f"{key}_"] = value
    return f"{action} {name}"


def mutate_bytes(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    where = rng.randrange(len(data) + 1)
    kinds = ("flip", "flip", "cut", "empty", "zeros", "twice", "insert", "delete", "folder", "deep")
    kind = rng.choice(kinds)
    if kind == "flip" and data:
        data[min(where, len(data) - 1)] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[where:]
    elif kind == "empty":
        data.clear()
    elif kind == "zeros":
        data[where:] = bytes(len(data) - where)
    elif kind == "twice":
        data.extend(bytes(data))
    elif kind == "insert":
        data[where:where] = rng.choice((b"\xff\xfe", b"\n", b"{", b"NaN", b'"', b"\x00" * 9, "\u2028".encode()))
    elif kind == "deep":
        data[:] = b'{"a":' * 100_000
    if kind in ("delete", "folder"):
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "delete":
        path.write_bytes(bytes(data))
    return f"{kind} at byte {where}"


def copy(folder: Path, to: Path) -> Path:
    """A fresh copy of a run."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to
