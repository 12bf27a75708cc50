"""Layers of configurations for learning: hyperparameters and schedules, minibatches, rollouts, and the PPO family."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algos.config import rules
from jaxrl.algos.config.network import NetworkLayer, own_name
from jaxrl.algos.config.run import ActorLayer, RunLayer, SharingLayer
from jaxrl.config import CheckedConfig, Name, Pairs
from jaxrl.environment import Environment
from jaxrl.nn.encoder import is_picture
from jaxrl.rl.annealing import Schedule, annealed, by_name, lost_later, parse_schedule
from jaxrl.rl.losses import HLGauss, ScalarValue
from jaxrl.spaces import Box
from jaxrl.wrappers import as_multi_agent
from jaxrl.wrappers.players import learning_policies, policy_names

__all__ = [
    "BinsLayer",
    "EpochLayer",
    "Hyperparams",
    "HyperparamsLayer",
    "LearningLayer",
    "OnPolicyConfig",
    "OptimizerName",
    "PolicyLayer",
]

_CHECKED_UPDATES = 101
"""The updates of a run, evenly spread, at which a schedule is checked."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HyperparamsLayer(RunLayer):
    """Hyperparameters: the learning rate, the discount factor, schedules and normalisation."""

    lr: float = 2.5e-4
    """Learning rate."""
    anneal_lr: bool = True
    """Decrease the learning rate linearly to zero."""
    schedules: tuple[str, ...] = ()
    """Hyperparameters that change over the run, such as lr=cosine, gamma=linear:0.9 or lr=warmup:0.05+cosine: see
    `jaxrl.rl.annealing`. One for lr takes the place of anneal_lr."""
    gamma: float = 0.99
    """Discount factor."""
    normalise_obs: bool = False
    """Standardise observations by the mean and deviation of all observations so far."""
    normalise_reward: bool = False
    """Divide rewards by the deviation of the discounted returns."""

    hyperparams_class: ClassVar[type[Any]]
    """The hyperparameters that need no recompilation: a dataclass and pytree whose fields the configuration has too."""
    allowed, effects = rules.HYPERPARAMS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_hyperparams()
        for name, schedule in self.scheduled.items():
            self._check_schedule(name, schedule)
        _ = self.curves  # parsed here, not whenever an update is traced

    @property
    def hyperparams(self) -> Any:
        """The fields that are part of the train state, as float32 scalars."""
        return self.hyperparams_class(**{name: np.float32(getattr(self, name)) for name in self._hyperparameters()})

    def initial_hyperparams(self, given: Any = None) -> Any:
        """The hyperparameters of a new train state: what `init` was given, or the configuration's for None.

        Raises:
            TypeError: They are of another class; the message says how to make them.
        """
        h = self.hyperparams if given is None else given
        if not isinstance(h, self.hyperparams_class):
            raise TypeError(
                f"init takes the hyperparameters in a {self.hyperparams_class.__name__}, not a {type(given).__name__}; "
                f"give dataclasses.replace(config.hyperparams, lr=…), where config is what the algorithm is made of."
            )
        return jax.tree.map(jnp.float32, h)

    @property
    def falling(self) -> tuple[str, ...]:
        """The hyperparameters that decrease linearly to zero."""
        return ("lr",) if self.anneal_lr else ()

    def annealed(self, h: Any, update: jax.Array | int) -> Any:
        """The hyperparameters as they are in an update, given their initial values and the number of updates before."""
        now = {name: annealed(how, getattr(h, name), update, self.num_updates) for name, how in self.curves.items()}
        return dataclasses.replace(h, **now)

    @functools.cached_property
    def curves(self) -> dict[str, Schedule]:
        """The schedules by the names of their hyperparameters, parsed once."""
        schedules = dict.fromkeys(self.falling, "linear") | self.scheduled
        return {name: parse_schedule(schedule) for name, schedule in schedules.items()}

    @property
    def scheduled(self) -> dict[str, str]:
        """The schedules by the names of their hyperparameters."""
        return by_name(self.schedules, self._hyperparameters())

    def warnings(self) -> list[str]:
        """Sentences that the user should know when a run begins."""
        return super().warnings() + lost_later(self.scheduled.values(), type(self).__module__)

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field has no effect or makes no sense in it; the message says which.
        """
        env = super().make_env()
        space = env.observation_space()
        if self.normalise_obs and (not isinstance(space, Box) or is_picture(space)):
            why = "a convolution takes all places alike" if isinstance(space, Box) else "their numbers are mere names"
            raise ValueError(
                f"normalise_obs cannot standardise observations in {space}: {why}; choose normalise_obs=False."
            )
        return env

    def _check_schedule(self, name: str, schedule: str) -> None:
        """Raise ValueError if a schedule takes a field out of its allowed range, above its initial value or below 0."""
        with jax.ensure_compile_time_eval():
            done = jnp.linspace(0, self.num_updates - 1, _CHECKED_UPDATES).round()
            factors = np.asarray(annealed(parse_schedule(schedule), 1.0, done, self.num_updates))
        for factor in (factors.max(), factors.min()):
            if not 0 <= factor <= 1:
                try:
                    self.check_value(name, getattr(self, name) * float(factor))
                except ValueError as error:
                    raise ValueError(f"The schedule {name}={schedule} goes too far: {error}") from None

    def _hyperparameters(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self.hyperparams_class)]

    def _check_hyperparams(self) -> None:
        """Raise TypeError unless the hyperparameters are a pytree of numbers that the configuration has as well."""
        kind, own = self.hyperparams_class.__name__, type(self).__name__
        for name in self._hyperparameters():
            if not hasattr(self, name):
                raise TypeError(f"{kind} has {name}, and {own} does not; add a line {name}: float = … to {own}.")
            if isinstance(value := getattr(self, name), str | None):  # NumPy takes None for NaN
                raise TypeError(
                    f"{own} has {name}={value!r}, and the hyperparameters in {kind} are numbers; give one, or leave "
                    f"{name} out of {kind}."
                )
        if jax.tree_util.all_leaves([self.hyperparams]):
            raise TypeError(f"{kind} is not a pytree; write @jax.tree_util.register_dataclass above @dataclass.")


OptimizerName = Literal["adam", "muon", "radam"] | Name


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningLayer(NetworkLayer, HyperparamsLayer):
    """Learning with an optimiser, from minibatches."""

    optimizer: OptimizerName = "adam"
    """Optimiser; muon takes orthogonalised steps for the matrices of hidden layers, radam is an Adam that begins with
    plain momentum. Or one of your own, ./FILE.py:FUNCTION, in Python also the function, which makes an optax
    transformation from the learning rate."""
    max_grad_norm: float = 0.5
    """Scale gradients down to this global norm; 1e9 leaves them unchanged."""
    weight_decay: float = 0.0
    """Decoupled weight decay: each step shrinks the weights of layers by lr times this. With adam it is AdamW."""
    sequence_length: int = 0
    """Steps of backpropagation through time in recurrent training; 0 means num_steps."""

    allowed, effects = rules.LEARNING

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", own_name("optimizer", self.optimizer))
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
        """True if each minibatch can have equally many rows from every shard."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinsLayer(CheckedConfig):
    """Values as distributions over bins: a field `value_loss` says whether they are."""

    value_range: tuple[float, float] = (-10.0, 10.0)
    """Range of returns that the bins of hlgauss or c51 cover."""

    allowed, effects = rules.BINS


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochLayer(LearningLayer):
    """Learning from fresh rollouts, in epochs of minibatches."""

    update_epochs: int = 4
    """Passes over each rollout."""
    num_minibatches: int = 4
    """Optimiser steps per pass."""

    allowed, effects = rules.EPOCHS

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(BinsLayer, EpochLayer, ActorLayer):
    """Proximal policy optimisation."""

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
    allowed, effects = rules.ON_POLICY

    def warnings(self) -> list[str]:
        """Sentences that the user should know when a run begins."""
        step = self.num_envs * self.num_steps == self.num_minibatches  # in each minibatch
        alone = step and 1 in (getattr(self, "agents_per_step", 0), getattr(self.make_env(), "num_agents", 1))
        why = "The policy learns nothing: each minibatch has one sample, whose advantage is standardised to 0. "
        cure = "Raise num_envs or num_steps, or lower num_minibatches."
        return [*super().warnings(), *([why + cure] if alone else [])]

    @property
    def value(self) -> ScalarValue | HLGauss:
        """The critic's prediction."""
        return ScalarValue() if self.value_loss == "mse" else HLGauss(*self.value_range)

    @property
    def falling(self) -> tuple[str, ...]:
        """The hyperparameters that decrease linearly to zero."""
        return (*super().falling, "ent_coef") if self.anneal_ent else super().falling


