"""MAPPO: IPPO with a central critic, which sees the global state while training (Yu et al. 2022,
https://arxiv.org/abs/2103.01955). Run it: `python algos/mappo.py --env smax/3m`, or `jaxrl train mappo --env smax/3m`.

Policies are as in IPPO. The critic has one value for each team, since the members of a team share their reward; it
sees `env.global_state` and, with several teams, which team to judge. Without a global state, it sees the agents'
observations side by side, encoded like the policies' inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Networks, act, counted
from jaxrl.acting.rollout import Observation, joint_space, state_shape
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import ppo
from jaxrl.algos.config.network import beside_own_critics
from jaxrl.algos.ippo import HANABI, KITCHENS, TeamConfig
from jaxrl.algos.team import team_agent
from jaxrl.config import Allowed, check_config, check_loss
from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.heads import ValueHead, policy_head
from jaxrl.nn.sharing import init_param_sets, per_agent
from jaxrl.spaces import Space

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamConfig):
    """MAPPO's configuration. Policy and critic are separate networks, so `share_torso` has no meaning here."""

    share_torso: bool = False
    critic_hidden: tuple[int, ...] = (64, 64)

    allowed: ClassVar[dict[str, Allowed]] = {
        "share_torso": Allowed(
            lambda shared: not shared, "be False: mappo's critic does not see what its policy sees (ippo's does)"
        ),
    }

    @property
    def beside_network(self) -> tuple[str, ...]:
        """See `NetworkLayer.beside_network`; the critic keeps its own torso."""
        return beside_own_critics(self.critic_hidden)

    def overridden(self) -> tuple[str, ...]:
        """See `PolicyLayer.overridden`; the central critic always learns at the shared rate."""
        return tuple(name for name in super().overridden() if name != "lr")


PRESETS: dict[str, Config] = {
    "default": Config(),
    # Networks that know units, see ippo's.
    "smax": Config(total_timesteps=4_000_000, torso="entities"),
    "smacv2_5_units": Config(env="smax/smacv2_5_units", total_timesteps=10_000_000, torso="entities"),
    "smacv2_10_units": Config(env="smax/smacv2_10_units", total_timesteps=10_000_000, torso="entities"),
    "gpu": Config(total_timesteps=20_000_000, num_envs=2048, num_minibatches=8),  # see ippo's
    "mpe": Config(env="mpe/simple_spread", total_timesteps=1_000_000, lr=1e-2, gamma=0.95, clip_value=False),
    # Sequences of whole episodes, large steps and enough exploration to agree on a language, rewards soon after causes.
    "speaker_listener": Config(
        env="mpe/simple_speaker_listener",
        total_timesteps=1_000_000,
        num_steps=25,
        lr=5e-3,
        optimizer="adam",
        gamma=0.85,
        gae_lambda=0.8,
        clip_eps=0.2,
        clip_value=False,
        ent_coef=0.02,
        hidden=(64,),
        memory="gru",
        memory_size=32,
    ),
    **{name: Config(**fields) for name, fields in KITCHENS.items()},
    # Only the player whose turn it is has a choice, and the critic has the same value for everybody.
    "hanabi": Config(**HANABI, critic_hidden=(128, 128), agents_per_step=1),
    # PPO's, with a critic that knows what pushes the drone.
    "quadrotor": Config(
        **ppo.QUADROTOR,
        optimizer="adam",
        gae_lambda=0.95,
        clip_eps=0.2,
        clip_value=False,
        ent_coef=0.0,
        normalise_reward=True,
    ),
    # Config of JaxMARL's mappo_rnn_smax.
    "jaxmarl": Config(
        optimizer="adam",
        num_envs=128,
        num_steps=128,
        total_timesteps=10_000_000,
        lr=2e-3,
        gae_lambda=0.95,
        clip_eps=0.2,
        ent_coef=0.0,
        max_grad_norm=0.5,
        hidden=(128,),
        critic_hidden=(128,),
        activation="relu",
        memory="gru",
        memory_size=128,
        head_hidden=(128,),
    ),
}


class Actor(nn.Module):
    """Maps observations `[T, B, ...]` to a policy."""

    config: Config
    observation_space: Space
    action_space: Space
    entities: Entities | None

    @nn.compact
    def __call__(self, carry: Any, obs: jax.Array, reset: jax.Array, mask: jax.Array | None) -> tuple[Any, Any]:
        c = self.config
        encoder = c.encoder(self.observation_space, entities=self.entities)
        carry, features, pointed = encoder(name="torso")(carry, obs, reset)
        policy = policy_head(self.action_space, c.head_hidden, c.activation, squash=c.squash, name="policy")
        return carry, policy(features, mask, pointed)


