"""An actor and K critics that value its actions, which learn from a replay buffer: their networks, and how parts of
them learn while the rest stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, Networks
from jaxrl.acting.collector import Observation
from jaxrl.algos.box_config import BoxLayer
from jaxrl.algos.off_policy import Batch, Learner, Steps, replayed_returns, rows, step_weights
from jaxrl.algos.on_policy import own_networks
from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.distributions import MaybeUniform, maybe_uniform
from jaxrl.nn.heads import ValueHead, bounds_of
from jaxrl.nn.sharing import per_agent
from jaxrl.rl.optimizer import gradient_step
from jaxrl.spaces import Box, Space

__all__ = ["actor_critics", "box_of", "critic_loss", "explore", "learn_part", "part_of", "q_of"]


class Critic(nn.Module):
    """Maps observations `[T, B, ...]` and actions `[T, B, A]`, in half-widths from the centre, to values `[T, B]`."""

    config: BoxLayer
    observation_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        c = self.config
        encoder = c.encoder(self.observation_space, c.critic_hidden, own=False, entities=self.entities)
        _, features, _ = encoder(name="torso")((), obs, jnp.zeros(action.shape[:-1], bool), action)
        return ValueHead(c.head_hidden, c.activation, name="value")(features)


class ActorCritics(nn.Module):
    """Maps observations `[T, B, ...]` to a policy and to the values `[T, B]` of its modes; actor and critics share
    nothing.
    """

    config: BoxLayer
    head: Callable[..., nn.Module]
    observation_space: Space
    action_space: Box
    entities: Entities | None

    def setup(self) -> None:
        self.actor = Actor(self.config, self.head, self.observation_space, self.action_space, self.entities)
        several = nn.vmap(
            Critic,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=None,  # pyright: ignore[reportArgumentType]
            out_axes=-1,
            axis_size=self.config.num_critics,
        )
        self.critic = several(self.config, self.observation_space, self.entities)

    def __call__(self, carry: Any, obs: jax.Array, reset: jax.Array, mask: Any) -> tuple[Any, Any, jax.Array]:
        del mask
        policy = self.actor(obs, reset)
        return carry, policy, self.config.joint(self.evaluate(obs, policy.mode()))

    def evaluate(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        """The values of actions `[T, B, ...]` by each critic, `[T, B, K]`."""
        low, high = bounds_of(self.action_space)
        scaled = (action - (high + low) / 2) / ((high - low) / 2)
        return self.critic(obs, scaled.reshape(*action.shape[: action.ndim - low.ndim], -1))


class Actor(nn.Module):
    """Maps observations `[T, B, ...]` to a policy."""

    config: BoxLayer
    head: Callable[..., nn.Module]
    observation_space: Space
    action_space: Box
    entities: Entities | None

    @nn.compact
    def __call__(self, obs: jax.Array, reset: jax.Array) -> Any:
        c = self.config
        encoder = c.encoder(self.observation_space, entities=self.entities)
        _, features, _ = encoder(name="torso")((), obs, reset)
        return self.head(self.action_space, c.head_hidden, c.activation, name="policy")(features)


def actor_critics(
    config: BoxLayer, head: Callable[..., nn.Module], env: MultiAgentEnvironment, param_sets: tuple[int, ...]
) -> Networks:
    """An actor with the policy `head` and critics for each parameter set."""
    network = ActorCritics(config, head, env.observation_space(), box_of(env), env.entities)
    evaluate = per_agent(partial(network.apply, method="evaluate"), param_sets, agent_axes=(2, 2), out_axes=2)

    @jax.jit  # traced once for both sides of an error
    def of_actions(params: Any, observation: Observation, action: jax.Array) -> jax.Array:
        return evaluate(params, observation.obs, action)

    return own_networks(network, lambda *_: (), env, param_sets)._replace(evaluate=of_actions)


def explore(config: BoxLayer, env: MultiAgentEnvironment, state: Any, policy: Any) -> MaybeUniform:
    """The behaviour of a policy: until learning starts, all actions are equally likely."""
    return maybe_uniform(policy, *bounds_of(box_of(env)), config.waiting(state.update))


def box_of(env: MultiAgentEnvironment) -> Box:
    """The space of the actions."""
    space = env.action_space()
    assert isinstance(space, Box)  # the configuration refuses others
    return space


def part_of(params: Any, *names: str) -> Any:
    """Some of the parameters."""
    return {"params": {name: params["params"][name] for name in names}}


def q_of(agent: Agent, params: Any, observation: Observation, action: jax.Array) -> jax.Array:
    """The values of actions `[L, R, N, ...]` by each critic, `[L, R, N, K]`."""
    assert agent.networks.evaluate is not None
    return agent.networks.evaluate(params, observation, action)


def critic_loss(
    agent: Agent, gamma: Any, params: Any, batch: Batch, after: Steps, next_value: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Half the squared errors of all critics: this device's share of the mean over all devices.

    Args:
        agent: What the configuration is made into.
        gamma: Discount factor.
        params: The parameters that are learned.
        batch: The minibatch.
        after: Its `bootstrap_steps`.
        next_value: `[1, R, N]` of what they observe.
    """
    now = rows(batch.steps, 0, 1)
    next_value = agent.team_value(next_value, after.observation.agent_mask, agent.env.teams)
    returns = replayed_returns(agent, gamma, batch.steps, next_value)
    weight = step_weights(now)
    q = q_of(agent, params, now.observation, now.action)
    value_loss = jnp.sum(0.5 * jnp.square(q - returns[..., None]).sum(axis=-1) * weight)
    return value_loss, {"value": value_loss, "q": jnp.sum(q.mean(axis=-1) * weight)}


def learn_part(
    agent: Agent,
    h: Any,
    learner: Learner,
    batch: Batch,
    names: tuple[str, ...],
    loss: Callable[[Any, Batch], tuple[jax.Array, dict[str, jax.Array]]],
) -> tuple[Learner, dict[str, jax.Array]]:
    """One gradient step of some of the parameters on `loss(params, batch)`.

    Losses are this device's share and include the gradient's norm.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        learner: With a dict as the optimisers' states, by the first of the names.
        batch: The minibatch.
        names: Of the parameters.
        loss: Of all parameters.
    """
    rest, first = learner.params["params"], names[0]
    own, opt_state, losses = gradient_step(
        lambda own, batch: loss({"params": {**rest, **own["params"]}}, batch),
        part_of(learner.params, *names),
        learner.opt_state[first],
        batch,
        agent.config.optimizer,
        h.lr,
        h.max_grad_norm,
    )
    losses[f"{first}_grad_norm"] = losses.pop("grad_norm")
    params, opt_states = {"params": {**rest, **own["params"]}}, {**learner.opt_state, first: opt_state}
    return Learner(params, learner.target, opt_states), losses
