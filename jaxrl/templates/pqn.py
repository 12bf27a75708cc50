"""PQN: values of actions from fresh rollouts, without replay or a target network (Gallici et al. 2024).

    python my_pqn.py --env classic/cartpole
    python my_pqn.py --env minatar/breakout --total-timesteps 5000000 --num-envs 128 --num-steps 32 --q-lambda 0.65

Everything between environment and curve is here (https://arxiv.org/abs/2407.04811): read it from top to bottom, change
what you like. Normalised layers keep it stable. Every learning rate trains with every seed, side by side by `vmap`, and
all devices share the work. Letters in shapes: T steps, B environments, D numbers in an observation, A actions, R rows
of a minibatch, M members (learning rates times seeds).
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
from jaxrl.rl.advantage import gae
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
    lr: tuple[float, ...] = (5e-4,)
    """Learning rate, which falls to 0 linearly; several train side by side."""
    total_timesteps: int = 500_000
    """Steps of one member's environments, all together."""
    num_envs: int = 32
    """B, environments that a member steps at once."""
    num_steps: int = 64
    """T, steps of each environment in one update."""
    update_epochs: int = 4
    """Passes over the rollout in one update."""
    num_minibatches: int = 16
    """Gradient steps of a pass."""
    gamma: float = 0.99
    """Discount factor."""
    q_lambda: float = 0.95
    """How much of a return is what was seen, rather than the value that follows."""
    eps_start: float = 1.0
    """Share of random actions at the beginning."""
    eps_finish: float = 0.05
    """Share of random actions once it has fallen."""
    eps_decay: float = 0.2
    """Share of the run during which it falls, linearly."""
    max_grad_norm: float = 10.0
    """Longer gradients are shortened to this length."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers."""
    num_lines: int = 20
    """Lines to print; between two of them, all runs on the device."""
    plot: str = "pqn.png"
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
    """One step of B environments; a rollout stacks T of them."""

    obs: jax.Array  # [B, D]
    action: jax.Array  # [B]
    value: jax.Array  # [B] of the best legal action
    reward: jax.Array  # [B]
    terminated: jax.Array  # [B] the task has ended: no reward is to come
    done: jax.Array  # [B] terminated, or cut off by the clock
    final_obs: jax.Array  # [B, D] to which the step has led, before any reset
    final_mask: jax.Array  # [B, A] the actions that are legal there
    ended_return: jax.Array  # [B] sum of rewards of the episode that has ended here, else 0


class TrainState(NamedTuple):
    """All that training goes on from; of M members, with a leading axis M."""

    params: Any
    opt_state: Any
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
        raise ValueError(f"{config.env} has actions in {space}, and PQN chooses one of several; try `jaxrl new ppo`.")
    if config.num_envs * config.num_steps % config.num_minibatches:
        raise ValueError(f"num_minibatches={config.num_minibatches} does not divide num_envs times num_steps.")
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_radam(eps=1e-5))
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
    return TrainState(params, parts.optimizer.init(params), envs, lr, jnp.int32(0), key)


def step(parts: Parts, params: Any, epsilon: Any, envs: Any, key: jax.Array) -> tuple[Any, Transition]:
    """One step of all environments, which start anew where an episode ends."""
    env_state, obs, so_far = envs
    key_random, key_explore, key_env = jax.random.split(key, 3)
    mask = parts.venv.action_mask(env_state)
    values = jnp.where(mask, parts.network.apply(params, obs), -jnp.inf)
    drawn = jax.random.categorical(key_random, jnp.where(mask, 0.0, -jnp.inf))
    action = jnp.where(jax.random.uniform(key_explore, drawn.shape) < epsilon, drawn, values.argmax(-1))
    next_obs, env_state, reward, terminated, truncated, info = parts.venv.step(key_env, env_state, action)
    done, so_far = terminated | truncated, so_far + reward
    final = see(info["final_observation"]), parts.venv.action_mask(info["final_state"])
    ended = jnp.where(done, so_far, 0.0)
    transition = Transition(obs, action, values.max(-1), reward, terminated, done, *final, ended)
    return (env_state, see(next_obs), jnp.where(done, 0.0, so_far)), transition


def loss(parts: Parts, params: Any, batch: Transition, target: jax.Array) -> jax.Array:
    """Half the squared error of the chosen actions' values: a mean over R steps."""
    values = parts.network.apply(params, batch.obs)
    chosen = jnp.take_along_axis(values, batch.action[:, None], axis=-1)[:, 0]
    return 0.5 * jnp.square(chosen - target).mean()


def update(parts: Parts, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
    """One rollout and what is learned from it; the metrics are sums over the episodes that have ended."""
    # Act for T steps with the present values, at random now and then.
    c = parts.config
    key, key_rollout, key_shuffle = jax.random.split(state.key, 3)
    progress = jnp.minimum(state.update / (c.eps_decay * c.num_updates), 1.0)
    epsilon = c.eps_start + progress * (c.eps_finish - c.eps_start)
    keys = jax.random.split(key_rollout, c.num_steps)
    envs, traj = jax.lax.scan(lambda envs, k: step(parts, state.params, epsilon, envs, k), state.envs, keys)

    # Returns of all lengths; of values of the best actions, `gae` is the return less the value. A time-out is followed
    # by the value of its last observation, a true end by nothing.
    next_value = jnp.where(traj.final_mask, parts.network.apply(state.params, traj.final_obs), -jnp.inf).max(-1)
    discount = c.gamma * (1.0 - traj.terminated)
    target = traj.value + gae(traj.reward, discount, traj.done, traj.value, next_value, c.q_lambda)

    # Learn in several passes over the rollout, each in new minibatches of single steps.
    size = c.num_envs * c.num_steps
    rows = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), (traj, target))
    keys = jax.random.split(key_shuffle, c.update_epochs)
    index = jax.vmap(lambda k: jax.random.permutation(k, size))(keys)
    lr = state.lr * (1 - state.update / c.num_updates)

    def learn(learner: tuple[Any, Any], i: jax.Array) -> tuple[tuple[Any, Any], None]:
        params, opt_state = learner
        grads = jax.grad(loss, argnums=1)(parts, params, *jax.tree.map(lambda x: x.take(i, 0, mode="clip"), rows))
        steps, opt_state = parts.optimizer.update(grads, opt_state)
        return (jax.tree.map(lambda p, s: p - lr * s, params, steps), opt_state), None

    learner, index = (state.params, state.opt_state), index.reshape(c.update_epochs * c.num_minibatches, -1)
    (params, opt_state), _ = jax.lax.scan(learn, learner, index)
    metrics = {"return": traj.ended_return.sum(), "episodes": traj.done.sum()}
    return TrainState(params, opt_state, envs, state.lr, state.update + 1, key), metrics


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
