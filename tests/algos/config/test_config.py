"""Configurations: what is wrong or has no effect is said before anything runs, with a value that works."""

import dataclasses
import typing
from typing import Any

import jax
import numpy as np
import pytest
from family import MODULES

from jaxrl import algos
from jaxrl.algos import ippo, mappo, ppo
from jaxrl.algos.config.learning import Hyperparams, OnPolicyConfig
from jaxrl.cli.flags import given_fields, parse_flags, preset_chosen
from jaxrl.cli.sweep import SweepFlags, read_space
from jaxrl.errors import UnknownNameError
from jaxrl.nn.layers import ACTIVATIONS
from jaxrl.nn.memory import CORES
from jaxrl.rl.optimizer import OPTIMIZERS
from jaxrl.train.members import Members
from jaxrl.tuning.member_groups import chosen_seeds, make_groups
from jaxrl.tuning.search_space import draws, points


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
        ({"num_steps": -3}, "num_steps must be at least 1"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"gamma": 1.5}, "gamma must lie between 0 and 1"),
        ({"clip_eps": -0.1}, "clip_eps must not be negative"),
        ({"memory": "gruu"}, "memory must be one of none, gru, lstm, s5, gtrxl, retention, deltanet"),
        ({"num_envs": 100, "num_minibatches": 8}, r"num_envs=100 .* num_minibatches=8; use num_minibatches=5 or"),
        ({"num_envs": 100, "num_minibatches": 8}, r"or num_envs=104\."),
        ({"num_steps": 32, "sequence_length": 7}, r"num_steps=32 .* sequence_length=7; use sequence_length=4"),
        ({"total_timesteps": 100, "num_envs": 8, "num_steps": 32}, "use at least total_timesteps=256"),
        ({"hidden": ()}, "hidden must have at least one layer"),
        ({"head_hidden": (8, 0)}, r"head_hidden must have positive sizes, got \(8, 0\)"),
        ({"target_kl": 0.0}, "target_kl must be positive"),
        ({"value_loss": "mae"}, "value_loss must be one of mse, hlgauss"),
        ({"value_range": (1.0, -1.0)}, "value_range must have its lower end first"),
        ({"memory": "s5", "memory_size": 7}, "memory_size must be a multiple of 2 for s5, got 7; use 8"),
        ({"memory": "gtrxl", "memory_size": 6}, "memory_size must be a multiple of 4 for gtrxl, got 6; use 8"),
        ({"memory": "gtrxl", "memory_window": 0}, "memory_window must be at least 1, got 0"),
        ({"torso": "entities", "normalise_obs": True}, "not be 0; choose normalise_obs=False"),
        ({"seed": -1}, "seed must be a whole number from 0 to 4294967295, got -1"),
        ({"seed": 2**32}, "seed must be a whole number from 0 to 4294967295, got 4294967296"),
        ({"total_timesteps": 1e30}, "more than can be counted; use at most total_timesteps=8796093018112"),
    ],
)
def test_bad_values_are_explained(fields, message):
    with pytest.raises(ValueError, match=message):
        ippo.Config(**fields)


def test_configs_are_frozen_and_counts_follow():
    config = ippo.Config(num_envs=4, num_steps=8, total_timesteps=1000)
    assert (config.steps_per_update, config.num_updates) == (32, 31)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.lr = 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_algorithms_are_found_by_name():
    assert algos.load("ippo") is ippo
    with pytest.raises(UnknownNameError, match="Did you mean ippo"):
        algos.load("ipo")


@pytest.mark.parametrize(
    ("fields", "shards"),
    [
        ({}, 8),  # 16 environments each, of 32 steps
        ({"memory": "gru"}, 8),  # 16 sequences each, for 4 minibatches
        ({"memory": "gru", "num_envs": 16}, 4),  # with 8 there would be 2 sequences for 4 minibatches
        ({"num_envs": 100}, 5),
        ({"num_shards": 1}, 1),
    ],
)
def test_shards_are_as_many_as_split_everything_evenly(fields, shards):
    assert ippo.Config(**fields).shards == shards


