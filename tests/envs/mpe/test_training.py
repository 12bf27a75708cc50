"""Every scenario can be trained as it is: cooperative, competitive, mixed; roles learn for themselves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo, mappo
from jaxrl.envs.mpe import SCENARIOS
from jaxrl.train.evaluate import evaluate

SMALL = {"num_envs": 8, "num_steps": 26, "total_timesteps": 2 * 8 * 26, "hidden": (8,)}  # an episode has 25 steps


@pytest.fixture
def _forgotten():
    """Forget compiled programs: each holds some thousand memory maps, of which Linux grants a process 65,530."""
    yield
    jax.clear_caches()


def made(algorithm, name, kind="discrete", **options):
    config = algorithm.Config(env=f"mpe/{name}?action_type={kind}", **SMALL, **options)
    return config, algorithm.make(config)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_role_has_parameters_of_its_own(name):
    several = len(jaxrl.make(f"mpe/{name}").agents) > 1  # one agent has nobody to share with
    own, shared = (
        jax.eval_shape(made(ippo, name, **options)[1].init, jax.random.key(0)).params
        for options in ({}, {"sharing": "all"} if several else {})
    )
    roles = len(set(jaxrl.make(f"mpe/{name}").roles))
    lead = (roles,) if roles > 1 else ()
    assert jax.tree.map(lambda leaf: leaf.shape, own) == jax.tree.map(lambda leaf: lead + leaf.shape, shared)


@pytest.mark.slow
@pytest.mark.usefixtures("_forgotten")
@pytest.mark.parametrize("algorithm", [ippo, mappo])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_is_trained_without_special_flags(name, kind, algorithm):
    config, algo = made(algorithm, name, kind)
    state = first = algo.init(jax.random.key(0))
    update = jax.jit(algo.update)
    metrics = {}
    for _ in range(2):
        state, metrics = update(state)
        assert all(np.isfinite(value) for value in metrics["losses"].values())
        assert metrics["losses"]["grad_norm"] > 0
    moved = jax.tree.map(lambda a, b: np.asarray(a != b).any(), state.params, first.params)
    assert all(jax.tree.leaves(moved))
    kinds = config.make_env().kinds
    assert set(metrics.get("return_sums", {})) == (set(kinds) if len(kinds) > 1 else set())
    played = evaluate(algo, config.make_env(), state, jax.random.key(1), 4)
    np.testing.assert_array_equal(played.lengths, np.full(4, 25))
    assert np.isfinite(played.returns).all()


@pytest.mark.slow
def test_on_two_devices_as_on_one_with_returns_of_each_kind(tmp_path):
    """A state with empty arrays, as simple_tag's (nobody speaks there), is spread, saved and told of as any other."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(Path(__file__).parent / "on_two_devices.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(found["2"]["params"], found["1"]["params"], rtol=1e-4, atol=1e-5)

    rows = [json.loads(line) for line in (tmp_path / "2" / "metrics.jsonl").read_text().splitlines()]
    assert [row["episodes"] for row in rows] == [8, 8]
    for told in (*rows, found["2"]["evaluation"], found["1"]["evaluation"]):
        returns = told["returns"]
        assert set(returns) == {"adversary", "agent"}
        assert told["return_mean"] == pytest.approx((3 * returns["adversary"] + returns["agent"]) / 4, abs=1e-4)
        assert returns["adversary"] >= 0  # touches; the good agent pays for them and for leaving the field
        assert returns["agent"] <= -returns["adversary"] + 1e-4
