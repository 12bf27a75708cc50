"""`jaxrl play`: whole games from piped keys, with runs as partners."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.cli import main
from jaxrl.deploy.policy import Policy
from jaxrl.play import Session
from jaxrl.train.folder.load import load

SMALL = "hanabi/2p?colors=2&ranks=2&hand_size=2"
KITCHEN = "overcooked/cramped_room?max_steps=120"


def trained(folder: Path, env: str) -> str:
    """A run of a few steps."""
    options = "--num-envs 4 --num-steps 4 --num-minibatches 1 --update-epochs 1 --total-timesteps 32 --quiet"
    main(
        [
            "train",
            "ippo",
            "--env",
            env,
            "--run-dir",
            str(folder),
            *options.split(),
            "--eval-episodes=2",
            "--no-pictures",
        ]
    )
    return str(folder)


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(tmp_path_factory.mktemp("runs") / "cards", SMALL)


@pytest.fixture(scope="module")
def learner(cards: str) -> str:
    """A run of the first player alone, whose partner was the run `cards`."""
    config = ippo.Config(
        env=SMALL, policies={"player_1": cards}, num_envs=4, num_steps=4, num_minibatches=1, total_timesteps=32
    )
    folder = Path(cards).parent / "learner"
    jaxrl.fit(ippo.make(config), config, folder, quiet=True, pictures=False, eval_episodes=2)
    return str(folder)


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


def cooked(policy: Policy | None, seed: int) -> list[str]:
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


@pytest.mark.parametrize("taught", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_soup_is_served(play, tmp_path: Path, taught: bool) -> None:
    partner = ["--with", trained(tmp_path / "cook", KITCHEN)] if taught else []
    moves = cooked(load(partner[1]).policy if taught else None, 1)
    out = play("\n".join(moves), KITCHEN, *partner, "--seed", "1")
    assert ("agent_1, are played by" if taught else "agent_1, act at random") in out
    served = out.count("reward +20")
    assert served
    assert f"served {served} · step 120" in out
    assert f"return {20 * served}.0 after 120 steps. Your return is {20 * served}." in out
    assert out.endswith(f"Another game: jaxrl play {' '.join([repr(KITCHEN), *partner])} --seed 2\n")
    assert "<html" in Path("play.html").read_text()


def test_a_game_of_hanabi_hides_the_own_cards(play, cards: str) -> None:
    """The waits between the own moves need no typing."""
    out = play("p1\n" * 30, SMALL, "--with", cards, "--seat", "1", "--out", "game.html")
    rows = [line for line in out.splitlines() if line.startswith("player 1 ") and "plays" not in line]
    assert len(rows) > 4
    assert {cell for row in rows for cell in row.split()[2:]} == {"??"}
    shown = [line for line in out.splitlines() if line.startswith("player 0 ")]
    assert any("R1" in row or "Y1" in row for row in shown)
    assert "you: " not in out
    assert Path("game.html").exists()
    assert "cut short" not in out


@pytest.mark.slow
def test_one_unit_of_a_battle(play, tmp_path: Path) -> None:
    run = trained(tmp_path / "fight", "smax/3m")
    out = play("?\n" + "right\n" * 12 + "attack 0\nr\n" * 100, "smax/3m", "--with", run)
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
def test_the_next_game_keeps_the_last_one(play) -> None:
    Path("play.html").write_text("a game")
    Path("play-2.html").write_text("another")
    assert "Wrote play-3.html" in play("left\nq\n", "classic/cartpole")
    assert [Path(page).read_text() for page in ("play.html", "play-2.html")] == ["a game", "another"]


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

    monkeypatch.setattr("jaxrl.play.input.from_lines", interrupted)
    assert "cut short after 1 steps" in play("", "classic/cartpole", "--out", "games/pole.html")
    assert Path("games/pole.html").exists()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("classic/cartpole --out play.txt", "--out must end in .gif, .html or .mp4, got play.txt"),
        ("classic/cartpole --out file/play.html", "file is not a folder; name another place with --out"),
        ("classic/cartpole --out folder.gif", "folder.gif is a folder; name another place with --out"),
        ("classic/cartpole --seed 1e10", "--seed must be a whole number from 0 to 4294967295, got 10000000000"),
        ("classic/cartpole --seat 1", "The seats of classic/cartpole are 0 to 0, got 1"),
        ("classic/pendulum", "Only Discrete actions can be played by hand"),
        ("coin_game --seed -1", "--seed must be a whole number"),
        ("classic/cartpole --with {cards}", "has a single agent, and it is yours; leave out --with"),
        ("hanabi/2p --with {cards}", "does not fit hanabi/2p; type jaxrl play 'hanabi/2p?colors=2"),
        ("smax/3m --with {cards}", "was trained in hanabi/2p?colors=2&ranks=2&hand_size=2 and does not fit smax/3m"),
        ("smax/3m --with nowhere", "nowhere holds no run"),
    ],
)
def test_wrong_commands_are_explained(capsys, cards: str, command: str, sentence: str) -> None:
    Path("file").touch()
    Path("folder.gif").mkdir()
    with pytest.raises(SystemExit) as info:
        main(["play", *command.format(cards=cards).split()])
    assert info.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_other_options_that_change_no_form_are_the_same_game(play, cards: str) -> None:
    assert "cut short after 2 steps" in play("p1\nq\n", f"{SMALL}&life_tokens=3", "--with", cards, "--seat", "0")


def test_a_run_of_a_single_agent_is_nobodys_partner(play, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """So the message does not send the user to the run's own environment, where `--with` is refused."""
    config, folder = SimpleNamespace(env="classic/cartpole"), SimpleNamespace(path="runs/pole")
    run = SimpleNamespace(env=jaxrl.make("classic/cartpole"), config=config, folder=folder)
    monkeypatch.setattr("jaxrl.train.folder.load.load", lambda *_, **__: SimpleNamespace(member=lambda: run))
    with pytest.raises(SystemExit):
        play("", SMALL, "--with", "runs/pole")
    assert "it has no seat for another; give --with another run." in capsys.readouterr().err


def test_a_run_that_was_trained_beside_a_fixed_partner_plays_its_own_agent(play, learner: str, tmp_path: Path) -> None:
    out = play("", SMALL, "--with", learner, "--seat", "1", "--out", str(tmp_path / "game.html"))
    assert f"The others, player_0, are played by {learner}" in out
    with pytest.raises(SystemExit):
        play("", SMALL, "--with", learner)


def test_the_game_s_own_rules_are_a_partner(play, tmp_path: Path) -> None:
    """Whoever is told which card fits plays it."""
    out = play("h1", SMALL, "--with", "scripted", "--out", str(tmp_path / "game.html"))
    assert "player_1, are played by scripted" in out
    assert "score 1" in out
    with pytest.raises(SystemExit):
        play("", KITCHEN, "--with", "scripted")


def test_a_game_in_a_file_of_your_own_is_that_of_the_runs_copy(play, tmp_path: Path) -> None:
    Path("mine.py").write_text(
        "import jaxrl\n\n\ndef cards(ranks=2):\n"
        "    return jaxrl.make('hanabi/2p', colors=2, ranks=ranks, hand_size=2)\n"
    )
    run = trained(tmp_path / "mine", "./mine.py:cards")
    assert "cut short after 2 steps" in play("p1\nq\n", "./mine.py:cards", "--with", run, "--seat", "0")
