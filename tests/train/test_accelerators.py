"""Programs for GPUs and TPUs, compiled without one; and what is read from them, against counts made by hand."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import algos
from jaxrl.algos import ippo, ppo
from jaxrl.cli import main
from jaxrl.rl.devices import compiling_for, target
from jaxrl.train import accelerators
from jaxrl.train.accelerators import ACCELERATORS, Work, compile_for, count_flops, count_work, named, time_limits
from jaxrl.train.cost import estimate_cost

with_plugins = pytest.mark.skipif(
    not importlib.util.find_spec("jax_cuda13_plugin") or not importlib.util.find_spec("libtpu"),
    reason="needs the plugins of the extra accelerators; make test installs them",
)

BATTLES = ["smax/3m", *(pytest.param(f"smax/{name}", marks=pytest.mark.slow) for name in ("smacv2_5_units", "25m"))]

PROGRAM = """\
HloModule jit_f, is_scheduled=true

%fused_update (param_0: f32[50,8], param_1: f32[8], param_2: s32[]) -> f32[50,8] {
  %param_0 = f32[50,8]{1,0} parameter(0)
  %param_1 = f32[8]{0} parameter(1)
  %param_2 = s32[] parameter(2)
  %bitcast.1 = f32[1,8]{1,0} bitcast(%param_1)
  ROOT %dynamic-update-slice.1 = f32[50,8]{1,0} dynamic-update-slice(%param_0, %bitcast.1, %param_2, %param_2)
}

%fused_read (param_0: f32[50,8], param_1: s32[]) -> f32[8] {
  %param_0.1 = f32[50,8]{1,0} parameter(0)
  %param_1.1 = s32[] parameter(1)
  %dynamic-slice.1 = f32[1,8]{1,0} dynamic-slice(%param_0.1, %param_1.1, %param_1.1), dynamic_slice_sizes={1,8}
  ROOT %bitcast.2 = f32[8]{0} bitcast(%dynamic-slice.1)
}

%inner (arg.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %arg.1 = (s32[], f32[8]{0}) parameter(0)
  %get.1 = f32[8]{0} get-tuple-element(%arg.1), index=1
  %copy.1 = f32[8]{0} copy(%get.1)
  ROOT %tuple.1 = (s32[], f32[8]{0}) tuple(%get.1, %copy.1)
}

%inner_goes_on (arg.2: (s32[], f32[8])) -> pred[] {
  %arg.2 = (s32[], f32[8]{0}) parameter(0)
  %get.2 = s32[] get-tuple-element(%arg.2), index=0
  %three = s32[] constant(3)
  ROOT %lt.1 = pred[] compare(%get.2, %three), direction=LT
}

%yes (arg.3: f32[8]) -> f32[8] {
  %arg.3 = f32[8]{0} parameter(0)
  %copy.2 = f32[8]{0} copy(%arg.3)
  ROOT %copy.3 = f32[8]{0} copy(%copy.2)
}

%no (arg.4: f32[8]) -> f32[8] {
  ROOT %arg.4 = f32[8]{0} parameter(0)
}

