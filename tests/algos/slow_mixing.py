"""QMIX's mixer as loops, which the tests compare with."""

from typing import Any

import jax
import numpy as np


def slow_mixer(params: Any, teams: Any, value: Any, alive: Any, state: Any) -> np.ndarray:
    """The teams' values `[K]` of one moment, by loops over members and features; the torso has one relu layer."""
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params["params"])
    num_teams, mixed = max(teams) + 1, []
    for team in range(num_teams):
        if not any(alive[member] for member in range(len(teams)) if teams[member] == team):
            mixed.append(0.0)
            continue
        seen = np.append(state, np.eye(num_teams)[team]) if num_teams > 1 else np.asarray(state)
        dense = p["torso"]["MLP_0"]["Dense_0"]
        features = np.maximum(seen @ dense["kernel"] + dense["bias"], 0)

        def read(name: str, features: np.ndarray = features) -> np.ndarray:
            return features @ p[name]["kernel"] + p[name]["bias"]

        hidden = read("bias")
        even = 1 / np.sqrt(hidden.size)
        weights = np.abs(even + read("weights")).reshape(len(teams), -1)
        for member in range(len(teams)):
            if teams[member] == team and alive[member]:
                hidden = hidden + value[member] * weights[member]
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
        mixed.append(hidden @ np.abs(even + read("output_weights")) + read("output_bias")[0])
    return np.array(mixed)
