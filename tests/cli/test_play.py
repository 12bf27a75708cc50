"""`jaxrl play`: whole games from piped keys, with runs as partners."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxrl
from jaxrl.cli import main
from jaxrl.deploy.policy import Policy
from jaxrl.play import Session
from jaxrl.train.folder.load import load

SMALL = "hanabi/2p?colors=2&ranks=2&hand_size=2"
KITCHEN = "overcooked/cramped_room?max_steps=120"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps in each of three games."""
    folder = tmp_path_factory.mktemp("runs")
    for name, env in (("cards", SMALL), ("cook", KITCHEN), ("fight", "smax/3m")):
        options = "--num-envs 4 --num-steps 4 --num-minibatches 1 --update-epochs 1 --total-timesteps 32 --quiet"
        argv = [
            "train",
            "ippo",
            "--env",
            env,
            "--run-dir",
            str(folder / name),
            *options.split(),
            "--eval-episodes",
            "2",
        ]
        main([*argv, "--no-pictures"])
    return folder


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Type lines, and read what is printed, without line breaks in sentences."""
    monkeypatch.setenv("COLUMNS", "300")

    def typed(text: str, *argv: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        capsys.readouterr()
        main(["play", *argv])
        return capsys.readouterr().out

    return typed


def cooked(policy: Policy, seed: int) -> list[str]:
    """What a cook who knows the recipe does beside this partner, to the end."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "envs" / "overcooked"))
    from cooks import Cooks

    env = jaxrl.make(KITCHEN)
    session, cooks, moves = Session(env, policy, seed=seed), Cooks(env.layout, noise=0.0), []
    while not session.done:
        state = type(session.state)(**{name: np.asarray(value) for name, value in vars(session.state).items()})
        moves.append(session.names[cooks(state)[0]])
        session.step(session.names.index(moves[-1]))
    assert session.returns[0] >= 20, "Choose another seed: the partner stands in the way."
    return moves


def test_a_soup_is_served(play, runs: Path) -> None:
    run = str(runs / "cook")
    out = play("\n".join(cooked(load(run).policy, 1)), KITCHEN, "--with", run, "--seed", "1")
    assert "agent_1, are played by" in out
    assert "reward +20" in out
    assert "served 1 · step 120" in out
    assert "return 20.0 after 120 steps. Your return is 20." in out or "Your return is 40." in out
    assert out.endswith(f"Another game: jaxrl play {KITCHEN} --with {run} --seed 2\n")
    assert "<html" in Path("play.html").read_text()


def test_a_game_of_hanabi_hides_the_own_cards(play, runs: Path) -> None:
    """The waits between the own moves need no typing."""
    out = play("p1\n" * 30, SMALL, "--with", str(runs / "cards"), "--seat", "1", "--out", "game.html")
    rows = [line for line in out.splitlines() if line.startswith("player 1 ") and "plays" not in line]
    assert len(rows) > 4
    assert {cell for row in rows for cell in row.split()[2:]} == {"??"}
    shown = [line for line in out.splitlines() if line.startswith("player 0 ")]
    assert any("R1" in row or "Y1" in row for row in shown)
    assert "you: " not in out
    assert Path("game.html").exists()
    assert "cut short" not in out


def test_one_unit_of_a_battle(play, runs: Path) -> None:
    out = play("right\n" * 12 + "?\n" + "attack 0\nr\n" * 100, "smax/3m", "--with", str(runs / "fight"))
    assert "you: right · ally_1: " in out
    assert "ally_0, marine: health" in out
    assert "You can type up (u), right (r), down (d), left (l), stop (s)" in out
    assert any(f"smax/3m: {outcome} after" in out for outcome in ("won", "lost", "time up"))


@pytest.mark.quick
def test_wrong_input_and_quitting_keep_the_game(play) -> None:
    out = play("jump\n\nup, u\nq\nup\n", "coin_game")
    assert "There is no 'jump'. You can type right (r), left (l), up (u), down (d), stay (s)." in out
    assert "Nothing was typed." in out
    assert "act at random; --with RUN gives them a policy" in out
    assert "coin_game: cut short after 2 steps." in out
    assert Path("play.html").exists()


@pytest.mark.quick
@pytest.mark.parametrize("typed", ["", "q\n", "?\n"])
def test_nothing_played_leaves_no_file(play, typed: str) -> None:
    assert "Nothing was played." in play(typed, "classic/cartpole")
    assert not Path("play.html").exists()


@pytest.mark.quick
def test_interrupting_keeps_the_game(play, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_):
        yield "left"
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxrl.play.keyboard.from_lines", interrupted)
    assert "cut short after 1 steps" in play("", "classic/cartpole", "--out", "pole.html")
    assert Path("pole.html").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "classic/cartpole --out play.txt",
            "--out must end in .html, .gif or .mp4".replace(".html, .gif", ".gif, .html"),
        ),
        ("classic/cartpole --seat 1", "The seats of classic/cartpole are 0 to 0, got 1"),
        ("classic/pendulum", "Only Discrete actions can be played by hand"),
        ("coin_game --seed -1", "--seed must be a whole number"),
        ("classic/cartpole --with {runs}/cards", "has a single agent, and it is yours; leave out --with"),
        (
            "hanabi/2p --with {runs}/cards",
            "and cannot play hanabi/2p, with 2 agents; type jaxrl play hanabi/2p?colors=2",
        ),
        ("smax/3m --with {runs}/cook", "was trained in overcooked/cramped_room?max_steps=120, with 2 agents"),
        ("smax/3m --with nowhere", "nowhere holds no run"),
    ],
)
def test_wrong_commands_are_explained(capsys, runs: Path, command: str, sentence: str) -> None:
    with pytest.raises(SystemExit) as info:
        main(["play", *command.format(runs=runs).split()])
    assert info.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_game_with_other_options_is_the_same_game(play, runs: Path) -> None:
    out = play("stay\n", "overcooked/cramped_room", "--with", str(runs / "cook"))
    assert "cut short after 1 steps" in out
