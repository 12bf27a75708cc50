"""Actors and critics of continuous actions find the right value and action of every probe task that applies to them."""

from typing import Any

import pytest
from probed import check, greedy_score, train

import jaxrl
from jaxrl import registry
from jaxrl.envs.probe import single
from jaxrl.spaces import Box

FIELDS: dict[str, Any] = {
    "num_envs": 8,
    "num_steps": 8,
    "total_timesteps": 64 * 100,
    "buffer_size": 64 * 40,  # it forgets what was learned from wrong values
    "learning_starts": 256,
    "batch_size": 64,
    "gradient_steps": 16,
    "lr": 1e-2,
    "tau": 0.1,
    "hidden": (32,),
}
C51 = {"value_loss": "c51", "value_range": (0.0, 4.0)}
PROBES = {
    "continuous_action": single.ContinuousAction,
    "constant_reward": single.ConstantReward,
    "observation_reward": single.ObservationReward,
    "discounting": single.Discounting,
    "truncation": single.Truncation,
}


class Boxed:
    """A probe whose actions, which have no effect, lie in a box."""

    def action_space(self, params: Any = None) -> Box:
        return Box(-1.0, 1.0, (1,))


@pytest.fixture(autouse=True)
def boxed(monkeypatch):
    """`probe/boxed_truncation` and the like, until the test ends."""
    jaxrl.list_envs()
    for table in ("_FACTORIES", "_FIXED", "_ALIASES"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    for name, kind in PROBES.items():
        if name != "continuous_action":
            jaxrl.register(f"probe/boxed_{name}", type(f"Boxed{kind.__name__}", (Boxed, kind), {}))


@pytest.mark.parametrize(
    ("algorithm", "probe", "fields"),
    [
        ("sac", "continuous_action", {}),
        pytest.param("td3", "continuous_action", {}, marks=pytest.mark.slow),
        pytest.param("sac", "boxed_truncation", {"n_step": 3}, marks=pytest.mark.slow),  # as an end it would be 1.61
        ("td3", "boxed_discounting", {"n_step": 3}),
        pytest.param(
            *("sac", "boxed_discounting", {"value_loss": "c51", "value_range": (-2.0, 2.0), "n_step": 2}),
            marks=pytest.mark.slow,
        ),
        pytest.param("td3", "boxed_truncation", C51 | {"n_step": 3}, marks=pytest.mark.slow),
        pytest.param("td3", "continuous_action", C51, marks=pytest.mark.slow),
        pytest.param("sac", "boxed_truncation", C51 | {"value_loss": "hlgauss"}, marks=pytest.mark.slow),
        *(
            pytest.param(algorithm, f"boxed_{probe}", {"n_step": n}, marks=pytest.mark.slow)
            for algorithm in ("sac", "td3")
            for probe in PROBES
            for n in (1, 2)
            if probe != "continuous_action"
        ),
    ],
)
def test_values_and_actions(algorithm, probe, fields):
    solution, algo, state = train(algorithm, probe, **FIELDS | fields)
    check(solution, algo, state, solution.cases)


UNIFORM_AT_FIRST = {"total_timesteps": 64 * 50, "buffer_size": 64 * 50, "learning_starts": 64 * 46}


@pytest.mark.parametrize(
    ("algorithm", "joint"),
    [("td3", True), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("td3", False), ("sac", True)))],
)
def test_a_joint_critic_knows_what_a_mate_adds_now(algorithm, joint):
    """In the buffer mates act at random, so agents whose critics see one action do all the work themselves, both."""
    fields = FIELDS | UNIFORM_AT_FIRST | {"gradient_steps": 256, "joint_critic": joint}
    solution, algo, state = train(algorithm, "lift", **fields)
    score = greedy_score(algo, state)
    assert score > 0.9 * solution.score if joint else score < 0.5
    if algorithm == "sac":  # TD3's actions are as good and less exact
        check(solution, algo, state, solution.cases)
