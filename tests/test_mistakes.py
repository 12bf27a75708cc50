"""Typing mistakes get a sentence that says what to type, and objects show themselves in a few words."""

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxrl
from jaxrl import algos
from jaxrl.algos import dqn, ippo, ppo, sac, stream_q
from jaxrl.cli import main
from jaxrl.config import check_loss
from jaxrl.tuning.sweep import sweep
from jaxrl.vector import VectorEnv

pytestmark = pytest.mark.quick

CONFIG: Any = ppo.Config(env="CartPole-v1", lr=1e-3)
ALGO: Any = ppo.make(CONFIG)
ENV: Any = CONFIG.make_env()
PPO: Any = ppo
IPPO: Any = ippo
TEAM: Any = jaxrl.make("smax/3m")
DQN: Any = dqn.make(dqn.Config())
STREAM: Any = stream_q.make(stream_q.Config())
KEY = jax.random.key(0)
evaluate: Any = jaxrl.evaluate
STATE: Any = SimpleNamespace(params=None, normaliser=None)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (lambda: jaxrl.evaluate(PPO, ENV, STATE, KEY), r"not the module ppo; give ppo.make\(config\)"),
        (lambda: jaxrl.evaluate(CONFIG, ENV, STATE, KEY), r"such as ppo.make\(config\), not a Config"),
        (lambda: evaluate(ALGO, "CartPole-v1", STATE, KEY), r"such as jaxrl.make\('CartPole-v1'\), not a str"),
        (lambda: evaluate(ALGO, type(ENV), STATE, KEY), "not the class CartPole"),
        (lambda: evaluate(ALGO, ENV, STATE, 0), r"give jax.random.key\(0\)"),
        (lambda: jaxrl.fit(PPO, CONFIG), r"not the module ppo; give ppo.make\(config\)"),
        (lambda: jaxrl.fit(CONFIG, ALGO), r"such as ppo.make\(config\), not a Config"),
        (lambda: jaxrl.fit(ALGO, PPO.Config), r"not the class Config; give Config\(\)"),
        (lambda: sweep(ALGO, CONFIG, lr=[1e-3]), "such as jaxrl.algos.ppo, not what its make returned"),
        (lambda: ALGO.act(SimpleNamespace(state=STATE), jnp.zeros((2, 4))), "not a SimpleNamespace; give its .state"),
        (lambda: ALGO.act(STATE, [[0.0, 0.0, 0.0, 0.0]]), "not a list; give jnp.asarray"),
        (lambda: IPPO.make(CONFIG), r"ippo.make takes ippo.Config\(…\), not ppo.Config\(…\); give that to ppo.make"),
        (lambda: ppo.make(PPO.Config), r"not the class Config; give ppo.Config\(\)"),
        (lambda: PPO.make("CartPole-v1"), r"takes a configuration, such as ppo.Config\(\), not a str"),
        (lambda: VectorEnv(PPO, 4), "such as what jaxrl.make returns, not a module"),
        (
            lambda: ENV.reset(KEY, TEAM.default_params),
            r"cartpole takes parameters like its default_params, a jaxrl\.\S+",
        ),
        (lambda: ENV.reset(KEY, {"gravity": 9.8}), r"not a dict; change those with dataclasses.replace\(env.default_p"),
        (
            lambda: ENV.step(jax.random.key(2), TEAM.reset(jax.random.key(1))[1], 0),
            r"cartpole.step takes the state .* not a jaxrl.envs.smax",
        ),
        (lambda: ENV.reset(0), r"give jax.random.key\(0\)"),
        (lambda: ENV.reset(), r"cartpole.reset takes a key; give jax.random.key\(0\), or any other seed"),
        (lambda: VectorEnv(ENV, 4).reset(), r"VectorEnv.reset takes a key; give jax.random.key\(0\)"),
        (
            lambda: ALGO.init(KEY, CONFIG),
            r"in a Hyperparams, not a Config; give dataclasses.replace\(config.hyperparams",
        ),
        (lambda: ALGO.init(KEY, {"lr": 1.0}), "in a Hyperparams, not a dict"),
        (lambda: STREAM.init(KEY, {"lr": 1.0}), "Hyperparams, not a dict"),
        (lambda: DQN.init(KEY, {"lr": 1.0}), "Hyperparams, not a dict"),
    ],
)
def test_the_wrong_thing_in_the_right_place(typed, sentence):
    with pytest.raises(TypeError, match=sentence):
        typed()


@pytest.mark.parametrize(("name", "value"), [("lr", 2e-3), ("num_envs", 8)])
def test_fit_refuses_an_algorithm_made_from_another_configuration(name, value):
    other = dataclasses.replace(CONFIG, **{name: value})
    with pytest.raises(ValueError, match=f"made from another configuration: {name} is .* there and {value} here"):
        jaxrl.fit(ALGO, other, quiet=True)


