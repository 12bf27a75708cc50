"""A run folder from elsewhere commands nothing: whatever is in its run.json, no code runs and no other file is read.

Each test works in a folder with modules, files and links that a stranger would like to have used; a listener is told
of every program that starts and of every file that is opened.
"""

import copy
import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jaxrl
from jaxrl.algos import ippo, ppo
from jaxrl.cli import main
from jaxrl.train.fit import fit
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder, describe_run

EVIL = """
import pathlib
pathlib.Path(__file__).parents[len(pathlib.Path(__file__).parents) - {depth}].joinpath("executed").touch()
from jaxrl.envs.classic import CartPole as Mine
"""
GOOD = b"from jaxrl.envs.classic import CartPole\n\n\nclass Mine(CartPole):\n    pass\n"
GADGETS = (
    "os:system?command=touch executed",
    'subprocess:call?args=["touch","executed"]',
    "builtins:exec?source=open('executed','w')",
    "pathlib:Path.touch?self=executed",
    "evil:Mine",
    "./evil.py:Mine",
    "source/evil.py:Mine",
    "source/../evil.py:Mine",
    "../secret.txt",
    "secret.txt",
    "/etc/passwd",
    "pipe",
    "link",
)
ROW = json.dumps(
    {
        **{"timesteps": 16, "seconds": 0.1, "steps_per_second": 160.0, "episodes": [1, 1]},
        **{"return_mean": [1.0, 1.0], "length_mean": [5.0, 5.0], "losses": {}},
    }
)
COMMANDS = {
    "eval": ["eval", "run", "--episodes", "2"],
    "render": ["render", "run", "--out", "film.html"],
    "resume": ["resume", "run", "--quiet"],
    "rerun": ["rerun", "run", "--run-dir", "again", "--quiet"],
    "export": ["export", "run"],
    "export a policy": ["export", "run", "--out", "policy.py"],
    "arena": ["arena", "run", "scripted"],
    "play": ["play", "overcooked/cramped_room", "--with", "run"],
    "init-from": ["train", "ippo", "--env", "mpe/simple_tag", "--init-from", "run", "--run-dir", "new", "--quiet"],
    "policies": ["train", "ippo", "--env", "mpe/simple_tag", "--policies", "adversary_.*=./run", "--run-dir", "new"],
    "plan": ["plan", "ippo", "--env", "mpe/simple_tag", "--policies", "adversary_.*=./run"],
    "config": ["config", "run:0"],
    "a run as flags": ["config", "ippo", "--config", "run:0"],
    "watch": ["watch", "run", "--once"],
    "report": ["report", "run", "--out", "report"],
}


class Commanded(BaseException):
    """A program has started, or a file that is none of the run's was opened."""


_listening: list[Path] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening:
        return
    programs = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.fork")
    if event in programs and "git" not in str(arguments):
        raise Commanded(event, arguments)
    if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        opened = Path(os.path.realpath(os.fsdecode(arguments[0])))
        if opened.name in ("secret.txt", "evil.py", "passwd", "pagemap") and "source" not in opened.parts:
            raise Commanded(event, opened)
    if event == "import" and arguments[0] == "evil":
        raise Commanded(event, arguments)


