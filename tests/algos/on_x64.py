"""Run by test_x64.py with JAX_ENABLE_X64=1: steps an environment of each family, trains with and without 64 bits."""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl.algos import ippo, ppo
from jaxrl.interop.common import narrow

SMALL: dict[str, Any] = {"num_envs": 8, "num_steps": 8, "total_timesteps": 8 * 8 * 4, "hidden": (8,)}
PPO = ppo.Config(env="classic/cartpole", normalise_obs=True, **SMALL)
IPPO = ippo.Config(env="smax/3m", memory="gru", memory_size=8, reset="pool", **SMALL)
OPTIONS: dict[str, Any] = {"quiet": True, "pictures": False, "eval_episodes": 4, "log_every": 1}


def step(name: str) -> None:
    """A compiled scan over steps, with actions as wide as NumPy makes them."""
    env = jaxrl.make(name)
    venv = jaxrl.VectorEnv(env, 2)
    shape = (2, *((env.num_agents,) if isinstance(env, jaxrl.MultiAgentEnvironment) else ()))
    action = jnp.ones((*shape, *env.action_space().shape), np.int64)

    @jax.jit
    def run(key):
        def body(state, key):
            obs, state, reward, *_ = venv.step(key, state, action)
            return state, (obs, reward)

        return jax.lax.scan(body, venv.reset(key)[1], jax.random.split(key, 3))[1]

    obs, reward = run(jax.random.key(0))
    assert action.dtype == np.int64, action.dtype
    assert (obs.dtype, reward.dtype) == (env.observation_space().dtype, np.float32), name


def resume(folder: Path) -> None:
    """Stopped after two updates and resumed; with 32 bits the first update brings the same, up to rounding."""
    algo = ppo.make(PPO)
    stopped = lambda row: row["timesteps"] >= 2 * PPO.steps_per_update  # noqa: E731
    first = jaxrl.fit(algo, PPO, folder, callbacks=[stopped], checkpoint_every_updates=1, **OPTIONS)
    assert int(first.state.update) == 2
    wide = jaxrl.fit(algo, PPO, folder, resume=True, **OPTIONS)
    usual = narrow(lambda: dict(jaxrl.fit(algo, PPO, **OPTIONS).metrics))
    assert len(wide.metrics["timesteps"]) == PPO.num_updates
    for column, values in wide.metrics.items():
        if column not in ("seconds", "steps_per_second"):
            np.testing.assert_allclose(values[0], usual[column][0], rtol=1e-3, atol=1e-5, err_msg=column)


if __name__ == "__main__":
    assert jax.config.values["jax_enable_x64"]
    for env in ("classic/acrobot", "mpe/simple_tag", "probe/death"):
        step(env)
    resume(Path(sys.argv[1]) / "run")
    assert jaxrl.fit(ippo.make(IPPO), IPPO, **OPTIONS).evaluation
