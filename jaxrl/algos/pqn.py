"""PQN: Q-learning from fresh rollouts, without replay or a target network (Gallici et al. 2024,
https://arxiv.org/abs/2407.04811), for one agent, or for N agents that learn independently.

Run it: `python algos/pqn.py --env classic/cartpole`, or `jaxrl train pqn --env classic/cartpole`. It collects
experience and learns in epochs of minibatches as PPO does, with another target: returns mixed over all lengths, which
bootstrap from the best action's value. Normalised layers keep that stable. PQN-VDN is this file with values summed
over a team.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, Networks, act, act_alone, own_networks
from jaxrl.acting.rollout import Observation
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import ppo
from jaxrl.algos.config.values import ExplorationLayer, QConfig, QLayer
from jaxrl.algos.config.values import QHyperparams as Hyperparams
from jaxrl.algos.on_policy import collect, learn
from jaxrl.config import Name, check_config, check_loss
from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.distributions import EpsilonGreedy
from jaxrl.nn.heads import QHead
from jaxrl.rl.devices import mean_weights
from jaxrl.rl.learn import to_sequences
from jaxrl.rl.returns import chosen_value, lambda_returns
from jaxrl.spaces import Discrete, Space
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(QConfig):
    """PQN's configuration. The defaults suit CartPole."""

    env: Name = "classic/cartpole"
    total_timesteps: int = 500_000
    num_envs: int = 32
    num_steps: int = 64
    num_minibatches: int = 16
    lr: float = 2e-4
    q_lambda: float = 0.95
    eps_finish: float = 0.2  # with 0.05, one seed in twenty has forgotten by the end what it no longer sees


PRESETS: dict[str, Config] = {
    "default": Config(),
    "minatar": Config(
        env="minatar/breakout",
        total_timesteps=5_000_000,
        num_envs=128,
        num_steps=32,
        num_minibatches=32,
        update_epochs=2,
        lr=5e-4,
        anneal_lr=True,
        q_lambda=0.65,
        eps_finish=0.05,
        eps_decay=0.1,
        normalise_reward=False,
    ),
}


class Batch(NamedTuple):
    """R sequences of L steps: leaves `[L, R, ...]`."""

    observation: Observation
    reset: jax.Array  # [L, R]
    action: jax.Array  # [L, R, N]
    target: jax.Array  # [L, R, N] of the action's value
    carry: Any  # [1, R, ...] memory before the first step


class QNetwork(nn.Module):
    """Maps observations `[T, B, ...]` to the greedy policy and to the values of all actions: `[T, B, A]`, or
    logits `[T, B, A, num_bins]`.
    """

    config: QLayer
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
        each, layers = c.value.each, (c.head_hidden, c.activation, c.layer_norm, c.dueling)
        outputs = QHead(self.num_actions, *layers, each.num_bins, name="q")(features, pointed)
        policy = EpsilonGreedy(each.decode(outputs), mask)
        return carry, policy, policy.values if each.num_bins is None else outputs


def update(agent: Agent, state: ppo.TrainState) -> tuple[ppo.TrainState, Metrics]:
    """One rollout and its optimisation. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    config = agent.config
    h = agent.schedule(agent, state)
    epsilon = config.epsilon(h, state.update)
    state, experience = collect(agent, state, h)
    traj, reward, discount, cut, next_value, *_ = experience
    target = lambda_returns(reward, discount, cut, traj.extras["value"], next_value, h.q_lambda)
    steps = (traj.observation, traj.reset, traj.action, target)
    batch = Batch(*to_sequences(steps, config.train_length), carry=to_sequences(traj.carry, 1))
    state, metrics = learn(agent, state, h, batch, experience)
    return state, {**metrics, "losses": {**metrics["losses"], "epsilon": epsilon}}


def loss(
    agent: Agent, h: Hyperparams, params: Any, batch: Batch, weight: jax.Array | None = None
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Half the squared error of the chosen actions' values, averaged; with several devices, the mean over them
    counts.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        params: The parameters that are learned.
        batch: The minibatch.
        weight: `[L, R, N]` how much each agent's error counts; None for 1 if it is alive and 0 otherwise.
    """
    del h
    alive = batch.observation.agent_mask
    weight = mean_weights(alive.astype(jnp.float32) if weight is None else weight)
    carry = jax.tree.map(lambda leaf: leaf[0], batch.carry)
    _, _, q = agent.networks.apply(params, carry, batch.observation, batch.reset)
    chosen = agent.team_value(chosen_value(q, batch.action), alive, agent.env.teams)
    value_loss = jnp.sum(0.5 * jnp.square(chosen - batch.target) * weight)
    return value_loss, {"value": value_loss, "q": jnp.sum(chosen * weight)}


def q_networks(config: QLayer, env: MultiAgentEnvironment, param_sets: tuple[int, ...]) -> Networks:
    """A `QNetwork` for each parameter set."""
    space = env.action_space()
    assert isinstance(space, Discrete)  # the configuration refuses others
    network = QNetwork(config, env.observation_space(), space.n, env.entities)
    return own_networks(network, config.initial_carry, env, param_sets)


def current_epsilon(config: ExplorationLayer, state: Any) -> jax.Array:
    """The share of random actions in the state's next update."""
    return config.epsilon(config.annealed(state.hyperparams, state.update), state.update)


def explore(config: ExplorationLayer, state: Any, policy: Any) -> Any:
    """The epsilon-greedy behaviour of a greedy policy."""
    return policy.exploring(current_epsilon(config, state))


def make(config: Config, loss: Any = loss) -> Algorithm:
    """PQN as three pure functions of the train state. With a single agent, inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    team = as_multi_agent(env)
    param_sets = config.param_sets(team)
    networks = q_networks(config, team, param_sets)
    agent = Agent(config, team, param_sets, networks, loss, behaviour=partial(explore, config))
    acting = act if isinstance(env, MultiAgentEnvironment) else act_alone
    return Algorithm(partial(ppo.init, agent), partial(update, agent), partial(acting, agent))


def make_train(config: Config) -> Callable[..., tuple[ppo.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
