"""Several devices: the same numbers as one, one all-reduce of gradients a minibatch, checkpoints for any count."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl.algos import ppo
from jaxrl.rl.devices import shard_keys
from jaxrl.train.devices.mesh import MeshShape, choose_mesh


def on_8_devices(*arguments: str, script: str = "on_devices.py") -> dict:
    """What a script prints, run by itself: the number of devices is fixed when JAX starts."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(Path(__file__).parent / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_equal(name: str, counts: list[int]) -> dict:
    found = on_8_devices("train", name, *map(str, counts))
    one = found[str(counts[0])]
    for count in counts[1:]:
        several = found[str(count)]
        np.testing.assert_allclose(several["params"], one["params"], rtol=1e-5, atol=1e-5)
        for alone, together in zip(one["losses"], several["losses"], strict=True):
            # Among them the gradient's norm: Adam would hide gradients that are `count` times too large.
            np.testing.assert_allclose(list(together.values()), list(alone.values()), rtol=1e-3, atol=1e-5)
        # The program has the minibatch loop's body once, with one all-reduce of gradients for each optimiser.
        assert len(several["reduced"]) == (2 if name in ("sac", "td3") else 1)
        for moved in several["reduced"]:
            assert all(size <= 4 for size in moved[:-1])  # and for the rest a few scalars
            assert len(moved) <= 2 or not name.startswith(("ppo", "ippo"))  # theirs: count and moments of advantages
    return found


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        pytest.param("ppo", [1, 8], marks=pytest.mark.slow),
        ("ppo own loss", [1, 4]),
        ("ippo gru", [1, 4]),
        ("ippo accel", [1, 4]),
        pytest.param("ippo plr", [1, 2, 4, 8], marks=pytest.mark.slow),
        pytest.param("ippo sfl", [1, 2, 4, 8], marks=pytest.mark.slow),
        pytest.param("mappo", [1, 2], marks=pytest.mark.slow),
        ("mat", [1, 4]),
        ("bc", [1, 4]),
        pytest.param("dqn recorded", [1, 4], marks=pytest.mark.slow),
        pytest.param("pqn_vdn gru", [1, 4], marks=pytest.mark.slow),
        pytest.param("dqn", [1, 4], marks=pytest.mark.slow),
        pytest.param("sac", [1, 4], marks=pytest.mark.slow),
    ],
)
def test_devices_do_not_change_what_is_learned(name, counts):
    found = check_equal(name, counts)
    if name == "ppo":  # whose observations show what was done
        assert [found[str(count)]["different_shards"] for count in counts] == [8, 8]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "ppo",
        "ppo worlds",
        "ppo gru",
        "ippo",
        "ippo gru",
        "ippo mpe",
        "mappo",
        "mappo gru",
        "mat",
        "bc",
        "pqn",
        "pqn_vdn gru",
        "dqn",
        "dqn gru",
        "dqn recorded",
        "qmix",
        "sac",
        "td3",
        "ppo own loss",
        "ippo own loss",
        "dqn own loss",
    ],
)
def test_1_2_4_and_8_devices_learn_the_same(name):
    check_equal(name, [1, 2, 4, 8])


@pytest.mark.slow
def test_a_checkpoint_of_8_devices_goes_on_with_fewer():
    found = on_8_devices("restored")
    for count in "421":
        np.testing.assert_allclose(found[count], found["8"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["ppo", pytest.param("league", marks=pytest.mark.slow)])
def test_seeds_and_environments_are_spread_at_once(name):
    found = on_8_devices("members", name)
    np.testing.assert_allclose(found["8"], found["1"], rtol=1e-5, atol=1e-5)


def test_an_algorithm_that_is_wrong_on_several_devices_is_refused():
    said = on_8_devices(script="own_states.py")
    assert said["none"] == "240.0"  # 0 + 1 + … + 15, twice
    assert "params of State differ between devices" in said["gradient"]
    assert "the metrics of State differ between devices" in said["metrics"]
    assert "Uneven.tally belongs to the environments by its role, and 8 devices cannot split" in said["uneven"]
    assert "fields of State that begin with their axis have to be declared PerEnvironment" in said["undeclared"]
    assert said["part"].startswith("update got State.tally as float32[16] and returned it as float32[2]; return it as")
    assert "have to be declared PerEnvironment" in said["part"]
    assert said["bug"].startswith("a bug")
    assert "PerEnvironment" not in said["bug"]  # which has nothing to do with devices


def test_one_device_needs_no_mesh():
    assert choose_mesh(ppo.Config(), 4) is None


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (MeshShape(data=3), "mesh.data=3 does not divide the 8 shards; use one of 1, 2, 4, 8"),
        (MeshShape(member=2), "mesh.member=2 cannot split 1 member; use mesh.member=1"),
        (MeshShape(data=4), "needs 4 devices, but only 1 are visible.*device_count=4"),
    ],
)
def test_what_cannot_be_spread_is_explained(shape, message):
    with pytest.raises(ValueError, match=message):
        choose_mesh(ppo.Config(), 1, shape)


def test_every_shard_has_random_numbers_of_its_own():
    following, keys = shard_keys(jax.random.key(0), 8, 3)
    assert keys.shape == (3, 8)
    every = [following, *keys.reshape(-1)]
    assert len({tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in every}) == 25
