"""TD3: a deterministic actor, and two critics that learn from a replay buffer, with delays and noisy targets (Fujimoto
et al. 2018, https://arxiv.org/abs/1802.09477), for continuous actions of one agent, or of N agents that learn
independently.

Run it: `python algos/td3.py --env classic/pendulum`, or `jaxrl train td3 --env classic/pendulum`. The actor and the
targets follow the critics with a delay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, act, act_alone
from jaxrl.acting.rollout import draw_by_shard
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import off_policy
from jaxrl.algos.actor_critic import actor_critics, critic_loss, explore, learn_part, part_of, predictions_of, q_of
from jaxrl.algos.config.values import BoxLayer
from jaxrl.algos.off_policy import Batch, Learner, bootstrap_steps, rows, step_weights
from jaxrl.config import NOT_NEGATIVE, Allowed, Effect, Name, check_config, check_loss
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.distributions import MaybeUniform
from jaxrl.nn.heads import DeterministicHead
from jaxrl.rl.devices import device_index, num_devices
from jaxrl.rl.learn import update_target
from jaxrl.rl.optimizer import new_opt_state
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "make", "make_train"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    gamma: Any
    tau: Any
    exploration_noise: Any
    target_noise: Any
    noise_clip: Any
    max_grad_norm: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(BoxLayer):
    """TD3's configuration. The defaults suit Pendulum."""

    env: Name = "classic/pendulum"
    total_timesteps: int = 40_000
    num_envs: int = 8
    num_steps: int = 8
    gradient_steps: int = 32
    lr: float = 1e-3
    policy_delay: int = 2
    exploration_noise: float = 0.1
    """Deviation of the noise in the actions of a rollout, in half-widths of their box."""
    exploration_noise_min: float | None = None
    """Deviation in the first of the environments, from which it grows to exploration_noise in the last; None, or a
    schedule of exploration_noise that falls below it, for the same in all."""
    target_noise: float = 0.2
    """Deviation of the noise in the target actor's actions, likewise."""
    noise_clip: float = 0.5
    """Bound of that noise, likewise."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = dict.fromkeys(
        ("exploration_noise", "exploration_noise_min", "target_noise", "noise_clip"), NOT_NEGATIVE
    )
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("exploration_noise_min", ("num_envs",), lambda c, _: c.num_envs > 1, "use several environments"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exploration_noise_min is not None and self.exploration_noise_min > self.exploration_noise:
            raise ValueError(
                f"exploration_noise_min={self.exploration_noise_min} is more than exploration_noise="
                f"{self.exploration_noise}; use at most that."
            )

    @property
    def target_steps(self) -> int:
        """Optimiser steps of the whole run that the target networks can follow: the actor's."""
        return super().target_steps // self.policy_delay


PRESETS: dict[str, Config] = {"default": Config()}


def update(agent: Agent, state: off_policy.TrainState) -> tuple[off_policy.TrainState, Metrics]:
    """One rollout and its gradient steps. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    return off_policy.act_and_learn(agent, state, learn_values, learn_policy, agent.config.policy_delay)


def begin(agent: Agent, params: Any) -> Learner:
    """What gradient steps change: fresh parameters, their targets, and an optimiser each for critics and actor."""
    opt_state = {name: new_opt_state(part_of(params, name), agent.config.optimizer) for name in ("critic", "actor")}
    return Learner(params, jax.tree.map(jnp.copy, params), opt_state)


def learn_values(
    agent: Agent, h: Hyperparams, learner: Learner, batch: Batch, keys: jax.Array, number: jax.Array
) -> tuple[Learner, dict[str, jax.Array]]:
    """A `LearnStep`: one gradient step of the critics."""
    del number
    target = learner.target
    return learn_part(
        agent, h, learner, batch, ("critic",), lambda params, batch: agent.loss(agent, h, params, target, batch, keys)
    )


def learn_policy(
    agent: Agent, h: Hyperparams, learner: Learner, batch: Batch, keys: jax.Array, number: jax.Array
) -> tuple[Learner, dict[str, jax.Array]]:
    """A `LearnStep`: one gradient step of the actor, then a move of all targets."""
    del keys
    config = agent.config
    learner, losses = learn_part(
        agent, h, learner, batch, ("actor",), lambda params, batch: policy_loss(agent, params, batch)
    )
    moves = number // config.policy_delay
    target = update_target(learner.params, learner.target, h.tau, moves, config.target_update_interval)
    return learner._replace(target=target), losses


def loss(
    agent: Agent, h: Hyperparams, params: Any, target: Any, batch: Batch, keys: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The critics' error, averaged; with several devices, the mean over them counts.

    Targets bootstrap from the value of the target actor's action with some noise, so that similar actions get similar
    values.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        params: The parameters that are learned.
        target: Those of the target networks.
        batch: The minibatch.
        keys: `[S]`. Consumed.
    """
    after = bootstrap_steps(agent.config, batch.steps)
    _, policy, _ = agent.networks.apply(target, (), after.observation, after.reset)
    noisy = policy.with_noise(h.target_noise, h.noise_clip)
    action = draw_by_shard(lambda part, key: part.sample(seed=key), noisy, keys)
    return critic_loss(agent, h.gamma, params, batch, after, predictions_of(agent, target, after.observation, action))


def policy_loss(agent: Agent, params: Any, batch: Batch) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The actor's loss, minus the value of its actions, averaged; with several devices, the mean over them counts."""
    now = rows(batch.steps, 0, 1)
    weight = step_weights(now)
    _, policy, _ = agent.networks.apply(params, (), now.observation, now.reset)
    loss = -jnp.sum(weight * q_of(agent, params, now.observation, policy.mode()))
    return loss, {"policy": loss}


def behave(config: Config, env: MultiAgentEnvironment, state: Any, policy: Any) -> MaybeUniform:
    """The behaviour of a policy: its actions with noise and, until learning starts, any actions."""
    noise, least = config.annealed(state.hyperparams, state.update).exploration_noise, config.exploration_noise_min
    if least is not None:
        least = jnp.minimum(least, noise)  # a schedule may take the noise below it
        noise = least + (noise - least) * env_shares(policy.action, config.num_envs)
    return explore(config, env, state, policy.with_noise(noise))


def env_shares(batch: jax.Array, num_envs: int) -> jax.Array:
    """From 0 in the first of a run's environments to 1 in the last, to multiply this device's `batch[T, B, ...]`.

    A batch of other environments has a first and a last one of its own, whichever device it is on: so a policy that is
    held fixed in another run acts the same on all of them.
    """
    size = batch.shape[1]
    of_run = size * num_devices() == num_envs
    first, count = (device_index() * size, num_envs) if of_run else (0, size)
    share = (first + jnp.arange(size)) / max(count - 1, 1)
    return jnp.expand_dims(share, tuple(range(1, batch.ndim - 1)))


def make(config: Config, loss: Any = loss) -> Algorithm:
    """TD3 as three pure functions of the train state. With a single agent, inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Another loss of the critics, with the signature of `loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    team = as_multi_agent(env)
    param_sets = config.param_sets(team)
    networks = actor_critics(config, DeterministicHead, team, param_sets)
    behaviour = partial(behave, config, team)
    agent = Agent(config, team, param_sets, networks, loss, central=config.sees_state(team), behaviour=behaviour)
    acting = act if isinstance(env, MultiAgentEnvironment) else act_alone
    return Algorithm(partial(off_policy.init, agent, begin=begin), partial(update, agent), partial(acting, agent))


def make_train(config: Config) -> Callable[..., tuple[off_policy.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
