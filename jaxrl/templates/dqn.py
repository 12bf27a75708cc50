"""DQN: values of actions, learned from a replay buffer with a target network (Mnih et al. 2015).

    python my_dqn.py --env classic/cartpole
    python my_dqn.py --env minatar/breakout --total-timesteps 5000000 --num-envs 64 --num-steps 4 --hidden 128

Everything between environment and curve is here (https://doi.org/10.1038/nature14236), with the targets of double
Q-learning (https://arxiv.org/abs/1509.06461): read it from top to bottom, change what you like. Every learning rate
trains with every seed, side by side by `vmap`, and all devices share the work. Letters in shapes: T steps, B
environments, D numbers in an observation, A actions, C rows of the buffer, R rows of a minibatch, M members (learning
rates times seeds).
"""

from __future__ import annotations

import dataclasses
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
    """The flags; their defaults suit CartPole."""

    env: str = "classic/cartpole"
    """Environment, one of those that `jaxrl envs` lists."""
    seed: int = 0
    """The first seed."""
    num_seeds: int = 1
    """Seeds that train side by side."""
    lr: tuple[float, ...] = (1e-3,)
    """Learning rate, which falls to 0 linearly; several train side by side."""
    total_timesteps: int = 300_000
    """Steps of one member's environments, all together."""
    num_envs: int = 16
    """B, environments that a member steps at once."""
    num_steps: int = 8
    """T, steps of each environment in one update."""
    gradient_steps: int = 8
    """Gradient steps in one update."""
    buffer_size: int = 100_000
    """C, steps that the replay buffer keeps."""
    batch_size: int = 128
    """R, steps drawn from the buffer for a gradient step."""
    learning_starts: int = 1000
    """Steps in the buffer before it learns."""
    tau: float = 0.02
    """How far the target network follows in each gradient step."""
    eps_start: float = 1.0
    """Share of random actions at the beginning."""
    eps_finish: float = 0.05
    """Share of random actions once it has fallen."""
    eps_decay: float = 0.2
    """Share of the run during which it falls, linearly."""
    gamma: float = 0.99
    """Discount factor."""
    max_grad_norm: float = 10.0
    """Longer gradients are shortened to this length."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers."""
    num_lines: int = 20
    """Lines to print; between two of them, all runs on the device."""
    plot: str = "dqn.png"
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
        features = obs
        for size in self.hidden:
            features = nn.relu(nn.LayerNorm()(nn.Dense(size)(features)))
        return nn.Dense(self.num_actions)(features)


class Transition(NamedTuple):
    """One step of B environments; the buffer holds C such rows."""

    obs: jax.Array  # [B, D]
    action: jax.Array  # [B]
    reward: jax.Array  # [B]
    terminated: jax.Array  # [B] the task has ended: no reward is to come
    final_obs: jax.Array  # [B, D] to which the step has led, before any reset
    final_mask: jax.Array  # [B, A] the actions that are legal there


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
    network: Any  # a QNetwork
    optimizer: optax.GradientTransformation


def make(config: Config) -> Parts:
    """Environments, network and optimiser, or an error if they do not fit together."""
    env = jaxrl.make(config.env)
    if isinstance(env, jaxrl.MultiAgentEnvironment):
        raise ValueError(f"{config.env} has {env.num_agents} agents, and this script trains one; try `jaxrl new ippo`.")
    space = env.action_space()
    if not isinstance(space, Discrete):
        raise ValueError(f"{config.env} has actions in {space}, and DQN chooses one of several; try `jaxrl new ppo`.")
    if config.buffer_size % (config.num_envs * config.num_steps):
        rollouts = max(1, config.buffer_size // (config.num_envs * config.num_steps))
        works = rollouts * config.num_envs * config.num_steps
        config = dataclasses.replace(config, buffer_size=works)  # whole rollouts, so that each is written at once
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=1e-5))
    return Parts(config, jaxrl.VectorEnv(env, config.num_envs), QNetwork(space.n, config.hidden), optimizer)


