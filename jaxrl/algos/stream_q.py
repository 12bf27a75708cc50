"""Stream Q(lambda): Q-learning from each step as it comes, without replay, batches or a target network (Elsayed et al.
2024, https://arxiv.org/abs/2410.14606).

Run it: `python algos/stream_q.py --env classic/cartpole`, or `jaxrl train stream_q --env classic/cartpole`. Eligibility
traces carry each error back to the actions that led to it; steps that cannot overshoot, normalised layers, sparse
initial weights and scaled inputs keep that stable. A learner has one environment: `jax.vmap` runs thousands of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, act_alone, own_networks
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import pqn
from jaxrl.algos.config.network import beside_q_heads
from jaxrl.algos.config.values import ExplorationLayer, StreamLayer
from jaxrl.algos.ppo import TrainState
from jaxrl.algos.streaming import Step, init_stream, learn_from_stream
from jaxrl.config import POSITIVE, Allowed, Name, check_config, check_loss
from jaxrl.entities import Entities
from jaxrl.nn.distributions import EpsilonGreedy
from jaxrl.nn.heads import QHead
from jaxrl.rl.returns import chosen_value
from jaxrl.rl.traces import accumulate, bounded_step
from jaxrl.spaces import Discrete, Space
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "make", "make_train"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    gamma: Any
    trace_lambda: Any
    kappa: Any
    eps_start: Any
    eps_finish: Any
    eps_decay: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(StreamLayer, ExplorationLayer):
    """Stream Q's configuration. The defaults suit CartPole."""

    env: Name = "classic/cartpole"
    hidden: tuple[int, ...] = (32, 32)
    kappa: float = 2.0
    """How cautious the steps are: the higher, the smaller."""
    eps_finish: float = 0.01
    eps_decay: float = 0.05

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = {"kappa": POSITIVE}

    @property
    def beside_network(self) -> tuple[str, ...]:
        """See `NetworkLayer.beside_network`."""
        return beside_q_heads(self.head_hidden)


PRESETS: dict[str, Config] = {
    "default": Config(),
}


class QNetwork(nn.Module):
    """Maps observations `[T, B, ...]` to the greedy policy and to the values `[T, B, A]` of all actions."""

    config: Config
    observation_space: Space
    num_actions: int
    entities: Entities | None

    @nn.compact
    def __call__(
        self, carry: Any, obs: jax.Array, reset: jax.Array, mask: jax.Array | None
    ) -> tuple[Any, Any, jax.Array]:
        c = self.config
        encoder = c.encoder(self.observation_space, entities=self.entities)
        carry, features, pointed = encoder(name="torso")(carry, obs, reset)
        head = QHead(self.num_actions, c.head_hidden, c.activation, c.layer_norm, name="q")
        policy = EpsilonGreedy(head(features, pointed), mask)
        return carry, policy, policy.values


def update(agent: Agent, state: TrainState) -> tuple[TrainState, Metrics]:
    """`num_steps` steps, each with its gradient step. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    h = agent.config.annealed(state.hyperparams, state.update)
    epsilon = agent.config.epsilon(h, state.update)
    state, metrics = learn_from_stream(agent, state, h.gamma, partial(learn, agent, h))
    return state, {**metrics, "losses": {**metrics["losses"], "epsilon": epsilon}}


def learn(agent: Agent, h: Hyperparams, params: Any, trace: Any, step: Step) -> tuple[Any, Any, dict[str, jax.Array]]:
    """One step of Watkins' Q(lambda): an action that is not greedy gets credit, but the actions before it do not."""
    gradient, about = jax.grad(lambda params: agent.loss(agent, h, params, step), has_aux=True)(params)
    td_error = step.reward + step.discount * step.next_value - about["q"]
    trace = accumulate(trace, gradient, h.gamma * h.trace_lambda * about["greedy"] * ~step.begins)
    params, step_size = bounded_step(params, trace, td_error, h.lr, h.kappa)
    return params, trace, {**about, "td_error": jnp.abs(td_error), "step_size": step_size}


def objective(agent: Agent, h: Hyperparams, params: Any, step: Step) -> tuple[jax.Array, dict[str, jax.Array]]:
    """What the trace follows: the value of the action that was taken.

    Returns:
        The value; and a dict with the value for the error, `q`, and whether the action is `greedy`, 0 or 1.
    """
    del h
    _, policy, q = agent.networks.apply(params, (), step.observation, step.begins.reshape(1, 1))
    chosen = chosen_value(q, step.action).sum()
    return chosen, {"q": chosen, "greedy": (policy.mode() == step.action).astype(jnp.float32).sum()}


def make(config: Config, loss: Any = objective) -> Algorithm:
    """Stream Q(lambda) as three pure functions of the train state, whose inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Something else for the trace to follow, with the signature of `objective` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make, ("q", "greedy"))
    team = as_multi_agent(config.make_env())
    space = team.action_space()
    assert isinstance(space, Discrete)  # the configuration refuses others
    network = QNetwork(config, team.observation_space(), space.n, team.entities)
    networks = own_networks(network, lambda *_: (), team, (0,))
    agent = Agent(config, team, (0,), networks, loss, behaviour=partial(pqn.explore, config))
    return Algorithm(partial(init_stream, agent), partial(update, agent), partial(act_alone, agent))


def make_train(config: Config) -> Callable[..., tuple[TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
