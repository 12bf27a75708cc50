"""Stream AC(lambda): an actor-critic that learns from each step as it comes, without replay or batches (Elsayed et al.
2024, https://arxiv.org/abs/2410.14606).

Run it: `python algos/stream_ac.py --env classic/pendulum`, or `jaxrl train stream_ac --env classic/pendulum`. Actor and
critic have a network and an eligibility trace each; the critic's error moves both, by steps that cannot overshoot. A
learner has one environment: `jax.vmap` runs thousands of them.
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
from jaxrl.algos.config.run import ActorLayer
from jaxrl.algos.config.values import StreamLayer
from jaxrl.algos.ppo import TrainState
from jaxrl.algos.streaming import Step, init_stream, learn_from_stream
from jaxrl.config import NOT_NEGATIVE, POSITIVE, Allowed, Name, check_config, check_loss
from jaxrl.entities import Entities
from jaxrl.nn.heads import ValueHead, policy_head
from jaxrl.rl.losses import ScalarValue
from jaxrl.rl.traces import accumulate, bounded_step
from jaxrl.spaces import Space
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "make", "make_train"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    gamma: Any
    trace_lambda: Any
    kappa_policy: Any
    kappa_value: Any
    ent_coef: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(StreamLayer, ActorLayer):
    """Stream AC's configuration. The defaults suit the classic control tasks."""

    env: Name = "classic/cartpole"
    hidden: tuple[int, ...] = (64, 64)
    kappa_policy: float = 3.0
    """How cautious the actor's steps are: the higher, the smaller."""
    kappa_value: float = 2.0
    """How cautious the critic's steps are."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("kappa_policy", "kappa_value"), POSITIVE),
        "ent_coef": NOT_NEGATIVE,
    }

    @property
    def value(self) -> ScalarValue:
        """What the critic predicts."""
        return ScalarValue()


PRESETS: dict[str, Config] = {
    "default": Config(),
    "pendulum": Config(env="classic/pendulum", total_timesteps=300_000, gamma=0.95),
}


class Actor(nn.Module):
    """Maps observations `[T, B, ...]` to a policy."""

    config: Config
    observation_space: Space
    action_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(self, obs: jax.Array, reset: jax.Array, mask: jax.Array | None) -> Any:
        c = self.config
        encoder = c.encoder(self.observation_space, entities=self.entities)
        _, features, pointed = encoder(name="torso")((), obs, reset)
        policy = policy_head(self.action_space, c.head_hidden, c.activation, c.squash, name="policy")
        return policy(features, mask, pointed)


class Critic(nn.Module):
    """Maps observations `[T, B, ...]` to values `[T, B]`."""

    config: Config
    observation_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(self, obs: jax.Array, reset: jax.Array) -> jax.Array:
        c = self.config
        encoder = c.encoder(self.observation_space, entities=self.entities)
        _, features, _ = encoder(name="torso")((), obs, reset)
        return ValueHead(c.head_hidden, c.activation, name="value")(features)


class ActorCritic(nn.Module):
    """Maps observations `[T, B, ...]` to a policy and to values `[T, B]`, by two networks that share nothing."""

    config: Config
    observation_space: Space
    action_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(
        self, carry: Any, obs: jax.Array, reset: jax.Array, mask: jax.Array | None
    ) -> tuple[Any, Any, jax.Array]:
        c, space, entities = self.config, self.observation_space, self.entities
        policy = Actor(c, space, self.action_space, entities, name="actor")(obs, reset, mask)
        return carry, policy, Critic(c, space, entities, name="critic")(obs, reset)


def update(agent: Agent, state: TrainState) -> tuple[TrainState, Metrics]:
    """`num_steps` steps, each with its gradient step. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    h = agent.config.annealed(state.hyperparams, state.update)
    return learn_from_stream(agent, state, h.gamma, partial(learn, agent, h))


def learn(agent: Agent, h: Hyperparams, params: Any, trace: Any, step: Step) -> tuple[Any, Any, dict[str, jax.Array]]:
    """One step of the actor and one of the critic, by the same error."""
    gradient, about = jax.grad(lambda params: agent.loss(agent, h, params, step), has_aux=True)(params)
    td_error = about["td_error"]
    trace = accumulate(trace, gradient, h.gamma * h.trace_lambda * ~step.begins)
    kappas = {"actor": h.kappa_policy, "critic": h.kappa_value}
    moved, step_sizes = {}, {}
    for name, kappa in kappas.items():
        own = params["params"][name], trace["params"][name]
        moved[name], step_sizes[f"{name}_step_size"] = bounded_step(*own, td_error, h.lr, kappa)
    return {"params": moved}, trace, {**about, "td_error": jnp.abs(td_error), **step_sizes}


def objective(agent: Agent, h: Hyperparams, params: Any, step: Step) -> tuple[jax.Array, dict[str, jax.Array]]:
    """What the traces follow: for the critic the value, for the actor the action's log-probability, with a bonus.

    Steps multiply the trace by the error, so the bonus has the error's sign: it always increases the entropy.

    Returns:
        The sum of both, which share no parameters; and a dict with the error, the value and the entropy.
    """
    _, policy, value = agent.networks.apply(params, (), step.observation, step.begins.reshape(1, 1))
    value, entropy = value.sum(), policy.entropy().sum()
    td_error = jax.lax.stop_gradient(step.reward + step.discount * step.next_value - value)
    bonus = h.ent_coef * jnp.sign(td_error) * entropy
    return value + policy.log_prob(step.action).sum() + bonus, {
        "td_error": td_error,
        "value": value,
        "entropy": entropy,
    }


def make(config: Config, loss: Any = objective) -> Algorithm:
    """Stream AC(lambda) as three pure functions of the train state, whose inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Something else for the traces to follow, with the signature of `objective` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make, ("td_error",))
    team = as_multi_agent(config.make_env())
    network = ActorCritic(config, team.observation_space(), team.action_space(), team.entities)
    agent = Agent(config, team, (0,), own_networks(network, lambda *_: (), team, (0,)), loss)
    return Algorithm(partial(init_stream, agent), partial(update, agent), partial(act_alone, agent))


def make_train(config: Config) -> Callable[..., tuple[TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