_SHARED = "max_grad_norm"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyLayer(SharingLayer, OnPolicyConfig):
    """Proximal policy optimisation of several agents."""

    policy_hyperparams: Pairs = ()
    """POLICY.NAME=VALUE: hyperparameters that single policies of `policies` have instead of the shared ones, such as
    A.lr=0.001; any of lr, gamma, gae_lambda, clip_eps, ent_coef and vf_coef. Schedules apply to them as to the shared
    ones. In Python also a dict."""

    allowed, effects = rules.POLICIES

    def __post_init__(self) -> None:
        given = self.policy_hyperparams
        if isinstance(given, Mapping):
            pairs = tuple(f"{name}={value}" for name, value in given.items())
            object.__setattr__(self, "policy_hyperparams", pairs)
        super().__post_init__()
        if self.policies:
            _ = self.own_hyperparams  # raises for an entry that fits no policy

    @property
    def own_hyperparams(self) -> dict[str, dict[str, float]]:
        """The values of single policies instead of the shared ones: `{hyperparameter: {policy: value}}`.

        Raises:
            ValueError: An entry is not a valid value of a policy's hyperparameter; the message says what to type.
        """
        found: dict[str, dict[str, float]] = {}
        for pair in self.policy_hyperparams:
            policy, name, value = self._parsed(pair)
            if policy in found.setdefault(name, {}):
                raise ValueError(f"policy_hyperparams has two entries for {policy}.{name}; leave one out.")
            found[name][policy] = value
        return found

    def overridden(self) -> tuple[str, ...]:
        """The hyperparameters that the policies of all learning agents override, so that the shared value is idle."""
        if not (self.policies and self.policy_hyperparams):
            return ()
        names = set(policy_names(as_multi_agent(self.make_env()), self.policies))
        return tuple(name for name, own in self.own_hyperparams.items() if names <= own.keys())

    def hyperparams_of_policies(self, agent: Any, state: Any) -> Hyperparams:
        """The hyperparameters of the update that `state` is about to make, see `Agent.schedule`.

        Those that some policy overrides are `[N]`, one for each agent, or scalars if all agents share parameters. Then
        learning rates are `[P]`, one for each parameter set, or a tree of these where only some of the parameters
        belong to policies.
        """
        shared = self.annealed(state.hyperparams, state.update)
        names = policy_names(agent.env, self.policies)
        sets = [names[agent.param_sets.index(number)] for number in range(max(agent.param_sets) + 1)]
        initial = {
            name: jnp.stack([jnp.float32(own.get(policy, getattr(state.hyperparams, name))) for policy in sets])
            for name, own in self.own_hyperparams.items()
        }
        own = self.annealed(dataclasses.replace(state.hyperparams, **initial), state.update)
        alone = len(sets) == 1  # the parameters of a single set have no axis of sets
        now = {name: getattr(own, name)[0 if alone else np.asarray(agent.param_sets)] for name in initial}
        if "lr" in now:
            rate = own.lr[0] if alone else own.lr
            now["lr"] = jax.tree.map(lambda by_set: rate if by_set else shared.lr, agent.networks.by_set)
        return dataclasses.replace(shared, **now)

    def _parsed(self, pair: str) -> tuple[str, str, float]:
        """The policy, the hyperparameter and its value."""
        parts = re.fullmatch(r"(\w+)\.(\w+)=(\S+)", pair)
        if parts is None:
            raise ValueError(f"policy_hyperparams needs POLICY.NAME=VALUE, such as A.lr=0.001; got {pair!r}.")
        policy, name, text = parts.groups()
        own = [each for each in self._hyperparameters() if each != _SHARED]
        if name == _SHARED:
            raise ValueError(
                f"policy_hyperparams: {name} limits the gradient of all policies together, so {policy} has none of its "
                f"own; use {name}={text}."
            )
        if name not in own:
            raise ValueError(f"policy_hyperparams: a policy can have its own {', '.join(own)}; got {pair!r}.")
        policies = learning_policies(self.policies)
        if policy not in policies:
            known = f"there is {', '.join(policies)}" if policies else 'name one, such as policies="agent_.*=A"'
            raise ValueError(f"policy_hyperparams: policies has no {policy} that learns; {known}.")
        try:
            value = float(text)
        except ValueError:
            raise ValueError(
                f"policy_hyperparams: {text!r} in {pair!r} is not a number; type one, as in A.lr=0.001."
            ) from None
        try:
            dataclasses.replace(self, policy_hyperparams=(), **{name: value})
        except ValueError as error:
            raise ValueError(f"policy_hyperparams: {pair} is not allowed: {error}") from None
        return policy, name, value
