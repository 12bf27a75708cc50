"""Layers of configurations for the values of actions: exploration, replay, boxes of actions, and single streams."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from jaxrl.algos.config import rules
from jaxrl.algos.config.learning import BinsLayer, EpochLayer, HyperparamsLayer, LearningLayer, OptimizerName
from jaxrl.algos.config.network import (
    ActivationName,
    NetworkLayer,
    beside_own_critics,
    beside_q_heads,
)
from jaxrl.algos.config.run import SharingLayer, instead
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.nn.heads import spanned
from jaxrl.rl.annealing import ramp
from jaxrl.rl.losses import C51, GreedyValue, HLGauss, ScalarValue
from jaxrl.source_file import algorithm_name
from jaxrl.spaces import Box, Discrete

__all__ = [
    "BoxLayer",
    "ExplorationLayer",
    "QConfig",
    "QHyperparams",
    "QLayer",
    "ReplayHyperparams",
    "ReplayLayer",
    "ReplayQConfig",
    "StreamLayer",
]

_NEGLIGIBLE = 0.005
"""A change in the share of random actions that is too small to mention."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExplorationLayer(HyperparamsLayer):
    """Exploration by random actions."""

    eps_start: float = 1.0
    """Share of random actions at the beginning of the run."""
    eps_finish: float = 0.05
    """Share of random actions once it has decreased."""
    eps_decay: float = 0.2
    """Share of the run in which it decreases, linearly."""

    allowed, effects = rules.EXPLORATION

    @property
    def value(self) -> GreedyValue:
        """The network's prediction."""
        return GreedyValue()

    def epsilon(self, h: Any, update: jax.Array) -> jax.Array:
        """The share of random actions in an update, given the number of updates before."""
        return ramp(h.eps_start, h.eps_finish, h.eps_decay, update, self.num_updates)

    def lengthened(self, shorter: ExplorationLayer, update: int) -> list[str]:
        """Sentences that the user should know when a run is made longer.

        Args:
            shorter: The configuration that the run had before.
            update: Updates done before.
        """
        then, now = (float(c.epsilon(c.annealed(c.hyperparams, update), jnp.int32(update))) for c in (shorter, self))
        if abs(now - then) < _NEGLIGIBLE:
            return []
        return [f"Exploration goes back from {then:.2g} to {now:.2g}, since it is spread over the longer run."]

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field makes no sense in it.
            TypeError: Its actions are not discrete.
        """
        env = super().make_env()
        space, name = env.action_space(), algorithm_name(type(self))
        if not isinstance(space, Discrete):
            others = instead(env, *(("sac", "td3") if isinstance(space, Box) else ()))
            raise TypeError(f"{self.env} has actions in {space}, and {name} needs Discrete ones; use {others}.")
        return env


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayLayer(LearningLayer):
    """Learning from a replay buffer, with a target network."""

    buffer_size: int = 100_000
    """Environment steps in the replay buffer, rounded up to whole rollouts."""
    batch_size: int = 128
    """Steps in a minibatch; with memory, sequences."""
    gradient_steps: int = 8
    """Optimiser steps after each rollout, each on a minibatch of its own."""
    learning_starts: int = 1000
    """Environment steps before learning begins."""
    random_start: bool = True
    """Act at random until learning starts; otherwise as the policy does, which is for runs that start from another
    (WSRL, Zhou et al. 2025, https://arxiv.org/abs/2412.07762)."""
    tau: float = 1.0
    """Share by which the target network moves towards the learned one; 1 copies it."""
    target_update_interval: int = 1
    """Optimiser steps between two moves of the target network."""
    n_step: int = 1
    """Rewards in a target, before the value that follows."""
    burn_in: int = 0
    """Steps before each sequence that refresh the stored memory; nothing is learned from them."""
    prior_data: str = ""
    """Folder of recorded steps of the same environment, from `jaxrl record`, to learn from besides the buffer (RLPD,
    Ball et al. 2023, https://arxiv.org/abs/2302.02948)."""
    prior_share: float = 0.5
    """Share of each minibatch that is drawn from `prior_data`."""
    checkpoint_replay: bool = True
    """Keep the replay buffer in checkpoints. Without it they are small, but a resumed run is not exactly the same: it
    collects learning_starts steps before it learns again."""

    allowed, effects = rules.REPLAY

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window > self.buffer_rollouts * self.num_steps:
            needed = self.window * self.num_envs
            what = "the memory's steps, burn_in and n_step" if self.memory != "none" else "n_step"
            raise ValueError(
                f"buffer_size={self.buffer_size} is too small for {self.window} successive steps in each of "
                f"{self.num_envs} environments, which {what} need; use at least buffer_size={needed}."
            )
        most = min(self.buffer_rollouts, self.num_updates) * self.num_envs * self.num_steps
        if max(self.learning_starts, self.window * self.num_envs) > most:
            raise ValueError(
                f"learning_starts={self.learning_starts}, or at least {self.window * self.num_envs} steps, is more "
                f"than the {most} steps that the buffer holds or the run has, so nothing would be learned; use a lower "
                f"learning_starts, or a larger buffer_size or total_timesteps."
            )
        rows = self.batch_size // self.shards
        if self.prior_data and not 0 < self.prior_rows < rows:
            raise ValueError(
                f"prior_share={self.prior_share} leaves nothing to draw from one of the two among the {rows} rows that "
                f"each of {self.shards} shards has in a minibatch; raise batch_size, or use prior_share=0.5."
            )

    @property
    def prior_rows(self) -> int:
        """The rows of recorded steps among those of a shard in a minibatch."""
        return round(self.batch_size // self.shards * self.prior_share) if self.prior_data else 0

    @property
    def by_priority(self) -> bool:
        """True if windows are drawn by their priorities."""
        return False

    @property
    def buffer_rollouts(self) -> int:
        """K, the rollouts in the buffer."""
        return -(-self.buffer_size // (self.num_envs * self.num_steps))

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
        return -(-max(self.learning_starts, self.window * self.num_envs) // (self.num_envs * self.num_steps))

    def waiting(self, update: jax.Array) -> jax.Array:
        """True while all actions are random, given the number of updates before."""
        return update < (self.updates_before_learning if self.random_start else 0)

    def warnings(self) -> list[str]:
        """Sentences that the user should know when a run begins."""
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QHyperparams:
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
    """Values of actions, learned from fresh rollouts."""

    hidden: tuple[int, ...] = (128, 128)
    layer_norm: bool = True
    activation: ActivationName = "relu"
    optimizer: OptimizerName = "radam"
    max_grad_norm: float = 10.0
    normalise_reward: bool = True
    q_lambda: float = 0.65
    """Mixes returns of all lengths: 0 bootstraps after each step, 1 at the end of the rollout only."""

    hyperparams_class: ClassVar[type[Any]] = QHyperparams
    allowed, effects = rules.Q_ROLLOUTS


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
    """Values of actions, learned from a replay buffer."""

    layer_norm: bool = True
    activation: ActivationName = "relu"
    max_grad_norm: float = 10.0
    tau: float = 0.02
    double: bool = True
    """Let the learned network choose the next action that the target network values."""
    value_loss: Literal["mse", "huber", "hlgauss"] = "mse"
    """Loss of a value: half the square of its error (mse); huber, which grows linearly where the error is above 1; or
    hlgauss, where each action's value is a distribution over 51 bins."""
    priority_exponent: float = 0.0
    """How much more often what was badly predicted is replayed: in proportion to the error to this power, uniformly
    with 0 (Schaul et al. 2016, https://arxiv.org/abs/1511.05952, who use 0.6)."""
    priority_correction: float = 0.4
    """Exponent of the weights that make up for it in the loss, at the beginning; it rises to 1 until the run ends."""

    hyperparams_class: ClassVar[type[Any]] = ReplayHyperparams
    allowed, effects = rules.REPLAY_Q

    @property
    def by_priority(self) -> bool:
        """True if windows are drawn by their priorities."""
        return self.priority_exponent > 0

    def correction(self, update: jax.Array) -> jax.Array:
        """The exponent of the weights in an update."""
        return self.priority_correction + (1.0 - self.priority_correction) * (update / self.num_updates)

    @property
    def value(self) -> GreedyValue:
        """The network's prediction."""
        return GreedyValue(HLGauss(*self.value_range)) if self.value_loss == "hlgauss" else GreedyValue()

    def epsilon(self, h: Any, update: jax.Array) -> jax.Array:
        """The share of random actions in an update: all of them until learning starts."""
        return jnp.where(self.waiting(update), 1.0, super().epsilon(h, update))


_BINS: dict[str, type[HLGauss | C51]] = {"hlgauss": HLGauss, "c51": C51}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxLayer(SharingLayer, BinsLayer, ReplayLayer):
    """An actor that chooses points of a box, and critics that value them."""

    activation: ActivationName = "relu"
    max_grad_norm: float = 10.0
    tau: float = 0.01
    num_critics: int = 2
    """K, the critics, which differ only in their initial weights."""
    critic_hidden: tuple[int, ...] = ()
    """Layers of the critics; () means those of hidden."""
    central_critic: bool = False
    """Let the critics see the global state besides the agent's own observation."""
    joint_critic: bool = False
    """Let the critics see what all agents do, and the global state or, without one, what all observe: MASAC, MATD3."""
    value_loss: Literal["mse", "hlgauss", "c51"] = "mse"
    """Loss of a value: half the square of its error (mse), or a cross-entropy, where a value is a distribution over 51
    bins: hlgauss spreads the return around its mean, c51 learns the distribution of returns."""
    pessimism: Literal["min", "mean"] = "min"
    """The critics' values of an action combined: the smallest, or their mean; of distributions, the one with
    the smallest mean, or their mixture."""
    policy_delay: int = 1
    """Optimiser steps of the critics for each step of the actor."""

    allowed, effects = rules.BOX

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_divisible("gradient_steps", "policy_delay")

    @property
    def beside_network(self) -> tuple[str, ...]:
        """See `NetworkLayer.beside_network`; critics keep their own torsos."""
        return beside_own_critics(self.critic_hidden)

    @property
    def value(self) -> ScalarValue | HLGauss | C51:
        """The critics' prediction."""
        return _BINS[self.value_loss](*self.value_range) if self.value_loss in _BINS else ScalarValue()

    def sees_state(self, env: Environment) -> bool:
        """Whether the critics see the global state of an environment."""
        return self.central_critic or (self.joint_critic and env.has_global_state)

    def joint(self, q: jax.Array) -> jax.Array:
        """The values `q[..., K]` of all critics, combined: `[...]`."""
        return q.min(axis=-1) if self.pessimism == "min" else q.mean(axis=-1)

    def joint_distribution(self, logits: jax.Array) -> jax.Array:
        """The distributions `logits[..., K, num_bins]` of all critics, combined: probabilities `[..., num_bins]`."""
        probabilities = jax.nn.softmax(logits)
        if self.pessimism == "mean":
            return probabilities.mean(axis=-2)
        least = self.value.decode(logits).argmin(axis=-1)[..., None, None]
        return jnp.take_along_axis(probabilities, least, axis=-2)[..., 0, :]

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, its box is not finite, or a field makes no sense in it.
            TypeError: Its actions are not in a `Box`.
        """
        env = super().make_env()
        space, name = env.action_space(), algorithm_name(type(self))
        if not isinstance(space, Box):
            others = instead(env, *(("dqn",) if isinstance(space, Discrete) else ()))
            raise TypeError(f"{self.env} has actions in {space}, and {name} needs those of a Box; use {others}.")
        if not spanned(space).all():
            raise ValueError(
                f"{self.env} has actions in {space}, and {name} needs finite bounds that differ; use {instead(env)}."
            )
        return env


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamLayer(NetworkLayer, HyperparamsLayer):
    """Learning from each step as it comes. The defaults are those of Elsayed et al. 2024."""

    total_timesteps: int = 500_000
    num_envs: int = 1
    """Always 1: a learner has one stream of experience."""
    num_steps: int = 500
    """Steps of an update, each followed by a gradient step."""
    lr: float = 1.0
    """The largest step size."""
    anneal_lr: bool = False
    normalise_obs: bool = True
    normalise_reward: bool = True
    layer_norm: bool = True
    activation: ActivationName = "leaky_relu"
    trace_lambda: float = 0.8
    """Decay of the eligibility traces, together with gamma."""
    sparsity: float = 0.9
    """Share of each neuron's initial weights that are 0."""

    allowed, effects = rules.STREAM

    @property
    def shards(self) -> int:
        """S, the logical shards: a single stream has one."""
        return 1

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field makes no sense in it.
            TypeError: It has several agents.
        """
        env = super().make_env()
        if isinstance(env, MultiAgentEnvironment):
            name = algorithm_name(type(self))
            raise TypeError(f"{self.env} has {env.num_agents} agents and {name} trains one; use ippo, mappo or pqn.")
        return env
