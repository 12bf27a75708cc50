"""QMIX: a team's value, mixed from its agents' by a network that sees the global state (Rashid et al. 2018).

    python my_qmix.py --env smax/3m --num-seeds 2 --lr 1e-3 3e-3

Everything between environment and curve is here (https://arxiv.org/abs/1803.11485): read it from top to bottom, change
what you like. Every learning rate trains with every seed, side by side by `vmap`, and all devices share the work.
Letters in shapes: T steps, B environments, N agents, D numbers in an observation, G in a global state, A actions, C
rows of the buffer, R rows of a minibatch, M members (learning rates times seeds).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import time
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxrl
from jaxrl.spaces import Discrete


@dataclasses.dataclass(frozen=True)
class Config:
    """The flags; their defaults suit SMAX."""

    env: str = "smax/3m"
    """Environment, one of those that `jaxrl envs` lists."""
    seed: int = 0
    """The first seed."""
    num_seeds: int = 1
    """Seeds that train side by side."""
    lr: tuple[float, ...] = (3e-3,)
    """Learning rate, which falls to 0 linearly; several train side by side."""
    total_timesteps: int = 2_000_000
    """Steps of one member's environments, all together."""
    num_envs: int = 64
    """B, environments that a member steps at once."""
    num_steps: int = 16
    """T, steps of each environment in one update."""
    gradient_steps: int = 8
    """Gradient steps in one update."""
    buffer_size: int = 100_000
    """C, steps that the replay buffer keeps."""
    batch_size: int = 256
    """R, steps drawn from the buffer for a gradient step."""
    learning_starts: int = 10_000
    """Steps in the buffer before it learns."""
    tau: float = 0.02
    """How far the target network follows in each gradient step."""
    eps_finish: float = 0.05
    """Share of random actions once it has fallen from 1."""
    eps_decay: float = 0.2
    """Share of the run during which it falls, linearly."""
    gamma: float = 0.99
    """Discount factor."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers."""
    num_lines: int = 20
    """Lines to print; between two of them, all runs on the device."""
    plot: str = "qmix.png"
    """Picture of the curve, if matplotlib is installed; "" for none."""
    wandb: str = ""
    """Project on Weights & Biases to log to; "" for none."""

    @property
    def num_updates(self) -> int:
        """Updates of a run."""
        return max(1, self.total_timesteps // (self.num_envs * self.num_steps))


class QNetwork(nn.Module):
    """From observations `[..., D]` to the values of all actions `[..., A]`."""

    num_actions: int
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        features = obs.reshape(-1, obs.shape[-1])  # XLA is slow with several axes of rows
        for size in self.hidden:
            features = nn.relu(nn.LayerNorm()(nn.Dense(size)(features)))
        return nn.Dense(self.num_actions)(features).reshape(*obs.shape[:-1], -1)


class Mixer(nn.Module):
    """From agents' values, who is alive and states `[..., G]` to the team's; it never falls when an agent's rises."""

    @nn.compact
    def __call__(self, value: jax.Array, alive: jax.Array, glob: jax.Array) -> jax.Array:
        size, even = 32, 32**-0.5  # at first, about the sum of the values
        features = nn.relu(nn.Dense(2 * size)(glob))
        small = functools.partial(nn.Dense, kernel_init=nn.initializers.normal(0.01))
        weights = jnp.abs(even + small(value.shape[-1] * size)(features)).reshape(*value.shape, size)
        hidden = jnp.einsum("...n,...nh->...h", value * alive, weights) + small(size)(features)
        return jnp.sum(nn.elu(hidden) * jnp.abs(even + small(size)(features)), axis=-1) + small(1)(features)[..., 0]


class Transition(NamedTuple):
    """One step of B environments; the buffer holds C such rows."""

    obs: jax.Array  # [B, N, D]
    glob: jax.Array  # [B, G]
    alive: jax.Array  # [B, N]
    action: jax.Array  # [B, N]
    reward: jax.Array  # [B] the team's
    terminated: jax.Array  # [B] the task has ended: no reward is to come
    final_obs: jax.Array  # [B, N, D] to which the step has led, before any reset
    final_glob: jax.Array  # [B, G]
    final_alive: jax.Array  # [B, N]
    final_mask: jax.Array  # [B, N, A] the actions that are legal there


class TrainState(NamedTuple):
    """All that training goes on from; of M members, with a leading axis M."""

    params: Any
    target: Any
    opt_state: Any
    buffer: Transition  # leaves [C, ...]
    envs: Any  # environments' states, observations, returns so far: leaves [B, ...]
    lr: jax.Array
    update: jax.Array
    key: jax.Array


class Parts(NamedTuple):
    """What the configuration is made into."""

    config: Config
    venv: jaxrl.VectorEnv
    network: Any  # a QNetwork, of each agent
    mixer: Any
    optimizer: optax.GradientTransformation


def make(config: Config) -> Parts:
    """Environments, network and optimiser, or an error if they do not fit together."""
    env = jaxrl.make(config.env)
    space, team = env.action_space(), isinstance(env, jaxrl.MultiAgentEnvironment) and env.has_global_state
    if not team or not isinstance(space, Discrete):
        raise ValueError(f"{config.env} is no team with a global state that chooses among actions; try `jaxrl new`.")
    rollout = config.num_envs * config.num_steps  # of which the buffer holds whole ones, each written at once
    config = dataclasses.replace(config, buffer_size=max(1, config.buffer_size // rollout) * rollout)
    optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.scale_by_adam(eps=1e-5))
    return Parts(config, jaxrl.VectorEnv(env, config.num_envs), QNetwork(space.n, config.hidden), Mixer(), optimizer)


def see(obs: jax.Array) -> jax.Array:
    """Observations `[B, N, ...]` as the network takes them; for one with convolutions, leave pictures as they are."""
    return obs.reshape(*obs.shape[:2], -1).astype(jnp.float32)


def central(parts: Parts, env_state: Any) -> tuple[jax.Array, jax.Array]:
    """What the mixer sees: the global state `[B, G]`, and who is alive `[B, N]`."""
    return parts.venv.global_state(env_state).astype(jnp.float32), parts.venv.agent_mask(env_state)


def init(parts: Parts, key: jax.Array, lr: jax.Array) -> TrainState:
    """The state of a member before its first update."""
    key_params, key_mixer, key_env, key = jax.random.split(key, 4)
    obs, env_state = parts.venv.reset(key_env)
    glob, alive = central(parts, env_state)
    params = {"agents": parts.network.init(key_params, see(obs))}
    params["mixer"] = parts.mixer.init(key_mixer, jnp.zeros(alive.shape), alive, glob)
    envs = env_state, see(obs), jnp.zeros(parts.config.num_envs)
    _, (like, _) = jax.eval_shape(lambda: step(parts, params, 1.0, envs, jax.random.key(0)))
    buffer = jax.tree.map(lambda x: jnp.zeros((parts.config.buffer_size, *x.shape[1:]), x.dtype), like)
    return TrainState(params, params, parts.optimizer.init(params), buffer, envs, lr, jnp.int32(0), key)


def step(parts: Parts, params: Any, epsilon: Any, envs: Any, key: jax.Array) -> tuple[Any, tuple[Transition, Any]]:
    """One step of all environments, which start anew where an episode ends; with each step the ended returns."""
    env_state, obs, so_far = envs
    key_random, key_explore, key_env = jax.random.split(key, 3)
    mask, before = parts.venv.action_mask(env_state), central(parts, env_state)
    greedy = jnp.argmax(jnp.where(mask, parts.network.apply(params["agents"], obs), -jnp.inf), axis=-1)
    drawn = jax.random.categorical(key_random, jnp.where(mask, 0.0, -jnp.inf))
    action = jnp.where(jax.random.uniform(key_explore, greedy.shape) < epsilon, drawn, greedy)
    next_obs, env_state, reward, terminated, truncated, info = parts.venv.step(key_env, env_state, action)

    team = reward.mean(-1)
    done, so_far = terminated | truncated, so_far + team
    after = *central(parts, info["final_state"]), parts.venv.action_mask(info["final_state"])
    ended = {"return": jnp.where(done, so_far, 0.0), "episodes": done}
    transition = Transition(obs, *before, action, team, terminated, see(info["final_observation"]), *after)
    return (env_state, see(next_obs), jnp.where(done, 0.0, so_far)), (transition, ended)


def loss(parts: Parts, params: Any, target: Any, batch: Transition) -> jax.Array:
    """The squared error of the team's mixed values: a mean over R steps."""
    # What is best by the learned network, and what the targets think of it; nothing after a true end.
    agents = parts.network.apply
    best = jnp.where(batch.final_mask, agents(params["agents"], batch.final_obs), -jnp.inf).argmax(-1)[..., None]
    following = jnp.take_along_axis(agents(target["agents"], batch.final_obs), best, axis=-1)[..., 0]
    following = parts.mixer.apply(target["mixer"], following, batch.final_alive, batch.final_glob)
    wanted = batch.reward + parts.config.gamma * (1.0 - batch.terminated) * following
    chosen = jnp.take_along_axis(agents(params["agents"], batch.obs), batch.action[..., None], axis=-1)[..., 0]
    chosen = parts.mixer.apply(params["mixer"], chosen, batch.alive, batch.glob)
    return 0.5 * jnp.square(chosen - jax.lax.stop_gradient(wanted)).mean()


def update(parts: Parts, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
    """One rollout and what is learned from the buffer; the metrics are sums over the episodes that have ended."""
    # Act for T steps with the present values, at random now and then, and write the oldest rows over.
    c = parts.config
    key, key_rollout, key_draw = jax.random.split(state.key, 3)
    progress = jnp.minimum(state.update / (c.eps_decay * c.num_updates), 1.0)
    epsilon = 1.0 + progress * (c.eps_finish - 1.0)
    keys, size = jax.random.split(key_rollout, c.num_steps), c.num_envs * c.num_steps
    envs, (traj, ended) = jax.lax.scan(lambda envs, k: step(parts, state.params, epsilon, envs, k), state.envs, keys)
    rows, start = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), traj), state.update * size % c.buffer_size
    buffer = jax.tree.map(lambda old, x: jax.lax.dynamic_update_slice_in_dim(old, x, start, 0), state.buffer, rows)

    # Learn from rows drawn from all that is written.
    written = jnp.minimum((state.update + 1) * size, c.buffer_size)
    index = jax.random.randint(key_draw, (c.gradient_steps, c.batch_size), 0, written)
    lr = state.lr * (1 - state.update / c.num_updates)

    def learn(learner: tuple[Any, Any, Any], i: jax.Array) -> tuple[tuple[Any, Any, Any], None]:
        params, target, opt_state = learner
        batch = jax.tree.map(lambda x: x.take(i, 0, mode="clip"), buffer)
        grads = jax.grad(loss, argnums=1)(parts, params, target, batch)
        steps, opt_state = parts.optimizer.update(grads, opt_state)
        params = jax.tree.map(lambda p, s: p - lr * s, params, steps)
        return (params, jax.tree.map(lambda t, p: t + c.tau * (p - t), target, params), opt_state), None

    # Until there is enough in the buffer, nothing changes.
    before = state.params, state.target, state.opt_state
    after, _ = jax.lax.scan(learn, before, index)
    choose = functools.partial(jnp.where, written >= c.learning_starts)
    params, target, opt_state = jax.tree.map(choose, after, before)
    state = TrainState(params, target, opt_state, buffer, envs, state.lr, state.update + 1, key)
    return state, {name: each.sum() for name, each in ended.items()}


def spread(state: TrainState) -> TrainState:
    """The state of all members on all devices: members are dealt out, or if they do not come out even, environments.

    That is all that several devices need: means are over everything, and XLA adds what the devices have to exchange.
    """
    mesh = Mesh(np.array(jax.devices()), ("devices",))
    if state.lr.size % mesh.size == 0:
        return jax.device_put(state, NamedSharding(mesh, PartitionSpec("devices")))
    envs = jax.device_put(state.envs, NamedSharding(mesh, PartitionSpec(None, "devices")))
    return jax.device_put(state._replace(envs=None), NamedSharding(mesh, PartitionSpec()))._replace(envs=envs)


def train(config: Config) -> tuple[TrainState, dict[str, np.ndarray]]:
    """Train all members and print how it goes: their last states, and each line's means over episodes, `[lines, M]`."""
    # All updates of a line are one compiled program; the state of the last line makes room for that of the next. One
    # member goes without `vmap`, which runs both branches of a condition, and so would reset everything in every step.
    parts, updates = make(config), max(1, config.num_updates // config.num_lines)
    members = [(lr, seed) for lr in config.lr for seed in range(config.seed, config.seed + config.num_seeds)]
    lrs, seeds = (jnp.array(each) for each in zip(*members, strict=True))
    state = spread(jax.jit(jax.vmap(lambda seed, lr: init(parts, jax.random.key(seed), lr)))(seeds, lrs))
    side_by_side = jax.vmap if len(members) > 1 else lambda one: lambda states: jax.lax.map(one, states)
    run = side_by_side(lambda state: jax.lax.scan(lambda s, _: update(parts, s), state, length=updates))
    places = jax.tree.map(lambda leaf: leaf.sharding, state)
    compiled = jax.jit(run, donate_argnums=0, out_shardings=(places, None)).lower(state).compile()

    # A line has the means of the episodes that have ended since the last one; NaN if there is none.
    log = importlib.import_module("wandb").init(project=config.wandb, config=vars(config)) if config.wandb else None
    curve, steps, began = [], [], time.perf_counter()
    for line in range(1, config.num_updates // updates + 1):
        state, metrics = compiled(state)
        episodes = metrics.pop("episodes").sum(1)
        curve.append({name: np.asarray(total.sum(1) / episodes) for name, total in metrics.items()})
        steps.append(line * updates * config.num_envs * config.num_steps)
        speed = len(members) * steps[-1] / (time.perf_counter() - began)
        facts = "".join(f"  {name}" + "".join(f" {x:8.3f}" for x in mean[:8]) for name, mean in curve[-1].items())
        print(f"{steps[-1]:>11,} steps {speed:>11,.0f} a second{facts}", flush=True)
        if log:
            of = {name: dict(zip(members, mean, strict=True)) for name, mean in curve[-1].items()}
            log.log({f"{name}/lr={lr:g}/{s}": x for name in of for (lr, s), x in of[name].items()}, step=steps[-1])
    if log:
        log.finish()

    # The picture of the returns.
    curves = {name: np.stack([means[name] for means in curve]) for name in curve[0]}
    if config.plot and importlib.util.find_spec("matplotlib"):
        axes = importlib.import_module("matplotlib.figure").Figure().subplots()
        axes.plot(steps, curves["return"], label=[f"lr={lr:g}, seed {seed}" for lr, seed in members])
        axes.set(title=config.env, xlabel="steps", ylabel="return")
        axes.legend()
        axes.figure.savefig(config.plot)
    return state, curves


if __name__ == "__main__":
    train(tyro.cli(Config))
