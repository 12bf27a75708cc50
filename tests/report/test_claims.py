"""What a report calls better: seldom anything among configurations that are alike, always what is far better."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jaxrl.report import Member, SeedGroup, collect, problems, write_report
from jaxrl.report.tables import improvements

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def scored(scores: np.ndarray) -> list[SeedGroup]:
    """Configurations of one algorithm with `scores[G, S]`."""
    nothing = np.zeros(0)
    groups = []
    for g, row in enumerate(scores):
        run = Path(f"group-{g}")
        members = [Member(run, (s,), s, nothing, nothing, nothing, float(score)) for s, score in enumerate(row)]
        groups.append(SeedGroup(f"ppo (lr={g})", "ppo", "x", "win_rate", tuple(members), {run: {}}))
    return groups


def alike(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return rng.normal(0.6, 0.1, size)


def mostly_won(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Win rates of 512 episodes, many of them 1."""
    return np.round(rng.beta(30, 0.6, size) * 512) / 512


def some_fail(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    return np.where(rng.uniform(size=size) < 0.2, 0.05, 0.95) + rng.normal(0, 0.02, size)


def coins(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """A seed learns the task or learns nothing."""
    return rng.integers(0, 2, size).astype(float)


def two_noisy_ones(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """The spread of the others says nothing about theirs."""
    return 0.6 + rng.normal(size=size) * np.where(np.arange(size[0]) < 2, 0.3, 0.005)[:, None]


DRAWS = [alike, mostly_won, some_fail, coins, two_noisy_ones]


@pytest.mark.parametrize(
    ("shape", "draw"),
    [
        ((12, 5), alike),
        *(((4, 4), draw) for draw in (alike, two_noisy_ones)),
        *(((2, 5), draw) for draw in DRAWS),
        *(pytest.param((12, 5), draw, marks=pytest.mark.slow) for draw in DRAWS if draw is not alike),
        *(pytest.param((4, 4), draw, marks=pytest.mark.slow) for draw in (mostly_won, some_fail, coins)),
    ],
)
def test_of_configurations_that_are_alike_the_best_is_seldom_called_better(draw: Draw, shape):
    rng = np.random.default_rng(0)
    reports = [improvements(scored(draw(rng, shape))) for _ in range(300)]
    wrong = np.mean([any(each.clear for each in report) for report in reports])
    assert wrong <= 0.08  # 5 %, and two standard errors of 300 reports


def test_what_is_far_better_is_called_so():
    """By three standard deviations; of the other eleven each may be lucky."""
    rng = np.random.default_rng(0)
    found, beaten = 0, []
    for _ in range(100):
        scores = alike(rng, (12, 5))
        scores[7] += 0.3
        report = improvements(scored(scores))
        found += report[0].best.label == "ppo (lr=7)" and any(each.clear for each in report)
        beaten.append(sum(each.clear for each in report))
    assert found >= 80
    assert np.mean(beaten) > 3


def test_what_works_is_told_from_what_does_not():
    """Half of a sweep learns nothing, exactly: all of those are worse than the best, none of the others."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([np.zeros((6, 5)), rng.normal(0.9, 0.02, (6, 5))])
    verdicts = {each.other.label: each.clear for each in improvements(scored(scores))}
    assert verdicts == {f"ppo (lr={g})": g < 6 for g in range(12) if f"ppo (lr={g})" in verdicts}
    assert len(verdicts) == 11


def test_the_next_best_are_shown_but_all_are_allowed_for():
    scores = alike(np.random.default_rng(0), (12, 5))
    all_of_them, some = improvements(scored(scores)), improvements(scored(scores), most=3)
    assert [each.difference for each in some] == [each.difference for each in all_of_them[:3]]
    middle = [np.mean(each.other.scores) for each in some]
    assert [each.difference.estimate for each in some] == pytest.approx(
        [np.mean(some[0].best.scores) - mean for mean in middle]
    )


def test_the_page_says_what_was_shown(tmp_path, write_run):
    """No configuration is better than its like, on the page too."""
    rng = np.random.default_rng(0)
    members = [{"seed": seed, "lr": lr} for lr in (1e-4, 1e-3, 1e-2) for seed in range(5)]
    scores = rng.normal(0.6, 0.02, 15)
    scores[:5] -= 0.5
    run = write_run(tmp_path / "run", num_seeds=15, members=members, scores=scores.tolist())
    text = write_report(collect([run]), tmp_path / "out")[0].read_text()
    section = text[text.index("The best and the others") : text.index("Learning curves")]
    like_it, worse = [re.findall("<td.*?>(.*?)</td>", row) for row in section.split("<tr>")[2:]]
    assert {like_it[1], like_it[2]} == {"ippo (lr=0.001)", "ippo (lr=0.01)"}
    assert like_it[-1] == "not shown to be better"
    assert (worse[2], worse[3], worse[-1]) == ("ippo (lr=0.0001)", "1.000", "better")
    assert "for all pairs" in section


def test_few_seeds_have_no_interval(tmp_path, write_run):
    run = write_run(tmp_path / "a", num_seeds=3, scores=[0.9, 0.91, 0.92])
    other = write_run(tmp_path / "b", algorithm="mappo", num_seeds=5, scores=[0.1, 0.11, 0.12, 0.13, 0.14])
    [found] = improvements(collect([run, other]))
    assert found.chance == 1.0
    assert np.isnan(found.difference.low)
    assert not found.clear


@pytest.mark.parametrize("count", [3, 4, 12])
def test_choosing_and_judging_on_the_same_seeds_is_told(count):
    found = problems(scored(np.full((count, 5), 0.5)))
    if count == 3:
        assert found == []
    else:
        [sentence] = found
        assert sentence.startswith(f"The best of {count} configurations of ppo on x is chosen and judged by the same")
        assert "`jaxrl search ppo --env x …`" in sentence


def test_four_algorithms_with_a_configuration_each_are_no_choice(tmp_path, write_run):
    names = ("a", "b", "c", "d")
    groups = collect([write_run(tmp_path / name, algorithm=name, num_seeds=5) for name in names])
    assert problems(groups) == []
