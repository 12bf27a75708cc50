"""SAC: an actor that is rewarded for its entropy as well, and two critics that learn from a replay buffer (Haarnoja et
al. 2018, https://arxiv.org/abs/1812.05905), for continuous actions of one agent, or of N agents that learn
independently.

Run it: `python algos/sac.py --env classic/pendulum`, or `jaxrl train sac --env classic/pendulum`. The weight of the
entropy, the temperature, is learned too: it rises while the policy is less random than wanted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, act, act_alone, own_numbers
from jaxrl.acting.rollout import draw_by_shard
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import off_policy
from jaxrl.algos.actor_critic import (
    actor_critics,
    box_of,
    critic_loss,
    explore,
    learn_part,
    part_of,
    predictions_of,
    q_of,
)
from jaxrl.algos.config.values import BoxLayer
from jaxrl.algos.off_policy import Batch, Learner, bootstrap_steps, rows, step_weights
from jaxrl.config import NOT_NEGATIVE, POSITIVE, Allowed, Effect, Name, check_config, check_loss
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.heads import SquashedHead, bounds_of
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
    target_entropy: Any
    max_grad_norm: Any


_REACHABLE = Allowed(lambda entropy: entropy < math.log(2.0), "be below 0.69, the entropy of uniform actions")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(BoxLayer):
    """SAC's configuration. The defaults suit Pendulum."""

    env: Name = "classic/pendulum"
    total_timesteps: int = 40_000
    num_envs: int = 8
    num_steps: int = 8
    gradient_steps: int = 32
    lr: float = 1e-3
    target_entropy: float = -1.0
    """The entropy that the temperature aims for, in nats for each number of an action, if actions go from -1 to 1.
    Uniform ones have 0.69."""
    init_alpha: float = 1.0
    """The temperature at the beginning."""
    critic_subset: int = 0
    """Critics of which targets take the smallest value, drawn anew in each gradient step, while the actor maximises the
    mean of all (REDQ, Chen et al. 2021, https://arxiv.org/abs/2101.05982); 0 means `pessimism` over all for both."""

    hyperparams_class: ClassVar[type[Any]] = Hyperparams
    allowed: ClassVar[dict[str, Allowed]] = {
        "init_alpha": POSITIVE,
        "target_entropy": _REACHABLE,
        "critic_subset": NOT_NEGATIVE,
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("critic_subset", ("num_critics",), lambda c, _: c.critic_subset < c.num_critics, "raise num_critics"),
    )

    def joint(self, q: jax.Array) -> jax.Array:
        """See `BoxLayer.joint`; with `critic_subset`, all K critics count for the actor, and few for a target."""
        of_all = self.critic_subset and q.shape[-1] == self.num_critics
        return q.mean(axis=-1) if of_all else super().joint(q)


PRESETS: dict[str, Config] = {
    "default": Config(),
    # RLPD (Ball et al. 2023, https://arxiv.org/abs/2302.02948), which takes --prior-data besides: many gradient steps
    # for each environment step, which many critics with normalised layers withstand.
    "rlpd": Config(
        num_steps=1,
        gradient_steps=160,
        policy_delay=20,
        lr=3e-4,
        anneal_lr=False,
        tau=0.005,
        batch_size=256,
        num_critics=10,
        critic_subset=2,
        layer_norm=True,
    ),
}


def update(agent: Agent, state: off_policy.TrainState) -> tuple[off_policy.TrainState, Metrics]:
    """One rollout and its gradient steps. Metrics are sums and means, see `jaxrl.algorithm.Metrics`."""
    return off_policy.act_and_learn(agent, state, learn_values, learn_policy, agent.config.policy_delay)


def begin(agent: Agent, params: Any) -> Learner:
    """What gradient steps change: fresh parameters with the temperatures, target critics, an optimiser for each."""
    log_alpha = jnp.full(max(agent.param_sets) + 1, np.log(np.float32(agent.config.init_alpha)))
    params = {"params": {**params["params"], "log_alpha": log_alpha}}
    parts = {"critic": part_of(params, "critic"), "actor": part_of(params, "actor", "log_alpha")}
    opt_state = {name: new_opt_state(part, agent.config.optimizer) for name, part in parts.items()}
    return Learner(params, jax.tree.map(jnp.copy, parts["critic"]), opt_state)


def learn_values(
    agent: Agent, h: Hyperparams, learner: Learner, batch: Batch, keys: jax.Array, number: jax.Array
) -> tuple[Learner, dict[str, jax.Array]]:
    """A `LearnStep`: one gradient step of the critics, then a move of their targets."""
    config, target = agent.config, learner.target
    learner, losses = learn_part(
        agent, h, learner, batch, ("critic",), lambda params, batch: agent.loss(agent, h, params, target, batch, keys)
    )
    critic = part_of(learner.params, "critic")
    target = update_target(critic, target, h.tau, number, config.target_update_interval)
    return learner._replace(target=target), losses


