"""PPO for one agent, with discrete or continuous actions (Schulman et al. 2017).

    python my_ppo.py --env classic/cartpole
    python my_ppo.py --env classic/pendulum --gamma 0.95 --num-seeds 4 --lr 1e-3 3e-3

Everything between environment and curve is here (https://arxiv.org/abs/1707.06347): read it from top to bottom, change
what you like. Every learning rate trains with every seed, side by side by `vmap`, and all devices share the work.
Letters in shapes: T steps, B environments, D numbers in an observation, A actions, R rows of a minibatch, M members
(learning rates times seeds).
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
from jaxrl.nn.distributions import Categorical  # distrax's, but faster on a CPU
from jaxrl.rl.advantage import gae
from jaxrl.spaces import Box, Discrete


@dataclasses.dataclass(frozen=True)
class Config:
    """The flags; their defaults suit CartPole."""

    env: str = "classic/cartpole"
    """Environment, one of those that `jaxrl envs` lists."""
    seed: int = 0
    """The first seed."""
    num_seeds: int = 1
    """Seeds that train side by side."""
    lr: tuple[float, ...] = (2e-3,)
    """Learning rate, which falls to 0 linearly; several train side by side."""
    total_timesteps: int = 100_000
    """Steps of one member's environments, all together."""
    num_envs: int = 16
    """B, environments that a member steps at once."""
    num_steps: int = 64
    """T, steps of each environment in one update."""
    update_epochs: int = 4
    """Passes over the rollout in one update."""
    num_minibatches: int = 4
    """Gradient steps of a pass."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Trace decay of the advantages."""
    clip_eps: float = 0.2
    """How far the ratio of new to old probability may leave 1 and still be rewarded."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this length."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers, of the policy and of the critic."""
    num_lines: int = 20
    """Lines to print; between two of them, all runs on the device."""
    plot: str = "ppo.png"
    """Picture of the curve, if matplotlib is installed; "" for none."""
    wandb: str = ""
    """Project on Weights & Biases to log to; "" for none."""

    @property
    def num_updates(self) -> int:
        """Updates of a run."""
        return max(1, self.total_timesteps // (self.num_envs * self.num_steps))


class ActorCritic(nn.Module):
    """From observations `[..., D]` and masks `[..., A]` to a policy and a value `[...]`; two networks."""

    space: Discrete | Box
    hidden: tuple[int, ...]

    @nn.compact
    def __call__(self, obs: jax.Array, mask: jax.Array | None) -> tuple[Any, jax.Array]:
        features, critic = obs, obs
        for size in self.hidden:
            features, critic = nn.tanh(nn.Dense(size)(features)), nn.tanh(nn.Dense(size)(critic))
        value = nn.Dense(1)(critic)[..., 0]
        small = nn.initializers.normal(0.01)  # at first, all actions are about as likely
        if isinstance(self.space, Discrete):
            logits = nn.Dense(self.space.n, kernel_init=small)(features)
            return Categorical(logits if mask is None else jnp.where(mask, logits, -1e9)), value
        mean = nn.Dense(self.space.shape[0], kernel_init=small)(features)
        log_std = self.param("log_std", nn.initializers.zeros_init(), mean.shape[-1:])
        return distrax.MultivariateNormalDiag(mean, jnp.broadcast_to(jnp.exp(log_std), mean.shape)), value


class Transition(NamedTuple):
    """One step of B environments; a rollout stacks T of them."""

    obs: jax.Array  # [B, D]
    mask: Any  # [B, A] the legal actions; None if actions are continuous
    action: jax.Array  # [B], or [B, A] between -1 and 1, where the box of actions begins and ends
    log_prob: jax.Array  # [B]
    value: jax.Array  # [B]
    reward: jax.Array  # [B]
    terminated: jax.Array  # [B] the task has ended: no reward is to come
    done: jax.Array  # [B] terminated, or cut off by the clock
    final_obs: jax.Array  # [B, D] to which the step has led, before any reset
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
    network: Any  # an ActorCritic
    optimizer: optax.GradientTransformation


def make(config: Config) -> Parts:
    """Environments, network and optimiser, or an error if they do not fit together."""
    env = jaxrl.make(config.env)
    if isinstance(env, jaxrl.MultiAgentEnvironment):
        raise ValueError(f"{config.env} has {env.num_agents} agents, and this script trains one; try `jaxrl new ippo`.")
    space = env.action_space()
    if not (isinstance(space, Discrete) or (isinstance(space, Box) and np.isfinite([space.low, space.high]).all())):
        raise ValueError(f"{config.env} has actions in {space}, for which ActorCritic has no policy; write one there.")
    if config.num_envs * config.num_steps % config.num_minibatches:
        raise ValueError(f"num_minibatches={config.num_minibatches} does not divide num_envs times num_steps.")
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=1e-5))
    return Parts(config, jaxrl.VectorEnv(env, config.num_envs), ActorCritic(space, config.hidden), optimizer)


