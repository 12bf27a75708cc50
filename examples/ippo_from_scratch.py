"""IPPO on SMAX from scratch, in one file: independent agents with shared parameters learn to win small battles.

    python examples/ippo_from_scratch.py                    # smax/3m, one seed: about a minute on two CPU cores
    python examples/ippo_from_scratch.py --env smax/2s3z --seeds 4

Everything between the environment and the printed win rate is here: network, rollout, advantages, loss, update. The
formulas (`gae`, `clipped_surrogate` …) are jaxrl's, each a small tested function. Feed-forward, one device; several
seeds train side by side by `vmap`. T steps, B environments, N agents, A actions, D features.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

import jaxrl
from jaxrl.rl.advantage import gae, normalise
from jaxrl.rl.losses import clipped_surrogate, clipped_value_loss

NUM_ENVS = 128  # B
NUM_STEPS = 32  # T
EPOCHS = 4
NUM_MINIBATCHES = 4
LR = 3e-3
MAX_GRAD_NORM = 0.5
GAMMA = 0.99
GAE_LAMBDA = 0.97
CLIP_EPS = 0.1
ENT_COEF = 0.005
VF_COEF = 0.5


class ActorCritic(nn.Module):
    """Observations `[..., D]` and masks of actions `[..., A]` to a policy and a value `[...]`."""

    num_actions: int

    @nn.compact
    def __call__(self, obs: jax.Array, action_mask: jax.Array) -> tuple[distrax.Categorical, jax.Array]:
        x = obs
        for size in (64, 64):
            x = nn.tanh(nn.Dense(size)(x))
        logits = nn.Dense(self.num_actions, kernel_init=nn.initializers.normal(0.01))(x)
        value = nn.Dense(1)(x)[..., 0]
        return distrax.Categorical(jnp.where(action_mask, logits, -1e9)), value


class Transition(NamedTuple):
    """One step; a rollout stacks T of them."""

    obs: jax.Array  # [B, N, D]
    action_mask: jax.Array  # [B, N, A]
    alive: jax.Array  # [B, N]
    action: jax.Array  # [B, N]
    log_prob: jax.Array  # [B, N]
    value: jax.Array  # [B, N]
    reward: jax.Array  # [B, N]
    terminated: jax.Array  # [B] the task ended: nothing more is to come
    done: jax.Array  # [B] terminated, or cut by the clock
    won: jax.Array  # [B]
    final_obs: jax.Array  # [B, N, D] what the step led to, before any reset
    final_alive: jax.Array  # [B, N]


class TrainState(NamedTuple):
    """Everything that training goes on from."""

    params: Any
    opt_state: Any
    env_state: Any
    obs: jax.Array
    key: jax.Array


def team_value(value: jax.Array, alive: jax.Array) -> jax.Array:
    """`[..., N]`: of the dead, the mean value of the living, since what the team still earns is theirs as well."""
    mean = jnp.sum(value * alive, axis=-1, keepdims=True) / jnp.maximum(alive.sum(-1, keepdims=True), 1)
    return jnp.where(alive, value, mean)


def make(env_id: str, num_updates: int) -> tuple[Any, Any]:
    """`init(key) -> state` and `update(state) -> (state, metrics)`, two pure functions."""
    env = jaxrl.make(env_id)
    venv = jaxrl.VectorEnv(env, NUM_ENVS)
    network = ActorCritic(env.action_space().n)
    lr = optax.linear_schedule(LR, 0.0, num_updates * EPOCHS * NUM_MINIBATCHES)
    optimizer = optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.adam(lr, eps=1e-5))

    def init(key: jax.Array) -> TrainState:
        key_params, key_env, key = jax.random.split(key, 3)
        obs, env_state = venv.reset(key_env)
        params = network.init(key_params, obs, venv.action_mask(env_state))
        return TrainState(params, optimizer.init(params), env_state, obs, key)

    def evaluate(params: Any, obs: jax.Array, mask: jax.Array) -> tuple[Any, jax.Array]:
        outputs: Any = network.apply(params, obs, mask)
        return outputs

    def step(params: Any, carry: Any, key: jax.Array) -> tuple[Any, Transition]:
        env_state, obs = carry
        key_action, key_env = jax.random.split(key)
        mask, alive = venv.action_mask(env_state), venv.agent_mask(env_state)
        policy, value = evaluate(params, obs, mask)
        action, log_prob = policy.sample_and_log_prob(seed=key_action)
        next_obs, env_state, reward, terminated, truncated, info = venv.step(key_env, env_state, action)
        final = info["final_observation"], venv.agent_mask(info["final_state"])
        ends = terminated, terminated | truncated, info["won"]
        return (env_state, next_obs), Transition(
            obs, mask, alive, action, log_prob, team_value(value, alive), reward, *ends, *final
        )

    def loss(params: Any, batch: Transition, advantage: jax.Array, target: jax.Array) -> jax.Array:
        weight = batch.alive / jnp.maximum(batch.alive.sum(), 1)  # the dead carry no loss
        policy, value = evaluate(params, batch.obs, batch.action_mask)
        ratio = jnp.exp(policy.log_prob(batch.action) - batch.log_prob)
        policy_loss = clipped_surrogate(ratio, normalise(advantage, batch.alive), CLIP_EPS)
        value_loss = clipped_value_loss(value, batch.value, target, CLIP_EPS)
        return jnp.sum(weight * (policy_loss + VF_COEF * value_loss - ENT_COEF * policy.entropy()))

    def learn(learner: tuple[Any, Any], minibatch: tuple[Any, ...]) -> tuple[tuple[Any, Any], None]:
        params, opt_state = learner
        updates, opt_state = optimizer.update(jax.grad(loss)(params, *minibatch), opt_state)
        return (optax.apply_updates(params, updates), opt_state), None

    def update(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        key, key_rollout, key_shuffle = jax.random.split(state.key, 3)
        (env_state, obs), traj = jax.lax.scan(
            lambda carry, k: step(state.params, carry, k),
            (state.env_state, state.obs),
            jax.random.split(key_rollout, NUM_STEPS),
        )
        # The value of what each step led to, whether the episode went on or not; `discount` is 0 where it ended.
        _, final_value = evaluate(state.params, traj.final_obs, jnp.ones_like(traj.action_mask))
        next_value = team_value(final_value, traj.final_alive)
        discount = GAMMA * (1.0 - traj.terminated[..., None])
        advantage = gae(traj.reward, discount, traj.done[..., None], traj.value, next_value, GAE_LAMBDA)

        rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (traj, advantage, advantage + traj.value))
        keys = jax.random.split(key_shuffle, EPOCHS)
        index = jax.vmap(lambda k: jax.random.permutation(k, NUM_STEPS * NUM_ENVS))(keys)
        index = index.reshape(EPOCHS * NUM_MINIBATCHES, -1)
        (params, opt_state), _ = jax.lax.scan(
            lambda learner, i: learn(learner, jax.tree.map(lambda leaf: leaf[i], rows)),
            (state.params, state.opt_state),
            index,
        )
        metrics = {"episodes": traj.done.sum(), "won": (traj.done & traj.won).sum()}
        return TrainState(params, opt_state, env_state, obs, key), metrics

    return init, update


def main() -> None:
    """Train, and print the win rate as it grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="smax/3m")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--total-timesteps", type=float, default=3e6)
    args = parser.parse_args()

    whole = max(1, int(args.total_timesteps / (NUM_ENVS * NUM_STEPS)))
    chunks = min(20, whole)
    updates = whole // chunks  # in a chunk
    init, update = make(args.env, updates * chunks)
    train = jax.jit(jax.vmap(lambda state: jax.lax.scan(lambda s, _: update(s), state, length=updates)))
    state = jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(0), args.seeds))
    train = train.lower(state).compile()
    start = time.perf_counter()
    for chunk in range(1, chunks + 1):
        state, metrics = train(state)
        won = metrics["won"].sum(1) / metrics["episodes"].sum(1).clip(1)
        steps, seconds = chunk * updates * NUM_ENVS * NUM_STEPS, time.perf_counter() - start
        print(f"{steps:>10,} steps  {seconds:5.1f} s  win rate {' '.join(f'{w:.3f}' for w in won)}", flush=True)


if __name__ == "__main__":
    main()
