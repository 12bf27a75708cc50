"""A run is played in another environment if its networks fit."""

from pathlib import Path

import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo, vdn
from jaxrl.cli.runs import evaluate_run, play, render_run
from jaxrl.train.folder.load import Run
from jaxrl.train.transfer import in_env, what_fits


def trained(folder: Path, env: str = "smax/3m?max_steps=12", num_seeds: int = 1, **fields: object) -> Run:
    config = ippo.Config(env=env, num_envs=4, num_steps=8, total_timesteps=32, hidden=(8,), **fields)  # pyright: ignore[reportArgumentType]
    jaxrl.fit(ippo.make(config), config, folder, num_seeds=num_seeds, quiet=True, pictures=False, eval_episodes=4)
    return jaxrl.load(folder)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two seeds with networks of units."""
    return trained(tmp_path_factory.mktemp("units") / "run", num_seeds=2, torso="entities")


def test_a_policy_of_three_units_leads_five(units: Run):
    there = in_env(units, "smax/5m_vs_6m?max_steps=12")
    assert there.env.observation_space() != units.env.observation_space()
    played = play(there, episodes=4)
    assert played.returns.shape[:2] == (2, 4)
    assert played.lengths.max() <= 12
    assert not np.array_equal(played.returns[0], played.returns[1]), "both seeds play alike"


def test_in_its_own_environment_it_plays_as_ever(units: Run):
    own, again = (play(run, episodes=4).returns for run in (units, in_env(units, units.config.env)))
    np.testing.assert_array_equal(own, again)


def test_a_seed_by_itself_plays_what_it_plays_among_the_others(units: Run):
    one = jaxrl.load(f"{units.folder.path}:1")
    together, alone = (play(run, episodes=8, greedy=False).returns for run in (units, one))
    np.testing.assert_allclose(alone, together[1], rtol=1e-5)
    assert not np.allclose(alone, play(one, episodes=8, seed=1, greedy=False).returns), "all episodes are alike"


def test_the_commands_play_where_they_are_told(units: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run, five = str(units.folder.path), "smax/5m_vs_6m?max_steps=12"
    assert evaluate_run([run, "--env", five, "--episodes", "4"]) == 0
    assert f"ippo on {five}, 4 greedy episodes" in capsys.readouterr().out
    own, other = tmp_path / "own.html", tmp_path / "other.html"
    assert render_run([run, "--out", str(own)]) == render_run([run, "--env", five, "--out", str(other)]) == 0
    assert own.read_text() != other.read_text()


def test_a_film_of_another_environment_needs_a_name_of_its_own(units: Run):
    with pytest.raises(ValueError, match=r"add --out smax_8m\.gif"):
        render_run([str(units.folder.path), "--env", "smax/8m"])
    assert not list(units.folder.path.glob("*.gif"))


def test_flat_networks_fit_one_size(tmp_path: Path):
    run = trained(tmp_path / "run", "mpe/simple_spread?max_steps=12", torso="flat")
    with pytest.raises(ValueError, match=r"does not fit: params.*shape of observations is.*--torso entities"):
        in_env(run, "mpe/simple_spread?num_agents=4")


def test_another_algorithm_is_named_first_and_fields_that_only_one_has_are_not(units: Run):
    """No value of those would let it fit."""
    said = what_fits(units, vdn.Config(env=units.config.env, hidden=(9,), torso="entities"))
    assert "networks: the algorithm is ippo there and vdn here, " in said
    assert "hidden is [8] there and [9] here" in said
    assert "left out" not in said
