"""An actor and K critics of its actions, which learn from a replay buffer: their networks, the critics' loss, and
gradient steps on some of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, Networks, own_networks, own_numbers
from jaxrl.acting.rollout import Observation, global_state_size
from jaxrl.algos.config.values import BoxLayer
from jaxrl.algos.off_policy import Batch, Learner, Steps, replayed_returns, rows, step_weights
from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.distributions import MaybeUniform, maybe_uniform
from jaxrl.nn.encoder import as_floats
from jaxrl.nn.heads import ValueHead, bounds_of
from jaxrl.nn.sharing import per_agent
from jaxrl.nn.team import as_numbers
from jaxrl.rl.losses import C51, HLGauss, cross_entropy
from jaxrl.rl.optimizer import gradient_step
from jaxrl.spaces import Box, Space

__all__ = [
    "actor_critics",
    "box_of",
    "critic_loss",
    "explore",
    "learn_part",
    "part_of",
    "predictions_of",
    "q_of",
]


class Critic(nn.Module):
    """Maps observations `[T, B, ...]` and `known[T, B, F]`, the action and what else it sees, to predictions of the
    value, `[T, B]` or logits `[T, B, num_bins]`.
    """

    config: BoxLayer
    observation_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(self, obs: jax.Array, known: jax.Array) -> jax.Array:
        c = self.config
        encoder = c.encoder(self.observation_space, c.critic_hidden, own=False, entities=self.entities)
        _, features, _ = encoder(name="torso")((), obs, jnp.zeros(known.shape[:-1], bool), known)
        return ValueHead(c.head_hidden, c.activation, c.value.num_bins, name="value")(features)


class ActorCritics(nn.Module):
    """Maps observations `[T, B, ...]` to a policy, and with actions to the critics' predictions; they share nothing."""

    config: BoxLayer
    head: Callable[..., nn.Module]
    observation_space: Space
    action_space: Box
    entities: Entities | None
    beside_size: int
    """G, the numbers that critics see beside the agent's own observation and action: the global state, `joint_view`."""

    def setup(self) -> None:
        self.actor = Actor(self.config, self.head, self.observation_space, self.action_space, self.entities)
        several = nn.vmap(
            Critic,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=None,  # pyright: ignore[reportArgumentType]
            out_axes=-1 if self.config.value.num_bins is None else -2,
            axis_size=self.config.num_critics,
        )
        self.critic = several(self.config, self.observation_space, self.entities)

    def __call__(self, carry: Any, obs: jax.Array, reset: jax.Array, mask: Any) -> tuple[Any, Any, None]:
        del mask
        policy = self.actor(obs, reset)
        if self.is_initializing():
            self.evaluate(obs, policy.mode(), jnp.zeros((*reset.shape, self.beside_size), jnp.float32))
        return carry, policy, None

    def evaluate(self, obs: jax.Array, action: jax.Array, beside: jax.Array) -> jax.Array:
        """The critics' predictions for actions `[T, B, ...]`, given `beside[T, B, G]`: `[T, B, K]` or
        `[T, B, K, num_bins]`.
        """
        low, high = bounds_of(self.action_space)
        scaled = (action - (high + low) / 2) / ((high - low) / 2)  # in half-widths from the centre
        scaled = scaled.reshape(*action.shape[: action.ndim - low.ndim], -1)
        return self.critic(obs, jnp.concatenate([scaled, beside], axis=-1))


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
    state_size = global_state_size(env) if config.sees_state(env) else 0
    size = joint_size(env) if config.joint_critic else state_size
    network = ActorCritics(config, head, env.observation_space(), box_of(env), env.entities, size)
    evaluate = per_agent(partial(network.apply, method="evaluate"), param_sets, agent_axes=(2, 2, 2), out_axes=2)

    @jax.jit  # traced once for both sides of an error
    def of_actions(params: Any, observation: Observation, action: jax.Array) -> jax.Array:
        shape = (*observation.agent_mask.shape, state_size)
        seen = jnp.zeros((), jnp.float32) if observation.global_state is None else observation.global_state[:, :, None]
        return evaluate(params, observation.obs, action, jnp.broadcast_to(seen, shape))

    @jax.jit
    def of_joint_actions(params: Any, observation: Observation, action: jax.Array) -> jax.Array:
        return evaluate(params, observation.obs, action, joint_view(env, observation, action))

    networks = own_networks(network, lambda *_: (), env, param_sets)
    return networks._replace(evaluate=of_joint_actions if config.joint_critic else of_actions)


