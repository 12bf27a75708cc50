"""SAC: a random policy for continuous actions, learned from a replay buffer (Haarnoja et al. 2018).

    python my_sac.py --env classic/pendulum --num-seeds 4 --lr 1e-3 3e-3

Everything between environment and curve is here (https://arxiv.org/abs/1812.05905): read it from top to bottom, change
what you like. Every learning rate trains with every seed, side by side by `vmap`, and all devices share the work.
Letters in shapes: T steps, B environments, D numbers in an observation, A in an action, C rows of the buffer, R rows of
a minibatch, M members (learning rates times seeds). Actions go from -1 to 1 here, and to their box in `step`.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import time
from typing import Any, NamedTuple

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxrl
from jaxrl.spaces import Box


@dataclasses.dataclass(frozen=True)
class Config:
    """The flags; their defaults suit Pendulum."""

    env: str = "classic/pendulum"
    """Environment, one of those that `jaxrl envs` lists."""
    seed: int = 0
    """The first seed."""
    num_seeds: int = 1
    """Seeds that train side by side."""
    lr: tuple[float, ...] = (1e-3,)
    """Learning rate, which falls to 0 linearly; several train side by side."""
    total_timesteps: int = 40_000
    """Steps of one member's environments, all together."""
    num_envs: int = 8
    """B, environments that a member steps at once."""
    num_steps: int = 8
    """T, steps of each environment in one update."""
    gradient_steps: int = 32
    """Gradient steps in one update."""
    buffer_size: int = 100_000
    """C, steps that the replay buffer keeps."""
    batch_size: int = 128
    """R, steps drawn from the buffer for a gradient step."""
    learning_starts: int = 1000
    """Steps in the buffer before it learns."""
    tau: float = 0.01
    """How far the critics' targets follow in each gradient step."""
    target_entropy: float = -1.0
    """The entropy that the temperature aims for, for each number of an action that goes from -1 to 1."""
    gamma: float = 0.99
    """Discount factor."""
    max_grad_norm: float = 10.0
    """Longer gradients are shortened to this length."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers, of the policy and of each critic."""
    num_lines: int = 20
    """Lines to print; between two of them, all runs on the device."""
    plot: str = "sac.png"
    """Picture of the curve, if matplotlib is installed; "" for none."""
    wandb: str = ""
    """Project on Weights & Biases to log to; "" for none."""

    @property
    def num_updates(self) -> int:
        """Updates of a run."""
        return max(1, self.total_timesteps // (self.num_envs * self.num_steps))


class Actor(nn.Module):
    """From observations `[..., D]` to a policy of actions `[..., A]` between -1 and 1."""

    size: int
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: jax.Array) -> Any:
        features = obs
        for size in self.hidden:
            features = nn.relu(nn.Dense(size)(features))
        mean, log_std = jnp.split(nn.Dense(2 * self.size)(features), 2, axis=-1)
        normal = distrax.MultivariateNormalDiag(mean, jnp.exp(jnp.clip(log_std, -5.0, 2.0)))
        return distrax.Transformed(normal, distrax.Block(distrax.Tanh(), 1))


class Critics(nn.Module):
    """From observations `[..., D]` and actions `[..., A]` to two values `[..., 2]`, by two networks."""

    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        values = []
        for _ in range(2):
            features = jnp.concatenate([obs, action], axis=-1)
            for size in self.hidden:
                features = nn.relu(nn.Dense(size)(features))
            values.append(nn.Dense(1)(features))
        return jnp.concatenate(values, axis=-1)


class Transition(NamedTuple):
    """One step of B environments; the buffer holds C such rows."""

    obs: jax.Array  # [B, D]
    action: jax.Array  # [B, A]
    reward: jax.Array  # [B]
    terminated: jax.Array  # [B] the task has ended: no reward is to come
    final_obs: jax.Array  # [B, D] to which the step has led, before any reset


class TrainState(NamedTuple):
    """All that training goes on from; of M members, with a leading axis M."""

    params: dict[str, Any]  # of actor and critics, and log_alpha
    target: Any  # the critics' slow copy
    opt_state: dict[str, Any]
    buffer: Transition  # leaves [C, ...]
    envs: Any  # environments' states, observations, returns so far: leaves [B, ...]
    lr: jax.Array
    update: jax.Array
    key: jax.Array


class Parts(NamedTuple):
    """What the configuration is made into."""

    config: Config
    venv: jaxrl.VectorEnv
    space: Box
    actor: Any
    critics: Any
    optimizer: optax.GradientTransformation


def make(config: Config) -> Parts:
    """Environments, networks and optimiser, or an error if they do not fit together."""
    env = jaxrl.make(config.env)
    if isinstance(env, jaxrl.MultiAgentEnvironment):
        raise ValueError(f"{config.env} has {env.num_agents} agents, and this script trains one; try `jaxrl new ippo`.")
    space = env.action_space()
    if not isinstance(space, Box) or not np.isfinite([space.low, space.high]).all():
        raise ValueError(f"{config.env} has actions in {space}, and SAC needs a finite Box; try `jaxrl new dqn`.")
    rollout = config.num_envs * config.num_steps  # of which the buffer holds whole ones, each written at once
    config = dataclasses.replace(config, buffer_size=max(1, config.buffer_size // rollout) * rollout)
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=1e-5))
    networks = Actor(space.shape[0], config.hidden), Critics(config.hidden)
    return Parts(config, jaxrl.VectorEnv(env, config.num_envs), space, *networks, optimizer)


