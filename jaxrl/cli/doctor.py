"""`jaxrl doctor`: shows what is installed and detected, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
from pathlib import Path

import tyro

from jaxrl.cli import no_device

__all__ = ["main"]

_EXTRAS = {  # extra -> modules it installs
    "accelerators": ("jax_cuda13_plugin", "libtpu"),
    "viz": ("matplotlib", "PIL"),
    "deploy": ("safetensors", "flatbuffers"),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboardX",),
    **{library: (library,) for library in ("jaxmarl", "gymnax", "brax", "jumanji", "pgx", "craftax", "navix")},
    "mjx": ("mujoco_playground",),
    "gymnasium": ("gymnasium",),
    "pettingzoo": ("pettingzoo", "gymnasium"),
    "dm-env": ("dm_env",),
    "envpool": ("envpool",),
    "data": ("minari", "h5py", "flashbax", "pyarrow"),
    "peers": ("hanabi_learning_environment", "minatar", "mpe2", "overcooked_ai_py", "popgym"),
    "dev": ("pytest", "ruff", "pyright"),
}


@dataclasses.dataclass(frozen=True)
class DoctorFlags:
    """Show versions, devices and extras, and point out common mistakes in the set-up."""


def main(argv: list[str]) -> int:
    """`jaxrl doctor`; returns the exit code, 1 if something prevents training."""
    tyro.cli(DoctorFlags, args=argv, prog="jaxrl doctor")
    from jaxrl.train.folder.provenance import versions

    print("Versions")
    for name, version in versions().items():
        print(f"  {name:<18} {version}")
    print("Devices")
    platforms, trouble = _devices()
    print("Extras")
    for extra, modules in _EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        print(f"  {extra:<18} " + (f"missing: pip install 'jaxrl[{extra}]'" if missing else "installed"))
    advice = _advice(platforms)
    for sentence in [*trouble, *advice]:
        print(f"! {sentence}")
    if not trouble and not advice:
        print("All well.")
    return 1 if trouble else 0


def _devices() -> tuple[set[str], list[str]]:
    """Print the devices; return their platforms and sentences about what prevents training."""
    import jax

    try:
        devices = jax.devices()
    except (RuntimeError, AssertionError) as error:
        return set(), [no_device(error) or f"JAX finds no device: {error}"]
    for device in devices:
        print(f"  {device.platform}:{device.id:<14} {device.device_kind}")
    print(
        f"  cores              {len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()}"
    )
    return {device.platform for device in devices}, []


def _advice(platforms: set[str]) -> list[str]:
    """Sentences about settings that are probably unintended."""
    import jax

    advice = []
    if shutil.which("nvidia-smi") and "gpu" not in platforms:
        wanted = os.environ.get("JAX_PLATFORMS")
        cure = (
            f"JAX_PLATFORMS={wanted} forbids it; unset it" if wanted else "install it with: pip install 'jax[cuda13]'"
        )
        advice.append(f"There is an NVIDIA driver, but JAX does not use a GPU: {cure}.")
    slow = {
        "jax_disable_jit": "nothing is compiled, which is thousands of times slower",
        "jax_debug_nans": "every result is checked on the host, which is slow",
        "jax_enable_x64": "arrays may take twice the memory and time",
    }
    for option, effect in slow.items():
        if getattr(jax.config, option):
            advice.append(f"{option.upper()} is on: {effect}.")
    if "--xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        advice.append("XLA_FLAGS makes several devices of one processor: for tests only.")
    if not os.access(Path.cwd(), os.W_OK):
        advice.append(f"{Path.cwd()} cannot be written to, so runs/ cannot be made here: use --run-dir.")
    return advice
