"""Policies that learn side by side, each with hyperparameters of its own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algos.config.on_policy import Hyperparams, OnPolicyConfig
from jaxrl.algos.config.run import SharingLayer
from jaxrl.checked import Effect
from jaxrl.environment import Environment
from jaxrl.fields import Pairs
from jaxrl.wrappers import as_multi_agent
from jaxrl.wrappers.players import learning_policies, policy_names

__all__ = ["PolicyLayer"]

_SHARED = "max_grad_norm"


def _has_policies(config: Any, env: Callable[[], Environment]) -> bool:
    return bool(config.policies) and as_multi_agent(env()).num_agents > 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyLayer(SharingLayer, OnPolicyConfig):
    """Fields of the PPO family for several agents."""

    policy_hyperparams: Pairs = ()
    """POLICY.NAME=VALUE: hyperparameters that single policies of `policies` have instead of the shared ones, such as
    A.lr=0.001; any of lr, gamma, gae_lambda, clip_eps, ent_coef and vf_coef. Schedules apply to them as to the shared
    ones. In Python also a dict."""

    effects: ClassVar[tuple[Effect, ...]] = (
        Effect(
            "policy_hyperparams",
            ("policies", "env"),
            _has_policies,
            'name policies that learn, such as policies="agent_.*=A"',
        ),
    )

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

    def hyperparams_now(self, agent: Any, state: Any) -> Hyperparams:
        """The hyperparameters of the update that `state` is about to make.

        Those that some policy overrides are `[N]`, one for each agent, or scalars if all agents share parameters. Then
        learning rates are `[P]`, one for each parameter set, or a tree of these where only some of the parameters
        belong to policies.
        """
        shared = super().hyperparams_now(agent, state)
        if not (self.policies and self.policy_hyperparams):
            return shared
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
