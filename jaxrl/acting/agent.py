"""An agent in use: its networks as pure functions, and how they act in a rollout and after training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.normaliser import Normaliser, new_normaliser, normalised
from jaxrl.acting.rollout import (
    Collector,
    Observation,
    Policy,
    Transition,
    central_state,
    draw_by_shard,
    global_state_size,
    refresh_pool,
    rollout,
    rollout_from_pool,
    team_value,
)
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.keys import check_key
from jaxrl.nn.distributions import Counted
from jaxrl.nn.encoder import as_floats
from jaxrl.nn.sharing import init_param_sets, per_agent
from jaxrl.rl.devices import num_devices, shard_keys
from jaxrl.rl.learn import gradient
from jaxrl.rl.losses import GreedyValue
from jaxrl.spaces import Box
from jaxrl.vector import VectorEnv

__all__ = [
    "Agent",
    "Networks",
    "act",
    "act_alone",
    "behaviour_policy",
    "counted",
    "draw_action",
    "init_normaliser",
    "make_collector",
    "next_rollout",
    "own_networks",
    "own_numbers",
    "own_value",
    "rollout_policy",
]


class Networks(NamedTuple):
    """The policy and the critic as pure functions."""

    init: Callable[[jax.Array], Any]
    """`init(key) -> params`. Consumes `key`."""
    apply: Callable[[Any, Any, Observation, jax.Array], tuple[Any, Any, Any]]
    """`apply(params, carry, observation, reset) -> (carry, distribution, prediction)`, with observations `[T, B, ...]`,
    `reset[T, B]` and predictions of the value `[T, B, N, ...]`, or None where critics take actions."""
    new_carry: Callable[[int], Any]
    """`new_carry(B)`: the memory at the beginning of B episodes."""
    evaluate: Callable[[Any, Observation, jax.Array], jax.Array] | None = None
    """`evaluate(params, observation, action[T, B, N, ...]) -> prediction[T, B, N, K, ...]`: of actions' values by K
    critics, where critics take actions."""
    by_set: Any = True
    """Whether each parameter set has its own parameters: one answer for all, or one for each part of their tree."""


def own_networks(
    network: nn.Module, new_carry: Callable[..., Any], env: MultiAgentEnvironment, param_sets: tuple[int, ...]
) -> Networks:
    """Networks in which everything about an agent follows from its own observation.

    Args:
        network: `(carry, obs, reset, mask) -> (carry, distribution, prediction)`.
        new_carry: `new_carry(*batch_shape)`: its memory at the beginning of an episode.
        env: The environment.
        param_sets: The number of each agent's parameter set.
    """

    def init(key: jax.Array) -> Any:
        obs = jnp.zeros((1, 1, *env.observation_space().shape), env.observation_space().dtype)
        return network.init(key, new_carry(1), obs, jnp.ones((1, 1), bool), None)

    mapped = per_agent(network.apply, param_sets, agent_axes=(1, 2, 2, 2), out_axes=(1, 2, 2))

    @jax.jit  # a rollout calls it twice per step, and this way it is traced once
    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        reset = jnp.broadcast_to(reset[..., None], observation.agent_mask.shape)
        return mapped(params, carry, observation.obs, reset, observation.action_mask)

    return Networks(lambda key: init_param_sets(init, key, param_sets), apply, lambda n: new_carry(n, env.num_agents))


def counted(policy: Any, env: MultiAgentEnvironment) -> Any:
    """The policy `[..., N]` without what pads the actions of some agents to the size of the others'.

    Padding has a density and an entropy, but neither is the agent's: it is never executed.
    """
    space = env.action_space()
    if not isinstance(space, Box) or own_numbers(env).all():
        return policy
    return Counted(policy, own_numbers(env), len(space.shape))


def own_numbers(env: MultiAgentEnvironment) -> np.ndarray:
    """Which numbers of an action in a box are an agent's own and not padding: bool `[N, *space.shape]`."""
    own = np.zeros((env.num_agents, *env.action_space().shape), bool)
    for i, agent in enumerate(env.agents):
        own[i, *map(slice, env.agent_action_spaces[agent].shape)] = True
    return own


def _as_it_is(state: Any, policy: Any) -> Any:
    del state
    return policy


def own_rollout(agent: Agent, state: Any, num_streams: int) -> tuple[Any, Transition, dict[str, Any], jax.Array]:
    """The default `Agent.rollout`: the agent acts by its own policy."""
    return next_rollout(agent, state, rollout_policy(agent, state), num_streams)