def joint_view(env: MultiAgentEnvironment, observation: Observation, action: jax.Array) -> jax.Array:
    """What a joint critic sees beside the agent's own observation and action: float32 `[T, B, N, G]`.

    That is the actions of all others in the order of `env.agents`, the agent's number, and the global state or, in an
    environment without one, the others' observations in the same order. The absent, and what pads an action to the size
    of the others', are 0. Values have no gradient to the actions of others: what is worth something to one agent is no
    reason for another one, which may be an opponent, to do it.

    Args:
        env: The environment.
        observation: What N agents observe, `[T, B, ...]`.
        action: `[T, B, N, ...]`.
    """
    lead, num_agents = observation.agent_mask.shape, env.num_agents
    others = np.array([np.delete(np.arange(num_agents), i) for i in range(num_agents)])  # [N, N - 1]

    def of_others(numbers: jax.Array) -> jax.Array:
        present = jnp.where(observation.agent_mask[..., None], numbers.reshape(*lead, -1), 0.0)
        return present[:, :, others].reshape(*lead, -1)

    done = jnp.where(own_numbers(env).reshape(num_agents, -1), as_numbers(box_of(env), action), 0.0)
    number = jnp.broadcast_to(np.eye(num_agents, dtype=np.float32), (*lead, num_agents))
    if observation.global_state is not None:
        state = observation.global_state[:, :, None]
        seen = jnp.broadcast_to(state, (*lead, state.shape[-1]))
    else:
        space, numbers = env.observation_space(), observation.obs
        seen = of_others((as_floats if isinstance(space, Box) else as_numbers)(space, numbers))
    return jnp.concatenate([jax.lax.stop_gradient(of_others(done)), number, seen], axis=-1)


def joint_size(env: MultiAgentEnvironment) -> int:
    """G, the numbers of a `joint_view`."""

    def view() -> jax.Array:
        spaces, lead = (env.observation_space(), box_of(env)), (1, 1, env.num_agents)
        obs, action = (jnp.zeros((*lead, *space.shape), space.dtype) for space in spaces)
        state = jnp.zeros((1, 1, global_state_size(env)), jnp.float32) if env.has_global_state else None
        return joint_view(env, Observation(obs, state, None, jnp.ones(lead, bool)), action)

    return jax.eval_shape(view).shape[-1]


def explore(config: BoxLayer, env: MultiAgentEnvironment, state: Any, policy: Any) -> MaybeUniform:
    """The behaviour of a policy: until learning starts, all actions are equally likely."""
    return maybe_uniform(policy, *bounds_of(box_of(env)), config.waiting(state.update))


def box_of(env: MultiAgentEnvironment) -> Box:
    """The space of the actions."""
    space = env.action_space()
    assert isinstance(space, Box)  # the configuration refuses others
    return space


def part_of(params: Any, *names: str) -> Any:
    """The parameters of these names."""
    return {"params": {name: params["params"][name] for name in names}}


def predictions_of(agent: Agent, params: Any, observation: Observation, action: jax.Array) -> jax.Array:
    """Each critic's prediction for actions `[L, R, N, ...]`: `[L, R, N, K]`, or logits `[L, R, N, K, num_bins]`."""
    assert agent.networks.evaluate is not None
    return agent.networks.evaluate(params, observation, action)


