"""What is said before a run: counts that can be checked by hand, and a polite no to what cannot fit."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import toy_algorithm as toy

from jaxrl.algos import dqn, ppo
from jaxrl.cli import main
from jaxrl.train.cost import CostEstimate, compile_rollout, device_memory, estimate_cost, rollout_share
from jaxrl.train.fit import fit
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.programs import compile_programs

CONFIG = ppo.Config(env="probe/constant_reward", hidden=(8,), num_envs=8, num_steps=4, total_timesteps=320)
TOY = toy.Config(work=128)  # an optimisation that takes its time: a hundred products of matrices
REPLAY: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "learning_starts": 32, "batch_size": 8, "hidden": (8,)}
PLAN = CostEstimate(
    num_params=1000,
    param_bytes=4000,
    state_bytes=9000,
    replay_bytes=0,
    flops=2e9,
    devices=1,
    visible=1,
    memory=10**6,
    limit=10**9,
    kind="cpu",
)


@pytest.fixture(scope="module")
def plan() -> CostEstimate:
    config = toy.Config(work=32)
    return estimate_cost(toy.make(config), config)


def test_a_run_is_known_before_it_begins(plan: CostEstimate):
    assert plan.num_params == 4
    assert plan.param_bytes == 16
    assert plan.flops >= 100 * 2 * 32**3  # a hundred products of matrices
    assert plan.memory >= plan.state_bytes > plan.param_bytes
    assert plan.limit == device_memory()
    assert plan.fits


@pytest.mark.slow
def test_ppo_costs_what_its_layers_say():
    plan = estimate_cost(ppo.make(CONFIG), CONFIG)
    state = jax.eval_shape(ppo.make(CONFIG).init, jax.random.key(0))
    assert plan.num_params == sum(leaf.size for leaf in jax.tree.leaves(state.params))
    assert plan.param_bytes == 4 * plan.num_params
    assert plan.memory > plan.state_bytes > plan.param_bytes
    # Forward and backward take about six operations for each parameter and sample; one of the layers is tiny.
    samples = CONFIG.steps_per_update * CONFIG.update_epochs
    assert 3 * plan.num_params * samples < plan.flops < 9 * plan.num_params * samples


@pytest.mark.slow  # in tests/algos/test_dqn.py no update copies the buffer, and plan counts it
@pytest.mark.parametrize("members", [1, 2])
def test_an_update_costs_the_same_however_large_its_replay_buffer(members: int) -> None:
    """It reads a minibatch and writes a rollout; the memory of the buffer is counted all the same."""
    small, large = (dqn.Config(**REPLAY, buffer_size=size) for size in (1_000, 10_000))
    with jax.debug_key_reuse(False):  # it is wrong about keys that are split inside a vmapped scan
        plans = [estimate_cost(dqn.make(config), config, members) for config in (small, large)]
    assert plans[1].flops == plans[0].flops
    step = members * 30  # an observation of 4 floats, an action, a reward, a mask of 2 actions, 4 flags
    assert plans[1].replay_bytes - plans[0].replay_bytes == step * (10_000 - 63 * 16)
    assert plans[1].memory > plans[1].replay_bytes / plans[1].devices


def test_what_fits_is_planned(capsys, monkeypatch, plan):
    monkeypatch.setattr("jaxrl.train.cost.estimate_cost", lambda *_: plan)
    main(["plan", "ppo", "--env", "probe/constant_reward"])
    text = capsys.readouterr().out
    assert f"{plan.num_params:,}" in text
    assert ": fits" in text
    main(["plan", "ppo", "--env", "probe/constant_reward", "--json"])
    (told,) = json.loads(capsys.readouterr().out)
    assert told["on"] is None
    assert (told["num_params"], told["memory"]) == (plan.num_params, plan.memory)


def test_devices_that_are_left_over_are_named(capsys, monkeypatch):
    plan = dataclasses.replace(PLAN, devices=8, visible=16)
    monkeypatch.setattr("jaxrl.train.cost.estimate_cost", lambda *_: plan)
    main(["plan", "ppo", "--env", "probe/constant_reward"])
    assert "8 shards of environments and 1 seeds do not split over all" in capsys.readouterr().out


def test_what_cannot_fit_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(
        "jaxrl.train.cost.estimate_cost", lambda *_: PLAN.__class__(**{**vars(PLAN), "limit": 5 * 10**5})
    )
    with pytest.raises(SystemExit) as ended:
        main(["plan", "ppo", "--env", "probe/constant_reward", "--num-envs", "64", "--num-seeds", "4"])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert "does not fit" in said.out
    assert "--num-envs 24 (of 64)" in said.err
    assert "--num-seeds 1 (of 4)" in said.err


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        pytest.param("dqn --num-steps 7 --buffer-size 1e9 --memory-gb 0.5", "--buffer-size", marks=pytest.mark.slow),
        ("ppo --num-envs 512 --memory-gb 0.003", "--num-envs"),
        pytest.param("ppo --num-envs 512 --memory-gb 0.003", "--num-steps", marks=pytest.mark.slow),
    ],
)
def test_what_is_advised_fits(capsys: pytest.CaptureFixture[str], command: str, flag: str) -> None:
    """And twice as much would not: a tenth of the memory is left, and not half of it."""
    asked = ["plan", *command.split(), "--env", "classic/cartpole"]
    with pytest.raises(SystemExit):
        main(asked)
    advice = re.search(rf"{flag} (\d+) \(of", capsys.readouterr().err)
    assert advice
    main([*asked, flag, advice[1]])
    used, limit = re.findall(r"([\d.]+) MB of ([\d.]+) MB: fits", capsys.readouterr().out)[0]
    assert 0.5 * float(limit) < float(used) <= 0.9 * float(limit)


@pytest.mark.parametrize("wrong", [["--memory-gb", "0"], ["--num-seeds", "0"]])
def test_numbers_without_sense(capsys, wrong):
    with pytest.raises(SystemExit) as ended:
        main(["plan", "ppo", *wrong])
    assert ended.value.code == 2
    assert "got" in capsys.readouterr().err


@pytest.fixture(scope="module")
def programs() -> Any:
    return compile_programs(toy.make(TOY), TOY, episodes=2)


def test_the_rollout_is_there_and_the_optimisation_is_not(programs: Any) -> None:
    rollout = compile_rollout(toy.make(TOY), programs.state_shape, 1, None)
    _, metrics = programs.chunk(programs.init(), 1)
    alone = rollout(programs.init())
    assert set(alone) == {"episodes", "return_sum", "length_sum", "won_sum"}
    for name, value in alone.items():
        np.testing.assert_array_equal(value, metrics[name][0])
    assert "128,128" not in rollout.as_text()
    whole = jax.jit(toy.make(TOY).update).lower(programs.state_shape).compile()
    assert "128,128" in (whole.as_text() or "")


def test_its_share_is_measured(programs: Any) -> None:
    assert 0.0 < rollout_share(toy.make(TOY), programs, 1, None) < 0.5


def test_what_learns_from_a_buffer_is_measured_while_it_learns() -> None:
    """Ten rollouts fill the buffer, and then each one is followed by many gradient steps."""
    config = dqn.Config(
        num_envs=4, num_steps=4, total_timesteps=16 * 32, learning_starts=160, gradient_steps=64, batch_size=128
    )
    algo = dqn.make(config)
    programs = compile_programs(algo, config, episodes=2)
    assert config.updates_before_learning == 10
    state, metrics = programs.chunk(programs.init(), 11)
    assert np.isfinite(metrics["losses"]["value"][10])
    assert int(state.update) == 11
    assert rollout_share(algo, programs, 1, None, before=10) < 0.5 * rollout_share(algo, programs, 1, None)


def test_run_json_and_the_dashboard_tell_it(tmp_path: Path) -> None:
    fit(toy.make(TOY), TOY, tmp_path, num_seeds=2, time_split=True, eval_episodes=2, pictures=False, quiet=True)
    assert 0.0 < RunFolder(tmp_path).read()["rollout_share"] < 1.0
