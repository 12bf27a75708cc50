"""QMIX: a team learns one value, mixed from its members' by a network that sees the global state (Rashid et al. 2018,
https://arxiv.org/abs/1803.11485). Run it: `python algos/qmix.py --env smax/3m`, or `jaxrl train qmix --env smax/3m`.

It is DQN (`jaxrl/algos/dqn.py` holds update and loss) with one error for each team. The mixer never lets the team's
value fall when a member's rises, so each member acts greedily by its own value, without the mixer. Without a global
state, the mixer sees the agents' observations side by side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, Networks, act
from jaxrl.acting.rollout import Observation, joint_space, state_shape
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import dqn, off_policy, pqn
from jaxrl.algos.config.rules import NUMBERS
from jaxrl.algos.config.values import ReplayHyperparams
from jaxrl.algos.iql import SPREAD, TeamQConfig
from jaxrl.algos.off_policy import Batch
from jaxrl.config import COUNT, LAYERS, Allowed, check_config, check_loss
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.mixing import MonotonicMixer

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamQConfig):
    """QMIX's configuration. The defaults suit SMAX."""

    mixer_size: int = 32
    """Features of the mixer's hidden layer."""
    mixer_hidden: tuple[int, ...] = (64,)
    """Layers between the global state and the mixer's weights."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "mixer_size": COUNT,
        "mixer_hidden": LAYERS,
        "value_loss": NUMBERS,
    }

    @property
    def beside_network(self) -> tuple[str, ...]:
        """See `NetworkLayer.beside_network`; the mixer has a torso of its own."""
        return ("activation", "layer_norm")


PRESETS: dict[str, Config] = {
    "default": Config(),
    "mpe": Config(**SPREAD),
    "spread": Config(**SPREAD, shared_reward=True),  # part of each agent's reward is its own: this makes them a team
}


def mixer_of(config: Config, env: MultiAgentEnvironment) -> MonotonicMixer:
    """The mixer of the environment's teams."""
    c = config
    return MonotonicMixer(env.teams, c.mixer_size, c.mixer_hidden, c.activation, c.layer_norm, joint_space(env))


def networks(config: Config, env: MultiAgentEnvironment, param_sets: tuple[int, ...]) -> Networks:
    """The agents' Q networks, with the parameters of the mixer beside theirs."""
    agents, mixer = pqn.q_networks(config, env, param_sets), mixer_of(config, env)

    def init(key: jax.Array) -> Any:
        key_agents, key_mixer = jax.random.split(key)
        state, value = state_shape(env), jnp.zeros(env.num_agents)
        mixing = mixer.init(key_mixer, value, jnp.ones(value.shape, bool), jnp.zeros(state.shape, state.dtype))
        return {"agents": agents.init(key_agents), "mixer": mixing}

    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        return agents.apply(params["agents"], carry, observation, reset)

    return Networks(init, apply, agents.new_carry)


def mix(agent: Agent, params: Any, value: jax.Array, observation: Observation) -> jax.Array:
    """A `Mix` that gives each agent the value of its team."""
    mixer: Callable[..., Any] = mixer_of(agent.config, agent.env).apply
    mixed = mixer(params["mixer"], value, observation.agent_mask, observation.global_state)
    return mixed[..., np.asarray(agent.env.teams)]


def mixed_loss(
    agent: Agent, h: ReplayHyperparams, params: Any, target: Any, batch: Batch
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """DQN's loss of the teams' mixed values."""
    return dqn.loss(agent, h, params, target, batch, mix=mix, per_team=True)


def make(config: Config, loss: Any = mixed_loss) -> Algorithm:
    """QMIX as three pure functions of the train state.

    Args:
        config: What to train, and how.
        loss: Another loss, with the signature of `mixed_loss` above.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    param_sets = config.param_sets(env)
    nets, behaviour = networks(config, env, param_sets), partial(pqn.explore, config)
    agent = Agent(config, env, param_sets, nets, loss, central=True, behaviour=behaviour)
    return Algorithm(partial(off_policy.init, agent), partial(dqn.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[off_policy.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
