"""DQN: Q-learning from a replay buffer, with a target network (Mnih et al. 2015,
https://doi.org/10.1038/nature14236), for one agent, or for N agents that learn independently.

Run it: `python algos/dqn.py --env classic/cartpole`, or `jaxrl train dqn --env classic/cartpole`. The target network's
values are those of the actions that the learned network prefers (double Q-learning, van Hasselt et al. 2016,
https://arxiv.org/abs/1509.06461). With memory, it learns from sequences with the stored memory, refreshed by `burn_in`
steps (Kapturowski et al. 2019, https://openreview.net/forum?id=r1lyTjAqYX). The network is PQN's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxrl.acting.agent import Agent, act, act_alone
from jaxrl.acting.rollout import Observation
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import off_policy, pqn
from jaxrl.algos.config.values import ReplayHyperparams, ReplayQConfig
from jaxrl.algos.off_policy import Batch, bootstrap_steps, replayed_returns, rows, step_weights
from jaxrl.config import Name, check_config, check_loss
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.rl.returns import chosen_value, greedy_value
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(ReplayQConfig):
    """DQN's configuration. The defaults suit CartPole."""

    env: Name = "classic/cartpole"
    total_timesteps: int = 300_000
    num_envs: int = 16
    num_steps: int = 8
    hidden: tuple[int, ...] = (64, 64)
    lr: float = 1e-3
    n_step: int = 3


PRESETS: dict[str, Config] = {
    "default": Config(),
    "acrobot": Config(env="classic/acrobot"),
    "minatar": Config(
        env="minatar/breakout",
        total_timesteps=5_000_000,
        num_envs=64,
        num_steps=4,
        hidden=(128,),
        lr=5e-4,
        eps_decay=0.1,
        learning_starts=5000,
    ),
}

Mix = Callable[[Agent, Any, jax.Array, Observation], jax.Array]
"""`mix(agent, params, value[T, R, N], observation) -> value[T, R, N]`: agents' values to those that are learned."""


def update(agent: Agent, state: off_policy.TrainState) -> tuple[off_policy.TrainState, Metrics]:
    """One rollout and its gradient steps. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    epsilon = pqn.current_epsilon(agent.config, state)
    state, metrics = off_policy.act_and_learn(agent, state)
    return state, {**metrics, "losses": {**metrics["losses"], "epsilon": epsilon}}


def of_team(agent: Agent, params: Any, value: jax.Array, observation: Observation) -> jax.Array:
    """A `Mix` without parameters, the agent's `team_value`."""
    del params
    return agent.team_value(value, observation.agent_mask, agent.env.teams)


def loss(
    agent: Agent,
    h: ReplayHyperparams,
    params: Any,
    target: Any,
    batch: Batch,
    mix: Mix = of_team,
    per_team: bool = False,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The error of the chosen actions' values, averaged; with several devices, the mean over them counts.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        params: The parameters that are learned.
        target: Those of the target network.
        batch: The minibatch.
        mix: Combines the values of all agents' actions, before they are compared with rewards.
        per_team: Count each team once, however many of its members are alive, instead of each living agent.
    """
    config = agent.config
    steps = rows(batch.steps, config.burn_in)
    now, after = rows(steps, 0, config.train_length), bootstrap_steps(config, steps)
    predicted, next_predicted, target_predicted = unroll(agent, params, target, batch, after)
    chosen = mix(agent, params, chosen_value(predicted.q, now.action), now.observation)
    target_q = target_predicted.q
    next_value = greedy_value(target_q, next_predicted.q if config.double else target_q)
    next_value = mix(agent, target, next_value, after.observation)

    returns = replayed_returns(agent, h.gamma, steps, next_value)
    weight = step_weights(now, agent.env.teams if per_team else None, batch.weight)
    error = chosen - returns
    if config.value_loss == "hlgauss":
        logits = jax.vmap(chosen_value, (-1, None), -1)(predicted.outputs, now.action)
        each = config.value.each.loss(logits, chosen, returns, jnp.inf)
    else:
        each = optax.losses.huber_loss(error) if config.value_loss == "huber" else 0.5 * jnp.square(error)
    value_loss = jnp.sum(each * weight)
    found = {"value": value_loss, "q": jnp.sum(chosen * weight)}
    return value_loss, {**found, **({"priority": priority_of(agent, error, weight > 0)} if config.by_priority else {})}


def priority_of(agent: Agent, error: jax.Array, counted: jax.Array) -> jax.Array:
    """How often each row is to be drawn, `[R]`, given the errors `[L, R, N]` of which some are `counted`.

    It is 0.9 of the largest and 0.1 of the mean size (Kapturowski et al. 2019) to the power of `priority_exponent`.
    """
    size = jnp.where(counted, jnp.abs(error), 0.0)
    mean = size.sum(axis=(0, 2)) / jnp.maximum(counted.sum(axis=(0, 2)), 1)
    mixed = 0.9 * size.max(axis=(0, 2)) + 0.1 * mean
    return jax.lax.stop_gradient((mixed + 1e-6) ** agent.config.priority_exponent)  # nothing is forgotten for ever


class Predicted(NamedTuple):
    """A network's output for all actions in L steps."""

    q: jax.Array  # [L, R, N, A] values, -1e18 for forbidden actions
    outputs: jax.Array  # the same, or logits [L, R, N, A, num_bins]


def unroll(
    agent: Agent, params: Any, target: Any, batch: Batch, after: off_policy.Steps
) -> tuple[Predicted, Predicted, Predicted]:
    """The values of all actions: in the L steps that are learned from, and in the steps `after` them by both networks.

    `after` are the batch's `bootstrap_steps`. With memory, both networks see the same steps, from the stored memory on.
    """
    config = agent.config

    def apply(params: Any, carry: Any, steps: off_policy.Steps) -> tuple[Any, Predicted]:
        carry, policy, outputs = agent.networks.apply(params, carry, steps.observation, steps.reset)
        return carry, Predicted(policy.values, outputs)

    if config.memory == "none":
        now = rows(batch.steps, 0, 1)
        return apply(params, (), now)[1], apply(params, (), after)[1], apply(target, (), after)[1]
    before, steps = rows(batch.steps, 0, config.burn_in), rows(batch.steps, config.burn_in)
    carry = target_carry = batch.carry
    if config.burn_in:
        refreshed = apply(params, carry, before)[0], apply(target, target_carry, before)[0]
        carry, target_carry = jax.lax.stop_gradient(refreshed)
    predicted, target_predicted = apply(params, carry, steps)[1], apply(target, target_carry, steps)[1]
    return rows(predicted, 0, config.train_length), rows(predicted, 1), rows(target_predicted, 1)


def make(config: Config, loss: Any = loss) -> Algorithm:
    """DQN as three pure functions of the train state. With a single agent, inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    team = as_multi_agent(env)
    param_sets = config.param_sets(team)
    networks = pqn.q_networks(config, team, param_sets)
    agent = Agent(config, team, param_sets, networks, loss, behaviour=partial(pqn.explore, config))
    acting = act if isinstance(env, MultiAgentEnvironment) else act_alone
    return Algorithm(partial(off_policy.init, agent), partial(update, agent), partial(acting, agent))


def make_train(config: Config) -> Callable[..., tuple[off_policy.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