def scheduled(agent: Agent, state: Any) -> Any:
    """The default `Agent.schedule`: the same hyperparameters for all agents."""
    return agent.config.annealed(state.hyperparams, state.update)


def loss_gradient(agent: Agent, h: Any, params: Any, minibatch: Any) -> tuple[Any, dict[str, jax.Array]]:
    """The default `Agent.grad`: the gradient of the loss of the whole minibatch."""
    return gradient(partial(agent.loss, agent, h), params, minibatch)


def own_value(value: jax.Array, agent_mask: jax.Array, teams: tuple[int, ...]) -> jax.Array:
    """The `Agent.team_value` of agents without mates: their own, `[..., N]`."""
    del agent_mask, teams
    return value


def no_batch(agent: Agent, experience: Any, advantage: jax.Array) -> Any:
    """The default `Agent.batch`, for algorithms without advantages, whose update makes the batch itself."""
    raise NotImplementedError("This agent has no batch of advantages; give one, such as jaxrl.algos.ppo.batch_of.")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Agent:
    """Everything that is built once from a configuration. `make` composes the functions; an update calls them."""

    config: Any
    env: MultiAgentEnvironment
    param_sets: tuple[int, ...]
    """The number of the parameter set that each of the N agents uses, see `jaxrl.nn.sharing`."""
    networks: Networks
    loss: Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
    """`loss(agent, h, params, batch) -> (scalar, {name: scalar})`."""
    grad: Callable[..., tuple[Any, dict[str, jax.Array]]] = loss_gradient
    """`grad(agent, h, params, minibatch) -> (gradient, {name: scalar})`: at once, or in parts."""
    batch: Callable[..., Any] = no_batch
    """`batch(agent, experience, advantage[T, B, N]) -> batch`, leaves `[L, R, ...]`: of all or of drawn agents."""
    batch_keys: int = 0
    """How many random keys each shard needs for `batch` in an update."""
    schedule: Callable[[Agent, Any], Any] = scheduled
    """`schedule(agent, state) -> h`, the hyperparameters of the state's next update."""
    rollout: Callable[[Agent, Any, int], tuple[Any, Transition, dict[str, Any], jax.Array]] = own_rollout
    """`rollout(agent, state, num_streams)`, see `next_rollout`: by its own policy, or against opponents."""
    central: bool = False
    """Whether the critic sees the global state."""
    behaviour: Callable[[Any, Any], Any] = _as_it_is
    """`behaviour(state, policy) -> distribution` that actions are drawn from, given a train state and its policy."""
    team_value: Callable[[jax.Array, jax.Array, tuple[int, ...]], jax.Array] = team_value
    """`team_value(value[..., N], agent_mask[..., N], teams)`: the value of each agent, given those of its team."""
    curriculum: Any = dataclasses.field(init=False)
    """What chooses levels, see `jaxrl.levels.curriculum`; None for random ones."""
    collector: Collector = dataclasses.field(init=False)
    """The environments, all of them."""

    def __post_init__(self) -> None:
        config, pooled = self.config, self.config.reset == "pool"
        venv = VectorEnv(self.env, config.num_envs, config.reset, config.starts if pooled else None)
        if curriculum := config.curriculum(self.env):
            venv = curriculum.vector_env(self.env, config.num_envs)
        object.__setattr__(self, "curriculum", curriculum)
        collector = Collector(
            venv,
            self.central,
            num_shards=config.shards,
            floats=config.normalise_obs,
            log_info=config.log_info,
            kinds=self.env.kinds,
        )
        object.__setattr__(self, "collector", collector)

    def evaluate(
        self,
        state: Any,
        obs: jax.Array,
        carry: Any = None,
        *,
        action_mask: jax.Array | None = None,
        reset: jax.Array | None = None,
        global_state: jax.Array | None = None,
    ) -> tuple[Any, jax.Array | None, Any]:
        """A trained state's judgement of observations `[B, N, D]`.

        Args:
            state: A train state with `params` and `normaliser`.
            obs: The observations.
            carry: The memory returned by the last call; None starts afresh.
            action_mask: bool `[B, N, A]`, which discrete actions can be chosen.
            reset: bool `[B]`, True where an episode begins.
            global_state: `[B, G]`, what a central critic sees where the environment has a global state.

        Returns:
            The distribution `[1, B, N, ...]` that actions are drawn from, the value `[B, N]` or None, and the memory.
            Where critics take actions, the value is that of the greedy one. It is None without the global state that
            its critic sees, and where agents have values only together, by a mixer.
        """
        carry, seen, begins = _inputs(self, state, obs, carry, action_mask, reset, self.central, global_state)
        carry, policy, prediction = self.networks.apply(state.params, carry, seen, begins)
        value_of, value = self.config.value, None
        mixed = self.central and isinstance(value_of, GreedyValue)
        if not mixed and (not self.central or seen.global_state is not None):
            if self.networks.evaluate is not None:
                each = value_of.decode(self.networks.evaluate(state.params, seen, policy.mode()))
                value = self.config.joint(each)[0]
            else:  # of Q-learning, the best of the actions that can be chosen
                value = policy.values.max(-1) if isinstance(value_of, GreedyValue) else value_of.decode(prediction)
                value = self.team_value(value[0], seen.agent_mask[0], self.env.teams)
        behaviour = self.behaviour(state, policy)
        # SAC's uniform actions before it learns, and TD3's noise, have no density.
        return behaviour if hasattr(behaviour, "log_prob") else policy, value, carry


