"""The rollout alone, out of the whole update."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import toy_algorithm as toy

from jaxrl.algos import dqn
from jaxrl.train.cost.time_split import compile_rollout, rollout_share
from jaxrl.train.fit import fit
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.programs import compile_programs

CONFIG = toy.Config(work=128)  # an optimisation that takes its time: a hundred products of matrices


@pytest.fixture(scope="module")
def programs() -> Any:
    return compile_programs(toy.make(CONFIG), CONFIG, episodes=2)


def test_the_rollout_is_there_and_the_optimisation_is_not(programs: Any) -> None:
    rollout = compile_rollout(toy.make(CONFIG), programs.state_shape, 1, None)
    _, metrics = programs.chunk(programs.init(), 1)
    alone = rollout(programs.init())
    assert set(alone) == {"episodes", "return_sum", "length_sum", "won_sum"}
    for name, value in alone.items():
        np.testing.assert_array_equal(value, metrics[name][0])
    assert "128,128" not in rollout.as_text()
    whole = jax.jit(toy.make(CONFIG).update).lower(programs.state_shape).compile()
    assert "128,128" in (whole.as_text() or "")


def test_its_share_is_measured(programs: Any) -> None:
    assert 0.0 < rollout_share(toy.make(CONFIG), programs, 1, None) < 0.5


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
    fit(toy.make(CONFIG), CONFIG, tmp_path, num_seeds=2, time_split=True, eval_episodes=2, pictures=False, quiet=True)
    assert 0.0 < RunFolder(tmp_path).read()["rollout_share"] < 1.0
