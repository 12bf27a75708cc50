"""MuJoCo Playground's environments step the same through us as by themselves; a tiny one shows what is ours."""

import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from physical import steps_alike

import jaxrl

pytest.importorskip("mujoco_playground")
from ml_collections import config_dict
from mujoco_playground import MjxEnv, State, dm_control_suite, registry
from mujoco_playground._src import mjx_env, wrapper

from jaxrl.algos import ppo
from jaxrl.interop import from_mjx, mjx


class Line(MjxEnv):
    """A point on a line: it ends beyond 2, and only a critic may see where it is.

    It stands for robots, whose observations are such dicts.
    """

    def __init__(self) -> None:
        super().__init__(config_dict.create(ctrl_dt=0.1, sim_dt=0.1, episode_length=4, action_repeat=1))

    def reset(self, rng: jax.Array) -> State:
        where: Any = jax.random.uniform(rng)
        zero = jnp.zeros(())
        return State(where, self._seen(where), zero, zero, {"where": where}, {"rng": rng})

    def step(self, state: Any, action: jax.Array) -> State:
        where = state.data + action[0]
        state.metrics["where"] = where
        done = (where > 2).astype(float)
        return state.replace(data=where, obs=self._seen(where), reward=where, done=done)

    def _seen(self, where: jax.Array) -> dict[str, jax.Array]:
        return {"state": jnp.sign(where)[None], "privileged_state": jnp.stack([where, where])}

    @property
    def action_size(self) -> int:
        return 1

    @property
    def mj_model(self) -> Any:
        return None

    @property
    def mjx_model(self) -> Any:
        return None

    @property
    def xml_path(self) -> str:
        return ""


@pytest.fixture(scope="module")
def line() -> Any:
    return from_mjx(Line())


GOES_ON, ENDS, IS_CUT = (False, False), (True, False), (False, True)


@pytest.mark.parametrize(("push", "flags"), [(0.0, [GOES_ON] * 3 + [IS_CUT]), (1.0, [GOES_ON, ENDS])])
def test_time_outs_are_told_from_ends(line: Any, push: float, flags: list[tuple[bool, bool]]) -> None:
    obs, state = line.reset(jax.random.key(0))
    assert obs.shape == line.observation_space().shape == (1,)
    step = jax.jit(line.step_env)
    for t, expected in enumerate(flags):
        _, state, reward, terminated, truncated, info = step(jax.random.key(t), state, jnp.full(1, push), None)
        assert (bool(terminated), bool(truncated)) == expected
        assert float(info["where"]) == float(reward)


def test_a_critic_may_know_what_is_privileged(line: Any) -> None:
    obs, state = line.reset(jax.random.key(1))
    where = float(state.env_state.data)
    assert line.has_global_state
    np.testing.assert_allclose(line.global_state(state), [where, where])
    np.testing.assert_allclose(obs, [np.sign(where)])


def test_keeps_our_contract(line: Any) -> None:
    jaxrl.check_env(line)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CartpoleBalance", "ReacherHard"])
def test_steps_as_playground_does(name: str) -> None:
    steps_alike(jaxrl.make(f"mjx:{name}"), 20)


@pytest.mark.slow
def test_a_physical_environment_keeps_our_contract() -> None:
    jaxrl.check_env(jaxrl.make("mjx:PendulumSwingup"))


@pytest.mark.slow
@pytest.mark.parametrize("name", dm_control_suite.ALL_ENVS)
def test_every_task_of_the_control_suite_can_be_stepped(name: str) -> None:
    env = jaxrl.make(f"mjx:{name}")
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    jax.eval_shape(env.step, jax.random.key(0), state, np.zeros(env.action_space().shape))


def test_options_are_those_of_the_config() -> None:
    env = jaxrl.make("mjx:PendulumSwingup?episode_length=7&ctrl_dt=0.04&action_repeat=2")
    assert (env.episode_length, env.action_repeat, env.env.dt) == (7, 2, 0.04)
    assert env.env.mjx_model.impl.value == "jax"
    with pytest.raises(TypeError, match=r"mjx:PendulumSwingup has no option 'mass'. It has .*episode_length"):
        jaxrl.make("mjx:PendulumSwingup?mass=2")
    with pytest.raises(ValueError, match="MuJoCo Playground cannot make PendulumSwingup of these options: 'c' is not"):
        jaxrl.make("mjx:PendulumSwingup?impl=c")
    with pytest.raises(ValueError, match="ctrl_dt must be a finite number"):
        jaxrl.make("mjx:PendulumSwingup?ctrl_dt=soon")
    with pytest.raises(ValueError, match=r"of these options: ctrl_dt=0\.01 is shorter than sim_dt=1"):
        jaxrl.make("mjx:PendulumSwingup?ctrl_dt=0.01&sim_dt=1")
    flat = mjx._flat(registry.get_default_config("CartpoleBalance"))
    assert {"episode_length", "vision_config.nworld"} <= set(flat)


def test_names_and_refusals() -> None:
    with pytest.raises(ValueError, match=r"MuJoCo Playground has no environment 'Cheetah'. Did you mean CheetahRun"):
        jaxrl.make("mjx:Cheetah")
    with pytest.raises(TypeError, match=r"as in from_mjx\(registry.load\(name\)\).* not a str"):
        from_mjx("CheetahRun")
    with pytest.raises(TypeError, match=r"takes an environment without BraxAutoResetWrapper: give env.unwrapped"):
        from_mjx(wrapper.wrap_for_brax_training(Line()))


def test_robots_that_cannot_be_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    if mjx_env.MENAGERIE_PATH.exists():
        pytest.skip("they are here")

    def fails() -> None:
        raise subprocess.CalledProcessError(128, ["git", "clone"])

    monkeypatch.setattr(mjx_env, "ensure_menagerie_exists", fails)
    with pytest.raises(OSError, match=r"mjx:Go1JoystickFlatTerrain needs the robots of MuJoCo Menagerie, .*git clone "):
        jaxrl.make("mjx:Go1JoystickFlatTerrain")


@pytest.mark.slow
def test_ppo_learns_to_balance() -> None:
    env = "mjx:CartpoleBalance?episode_length=100"
    config = ppo.Config(env=env, total_timesteps=150_000, num_envs=64, num_steps=32, lr=1e-3)
    _, metrics = jax.jit(ppo.make_train(config))(jax.random.key(0))
    assert metrics["return_sum"][-10:].sum() / metrics["episodes"][-10:].sum() > 80  # 100 is the best there is
