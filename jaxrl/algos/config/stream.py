"""The configuration of algorithms that learn from one stream of experience, step by step."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jaxrl.algos.config.hyperparams import HyperparamsLayer
from jaxrl.algos.config.network import ActivationName, NetworkLayer
from jaxrl.checked import SHARE, Allowed, Effect
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.source_file import algorithm_name

__all__ = ["StreamLayer"]

_ONE_STREAM = Allowed(
    lambda number: number == 1,
    "be 1, because a learner has one stream of experience (--num-seeds trains many learners side by side)",
)
_NO_MEMORY = Allowed(lambda memory: memory == "none", "be none, because a stream is learned from step by step")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamLayer(NetworkLayer, HyperparamsLayer):
    """How an algorithm learns from each step as it comes. The defaults are those of Elsayed et al. 2024."""

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

    allowed: ClassVar[dict[str, Allowed]] = {
        "num_envs": _ONE_STREAM,
        "memory": _NO_MEMORY,
        "trace_lambda": SHARE,
        "sparsity": SHARE,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("num_shards", ("num_envs",), lambda *_: False, "train several seeds, which several devices can share"),
    )

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
