"""PPO: proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347), for one agent.

Run it: `python algos/ppo.py --env classic/cartpole`, or `jaxrl train ppo --env classic/cartpole`. Everything here has
an axis of N agents, with N = 1 for PPO: IPPO and MAPPO are this file with other networks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.acting.agent import (
    Agent,
    Networks,
    act_alone,
    counted,
    init_normaliser,
    make_collector,
    own_networks,
    own_value,
)
from jaxrl.acting.normaliser import Normaliser
from jaxrl.acting.rollout import Observation, RunnerState, Transition, init_runner
from jaxrl.algorithm import Algorithm, Learned, Metrics, PerEnvironment, Replicated, scan_updates
from jaxrl.algos.config.learning import Hyperparams, OnPolicyConfig
from jaxrl.algos.on_policy import Experience, collect, learn
from jaxrl.config import Name, check_config, check_loss
from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import check_key
from jaxrl.nn.heads import ValueHead, policy_head
from jaxrl.rl.advantage import gae, normalise
from jaxrl.rl.devices import mean_weights
from jaxrl.rl.learn import gradient, to_sequences
from jaxrl.rl.losses import clipped_surrogate, scaled_mean
from jaxrl.rl.optimizer import new_opt_state
from jaxrl.spaces import Box, Space
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "TrainState", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(OnPolicyConfig):
    """PPO's configuration. The defaults suit the classic control tasks."""

    env: Name = "classic/cartpole"
    total_timesteps: int = 100_000
    num_envs: int = 16
    num_steps: int = 64
    lr: float = 2e-3
    ent_coef: float = 0.0
    clip_value: bool = False
    normalise_reward: bool = True
    share_torso: bool = False


_MOUNTAIN_CAR: dict[str, Any] = {"num_steps": 256, "gae_lambda": 0.98, "normalise_obs": True}

# Which mappo has as well.
QUADROTOR: dict[str, Any] = {
    "env": "quadrotor/hover",
    "total_timesteps": 3_000_000,
    "num_envs": 64,
    "num_steps": 128,
    "num_minibatches": 8,
    "lr": 1e-3,
    "normalise_obs": True,
}

# Many gradient steps on small minibatches; with tanh instead of relu it gets a third as much on Asterix.
_MINATAR: dict[str, Any] = {
    "total_timesteps": 5_000_000,
    "num_envs": 128,
    "num_steps": 32,
    "num_minibatches": 16,
    "lr": 1e-3,
    "hidden": (128,),
    "activation": "relu",
    "layer_norm": True,
    "share_torso": True,
}

