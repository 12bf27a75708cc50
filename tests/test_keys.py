"""Whoever takes a key says what to type where it is none."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import mappo, ppo
from jaxrl.keys import check_key
from jaxrl.replay import record

CARTPOLE = jaxrl.make("classic/cartpole")
SMALL = {"total_timesteps": 64, "num_envs": 4, "num_steps": 8, "num_minibatches": 2, "hidden": (8,)}
PPO = ppo.make(ppo.Config(**SMALL))


def venv(reset: Any) -> Any:
    return jaxrl.VectorEnv(CARTPOLE, 4, reset)


TAKERS = {
    "classic/cartpole.reset": CARTPOLE.reset,
    "classic/cartpole.step": lambda key: CARTPOLE.step(key, None, 0),
    "VectorEnv.reset": venv("fresh").reset,
    "VectorEnv.reset, pool": venv("pool").reset,
    "VectorEnv.step": lambda key: venv("fresh").step(key, None, np.zeros(4, np.int32)),
    "VectorEnv.step, pool": lambda key: venv("pool").step(key, None, np.zeros(4, np.int32)),
    "VectorEnv.refresh": lambda key: venv("pool").refresh(key, None),
    "init": PPO.init,
    "init, mappo": mappo.make(mappo.Config(env="probe/death", **SMALL)).init,
    "init, make_train": ppo.make_train(ppo.Config(**SMALL)),
    "act": lambda key: PPO.act(None, jnp.zeros((4, 4)), None, key),
    "evaluate": lambda key: jaxrl.evaluate(PPO, CARTPOLE, None, key),
    "check_env": lambda key: jaxrl.check_env(CARTPOLE, key=key),
    "record": lambda key: record(CARTPOLE, lambda obs, carry, key, mask: (0, carry), key),
}


@pytest.mark.quick
@pytest.mark.parametrize("taker", list(TAKERS))
def test_old_keys_and_seeds_are_refused(taker):
    name = re.escape(taker.partition(",")[0])
    with pytest.raises(TypeError, match=rf"^{name} takes keys made by jax\.random\.key\(seed\), not the old kind"):
        TAKERS[taker](jax.random.PRNGKey(0))
    with pytest.raises(TypeError, match=rf"^{name} takes a key, not the seed 7; give jax\.random\.key\(7\)"):
        TAKERS[taker](7)


def test_old_keys_are_refused_in_compiled_functions():
    with pytest.raises(TypeError, match="not the old kind"):
        jax.jit(jax.vmap(CARTPOLE.reset))(jax.random.split(jax.random.PRNGKey(0), 3))
    with pytest.raises(TypeError, match="not the old kind"):
        jax.jit(PPO.init)(jax.random.PRNGKey(0))


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ((), "a tuple"),
        ("0", "a str"),
        (0.5, "a float"),
        (np.zeros(2, np.float32), "an array of float32"),
        (jnp.int32(3), "an array of int32"),
    ],
)
def test_anything_else_is_named(key, given):
    with pytest.raises(TypeError, match=rf"^reset takes keys made by jax\.random\.key\(seed\), not {given}\.$"):
        check_key(key, "reset")


def test_a_missing_key_is_asked_for():
    with pytest.raises(TypeError, match=r"^reset takes a key; give jax\.random\.key\(0\), or any other seed\.$"):
        check_key(None, "reset")


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_typed_keys_of_every_kind_are_taken(impl):
    check_key(jax.random.key(0, impl=impl), "reset")
    check_key(jax.random.split(jax.random.key(0, impl=impl), 3), "reset")
