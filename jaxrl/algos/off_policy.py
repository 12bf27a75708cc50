"""An update that learns from a replay buffer: act, store, then take gradient steps on minibatches of the past.

What is learned is the algorithm's own: it brings its networks, a loss, and, if one gradient step and a move of the
target are not all, the step that changes its `Learner`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, behaviour_policy, make_collector, next_rollout
from jaxrl.acting.central import global_state_size
from jaxrl.acting.collector import Observation
from jaxrl.acting.normaliser import Normaliser, new_normaliser, normalised, rescaled, scaled_rewards, update_obs_stats
from jaxrl.acting.rollout import RunnerState, Transition, init_runner
from jaxrl.algorithm import Learned, Metrics, PerEnvironment, Replayed, Replicated
from jaxrl.keys import check_key
from jaxrl.rl.devices import num_devices, psum
from jaxrl.rl.optimizer import gradient_step, new_opt_state
from jaxrl.rl.replay import Index, Replay, draw, new_replay, num_stored, take, write
from jaxrl.rl.targets import update_target

__all__ = ["Batch", "Learner", "Steps", "TrainState", "act_and_learn", "descend", "init"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """The complete state of training: saving and loading it resumes exactly."""

    params: Learned[Any]
    target: Learned[Any]  # the parameters of the target network
    opt_state: Learned[Any]
    hyperparams: Replicated[Any]
    normaliser: Learned[Normaliser]
    runner: PerEnvironment[RunnerState]
    replay: Replayed[Replay]
    key: Replicated[jax.Array]
    update: Replicated[jax.Array]  # int32, updates done


class Steps(NamedTuple):
    """What the buffer holds of each step, as it was: neither normalised nor scaled."""

    observation: Observation
    reset: jax.Array  # [B] True where the observation begins an episode
    action: jax.Array  # [B, N, ...]
    reward: jax.Array  # [B, N]
    terminated: jax.Array  # [B] True where the step ended the task
    truncated: jax.Array  # [B] True where the clock cut the episode: what followed is not known


class Batch(NamedTuple):
    """R windows of W successive steps: leaves `[W, R, ...]`, normalised and scaled for learning."""

    steps: Steps
    carry: Any  # [R, ...] memory before the first step


class Learner(NamedTuple):
    """What gradient steps change."""

    params: Any
    target: Any
    opt_state: Any


LearnStep = Callable[[Agent, Any, Learner, Batch, jax.Array, jax.Array], tuple[Learner, dict[str, jax.Array]]]
"""`step(agent, h, learner, batch, keys[S], number) -> (learner, losses)`: learns from a minibatch, `number` counts from
1 over the whole run. Each of this device's S shards has a key for its R / S rows; losses are this device's share."""


def init(agent: Agent, key: jax.Array, hyperparams: Any = None) -> TrainState:
    """A fresh train state, with an empty buffer. Consumes `key`."""
    check_key(key, "init")
    config = agent.config
    key_params, key_env, key = jax.random.split(key, 3)
    params = agent.networks.init(key_params)
    normaliser = new_normaliser(
        agent.env,
        agent.param_sets,
        obs=config.normalise_obs,
        reward=config.normalise_reward,
        global_state_size=global_state_size(agent.env) if agent.central else 0,
    )
    state = TrainState(
        params=params,
        target=jax.tree.map(jnp.copy, params),
        opt_state=new_opt_state(params, config.optimizer),
        hyperparams=jax.tree.map(jnp.float32, config.hyperparams if hyperparams is None else hyperparams),
        normaliser=normaliser,
        runner=init_runner(make_collector(agent, 0), agent.networks.new_carry(config.num_envs), key_env),
        replay=Replay((), (), jnp.zeros(config.num_envs, jnp.int32)),
        key=key,
        update=jnp.int32(0),
    )

    def stored(state: TrainState) -> tuple[Steps, Any]:
        return _stored(agent, next_rollout(agent, state, behaviour_policy(agent, state), 0)[1])

    steps, carry = jax.eval_shape(stored, state)
    return dataclasses.replace(state, replay=new_replay(steps, carry, config.buffer_rollouts))


def descend(
    agent: Agent, h: Any, learner: Learner, batch: Batch, keys: jax.Array, number: jax.Array
) -> tuple[Learner, dict[str, jax.Array]]:
    """A `LearnStep`: one gradient step on `agent.loss(agent, h, params, target, batch)`, then a move of the target."""
    del keys
    config, (params, target, opt_state) = agent.config, learner
    loss = partial(agent.loss, agent, h)
    params, opt_state, losses = gradient_step(
        lambda params, batch: loss(params, target, batch),
        params,
        opt_state,
        batch,
        config.optimizer,
        h.lr,
        h.max_grad_norm,
    )
    target = update_target(params, target, h.tau, number, config.target_update_interval)
    return Learner(params, target, opt_state), losses


def act_and_learn(agent: Agent, state: TrainState, step: LearnStep = descend) -> tuple[TrainState, Metrics]:
    """One rollout, and gradient steps on minibatches of the buffer once it holds enough.

    Metrics are sums and means, see `jaxrl.algorithm.Metrics`; losses are 0 before learning starts.

    Args:
        agent: What the configuration is made into.
        state: The train state.
        step: How to learn from a minibatch.
    """
    config, param_sets = agent.config, agent.param_sets
    h = config.annealed(state.hyperparams, state.update)
    after, traj, sums, keys = next_rollout(agent, state, behaviour_policy(agent, state), 1 + config.gradient_steps)
    discounted = after.runner.discounted
    normaliser, discounted, _ = scaled_rewards(state.normaliser, discounted, traj, param_sets, h.gamma)
    replay = write(state.replay, *_stored(agent, traj))

    stored = num_stored(replay)
    ready = (stored >= config.window) & (stored * config.num_envs >= config.learning_starts)
    learner = Learner(state.params, state.target, state.opt_state)
    learn = jax.jit(partial(_learn, agent, h, normaliser, replay, step, state.update, keys))  # traced once
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(learn, learner)[1])
    # Of the learner only: a buffer that goes through a condition is copied.
    learner, losses = jax.lax.cond(ready, learn, lambda learner: (learner, nothing), learner)

    losses = {**psum(losses), "buffer": jnp.float32(stored) / (config.buffer_rollouts * config.num_steps)}
    state = dataclasses.replace(
        after,
        **learner._asdict(),
        normaliser=update_obs_stats(normaliser, traj.observation, param_sets),
        runner=after.runner._replace(discounted=discounted),
        replay=replay,
        update=state.update + 1,
    )
    return state, {**psum(sums), "losses": losses}


def _stored(agent: Agent, traj: Transition) -> tuple[Steps, Any]:
    """What the buffer holds of a rollout: the steps, and the memory before each sequence."""
    action, truncated = traj.action.astype(agent.env.action_space().dtype), traj.cut & ~traj.terminated
    return Steps(traj.observation, traj.reset, action, traj.reward, traj.terminated, truncated), traj.carry


def _learn(
    agent: Agent,
    h: Any,
    normaliser: Normaliser,
    replay: Replay,
    step: LearnStep,
    update: jax.Array,
    keys: jax.Array,
    learner: Learner,
) -> tuple[Learner, dict[str, jax.Array]]:
    """All gradient steps of an update; losses are means over them. `keys[1 + G, S]`."""
    config, impl = agent.config, jax.random.key_impl(keys)
    rows = config.batch_size // (keys.shape[1] * num_devices())
    index = draw(replay, keys[0], config.gradient_steps, rows, config.window)

    def one(learner: Learner, inputs: tuple[Index, jax.Array, jax.Array]) -> tuple[Learner, dict[str, jax.Array]]:
        index, bits, number = inputs
        batch = _minibatch(agent, normaliser, replay, index)
        return step(agent, h, learner, batch, jax.random.wrap_key_data(bits, impl=impl), number)

    # Scan over bits, as `rollout` does.
    numbers = update * config.gradient_steps + 1 + jnp.arange(config.gradient_steps, dtype=jnp.int32)
    learner, losses = jax.lax.scan(one, learner, (index, jax.random.key_data(keys[1:]), numbers))
    return learner, jax.tree.map(jnp.mean, losses)


def _minibatch(agent: Agent, normaliser: Normaliser, replay: Replay, index: Index) -> Batch:
    """The windows `index`, ready for learning."""
    steps, carry = take(replay, index, agent.config.window)
    observation = normalised(normaliser, steps.observation, agent.param_sets)
    reward = rescaled(normaliser, steps.reward, agent.param_sets)
    return Batch(steps._replace(observation=observation, reward=reward), carry)
