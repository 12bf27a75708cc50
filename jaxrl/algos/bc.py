"""Behaviour cloning: a policy that does what was recorded, by maximum likelihood (Pomerleau 1988,
https://proceedings.neurips.cc/paper/1988/hash/812b4ba287f5ee0bc9d43bbf5bbe87fb-Abstract.html), for one agent or N.

Run it: `python algos/bc.py --env smax/3m --data DATA`, or `jaxrl train bc --env smax/3m --data DATA`, on steps that
`jaxrl record` has written. The policy also plays, so that rows of metrics say how well; nothing is learned from that.
The critic learns the returns of recorded episodes: another run can start from both by `--init-from`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, act, act_alone, behaviour_policy, next_rollout
from jaxrl.acting.normaliser import normalised, update_obs_stats
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import ppo
from jaxrl.algos.config.learning import LearningLayer
from jaxrl.algos.config.rules import has_memory
from jaxrl.algos.config.run import ActorLayer, SharingLayer
from jaxrl.algos.off_policy import Steps, draw_recorded, recorded, take_recorded
from jaxrl.config import COUNT, NOT_NEGATIVE, SIZES, Allowed, Effect, Name, check_config, check_loss
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.rl.devices import mean_weights, pmean, psum
from jaxrl.rl.losses import ScalarValue
from jaxrl.rl.optimizer import gradient_step
from jaxrl.spaces import Discrete
from jaxrl.wrappers import as_multi_agent

__all__ = ["PRESETS", "Config", "make", "make_train"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparams:
    """The hyperparameters that need no recompilation, scalars: a pytree in the train state, so `vmap` over it."""

    lr: Any
    vf_coef: Any
    max_grad_norm: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(SharingLayer, LearningLayer, ActorLayer):
    """The configuration of behaviour cloning. The defaults suit SMAX."""

    env: Name = "smax/3m"
    data: str = ""
    """Folder of recorded steps of the same environment, from `jaxrl record` or `jaxrl play --record`."""
    total_timesteps: int = 100_000
    """Environment steps that are played to see how good the policy is; nothing is learned from them."""
    num_envs: int = 32
    num_steps: int = 32
    gradient_steps: int = 32
    """Optimiser steps for each rollout, each on a minibatch of its own."""
    batch_size: int = 256
    """Recorded steps in a minibatch; with memory, sequences."""
    burn_in: int = 0
    """Steps before each sequence that fill the memory, which is empty before them; nothing is learned from them."""
    lr: float = 1e-3
    share_torso: bool = False
    """Share one torso (and memory) between policy and value, instead of one each."""
    critic_hidden: tuple[int, ...] = ()
    """Layers of the critic's own torso; () means those of hidden."""
    vf_coef: float = 0.5
    """Weight of the critic's error."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    value: ClassVar[ScalarValue] = ScalarValue()
    allowed: ClassVar[dict[str, Allowed]] = {
        **dict.fromkeys(("gradient_steps", "batch_size"), COUNT),
        **dict.fromkeys(("burn_in", "vf_coef"), NOT_NEGATIVE),
        "critic_hidden": SIZES,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("burn_in", ("memory",), has_memory, "choose memory=gru"),
        Effect("critic_hidden", ("share_torso",), lambda c, _: not c.share_torso, "choose share_torso=False"),
        Effect("normalise_reward", ("data",), lambda *_: False, "lower vf_coef if the critic's error is too large"),
    )

    @property
    def window(self) -> int:
        """W, the successive recorded steps in a row of a minibatch."""
        return self.burn_in + self.train_length

    @property
    def gradients_per_update(self) -> int:
        """Optimiser steps per update."""
        return self.gradient_steps

    def _splits_minibatches(self, shards: int) -> bool:
        return self.batch_size % shards == 0


PRESETS: dict[str, Config] = {"default": Config()}


class Batch(NamedTuple):
    """R windows of W recorded steps: leaves `[W, R, ...]`."""

    observation: Any
    reset: jax.Array
    action: jax.Array
    target: jax.Array  # [W, R, N] the discounted rewards from this step on
    known: jax.Array  # [W, R] True where all of them were recorded, up to an end
    carry: Any  # [R, ...] empty memories


def update(agent: Agent, state: ppo.TrainState) -> tuple[ppo.TrainState, Metrics]:
    """A rollout, which is only counted, and gradient steps on recorded steps; see `jaxrl.algorithm.Metrics`."""
    config, h = agent.config, agent.schedule(agent, state)
    if not config.data:
        raise ValueError("bc learns from recorded steps: give --data FOLDER, from jaxrl record RUN --steps 100000.")
    replay = recorded(agent, config.data)
    after, traj, sums, keys = next_rollout(agent, state, behaviour_policy(agent, state), 1)

    # The targets stand beside the steps, so that windows of both are taken at once.
    targets = returns_to_go(replay.steps, config.gamma)
    replay = replay._replace(steps=(replay.steps, *targets))
    index = draw_recorded(replay, keys[0], config.gradient_steps, config.batch_size // config.shards, config.window)

    def step(learner: tuple[Any, Any], index: Any) -> tuple[tuple[Any, Any], dict[str, jax.Array]]:
        (steps, target, known), carry = take_recorded(agent, replay, index, config.window)
        observation = normalised(state.normaliser, steps.observation, agent.param_sets)
        batch = Batch(observation, steps.reset, steps.action, target, known, carry)
        rates = (config.optimizer, h.lr, h.max_grad_norm, config.weight_decay)
        params, opt_state, losses = gradient_step(partial(agent.loss, agent, h), *learner, batch, *rates)
        return (params, opt_state), losses

    (params, opt_state), losses = jax.lax.scan(step, (state.params, state.opt_state), index)
    normaliser = update_obs_stats(state.normaliser, traj.observation, agent.param_sets)
    learned = {"params": params, "opt_state": opt_state, "normaliser": normaliser}
    state = dataclasses.replace(after, **learned, update=state.update + 1)
    return state, {**psum(sums), "losses": pmean(jax.tree.map(jnp.mean, losses))}


def loss(agent: Agent, h: Hyperparams, params: Any, batch: Batch) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The negative log-likelihood of recorded actions and the critic's error, means over the living.

    With several devices, the mean over them counts.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        params: The parameters that are learned.
        batch: The minibatch.
    """
    config = agent.config
    _, policy, prediction = agent.networks.apply(params, batch.carry, batch.observation, batch.reset)
    learned = (np.arange(config.window) >= config.burn_in)[:, None, None]
    alive = (batch.observation.agent_mask & learned).astype(jnp.float32)
    weight = mean_weights(alive)
    nll = -jnp.sum(weight * policy.log_prob(batch.action))

    # An episode whose end was not recorded says nothing about returns.
    error = config.value.loss(prediction, batch.target, batch.target, jnp.inf)
    value_loss = jnp.sum(mean_weights(alive * batch.known[..., None]) * error)
    same = policy.mode() == batch.action if isinstance(agent.env.action_space(), Discrete) else None
    accuracy = {} if same is None else {"accuracy": jnp.sum(weight * same)}
    return nll + h.vf_coef * value_loss, {"nll": nll, "value": value_loss, **accuracy}


