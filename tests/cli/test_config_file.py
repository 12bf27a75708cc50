"""Files that configure: `--config` reads them, `jaxrl config` writes them, and what is typed comes last."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from jaxrl import algos
from jaxrl.algos import ippo, ppo
from jaxrl.cli import main
from jaxrl.cli.config_file import as_text, of_run, read_flag_file
from jaxrl.cli.flags import parse_flags
from jaxrl.cli.sweep import SweepFlags, read_space
from jaxrl.train.folder.run_folder import config_to_json, describe_run
from jaxrl.train.folder.trust import vouch

pytestmark = pytest.mark.quick

QUICK = ["--quiet", "--eval-episodes", "8", "--no-pictures"]


def written(text: str, name: str = "file.yaml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def parsed(*words: str) -> tuple[ippo.Config, Any]:
    return parse_flags("ippo", ippo, list(words))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(words)
    assert exit_info.value.code == 2
    return capsys.readouterr().err


def config_of(run: str) -> dict[str, Any]:
    return json.loads((Path(run) / "run.json").read_text())["config"]


FILE = """\
# Numbers as in Python: PyYAML alone takes 1e-3 for text.
env: smax/3m
total_timesteps: 1e6
lr: 1e-3
hidden: [32, 16]
anneal_lr: no
params: ''
target_kl: null
num_seeds: 4
mesh.member: 1
logger: tensorboard
"""


def test_a_file_holds_flags_and_what_is_typed_wins() -> None:
    file = written(FILE)
    config, run = parsed("--config", file)
    flags = "--env smax/3m --total-timesteps 1e6 --lr 1e-3 --hidden 32 16 --no-anneal-lr --num-seeds 4 --mesh.member 1"
    assert config == parsed(*flags.split())[0]
    assert (run.num_seeds, run.mesh.member, run.logger, run.preset) == (4, 1, "tensorboard", "3m")
    config, run = parsed("--lr", "0.5", f"--config={file}", "--anneal-lr", "--num-seeds", "2", "--hidden", "8")
    assert (config.lr, config.anneal_lr, config.hidden, run.num_seeds) == (0.5, True, (8,), 2)
    assert config.total_timesteps == 1_000_000


def test_a_file_overrides_the_preset_and_may_name_it() -> None:
    file = written("preset: jaxmarl\nenv: smax/2s3z\nmemory: none\n")
    config, run = parsed("--config", file)
    jaxmarl = ippo.PRESETS["jaxmarl"]
    assert (config.env, config.num_envs, run.preset) == ("smax/2s3z", jaxmarl.num_envs, "jaxmarl")
    assert (config.memory, config.memory_size) == ("none", 64)  # the preset's 128 would have no effect
    assert parsed("--config", file, "--preset", "default")[1].preset == "default"


def test_what_a_typed_flag_makes_idle_is_dropped_and_what_the_file_itself_does_is_refused() -> None:
    file = written("env: smax/3m\nmemory: gru\nmemory_size: 32\n")
    assert parsed("--config", file)[0].memory_size == 32
    assert parsed("--config", file, "--memory", "none")[0].memory_size == 64
    with pytest.raises(ValueError, match="memory_size=32 has no effect with memory=none"):
        parsed("--config", written("env: smax/3m\nmemory_size: 32\n"))[0].make_env()


def test_a_sweep_may_begin_with_a_file() -> None:
    file = written("lr: 1e-2\ntotal_timesteps: 4096\n")
    config, _, space = read_space("ppo", ppo, ["--config", file, "--lr", "1e-3", "2e-3"], SweepFlags(), "sweep")
    assert (space, config.total_timesteps) == ({"lr": [1e-3, 2e-3]}, 4096)


@pytest.mark.parametrize(("name", "as_yaml"), [("sac", True), ("self_play", True), ("mat", False)])
def test_every_preset_comes_back_from_a_file(name: str, as_yaml: bool) -> None:
    module = algos.load(name)
    for config in module.PRESETS.values():
        file = written(as_text({"algorithm": name, **config_to_json(config)}, as_yaml), "file")
        assert parse_flags(name, module, ["--config", file])[0] == config


def test_texts_that_look_like_numbers_stay_texts() -> None:
    values = {"a": "1e-3", "b": "no", "c": ["1", "é\N{GRINNING FACE}"], "d": 1e-5, "e": None}
    text = as_text(values, True)
    assert parsed_values(text) == parsed_values(as_text(values, False)) == values
    assert "c: [" in text


def parsed_values(text: str) -> dict[str, Any]:
    return read_flag_file(written(text, "values")).values


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("learning_rate: 1", "file.yaml, line 2: there is no 'learning_rate'. Did you mean lr?"),
        ("num_env: 4", "file.yaml, line 2: there is no 'num_env'. Did you mean num_envs"),
        ("trust: true", "file.yaml, line 2: there is no 'trust'"),
        ("lr: fast", "file.yaml, line 2: lr must be a finite number that float32 has; got 'fast'."),
        ("hidden: 64, 64", "file.yaml, line 2: hidden must be a tuple, each entry a whole number; got '64, 64'."),
        ("preset: jaxmral", "ippo has no preset 'jaxmral'. Did you mean jaxmarl"),
        ("lr: : 3", "file.yaml, line 2 is no YAML: mapping values are not allowed here."),
        ("- lr", "file.yaml, line 2 is no YAML"),
        ("num_envs: -4", "num_envs must be at least 1, got -4."),
    ],
)
def test_a_mistake_is_told_with_its_line(capsys: pytest.CaptureFixture[str], text: str, sentence: str) -> None:
    assert sentence in refused(capsys, "train", "ippo", "--config", written(f"seed: 1\n{text}\n"))


def test_what_is_no_file_of_flags_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere cannot be read: No such file" in refused(capsys, "train", "ippo", "--config", "nowhere")
    assert "file.yaml holds no flags: write lines such as" in refused(
        capsys, "train", "ippo", "--config", written("just a text")
    )
    assert ". holds no run" in refused(capsys, "train", "ippo", "--config", ".")
    assert "Say which algorithm" in refused(capsys, "train", "--config", written("seed: 1"))


def test_a_run_comes_back_from_its_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "toy", "--sizes", "3", "4", "--lr", "0.25", "--num-seeds", "2", "--run-dir", "a", *QUICK])
    main(["config", "a", "--yaml"])
    file = written(capsys.readouterr().out)
    main(["train", "toy", "--config", file, "--run-dir", "b", *QUICK])
    assert config_of("b") == config_of("a")
    assert json.loads(Path("b/run.json").read_text())["num_seeds"] == 2
    for name in ("a", "a/run.json", file):
        main(["config", "toy", "--config", name, "--seed", "3"])
        expected = {"algorithm": "toy", "num_seeds": 2, **config_of("a"), "seed": 3}
        assert json.loads(capsys.readouterr().out) == expected
    main(["config", "a:1"])
    one = json.loads(capsys.readouterr().out)
    assert (one["seed"], "num_seeds" in one) == (1, False)
    assert "The run has no seed :2" in refused(capsys, "config", "a:2")


def test_members_with_values_of_their_own_are_named() -> None:
    about = {"algorithm": "ppo", "config_class": "jaxrl.algos.ppo:Config", "env": "classic/cartpole", "num_seeds": 2}
    about |= {"config": {"lr": 0.1, "seed": 0}, "members": [{"seed": 0, "lr": 0.25}, {"seed": 0, "lr": 0.5}]}
    with pytest.raises(ValueError, match="each with its own values; name one: RUN:0 to RUN:1"):
        of_run(about)
    assert of_run(about, 1) == {"algorithm": "ppo", "lr": 0.5, "seed": 0}


def test_an_algorithm_with_flags_is_written_and_the_file_says_which(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["config", "toy", "--lr", "0.25", "--yaml"])
    file = written(capsys.readouterr().out)
    assert yaml.safe_load(Path(file).read_text())["algorithm"] == "toy"
    main(["train", "--config", file, "--run-dir", "a", *QUICK])
    assert config_of("a")["lr"] == 0.25
    assert "line 2: there is no" in refused(capsys, "train", "ppo", "--config", written("algorithm: toy\nnan_at: 3\n"))


def test_the_preset_is_spoken_of_only_where_it_decides_something(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jaxrl.cli.train.train", lambda *_: 0)
    main(["train", "--config", written("algorithm: ppo\nenv: Acrobot-v1\n")])
    assert capsys.readouterr().out.startswith("Uses the preset acrobot, which suits Acrobot-v1; --preset default")
    main(["train", "--config", written("algorithm: ppo\nenv: Acrobot-v1\npreset: acrobot")])
    main(["config", "ppo", "--env", "Acrobot-v1", "--yaml"])
    whole = written(capsys.readouterr().out)
    main(["train", "--config", whole])
    assert capsys.readouterr().out == ""


CODE = "from jaxrl.envs.classic import CartPole\n\n\nclass Mine(CartPole):\n    pass\n"


def test_code_of_ones_own_goes_by_where_it_lies_and_a_strangers_is_not_executed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    Path("my_env.py").write_text(CODE, encoding="utf-8")
    shutil.copy(str(ppo.__file__), "my_ppo.py")
    about = describe_run(algos.load("./my_ppo.py").Config(env="./my_env.py:Mine"), 1)
    Path("a").mkdir()
    Path("a/run.json").write_text(json.dumps(about | vouch(about)))
    assert config_of("a")["env"] == "source/my_env.py:Mine"
    main(["config", "a", "--yaml"])
    values = yaml.safe_load(capsys.readouterr().out)
    assert (values["algorithm"], values["env"]) == ("my_ppo.py", "my_env.py:Mine")
    main(["config", "my_ppo.py", "--config", "a"])
    assert json.loads(capsys.readouterr().out)["env"] == "my_env.py:Mine"
    # Whoever has no record of the run has not made it.
    monkeypatch.setenv("XDG_STATE_HOME", str(workplace / "elsewhere"))
    said = refused(capsys, "train", "my_ppo.py", "--config", "a")
    assert "a/run.json names code or a run as its env" in said
    assert "type the flag itself: --env source/my_env.py:Mine" in said
    main(["config", "my_ppo.py", "--config", "a", "--env", "CartPole-v1"])
    assert "Say which algorithm" in refused(capsys, "train", "--config", "a", "--env", "CartPole-v1")


def test_places_of_files_in_a_run_json_are_believed_only_where_the_run_names_code() -> None:
    source = {"file": "classic", "path": "os:system?", "sha256": "0"}
    about = {"algorithm": "ppo", "config_class": "jaxrl.algos.ppo:Config", "env": "classic/cartpole", "num_seeds": 1}
    about |= {"config": {"env": "classic/cartpole"}, "members": None, "sources": {"env": source, "algorithm": source}}
    assert of_run(about) == {"algorithm": "ppo", "env": "classic/cartpole"}