class Critic(nn.Module):
    """Maps global states `[T, B, ...]` to predictions for N agents, `[T, B, N, ...]`: each gets its team's value.

    With several teams, a one-hot vector selects the team; the team axis then follows B, in the memory as well.
    """

    config: Config
    teams: tuple[int, ...]
    space: Space | None
    """The space of the states; None for vectors `[G]`."""
    entities: Entities | None
    """What the states are made of."""

    @nn.compact
    def __call__(self, carry: Any, state: jax.Array, reset: jax.Array) -> tuple[Any, jax.Array]:
        c, num_teams, team = self.config, max(self.teams) + 1, None
        if num_teams > 1:
            lead = (*state.shape[:2], num_teams)
            team = jnp.broadcast_to(np.eye(num_teams, dtype=np.float32), (*lead, num_teams))
            state = jnp.broadcast_to(state[:, :, None], (*lead, *state.shape[2:]))
            reset = jnp.broadcast_to(reset[..., None], lead)
        encoder = c.encoder(self.space, c.critic_hidden, own=False, entities=self.entities)
        carry, features, _ = encoder(name="torso")(carry, state, reset, team)
        value = ValueHead(c.head_hidden, c.activation, c.value.num_bins, name="value")(features)
        value = value if num_teams > 1 else value[:, :, None]
        members = np.equal.outer(self.teams, range(num_teams)).astype(np.float32)
        return carry, jnp.einsum("tbk...,nk->tbn...", value, members)


def networks(config: Config, env: MultiAgentEnvironment, param_sets: tuple[int, ...]) -> Networks:
    """One actor for each group of agents, and one critic."""
    num_teams = max(env.teams) + 1
    team_axis = (num_teams,) if num_teams > 1 else ()
    actor = Actor(config, env.observation_space(), env.action_space(), env.entities)
    critic = Critic(config, env.teams, joint_space(env), env.state_entities)
    criticise: Callable[..., tuple[Any, jax.Array]] = critic.apply  # pyright: ignore[reportAssignmentType]
    carry_of = config.initial_carry
    act = per_agent(actor.apply, param_sets, agent_axes=(1, 2, 2, 2), out_axes=(1, 2))

    def init(key: jax.Array) -> Any:
        key_actor, key_critic = jax.random.split(key)
        space, whole, one = env.observation_space(), state_shape(env), (1, 1)
        obs, reset = jnp.zeros((*one, *space.shape), space.dtype), jnp.ones(one, bool)
        state = jnp.zeros((*one, *whole.shape), whole.dtype)
        return {
            "actor": init_param_sets(lambda k: actor.init(k, carry_of(1), obs, reset, None), key_actor, param_sets),
            "critic": critic.init(key_critic, carry_of(1, *team_axis), state, reset),
        }

    @jax.jit  # a rollout calls it twice per step, and this way it is traced once
    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        own_reset = jnp.broadcast_to(reset[..., None], observation.agent_mask.shape)
        actor_carry, policy = act(params["actor"], carry[0], observation.obs, own_reset, observation.action_mask)
        critic_carry, prediction = carry[1], jnp.zeros(())
        if observation.global_state is not None:  # acting alone needs no critic
            critic_carry, prediction = criticise(params["critic"], carry[1], observation.global_state, reset)
            prediction = prediction[:, :, : observation.agent_mask.shape[-1]]  # `agents_per_step` of one team
        return (actor_carry, critic_carry), counted(policy, env), prediction

    by_set = {"actor": True, "critic": False}
    return Networks(init, apply, lambda n: (carry_of(n, env.num_agents), carry_of(n, *team_axis)), by_set=by_set)


def make(config: Config, loss: Any = ppo.loss) -> Algorithm:
    """MAPPO as three pure functions of the train state.

    Raises:
        ValueError: `agents_per_step` agents cannot be drawn.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    if config.agents_per_step and max(env.teams):
        raise ValueError(
            f"agents_per_step={config.agents_per_step} draws from a single team, and {config.env} has "
            f"{max(env.teams) + 1}; use agents_per_step=0."
        )
    agent = team_agent(config, env, networks, loss, central=True)
    return Algorithm(partial(ppo.init, agent), partial(ppo.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[ppo.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