def q_of(agent: Agent, params: Any, observation: Observation, action: jax.Array) -> jax.Array:
    """The values of actions `[L, R, N, ...]`, combined over the critics: `[L, R, N]`."""
    return agent.config.joint(agent.config.value.decode(predictions_of(agent, params, observation, action)))


def critic_loss(
    agent: Agent,
    gamma: Any,
    params: Any,
    batch: Batch,
    after: Steps,
    next_prediction: jax.Array,
    bonus: jax.Array | float = 0.0,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The errors of all critics, added up and averaged; with several devices, the mean over them counts.

    Args:
        agent: What the configuration is made into.
        gamma: Discount factor.
        params: The parameters that are learned.
        batch: The minibatch.
        after: Its `bootstrap_steps`.
        next_prediction: The target critics' predictions for these steps, see `predictions_of`.
        bonus: `[1, R, N]`, added to the values of these steps.
    """
    config, now = agent.config, rows(batch.steps, 0, 1)
    prediction = predictions_of(agent, params, now.observation, now.action)
    q = config.value.decode(prediction)
    if isinstance(config.value, C51):
        target = _distribution_of_returns(agent, gamma, batch.steps, after, next_prediction, bonus)
        errors = cross_entropy(prediction, target[..., None, :])
    else:
        next_value = config.joint(config.value.decode(next_prediction)) + bonus
        next_value = agent.team_value(next_value, after.observation.agent_mask, agent.env.teams)
        returns = replayed_returns(agent, gamma, batch.steps, next_value)[..., None]
        bins = isinstance(config.value, HLGauss)
        errors = config.value.loss(prediction, q, returns, jnp.inf) if bins else 0.5 * jnp.square(q - returns)
    weight = step_weights(now)
    value_loss = jnp.sum(errors.sum(axis=-1) * weight)
    return value_loss, {"value": value_loss, "q": jnp.sum(q.mean(axis=-1) * weight)}


def _distribution_of_returns(
    agent: Agent, gamma: Any, steps: Steps, after: Steps, next_prediction: jax.Array, bonus: jax.Array | float
) -> jax.Array:
    """The targets of distributions over atoms, `[L, R, N, num_bins]`; for the arguments see `critic_loss`.

    Dead agents get the mixture of their living team-mates' distributions, or the value 0 if the whole team is dead.
    """
    alive, teams, value = after.observation.agent_mask, agent.env.teams, agent.config.value
    by_atom = jax.vmap(lambda of_atom: agent.team_value(of_atom, alive, teams), -1, -1)
    atoms = by_atom(jnp.broadcast_to(bonus, alive.shape)[..., None] + value.atoms)
    probabilities = by_atom(agent.config.joint_distribution(next_prediction))
    probabilities = probabilities.at[..., 0].add(1.0 - probabilities.sum(axis=-1))  # of a dead team, all atoms are 0
    returns = jax.vmap(lambda of_atom: replayed_returns(agent, gamma, steps, of_atom), -1, -1)(atoms)
    return jax.lax.stop_gradient(value.project(probabilities, returns))


def learn_part(
    agent: Agent,
    h: Any,
    learner: Learner,
    batch: Batch,
    names: tuple[str, ...],
    loss: Callable[[Any, Batch], tuple[jax.Array, dict[str, jax.Array]]],
) -> tuple[Learner, dict[str, jax.Array]]:
    """One gradient step of some of the parameters on `loss(params, batch)`.

    Losses are this device's and include the gradient's norm.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        learner: Its `opt_state` is a dict of optimiser states, each under the first of its part's names.
        batch: The minibatch.
        names: The parameters that learn.
        loss: A function of all parameters.
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
        agent.config.weight_decay,
    )
    losses[f"{first}_grad_norm"] = losses.pop("grad_norm")
    params, opt_states = {"params": {**rest, **own["params"]}}, {**learner.opt_state, first: opt_state}
    return Learner(params, learner.target, opt_states), losses