def test_fit_says_what_resume_takes(tmp_path):
    always: Any = "always"
    with pytest.raises(ValueError, match="resume must be True, False or \"auto\", got 'always'"):
        jaxrl.fit(ALGO, CONFIG, tmp_path / "run", resume=always, quiet=True)


def test_fit_refuses_an_algorithm_made_from_the_configuration_of_another():
    with pytest.raises(ValueError, match=r"of ppo, and this is one of ippo. Give ippo.make\(config\), or the"):
        jaxrl.fit(ALGO, ippo.Config(env="matrix"), quiet=True)


@pytest.mark.parametrize("name", algos.names())
def test_every_algorithm_refuses_the_configuration_of_another(name):
    algorithm, other = algos.load(name), ppo if name != "ppo" else sac
    with pytest.raises(TypeError, match=rf"{name}.make takes {name}.Config"):
        algorithm.make(other.Config())


@pytest.mark.parametrize("name", algos.names())
def test_every_algorithm_says_which_arguments_its_loss_takes(name):
    algorithm = algos.load(name)
    own = inspect.signature(algorithm.make).parameters["loss"].default
    with pytest.raises(TypeError, match=rf"^{name}.make takes .* \(agent, h, params, .* these: too many positional"):
        algorithm.make(algorithm.Config(), lambda params, batch: own)
    algorithm.make(algorithm.Config(), jax.jit(own))


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (ENV, r"params, batch\), not a CartPole; name the environment in the configuration, Config\(env=…\)"),
        (type(ENV), r"not the class CartPole; name the environment in the configuration"),
        (None, r"not a NoneType\.$"),
        (dqn.loss, r"and loss cannot be called with these: missing a required argument: 'batch'\.$"),
        (lambda agent, h, *, params, batch: 0, "<lambda> cannot be called with these: too many positional arguments"),
    ],
)
def test_what_cannot_be_a_loss_is_refused_before_anything_is_traced(loss, sentence):
    with pytest.raises(TypeError, match=sentence):
        ppo.make(CONFIG, loss)


def test_an_algorithm_of_ones_own_compares_losses_with_its_own_default():
    def loss(agent, h, params, batch, more):
        raise NotImplementedError

    def make(config, loss=loss):
        check_loss(loss, make)

    make(CONFIG)
    make(CONFIG, lambda *arguments: 0)
    with pytest.raises(TypeError, match=r"test_mistakes.make takes .* \(agent, h, params, batch, more\)"):
        make(CONFIG, ppo.loss)
    check_loss(ppo.loss, lambda config: None)  # whose make takes no loss


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [((4,), r"\[B, 4\], not \[4\]; for a single one give obs\[None\]"), ((2, 5), r"\[B, 4\], not \[2, 5\]\.")],
)
def test_observations_of_another_shape(shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        ALGO.act(STATE, jnp.zeros(shape))


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (
            lambda: TEAM.step(KEY, None, [1, 0]),
            r"one array of the shape \[3\] \(3 agents\), got \[2\]; give an action for each",
        ),
        (lambda: TEAM.step(KEY, None, jnp.zeros((4, 3), int)), r"got \[4, 3\]; jaxrl.VectorEnv steps many"),
        (lambda: ENV.step(KEY, None, jnp.zeros(1, int)), r"one array of the shape \[\], got \[1\]"),
        (lambda: VectorEnv(TEAM, 4).step(KEY, None, jnp.zeros((3, 4), int)), r"\[4, 3\] \(4 environments, 3 agents\)"),
        (lambda: VectorEnv(TEAM, 4).step(KEY, None, jnp.zeros(3, int)), r"got \[3\]\."),
        (lambda: VectorEnv(ENV, 4, "pool").step(KEY, None, jnp.zeros((), int)), r"\[4\] \(4 environments\), got \[\]"),
    ],
)
def test_actions_of_another_shape(typed, sentence):
    with pytest.raises(ValueError, match=sentence):
        typed()


def test_dicts_of_actions_are_another_librarys():
    with pytest.raises(TypeError, match=r"one array of the shape \[3\] .* not a dict; jaxrl.interop.to_jaxmarl takes"):
        TEAM.step(KEY, None, {"ally_0": 1})


@pytest.mark.parametrize(
    ("flag", "ours"), [("--learning-rate 1", "--lr"), ("--n-envs=2", "--num-envs"), ("--clip_range 1", "--clip-eps")]
)
def test_a_flag_by_the_name_that_another_library_gives_it(flag, ours, capsys):
    with pytest.raises(SystemExit):
        main(["train", "ppo", *flag.split()])
    assert f"did you mean {ours}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "field"),
    [("train", "quiet"), ("train", "num_processes"), ("sweep", "samples"), ("search", "budget"), ("plan", "preset")],
)
def test_a_field_of_ones_own_with_the_name_of_a_flag(command: str, field: str, tmp_path: Path, capsys) -> None:
    file = tmp_path / "my_ppo.py"
    fields = f"@dataclasses.dataclass(frozen=True, kw_only=True)\nclass Config(ppo.Config):\n    {field}: int = 1\n"
    rest = "PRESETS = {'default': Config()}\nmake = ppo.make\n"
    file.write_text(f"import dataclasses\nfrom jaxrl.algos import ppo\n{fields}{rest}")
    with pytest.raises(SystemExit):
        main([command, str(file)])
    flag = f"--{field.replace('_', '-')} is a flag of `jaxrl {command}` itself; give the field another name."
    assert f"my_ppo.py has a field {field}, and {flag}" in capsys.readouterr().err


