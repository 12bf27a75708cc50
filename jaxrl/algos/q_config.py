"""The configuration of PQN and its relatives."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from jaxrl.algos.layers import ActivationName, SharingLayer
from jaxrl.algos.learning import LearningLayer, OptimizerName
from jaxrl.checked import SHARE, Allowed
from jaxrl.environment import Environment
from jaxrl.rl.annealing import ramp
from jaxrl.rl.value import GreedyValue
from jaxrl.spaces import Discrete

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
class QConfig(SharingLayer, LearningLayer):
    """Fields of every algorithm that learns the values of actions from its own fresh rollouts."""

    hidden: tuple[int, ...] = (128, 128)
    layer_norm: bool = True
    activation: ActivationName = "relu"
    optimizer: OptimizerName = "radam"
    max_grad_norm: float = 10.0
    normalise_reward: bool = True
    q_lambda: float = 0.65
    """Mixes returns of all lengths: 0 bootstraps after each step, 1 at the end of the rollout only."""
    eps_start: float = 1.0
    """Share of random actions at the beginning of the run."""
    eps_finish: float = 0.05
    """Share of random actions once it has decreased."""
    eps_decay: float = 0.2
    """Share of the run in which it decreases, linearly."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = dict.fromkeys(("q_lambda", "eps_start", "eps_finish", "eps_decay"), SHARE)

    @property
    def value(self) -> GreedyValue:
        """What the network predicts."""
        return GreedyValue()

    def epsilon(self, h: Hyperparams, update: jax.Array) -> jax.Array:
        """The share of random actions in an update, given the number of updates before."""
        return ramp(h.eps_start, h.eps_finish, h.eps_decay, update, self.num_updates)

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, it has no discrete actions, or a field makes no sense in it.
        """
        env = super().make_env()
        if not isinstance(env.action_space(), Discrete):
            raise ValueError(
                f"{self.env} has actions in {env.action_space()}, and Q needs Discrete ones; use ppo or ippo."
            )
        return env
