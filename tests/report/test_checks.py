"""Every way to compare unfairly is found, and said in one sentence."""

import json
from typing import Any

import pytest

from jaxrl.report import collect, problems


@pytest.fixture
def fair(tmp_path, write_run):
    """Five seeds of IPPO in one run, the same five of MAPPO in five."""
    runs = [write_run(tmp_path / "ippo", num_seeds=5)]
    return runs + [write_run(tmp_path / f"mappo-{seed}", algorithm="mappo", seed=seed) for seed in range(5)]


@pytest.mark.quick
def test_a_fair_comparison_has_no_problem(fair):
    assert problems(collect(fair)) == []


def test_too_few_seeds(fair):
    [sentence, _] = problems(collect(fair[:-2]))
    assert sentence == (
        "mappo on smax/3m has 3 seeds, but at least 5 are needed: train more with --seed 3 --num-seeds 2."
    )
    assert problems(collect(fair[:1]), min_seeds=6)[0].endswith(
        "has 5 seeds, but at least 6 are needed: train more with --seed 5."
    )


def test_what_the_configurations_of_a_sweep_share_is_said_once(tmp_path, write_run):
    members = [{"seed": seed, "lr": lr} for lr in (1e-4, 1e-3, 1e-2) for seed in range(2)]
    run = write_run(tmp_path / "run", num_seeds=6, members=members, diverged=[0, 5], tuning_seeds=[0, 1])
    who = "configurations of ippo on smax/3m"
    assert problems(collect([run])) == [
        f"3 {who} have 2 seeds each, but at least 5 are needed: sweep with --num-seeds 5, or take this for a first "
        "look, and train the best with 5 other seeds.",
        f"3 {who} are reported on seeds they were tuned on (0–1): report other ones, e.g. with --seed 2.",
        f"In {run}, seeds 0–1 of 2 {who} diverged and have no score: say so, or leave them out.",
    ]
    other = write_run(tmp_path / "other", status="stopped", evaluation=None, num_seeds=6, members=members)
    assert f"{other} was stopped, so seeds 0–1 of 3 {who} cannot be counted: jaxrl resume {other}." in problems(
        collect([other])
    )


def test_a_league_counts_as_one_seed(tmp_path, write_run):
    league: dict[str, Any] = {"algorithm": "self_play", "config": {"league": ["main", "main", "exploiter"]}}
    runs = [write_run(tmp_path / f"{i}", num_seeds=3, seed=3 * i, **league) for i in range(5)]
    assert problems(collect(runs)) == []
    assert problems(collect(runs[:2])) == [
        "self_play on smax/3m has 2 leagues, but at least 5 are needed, as the members of a league depend on each "
        "other and count as one seed: train another with --seed 6."
    ]
    lost = write_run(tmp_path / "lost", num_seeds=3, seed=15, diverged=[1], **league)
    [found] = problems(collect([*runs, lost]))
    assert "seed 15 of self_play (role=main) on smax/3m diverged" in found


def test_a_search_is_named_as_it_is_typed(tmp_path, write_run):
    def advice(name: str, algorithm: str, env: str, **about: Any) -> str:
        configs = [{"lr": 0.1 * i} for i in range(1, 5)]
        runs = [
            write_run(tmp_path / f"{name}{i}", algorithm=algorithm, env=env, num_seeds=5, config=config, **about)
            for i, config in enumerate(configs)
        ]
        return problems(collect(runs))[0].split("`")[1]

    assert advice("a", "ppo", "smax/3m?a=1&b=2") == "jaxrl search ppo --env 'smax/3m?a=1&b=2' …"
    sources = {
        role: {"file": f"source/{path.rpartition('/')[2]}", "path": path, "sha256": "0123456789"}
        for role, path in {"algorithm": "my_ppo.py", "env": "envs/my_env.py"}.items()
    }
    own = advice("b", "my_ppo", "source/my_env.py:Own", sources=sources)
    assert own == "jaxrl search my_ppo.py --env envs/my_env.py:Own …"