def see(obs: jax.Array) -> jax.Array:
    """Observations `[B, ...]` as the network takes them; for one with convolutions, leave pictures as they are."""
    return obs.reshape(obs.shape[0], -1).astype(jnp.float32)


def legal(parts: Parts, env_state: Any) -> Any:
    """The masks of legal actions `[B, A]`; None if actions are continuous."""
    return parts.venv.action_mask(env_state) if isinstance(parts.network.space, Discrete) else None


def init(parts: Parts, key: jax.Array, lr: jax.Array) -> TrainState:
    """The state of a member before its first update."""
    key_params, key_env, key = jax.random.split(key, 3)
    obs, env_state = parts.venv.reset(key_env)
    params = parts.network.init(key_params, see(obs), legal(parts, env_state))
    envs = env_state, see(obs), jnp.zeros(parts.config.num_envs)
    return TrainState(params, parts.optimizer.init(params), envs, lr, jnp.int32(0), key)


def step(parts: Parts, params: Any, envs: Any, key: jax.Array) -> tuple[Any, Transition]:
    """One step of all environments, which start anew where an episode ends."""
    env_state, obs, so_far = envs
    key_action, key_env = jax.random.split(key)
    mask, space = legal(parts, env_state), parts.network.space
    policy, value = parts.network.apply(params, obs, mask)
    action, log_prob = policy.sample_and_log_prob(seed=key_action)
    # From -1 … 1 to the box of actions; the environment clips what is outside.
    taken = space.low + (space.high - space.low) * (action + 1) / 2 if isinstance(space, Box) else action
    next_obs, env_state, reward, terminated, truncated, info = parts.venv.step(key_env, env_state, taken)
    done, so_far = terminated | truncated, so_far + reward
    ended = see(info["final_observation"]), jnp.where(done, so_far, 0.0)
    transition = Transition(obs, mask, action, log_prob, value, reward, terminated, done, *ended)
    return (env_state, see(next_obs), jnp.where(done, 0.0, so_far)), transition


def loss(parts: Parts, params: Any, batch: Transition, advantage: jax.Array, target: jax.Array) -> jax.Array:
    """The clipped surrogate (eq. 7), the squared error of the values and the entropy: a mean over R steps."""
    c = parts.config
    policy, value = parts.network.apply(params, batch.obs, batch.mask)
    ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - c.clip_eps, 1 + c.clip_eps)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    value_loss = 0.5 * jnp.square(value - target).mean()
    return policy_loss + c.vf_coef * value_loss - c.ent_coef * policy.entropy().mean()


def update(parts: Parts, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
    """One rollout and what is learned from it; the metrics are sums over the episodes that have ended."""
    # Act for T steps with the present policy.
    c = parts.config
    key, key_rollout, key_shuffle = jax.random.split(state.key, 3)
    keys = jax.random.split(key_rollout, c.num_steps)
    envs, traj = jax.lax.scan(lambda envs, k: step(parts, state.params, envs, k), state.envs, keys)

    # A time-out is followed by the value of its last observation, a true end by nothing.
    _, next_value = parts.network.apply(state.params, traj.final_obs, None)
    discount = c.gamma * (1.0 - traj.terminated)
    advantage = gae(traj.reward, discount, traj.done, traj.value, next_value, c.gae_lambda)

    # Learn in several passes over the rollout, each in new minibatches of single steps.
    size = c.num_envs * c.num_steps
    rows = jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), (traj, advantage, advantage + traj.value))
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