def see(obs: jax.Array) -> jax.Array:
    """Observations `[B, ...]` as the networks take them; for one with convolutions, leave pictures as they are."""
    return obs.reshape(obs.shape[0], -1).astype(jnp.float32)


def init(parts: Parts, key: jax.Array, lr: jax.Array) -> TrainState:
    """The state of a member before its first update."""
    key_actor, key_critics, key_env, key = jax.random.split(key, 4)
    obs, env_state = parts.venv.reset(key_env)
    envs = env_state, see(obs), jnp.zeros(parts.config.num_envs)
    action = jnp.zeros((parts.config.num_envs, parts.space.shape[0]))
    actor, critics = parts.actor.init(key_actor, see(obs)), parts.critics.init(key_critics, see(obs), action)
    params = {"actor": actor, "critics": critics, "log_alpha": jnp.zeros(())}
    opt_state = {name: parts.optimizer.init(each) for name, each in params.items()}
    _, (like, _) = jax.eval_shape(lambda: step(parts, actor, envs, jax.random.key(0)))
    buffer = jax.tree.map(lambda x: jnp.zeros((parts.config.buffer_size, *x.shape[1:]), x.dtype), like)
    return TrainState(params, critics, opt_state, buffer, envs, lr, jnp.int32(0), key)


def step(parts: Parts, actor: Any, envs: Any, key: jax.Array) -> tuple[Any, tuple[Transition, Any]]:
    """One step of all environments, which start anew where an episode ends; with each step the ended returns."""
    env_state, obs, so_far = envs
    key_action, key_env = jax.random.split(key)
    action, low, high = parts.actor.apply(actor, obs).sample(seed=key_action), parts.space.low, parts.space.high
    inside = low + (high - low) * (action + 1) / 2
    next_obs, env_state, reward, terminated, truncated, info = parts.venv.step(key_env, env_state, inside)
    done, so_far = terminated | truncated, so_far + reward
    ended = {"return": jnp.where(done, so_far, 0.0), "episodes": done}
    transition = Transition(obs, action, reward, terminated, see(info["final_observation"]))
    return (env_state, see(next_obs), jnp.where(done, 0.0, so_far)), (transition, ended)


def loss(parts: Parts, params: Any, target: Any, batch: Transition, key: jax.Array) -> jax.Array:
    """The losses of critics, actor and temperature: means over R steps, added, since each has parameters of its own."""
    key_next, key_now = jax.random.split(key)
    fixed, alpha = jax.lax.stop_gradient(params), jnp.exp(jax.lax.stop_gradient(params["log_alpha"]))

    # Critics: the smaller value of what the policy would do next, and its entropy; nothing after a true end.
    action, log_prob = parts.actor.apply(fixed["actor"], batch.final_obs).sample_and_log_prob(seed=key_next)
    following = parts.critics.apply(target, batch.final_obs, action).min(-1) - alpha * log_prob
    wanted = batch.reward + parts.config.gamma * (1.0 - batch.terminated) * following
    values = parts.critics.apply(params["critics"], batch.obs, batch.action)
    critic_loss = 0.5 * jnp.square(values - wanted[:, None]).sum(-1).mean()

    # Actor: actions that the critics value, and entropy. Temperature: rises while there is less entropy than wanted.
    action, log_prob = parts.actor.apply(params["actor"], batch.obs).sample_and_log_prob(seed=key_now)
    actor_loss = (alpha * log_prob - parts.critics.apply(fixed["critics"], batch.obs, action).min(-1)).mean()
    missing = parts.config.target_entropy * parts.space.shape[0] + jax.lax.stop_gradient(log_prob).mean()
    return critic_loss + actor_loss - params["log_alpha"] * missing


def update(parts: Parts, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
    """One rollout and what is learned from the buffer; the metrics are sums over the episodes that have ended."""
    # Act for T steps, and write the oldest rows over.
    c = parts.config
    key, key_rollout, key_draw, key_learn = jax.random.split(state.key, 4)
    actor, size = state.params["actor"], c.num_envs * c.num_steps
    keys = jax.random.split(key_rollout, c.num_steps)
    envs, (traj, ended) = jax.lax.scan(lambda envs, k: step(parts, actor, envs, k), state.envs, keys)
    rows, start = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), traj), state.update * size % c.buffer_size
    buffer = jax.tree.map(lambda old, x: jax.lax.dynamic_update_slice_in_dim(old, x, start, 0), state.buffer, rows)

    # Learn from rows drawn from all that is written.
    written = jnp.minimum((state.update + 1) * size, c.buffer_size)
    index = jax.random.randint(key_draw, (c.gradient_steps, c.batch_size), 0, written)
    lr = state.lr * (1 - state.update / c.num_updates)

    def learn(learner: tuple[Any, Any, Any], inputs: Any) -> tuple[tuple[Any, Any, Any], None]:
        (params, target, opt_state), (i, k) = learner, inputs
        batch = jax.tree.map(lambda x: x.take(i, 0, mode="clip"), buffer)
        grads = jax.grad(loss, argnums=1)(parts, params, target, batch, k)
        steps = {name: parts.optimizer.update(grads[name], opt_state[name]) for name in params}
        params = {name: jax.tree.map(lambda p, s: p - lr * s, params[name], steps[name][0]) for name in params}
        target = jax.tree.map(lambda t, p: t + c.tau * (p - t), target, params["critics"])
        return (params, target, {name: opt for name, (_, opt) in steps.items()}), None

    # Until there is enough in the buffer, nothing changes.
    before, ready = (state.params, state.target, state.opt_state), written >= c.learning_starts
    after, _ = jax.lax.scan(learn, before, (index, jax.random.split(key_learn, c.gradient_steps)))
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
