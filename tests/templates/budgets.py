"""What scripts of `jaxrl new` are given to learn a probe from."""

from __future__ import annotations

from typing import Any

ON_POLICY: dict[str, Any] = {"lr": (1e-2,), "num_envs": 16, "num_steps": 16, "total_timesteps": 256 * 100}
REPLAY: dict[str, Any] = {
    "lr": (1e-2,),
    "num_envs": 8,
    "num_steps": 8,
    "total_timesteps": 64 * 150,
    "buffer_size": 64 * 40,  # it forgets what was learned from wrong values
    "learning_starts": 256,
    "batch_size": 64,
    "tau": 0.1,
}
