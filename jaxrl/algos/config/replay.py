"""The configuration of algorithms that learn from a replay buffer."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from jaxrl.algos.config.learning import LearningLayer
from jaxrl.algos.config.network import CHOOSE_MEMORY, has_memory
from jaxrl.checked import COUNT, NOT_NEGATIVE, SHARE, Allowed, Effect

__all__ = ["ReplayLayer"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayLayer(LearningLayer):
    """How an algorithm learns from a replay buffer, with a target network."""

    buffer_size: int = 100_000
    """Environment steps in the replay buffer, rounded up to whole rollouts."""
    batch_size: int = 128
    """Steps in a minibatch; with memory, sequences."""
    gradient_steps: int = 8
    """Optimiser steps after each rollout, each on a minibatch of its own."""
    learning_starts: int = 1000
    """Environment steps before learning begins."""
    tau: float = 1.0
    """Share by which the target network moves towards the learned one; 1 copies it."""
    target_update_interval: int = 1
    """Optimiser steps between two moves of the target network."""
    n_step: int = 1
    """Rewards in a target, before the value that follows."""
    burn_in: int = 0
    """Steps before each sequence that refresh the stored memory; nothing is learned from them."""
    checkpoint_replay: bool = True
    """Keep the replay buffer in checkpoints. Without it they are small, but a resumed run is not exactly the same: it
    collects learning_starts steps before it learns again."""

    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("buffer_size", "batch_size", "gradient_steps", "target_update_interval", "n_step"), COUNT),
        **dict.fromkeys(("learning_starts", "burn_in"), NOT_NEGATIVE),
        "tau": SHARE,
    }
    effects: ClassVar[tuple[Effect, ...]] = (Effect("burn_in", ("memory",), has_memory, CHOOSE_MEMORY),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window > self.buffer_rollouts * self.num_steps:
            needed = self.window * self.num_envs
            what = "the memory's steps, burn_in and n_step" if self.memory != "none" else "n_step"
            raise ValueError(
                f"buffer_size={self.buffer_size} is too small for {self.window} successive steps in each of "
                f"{self.num_envs} environments, which {what} need; use at least buffer_size={needed}."
            )
        most = min(self.buffer_rollouts, self.num_updates) * self.steps_per_update
        if max(self.learning_starts, self.window * self.num_envs) > most:
            raise ValueError(
                f"learning_starts={self.learning_starts}, or at least {self.window * self.num_envs} steps, is more "
                f"than the {most} steps that the buffer holds or the run has, so nothing would be learned; use a lower "
                f"learning_starts, or a larger buffer_size or total_timesteps."
            )

    @property
    def buffer_rollouts(self) -> int:
        """K, the rollouts in the buffer."""
        return -(-self.buffer_size // self.steps_per_update)

    @property
    def window(self) -> int:
        """W, the successive steps in a row of a minibatch."""
        return self.burn_in + self.train_length + self.n_step

    @property
    def gradients_per_update(self) -> int:
        """Optimiser steps per update."""
        return self.gradient_steps

    @property
    def target_steps(self) -> int:
        """Optimiser steps of the whole run that the target network can follow."""
        return self.num_updates * self.gradient_steps

    @property
    def updates_before_learning(self) -> int:
        """The updates that only fill the buffer."""
        return -(-max(self.learning_starts, self.window * self.num_envs) // self.steps_per_update)

    def waiting(self, update: jax.Array) -> jax.Array:
        """Whether learning has not started yet, given the number of updates before."""
        return update < self.updates_before_learning

    def warnings(self) -> list[str]:
        """What the user should know when a run begins, one sentence each."""
        said = super().warnings()
        if not self.checkpoint_replay:
            said.append(
                f"Checkpoints leave out the replay buffer: a resumed run begins with an empty one, collects "
                f"{self.learning_starts} steps before it learns again, and is not exactly the same."
            )
        if self.target_update_interval > self.target_steps:
            said.append(
                f"The target network never moves: target_update_interval={self.target_update_interval} is more than "
                f"the {self.target_steps} steps that it can follow in this run."
            )
        if self.tau == 0:
            said.append("The target network never moves: tau=0 takes nothing of the learned one; tau=1 copies it.")
        return said

    def _splits_minibatches(self, shards: int) -> bool:
        return self.batch_size % shards == 0
