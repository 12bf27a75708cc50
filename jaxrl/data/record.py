"""Record what a policy does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, check_algorithm
from jaxrl.data.dataset import Writer
from jaxrl.environment import Environment, MultiAgentEnvironment, check_environment
from jaxrl.keys import check_key
from jaxrl.registry import made_name
from jaxrl.spaces import Discrete
from jaxrl.vector import VectorEnv

__all__ = ["record", "seen_now"]

_LENGTH = 256  # steps of each environment in a shard


def record(
    algo: Algorithm,
    env: Environment,
    state: Any,
    key: jax.Array,
    path: str | Path,
    num_steps: int,
    *,
    num_envs: int = 16,
    greedy: bool = False,
    origin: dict[str, Any] | None = None,
    progress: Callable[[int], None] = lambda steps: None,
) -> int:
    """Play, and write the steps to a folder; returns how many there are, `num_steps` rounded up.

    Args:
        algo: The algorithm that `state` belongs to.
        env: The environment to play in.
        state: The train state of one member.
        key: Consumed.
        path: The folder, which is new or holds steps of the same environments.
        num_steps: Environment steps in all.
        num_envs: B, the environments that are played at once.
        greedy: Whether to take the most likely actions; False draws them.
        origin: Who acts, for `dataset.json`.
        progress: Called with the number of steps that are safe on disk.

    Raises:
        ValueError: `num_steps` or `num_envs` is below 1; or see `Writer`.
    """
    check_algorithm(algo, "record")
    check_environment(env, "record")
    check_key(key, "record")
    for name, value in (("num_steps", num_steps), ("num_envs", num_envs)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    venv, wanted = VectorEnv(env, num_envs), -(-num_steps // num_envs)
    writer = Writer(path, made_name(env), num_envs, origin or {})

    # A shard is one compiled loop; the last one is cut.
    key_reset, key = jax.random.split(key)
    obs, env_state = jax.jit(venv.reset)(key_reset)
    loop = (obs, env_state, None, jnp.ones(num_envs, bool))
    carry = jax.eval_shape(partial(_act, algo, venv, greedy), state, key, loop)[1]
    loop = (*loop[:2], jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), carry), loop[3])
    play = jax.jit(partial(_play, algo, venv, greedy))
    for done in range(0, wanted, _LENGTH):
        key, key_shard = jax.random.split(key)
        loop, (steps, final) = play(state, key_shard, loop)
        length = min(_LENGTH, wanted - done)
        steps = {name: np.asarray(leaf)[:length] for name, leaf in steps.items()}
        index = np.argwhere(steps["terminated"] | steps["truncated"]).astype(np.int32)
        final = np.asarray(final)[index[:, 0], index[:, 1]]
        writer.write({**steps, "final_index": index, "final_observation": final})
        progress((done + length) * num_envs)
    return wanted * num_envs


def seen_now(env: Environment, obs: Any, env_state: Any, params: Any = None) -> dict[str, Any]:
    """What a dataset keeps of a moment before its action, of one environment."""
    seen = {"obs": obs}
    if isinstance(env.action_space(), Discrete):
        seen["action_mask"] = env.action_mask(env_state, params)
    if isinstance(env, MultiAgentEnvironment):
        seen["agent_mask"] = env.agent_mask(env_state, params)
        if env.has_global_state:
            seen["global_state"] = env.global_state(env_state, params)
    return seen


def _act(algo: Algorithm, venv: VectorEnv, greedy: bool, state: Any, key: jax.Array, loop: Any) -> tuple[Any, Any]:
    """The actions `[B, …]` and the memory after them."""
    obs, env_state, carry, reset = loop
    discrete = isinstance(venv.action_space(), Discrete)
    mask = venv.action_mask(env_state) if discrete else None
    return algo.act(state, obs, carry, None if greedy else key, action_mask=mask, reset=reset)


def _play(algo: Algorithm, venv: VectorEnv, greedy: bool, state: Any, key: jax.Array, loop: Any) -> tuple[Any, Any]:
    """A shard of steps: where they lead, their arrays `[T, B, …]`, and each step's final observation."""

    def step(loop: Any, key: jax.Array) -> tuple[Any, Any]:
        obs, env_state, _, reset = loop
        key_act, key_step = jax.random.split(key)
        action, carry = _act(algo, venv, greedy, state, key_act, loop)
        seen = jax.vmap(partial(seen_now, venv.env))(obs, env_state)
        obs, env_state, reward, terminated, truncated, info = venv.step(key_step, env_state, action)
        ends = {"terminated": terminated, "truncated": truncated, "reset": reset}
        won = {"won": info["won"]} if "won" in info else {}
        steps = {**seen, "action": action, "reward": reward, **ends, **won}
        return (obs, env_state, carry, terminated | truncated), (steps, info["final_observation"])

    return jax.lax.scan(step, loop, jax.random.split(key, _LENGTH))
