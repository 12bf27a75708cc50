"""Where a run starts from: another run's parameters or all it has learned, or a given state; what fits and what not."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_algorithm as toy
from toy_runs import CONFIG, assert_same_state, read_rows, run, timeless

import jaxrl
from jaxrl.algos import dqn, ippo, ppo, sac, vdn
from jaxrl.cli.runs import evaluate_run, play, render_run
from jaxrl.envs.classic.cartpole import CartPole
from jaxrl.train.folder.load import Run
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import ChunkSizer
from jaxrl.train.members import Members
from jaxrl.train.metrics import own_metrics
from jaxrl.train.result import Result
from jaxrl.train.start import InitFrom, Start, in_env, what_fits

NEW = toy.Config(seed=7)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "source"
    run(run_dir=place, eval_every=2)
    return place


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "seeds"
    run(run_dir=place, num_seeds=3, eval_every=2)
    folder = RunFolder(place)
    about = folder.read()
    folder.write({**about, "evaluation": {**about["evaluation"], "win_rate": [0.2, 0.9, 0.4]}})
    return place


def noise(config: toy.Config = CONFIG) -> Any:
    """The part of the toy's parameters that a seed draws and updates leave alone."""
    return toy.make(config).init(jax.random.key(config.seed)).params["noise"]


def test_a_run_starts_from_the_parameters_of_another_and_all_else_is_its_own(source: Path, tmp_path: Path) -> None:
    result = run(toy.make(NEW), NEW, tmp_path / "run", init_from=source)
    assert float(result.state.params["theta"]) == 20.0  # ten updates on top of ten
    np.testing.assert_array_equal(result.state.params["noise"], noise())
    assert int(result.state.update) == 10
    rows = read_rows(tmp_path / "run" / "evaluations.jsonl")
    assert (rows[0]["timesteps"], rows[0]["win_rate"]) == (0, 1.0)
    about = RunFolder(tmp_path / "run").read()
    assert about["options"]["init_from"] == {"run": str(source), "learner": False, "best": False, "member": None}
    [event] = [row for row in read_rows(tmp_path / "run" / "events.jsonl") if row["kind"] == "start"]
    assert event["text"] == f"Starts with params of {source}."


def test_the_best_checkpoint_is_another_start(source: Path) -> None:
    """The toy wins first in the evaluation after six updates."""
    result = run(toy.make(NEW), NEW, init_from=InitFrom(source, best=True))
    assert float(result.state.params["theta"]) == 16.0


def test_as_many_seeds_start_from_their_own_and_others_from_the_best(source: Path, seeds: Path) -> None:
    own = [noise(dataclasses.replace(CONFIG, seed=m)) for m in range(3)]
    each = run(toy.make(NEW), NEW, num_seeds=3, init_from=seeds)
    np.testing.assert_array_equal(each.state.params["noise"], np.stack(own))
    alone = run(toy.make(NEW), NEW, init_from=seeds)
    np.testing.assert_array_equal(alone.state.params["noise"], own[1])
    earlier = run(toy.make(NEW), NEW, init_from=InitFrom(seeds, best=True))  # when all won, and returns decide
    won = next(row for row in read_rows(seeds / "evaluations.jsonl") if row["win_rate"] == [1.0] * 3)
    np.testing.assert_array_equal(earlier.state.params["noise"], own[int(np.argmax(won["return_mean"]))])
    two = run(toy.make(NEW), NEW, num_seeds=2, init_from=InitFrom(seeds, member=2))
    np.testing.assert_array_equal(two.state.params["noise"], np.stack([own[2], own[2]]))
    chosen = run(toy.make(NEW), NEW, members=[{"seed": 5}, {"seed": 6}, {"seed": 9}], init_from=seeds)
    np.testing.assert_array_equal(chosen.state.params["noise"], np.stack([own[1]] * 3))


@pytest.mark.parametrize("num_seeds", [1, 2, 3])
def test_a_seed_of_another_run_can_be_named_with_the_run(num_seeds: int, seeds: Path) -> None:
    """Whatever else the run holds, all start from this one."""
    result = run(toy.make(NEW), NEW, num_seeds=num_seeds, init_from=f"{seeds}:2")
    wanted = noise(dataclasses.replace(CONFIG, seed=CONFIG.seed + 2))
    for member in np.asarray(result.state.params["noise"]).reshape(num_seeds, -1):
        np.testing.assert_array_equal(member, np.asarray(wanted).reshape(-1))
    with pytest.raises(ValueError, match=r"named with :2 and with member=1; drop one"):
        run(toy.make(NEW), NEW, init_from=InitFrom(f"{seeds}:2", member=1))


