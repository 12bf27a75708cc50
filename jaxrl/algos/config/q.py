"""The configuration of algorithms that learn the values of actions."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from jaxrl.algos.config.exploration import ExplorationLayer
from jaxrl.algos.config.learning import BinsLayer, EpochLayer, LearningLayer, OptimizerName
from jaxrl.algos.config.network import ActivationName, beside_q_heads
from jaxrl.algos.config.replay import ReplayLayer
from jaxrl.algos.config.run import SharingLayer
from jaxrl.checked import SHARE, Allowed
from jaxrl.rl.value import GreedyValue, HLGauss

__all__ = ["NUMBERS", "Hyperparams", "QConfig", "QLayer", "ReplayHyperparams", "ReplayQConfig"]

NUMBERS = Allowed(
    lambda loss: loss != "hlgauss",
    "be mse or huber, because a team's value is made of its members' numbers, not of distributions; dqn and iql have "
    "hlgauss",
)
"""The losses of a team's value, which is made of its members' values."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    gamma: Any
    q_lambda: Any
    eps_start: Any
    eps_finish: Any
    eps_decay: Any
    max_grad_norm: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class QLayer(SharingLayer, ExplorationLayer, LearningLayer):
    """The values of actions, learned from minibatches."""

    dueling: bool = False
    """Compute the values of actions from a value of the state and advantages, each with its own head."""

    @property
    def beside_network(self) -> tuple[str, ...]:
        """See `NetworkLayer.beside_network`."""
        return beside_q_heads(self.head_hidden)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QConfig(QLayer, EpochLayer):
    """Fields of every algorithm that learns the values of actions from its own fresh rollouts."""

    hidden: tuple[int, ...] = (128, 128)
    layer_norm: bool = True
    activation: ActivationName = "relu"
    optimizer: OptimizerName = "radam"
    max_grad_norm: float = 10.0
    normalise_reward: bool = True
    q_lambda: float = 0.65
    """Mixes returns of all lengths: 0 bootstraps after each step, 1 at the end of the rollout only."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = {"q_lambda": SHARE}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ReplayHyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    gamma: Any
    tau: Any
    eps_start: Any
    eps_finish: Any
    eps_decay: Any
    max_grad_norm: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayQConfig(QLayer, BinsLayer, ReplayLayer):
    """Fields of every algorithm that learns the values of actions from a replay buffer."""

    layer_norm: bool = True
    activation: ActivationName = "relu"
    max_grad_norm: float = 10.0
    tau: float = 0.02
    double: bool = True
    """Let the learned network choose the next action that the target network values."""
    value_loss: Literal["mse", "huber", "hlgauss"] = "mse"
    """Loss of a value: half the square of its error (mse); huber, which grows linearly where the error is above 1; or
    hlgauss, where each action's value is a distribution over 51 bins."""

    hyperparams_class: ClassVar[type[Any]] = ReplayHyperparams

    @property
    def value(self) -> GreedyValue:
        """What the network predicts."""
        return GreedyValue(HLGauss(*self.value_range)) if self.value_loss == "hlgauss" else GreedyValue()

    def epsilon(self, h: Any, update: jax.Array) -> jax.Array:
        """The share of random actions in an update: all of them until learning starts."""
        return jnp.where(self.waiting(update), 1.0, super().epsilon(h, update))
