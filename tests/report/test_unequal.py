"""Runs that were not made alike are told, each difference in one sentence."""

import json

import pytest

from jaxrl.report import collect, problems


@pytest.fixture
def pair(tmp_path, write_run):
    """Problems of two algorithms, the second of which is special."""

    def compare(env: str = "smax/3m", steps: int = 1000, **about) -> list[str]:
        common = {"options": {"on_nan": "stop"}}
        first = write_run(tmp_path / "a", num_seeds=5, **common)
        second = write_run(tmp_path / "b", algorithm="mappo", env=env, num_seeds=5, **{**common, **about})
        rows = [json.loads(line) for line in (second / "metrics.jsonl").read_text().splitlines()]
        rows = [{**row, "timesteps": steps * (i + 1)} for i, row in enumerate(rows)]
        (second / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return [sentence.replace(str(tmp_path), "runs") for sentence in problems(collect([first, second]))]

    return compare


def evaluation(episodes: int) -> dict:
    return {"episodes": episodes, "return_mean": [1.0] * 5, "win_rate": [0.5] * 5}


@pytest.mark.parametrize(
    ("special", "sentence"),
    [
        (
            {"steps": 20_000},
            "On smax/3m, ippo was trained for 40k steps (runs/a) but mappo for 800k (runs/b): compare them after the "
            "same --total-timesteps.",
        ),
        (
            {"lengthened": [{"total_timesteps": 20_000, "timesteps": 15_000}]},
            "On smax/3m, some runs were made longer on the way, after which schedules take another course, never "
            "(runs/a), after 15k steps (runs/b): train each with all of its --total-timesteps from the beginning.",
        ),
        (
            {"evaluation": evaluation(32)},
            "On smax/3m, scores are of different numbers of episodes, 512 (runs/a), 32 (runs/b): train with the same "
            "--eval-episodes.",
        ),
        (
            {"options": {"on_nan": "skip"}},
            "On smax/3m, runs were trained with different --on-nan, stop (runs/a), skip (runs/b): one goes on where "
            "the other ends, so choose one.",
        ),
        (
            {"versions": {"jaxrl": "0.2.0", "jax": "0.11.0"}},
            "On smax/3m, runs were made with different versions, jaxrl 0.1.0 (runs/a), 0.2.0 (runs/b); jax 0.10.2 "
            "(runs/a), 0.11.0 (runs/b): run them again with one.",
        ),
        (
            {"git": {"commit": "f" * 40, "dirty": False}},
            "On smax/3m, runs were made at different git commits, 0123456789 (runs/a), ffffffffff (runs/b): run them "
            "again at one.",
        ),
    ],
)
def test_a_difference_is_told(pair, special, sentence):
    assert pair(**special) == [sentence]


@pytest.mark.parametrize(
    "special",
    [
        {},
        {"steps": 1040},  # a few updates more
        {"lengthened": [{"total_timesteps": 20_000}]},  # before it had begun
        {"versions": {}, "git": None, "options": {}},  # what is not known is not compared
        {"env": "smax/8m", "steps": 20_000, "versions": {"jax": "0.11.0"}, "evaluation": evaluation(32)},
    ],
)
def test_what_is_no_difference_is_not(pair, special):
    assert pair(**special) == []


def test_many_runs_are_counted(tmp_path, write_run):
    runs = [write_run(tmp_path / f"{seed}", seed=seed, options={"on_nan": "stop"}) for seed in range(5)]
    runs.append(write_run(tmp_path / "b", algorithm="other", num_seeds=5, options={"on_nan": "skip"}))
    [found] = problems(collect(runs))
    assert f"stop ({tmp_path / '0'} and 4 more), skip ({tmp_path / 'b'})" in found


def test_an_environment_in_a_file_whose_helper_was_edited_is_told(tmp_path, write_run):
    def sources(sha256: str) -> dict:
        helper = {"beside": {"helper.py": sha256}}
        return {"env": {"file": "source/my_env.py", "path": "my_env.py", "sha256": "0011223344"} | helper}

    runs = [
        write_run(tmp_path / "a", env="source/my_env.py:Own", num_seeds=5, sources=sources("0123456789")),
        write_run(
            tmp_path / "b",
            algorithm="mappo",
            env="source/my_env.py:Own",
            num_seeds=5,
            sources=sources("abcdefabcd"),
        ),
    ]
    [found] = problems(collect(runs))
    assert found == (
        f"On source/my_env.py:Own, the file of the environment has changed from run to run, "
        f"00112233+01234567 ({runs[0]}), 00112233+abcdefab ({runs[1]}): run them again with one."
    )


def test_seeds_of_one_group_are_held_to_it_as_well(tmp_path, write_run):
    runs = [
        write_run(tmp_path / f"{seed}", seed=seed, git={"commit": f"{seed // 4}" * 40, "dirty": False})
        for seed in range(5)
    ]
    [found] = problems(collect(runs))
    assert f"0000000000 ({tmp_path / '0'} and 3 more), 1111111111 ({tmp_path / '4'})" in found


def test_steps_of_a_run_without_a_score_are_not_compared(pair):
    [found] = pair(steps=20, status="running", evaluation=None)
    assert "has not ended" in found