def see(obs: jax.Array) -> jax.Array:
    """Observations `[B, ...]` as the network takes them; for one with convolutions, leave pictures as they are."""
    return obs.reshape(obs.shape[0], -1).astype(jnp.float32)


def init(parts: Parts, key: jax.Array, lr: jax.Array) -> TrainState:
    """The state of a member before its first update."""
    key_params, key_env, key = jax.random.split(key, 3)
    obs, env_state = parts.venv.reset(key_env)
    params = parts.network.init(key_params, see(obs))
    envs = env_state, see(obs), jnp.zeros(parts.config.num_envs)
    _, (like, _) = jax.eval_shape(lambda: step(parts, params, 1.0, envs, jax.random.key(0)))
    buffer = jax.tree.map(lambda x: jnp.zeros((parts.config.buffer_size, *x.shape[1:]), x.dtype), like)
    return TrainState(params, params, parts.optimizer.init(params), buffer, envs, lr, jnp.int32(0), key)


def step(parts: Parts, params: Any, epsilon: Any, envs: Any, key: jax.Array) -> tuple[Any, tuple[Transition, Any]]:
    """One step of all environments, which start anew where an episode ends; with each step the ended returns."""
    env_state, obs, so_far = envs
    key_random, key_explore, key_env = jax.random.split(key, 3)
    mask = parts.venv.action_mask(env_state)
    greedy = jnp.argmax(jnp.where(mask, parts.network.apply(params, obs), -jnp.inf), axis=-1)
    drawn = jax.random.categorical(key_random, jnp.where(mask, 0.0, -jnp.inf))
    action = jnp.where(jax.random.uniform(key_explore, greedy.shape) < epsilon, drawn, greedy)
    next_obs, env_state, reward, terminated, truncated, info = parts.venv.step(key_env, env_state, action)

    done, so_far = terminated | truncated, so_far + reward
    final = see(info["final_observation"]), parts.venv.action_mask(info["final_state"])
    ended = {"return": jnp.where(done, so_far, 0.0), "episodes": done}
    transition = Transition(obs, action, reward, terminated, *final)
    return (env_state, see(next_obs), jnp.where(done, 0.0, so_far)), (transition, ended)


def loss(parts: Parts, params: Any, target: Any, batch: Transition) -> jax.Array:
    """The squared error of the chosen actions' values: a mean over R steps."""
    # What is best by the learned network, and what the target network thinks of it; nothing after a true end.
    best = jnp.where(batch.final_mask, parts.network.apply(params, batch.final_obs), -jnp.inf).argmax(-1)
    following = jnp.take_along_axis(parts.network.apply(target, batch.final_obs), best[:, None], axis=-1)[:, 0]
    wanted = batch.reward + parts.config.gamma * (1.0 - batch.terminated) * following
    chosen = jnp.take_along_axis(parts.network.apply(params, batch.obs), batch.action[:, None], axis=-1)[:, 0]
    return 0.5 * jnp.square(chosen - jax.lax.stop_gradient(wanted)).mean()


def update(parts: Parts, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
    """One rollout and what is learned from the buffer; the metrics are sums over the episodes that have ended."""
    # Act for T steps with the present values, at random now and then, and write the oldest rows over.
    c = parts.config
    key, key_rollout, key_draw = jax.random.split(state.key, 3)
    progress = jnp.minimum(state.update / (c.eps_decay * c.num_updates), 1.0)
    epsilon = c.eps_start + progress * (c.eps_finish - c.eps_start)
    keys = jax.random.split(key_rollout, c.num_steps)
    envs, (traj, ended) = jax.lax.scan(lambda envs, k: step(parts, state.params, epsilon, envs, k), state.envs, keys)
    size = c.num_envs * c.num_steps
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
    ready = written >= c.learning_starts
    params, target, opt_state = jax.tree.map(lambda new, old: jnp.where(ready, new, old), after, before)
    metrics = {name: each.sum() for name, each in ended.items()}
    return TrainState(params, target, opt_state, buffer, envs, state.lr, state.update + 1, key), metrics


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
