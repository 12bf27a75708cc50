"""The origin of results (versions, git, devices), and the differences of two runs in it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

import jaxrl

__all__ = ["changes", "device_names", "differences", "git_state", "on_devices", "surroundings", "versions"]

_PACKAGES = ("jaxrl", "jax", "jaxlib", "flax", "optax", "distrax", "orbax-checkpoint", "numpy")
_SETTINGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_disable_jit",
    "jax_enable_x64",
    "jax_threefry_partitionable",
)
"""JAX's own settings that change the numbers of the same program, whoever has made them."""


def surroundings() -> dict[str, Any]:
    """The facts that the numbers of a run depend on besides its config, as run.json has them; see `differences`."""
    return {
        "versions": versions(),
        "git": git_state(),
        "devices": device_names(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "jax_settings": {name: str(getattr(jax.config, name)) for name in _SETTINGS},
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on.

    If jaxrl is a checkout outside the user's project, its version names its commit, as in `0.1.0+0123456789.dirty`.
    """
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    source = _source()
    if "jaxrl" in found and source is not None and _root(source) != _root(_project()):
        about = _state(source)
        if about is not None:
            found["jaxrl"] += f"+{about['commit'][:10]}{'.dirty' * about['dirty']}"
    return found


def device_names() -> list[str]:
    """The visible devices, for example `["gpu:0 NVIDIA H200"]`."""
    return [f"{d.platform}:{d.id} {d.device_kind}" for d in jax.devices()]


def on_devices(about: dict[str, Any]) -> str:
    """The devices that a run uses according to its run.json, for example `2 x cpu`."""
    count = about["mesh"]["member"] * about["mesh"]["data"]
    kind = about["devices"][0].partition(" ")[2]
    return f"{count} x {kind}"


def git_state() -> dict[str, Any] | None:
    """The commit of the user's project, and whether tracked files differ from it; None outside a repository.

    The project is the repository of the working folder, or jaxrl's own source if that is a checkout and the working
    folder is in no repository. Files that git does not track, such as a picture or a run, are no change.
    """
    return _state(_project())


def _project() -> Path:
    """The folder whose repository is the user's project."""
    here = Path.cwd()
    return here if _root(here) else _source() or here


def _source() -> Path | None:
    """The folder of jaxrl's source if it is a checkout."""
    source = Path(jaxrl.__file__).resolve().parent
    # A package installed inside someone's repository is not part of it: git must track its files.
    return source if _git(source, "ls-files", "__init__.py") else None


def _root(folder: Path) -> str:
    """The top folder of the repository around `folder`; empty if there is none."""
    return _git(folder, "rev-parse", "--show-toplevel")


def _state(folder: Path) -> dict[str, Any] | None:
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changed)} if commit else None


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The differences between two run.json that could change the numbers of the same training, one sentence each."""
    return _uncommitted(before.get("git"), now.get("git")) + changes(before, now)


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The `differences` without those that may be none: files that are not committed."""
    found = []
    for name in dict.fromkeys([*before["versions"], *now["versions"]]):
        then, today = before["versions"].get(name, "none"), now["versions"].get(name, "none")
        if then != today:
            found.append(f"{name} was {then} and is {today} now.")
    found += _git_differences(before.get("git"), now.get("git"))
    kinds = [sorted({device.partition(" ")[2] for device in about["devices"]}) for about in (before, now)]
    if kinds[0] != kinds[1]:
        found.append(f"The device was {', '.join(kinds[0])} and is {', '.join(kinds[1])} now.")
    flags = [_without_device_count(about.get("xla_flags", "")) for about in (before, now)]
    if flags[0] != flags[1]:
        found.append(f"XLA_FLAGS was {flags[0]!r} and is {flags[1]!r} now.")
    settings = [about.get("jax_settings", {}) for about in (before, now)]  # older runs have none
    for name in (name for name in settings[0] if name in settings[1] and settings[0][name] != settings[1][name]):
        found.append(f"{name.upper()} was {settings[0][name]} and is {settings[1][name]} now.")
    return found


def _git_differences(before: dict[str, Any] | None, now: dict[str, Any] | None) -> list[str]:
    if before is None or now is None:
        return [] if before == now else ["The git commit of one of the two is not known."]
    if before["commit"] == now["commit"]:
        return []
    return [f"The git commit was {before['commit'][:10]} and is {now['commit'][:10]} now."]


def _uncommitted(before: dict[str, Any] | None, now: dict[str, Any] | None) -> list[str]:
    if before is None or now is None:
        return []
    then = ["Files differed from their git commit then."] if before["dirty"] else []
    return [*then, "Files differ from their git commit now."] if now["dirty"] else then


def _without_device_count(flags: str) -> str:
    """XLA's flags without the number of simulated devices, which the mesh already states."""
    return " ".join(flag for flag in flags.split() if "device_count" not in flag)


def _git(folder: Path, *command: str) -> str:
    """The output of a git command; empty if it fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", *command], cwd=folder, env=env, capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