%body (arg: (s32[], f32[50,8])) -> (s32[], f32[50,8]) {
  %arg = (s32[], f32[50,8]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %all = f32[50,8]{1,0} get-tuple-element(%arg), index=1
  %row = f32[8]{0} fusion(%all, %i), kind=kLoop, calls=%fused_read
  %sum = f32[8]{0} all-reduce(%row), replica_groups={{0,1}}, to_apply=%add
  %start = (s32[], f32[8]{0}) tuple(%i, %sum)
  %loop = (s32[], f32[8]{0}) while(%start), condition=%inner_goes_on, body=%inner
  %turned = f32[8]{0} get-tuple-element(%loop), index=1
  %chosen = f32[8]{0} conditional(%i, %turned, %turned), branch_computations={%no, %yes}
  %next = f32[50,8]{1,0} fusion(%all, %chosen, %i), kind=kLoop, calls=%fused_update
  ROOT %tuple = (s32[], f32[50,8]{1,0}) tuple(%i, %next)
}

ENTRY %main (x: f32[50,8]) -> f32[50,8] {
  %x = f32[50,8]{1,0} parameter(0)
  %zero = s32[] constant(0)
  %pair = (s32[], f32[50,8]{1,0}) tuple(%zero, %x)
  %while = (s32[], f32[50,8]{1,0}) while(%pair), condition=%any, body=%body, config={"known_trip_count":{"n":"50"}}
  ROOT %out = f32[50,8]{1,0} get-tuple-element(%while), index=1
}
"""


def test_a_program_is_counted_with_its_loops():
    """Per turn: a slice, an all-reduce, three copies in the inner loop, two more if the condition holds, an update."""
    work, loops = count_work(PROGRAM, "gpu")
    assert (work.kernels, work.kernels_at_least) == (50 * 8, 50 * 6)
    assert (work.turns, work.asked, work.unknown) == (50 + 50 * 3, 50, 0)
    assert (work.collectives, work.reduced) == (50, 50 * 32)
    assert work.written == 50 * 8 * 32  # a row each, not the array that it lies in
    assert work.read == 50 * (32 + 4 + 32 + 3 * 32 + 2 * 32 + 32 + 4)
    assert loops == ((50, 400),)
    assert count_work(PROGRAM, "tpu")[0].asked == 0


def test_a_loop_of_unknown_length_counts_once():
    text = PROGRAM.replace('"known_trip_count":{"n":"50"}', "")
    assert count_work(text, "gpu")[0]._replace(asked=0) == Work(
        **{name: value / 50 for name, value in count_work(PROGRAM, "gpu")[0]._asdict().items()}
    )._replace(asked=0, unknown=1, turns=4)


def test_matrix_products_are_counted_as_often_as_their_loop_turns():
    def nested(x: jax.Array) -> jax.Array:
        def outer(c: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jax.lax.scan(lambda d, _: (d @ c, None), c, length=3)[0], None

        return jax.lax.scan(outer, x, length=10)[0]

    assert count_flops(jax.make_jaxpr(nested)(jnp.ones((64, 64))).jaxpr) == 30 * 2 * 64**3
    image, kernel = jnp.ones((2, 8, 8, 3)), jnp.ones((3, 3, 3, 16))
    layers = jax.make_jaxpr(
        lambda x: jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    )(image)
    assert count_flops(layers.jaxpr) == 2 * (2 * 8 * 8 * 16) * (3 * 3 * 3)


def test_each_limit_is_arithmetic():
    work = Work(kernels=1000, asked=10, read=3e9, written=0.35e9, collectives=2, reduced=450e6, cycles=1.5e6)
    gpu = time_limits(work, 495e9, ACCELERATORS["h100"])
    assert gpu == pytest.approx({"launches": 2.6e-3, "bytes": 1e-3, "FLOPs": 1e-3, "links": 2.03e-3})
    assert time_limits(work, 0.0, ACCELERATORS["v5e"])["cycles"] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("h10:8", "Unknown accelerator 'h10:8'.*h100"),
        ("h100:4x4", "h100:8 means eight GPUs"),
        ("h100:0", "h100:8 means eight GPUs"),
        ("v5e:16", "v5e:4x4 means sixteen chips"),
        ("h100:12", "hosts of 8"),
    ],
)
def test_what_is_no_target(wrong: str, said: str):
    with pytest.raises(ValueError, match=said):
        named(wrong)


def test_plugins_that_are_missing_or_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch):
    def version(package: str) -> str:
        if package == "libtpu":
            raise importlib.metadata.PackageNotFoundError
        return "0.1"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ValueError, match=rf"pip install --no-deps jax-cuda13-plugin=={jax.__version__}"):
        accelerators.devices_of("h100")
    with pytest.raises(ValueError, match=r"needs libtpu: pip install 'jaxrl\[accelerators\]'"):
        accelerators.devices_of("v5e")


def test_a_program_is_traced_for_its_target():
    """And anew where it has been traced for another one."""
    traced = jax.jit(lambda x: x + (1 if target() == "cpu" else 2))
    assert int(traced(0)) == 1
    with compiling_for("gpu"):
        assert int(traced(0)) == 2
    assert int(traced(0)) == 1


@pytest.mark.parametrize("name", BATTLES)
def test_battles_are_the_same_on_accelerators(name: str):
    """Their steps are other programs there, which are run here on the CPU: sums in another order, nothing else."""
    alone: Any = jaxrl.make(name)
    env = jaxrl.VectorEnv(alone, 16)

    def play(key: jax.Array) -> Any:
        start, steps = jax.random.split(key)
        _, state = env.reset(start)
        acts = np.random.default_rng(0).integers(0, alone.action_space().n, (12, 16, alone.num_agents))

        def step(state: Any, now: Any) -> Any:
            key, action = now
            obs, state, reward, *_ = env.step(key, state, action)
            return state, (obs, reward)

        return jax.lax.scan(step, state, (jax.random.split(steps, 12), jnp.asarray(acts)))[1]

    here = jax.jit(play)(jax.random.key(0))
    with compiling_for("gpu"):
        there = jax.jit(play)(jax.random.key(0))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), here, there)


def played(name: str, num_envs: int = 64, steps: int = 4) -> tuple[Any, ...]:
    """A function that plays an environment at random, and the shapes of its arguments."""
    env = jaxrl.make(name)
    venv = jaxrl.VectorEnv(env, num_envs)

    def play(key: jax.Array, state: Any) -> Any:
        def step(loop: Any, key: jax.Array) -> Any:
            key_action, key_step = jax.random.split(key)
            keys = jax.random.split(key_action, (num_envs, env.num_agents) if hasattr(env, "num_agents") else num_envs)
            sample = jax.vmap(env.action_space().sample)
            action = (jax.vmap(sample) if hasattr(env, "num_agents") else sample)(keys)
            obs, state, reward, *_ = venv.step(key_step, loop, action)
            return state, (obs.sum(), reward.sum())

        return jax.lax.scan(step, state, jax.random.split(key, steps))

    key = jax.eval_shape(lambda: jax.random.key(0))
    return play, key, jax.eval_shape(venv.reset, key)[1]


@with_plugins
def test_a_battle_is_one_loop_on_a_gpu():
    work, loops = count_work(compile_for("h100", *played("smax/3m")).as_text(), "gpu")
    assert [turns for turns, _ in loops] == [4]  # neither ticks nor draws are loops of their own
    assert work.kernels / 4 < 70
    assert (work.asked, work.unknown) == (0, 0)


CONFIG = ppo.Config(hidden=(16,), num_envs=16, num_steps=4, num_minibatches=2, update_epochs=1, total_timesteps=64)


@with_plugins
@pytest.mark.parametrize("where", ["h100:8", "v5e:2x4"])
def test_an_update_reduces_gradients_and_gathers_nothing(where: str):
    """Three more for each minibatch have one number each: its samples, and mean and variance of its advantages."""
    plan = estimate_cost(ppo.make(CONFIG), CONFIG, target=where)
    assert plan.devices == plan.visible == 8
    assert plan.work
    assert plan.work.unknown == 0
    assert plan.work.collectives <= 2 * 4 + 4
    assert plan.work.reduced < 2 * 4 * plan.num_params + 400
    assert plan.limits["launches" if where[0] == "h" else "cycles"] > 0


@with_plugins
def test_the_command_says_what_a_target_would_do(capsys: pytest.CaptureFixture[str]):
    flags = ["--env", "CartPole-v1", "--num-envs", "8", "--num-steps", "4", "--num-minibatches", "1", "--hidden", "8"]
    main(["plan", "ppo", *flags, "--on", "h100"])
    said = capsys.readouterr().out
    assert "h100: compiled in" in said
    assert "1 of 1 (NVIDIA H100 80GB HBM3)" in said
    assert "kernels " in said
    main(["plan", "ppo", *flags, "--on", "h100", "--json"])
    (told,) = json.loads(capsys.readouterr().out)
    assert told["on"] == "h100"
    assert told["limit"] == ACCELERATORS["h100"].memory


@with_plugins
@pytest.mark.slow
@pytest.mark.parametrize("where", ["h100", "v5e"])
@pytest.mark.parametrize("name", jaxrl.list_envs())
def test_every_environment_compiles(name: str, where: str):
    compile_for(where, *played(name, num_envs=8))


@with_plugins
@pytest.mark.slow
@pytest.mark.parametrize("where", ["h100", "h100:8", "v5e", "v5e:2x4"])
@pytest.mark.parametrize("name", algos.names())
def test_every_update_compiles(name: str, where: str):
    module = algos.load(name)
    estimate_cost(module.make(module.Config()), module.Config(), target=where)


@with_plugins
@pytest.mark.slow
@pytest.mark.parametrize(("where", "count"), [("v5e:16x16", 256), ("h100:64", 64)])
def test_more_devices_need_less_memory_each(where: str, count: int):
    preset = ippo.PRESETS["3m"]
    fields = {name: getattr(preset, name) for name in ("num_steps", "num_minibatches", "update_epochs")}
    config = ippo.Config(env="smax/3m", num_envs=65_536, num_shards=256, total_timesteps=10**8, **fields)
    many = estimate_cost(ippo.make(config), config, target=where)
    few = estimate_cost(ippo.make(config), config, target=where.replace(str(count), "8").replace("16x16", "2x4"))
    assert many.devices == count
    assert many.work
    assert few.work
    assert many.work.collectives == few.work.collectives
    assert many.memory < few.memory / (count / 8) * 2