def test_a_seed_counted_twice_is_not_two_seeds(fair, tmp_path, write_run):
    again = write_run(tmp_path / "again", num_seeds=2, seed=4)
    found = problems(collect([fair[0], again]))
    assert found == [f"ippo on smax/3m counts seed 4 more than once, in {fair[0]} and {again}: leave one out."]
    # Five runs, but four seeds.
    found = problems(collect([*fair[1:5], write_run(tmp_path / "mappo-again", algorithm="mappo", seed=3)]))
    assert found[0].startswith("mappo on smax/3m has 4 seeds, but at least 5")


def test_groups_compared_on_different_seeds(fair, tmp_path, write_run):
    other = write_run(tmp_path / "other", algorithm="other", seed=7, num_seeds=5)
    assert problems(collect([*fair, other])) == [
        "On smax/3m, mappo has the seeds 0–4 but other has 7–11: compare them on the same seeds."
    ]
    elsewhere = write_run(tmp_path / "elsewhere", env="smax/8m", seed=7, num_seeds=5)
    assert problems(collect([*fair, elsewhere])) == []


def test_seeds_used_for_tuning_are_not_reported(fair, tmp_path, write_run):
    tuned = write_run(tmp_path / "tuned", config={"lr": 1.0}, num_seeds=5, seed=3, tuning_seeds=[0, 1, 2, 3, 4])
    found = problems(collect([tuned]))
    assert found == [
        "ippo on smax/3m is reported on seeds it was tuned on (3–4): report other ones, e.g. with --seed 5."
    ]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("running", "has not ended, so seed 0 of ippo on smax/3m cannot be counted"),
        ("failed", "has failed, so seed 0 of ippo on smax/3m cannot be counted"),
        ("diverged", "has diverged, so seed 0 of ippo on smax/3m cannot be counted"),
        ("stopped", "was stopped, so seed 0 of ippo on smax/3m cannot be counted: jaxrl resume"),
    ],
)
def test_runs_without_a_final_score(tmp_path, write_run, status, sentence):
    runs = [write_run(tmp_path / f"{s}", seed=s) for s in range(1, 5)]
    runs.append(write_run(tmp_path / "0", status=status, evaluation=None))
    [found] = problems(collect(runs))
    assert sentence in found


@pytest.mark.parametrize("status", ["running", "stopped", "failed"])
def test_a_sweep_that_has_not_come_to_all_of_its_groups(tmp_path, write_run, status):
    runs = [write_run(tmp_path / "sweep" / f"group-{i}", num_seeds=5, config={"lr": 0.1**i}) for i in (1, 2)]
    plan = tmp_path / "sweep" / "sweep.json"
    plan.write_text(json.dumps({"status": status}))
    [found] = problems(collect([tmp_path / "sweep"]))
    assert "has not ended, so some of its configurations or seeds may be missing: let it end, or continue it" in found
    assert not problems(collect(runs[:1]))  # chosen by hand
    plan.write_text(json.dumps({"status": "finished"}))
    assert not problems(collect([tmp_path / "sweep"]))


def test_a_member_without_a_score(tmp_path, write_run):
    run = write_run(tmp_path / "run", num_seeds=6, scores=[0.5, float("nan"), 0.7, 0.6, float("nan"), 0.5])
    [found] = problems(collect([run]))
    assert "has no final score, so seeds 1, 4 of ippo on smax/3m cannot be counted" in found


def test_dirty_git(fair, tmp_path, write_run):
    dirty = write_run(tmp_path / "dirty", algorithm="b", num_seeds=5, git={"commit": "0123456789abcdef", "dirty": True})
    [found] = problems(collect([*fair, dirty]))
    assert found == f"{dirty} was made with uncommitted changes to 0123456789: commit them, run again."
    outside = write_run(tmp_path / "outside", algorithm="c", num_seeds=5, git=None)
    assert problems(collect([*fair, outside])) == []


def test_a_diverged_member_is_told(tmp_path, write_run):
    members = [{"seed": seed, "lr": lr} for lr in (1e-3, 1e-2) for seed in range(5)]
    run = write_run(tmp_path / "run", num_seeds=10, members=members, diverged=[7, 8])
    assert problems(collect([run])) == [
        f"In {run}, seeds 2–3 of ippo (lr=0.01) on smax/3m diverged and have no score: say so, or leave the group out."
    ]
    assert [len(group.scores) for group in collect([run])] == [5, 3]  # as in the table of a sweep


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
        f"On my_env.py:Own, the file of the environment has changed from run to run, "
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