def init_normaliser(agent: Agent) -> Normaliser:
    """A normaliser that has seen nothing yet, of what the configuration normalises."""
    return new_normaliser(
        agent.env,
        agent.param_sets,
        obs=agent.config.normalise_obs,
        reward=agent.config.normalise_reward,
        global_state_size=global_state_size(agent.env) if agent.central else 0,
    )


def make_collector(agent: Agent, update: jax.Array | int) -> Collector:
    """The collector of this device's environments, with the parameters that they have after `update` updates."""
    params = agent.env.params_at(jnp.float32(update) / agent.config.num_updates)
    return agent.collector._replace(venv=agent.collector.venv.part(num_devices()), params=params)


def next_rollout(
    agent: Agent, state: Any, policy: Policy, num_streams: int
) -> tuple[Any, Transition, dict[str, Any], jax.Array]:
    """Act for T steps, after renewing some of the starts if they come from a pool.

    Args:
        agent: The agent.
        state: A train state with `runner`, `key` and `update`.
        policy: How to act.
        num_streams: How many random keys `[num_streams, S / devices]` each shard needs for learning.

    Returns:
        The train state to continue from, transitions `[T, B, ...]`, sums over the episodes that ended, and the keys.
    """
    config, collector = agent.config, make_collector(agent, state.update)
    for_rollout, pooled = (config.num_steps, collector.keys_per_step), config.reset == "pool"
    acting, others = math.prod(for_rollout), agent.curriculum.keys if agent.curriculum else int(pooled)
    key, keys = shard_keys(state.key, config.shards, acting + num_streams + others)
    for_acting = keys[:acting].reshape(*for_rollout, -1)
    if agent.curriculum:
        for_levels = keys[acting + num_streams :]
        runner, traj, sums = agent.curriculum.rollout(agent, state, collector, policy, for_acting, for_levels)
    else:
        runner = refresh_pool(collector, state.runner, keys[-1], config.pool_refresh) if pooled else state.runner
        act_for = rollout_from_pool if pooled else rollout
        runner, traj, sums = act_for(collector, policy, runner, for_acting, config.train_length)
    return dataclasses.replace(state, runner=runner, key=key), traj, sums, keys[acting : acting + num_streams]


