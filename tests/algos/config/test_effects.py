"""Every field of a configuration changes what is run, or is refused with what would give it an effect."""

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import pytest
from family import agent_of

from jaxrl.algos import dqn, ippo, mappo, ppo, pqn, qmix, sac, stream_ac, stream_q, td3
from jaxrl.config import settled
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder, describe_run

GRU = {"memory": "gru"}
IDLE = [  # algorithm, a field with a value that has no effect, what gives it one
    (ppo, {"memory_size": 7}, GRU),
    (ppo, {"memory_window": 8}, {"memory": "gtrxl"}),
    (ppo, {"sequence_length": 8}, GRU),
    (ppo, {"value_range": (0.0, 1.0)}, {"value_loss": "hlgauss"}),
    (ppo, {"clip_value": True}, {"value_loss": "mse"}),
    (ppo, {"target_kl": 0.02}, {"update_epochs": 2}),
    (ppo, {"pool_size": 64}, {"reset": "pool"}),
    (ppo, {"pool_refresh": 0.5}, {"reset": "pool"}),
    (ppo, {"squash": True}, {"env": "classic/pendulum"}),
    (ippo, {"sharing": "none"}, {"env": "probe/credit"}),
    (ippo, {"torso": "entities"}, {"env": "smax/3m"}),
    (ippo, {"torso": "relations"}, {"env": "smax/3m"}),
    (ippo, {"shared_reward": True}, {"env": "probe/credit"}),
    (mappo, {"sharing": (0,)}, {"env": "probe/credit", "sharing": (0, 0)}),
]
WITHOUT = {"value_loss": "hlgauss", "update_epochs": 1, "num_minibatches": 1}  # value_range apart
SIZES = {"num_envs": 4, "num_steps": 8, "total_timesteps": 64, "hidden": (8,)}


@pytest.mark.parametrize(("module", "asked", "cure"), IDLE)
def test_what_has_no_effect_is_refused_and_the_cure_works(module, asked, cure):
    (name, value), *_ = asked.items()
    around = {"env": "classic/cartpole", **SIZES, **WITHOUT}
    around |= {"value_loss": "mse"} if name == "value_range" else {}
    default = next(field.default for field in dataclasses.fields(module.Config) if field.name == name)
    assert value != default
    module.make(module.Config(**around))  # what is merely unused is nobody's mistake
    sentence = rf"^{re.escape(f'{name}={value}')} has no effect with .*; leave it at {re.escape(str(default))}, or "
    with pytest.raises(ValueError, match=sentence):
        module.make(module.Config(**around, **asked))
    module.make(module.Config(**{**around, **asked, **cure}))


def test_weights_of_rows_need_priorities():
    with pytest.raises(ValueError, match=r"priority_correction=0.5 has no effect .* use priority_exponent=0.6"):
        dqn.make(dqn.Config(priority_correction=0.5))
    dqn.make(dqn.Config(priority_correction=0.5, priority_exponent=0.6))


def test_noise_that_grows_over_environments_needs_several():
    alone: dict[str, Any] = {"num_envs": 1, "total_timesteps": 2048, "exploration_noise_min": 0.05}
    with pytest.raises(ValueError, match=r"exploration_noise_min=0.05 has no effect with num_envs=1; leave it at None"):
        td3.make(td3.Config(**alone))
    td3.make(td3.Config(**{**alone, "num_envs": 2}))


WITH_NETWORK = [
    *((module, "classic/cartpole") for module in (ppo, pqn, dqn, stream_q)),
    *((module, "classic/pendulum") for module in (sac, td3, stream_ac)),
    *((module, "probe/credit") for module in (ippo, mappo, qmix)),
]


@pytest.mark.parametrize(("module", "env"), WITH_NETWORK)
@pytest.mark.parametrize("head_hidden", [(), (4,)])
def test_what_a_network_of_ones_own_leaves_without_effect_is_refused(module, env, head_hidden):
    """And nothing else: the networks that it does not replace have the fields that shape torsos."""

    class Unchecked(module.Config):
        def idle(self, env=None, because=None):
            return []

    def networks(fields):
        config = Unchecked(**{**around, **fields})
        init = agent_of(module.make(config)).networks.init
        return re.sub("0x[0-9a-f]+", "", str(jax.make_jaxpr(init)(jax.random.key(0))))

    around = {"env": env, "network": "flax.linen:LayerNorm", "head_hidden": head_hidden}
    around |= {"share_torso": False} if module in (ppo, ippo) else {}
    plain, changed = networks({}), {}
    known = {field.name: field.default for field in dataclasses.fields(module.Config)}
    values = {"hidden": (7,), "activation": "silu", "layer_norm": not known["layer_norm"], "critic_hidden": (7,)}
    for name, value in values.items():
        if name not in known or not value:  # switched off is never in vain
            continue
        refused = {rule.field for rule in module.Config(**around, **{name: value}).idle(because={"network"})}
        changed[name] = networks({name: value}) != plain
        assert refused == (set() if changed[name] else {name})
    assert changed["activation"] == bool(head_hidden or module in (mappo, qmix, sac, td3))


def test_switched_off_is_never_in_vain():
    """IPPO clips values by default and says nothing of it; that hlgauss clips none is what was asked for."""
    ippo.make(ippo.Config(value_loss="hlgauss"))
    ippo.make(ippo.Config(value_loss="hlgauss", clip_value=False))


class _Unchecked(mappo.Config):
    def idle(self, env=None, because=None):
        return []


