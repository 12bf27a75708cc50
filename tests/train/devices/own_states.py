"""Run by test_mesh.py with 8 forced devices: an own algorithm with one fault at a time, and what is said of it."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.algorithm import Algorithm, Learned, PerEnvironment, Replicated
from jaxrl.rl.devices import psum
from jaxrl.train.devices.mesh import choose_mesh
from jaxrl.train.programs import compile_programs

sys.path.append(str(Path(__file__).parents[1]))
import toy_algorithm as toy


class Config(toy.Config):
    """The toy's, whose environments are in eight shards."""

    shards = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    params: Learned[Any]
    seen: PerEnvironment[jax.Array]
    tally: Replicated[jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Uneven(State):
    tally: PerEnvironment[jax.Array]


def algorithm(fault: str) -> Algorithm:
    """Each update adds up what the environments have seen."""
    kind = Uneven if fault == "uneven" else State
    size = {"uneven": 3, "undeclared": 16, "part": 16}.get(fault, 1)

    def init(key: jax.Array, hyperparams: Any = None) -> State:
        del key, hyperparams
        return kind({"theta": jnp.float32(0)}, jnp.arange(16.0), jnp.zeros(size))

    def update(state: State) -> tuple[State, dict[str, Any]]:
        own = state.seen.sum()
        learned, reported = (own if fault == missing else psum(own) for missing in ("gradient", "metrics"))
        params = {"theta": state.params["theta"] + learned}
        tally = state.tally + (state.seen if fault == "undeclared" else 1.0)
        if fault == "bug":
            raise TypeError("a bug")
        return kind(params, state.seen, state.seen if fault == "part" else tally), {"episodes": reported, "losses": {}}

    return Algorithm(init, update, toy.make(Config()).act)


def said_of(fault: str) -> str:
    """The error, or the parameter after two updates."""
    config = Config(num_envs=16)
    try:
        programs = compile_programs(algorithm(fault), config, episodes=2, mesh=choose_mesh(config, 1))
        state, _ = programs.chunk(programs.init(), 2)
    except (TypeError, ValueError) as error:
        return " ".join([str(error), *getattr(error, "__notes__", ())])
    return str(float(state.params["theta"]))


if __name__ == "__main__":
    faults = ("none", "gradient", "metrics", "uneven", "undeclared", "part", "bug")
    print(json.dumps({fault: said_of(fault) for fault in faults}))
