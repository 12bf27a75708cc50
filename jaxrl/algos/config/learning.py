"""How algorithms learn: what all configurations have in common, and what those that learn from fresh rollouts add."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from jaxrl.algos.config.hyperparams import HyperparamsLayer
from jaxrl.algos.config.network import CHOOSE_MEMORY, NetworkLayer, has_memory
from jaxrl.checked import COUNT, NOT_NEGATIVE, POSITIVE, Allowed, CheckedConfig, Effect

__all__ = ["BinsLayer", "EpochLayer", "LearningLayer", "OptimizerName"]

OptimizerName = Literal["adam", "muon", "radam"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningLayer(NetworkLayer, HyperparamsLayer):
    """How an algorithm learns with an optimiser, from minibatches."""

    optimizer: OptimizerName = "adam"
    """Optimiser; muon takes orthogonalised steps for the matrices of hidden layers, radam is an Adam that begins with
    plain momentum."""
    max_grad_norm: float = 0.5
    """Scale gradients down to this global norm; 1e9 leaves them unchanged."""
    weight_decay: float = 0.0
    """Decoupled weight decay: each step shrinks the weights of layers by lr times this. With adam it is AdamW."""
    sequence_length: int = 0
    """Steps of backpropagation through time in recurrent training; 0 means num_steps."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "max_grad_norm": POSITIVE,
        **dict.fromkeys(("weight_decay", "sequence_length"), NOT_NEGATIVE),
    }
    effects: ClassVar[tuple[Effect, ...]] = (Effect("sequence_length", ("memory",), has_memory, CHOOSE_MEMORY),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sequence_length:
            self.check_divisible("num_steps", "sequence_length")
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinsLayer(CheckedConfig):
    """Values that can be distributions over bins: a field `value_loss` says whether they are."""

    value_range: tuple[float, float] = (-10.0, 10.0)
    """Range of returns that the bins of hlgauss or c51 cover."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "value_range": Allowed(lambda ends: ends[0] < ends[1], "have its lower end first"),
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect(
            "value_range", ("value_loss",), lambda c, _: c.value_loss in ("hlgauss", "c51"), "choose value_loss=hlgauss"
        ),
    )


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