# Another value for every field: whoever adds a field says here what could be typed.
ONE_STEP = {**SIZES, "env": "probe/constant_reward", "update_epochs": 1, "num_minibatches": 1, "critic_hidden": (8,)}
OTHER: dict[str, Any] = {
    "env": "probe/truncation",
    "params": f"{Path(__file__).parents[2]}/wrappers/worlds.py:draw",
    "seed": 1,
    "total_timesteps": 128,
    "num_envs": 8,
    "num_steps": 4,
    "update_epochs": 2,
    "num_minibatches": 2,
    "optimizer": "adam",
    "agents_per_step": 1,
    "weight_decay": 0.125,
    **dict.fromkeys(("lr", "gamma", "gae_lambda", "clip_eps", "ent_coef", "vf_coef", "max_grad_norm"), 0.125),
    "anneal_lr": False,
    "anneal_ent": True,
    "schedules": ("clip_eps=linear",),
    "clip_value": False,
    "target_kl": 0.5,
    "normalise_obs": True,
    "normalise_reward": True,
    "value_loss": "hlgauss",
    "value_range": (0.0, 1.0),
    "hidden": (7,),
    "activation": "relu",
    "memory": "gru",
    "memory_size": 7,
    "memory_window": 8,
    "head_hidden": (7,),
    "squash": True,
    "share_torso": True,
    "sequence_length": 4,
    "reset": "pool",
    "pool_size": 8,
    "pool_refresh": 0.5,
    "levels": "plr?size=8&score=maxmc",
    "num_shards": 2,
    "sharing": "none",
    "shared_reward": True,
    "policies": ("agent=A",),
    "policy_hyperparams": ("A.lr=0.125",),
    "other_play": True,
    "critic_hidden": (7,),
    "layer_norm": True,
    "channels": (7,),
    "network": "flax.linen:LayerNorm",
    "torso": "entities",
}


IDLE_ALONE = {
    *("memory_size", "memory_window", "sequence_length", "value_range", "squash", "sharing", "target_kl"),
    *("pool_size", "pool_refresh"),
    "channels",
    "shared_reward",
    "policies",
    "policy_hyperparams",
    "torso",
}


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(mappo.Config)])
def test_a_field_either_changes_what_is_run_or_is_refused(field, plain):
    """No field is accepted and ignored; and what is refused for that reason would indeed run the same."""
    if field in IDLE_ALONE:
        with pytest.raises(ValueError, match=f"{field}=.* has no effect"):
            _program(mappo.Config, {field: OTHER[field]})
        # `target_kl` is computed, only too late for anything to be left out.
        assert field == "target_kl" or _program(_Unchecked, {field: OTHER[field]}) == plain
    elif field == "agents_per_step":
        with pytest.raises(ValueError, match="agents_per_step=1 leaves out no agent of probe/constant_reward"):
            _program(mappo.Config, {field: OTHER[field]})
    elif field == "other_play":
        with pytest.raises(ValueError, match=r"other_play=True has no effect with env="):
            _program(mappo.Config, {field: OTHER[field]})
    elif field == "share_torso":
        with pytest.raises(ValueError, match="share_torso must be False"):
            _program(mappo.Config, {field: OTHER[field]})
    elif field == "log_info":
        with pytest.raises(ValueError, match="the info of probe/constant_reward has no number 'won'; it has none"):
            _program(mappo.Config, {field: ("won",)})
    elif field == "network":
        with pytest.raises(ValueError, match=r"hidden=.* has no effect with network="):
            _program(mappo.Config, {field: OTHER[field]})
        assert _program(mappo.Config, {field: OTHER[field], "hidden": mappo.Config.hidden}) != plain
    elif field == "params":  # a probe has none
        with pytest.raises(TypeError, match="has no parameters"):
            _program(mappo.Config, {field: OTHER[field]})
    else:
        assert _program(mappo.Config, {field: OTHER[field]}) != plain


@pytest.fixture(scope="module")
def plain():
    return _program(mappo.Config, {})


def _program(kind, fields):
    """All that a run follows from, as text: the train state, the program of an update, numbers, how often, the seed."""
    config = kind(**{**ONE_STEP, **fields})
    algo = mappo.make(config)
    state = jax.eval_shape(algo.init, jax.random.key(0))
    update = re.sub("0x[0-9a-f]+", "", str(jax.make_jaxpr(algo.update)(state)))
    return str(state), update, config.hyperparams, config.num_updates, config.seed


def test_a_run_from_before_what_has_no_effect_was_refused_can_be_opened(tmp_path):
    config = ppo.Config(env="probe/constant_reward", memory_size=128, **SIZES)
    folder = RunFolder.create(tmp_path / "run")
    folder.write(describe_run(config, 1))
    assert load(tmp_path / "run").config == settled(config) == dataclasses.replace(config, memory_size=64)


class Wide(nn.Module):
    """A network that nobody can make without a size."""

    size: int
    name_of_it: str = "wide"

    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(self.size)(x)


def test_a_network_is_made_without_arguments():
    with pytest.raises(TypeError, match=r"network='.*:Wide' is made without arguments: give a default to size\.$"):
        ppo.Config(network=Wide).encoder(None)


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        (nn.Dense(4), r"network must be the class of a Flax module, as in network=Dense, or its name; got a Dense\.$"),
        (functools.partial(nn.Dense, 4), r"as in network=Wide, or its name; got a partial\.$"),
    ],
)
def test_what_is_no_network_is_refused(network: Any, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        ppo.Config(network=network)
