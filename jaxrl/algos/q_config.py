"""The configuration of PQN and its relatives."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from jaxrl.algos.exploration import ExplorationLayer
from jaxrl.algos.layers import ActivationName, SharingLayer
from jaxrl.algos.learning import LearningLayer, OptimizerName
from jaxrl.checked import SHARE, Allowed

__all__ = ["Hyperparams", "QConfig"]


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
class QConfig(SharingLayer, ExplorationLayer, LearningLayer):
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