def returns_to_go(steps: Steps, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """The discounted rewards from each recorded step to its episode's end, and whether that was recorded.

    Args:
        steps: Leaves `[B, 1, T, ...]`, as `recorded` returns them.
        gamma: Discount factor.

    Returns:
        float32 `[B, 1, T, N]` and bool `[B, 1, T]`.
    """
    returns, known = np.zeros_like(steps.reward), np.zeros_like(steps.terminated)
    total, ends = np.zeros_like(steps.reward[:, :, 0]), np.zeros_like(steps.terminated[:, :, 0])
    for t in reversed(range(steps.reward.shape[2])):
        terminated, cut = steps.terminated[:, :, t], steps.truncated[:, :, t]
        ends = terminated | (ends & ~cut)
        total = steps.reward[:, :, t] + np.float32(gamma) * np.where((terminated | cut)[..., None], 0, total)
        returns[:, :, t], known[:, :, t] = total, ends
    return returns, known


def make(config: Config, loss: Any = loss) -> Algorithm:
    """Behaviour cloning as three pure functions of the train state. A single agent has no agent axis.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    team = as_multi_agent(env)
    param_sets = config.param_sets(team)
    shape: Any = config  # which has those of PPO's fields that shape networks
    agent = Agent(config, team, param_sets, ppo.actor_critic(shape, team, param_sets), loss)
    acting = act if isinstance(env, MultiAgentEnvironment) else act_alone
    return Algorithm(partial(ppo.init, agent), partial(update, agent), partial(acting, agent))


def make_train(config: Config) -> Callable[..., tuple[ppo.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