def test_a_field_of_ones_own_that_run_json_cannot_hold(tmp_path: Path, capsys) -> None:
    """A compiled function, of which the parser of flags would say less."""
    file = tmp_path / "my_ppo.py"
    fields = "@dataclasses.dataclass(frozen=True, kw_only=True)\nclass Config(ppo.Config):\n    fn: object = jnp.tanh\n"
    rest = "PRESETS = {'default': Config()}\nmake = ppo.make\n"
    file.write_text(f"import dataclasses\nimport jax.numpy as jnp\nfrom jaxrl.algos import ppo\n{fields}{rest}")
    with pytest.raises(SystemExit):
        main(["train", str(file)])
    assert "run.json cannot hold fn=<" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("train ppo --env CartPole-v1 --hidden 64,32", "--hidden takes values with spaces in between: --hidden 64 32."),
        ("train ppo smax/3m", "smax/3m stands without a flag; did you mean --env smax/3m?"),
        ("sweep ppo CartPole-v1 --lr 1e-3 3e-3", "did you mean --env CartPole-v1?"),
        ("train ppo --anneal-lr false", "--anneal-lr takes no value; --no-anneal-lr says it"),
        ("train ppo --anneal-lr=True", "--anneal-lr takes no value; --anneal-lr says it"),
        ("train ppo --pictures False --lr 1e-3", "--no-pictures says it"),
    ],
)
def test_words_without_a_flag_and_switches_with_a_value(typed: str, sentence: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main(typed.split())
    assert sentence in capsys.readouterr().err


class Bare:
    """A train state whose author forgot the decorators."""


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_train_state_that_is_not_a_pytree_is_named(seeds: int) -> None:
    config = ppo.Config(num_envs=4, num_steps=4, total_timesteps=16)
    algo = ppo.make(config)._replace(init=lambda key, hyperparams=None: Bare())
    with pytest.raises(
        TypeError, match=r"a Bare, which is not a pytree; write @jax\.tree_util\.register_dataclass and"
    ):
        jaxrl.fit(algo, config, num_seeds=seeds, quiet=True)


def test_several_members_are_not_evaluated_as_one() -> None:
    states = jax.jit(jax.vmap(ALGO.init))(jax.random.split(jax.random.key(0), 2))
    with pytest.raises(ValueError, match=r"holds 2 members; evaluate them side by side: jax.vmap\(lambda s, k"):
        jaxrl.evaluate(ALGO, ENV, states, jax.random.key(1))
    keys = jax.random.split(jax.random.key(1), 2)
    played = jax.eval_shape(jax.vmap(lambda s, k: jaxrl.evaluate(ALGO, ENV, s, k, episodes=3)), states, keys)
    assert played.returns.shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("learning_rate", "lr"), ("LR", "lr"), ("n_envs", "num_envs"), ("hiden", "hidden")],
)
def test_a_field_by_another_name(name: str, meant: str) -> None:
    for typed in (lambda: PPO.Config(**{name: 1}), lambda: dataclasses.replace(CONFIG, **{name: 1})):
        with pytest.raises(TypeError, match=f"ppo.Config has no field '{name}'. Did you mean {meant}"):
            typed()


def test_objects_show_themselves_in_a_few_words():
    smax = jaxrl.make("smax/3m")
    assert repr(CONFIG) == "ppo.Config(env='CartPole-v1', lr=0.001)"
    assert repr(smax).startswith("<smax/3m: agents 3 ally, observation Box(")
    assert repr(ENV).startswith("<classic/cartpole: observation Box(")
    assert repr(VectorEnv(ENV, 4)).startswith("<VectorEnv: 4 copies of <classic/cartpole")
    assert repr(ALGO).startswith("Algorithm(init=jaxrl.algos.ppo.init, update=jaxrl.algos.ppo.update, ")
    for shown in (CONFIG, smax, VectorEnv(ENV, 4), ALGO):
        page = shown._repr_html_()
        assert len(repr(shown)) < 300
        assert page.count("<tr>") > 2
        assert "<smax" not in page  # escaped
    assert ">lr<" in CONFIG._repr_html_()


def test_python_m_jaxrl_is_the_command():
    done = subprocess.run([sys.executable, "-m", "jaxrl", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"jaxrl {jaxrl.__version__}\n"
