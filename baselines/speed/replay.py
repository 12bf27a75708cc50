"""The costs of the replay buffer: `python baselines/speed/replay.py`. Needs `pip install flashbax`.

Rollouts of CartPole's size (16 environments, 8 steps) are written, and 8 minibatches of 128 pairs of successive steps
drawn after each, in buffers of ten thousand steps and of a million, ours and flashbax's flat buffer, in turns in one
process. Then the temporary memory of a compiled update, of which a copied buffer would be the most. Writes its numbers
to results/replay_*.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flashbax
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algos import dqn, qmix, sac
from jaxrl.rl.replay import draw, new_replay, take, write
from jaxrl.train.folder.provenance import versions

RESULTS = Path(__file__).parent / "results"
ENVS, STEPS, DRAWS, ROWS = 16, 8, 8, 128
SIZES = (10_000, 1_000_000)
CONFIGS: dict[str, tuple[Any, Any]] = {
    "dqn on classic/cartpole, a million steps": (dqn, dqn.Config(buffer_size=1_000_000)),
    "sac on classic/pendulum, a million steps": (sac, sac.Config(buffer_size=1_000_000)),
    "qmix on smax/3m, a hundred thousand steps": (qmix, qmix.Config(buffer_size=100_000)),
}

Cycle = Callable[[Any, jax.Array], tuple[Any, jax.Array]]
"""`cycle(buffer, key)`: write a rollout, draw all minibatches; the buffer again, and a number made of what is read."""


def rollout(lead: tuple[int, ...]) -> dict[str, jax.Array]:
    """All that CartPole stores of each step."""
    flags = {name: jnp.zeros(lead, bool) for name in ("reset", "terminated", "truncated")}
    return {"obs": jnp.ones((*lead, 4)), "action": jnp.ones(lead, jnp.int32), "reward": jnp.ones(lead), **flags}


def read(pairs: Any) -> jax.Array:
    """A number that depends on every one of them."""
    return sum((leaf.astype(jnp.float32).sum() for leaf in jax.tree.leaves(pairs)), jnp.zeros(()))


def ours(size: int) -> tuple[Any, Cycle]:
    """An empty buffer of ours, and its cycle."""

    def cycle(replay: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        replay = write(replay, rollout((STEPS, ENVS)), ())
        index = draw(replay, key[None], DRAWS, ROWS, 2)
        return replay, jax.lax.map(lambda at: read(take(replay, at, 2)[0]), index).sum()

    return new_replay(rollout((STEPS, ENVS)), (), -(-size // (STEPS * ENVS))), cycle


def flashbaxs(size: int) -> tuple[Any, Cycle]:
    """An empty buffer of flashbax, and its cycle."""
    buffer = flashbax.make_flat_buffer(size, ROWS, ROWS, add_sequences=True, add_batch_size=ENVS)

    def cycle(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        state = buffer.add(state, rollout((ENVS, STEPS)))
        return state, jax.lax.map(
            lambda k: read(buffer.sample(state, k).experience), jax.random.split(key, DRAWS)
        ).sum()

    return buffer.init(jax.tree.map(lambda leaf: leaf[0], rollout((1,)))), cycle


class Runner:
    """Cycles on one buffer, which goes on from turn to turn."""

    def __init__(self, buffer: Any, cycle: Cycle, cycles: int) -> None:
        def several(buffer: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            return jax.lax.scan(cycle, buffer, jax.random.split(key, cycles))

        self.buffer, self.cycles = buffer, cycles
        self.run = jax.jit(several, donate_argnums=0).lower(buffer, jax.random.key(0)).compile()

    def turn(self, number: int) -> tuple[float, float]:
        """Microseconds of the clock and of the CPU that a cycle takes."""
        clock, cpu = time.perf_counter(), time.process_time()
        self.buffer, total = self.run(self.buffer, jax.random.key(number))
        jax.block_until_ready(total)
        took = time.perf_counter() - clock, time.process_time() - cpu
        return took[0] / self.cycles * 1e6, took[1] / self.cycles * 1e6


def cycles(turns: int, each: int) -> dict[str, Any]:
    """Microseconds of a cycle by library and size, medians over turns that alternate, the first not counted."""
    runners = {
        f"{name}, {size:,}": Runner(*make(size), each)
        for size in SIZES
        for name, make in (("ours", ours), ("flashbax", flashbaxs))
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in runners}
    for number in range(turns + 1):
        for name, runner in runners.items():
            took[name] += [runner.turn(number)][: None if number else 0]
    rounded = {name: np.round(each, 1) for name, each in took.items()}
    median = {name: np.median(each, axis=0).tolist() for name, each in rounded.items()}
    return {"microseconds": median, "turns": {name: each.tolist() for name, each in rounded.items()}}


def temporary(algo: Any, config: Any, members: int) -> dict[str, Any]:
    """Bytes that the update of one agent, or of several at once, needs beside its state, and those of the buffer."""
    made = algo.make(config)
    init, update = (jax.vmap(made.init), jax.vmap(made.update)) if members > 1 else (made.init, made.update)
    key = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), members) if members > 1 else jax.random.key(0))
    state = jax.eval_shape(init, key)
    used = jax.jit(update, donate_argnums=0).lower(state).compile().memory_analysis()
    assert used is not None
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.replay))
    share = round(used.temp_size_in_bytes / size, 4)
    return {"temporary_bytes": used.temp_size_in_bytes, "buffer_bytes": size, "share": share}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--cycles", type=int, default=500, help="in a turn")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = cycles(options.turns, options.cycles)
    for name, (clock, cpu) in found["microseconds"].items():
        print(f"{name}: {clock:.0f} us a cycle, {cpu:.0f} us of the CPU", flush=True)
    memory = {}
    for name, (algo, config) in CONFIGS.items():
        for members in (1, 4):
            memory[f"{name}, {members} at once"] = row = temporary(algo, config, members)
            print(f"{name}, {members} at once: {row['share']:.2%} of the buffer", flush=True)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    about = {"date": stamp, "cores": os.cpu_count(), "load": [load, os.getloadavg()[0]], "versions": versions()}
    path = RESULTS / f"replay_{stamp}.json"
    path.write_text(json.dumps({**about, **found, "memory": memory}, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
