"""Other libraries' versions of our environments with random actions.

Each is a function of our name for the environment, of B, the number of copies, and of the number of steps.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.bench import Program, compiled, legal_moves, takes_turns, total
from jaxrl.registry import canonical

__all__ = ["PEERS"]

_CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
_SOCIAL = ("coin_game", "switch_riddle", "storm")
_MINATAR = tuple(f"{game}-MinAtar" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"))


def jaxmarl(env_id: str, num_envs: int, steps: int) -> Program:
    """SMAX with the scripted enemy, MPE, both kinds of Overcooked, Hanabi, JaxNav, and the social games."""
    env = _jaxmarl_env(env_id)
    spaces = [(env.action_spaces or {agent: env.action_space(agent)})[agent] for agent in env.agents]

    def reset(key: jax.Array) -> Any:
        return jax.vmap(env.reset)(jax.random.split(key, num_envs))[1]

    def step(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        key_action, key_step = jax.random.split(key)
        if takes_turns(env_id):
            masks = jax.vmap(env.get_legal_moves)(state)
            keys = zip(env.agents, jax.random.split(key_action, len(env.agents)), strict=True)
            actions = {agent: legal_moves(k, masks[agent]) for agent, k in keys}
        elif hasattr(spaces[0], "n"):
            counts = np.array([space.n for space in spaces])[:, None]
            drawn = jax.random.randint(key_action, (len(spaces), num_envs), 0, counts)
            actions: Any = dict(zip(env.agents, drawn, strict=True))
            actions = tuple(drawn) if env.agents == [0, 1] else actions  # storm_2p unpacks them
        else:
            keys = zip(env.agents, spaces, jax.random.split(key_action, len(spaces)), strict=True)
            actions = {agent: jax.random.uniform(k, (num_envs, *space.shape)) for agent, space, k in keys}
        obs, state, reward, *_ = jax.vmap(env.step)(jax.random.split(key_step, num_envs), state, actions)
        return state, total([obs[agent] for agent in env.agents]) + total([reward[agent] for agent in env.agents])

    return compiled(reset, step, num_envs, steps)


def _jaxmarl_env(env_id: str) -> Any:
    """JaxMARL's environment that corresponds to ours of that name."""
    if "?" in env_id:
        raise ValueError(f"{env_id!r} cannot be compared with jaxmarl: leave out the options, from the ? on.")
    with _needed("jaxmarl", "peers"):
        import jaxmarl
        from jaxmarl.environments.smax import map_name_to_scenario
    family, _, name = canonical(env_id).partition("/")
    if family == "mpe":
        from jaxrl.envs.mpe import SCENARIOS

        options = {} if "facmac" in name else {"action_type": "Discrete"}  # what ours have by default
        return jaxmarl.make(f"MPE_{name}_{SCENARIOS[name][1]}", **options)
    if family == "overcooked":
        return _jaxmarl_kitchen(name)
    if family == "overcooked_v2":
        return jaxmarl.make("overcooked_v2", layout=name or "cramped_room")
    if family == "hanabi":
        return jaxmarl.make("hanabi", num_agents=int(name.removesuffix("p")))
    if family == "jaxnav":
        return _jaxmarl_robots(name)
    if family in _SOCIAL:  # jaxmarl's `storm` shuffles 43,758 rows in every step; that for two players is fast
        return jaxmarl.make("storm_2p" if family == "storm" else family)
    if family != "smax":
        known = ", ".join(("smax/…", "mpe/…", "overcooked/…", "overcooked_v2/…", "hanabi/…", "jaxnav/…", *_SOCIAL))
        raise ValueError(f"The comparison with jaxmarl knows {known} environments, not {env_id!r}.")
    try:
        return jaxmarl.make("HeuristicEnemySMAX", scenario=map_name_to_scenario(name))
    except KeyError:
        raise ValueError(f"jaxmarl has no SMAX scenario {name!r}.") from None


def _jaxmarl_kitchen(name: str) -> Any:
    """JaxMARL's Overcooked with that layout."""
    import jaxmarl
    from jaxmarl.environments.overcooked import overcooked_layouts

    with warnings.catch_warnings():  # it recommends its second version
        warnings.simplefilter("ignore", DeprecationWarning)
        return jaxmarl.make("overcooked", layout=overcooked_layouts[name or "cramped_room"])


def _jaxmarl_robots(name: str) -> Any:
    """JaxMARL's JaxNav with that map."""
    import jaxmarl
    from jaxmarl.environments.jaxnav import jaxnav_singletons

    from jaxrl.envs.jaxnav import MAPS

    if name in MAPS:
        return getattr(jaxnav_singletons, MAPS[name].origin)(map_id="Grid-Rand-Poly")
    with warnings.catch_warnings():  # about goals that are too far away
        warnings.simplefilter("ignore", UserWarning)
        return jaxmarl.make("jaxnav")


def gymnax(env_id: str, num_envs: int, steps: int) -> Program:
    """Classic control, and MinAtar."""
    name = _same(env_id, "gymnax", (*_CLASSIC, *_MINATAR))
    with _needed("gymnax", "gymnax"):
        import gymnax
    env, params = gymnax.make(name)

    def reset(key: jax.Array) -> Any:
        return jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, num_envs), params)[1]

    def step(key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
        key_action, key_step = jax.random.split(key)
        action = jax.vmap(env.action_space(params).sample)(jax.random.split(key_action, num_envs))
        keys = jax.random.split(key_step, num_envs)
        obs, state, reward, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, action, params)
        return state, total(obs) + total(reward)

    return compiled(reset, step, num_envs, steps)


def envpool(env_id: str, num_envs: int, steps: int) -> Program:
    """Classic control in C++, with all copies stepped by one thread per core and NumPy inputs and outputs."""
    name = _same(env_id, "envpool", _CLASSIC)
    with _needed("envpool", "envpool"):
        envpool = importlib.import_module("envpool")  # large, so it is not installed for type checkers
    with warnings.catch_warnings():  # about the reduced precision of bounds in Gymnasium's spaces
        warnings.simplefilter("ignore")
        env = envpool.make(name, env_type="gymnasium", num_envs=num_envs, num_threads=os.cpu_count())
        env.reset()
        space = env.action_space

    def step(rng: np.random.Generator) -> float:
        if hasattr(space, "n"):
            action = rng.integers(0, space.n, num_envs, dtype=np.int32)
        else:
            action = rng.uniform(space.low, space.high, (num_envs, *space.shape)).astype(np.float32)
        obs, reward, *_ = env.step(action)
        return float(obs.sum() + reward.sum())

    def run(seed: int) -> float:
        rng = np.random.default_rng(seed)
        return sum(step(rng) for _ in range(steps))

    return Program(run, 0.0, None, None)


PEERS: dict[str, Callable[[str, int, int], Program]] = {"jaxmarl": jaxmarl, "gymnax": gymnax, "envpool": envpool}


def _same(env_id: str, library: str, ids: tuple[str, ...]) -> str:
    """The library's id for one of our environments, out of those that it shares with us."""
    for name in ids:
        if canonical(name) == canonical(env_id):
            return name
    raise ValueError(f"The comparison with {library} knows {', '.join(ids)}, not {env_id!r}.")


@contextlib.contextmanager
def _needed(package: str, extra: str) -> Iterator[None]:
    """Import a peer: a missing one raises an error that says how to install it, and its output stays off stdout.

    Standard output is redirected to standard error by file descriptor, since one of jaxmarl's own imports restores
    `sys.stdout`.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    except ImportError as error:
        raise ImportError(f'Comparing with {package} needs it installed: pip install "jaxrl[{extra}]"') from error
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