def test_a_critic_without_a_torso_of_its_own_has_no_layers_of_its_own():
    with pytest.raises(ValueError, match="share_torso must be False: mappo's critic"):
        mappo.Config(share_torso=True)
    with pytest.raises(ValueError, match="critic_hidden must have positive sizes"):
        mappo.Config(critic_hidden=(0,))
    with pytest.raises(ValueError, match=r"critic_hidden=.* has no effect with share_torso=True"):
        ippo.Config(critic_hidden=(7,)).make_env()


def test_every_number_must_be_finite_and_a_number():
    """Whatever field is added later."""
    hints = typing.get_type_hints(mappo.Config)
    floats = [field.name for field in dataclasses.fields(mappo.Config) if hints[field.name] in (float, float | None)]
    assert len(floats) >= len(dataclasses.fields(Hyperparams))
    for name in floats:
        wrongs: tuple[Any, ...] = (float("nan"), float("inf"), -float("inf"), "x", True)
        for wrong in wrongs:
            with pytest.raises(ValueError, match=f"{name} must be a finite number"):
                mappo.Config(**{name: wrong})


def test_numbers_are_pythons_own_whatever_was_given():
    given: dict[str, Any] = {"total_timesteps": 2e4, "num_envs": np.int64(16), "lr": np.float32(0.5), "hidden": [8, 8]}
    config = ppo.Config(**given)
    assert config == ppo.Config(total_timesteps=20_000, num_envs=16, lr=0.5, hidden=(8, 8))
    assert {type(getattr(config, name)) for name in given} == {int, float, tuple}
    assert hash(config)


@pytest.mark.parametrize(
    ("field", "names"),
    [("memory", CORES), ("activation", ACTIVATIONS), ("optimizer", OPTIMIZERS)],
)
def test_a_config_lists_what_there_is(field, names):
    hint = typing.get_type_hints(OnPolicyConfig)[field]
    literal, *_ = [arm for arm in (hint, *typing.get_args(hint)) if typing.get_origin(arm) is typing.Literal]
    assert list(typing.get_args(literal)) == list(names)


def test_every_preset_is_accepted():
    for module in MODULES.values():
        for preset in module.PRESETS.values():
            module.make(preset)


@pytest.mark.parametrize(
    ("name", "env", "preset"),
    [
        ("ippo", "smax/3m", "3m"),
        ("ippo", "3m", "3m"),  # JaxMARL's name for it
        ("ippo", "smax/smacv2_20_units", "smacv2_20_units"),
        ("ippo", "smax/25m", "smax"),  # that of the family: no smax/5m
        ("ippo", "smax/5m_vs_6m?see_enemy_actions=False", "5m_vs_6m"),
        ("ippo", "mpe/simple_tag?action_type=continuous", "mpe"),
        ("ippo", "overcooked/forced_coord?observe=vector", "overcooked"),
        ("ippo", "overcooked", "overcooked"),
        ("ippo", "overcooked/counter_circuit", "counter_circuit"),  # with vectors, but chosen for pictures as well
        ("ippo", "overcooked_v2/grounded_coord_simple", "overcooked_v2"),  # and not that of overcooked
        ("ippo", "overcooked_v2/counter_circuit", "overcooked_v2"),
        ("mappo", "overcooked_v2/grounded_coord_simple", "overcooked_v2"),
        ("mappo", "hanabi/2p", "hanabi"),
        ("mappo", "coin_game", "default"),
        ("ippo", "hanabi/2p", "hanabi"),
        ("pqn_vdn", "smax/3m", "3m"),
        ("pqn_vdn", "switch_riddle?num_agents=4", "switch_riddle"),
        ("mappo", "smax/smacv2_10_units", "smacv2_10_units"),
        ("mappo", "smax/smacv2_20_units", "smax"),
        ("mappo", "smax/3m", "smax"),  # though the preset jaxmarl is for the same battle
        ("mappo", "mpe/simple_speaker_listener", "speaker_listener"),
        ("ppo", "MountainCarContinuous-v0", "mountain_car_continuous"),
        ("ppo", "memory/autoencode_hard", "memory"),
        ("ppo", "./my_env.py:MyEnv", "default"),
    ],
)
def test_an_environment_chooses_its_preset(name, env, preset):
    assert algos.preset_for(MODULES[name].PRESETS, env) == preset
    module, words = MODULES[name], ["--env", env]
    config, run = parse_flags(name, module, words)
    assert (run.preset, config.env) == (preset, env)
    assert dataclasses.replace(config, env="") == dataclasses.replace(module.PRESETS[preset], env="")
    plain, run = parse_flags(name, module, [*words, "--preset", "default"])
    assert (run.preset, plain) == ("default", module.Config(env=env))


