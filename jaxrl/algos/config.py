"""What the configurations of the PPO family have in common."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import numpy as np

from jaxrl.environment import Environment
from jaxrl.nn.memory import CORES
from jaxrl.nn.torso import ACTIVATIONS
from jaxrl.registry import make
from jaxrl.rl.optimizer import OPTIMIZERS
from jaxrl.rl.schedules import scheduled
from jaxrl.rl.value import VALUES, HLGauss, ScalarValue

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicyConfig:
    """Fields of every algorithm that learns from its own fresh rollouts by proximal policy optimisation."""

    env: str = "smax/3m"
    """Environment, as `jaxrl envs` lists them."""
    seed: int = 0
    """Everything random follows from it."""
    total_timesteps: int = 1_000_000
    """Environment steps in all; rounded down to whole updates."""
    num_envs: int = 128
    """Environments stepped side by side."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    update_epochs: int = 4
    """Passes over each rollout."""
    num_minibatches: int = 4
    """Optimiser steps a pass."""
    optimizer: Literal["adam", "muon"] = "adam"
    """How steps are made of gradients; muon turns the matrices of hidden layers by orthogonal steps."""
    lr: float = 2.5e-4
    """Learning rate."""
    anneal_lr: bool = True
    """Let the learning rate fall linearly to zero."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Decay of the trace in generalised advantage estimation."""
    clip_eps: float = 0.2
    """Probability ratios are clipped to 1 - clip_eps … 1 + clip_eps."""
    clip_value: bool = True
    """Clip the value as well, by the same clip_eps."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    anneal_ent: bool = False
    """Let the entropy bonus fall linearly to zero."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this global norm."""
    target_kl: float | None = None
    """Learn no more from a rollout once a minibatch's approximate KL divergence exceeds this."""
    normalise_obs: bool = False
    """Standardise observations by the mean and deviation of all that was seen."""
    normalise_reward: bool = False
    """Divide rewards by the deviation of the discounted returns."""
    value_loss: Literal["mse", "hlgauss"] = "mse"
    """What the critic predicts: a number, or a distribution over 51 bins (HL-Gauss)."""
    value_range: tuple[float, float] = (-10.0, 10.0)
    """The returns that the bins of hlgauss cover."""
    hidden: tuple[int, ...] = (64, 64)
    """Layers of the torso."""
    activation: Literal["relu", "tanh", "silu", "gelu"] = "tanh"
    """Between layers."""
    memory: Literal["none", "gru", "lstm", "s5"] = "none"
    """What the policy remembers within an episode; none is feed-forward."""
    memory_size: int = 64
    """Features of the memory."""
    head_hidden: tuple[int, ...] = ()
    """Layers of the policy and of the value head, after the torso and memory."""
    squash: bool = False
    """Keep continuous actions inside their bounds by tanh, instead of letting the environment clip them."""
    share_torso: bool = True
    """Policy and value use one torso (and memory) instead of one each."""
    sequence_length: int = 0
    """Steps of backpropagation through time in recurrent training; 0 means num_steps."""
    reset: Literal["fresh", "pool"] = "fresh"
    """Where new episodes begin: in states made for them, or in ones drawn from a pool; see `VectorEnv`."""
    pool_size: int = 0
    """Starts in the pool; 0 means num_envs, or as many times that as make 128."""
    pool_refresh: float = 0.25
    """Share of the pool that is made anew before every rollout, the oldest first."""
    num_shards: int = 8
    """At most so many parts, each with its own random numbers: any divisor of it can be the number of devices."""

    def __post_init__(self) -> None:
        counts = "total_timesteps num_envs num_steps update_epochs num_minibatches memory_size num_shards"
        for name in counts.split():
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("lr", "max_grad_norm", "target_kl"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}.")
        for name in ("clip_eps", "ent_coef", "vf_coef", "sequence_length"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        self._one_of("activation", list(ACTIVATIONS))
        self._one_of("memory", list(CORES))
        self._one_of("optimizer", list(OPTIMIZERS))
        self._one_of("reset", ["fresh", "pool"])
        self._one_of("value_loss", list(VALUES))
        if not self.value_range[0] < self.value_range[1]:
            raise ValueError(f"value_range needs its lower end first, got {self.value_range}.")
        if not self.hidden or min((*self.hidden, *self.head_hidden)) < 1:
            raise ValueError(f"hidden needs at least one layer and positive sizes, got {self.hidden}.")
        if self.memory == "s5" and self.memory_size % 2:
            raise ValueError(f"memory_size must be even for s5, got {self.memory_size}; use {self.memory_size + 1}.")
        self._divisible("num_envs", "num_minibatches")
        if self.sequence_length:
            self._divisible("num_steps", "sequence_length")
        self._check_pool()
        if self.num_updates < 1:
            raise ValueError(
                f"total_timesteps={self.total_timesteps} is less than one update of num_envs * num_steps = "
                f"{self.steps_per_update} steps; use at least total_timesteps={self.steps_per_update}."
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
    def starts(self) -> int:
        """P, the starts in the pool."""
        return self.pool_size or -(-128 // self.num_envs) * self.num_envs

    @property
    def value(self) -> ScalarValue | HLGauss:
        """What the critic predicts."""
        return ScalarValue() if self.value_loss == "mse" else HLGauss(*self.value_range)

    @property
    def hyperparams(self) -> Hyperparams:
        """The fields that ride in the train state, as float32 scalars."""
        fields = [field.name for field in dataclasses.fields(Hyperparams)]
        return Hyperparams(**{name: np.float32(getattr(self, name)) for name in fields})

    def scheduled(self, h: Hyperparams, update: jax.Array) -> Hyperparams:
        """The hyperparameters as they are in an update, given their initial values and the number of updates before."""
        lr = scheduled("linear" if self.anneal_lr else "constant", h.lr, update, self.num_updates)
        ent_coef = scheduled("linear" if self.anneal_ent else "constant", h.ent_coef, update, self.num_updates)
        return dataclasses.replace(h, lr=lr, ent_coef=ent_coef)

    def make_env(self) -> Environment:
        """The environment that `env` names."""
        return make(self.env)

    def _check_pool(self) -> None:
        usual = type(self).pool_size, type(self).pool_refresh
        if self.reset != "pool" and (self.pool_size, self.pool_refresh) != usual:
            raise ValueError('pool_size and pool_refresh are for reset="pool" only; leave them out, or give that too.')
        if self.pool_size < 0 or not 0 <= self.pool_refresh <= 1:
            raise ValueError(
                f"A pool needs a pool_size of at least 1 (or 0 for the usual) and a pool_refresh between 0 and 1, got "
                f"{self.pool_size} and {self.pool_refresh}."
            )
        if self.starts % self.shards:
            works = -(-self.starts // self.shards) * self.shards
            raise ValueError(
                f"pool_size={self.pool_size} is not divisible by the {self.shards} shards of the environments; use "
                f"pool_size={works}."
            )

    def _one_of(self, name: str, choices: list[str]) -> None:
        if getattr(self, name) not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}.")

    def _divisible(self, total: str, part: str) -> None:
        """Raise unless field `total` is a multiple of field `part`, and name a value that works."""
        number, divisor = getattr(self, total), getattr(self, part)
        if number % divisor:
            works = max(d for d in range(1, divisor) if number % d == 0)
            rounded = -(-number // divisor) * divisor
            raise ValueError(
                f"{total}={number} is not divisible by {part}={divisor}; use {part}={works} or {total}={rounded}."
            )
