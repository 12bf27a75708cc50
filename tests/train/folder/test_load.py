"""`jaxrl.load`: one line gives a run's config, state and policy, of one member out of several, the last or the best."""

import dataclasses
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import assert_same_state, run

import jaxrl
from jaxrl.errors import CheckpointError
from jaxrl.train.members import member_of

CONFIG = toy.Config(act_from=0.0)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "alone"
    run(toy.make(CONFIG), CONFIG, place)
    return place


def test_it_holds_config_state_and_policy(alone: Path) -> None:
    loaded = jaxrl.load(alone)
    assert (loaded.config, loaded.num_members) == (CONFIG, 1)
    assert repr(loaded) == f"Run: toy_algorithm on {CONFIG.env}, seed 0, finished, in {alone}"
    assert loaded.state is loaded.state
    assert int(loaded.state.update) == CONFIG.num_updates
    assert loaded.policy is loaded.policy
    assert loaded.policy.predict(np.ones(1)) == 1
    assert set(loaded.policy.params["params"]) == {"theta"}
    assert loaded.member(0) is loaded.member() is loaded
    with pytest.raises(ValueError, match=f"member must be from 0 to 0 in {re.escape(str(alone))}, got 1"):
        loaded.member(1)


def test_what_is_first_asked_for_inside_a_compiled_function_is_there_outside(alone: Path) -> None:
    loaded = jaxrl.load(alone)
    inside = jax.jit(lambda: (loaded.state.update + 0, loaded.policy(jnp.ones(1))[0]))()
    assert int(inside[0]) == int(loaded.state.update) == CONFIG.num_updates
    assert int(inside[1]) == loaded.policy.predict(np.ones(1)) == 1


def test_a_result_has_the_same_policy(alone: Path) -> None:
    policy = run(toy.make(CONFIG), CONFIG).policy
    assert_same_state(policy.params, jaxrl.load(alone).policy.params)


def test_a_member_is_a_run_of_its_own(tmp_path: Path) -> None:
    result = run(toy.make(CONFIG), CONFIG, tmp_path / "run", members=[{"seed": 5}, {"seed": 7}])
    loaded = jaxrl.load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"holds 2 seeds, .* run.member\(0\).policy, or the best by run.member\(\)"):
        loaded.policy  # noqa: B018
    with pytest.raises(ValueError, match="holds 2 members, and each has its own policy"):
        result.policy  # noqa: B018
    second = loaded.member(1)
    assert (", 2 members, " in repr(loaded), ", seed 7, " in repr(second)) == (True, True)
    assert (second.config.seed, second.num_members, second.index) == (7, 1, 1)
    assert_same_state(second.state, member_of(result.state, 1))
    assert second.policy.predict(np.ones((3, 1))).tolist() == [1, 1, 1]
    assert second.member() is second.member(1) is second
    with pytest.raises(ValueError, match="run is named with :1 and with member=0; drop one"):
        second.member(0)
    assert second.algo is loaded.algo  # which differs in nothing but the seed
    with pytest.raises(ValueError, match=f"member must be from 0 to 1 in {re.escape(str(loaded.folder.path))}, got -1"):
        loaded.member(-1)
    seeds = run(toy.make(CONFIG), CONFIG, tmp_path / "seeds", num_seeds=2)
    assert jaxrl.load(tmp_path / "seeds").member(1).config.seed == 1
    assert seeds.evaluation is not None
    best = int(np.lexsort((seeds.evaluation["return_mean"], seeds.evaluation["win_rate"]))[-1])
    assert jaxrl.load(tmp_path / "seeds").member().index == best


def test_the_best_state_is_asked_for_by_name(tmp_path: Path) -> None:
    """The toy wins from update 5 on, and the first of equal scores is kept."""
    config = toy.Config(act_from=5.0)
    run(toy.make(config), config, tmp_path / "run", eval_every=5)
    best = jaxrl.load(tmp_path / "run", best=True)
    assert (int(best.state.update), int(jaxrl.load(tmp_path / "run").state.update)) == (5, 10)
    assert best.policy.predict(np.ones(1)) == 1


def test_the_best_member_by_a_forged_evaluation_is_a_sentence(tmp_path: Path) -> None:
    run(toy.make(CONFIG), CONFIG, tmp_path / "run", num_seeds=2)
    loaded = jaxrl.load(tmp_path / "run")
    forged = loaded.checkpoint()._replace(extra={"evaluation": {"return_mean": 1.0}})
    with pytest.raises(CheckpointError, match="run was changed by hand: return_mean has 1 numbers and the run 2 seeds"):
        dataclasses.replace(loaded, checkpoint=lambda: forged).member()
