"""An update that learns from a replay buffer: act, store, then take gradient steps on minibatches of the past.

An algorithm brings its networks, a loss and, unless it learns by one gradient step and a move of the target, its own
`LearnStep`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, behaviour_policy, init_normaliser, make_collector, next_rollout
from jaxrl.acting.normaliser import Normaliser, normalised, rescaled, scaled_rewards, update_obs_stats
from jaxrl.acting.rollout import Observation, RunnerState, Transition, central_state, init_runner, team_share
from jaxrl.algorithm import Learned, Metrics, PerEnvironment, Replayed, Replicated
from jaxrl.data.dataset import load
from jaxrl.errors import printable
from jaxrl.keys import check_key
from jaxrl.nn.encoder import as_floats
from jaxrl.registry import made_name, same_name
from jaxrl.rl.devices import mean_weights, num_devices, pmean, psum
from jaxrl.rl.learn import update_target
from jaxrl.rl.optimizer import gradient_step, new_opt_state
from jaxrl.rl.replay import Index, Replay, draw, draw_by_priority, new_replay, num_stored, prioritised, take, write
from jaxrl.rl.returns import n_step_returns
from jaxrl.spaces import Discrete

__all__ = [
    "Batch",
    "Learner",
    "Steps",
    "TrainState",
    "act_and_learn",
    "bootstrap_steps",
    "descend",
    "draw_recorded",
    "init",
    "new_learner",
    "recorded",
    "replayed_returns",
    "rows",
    "step_weights",
    "take_recorded",
]


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
    weight: jax.Array | None = None  # [R] of each row in a mean; None for 1


class Learner(NamedTuple):
    """What gradient steps change."""

    params: Any
    target: Any
    opt_state: Any


LearnStep = Callable[[Agent, Any, Learner, Batch, jax.Array, jax.Array], tuple[Learner, dict[str, jax.Array]]]
"""`step(agent, h, learner, batch, keys[S], number) -> (learner, losses)`: learns from a minibatch, `number` counts from
1 over the whole run. Each of this device's S shards has a key for its R / S rows; the mean of losses over devices
counts."""


def new_learner(agent: Agent, params: Any) -> Learner:
    """Fresh parameters, a target network like them and an optimiser: what `descend` changes."""
    return Learner(params, jax.tree.map(jnp.copy, params), new_opt_state(params, agent.config.optimizer))


def init(
    agent: Agent,
    key: jax.Array,
    hyperparams: Any = None,
    begin: Callable[[Agent, Any], Learner] = new_learner,
) -> TrainState:
    """A fresh train state, with an empty buffer.

    Args:
        agent: What the configuration is made into.
        key: Consumed.
        hyperparams: Instead of the configuration's.
        begin: Makes the `Learner` from the networks' fresh parameters.
    """
    check_key(key, "init")
    config = agent.config
    h = config.initial_hyperparams(hyperparams)
    key_params, key_env, key = jax.random.split(key, 3)
    learner = begin(agent, agent.networks.init(key_params))
    state = TrainState(
        **learner._asdict(),
        hyperparams=h,
        normaliser=init_normaliser(agent),
        runner=init_runner(make_collector(agent, 0), agent.networks.new_carry(config.num_envs), key_env),
        replay=Replay((), (), jnp.zeros(config.num_envs, jnp.int32)),
        key=key,
        update=jnp.int32(0),
    )

    steps, carry = jax.eval_shape(lambda s: _stored(next_rollout(agent, s, behaviour_policy(agent, s), 0)[1]), state)
    replay = new_replay(steps, carry, config.buffer_rollouts, config.by_priority)
    return dataclasses.replace(state, replay=replay)


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
        config.weight_decay,
    )
    target = update_target(params, target, h.tau, number, config.target_update_interval)
    return Learner(params, target, opt_state), losses


def act_and_learn(
    agent: Agent, state: TrainState, step: LearnStep = descend, then: LearnStep | None = None, every: int = 1
) -> tuple[TrainState, Metrics]:
    """One rollout, and gradient steps on minibatches of the buffer once it holds enough.

    Metrics are sums and means, see `jaxrl.algorithm.Metrics`; losses are 0 before learning starts.

    Args:
        agent: What the configuration is made into.
        state: The train state.
        step: How to learn from a minibatch.
        then: What else to learn, from the last of `every` minibatches; None for nothing.
        every: The number of minibatches for each `then`, a divisor of `gradient_steps`.
    """
    config, param_sets = agent.config, agent.param_sets
    h = config.annealed(state.hyperparams, state.update)
    steps = config.gradient_steps + (config.gradient_steps // every if then else 0)
    after, traj, sums, keys = next_rollout(agent, state, behaviour_policy(agent, state), 1 + steps)
    discounted = after.runner.discounted
    normaliser, discounted, _ = scaled_rewards(state.normaliser, discounted, traj, param_sets, h.gamma)
    replay = write(state.replay, *_stored(traj))

    stored = num_stored(replay)
    ready = (stored >= config.window) & (stored * config.num_envs >= config.learning_starts)
    learner = Learner(state.params, state.target, state.opt_state)
    apply = _Learning(agent, h, normaliser, replay, jax.random.key_impl(keys))
    learn = jax.jit(partial(_learn, apply, step, then, every, state.update, keys))  # traced once
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(learn, learner)[1])
    # Only the learner goes through the condition, which would copy the buffer.
    learner, (losses, visited) = jax.lax.cond(ready, learn, lambda learner: (learner, nothing), learner)
    if config.by_priority:
        (drawn, priority), num_envs = visited, len(replay.rollouts)
        drawn = drawn._replace(env=jnp.where(ready, drawn.env, num_envs))  # there is none of this number
        replay = prioritised(replay, drawn, priority)

    losses = {**pmean(losses), "buffer": jnp.float32(stored) / (config.buffer_rollouts * config.num_steps)}
    state = dataclasses.replace(
        after,
        **learner._asdict(),
        normaliser=update_obs_stats(normaliser, traj.observation, param_sets),
        runner=after.runner._replace(discounted=discounted),
        replay=replay,
        update=state.update + 1,
    )
    return state, {**psum(sums), "losses": losses}


def _stored(traj: Transition) -> tuple[Steps, Any]:
    """What the buffer holds of a rollout: the steps, and the memory before each sequence."""
    # Actions stay as they were drawn: for a box of whole numbers, they lie between these.
    action = traj.action.astype(jnp.int32 if jnp.issubdtype(traj.action.dtype, jnp.integer) else jnp.float32)
    truncated = traj.cut & ~traj.terminated
    return Steps(traj.observation, traj.reset, action, traj.reward, traj.terminated, truncated), traj.carry


class _Learning(NamedTuple):
    """What all gradient steps of an update have in common."""

    agent: Agent
    h: Any
    normaliser: Normaliser
    replay: Replay
    impl: Any  # of the keys

    def __call__(
        self, step: LearnStep, learner: Learner, inputs: tuple[Any, jax.Array, jax.Array]
    ) -> tuple[Learner, dict[str, jax.Array]]:
        """One `step`, given the index of its minibatch, the bits of its keys, and its number."""
        index, bits, number = inputs
        batch = _minibatch(self.agent, self.normaliser, self.replay, index)
        return step(self.agent, self.h, learner, batch, jax.random.wrap_key_data(bits, impl=self.impl), number)


def _learn(
    apply: _Learning,
    step: LearnStep,
    then: LearnStep | None,
    every: int,
    update: jax.Array,
    keys: jax.Array,
    learner: Learner,
) -> tuple[Learner, tuple[dict[str, jax.Array], Any]]:
    """All gradient steps of an update; losses are means over them. `keys[1 + G, S]`, or `[1 + G + G / every, S]`.

    Beside the losses are the windows that were drawn by priority, with their priorities `[G, R]`.
    """
    config = apply.agent.config
    count, per_shard = config.gradient_steps, config.batch_size // (keys.shape[1] * num_devices())
    draw_windows: Callable[..., Any] = draw
    if config.prior_data:
        draw_windows = partial(draw_beside, apply.agent)
    elif config.by_priority:
        draw_windows = partial(draw_by_priority, correction=config.correction(update))
    index = draw_windows(apply.replay, keys[0], count, per_shard, config.window)
    # Scan over bits, as `rollout` does.
    bits = jax.random.key_data(keys[1:])
    numbers = update * count + 1 + jnp.arange(count, dtype=jnp.int32)
    inputs = (index, bits[:count], numbers)
    if then is None:
        learner, losses = jax.lax.scan(partial(apply, step), learner, inputs)
        visited = (index[0], losses.pop("priority")) if config.by_priority else ()
        return learner, (jax.tree.map(jnp.mean, losses), visited)

    def several(learner: Learner, inputs: tuple[Any, jax.Array]) -> tuple[Learner, dict[str, jax.Array]]:
        each, bits = inputs
        learner, losses = jax.lax.scan(partial(apply, step), learner, each)
        index, _, number = jax.tree.map(lambda leaf: leaf[-1], each)
        learner, more = apply(then, learner, (index, bits, number))
        return learner, {**jax.tree.map(jnp.mean, losses), **more}

    inputs = jax.tree.map(lambda leaf: leaf.reshape(-1, every, *leaf.shape[1:]), inputs)
    learner, losses = jax.lax.scan(several, learner, (inputs, bits[count:]))
    return learner, (jax.tree.map(jnp.mean, losses), ())


def _minibatch(agent: Agent, normaliser: Normaliser, replay: Replay, index: Any) -> Batch:
    """The windows `index`, ready for learning; windows drawn by priority come with their weights."""
    index, weight = index if agent.config.by_priority else (index, None)
    take_windows = partial(take_beside, agent) if agent.config.prior_data else take
    steps, carry = take_windows(replay, index, agent.config.window)
    observation = normalised(normaliser, steps.observation, agent.param_sets)
    reward = rescaled(normaliser, steps.reward, agent.param_sets)
    return Batch(steps._replace(observation=observation, reward=reward), carry, weight)


def rows(steps: Any, first: int, end: int | None = None) -> Any:
    """The steps from `first` to before `end` of each window, of a pytree with leaves `[W, R, ...]`."""
    return jax.tree.map(lambda leaf: leaf[first:end], steps)


def bootstrap_steps(config: Any, steps: Steps) -> Steps:
    """The steps of each window from whose observations returns bootstrap: `[W - 1, R, ...]` with memory, else one each.

    Without memory, only the first of the W = 1 + n steps of a window is learned from, and its return bootstraps once:
    from the last step, or from an earlier one that the clock cut. Applying networks to this one alone, `[1, R, ...]`,
    saves nearly half of a gradient step's work with n = 3.
    """
    after = rows(steps, 1)
    if config.memory != "none":
        return after
    unknown = after.truncated.at[-1].set(True)
    first, window = jnp.argmax(unknown, axis=0), jnp.arange(unknown.shape[1])
    return jax.tree.map(lambda leaf: leaf[first, window][None], after)


def replayed_returns(agent: Agent, gamma: jax.Array | float, steps: Steps, next_value: jax.Array) -> jax.Array:
    """The targets of the values of actions, `[L, R, N]`: n-step returns, without a gradient.

    The buffer does not know what followed a step that the clock cut, so the steps before it bootstrap from the value
    of its own observation.

    Args:
        agent: What the configuration is made into.
        gamma: Discount factor.
        steps: W = L + n steps, leaves `[W, R, ...]`.
        next_value: `[W - 1, R, N]`, or `[1, R, N]`: the values of the observations in `bootstrap_steps`.
    """
    discount = gamma * (1.0 - steps.terminated[:-1, :, None])
    cut = steps.truncated[1:, :, None]
    chex.assert_shape(next_value, (len(cut) if agent.config.memory != "none" else 1, ...))
    next_value = jnp.broadcast_to(next_value, steps.reward[:-1].shape)
    returns = n_step_returns(steps.reward[:-1], discount, cut, next_value, agent.config.n_step)
    return jax.lax.stop_gradient(returns)


def step_weights(now: Steps, teams: tuple[int, ...] | None = None, of_rows: jax.Array | None = None) -> jax.Array:
    """The weights of agents' steps in a mean, `[L, R, N]`, see `mean_weights`: none for steps that the clock cut.

    Args:
        now: The steps that are learned from.
        teams: The team of each agent, if each team counts once; None if each living agent does.
        of_rows: `[R]`, see `Batch.weight`.
    """
    alive = now.observation.agent_mask
    weight = alive.astype(jnp.float32) if teams is None else team_share(alive, teams)
    weight = weight if of_rows is None else weight * of_rows[:, None]
    return mean_weights(weight * ~now.truncated[..., None])


@functools.lru_cache(maxsize=1)  # each program of a run is traced with the same steps
def recorded(agent: Agent, path: str) -> Replay:
    """The steps in a dataset as a buffer of one long rollout, for an agent, with NumPy leaves and without memories.

    Raises:
        OSError: There is no dataset.
        ValueError: It is damaged, or its steps are not those of the agent's environment.
    """
    # Single agents are recorded alone and learn as a team of one.
    env, data = agent.env, load(path)
    if not same_name(data.env, made_name(env)):
        raise ValueError(
            f"{path} holds steps of {printable(data.env)}, not of {made_name(env)}: train with --env "
            f"{printable(data.env)}, or on other data."
        )
    alone = "agent_mask" not in data.steps
    of_agents = {"obs", "action", "reward", "action_mask"} if alone else set()
    steps: dict[str, Any] = {name: leaf[:, :, None] if name in of_agents else leaf for name, leaf in data.steps.items()}
    wanted = [(env.num_agents, *space.shape) for space in (env.observation_space(), env.action_space())]
    if [steps[name].shape[2:] for name in ("obs", "action")] != wanted:
        raise ValueError(
            f"The steps in {path} have other shapes than those of {made_name(env)} here; record them again."
        )
    if agent.central and env.has_global_state and "global_state" not in steps:
        raise ValueError(f"{path} holds no global states, which the critic sees; record the steps again.")

    # What the collector would have made of them.
    obs = steps["obs"]
    with jax.ensure_compile_time_eval():
        obs = as_floats(env.observation_space(), obs) if agent.collector.floats else obs
        global_state = steps.get("global_state") if agent.central else None
        if agent.central and global_state is None:
            global_state = jax.vmap(jax.vmap(partial(central_state, env, env_state=None)))(jnp.asarray(obs))
    alive: Any = np.ones(obs.shape[:3], bool) if alone else steps["agent_mask"]
    mask: Any = steps.get("action_mask")
    space = env.action_space()
    if mask is None and isinstance(space, Discrete):  # of data that somebody else has made
        mask = np.ones((*obs.shape[:3], space.n), bool)
    integer = np.issubdtype(steps["action"].dtype, np.integer)
    traj = Steps(
        Observation(obs, global_state, mask, alive),
        steps["reset"],
        steps["action"].astype(np.int32 if integer else np.float32),
        steps["reward"].astype(np.float32),
        steps["terminated"],
        steps["truncated"],
    )
    by_env = jax.tree.map(lambda leaf: np.asarray(leaf).swapaxes(0, 1)[:, None], traj)
    one: Any = np.ones(data.num_envs, np.int32)  # not JAX's, which a trace would make its own
    return Replay(by_env, (), one)


def draw_recorded(replay: Replay, keys: jax.Array, num_draws: int, rows: int, window: int) -> Index:
    """`draw` from recorded steps, all of which each of S shards can draw."""
    index = jax.vmap(lambda key: draw(replay, key[None], num_draws, rows, window), out_axes=1)(keys)
    return jax.tree.map(lambda leaf: leaf.reshape(num_draws, -1), index)


def take_recorded(agent: Agent, replay: Replay, index: Index, window: int) -> tuple[Any, Any]:
    """`take` from recorded steps; the memory before them is not known, so it is empty."""
    steps, _ = take(jax.tree.map(jnp.asarray, replay), index, window)
    return steps, agent.networks.new_carry(index.env.size)


def draw_beside(
    agent: Agent, replay: Replay, keys: jax.Array, num_draws: int, rows: int, window: int
) -> tuple[Index, Index]:
    """`draw` from the buffer, and from `prior_data` for the share `prior_share` of the rows of each shard."""
    split = jax.vmap(jax.random.split)(keys)
    config, given = agent.config, agent.config.prior_rows
    data = recorded(agent, config.prior_data)
    windows = draw(replay, split[:, 0], num_draws, rows - given, window)
    return windows, draw_recorded(data, split[:, 1], num_draws, given, window)


def take_beside(agent: Agent, replay: Replay, index: tuple[Index, Index], window: int) -> tuple[Steps, Any]:
    """`take` from the buffer and from `prior_data`: the rows of each shard together, its own before those given."""
    config = agent.config
    own = take(replay, index[0], window)
    given = take_recorded(agent, recorded(agent, config.prior_data), index[1], window)
    shards = index[1].env.size // config.prior_rows

    def beside(own: jax.Array, given: jax.Array, axis: int) -> jax.Array:
        parts = [leaf.reshape(*leaf.shape[:axis], shards, -1, *leaf.shape[axis + 1 :]) for leaf in (own, given)]
        joined = jnp.concatenate(parts, axis=axis + 1)
        return joined.reshape(*joined.shape[:axis], -1, *joined.shape[axis + 2 :])

    steps = jax.tree.map(partial(beside, axis=1), own[0], given[0])
    return steps, jax.tree.map(partial(beside, axis=0), own[1], given[1])