def rollout_policy(agent: Agent, state: Any) -> Policy:
    """A policy that draws actions as the agent behaves.

    It stores `log_prob` and `value` `[B, N]`, and the value after a step.

    Args:
        agent: The actor-critic.
        state: A train state with `params` and `normaliser`.
    """

    def evaluate(carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        carry, distribution, prediction = _apply(agent, state, carry, observation, reset)
        value = agent.config.value.decode(prediction)[0]
        return carry, distribution, agent.team_value(value, observation.agent_mask, agent.env.teams)

    def act(carry: Any, observation: Observation, reset: jax.Array, keys: jax.Array) -> tuple[Any, jax.Array, Any]:
        carry, distribution, value = evaluate(carry, observation, reset)
        behaviour = agent.behaviour(state, distribution)
        action = draw_by_shard(draw_action, behaviour, keys)
        return carry, action[0], {"log_prob": behaviour.log_prob(action)[0], "value": value}

    def bootstrap(carry: Any, observation: Observation) -> jax.Array:
        return evaluate(carry, observation, jnp.zeros(observation.agent_mask.shape[0], bool))[2]

    return Policy(act, bootstrap)


def behaviour_policy(agent: Agent, state: Any) -> Policy:
    """A policy that draws actions as the agent behaves, and stores nothing; see `rollout_policy`."""

    def act(carry: Any, observation: Observation, reset: jax.Array, keys: jax.Array) -> tuple[Any, jax.Array, Any]:
        carry, distribution, _ = _apply(agent, state, carry, observation, reset)
        return carry, draw_by_shard(draw_action, agent.behaviour(state, distribution), keys)[0], {}

    return Policy(act, lambda carry, observation: ())


def draw_action(distribution: Any, key: jax.Array) -> jax.Array:
    """Actions drawn from a distribution. Consumes `key`."""
    return distribution.sample(seed=key)


def _apply(
    agent: Agent, state: Any, carry: Any, observation: Observation, reset: jax.Array
) -> tuple[Any, Any, jax.Array]:
    """The networks' outputs `[1, B, ...]` for observations `[B, ...]` of one moment."""
    seen = normalised(state.normaliser, _one_moment(observation), agent.param_sets)
    return agent.networks.apply(state.params, carry, seen, reset[None])


def act(
    agent: Agent,
    state: Any,
    obs: jax.Array,
    carry: Any = None,
    key: jax.Array | None = None,
    *,
    action_mask: jax.Array | None = None,
    reset: jax.Array | None = None,
) -> tuple[jax.Array, Any]:
    """Actions `[B, N]` for observations `[B, N, D]`; see `Algorithm.act`."""
    if key is not None:
        check_key(key, "act")
    _check_state(state)
    _check_observations(obs, (agent.env.num_agents, *agent.env.observation_space().shape))
    carry, seen, begins = _inputs(agent, state, obs, carry, action_mask, reset)
    carry, policy, _ = agent.networks.apply(state.params, carry, seen, begins)
    action = policy.mode() if key is None else agent.behaviour(state, policy).sample(seed=key)
    return action[0], carry


def _inputs(
    agent: Agent,
    state: Any,
    obs: jax.Array,
    carry: Any,
    action_mask: jax.Array | None,
    reset: jax.Array | None,
    central: bool = False,
    global_state: jax.Array | None = None,
) -> tuple[Any, Observation, jax.Array]:
    """The networks' inputs `[1, B, ...]` for observations `[B, N, D]` from outside of a rollout, where all agents live.

    With `central`, they have what a central critic sees: the global state that is given, or the observations of all.
    """
    env, num_envs = agent.env, obs.shape[0]
    obs = as_floats(env.observation_space(), obs) if agent.config.normalise_obs else obs
    if central and not env.has_global_state:
        global_state = jax.vmap(partial(central_state, env, env_state=None))(obs)
    alive = jnp.ones(obs.shape[:2], bool)
    seen = _one_moment(Observation(obs, global_state if central else None, action_mask, alive))
    carry = agent.networks.new_carry(num_envs) if carry is None else carry
    reset = jnp.zeros(num_envs, bool) if reset is None else reset
    return carry, normalised(state.normaliser, seen, agent.param_sets), reset[None]


def act_alone(
    agent: Agent,
    state: Any,
    obs: jax.Array,
    carry: Any = None,
    key: jax.Array | None = None,
    *,
    action_mask: jax.Array | None = None,
    reset: jax.Array | None = None,
) -> tuple[jax.Array, Any]:
    """`act` for a single agent: actions `[B]` for observations `[B, D]`."""
    _check_observations(obs, agent.env.observation_space().shape)
    mask = None if action_mask is None else action_mask[:, None]
    action, carry = act(agent, state, obs[:, None], carry, key, action_mask=mask, reset=reset)
    return action[:, 0], carry


def _check_state(state: Any) -> None:
    """Raise TypeError unless it is a train state."""
    if not hasattr(state, "params") or not hasattr(state, "normaliser"):
        hint = "give its .state" if hasattr(state, "state") else "such as what init and update return"
        raise TypeError(f"act takes a train state, not a {type(state).__name__}; {hint}.")


def _check_observations(obs: Any, shape: tuple[int, ...]) -> None:
    """Raise unless `obs` is a batch of observations of this shape.

    Raises:
        TypeError: It is not an array.
        ValueError: It has another shape; the message says what to give.
    """
    if not hasattr(obs, "shape"):
        raise TypeError(f"act takes an array of observations, not a {type(obs).__name__}; give jnp.asarray(obs).")
    if obs.shape[1:] != shape:
        hint = "; for a single one give obs[None]" if obs.shape == shape else ""
        wanted = ", ".join(map(str, ("B", *shape)))
        raise ValueError(f"act takes a batch of observations [{wanted}], not {list(obs.shape)}{hint}.")


def _one_moment(observation: Observation) -> Observation:
    """The observation with a time axis, T = 1."""
    return jax.tree.map(lambda leaf: leaf[None], observation)