def test_an_accelerator_chooses_the_preset_for_its_family(monkeypatch):
    words = ["--env", "smax/2s3z"]
    monkeypatch.setattr("jaxrl.cli.flags.has_accelerator", lambda: True)
    for name in ("ippo", "mappo"):
        config, run = parse_flags(name, MODULES[name], words)
        assert (run.preset, config.num_envs) == ("gpu", 2048)
    assert parse_flags("ippo", ippo, ["--env", "mpe/simple_spread"])[1].preset == "mpe"
    assert parse_flags("ippo", ippo, [*words, "--preset", "default"])[0].num_envs == 128
    # Processes that join one another must do so before JAX looks for devices.
    assert parse_flags("ippo", ippo, [*words, "--distributed"])[1].preset == "smax"


def test_where_nobody_describes_units_the_preset_has_a_flat_network():
    words = ["--env", "smax/2s3z?observation_type=conic", "--lr", "0.1"]
    config, run = parse_flags("ippo", ippo, words)
    assert (run.preset, config.torso) == ("smax", "flat")
    said = preset_chosen("smax", ippo.PRESETS["smax"], config, given_fields(words))
    assert ", without torso=entities, which would have no effect here;" in said
    config, _ = parse_flags("ippo", ippo, ["--env", "smax/2s3z"])
    assert preset_chosen("smax", ippo.PRESETS["smax"], config, {"env"}).startswith(
        "Uses the preset smax, which suits smax/2s3z; --preset default"
    )


def test_environments_that_are_compared_share_their_settings():
    words = ["--env", "smax/3m", "smax/2s3z"]
    config, run, space = read_space("ippo", ippo, words, SweepFlags(), "sweep")
    assert (run.preset, space) == ("default", {"env": ["smax/3m", "smax/2s3z"]})
    assert config == ippo.Config()


def flags(*words, name="ippo"):
    return parse_flags(name, MODULES[name], list(words))[0]


def test_whole_numbers_can_be_typed_with_an_exponent():
    config = flags("--total-timesteps", "2e6", "--num-envs=1.28e2", "--hidden", "6.4e1", "32")
    assert (config.total_timesteps, config.num_envs, config.hidden) == (2_000_000, 128, (64, 32))


def test_what_a_preset_leaves_behind_is_dropped():
    assert flags("--preset", "jaxmarl").memory_size == 128
    config = flags("--preset", "jaxmarl", "--memory", "none", "--env", "classic/cartpole")
    assert (config.memory, config.memory_size, config.hidden) == ("none", 64, (128,))
    ippo.make(config)


@pytest.mark.parametrize(
    "words",
    [
        ["--memory-size", "128"],
        ["--memory_size=128"],
        ["--preset", "jaxmarl", "--memory", "none", "--memory-size", "128"],  # the preset's, but asked for
        ["--memory", "none", "--sequence-length", "8"],
        ["--value-loss", "hlgauss", "--preset", "mpe", "--clip-value", "--value-range", "0", "1", "--squash"],
    ],
)
def test_what_the_user_gives_in_vain_is_refused(words):
    with pytest.raises(ValueError, match="has no effect with"):
        ippo.make(flags(*words))


