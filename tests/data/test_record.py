"""Recording a policy: the steps are those of the environment, and other libraries read them."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ppo
from jaxrl.cli import main
from jaxrl.data import Dataset, load, record
from jaxrl.data.convert import to_minari, to_parquet, to_vault
from jaxrl.play.session import Session

SMALL: dict[str, Any] = {"num_envs": 4, "num_steps": 4, "num_minibatches": 1, "total_timesteps": 64, "hidden": (4,)}


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """An untrained policy, whose episodes are short, with a limit that cuts some."""
    folder, env = tmp_path_factory.mktemp("data") / "d", "classic/cartpole?max_steps=20"
    config = ppo.Config(env=env, **SMALL)
    algo = ppo.make(config)
    told: list[int] = []
    play = partial(record, algo, config.make_env(), algo.init(jax.random.key(0)))
    assert play(jax.random.key(1), folder, 1501, num_envs=5, progress=told.append) == 1505
    assert told == [1280, 1505]
    return load(folder)


def test_steps_obey_the_physics(cartpole: Dataset) -> None:
    """The position moves by its speed times 0.02 s, up to the last observation of an episode."""
    obs, steps = cartpole.steps["obs"], cartpole.steps
    assert cartpole.env == "classic/cartpole?max_steps=20"
    done = steps["terminated"] | steps["truncated"]
    led_to = np.concatenate([obs[1:], np.full_like(obs[:1], np.nan)])
    led_to[tuple(cartpole.final_index.T)] = cartpole.final_observation
    known = ~np.isnan(led_to[..., 0])
    np.testing.assert_allclose((led_to - obs)[known][:, 0], 0.02 * obs[known][:, 1], atol=1e-6)
    np.testing.assert_array_equal(steps["reset"][1:], done[:-1])
    assert steps["reset"][0].all()
    assert steps["terminated"].any()
    assert steps["truncated"].any()


def test_episodes_end_where_the_environment_ends_them(cartpole: Dataset) -> None:
    for episode in cartpole.episodes():
        length = len(episode.steps["reward"])
        assert episode.steps["reset"].tolist() == [True] + [False] * (length - 1)
        assert not episode.steps["truncated"][-1] or length == 20
        assert episode.episode_return == length
        if episode.final_observation is not None and episode.steps["terminated"][-1]:
            x, _, angle, _ = episode.final_observation
            assert abs(x) > 2.4 or abs(angle) > np.deg2rad(12)


def test_minari_reads_the_episodes(cartpole: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert to_minari(cartpole, "cartpole/test-v0").endswith("minari.load_dataset('cartpole/test-v0')")
    theirs = list(minari.load_dataset("cartpole/test-v0").iterate_episodes())
    ours = [episode for episode in cartpole.episodes() if episode.final_observation is not None]
    assert len(theirs) == len(ours)
    for their, our in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(their.observations, [*our.steps["obs"], our.final_observation])
        np.testing.assert_array_equal(their.actions, our.steps["action"])
        np.testing.assert_array_equal(their.terminations, our.steps["terminated"])
        np.testing.assert_array_equal(their.truncations, our.steps["truncated"])
        np.testing.assert_array_equal(their.rewards, our.steps["reward"])


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A person's game, kept by `jaxrl play --record`."""
    from jaxrl.data import Writer

    session = Session(jaxrl.make("overcooked/cramped_room?max_steps=4"), seed=3)
    with pytest.raises(ValueError, match="Nothing has been played yet"):
        session.steps()
    while not session.done:
        session.step(session.num_steps)
    path = tmp_path_factory.mktemp("data") / "games"
    Writer(path, "overcooked/cramped_room?max_steps=4", 1, {"player": "a person"}).write(session.steps())
    return load(path)


def test_the_game_of_a_person_is_recorded(game: Dataset) -> None:
    assert game.steps["action"][:, 0, 0].tolist() == [0, 1, 2, 3]
    assert game.steps["reset"][:, 0].tolist() == [True, False, False, False]
    assert game.steps["truncated"][:, 0].tolist() == [False, False, False, True]
    (episode,) = game.episodes()
    assert episode.final_observation is not None
    assert episode.final_observation.shape == game.steps["obs"].shape[2:]


def test_flashbax_reads_a_vault(game: Dataset, tmp_path: Path) -> None:
    vault = pytest.importorskip("flashbax.vault")
    with pytest.raises(ValueError, match=r"ends in .vlt"):
        to_vault(game, str(tmp_path / "steps"))
    to_vault(game, str(tmp_path / "steps.vlt"))
    read = vault.Vault("steps.vlt", rel_dir=str(tmp_path), vault_uid="Recorded").read().experience
    steps = {name: leaf.swapaxes(0, 1) for name, leaf in game.steps.items()}  # the only environment in front
    np.testing.assert_array_equal(read["observations"], steps["obs"])
    np.testing.assert_array_equal(read["actions"], steps["action"])
    np.testing.assert_array_equal(read["infos"]["legals"], steps["action_mask"])
    np.testing.assert_array_equal(read["truncations"], [[[False] * 2] * 3 + [[True] * 2]])


def test_a_table_has_a_row_for_each_agent(game: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pandas as pd

    to_parquet(game, str(tmp_path / "steps.parquet"))
    table = pd.read_parquet(tmp_path / "steps.parquet")
    assert table["action"].tolist() == game.steps["action"].reshape(-1).tolist()
    assert table["agent"].tolist() == [0, 1] * 4
    assert table["truncated"].tolist() == [False] * 6 + [True] * 2
    np.testing.assert_array_equal(np.stack(table["obs"].tolist()), game.steps["obs"].reshape(8, -1))


def test_teams_are_not_for_minari(game: Dataset) -> None:
    pytest.importorskip("minari")
    with pytest.raises(ValueError, match=r"has several agents, and Minari's episodes have one; use --to vault"):
        to_minari(game, "kitchen/test-v0")


def test_a_dataset_is_described(game: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    main(["data", str(game.path)])
    said = capsys.readouterr().out
    assert "4 steps of overcooked/cramped_room?max_steps=4 in 1 environments" in said
    assert '{"player": "a person"}' in said
    assert "1 episodes, and 0 that were cut" in said
    assert "length 4.0" in said
