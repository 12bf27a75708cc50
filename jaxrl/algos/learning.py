"""How algorithms learn: what all configurations have in common, and what those that learn from fresh rollouts add."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from jaxrl.algos.layers import NetworkLayer, RunLayer, has_memory
from jaxrl.checked import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Allowed, Effect
from jaxrl.environment import Environment
from jaxrl.nn.torso import is_picture
from jaxrl.rl.annealing import annealed, by_name, lost_later
from jaxrl.spaces import Box

__all__ = ["EpochLayer", "LearningLayer", "OptimizerName"]

OptimizerName = Literal["adam", "muon", "radam"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningLayer(NetworkLayer, RunLayer):
    """How an algorithm learns."""

    optimizer: OptimizerName = "adam"
    """Optimiser; muon takes orthogonalised steps for the matrices of hidden layers, radam is an Adam that begins
    without momentum's bias."""
    lr: float = 2.5e-4
    """Learning rate."""
    anneal_lr: bool = True
    """Decrease the learning rate linearly to zero."""
    schedules: tuple[str, ...] = ()
    """Hyperparameters that change over the run, such as lr=cosine, gamma=linear:0.9 or lr=warmup:0.05+cosine: see
    `jaxrl.rl.annealing`. One for lr takes the place of anneal_lr."""
    gamma: float = 0.99
    """Discount factor."""
    max_grad_norm: float = 0.5
    """Scale gradients down to this global norm; 1e9 leaves them unchanged."""
    normalise_obs: bool = False
    """Standardise observations by the mean and deviation of all observations so far."""
    normalise_reward: bool = False
    """Divide rewards by the deviation of the discounted returns."""
    sequence_length: int = 0
    """Steps of backpropagation through time in recurrent training; 0 means num_steps."""

    hyperparams_class: ClassVar[type[Any]]
    """The algorithm's hyperparameters that need no recompilation: a dataclass and pytree with names of fields."""
    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("lr", "max_grad_norm"), POSITIVE),
        "gamma": SHARE,
        "sequence_length": NOT_NEGATIVE,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("sequence_length", ("memory",), has_memory, "choose memory=gru, lstm or s5"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
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
        even = (s for s in range(min(self.num_shards, self.num_envs), 1, -1) if self.num_envs % s == 0)
        return next(filter(self._splits_minibatches, even), 1)

    def _splits_minibatches(self, shards: int) -> bool:
        """Whether each minibatch can have equally many rows from every shard."""
        raise NotImplementedError

    @property
    def hyperparams(self) -> Any:
        """The fields that ride in the train state, as float32 scalars."""
        return self.hyperparams_class(**{name: np.float32(getattr(self, name)) for name in self._hyperparameters()})

    @property
    def falling(self) -> tuple[str, ...]:
        """The hyperparameters that decrease linearly to zero."""
        return ("lr",) if self.anneal_lr else ()

    def annealed(self, h: Any, update: jax.Array | int) -> Any:
        """The hyperparameters as they are in an update, given their initial values and the number of updates before."""
        schedules = dict.fromkeys(self.falling, "linear") | self.scheduled
        now = {name: annealed(how, getattr(h, name), update, self.num_updates) for name, how in schedules.items()}
        return dataclasses.replace(h, **now)

    @property
    def scheduled(self) -> dict[str, str]:
        """The schedules by the names of their hyperparameters."""
        return by_name(self.schedules, self._hyperparameters())

    def warnings(self) -> list[str]:
        """What the user should know when a run begins, one sentence each."""
        return lost_later(self.scheduled.values(), type(self).__module__)

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field has no effect or makes no sense in it; the message says which.
        """
        env = super().make_env()
        space = env.observation_space()
        if self.normalise_obs and (not isinstance(space, Box) or is_picture(space)):
            why = "a convolution takes all places alike" if isinstance(space, Box) else "their numbers are mere names"
            raise ValueError(f"normalise_obs cannot standardise observations in {space}: {why}; leave it False.")
        return env

    def _hyperparameters(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self.hyperparams_class)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochLayer(LearningLayer):
    """How an algorithm learns from its own fresh rollouts, in epochs of minibatches."""

    update_epochs: int = 4
    """Passes over each rollout."""
    num_minibatches: int = 4
    """Optimiser steps per pass."""

    allowed: ClassVar[dict[str, Allowed]] = dict.fromkeys(("update_epochs", "num_minibatches"), COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_divisible("num_envs", "num_minibatches")

    @property
    def gradients_per_update(self) -> int:
        """Optimiser steps per update."""
        return self.update_epochs * self.num_minibatches

    def _splits_minibatches(self, shards: int) -> bool:
        rows = self.num_steps // self.train_length
        return self.num_envs // shards * rows % self.num_minibatches == 0
