"""The configuration of the PPO family."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax

from jaxrl.algos.config.actor import ActorLayer
from jaxrl.algos.config.learning import BinsLayer, EpochLayer
from jaxrl.algos.config.network import needs_no_network
from jaxrl.checked import NOT_NEGATIVE, POSITIVE, SHARE, SIZES, Allowed, Effect
from jaxrl.rl.value import HLGauss, ScalarValue

__all__ = ["Hyperparams", "OnPolicyConfig"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it.

    In an update, those that some policy overrides are arrays `[N]`, one value for each agent.
    """

    lr: Any
    gamma: Any
    gae_lambda: Any
    clip_eps: Any
    ent_coef: Any
    vf_coef: Any
    max_grad_norm: Any


def _learns_twice(config: Any, _: Any) -> bool:
    """Whether an update has more than one gradient step: until the first, the policy is the one that acted."""
    return config.gradients_per_update > 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(BinsLayer, EpochLayer, ActorLayer):
    """Fields of every algorithm that learns from its own fresh rollouts by proximal policy optimisation."""

    share_torso: bool = True
    """Share one torso (and memory) between policy and value, instead of one each."""
    critic_hidden: tuple[int, ...] = ()
    """Layers of the critic's own torso; () means those of hidden."""
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
    vf_coef: float = 0.5
    """Weight of the value loss."""
    target_kl: float | None = None
    """Stop learning from a rollout once a minibatch's approximate KL divergence exceeds this."""
    value_loss: Literal["mse", "hlgauss"] = "mse"
    """Output of the critic: a number, or a distribution over 51 bins (HL-Gauss)."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = {
        "target_kl": POSITIVE,
        "critic_hidden": SIZES,
        "gae_lambda": SHARE,
        **dict.fromkeys(("clip_eps", "ent_coef", "vf_coef"), NOT_NEGATIVE),
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("critic_hidden", ("share_torso",), lambda c, _: not c.share_torso, "choose share_torso=False"),
        needs_no_network("critic_hidden"),
        Effect("clip_value", ("value_loss",), lambda c, _: c.value_loss == "mse", "choose value_loss=mse"),
        Effect("anneal_ent", ("schedules",), lambda c, _: "ent_coef" not in c.scheduled, "leave ent_coef out of them"),
        Effect("target_kl", ("update_epochs", "num_minibatches"), _learns_twice, "raise one of them"),
    )

    @property
    def value(self) -> ScalarValue | HLGauss:
        """What the critic predicts."""
        return ScalarValue() if self.value_loss == "mse" else HLGauss(*self.value_range)

    @property
    def falling(self) -> tuple[str, ...]:
        """The hyperparameters that decrease linearly to zero."""
        return (*super().falling, "ent_coef") if self.anneal_ent else super().falling

    def hyperparams_now(self, agent: Any, state: Any) -> Hyperparams:
        """The hyperparameters of the update that `state` is about to make."""
        del agent
        return self.annealed(state.hyperparams, state.update)
