"""The best checkpoint holds the parameters that earned the best evaluation."""

import jax
import jax.numpy as jnp
import pytest
import toy_algorithm as toy

import jaxrl
from jaxrl.train.folder.best import keep_best
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.metrics import score


def test_a_win_rate_counts_before_a_return_and_seeds_are_averaged():
    assert score({"return_mean": 3.0}) == 3.0
    assert score({"return_mean": 3.0, "win_rate": 0.5}) == 0.5
    assert score({"return_mean": [1.0, 2.0]}) == 1.5


def test_what_is_not_finite_neither_wins_nor_stands_in_the_way(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    for update, returns in enumerate([[float("nan"), 1.0], [1.0, None], [2.0, 2.0], [float("inf"), 9.0], [3.0, 3.0]]):
        folder.evaluations.append({"timesteps": update + 1, "return_mean": returns})
        assert keep_best(folder, update, {"params": jnp.zeros(2)}) is None
        assert Checkpoints(folder.best).updates == {0: [], 1: [], 4: [4]}.get(update, [2])


def test_evaluations_that_cannot_be_read_are_told(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.evaluations.path.write_text("damaged\n")
    assert "evaluations.jsonl cannot be read, so the best is not kept" in str(keep_best(folder, 1, {}))


def test_what_is_not_known_is_worse_than_anything():
    assert score({"return_mean": None}) == score({"return_mean": [1.0, None]}) == score({"return_mean": float("nan")})
    assert score({"return_mean": None}) < score({"return_mean": -1e9})


def test_only_what_beats_all_before_is_kept(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    for update, (returns, kept) in enumerate([(1.0, 0), (3.0, 1), (2.0, 1), (3.0, 1), (4.0, 4)]):
        folder.evaluations.append({"timesteps": update + 1, "return_mean": returns})
        assert keep_best(folder, update, {"params": jnp.full(2, returns)}) is None
        with Checkpoints(folder.best) as best:
            restored = best.restore({"params": jax.ShapeDtypeStruct((2,), jnp.float32)})
        assert restored.update == kept
        assert restored.extra["evaluation"]["timesteps"] == kept + 1


def test_among_equal_win_rates_the_larger_return_is_kept(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    rows = [(0.0, 1.0, 0), (0.0, 3.0, 1), (0.0, 2.0, 1), (0.1, 0.5, 3), (0.1, 0.5, 3), (0.0, 9.0, 3)]
    for update, (wins, returns, kept) in enumerate(rows):
        folder.evaluations.append({"timesteps": update + 1, "return_mean": returns, "win_rate": wins})
        assert keep_best(folder, update, {"params": jnp.zeros(2)}) is None
        assert Checkpoints(folder.best).updates == [kept]


def test_what_was_good_before_training_is_not_in_the_way(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.evaluations.append({"timesteps": 0, "return_mean": 5.0})
    folder.evaluations.append({"timesteps": 1, "return_mean": 1.0})
    assert keep_best(folder, 1, {"params": jnp.zeros(2)}) is None
    assert Checkpoints(folder.best).updates == [1]


def test_a_run_with_evaluations_can_be_loaded_at_its_best(tmp_path):
    config = toy.Config(total_timesteps=400)
    algo = toy.make(config)
    options = {"pictures": False, "quiet": True, "eval_episodes": 8}
    jaxrl.fit(algo, config, tmp_path / "run", eval_every=2, **options)
    rows = RunFolder.open(tmp_path / "run").evaluations.read()
    best = max(rows[1:], key=score)
    state = load(tmp_path / "run", best=True).state
    assert int(state.update) * config.steps_per_update == best["timesteps"]
    jaxrl.fit(algo, config, tmp_path / "plain", **options)
    with pytest.raises(FileNotFoundError, match="no best checkpoint: they are kept when --eval-every is given"):
        load(tmp_path / "plain", best=True)
