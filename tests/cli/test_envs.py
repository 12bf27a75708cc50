"""`jaxrl envs` lists environments."""

import pytest

from jaxrl.cli import main


def test_environments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["envs", "smax/3*"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["smax/3m", "3"]
    main(["envs", "CartPole-v1"])
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "classic/cartpole"
    for pattern, names in (
        ("MPE_simple_v3", ["mpe/simple"]),
        ("MPE_simple_sp*", ["mpe/simple_speaker_listener", "mpe/simple_spread"]),
        ("ACROBOT", ["classic/acrobot"]),
        ("smax/3m?max_steps=3", ["smax/3m?max_steps=3"]),
        ("storm/stag*", ["storm/stag_hunt"]),
    ):
        main(["envs", pattern])
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == names
    own = "jaxrl.envs.classic.cartpole:CartPole"
    main(["envs", own])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [[own, "–", "4", "2"]]


def test_another_librarys_environments_are_listed_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnax")
    main(["envs", "gymnax:*cartpole*"])
    assert capsys.readouterr().out.split() == ["gymnax:CartPole-v1"]
    main(["envs", "gymnax:"])
    listed = capsys.readouterr().out.split()
    assert {"gymnax:CartPole-v1", "gymnax:Breakout-MinAtar"} < set(listed)
    assert listed == sorted(listed)
    with pytest.raises(SystemExit):
        main(["envs", "gymnax:CartPole*-v7"])
    assert "gymnax has no environment 'CartPole*-v7'. Did you mean CartPole-v1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("gymnax", "Say gymnax:NAME for one of that library's, which `jaxrl envs gymnax:` lists."),
        ("Brax", "Say brax:NAME for one of that library's, which `jaxrl envs brax:` lists."),
        ("DeepSea-bsuite", "Say gymnax:DeepSea-bsuite for that library's."),
    ],
)
def test_another_library_without_a_colon_is_told(name: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["envs", name])
    assert f"No environment matches {name!r}. {advice}" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "actions"),
    [("classic/cartpole", "2"), ("classic/pendulum", "1 real"), ("hide_and_seek/chase", "11x11x11")],
)
def test_the_list_tells_choices_from_numbers(name: str, actions: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["envs", name])
    assert capsys.readouterr().out.rstrip().endswith(f" {actions}")
