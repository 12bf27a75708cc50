"""The configuration of the PPO family, in layers: the run, the networks, the algorithm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import numpy as np

from jaxrl import registry
from jaxrl.checked import (
    COUNT,
    LAYERS,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SIZES,
    Allowed,
    CheckedConfig,
    Effect,
    check_log_info,
)
from jaxrl.environment import Environment
from jaxrl.nn.heads import policy_head
from jaxrl.nn.torso import Encoder, is_picture
from jaxrl.rl.annealing import annealed, by_name, lost_later
from jaxrl.rl.value import HLGauss, ScalarValue
from jaxrl.source_file import class_name, load_named
from jaxrl.spaces import Box, Space
from jaxrl.wrappers import RandomParams

__all__ = ["Hyperparams", "NetworkLayer", "OnPolicyConfig", "RunLayer"]

if TYPE_CHECKING:  # besides names, a config takes an environment and classes, and keeps their names
    EnvName = ClassName = Any
else:
    EnvName, ClassName = str, str

_MOST_UPDATES = 2**31 - 1  # they are counted in int32


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    gamma: Any
    gae_lambda: Any
    clip_eps: Any
    ent_coef: Any
    vf_coef: Any
    max_grad_norm: Any


def _has_pool(config: Any, _: Any) -> bool:
    return config.reset == "pool"


def _has_memory(config: Any, _: Any) -> bool:
    return config.memory != "none"


def _learns_twice(config: Any, _: Any) -> bool:
    """A policy that has learned nothing from a rollout yet has not moved."""
    return config.update_epochs * config.num_minibatches > 1


def _is_continuous(_: Any, env: Callable[[], Environment]) -> bool:
    return isinstance(env().action_space(), Box)


def _has_pictures(_: Any, env: Callable[[], Environment]) -> bool:
    return is_picture(env().observation_space())


def _has_no_network(config: Any, _: Any) -> bool:
    return config.network is None


def _load_network(name: str) -> Callable[..., Any]:
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"network must be a class in a file or module, such as ./my_net.py:Net; got {name!r}.")
    found = load_named(place, attribute)
    if not callable(found):
        raise ValueError(f"network={name!r} is no class of a Flax module, but a {type(found).__name__}.")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunLayer(CheckedConfig):
    """What is run: the environment, its copies, and for how long."""

    env: EnvName = "smax/3m"
    """Environment; `jaxrl envs` lists them. In Python also an environment or a class of your own."""
    params: str = ""
    """Parameters drawn anew for every episode, by a function in a file or module of your own, such as
    `./worlds.py:draw`; see `jaxrl.wrappers.RandomParams`."""
    seed: int = 0
    """Seed of all random numbers."""
    total_timesteps: int = 1_000_000
    """Environment steps in total, rounded down to whole updates."""
    num_envs: int = 128
    """Environments stepped in parallel."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    reset: Literal["fresh", "pool"] = "fresh"
    """Start of new episodes: a newly made state, or one drawn from a pool; see `VectorEnv`."""
    pool_size: int = 0
    """Starts in the pool; 0 means num_envs, or the smallest multiple of it that is at least 128."""
    pool_refresh: float = 0.25
    """Share of the pool that is renewed before every rollout, the oldest first."""
    num_shards: int = 8
    """Maximum number of shards, each with its own random numbers; the actual number divides environments and
    minibatches evenly, and any divisor of it can be the number of devices."""
    log_info: tuple[str, ...] = ()
    """Names of numbers in the environment's info to log: the mean, over episodes, of their values at the end."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("total_timesteps", "num_envs", "num_steps", "num_shards"), COUNT),
        "pool_refresh": SHARE,
        "pool_size": NOT_NEGATIVE,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("pool_size", ("reset",), _has_pool, "choose reset=pool"),
        Effect("pool_refresh", ("reset",), _has_pool, "choose reset=pool"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", registry.name_of(self.env))
        super().__post_init__()
        if self.num_updates < 1:
            raise ValueError(
                f"total_timesteps={self.total_timesteps} is less than one update of num_envs * num_steps = "
                f"{self.steps_per_update} steps; use at least total_timesteps={self.steps_per_update}."
            )
        if self.num_updates > _MOST_UPDATES:
            raise ValueError(
                f"total_timesteps={self.total_timesteps} makes {self.num_updates} updates, more than can be counted; "
                f"use at most total_timesteps={_MOST_UPDATES * self.steps_per_update}."
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps in one update."""
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates in the whole run."""
        return self.total_timesteps // self.steps_per_update

    @property
    def starts(self) -> int:
        """P, the starts in the pool."""
        return self.pool_size or -(-128 // self.num_envs) * self.num_envs

    def make_env(self) -> Environment:
        """The environment that `env` names, with parameters drawn as `params` says.

        Raises:
            ValueError: There is none, or a field has no effect in it; the message says which.
        """
        env = self._named_env()
        self.refuse_idle(env)
        check_log_info(env, self.log_info)
        return env

    def _named_env(self) -> Environment:
        env = registry.make(self.env)
        return RandomParams(env, registry.own_params(self.params)) if self.params else env

    def idle(
        self, env: Callable[[], Environment] | None = None, because: Collection[str] | None = None
    ) -> list[Effect]:
        """See `CheckedConfig.idle`; without `env`, that which the config names."""
        return super().idle(env or self._named_env, because)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkLayer(CheckedConfig):
    """The networks of policy and critic."""

    hidden: tuple[int, ...] = (64, 64)
    """Layers of the torso."""
    activation: Literal["relu", "tanh", "silu", "gelu"] = "tanh"
    """Activation function between layers."""
    memory: Literal["none", "gru", "lstm", "s5"] = "none"
    """Memory within an episode; none is feed-forward."""
    memory_size: int = 64
    """Number of features in the memory."""
    head_hidden: tuple[int, ...] = ()
    """Layers of the policy head and of the value head, after torso and memory."""
    squash: bool = False
    """Keep continuous actions within bounds by tanh, instead of letting the environment clip them."""
    share_torso: bool = True
    """Share one torso (and memory) between policy and value, instead of one each."""
    critic_hidden: tuple[int, ...] = ()
    """Layers of the critic's own torso; () means those of hidden."""
    layer_norm: bool = False
    """Normalise each layer of the torso before its activation."""
    channels: tuple[int, ...] = ()
    """Features of each convolution for pictures; () means 32 64 64 for large ones, 16 32 for those below 36 pixels."""
    network: ClassName | None = None
    """Torso of your own instead of hidden layers and convolutions, ./FILE.py:CLASS, in Python also the class: a Flax
    module that maps vectors or pictures to features."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "hidden": LAYERS,
        **dict.fromkeys(("head_hidden", "critic_hidden", "channels"), SIZES),
        "memory_size": COUNT,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("memory_size", ("memory",), _has_memory, "choose memory=gru, lstm or s5"),
        Effect("squash", ("env",), _is_continuous, "choose an environment with continuous actions"),
        Effect("channels", ("env",), _has_pictures, "choose an environment with pictures"),
        Effect("channels", ("network",), _has_no_network, "leave out network"),
        Effect("hidden", ("network",), _has_no_network, "leave out network"),
        Effect("layer_norm", ("network",), _has_no_network, "leave out network"),
        Effect("critic_hidden", ("share_torso",), lambda c, _: not c.share_torso, "choose share_torso=False"),
    )

    def __post_init__(self) -> None:
        if isinstance(self.network, type):
            object.__setattr__(self, "network", class_name(self.network))
        super().__post_init__()
        if self.memory == "s5" and self.memory_size % 2:
            raise ValueError(f"memory_size must be even for s5, got {self.memory_size}; use {self.memory_size + 1}.")

    def encoder(self, space: Space | None, hidden: tuple[int, ...] = (), own: bool = True) -> Callable[..., Encoder]:
        """`encoder(name=…)` gives the torso and the memory.

        Args:
            space: What it encodes; None for vectors.
            hidden: The layers of the torso; () means `self.hidden`.
            own: Whether `network` replaces the torso.

        Raises:
            UnknownNameError: There is no such network.
        """
        c = self
        network = _load_network(c.network) if own and c.network else None
        layers = (hidden or c.hidden, c.activation, c.memory, c.memory_size)
        return partial(Encoder, *layers, space, c.layer_norm, c.channels, network)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(NetworkLayer, RunLayer):
    """Fields of every algorithm that learns from its own fresh rollouts by proximal policy optimisation."""

    update_epochs: int = 4
    """Passes over each rollout."""
    num_minibatches: int = 4
    """Optimiser steps per pass."""
    optimizer: Literal["adam", "muon"] = "adam"
    """Optimiser; muon takes orthogonalised steps for the matrices of hidden layers."""
    lr: float = 2.5e-4
    """Learning rate."""
    anneal_lr: bool = True
    """Decrease the learning rate linearly to zero."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Trace decay in generalised advantage estimation."""
    clip_eps: float = 0.2
    """Clip probability ratios to 1 - clip_eps … 1 + clip_eps."""
    clip_value: bool = True
    """Clip the value as well, with the same clip_eps."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    anneal_ent: bool = False
    """Decrease the entropy bonus linearly to zero."""
    schedules: tuple[str, ...] = ()
    """Hyperparameters that change over the run, such as lr=cosine, ent_coef=linear:0.1 or lr=warmup:0.05+cosine: see
    `jaxrl.rl.annealing`. One for lr takes the place of anneal_lr."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Scale gradients down to this global norm; 1e9 leaves them unchanged."""
    target_kl: float | None = None
    """Stop learning from a rollout once a minibatch's approximate KL divergence exceeds this."""
    normalise_obs: bool = False
    """Standardise observations by the mean and deviation of all observations so far."""
    normalise_reward: bool = False
    """Divide rewards by the deviation of the discounted returns."""
    value_loss: Literal["mse", "hlgauss"] = "mse"
    """Output of the critic: a number, or a distribution over 51 bins (HL-Gauss)."""
    value_range: tuple[float, float] = (-10.0, 10.0)
    """Range of returns that the bins of hlgauss cover."""
    sequence_length: int = 0
    """Steps of backpropagation through time in recurrent training; 0 means num_steps."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("update_epochs", "num_minibatches"), COUNT),
        **dict.fromkeys(("lr", "max_grad_norm", "target_kl"), POSITIVE),
        **dict.fromkeys(("gamma", "gae_lambda"), SHARE),
        **dict.fromkeys(("clip_eps", "ent_coef", "vf_coef", "sequence_length"), NOT_NEGATIVE),
        "value_range": Allowed(lambda ends: ends[0] < ends[1], "have its lower end first"),
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("sequence_length", ("memory",), _has_memory, "choose memory=gru, lstm or s5"),
        Effect("value_range", ("value_loss",), lambda c, _: c.value_loss == "hlgauss", "choose value_loss=hlgauss"),
        Effect("clip_value", ("value_loss",), lambda c, _: c.value_loss == "mse", "choose value_loss=mse"),
        Effect("anneal_ent", ("schedules",), lambda c, _: "ent_coef" not in c.scheduled, "leave ent_coef out of them"),
        Effect("target_kl", ("update_epochs", "num_minibatches"), _learns_twice, "raise one of them"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_divisible("num_envs", "num_minibatches")
        if self.sequence_length:
            self.check_divisible("num_steps", "sequence_length")
        _ = self.scheduled  # refuses what is no schedule
        if self.starts % self.shards:
            works = -(-self.starts // self.shards) * self.shards
            raise ValueError(
                f"pool_size={self.pool_size} is not divisible by the {self.shards} shards of the environments; use "
                f"pool_size={works}."
            )

    @property
    def train_length(self) -> int:
        """Steps in a training sequence; one for a feed-forward network."""
        return 1 if self.memory == "none" else self.sequence_length or self.num_steps

    @property
    def shards(self) -> int:
        """S, the logical shards: the largest number up to `num_shards` that splits environments and minibatches evenly.

        Each shard has random numbers of its own, so results do not depend on how shards are spread over devices.
        """
        rows = self.num_steps // self.train_length
        even = (s for s in range(min(self.num_shards, self.num_envs), 1, -1) if self.num_envs % s == 0)
        return next((s for s in even if self.num_envs // s * rows % self.num_minibatches == 0), 1)

    @property
    def value(self) -> ScalarValue | HLGauss:
        """What the critic predicts."""
        return ScalarValue() if self.value_loss == "mse" else HLGauss(*self.value_range)

    @property
    def hyperparams(self) -> Hyperparams:
        """The fields that ride in the train state, as float32 scalars."""
        fields = [field.name for field in dataclasses.fields(Hyperparams)]
        return Hyperparams(**{name: np.float32(getattr(self, name)) for name in fields})

    def annealed(self, h: Hyperparams, update: jax.Array | int) -> Hyperparams:
        """The hyperparameters as they are in an update, given their initial values and the number of updates before."""
        falling = {"lr": self.anneal_lr, "ent_coef": self.anneal_ent}
        schedules = {name: "linear" for name, falls in falling.items() if falls} | self.scheduled
        now = {name: annealed(how, getattr(h, name), update, self.num_updates) for name, how in schedules.items()}
        return dataclasses.replace(h, **now)

    @property
    def scheduled(self) -> dict[str, str]:
        """The schedules by the names of their hyperparameters."""
        return by_name(self.schedules, [field.name for field in dataclasses.fields(Hyperparams)])

    def warnings(self) -> list[str]:
        """What the user should know when a run begins, one sentence each."""
        return lost_later(self.scheduled.values(), type(self).__module__)

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field has no effect or makes no sense in it; the message says which.
        """
        env = super().make_env()
        policy_head(env.action_space(), squash=self.squash)  # refuses what it cannot make
        space = env.observation_space()
        if self.normalise_obs and (not isinstance(space, Box) or is_picture(space)):
            why = "a convolution takes all places alike" if isinstance(space, Box) else "their numbers are mere names"
            raise ValueError(f"normalise_obs cannot standardise observations in {space}: {why}; leave it False.")
        return env