sys.addaudithook(_listen)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with what a stranger would like to use."""
    for file in ("evil.py", "run/source/evil.py", "run/evil.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(EVIL.format(depth=len(tmp_path.parts)))
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("JAXRL_CACHE", "0")
    _listening.append(tmp_path)
    yield tmp_path
    _listening.clear()


CONFIG = ippo.Config(env="mpe/simple_tag", num_envs=4, num_steps=4, num_minibatches=1, total_timesteps=64)
MEMBERS = [{"seed": 0, "lr": 1e-3}, {"seed": 1, "lr": 2e-3}]


def about(**more: Any) -> dict[str, Any]:
    """The content of a run.json of IPPO, of two seeds with a learning rate each."""
    content = json.loads(json.dumps({**describe_run(CONFIG, 2), "status": "stopped"}))
    return {**content, "members": copy.deepcopy(MEMBERS), **more}


def write(place: Path, content: dict[str, Any]) -> None:
    (place / "run" / "run.json").write_text(json.dumps(content))


def sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence with which a command refuses the run, or nothing; an exit code that says so, and no traceback."""
    capsys.readouterr()
    code: Any = 0
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr().err
    assert code in (0, 1, 2), said  # 1: there is no checkpoint that is good
    assert "Traceback" not in said
    return said.strip().rpartition("\n")[2] if code else ""


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all texts in a JSON value."""
    if isinstance(value, str):
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from strings(inner, (*path, key))


def with_gadget(content: dict[str, Any], path: tuple[Any, ...], gadget: str) -> dict[str, Any]:
    content = copy.deepcopy(content)
    inner: Any = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = gadget
    return content


def full() -> dict[str, Any]:
    """A run.json with a text wherever one can stand."""
    source = {"file": "source/evil.py", "path": "evil.py", "sha256": "0", "beside": {"helper.py": "0"}}
    content = about(sources={"algorithm": source, "env": source, "network": source})
    content["config"] |= {"params": "x", "network": "x", "policies": ["adversary_.*=A"]}
    content["options"] = {"init_from": {"run": "x", "learner": False, "best": False, "member": None}}
    content["members"][0] |= {"env": "x", "params": "x", "network": "x"}
    return content


@pytest.mark.parametrize("base", [about, full])
def test_no_text_of_a_run_json_commands_anything(base: Callable[[], dict[str, Any]], place: Path) -> None:
    """At any depth; a reader that gets nothing but a sentence has had no code run."""
    os.mkfifo(place / "run" / "source" / "fifo")
    cases = [(path, gadget) for path in strings(base()) for gadget in GADGETS]
    for path, gadget in random.Random(0).sample(cases, 60):
        write(place, with_gadget(base(), path, gadget))
        try:
            load("run")
        except (ValueError, OSError, ImportError):
            pass
        except BaseException as error:
            error.add_note(f"{path} = {gadget!r}")
            raise
        assert not (place / "executed").exists(), (path, gadget)


@pytest.mark.slow
@pytest.mark.timeout(8000)
def test_no_command_obeys_a_run_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One to three texts at once, on a run that has been trained; JAXRL_FUZZ_CASES=20000 takes an hour."""
    fit(ippo.make(CONFIG), CONFIG, "made", members=MEMBERS, quiet=True, pictures=False)
    shutil.copytree("made", "run", dirs_exist_ok=True)
    bases, commands, draw = [about(), full()], list(COMMANDS.values()), random.Random(1)
    for _ in range(int(os.environ.get("JAXRL_FUZZ_CASES", "2000"))):
        content, placed = draw.choice(bases), []
        for path in draw.sample(list(strings(content)), draw.choice((1, 1, 2, 3))):
            placed.append((path, draw.choice(GADGETS)))
            content = with_gadget(content, *placed[-1])
        write(place, content)
        command = draw.choice(commands)
        try:
            sentence(command, capsys)
        except BaseException as error:
            error.add_note(f"{command}: {placed}")
            raise
        assert not (place / "executed").exists(), (command, placed)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_what_the_environment_names(
    command: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module that this process has imported counts no more than another one."""
    content = about(env=GADGETS[0])
    content["config"]["env"] = GADGETS[0]
    write(place, content)
    said = sentence(COMMANDS[command], capsys)
    assert command in ("watch", "report", "export", "config") or "--trust" in said or "type the flag itself" in said
    assert not (place / "executed").exists()


@pytest.mark.parametrize(
    "own",
    [{"env": GADGETS[0]}, {"params": "evil:Mine"}, {"network": "source/evil.py:Mine"}, {"num_envs": 8}, {"more": 1}],
)
def test_members_have_seeds_and_traced_hyperparameters_alone(own: dict[str, Any], place: Path) -> None:
    write(place, about(members=[{"seed": 0}, {"seed": 1, **own}]))
    with pytest.raises(ValueError, match=r"members\[1\]|members differ in|no option"):
        load("run")


def test_trust_is_never_read_from_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = {"run": "run/inner", "learner": False, "best": False, "member": None}
    write(place, about(options={"init_from": {**start, "trust": True}}))
    assert "options.init_from.trust is not known" in sentence(COMMANDS["rerun"], capsys)
    write(place, about(options={"init_from": start}))
    assert "--trust" in sentence(COMMANDS["rerun"], capsys)


def kept(name: str, content: bytes, **more: Any) -> dict[str, Any]:
    source = {"file": "source/my_env.py", "path": "/x/my_env.py", "sha256": hashlib.sha256(content).hexdigest(), **more}
    config = json.loads(json.dumps(describe_run(ppo.Config(env="classic/cartpole", total_timesteps=4096), 1)))
    return {**config, "env": name, "config": {**config["config"], "env": name}, "sources": {"env": source}}


def test_the_file_that_is_checked_is_the_file_that_runs(place: Path) -> None:
    """The hash is of a file that this process knows already, and the name leads to another one."""
    for file in ("my_env.py", "run/source/my_env.py"):
        (place / file).write_bytes(GOOD)
    jaxrl.make("./my_env.py:Mine")
    write(place, kept("source/evil.py:Mine", GOOD))
    with pytest.raises(ValueError, match="which it does not name"):
        load("run")


def test_a_copy_that_changes_after_the_check_runs_as_it_was_checked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write in the folder exchanges the file whenever it has been read."""
    (place / "run/source/my_env.py").write_bytes(GOOD)
    write(place, kept("source/my_env.py:Mine", GOOD))
    read, times = Path.read_bytes, []

    def exchanged(self: Path) -> bytes:
        content = read(self)
        if self.name == "my_env.py":
            times.append(self)
            self.write_text(EVIL.format(depth=len(place.parts)))
        return content

    monkeypatch.setattr(Path, "read_bytes", exchanged)
    assert type(load("run", trust=True).env).__name__ == "Mine"
    assert times
    assert not (place / "executed").exists()


@pytest.mark.parametrize(
    "sources",
    [
        {"nothing": {"file": "source/secret.txt", "path": "secret.txt", "sha256": "0"}},
        {"env": {"file": "../secret.txt", "path": "secret.txt", "sha256": "0"}},
        {"env": {"file": "/etc/passwd", "path": "/etc/passwd", "sha256": "0"}},
        {"env": {"file": "source/my_env.py", "path": "/x", "sha256": "?", "beside": {"../secret.txt": "0"}}},
        {"env": {"file": "source/my_env.py", "path": "/x", "sha256": "?", "beside": {"/etc/passwd": "0"}}},
    ],
)
def test_a_run_reads_nothing_outside_its_folder(sources: dict[str, Any], place: Path) -> None:
    (place / "run/source/my_env.py").write_bytes(GOOD)
    content = json.loads(json.dumps(sources).replace('"?"', f'"{hashlib.sha256(GOOD).hexdigest()}"'))
    write(place, {**kept("source/my_env.py:Mine", GOOD), "sources": content})
    with pytest.raises((ValueError, OSError)):
        load("run")


@pytest.mark.parametrize("name", ["best", "checkpoints", "source"])
def test_nothing_is_written_or_deleted_through_a_link(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user's folder has numbered folders in it, as a run's checkpoints have."""
    for number in range(3):
        (place / "mine" / str(number)).mkdir(parents=True)
    folder = RunFolder(place / "run")
    write(place, {**about(), "status": "stopped"})
    if name == "source":
        (folder.path / "source" / "evil.py").unlink()
        (folder.path / "source").rmdir()
    (folder.path / name).symlink_to(place / "mine")
    assert f"{name} is a link" in sentence(COMMANDS["resume"], capsys)
    assert sorted(path.name for path in (place / "mine").iterdir()) == ["0", "1", "2"]


@pytest.mark.parametrize("to", ["tensorboard", "csv"])
def test_an_export_stays_where_it_was_told(to: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = about(members=[{}, {}])
    content["config"]["seed"] = "x/../../../../escaped"
    write(place, content)
    (place / "run" / "metrics.jsonl").write_text(f"{ROW}\n")
    assert "seed must be int" in sentence(["export", "run", "--to", to, "--out", f"out/{to}"], capsys)
    assert not (place.parent / "escaped").exists()


def test_a_config_without_a_seed_is_exported_with_the_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = about(members=None)
    del content["config"]["seed"]
    write(place, content)
    (place / "run" / "metrics.jsonl").write_text(f"{ROW}\n")
    assert sentence(["export", "run", "--to", "csv", "--out", "out"], capsys) == ""