def test_such_a_run_is_resumed_exactly_without_the_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, source = tmp_path / "run", tmp_path / "source"
    run(run_dir=source)
    whole = run(toy.make(NEW), NEW, init_from=source, log_every=2)
    monkeypatch.setattr(ChunkSizer, "next", lambda self, limit: 1)
    stop = [lambda row: row["timesteps"] >= 32]
    run(toy.make(NEW), NEW, place, init_from=source, log_every=2, callbacks=stop)
    source.rename(tmp_path / "elsewhere")
    result = run(toy.make(NEW), NEW, place, init_from=source, log_every=2, resume="auto")
    assert_same_state(result.state, whole.state)
    assert len(timeless(read_rows(place / "metrics.jsonl"))) == 5


def test_a_member_that_is_not_there_is_refused_and_no_folder_is_left(seeds: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"member must be from 0 to 2 in .*, got 3"):
        run(run_dir=tmp_path / "run", init_from=InitFrom(seeds, member=3))
    with pytest.raises(FileNotFoundError, match="holds no run"):
        run(run_dir=tmp_path / "run", init_from=tmp_path / "nowhere")
    assert not (tmp_path / "run").exists()


def test_one_can_start_from_a_state_which_stays_usable(tmp_path: Path) -> None:
    first = run()
    second = run(run_dir=tmp_path / "run", initial_state=first.state)
    assert float(second.state.params["theta"]) == 20.0
    assert (int(first.state.update), int(second.state.update)) == (10, 10)
    assert RunFolder(tmp_path / "run").read()["initial_state"] == "given"
    with pytest.raises(ValueError, match="two ways to start"):
        run(initial_state=first.state, init_from=tmp_path / "run")
    with pytest.raises(TypeError, match=r"such as result\.state, got Result"):
        run(initial_state=first)
    with pytest.raises(
        ValueError, match=r"initial_state does not fit: .* is float32\[3\] there and float32\[2, 3\] here"
    ):
        run(num_seeds=2, initial_state=first.state)


def test_a_given_state_learns_with_the_hyperparameters_of_this_run() -> None:
    config, faster = (ppo.Config(lr=lr, num_envs=4, num_steps=4, total_timesteps=64) for lr in (1e-3, 1e-1))
    before, algo = jax.jit(ppo.make(config).init)(jax.random.key(0)), ppo.make(faster)
    start = Start(algo, faster, Members.of(faster, 1), initial_state=before)
    fresh = algo.init(jax.random.key(1))
    programs: Any = SimpleNamespace(init=lambda: fresh, state_shape=jax.eval_shape(lambda: fresh))
    state, _ = start.first(programs)
    assert float(state.hyperparams.lr) == pytest.approx(0.1)
    jax.tree.map(np.testing.assert_array_equal, state.params, before.params)


# A real algorithm, with numbers of its own in the log and with schedules


class Tilted(CartPole):
    """The cart-pole, which tells how far it has rolled and how far the pole leans."""

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> Any:
        obs, state, reward, terminated, truncated, info = super().step_env(key, state, action, params)
        return (
            obs,
            state,
            reward,
            terminated,
            truncated,
            {**info, "rolled": jnp.abs(obs[0]), "leans": jnp.abs(obs[2]) > 0.2},
        )


SMALL: dict[str, Any] = {"num_envs": 8, "num_steps": 32, "num_minibatches": 2, "total_timesteps": 768, "hidden": (4,)}
QUICK: dict[str, Any] = {"eval_episodes": 2, "pictures": False, "quiet": True}


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    place = tmp_path_factory.mktemp("runs") / "cartpole"
    jaxrl.register("tests/tilted", Tilted)
    jaxrl.register_schedule("steps", lambda progress: jnp.where(progress < 0.5, 1.0, 0.1))
    watched = {"log_info": ("rolled", "leans"), "schedules": ("lr=steps", "clip_eps=linear")}
    config = ppo.Config(env="tests/tilted", normalise_obs=True, **watched, **SMALL)
    return place, jaxrl.fit(ppo.make(config), config, place, **QUICK)


