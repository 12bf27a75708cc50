"""How runs play hide-and-seek: `python baselines/hide_and_seek.py RUN…`, after `baselines/record.py`.

For each seed of each run, 512 episodes with drawn actions in the true world: the means of all that the game's `info`
tells at their ends, and `out_of_reach`, the share of episodes at whose end no way on the floor leads from a seeker to a
hider. They go under `game` in the run's file in baselines/results/hide_and_seek, a list with one number per seed.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import numpy as np
from record import RESULTS
from scipy import ndimage

import jaxrl
from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.envs.hide_and_seek.world import Params, State
from jaxrl.train.folder.load import Run
from jaxrl.wrappers import as_multi_agent
from jaxrl.wrappers.params import Stage

EPISODES = 512
CELL = 0.04
"""Metres; the way through a door is 0.1 m wide for an agent's centre."""


def main() -> None:
    """Measure the runs and write what they do into their files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    for folder in parser.parse_args().runs:
        seeds = games(jaxrl.load(folder))
        path = RESULTS / "hide_and_seek" / f"{folder.name}.json"
        about = json.loads(path.read_text(encoding="utf-8"))
        about["game"] = {name: [round(seed[name], 4) for seed in seeds] for name in seeds[0]}
        path.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        print(f"{folder.name}: {about['game']}")


def games(run: Run) -> list[dict[str, float]]:
    """For each seed, the means of the numbers in info at the end of the episodes."""
    policies = [run.member(i).policy for i in range(run.num_members)]
    team, params = as_multi_agent(run.env), _params(run.env)
    play, everybody = jax.jit(partial(_last_info, team, policies[0])), team.unwrapped
    assert isinstance(everybody, MultiAgentEnvironment)
    hides = np.array([name.startswith("hider") for name in everybody.agents])
    told = []
    for i, policy in enumerate(policies):
        info, states = jax.device_get(play(policy.params, jax.random.key(1_000_000 + i)))
        while not isinstance(states, State):
            states = states.env  # that inside a wrapper
        worlds = [jax.tree.map(itemgetter(e), states) for e in range(EPISODES)]
        apart = [out_of_reach(world, hides, params) for world in worlds]
        told.append({name: float(np.mean(values)) for name, values in {**info, "out_of_reach": apart}.items()})
    return told


def out_of_reach(state: State, hides: np.ndarray, params: Params) -> bool:
    """Whether no way on the floor leads from any seeker to any hider, with objects as they are: floods of a grid.

    Args:
        state: One world, arrays of NumPy.
        hides: Which agents are hiders, bool `[A]`.
        params: Its parameters.
    """
    low, high = params.border + params.agent_radius, params.floor - params.border - params.agent_radius
    x, y = np.meshgrid(np.arange(low, high, CELL), np.arange(low, high, CELL), indexing="ij")
    upright = [(*wall, 1.0, 0.0) for wall in state.walls]
    objects = zip(state.object_position, params.object_size, state.object_heading, strict=True)
    free = np.ones(x.shape, bool)
    for middle_x, middle_y, half_x, half_y, cos, sin in [*upright, *(np.concatenate(parts) for parts in objects)]:
        dx, dy = x - middle_x, y - middle_y
        beyond_x = np.maximum(abs(cos * dx + sin * dy) - half_x, 0)
        beyond_y = np.maximum(abs(cos * dy - sin * dx) - half_y, 0)
        free &= np.hypot(beyond_x, beyond_y) >= params.agent_radius
    regions = ndimage.label(free)[0]
    cells = np.argwhere(free)
    places = np.stack([x[free], y[free]], 1)
    nearest = [cells[np.hypot(*(places - place).T).argmin()] for place in state.position]  # some stand against a wall
    where = np.array([regions[tuple(cell)] for cell in nearest])
    return not set(where[hides]) & set(where[~hides])


def _params(env: Any) -> Params:
    """The parameters of the true world, as numbers."""
    own = env.default_params
    return jax.device_get(own.params if isinstance(own, Stage) else own)


def _last_info(env: MultiAgentEnvironment, policy: Policy, params: Any, key: jax.Array) -> tuple[Any, Any]:
    """The numbers `[E]` in the info of the last step of E episodes, which are all as long, and the states before it.

    Consumes `key`.
    """
    key_reset, key_play = jax.random.split(key)
    obs, state = env.batch_reset(jax.random.split(key_reset, EPISODES))

    def step(now: tuple[Any, Any, Any], key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        obs, state, carry = now
        key_act, key_step = jax.random.split(key)
        action, carry = policy.apply(params, obs, carry, key_act)
        obs, state, _, _, _, info = env.batch_step(jax.random.split(key_step, EPISODES), state, action)
        return (obs, state, carry), {name: info[name] for name in info if getattr(info[name], "ndim", 0) == 1}

    keys = jax.random.split(key_play, int(_params(env).max_steps))
    before, _ = jax.lax.scan(step, (obs, state, policy.new_carry(EPISODES)), keys[:-1])
    _, told = step(before, keys[-1])
    return told, before[1]


if __name__ == "__main__":
    main()