def test_a_sweep_over_memories_keeps_the_size_for_those_that_have_one():
    for words in (["--preset", "jaxmarl"], ["--memory-size", "128"]):
        config, _, space = read_space("ippo", ippo, [*words, "--memory", "none", "gru"], SweepFlags(), "sweep")
        param_sets = make_groups(config, points(config, space, 1), [0], None, None)
        assert [(g.config.memory, g.config.memory_size) for g in param_sets] == [("none", 64), ("gru", 128)]
        for group in param_sets:
            ippo.make(group.config)


def test_points_that_differ_in_nothing_that_matters_are_one():
    config = ippo.Config()
    space = {"memory": ["none", "gru"], "memory_size": [32.0, 64]}
    wanted = [("none", 64), ("gru", 32), ("gru", 64)]
    assert [tuple(point.values()) for point in points(config, space, 1)] == wanted
    assert {tuple(point.values()) for point in draws(config, space, 64)} == set(wanted)
    only_size = points(config, {"memory_size": [32, 64]}, 1)  # in vain whatever the point
    with pytest.raises(ValueError, match="memory_size=32 has no effect"):
        make_groups(config, only_size, [0], None, None)[0].config.make_env()


def test_seeds_that_are_one_for_jax_are_refused():
    with pytest.raises(ValueError, match="seed must be a whole number from 0 to 4294967295, got 4294967296"):
        Members.of(ppo.Config(seed=2**32 - 1), 2)
    with pytest.raises(ValueError, match="got 4294967296"):
        Members.of(_Seeded(), [{"seed": 0}, {"seed": 2**32}])  # a config that checks nothing
    with pytest.raises(ValueError, match="seeds: each must be a whole number from 0 to 4294967295, got 4294967296"):
        chosen_seeds("seeds", [0, 2**32], 0)
    with pytest.raises(ValueError, match=r"seeds must be a whole number; got 2\.5"):
        chosen_seeds("seeds", 2.5, 0)  # pyright: ignore[reportArgumentType]
    assert chosen_seeds("seeds", np.arange(2), 0) == [0, 1]  # pyright: ignore[reportArgumentType]
    assert chosen_seeds("seeds", np.int64(2), 5) == [5, 6]  # pyright: ignore[reportArgumentType]
    assert set(map(type, Members.of(_Seeded(), [{"seed": np.int64(3)}]).seeds)) == {int}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _OneMore(Hyperparams):
    temperature: Any


@dataclasses.dataclass(frozen=True)
class _NoPytree(Hyperparams):
    pass


@pytest.mark.parametrize(
    ("hyperparams", "sentence"),
    [
        (_OneMore, "_OneMore has temperature, and Copied does not; add a line temperature: float = … to Copied"),
        (_NoPytree, "_NoPytree is not a pytree; write @jax.tree_util.register_dataclass above"),
    ],
)
def test_hyperparameters_of_a_copy_are_fields_and_a_pytree(hyperparams: type[Hyperparams], sentence: str) -> None:
    kind = dataclasses.make_dataclass("Copied", [], bases=(ppo.Config,), frozen=True, kw_only=True)
    kind.hyperparams_class = hyperparams  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match=sentence):
        kind()


@pytest.mark.parametrize("value", [None, "high"])
def test_hyperparameters_of_a_copy_are_numbers(value: Any) -> None:
    """NumPy takes None for NaN."""
    fields = [("temperature", float | str | None, value)]
    kind: Any = dataclasses.make_dataclass("Copied", fields, bases=(ppo.Config,), frozen=True, kw_only=True)
    kind.hyperparams_class = _OneMore
    with pytest.raises(TypeError, match=rf"Copied has temperature={value!r}, .* in _OneMore are numbers; give one, or"):
        kind()
    assert kind(temperature=0.5).hyperparams.temperature == 0.5


@dataclasses.dataclass(frozen=True)
class _Seeded:
    seed: int = 0