PRESETS: dict[str, Config] = {
    "default": Config(),
    "acrobot": Config(env="classic/acrobot", total_timesteps=300_000, ent_coef=0.01),
    "pendulum": Config(env="classic/pendulum", total_timesteps=300_000, lr=1e-3, gamma=0.95, update_epochs=8),
    "mountain_car": Config(env="classic/mountain_car", total_timesteps=600_000, ent_coef=0.02, **_MOUNTAIN_CAR),
    "mountain_car_continuous": Config(
        env="classic/mountain_car_continuous", total_timesteps=300_000, gamma=0.999, **_MOUNTAIN_CAR
    ),
    "memory": Config(
        env="memory/repeat_previous",
        total_timesteps=500_000,
        num_envs=64,
        lr=1e-3,
        normalise_reward=False,
        hidden=(128,),
        memory="gru",
        memory_size=128,
    ),
    # Policy and critic share torso and memory: nearly twice as fast as one for each, and as good per step.
    "maze": Config(
        env="maze/13",
        total_timesteps=4_000_000,
        num_envs=128,
        gae_lambda=0.9,
        ent_coef=0.003,
        share_torso=True,
        memory="gru",
        memory_size=64,
    ),
    "quadrotor": Config(**QUADROTOR),
    "minatar": Config(env="minatar/breakout", gae_lambda=0.8, ent_coef=0.01, **_MINATAR),
    # With the entropy of the other games it stays at 6: the submarine does not come up for air.
    "seaquest": Config(env="minatar/seaquest", ent_coef=0.05, **_MINATAR),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """The complete state of training: saving and loading it resumes exactly."""

    params: Learned[Any]
    opt_state: Learned[Any]
    hyperparams: Replicated[Any]
    normaliser: Learned[Normaliser]
    runner: PerEnvironment[RunnerState]
    key: Replicated[jax.Array]
    update: Replicated[jax.Array]  # int32, updates done


class Batch(NamedTuple):
    """R sequences of L steps: leaves `[L, R, ...]`."""

    observation: Observation
    reset: jax.Array  # [L, R]
    action: jax.Array  # [L, R, N, ...]
    log_prob: jax.Array  # [L, R, N] under the policy that acted
    value: jax.Array  # [L, R, N] by the critic at that time
    advantage: jax.Array  # [L, R, N]; normalised for `loss`
    target: jax.Array  # [L, R, N] of the value
    weight: jax.Array  # [L, R, N] 1 for a living agent, 0 for a dead one; for `loss` scaled for a mean
    carry: Any  # [1, R, ...] memory before the first step: rows are along the second axis, as everywhere here


class ActorCritic(nn.Module):
    """Maps observations `[T, B, ...]` to a policy and the critic's prediction; separate torsos have a memory each."""

    config: OnPolicyConfig
    observation_space: Space
    action_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(
        self, carry: Any, obs: jax.Array, reset: jax.Array, mask: jax.Array | None
    ) -> tuple[Any, Any, jax.Array]:
        c = self.config
        encoder = c.encoder(self.observation_space, entities=self.entities)
        policy_carry, features, pointed = encoder(name="torso")(carry[0], obs, reset)
        policy = policy_head(self.action_space, c.head_hidden, c.activation, squash=c.squash, name="policy")
        distribution = policy(features, mask, pointed)
        new_carry = (policy_carry,)
        if not c.share_torso:
            encoder = c.encoder(self.observation_space, c.critic_hidden, entities=self.entities)
            value_carry, features, _ = encoder(name="value_torso")(carry[1], obs, reset)
            new_carry = (policy_carry, value_carry)
        prediction = ValueHead(c.head_hidden, c.activation, c.value.num_bins, name="value")(features)
        return new_carry, distribution, prediction


def init(agent: Agent, key: jax.Array, hyperparams: Any = None) -> TrainState:
    """A fresh train state. Consumes `key`."""
    check_key(key, "init")
    config = agent.config
    h = config.initial_hyperparams(hyperparams)
    key_params, key_env, key = jax.random.split(key, 3)
    params = agent.networks.init(key_params)
    runner = init_runner(make_collector(agent, 0), agent.networks.new_carry(config.num_envs), key_env)
    opt_state = new_opt_state(params, config.optimizer)
    return TrainState(params, opt_state, h, init_normaliser(agent), runner, key, jnp.int32(0))


def update(agent: Agent, state: TrainState) -> tuple[TrainState, Metrics]:
    """One rollout and its optimisation. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    h = agent.schedule(agent, state)  # `make` chooses the functions of an agent; each takes it as its first argument

    # From here on the state has acted but not yet learned: its environments, key and statistics are new.
    state, seen = collect(agent, state, h)
    advantage = gae(seen.reward, seen.discount, seen.cut, seen.traj.extras["value"], seen.next_value, h.gae_lambda)
    batch = agent.batch(agent, seen, advantage)
    return learn(agent, state, h, batch, seen, agent.config.target_kl)


def batch_of(agent: Agent, experience: Experience, advantage: jax.Array) -> Batch:
    """All agents' steps of a rollout, as sequences."""
    return sequences(experience.traj, advantage, agent.config.train_length)


def sequences(traj: Transition, advantage: jax.Array, length: int, weight: jax.Array | None = None) -> Batch:
    """Cut a rollout `[T, B, ...]` into sequences of L = `length` steps; without weights, the living have weight 1."""
    weight = traj.observation.agent_mask.astype(jnp.float32) if weight is None else weight
    log_prob, value = traj.extras["log_prob"], traj.extras["value"]
    target = advantage + value
    steps = (traj.observation, traj.reset, traj.action, log_prob, value, advantage, target, weight)
    return Batch(*to_sequences(steps, length), carry=to_sequences(traj.carry, 1))


def gradient_of_loss(agent: Agent, h: Hyperparams, params: Any, minibatch: Batch) -> tuple[Any, dict[str, jax.Array]]:
    """The gradient of the loss on a minibatch with normalised advantages, and what the loss reports."""
    return gradient(partial(agent.loss, agent, h), params, normalised_minibatch(minibatch))


def normalised_minibatch(batch: Batch, num_parts: int = 1) -> Batch:
    """A minibatch as `loss` takes it: its advantages have mean 0 and deviation 1, and its weights are for means."""
    advantage = normalise(batch.advantage, batch.weight)
    return batch._replace(advantage=advantage, weight=mean_weights(batch.weight, num_parts))


def loss(agent: Agent, h: Hyperparams, params: Any, batch: Batch) -> tuple[jax.Array, dict[str, jax.Array]]:
    """PPO's loss, a mean over the steps of living agents, from a `normalised_minibatch`."""
    carry = jax.tree.map(lambda leaf: leaf[0], batch.carry)
    _, policy, prediction = agent.networks.apply(params, carry, batch.observation, batch.reset)
    return surrogate(agent, h, batch, policy, prediction)


def surrogate(
    agent: Agent, h: Hyperparams, batch: Batch, policy: Any, prediction: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The clipped surrogate of a policy, with the loss of the critic's prediction and the bonus for entropy."""

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(x * batch.weight)

    log_ratio = policy.log_prob(batch.action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    value_clip = h.clip_eps if agent.config.clip_value else jnp.inf

    policy_loss = mean(clipped_surrogate(ratio, batch.advantage, h.clip_eps))
    value_loss = agent.config.value.loss(prediction, batch.value, batch.target, value_clip)
    entropy = policy.entropy()
    bonus = scaled_mean(h.ent_coef, entropy, batch.weight)
    total_loss = policy_loss + scaled_mean(h.vf_coef, value_loss, batch.weight) - bonus
    return total_loss, {
        "total": total_loss,
        "policy": policy_loss,
        "value": mean(value_loss),
        "entropy": mean(entropy),
        "approx_kl": mean(ratio - 1.0 - log_ratio),
        "clip_fraction": mean((jnp.abs(ratio - 1.0) > h.clip_eps).astype(jnp.float32)),
    }


def actor_critic(config: OnPolicyConfig, env: MultiAgentEnvironment, param_sets: tuple[int, ...]) -> Networks:
    """An `ActorCritic` for each parameter set; policy and critic both see the agent's own observation."""
    network = ActorCritic(config, env.observation_space(), env.action_space(), env.entities)

    def carry_of(*batch_shape: int) -> Any:
        one = config.initial_carry(*batch_shape)
        return (one,) if config.share_torso else (one, one)

    networks = own_networks(network, carry_of, env, param_sets)
    if not isinstance(env.action_space(), Box):
        return networks

    def apply(*inputs: Any) -> tuple[Any, Any, jax.Array]:
        carry, policy, prediction = networks.apply(*inputs)
        return carry, counted(policy, env), prediction

    return networks._replace(apply=apply)


def make(config: Config, loss: Any = loss) -> Algorithm:
    """PPO as three pure functions of the train state. Their inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `loss` above.

    Raises:
        TypeError: The environment has several agents.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    if isinstance(env, MultiAgentEnvironment):
        raise TypeError(f"{config.env} has {env.num_agents} agents and ppo trains one; use ippo or mappo.")
    team = as_multi_agent(env)
    networks = actor_critic(config, team, (0,))
    agent = Agent(
        config,
        env=team,
        param_sets=(0,),  # the only agent uses the first set of parameters
        networks=networks,
        loss=loss,
        grad=gradient_of_loss,
        batch=batch_of,
        team_value=own_value,
    )
    return Algorithm(partial(init, agent), partial(update, agent), partial(act_alone, agent))


def make_train(config: Config) -> Callable[..., tuple[TrainState, Metrics]]:
    """The whole run as one function: `train(key, hyperparams=None) -> (state, metrics)`, metrics with leaves `[U]`.

    `jax.jit(jax.vmap(train))(jax.random.split(key, 16))` trains 16 seeds at once.
    """
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