def test_numbers_of_the_info_are_logged_as_means_over_episodes(cartpole: tuple[Path, Result]) -> None:
    place, trained = cartpole
    rows = read_rows(place / "metrics.jsonl")
    assert all(own_metrics(row) == ["info/leans", "info/rolled"] for row in rows)
    assert all(0.0 < row["info/rolled"] < 2.4 for row in rows)
    # An episode ends soon, and then because the pole leans by 0.2 radians or a little more.
    assert [row["info/leans"] for row in rows] == [1.0] * len(rows)
    np.testing.assert_array_equal(trained.metrics["info/leans"], 1.0)


def test_a_schedule_of_ones_own_is_said_not_to_be_found_by_other_processes(cartpole: tuple[Path, Result]) -> None:
    config = [row["text"] for row in read_rows(cartpole[0] / "events.jsonl") if row["kind"] == "config"]
    [text] = config
    assert text.startswith("The schedule steps is a function of this process")


def test_the_whole_learner_is_parameters_optimiser_and_normalisers(cartpole: tuple[Path, Result]) -> None:
    place, trained = cartpole
    config = ppo.Config(env="classic/cartpole", normalise_obs=True, seed=3, **SMALL)
    algo, fresh = ppo.make(config), jax.jit(ppo.make(config).init)(jax.random.key(3))
    start = Start(algo, config, Members.of(config, 1), InitFrom(place, learner=True))
    programs: Any = SimpleNamespace(init=lambda: fresh)
    state, said = start.first(programs)
    assert said == f"Starts with params, opt_state, normaliser of {place}."
    for name in ("params", "opt_state", "normaliser"):
        assert_same_state(getattr(state, name), getattr(trained.state, name))
    assert int(state.update) == 0
    assert state.runner is fresh.runner
    start = Start(algo, config, Members.of(config, 1), place)
    state, said = start.first(programs)
    assert said == f"Starts with params of {place}. New are: opt_state, normaliser."
    assert_same_state(state.params, trained.state.params)
    assert_same_state(state.opt_state, fresh.opt_state)


@pytest.mark.parametrize(
    ("algo", "fields"),
    [
        (dqn, {"env": "classic/cartpole", "learning_starts": 64}),
        pytest.param(
            sac, {"env": "classic/pendulum", "learning_starts": 64, "critic_hidden": (4,)}, marks=pytest.mark.slow
        ),
    ],
)
def test_target_networks_are_copies_of_what_is_taken_over(algo: Any, fields: dict[str, Any], tmp_path: Path) -> None:
    """In the second run the steps of the optimiser are too small to change a number."""
    sizes = {"num_envs": 4, "num_steps": 4, "total_timesteps": 128, "hidden": (4,), "buffer_size": 256, **fields}
    config = algo.Config(**sizes)
    before = jaxrl.fit(algo.make(config), config, tmp_path / "before", **QUICK)
    config = dataclasses.replace(config, seed=1, lr=1e-30)
    after = jaxrl.fit(algo.make(config), config, tmp_path / "after", init_from=tmp_path / "before", **QUICK)
    assert_same_state(after.state.params, before.state.params)
    for name, target in after.state.target["params"].items():
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), target, before.state.params["params"][name])
    [event] = [row for row in read_rows(tmp_path / "after" / "events.jsonl") if row["kind"] == "start"]
    assert event["text"].endswith("New are: opt_state, normaliser.")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"env": "classic/acrobot"},
            r"does not fit: params\['params'\]\['policy'\].* is float32\[2\] there and float32\[3\] here\. What fits "
            r"is an environment with the same spaces: the shape of observations is \(4,\) there and \(6,\) here, the "
            r"actions is Discrete\(n=2\) there",
        ),
        ({"hidden": (5,)}, r"the same algorithm with the same networks: .*hidden is \[4\] there and \[5\] here"),
    ],
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], sentence: str, cartpole: tuple[Path, Result]) -> None:
    config = ppo.Config(**{"env": "classic/cartpole", "normalise_obs": True, **SMALL, **fields})
    with pytest.raises(ValueError, match=sentence):
        jaxrl.fit(ppo.make(config), config, init_from=cartpole[0], **QUICK)


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
