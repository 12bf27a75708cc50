"""The configuration of the PPO family."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxrl.algos.layers import NetworkLayer, RunLayer, has_memory
from jaxrl.checked import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Allowed, Effect
from jaxrl.environment import Environment
from jaxrl.nn.heads import policy_head
from jaxrl.nn.torso import is_picture
from jaxrl.rl.annealing import annealed, by_name, lost_later
from jaxrl.rl.value import HLGauss, ScalarValue
from jaxrl.spaces import Box

__all__ = ["Hyperparams", "OnPolicyConfig"]


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


def _learns_twice(config: Any, _: Any) -> bool:
    """A policy that has learned nothing from a rollout yet has not moved."""
    return config.update_epochs * config.num_minibatches > 1


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
        Effect("sequence_length", ("memory",), has_memory, "choose memory=gru, lstm or s5"),
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