def learn_policy(
    agent: Agent, h: Hyperparams, learner: Learner, batch: Batch, keys: jax.Array, number: jax.Array
) -> tuple[Learner, dict[str, jax.Array]]:
    """A `LearnStep`: one gradient step of the actor and of the temperatures."""
    del number
    names = ("actor", "log_alpha")
    return learn_part(agent, h, learner, batch, names, lambda params, batch: policy_loss(agent, h, params, batch, keys))


def loss(
    agent: Agent, h: Hyperparams, params: Any, target: Any, batch: Batch, keys: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The critics' error, averaged; with several devices, the mean over them counts.

    Targets bootstrap from the value of an action that the actor draws now, minus the temperature times the action's
    log-probability. With n steps, only the entropy at their end counts.

    Args:
        agent: What the configuration is made into.
        h: The hyperparameters of this update.
        params: The parameters that are learned.
        target: Those of the target critics.
        batch: The minibatch.
        keys: `[S]`. Consumed.
    """
    config, after = agent.config, bootstrap_steps(agent.config, batch.steps)
    keys, for_critics = two(keys) if config.critic_subset else (keys, keys)
    action, log_prob = draw_actions(agent, params, after, keys)
    prediction = predictions_of(agent, target, after.observation, action)
    if config.critic_subset:
        prediction = draw_by_shard(partial(draw_critics, config.critic_subset), prediction, for_critics)
    bonus = -alpha_of(agent, params) * log_prob
    return critic_loss(agent, h.gamma, params, batch, after, prediction, bonus)


def policy_loss(
    agent: Agent, h: Hyperparams, params: Any, batch: Batch, keys: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The actor's loss and the temperatures', averaged; with several devices, the mean over them counts.

    The actor maximises the value of its actions and their entropy. The logarithm of the temperature rises as long as
    the entropy is below `target_entropy`, at a rate that does not depend on the temperature itself.
    """
    now = rows(batch.steps, 0, 1)
    weight = step_weights(now)
    action, log_prob = draw_actions(agent, params, now, keys)
    q = q_of(agent, params, now.observation, action)
    alpha = jax.lax.stop_gradient(alpha_of(agent, params))
    loss = jnp.sum(weight * (alpha * log_prob - q))
    wanted = h.target_entropy * own_numbers(agent.env).reshape(agent.env.num_agents, -1).sum(axis=1)
    surplus = jax.lax.stop_gradient(-log_prob - wanted)
    alpha_loss = jnp.sum(weight * of_agents(agent, params["params"]["log_alpha"]) * surplus)
    entropy = -jnp.sum(weight * log_prob)
    return loss + alpha_loss, {"policy": loss, "entropy": entropy, "alpha": jnp.sum(weight * alpha)}


def draw_actions(agent: Agent, params: Any, steps: off_policy.Steps, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `[L, R, N, ...]` of the actor, and their log-densities `[L, R, N]`, as if they went from -1 to 1.

    The padding of an agent's action does not count: its entropy would be taken for the agent's own.
    """
    _, policy, _ = agent.networks.apply(params, (), steps.observation, steps.reset)
    action, log_prob = draw_by_shard(lambda part, key: part.by_number().sample_and_log_prob(seed=key), policy, keys)
    low, high = bounds_of(box_of(agent.env))
    log_prob = jnp.where(own_numbers(agent.env), log_prob + np.log((high - low) / 2), 0.0)
    return action, log_prob.reshape(*steps.reset.shape, agent.env.num_agents, -1).sum(axis=-1)


def two(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two keys `[S]` from each. Consumes `keys`."""
    split = jax.vmap(jax.random.split)(keys)
    return split[:, 0], split[:, 1]


def draw_critics(count: int, prediction: jax.Array, key: jax.Array) -> jax.Array:
    """The predictions of `count` of the K critics, `[L, R, N, K, ...]` to `[L, R, N, count, ...]`."""
    drawn = jax.random.permutation(key, prediction.shape[3])[:count]
    return jnp.take(prediction, drawn, axis=3)


def alpha_of(agent: Agent, params: Any) -> jax.Array:
    """The temperature of each agent, `[N]`."""
    return of_agents(agent, jnp.exp(params["params"]["log_alpha"]))


def of_agents(agent: Agent, each: jax.Array) -> jax.Array:
    """From `[P]`, one number for each parameter set, to `[N]`, one for each agent."""
    return each[np.asarray(agent.param_sets)]


def make(config: Config, loss: Any = loss) -> Algorithm:
    """SAC as three pure functions of the train state. With a single agent, inputs and outputs have no agent axis.

    Args:
        config: What to train, and how.
        loss: Another loss of the critics, with the signature of `loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    team = as_multi_agent(env)
    param_sets = config.param_sets(team)
    networks = actor_critics(config, SquashedHead, team, param_sets)
    agent = Agent(
        config,
        team,
        param_sets,
        networks,
        loss,
        central=config.sees_state(team),
        behaviour=partial(explore, config, team),
    )
    acting = act if isinstance(env, MultiAgentEnvironment) else act_alone
    return Algorithm(partial(off_policy.init, agent, begin=begin), partial(update, agent), partial(acting, agent))


def make_train(config: Config) -> Callable[..., tuple[off_policy.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
