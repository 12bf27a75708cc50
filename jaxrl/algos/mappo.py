"""MAPPO: IPPO with a central critic, which sees the global state while training (Yu et al. 2022,
https://arxiv.org/abs/2103.01955). Run it: `python algos/mappo.py --env smax/3m`, or `jaxrl train mappo --env smax/3m`.

Policies are as in IPPO. The critic has one value for each team, since the members of a team share their reward; it
sees `env.global_state` (or, where there is none, the agents' observations side by side) and, of several teams, which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics, whole_run
from jaxrl.algos import ppo
from jaxrl.algos.agent import Networks, Parts, TrainState, act
from jaxrl.algos.ippo import TeamConfig
from jaxrl.algos.rollout import View, state_size
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.heads import ValueHead, policy_head
from jaxrl.nn.memory import initial_carry
from jaxrl.nn.sharing import agent_groups, init_groups, per_agent
from jaxrl.nn.torso import Encoder
from jaxrl.spaces import Space

__all__ = ["PRESETS", "Config", "TrainState", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamConfig):
    """MAPPO's configuration. Policy and critic are networks of their own, so `share_torso` has no meaning here."""

    share_torso: bool = False
    critic_hidden: tuple[int, ...] = (64, 64)
    """Layers of the critic's torso."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share_torso:
            raise ValueError("mappo's critic does not see what its policy sees; leave share_torso False, or use ippo.")
        if not self.critic_hidden or min(self.critic_hidden) < 1:
            raise ValueError(f"critic_hidden needs at least one layer and positive sizes, got {self.critic_hidden}.")


PRESETS: dict[str, Config] = {
    "default": Config(),
    "mpe": Config(env="mpe/simple_spread", total_timesteps=1_000_000, lr=1e-3, gamma=0.95, clip_value=False),
    # Whole episodes a sequence, quick steps and chance enough to agree on a language, rewards soon after their cause.
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
    """Observations `[T, B, ...]` to a policy."""

    config: Config
    observation_space: Space
    action_space: Space

    @nn.compact
    def __call__(self, carry: Any, obs: jax.Array, reset: jax.Array, mask: jax.Array | None) -> tuple[Any, Any]:
        c = self.config
        encoder = Encoder(c.hidden, c.activation, c.memory, c.memory_size, self.observation_space, name="torso")
        carry, features = encoder(carry, obs, reset)
        policy = policy_head(self.action_space, c.head_hidden, c.activation, squash=c.squash, name="policy")
        return carry, policy(features, mask)


class Critic(nn.Module):
    """Global states `[T, B, G]` to a prediction for each of N agents, `[T, B, N, ...]`: that of its team.

    Of several teams, a one-hot vector says which one is meant; their axis is then the one behind B, in memory as well.
    """

    config: Config
    teams: tuple[int, ...]

    @nn.compact
    def __call__(self, carry: Any, state: jax.Array, reset: jax.Array) -> tuple[Any, jax.Array]:
        c, num_teams = self.config, max(self.teams) + 1
        if num_teams > 1:
            lead = (*state.shape[:2], num_teams)
            team = jnp.broadcast_to(np.eye(num_teams, dtype=np.float32), (*lead, num_teams))
            seen = jnp.broadcast_to(state[:, :, None], (*lead, state.shape[-1]))
            state, reset = jnp.concatenate([seen, team], axis=-1), jnp.broadcast_to(reset[..., None], lead)
        encoder = Encoder(c.critic_hidden, c.activation, c.memory, c.memory_size, name="torso")
        carry, features = encoder(carry, state, reset)
        value = ValueHead(c.head_hidden, c.activation, c.value.num_bins, name="value")(features)
        value = value if num_teams > 1 else value[:, :, None]
        members = np.equal.outer(self.teams, range(num_teams)).astype(np.float32)
        return carry, jnp.einsum("tbk...,nk->tbn...", value, members)


def networks(config: Config, env: MultiAgentEnvironment, groups: tuple[int, ...]) -> Networks:
    """An actor for each group of agents, and one critic."""
    num_teams = max(env.teams) + 1
    team_axis = (num_teams,) if num_teams > 1 else ()
    actor = Actor(config, env.observation_space(), env.action_space())
    critic = Critic(config, env.teams)
    criticise: Callable[..., tuple[Any, jax.Array]] = critic.apply  # pyright: ignore[reportAssignmentType]
    act = per_agent(actor.apply, groups, agent_axes=(1, 2, 2, 2), out_axes=(1, 2))

    def carry_of(*batch_shape: int) -> Any:
        return initial_carry(config.memory, config.memory_size, batch_shape)

    def init(key: jax.Array) -> Any:
        key_actor, key_critic = jax.random.split(key)
        space, one = env.observation_space(), (1, 1)
        obs, reset = jnp.zeros((*one, *space.shape), space.dtype), jnp.ones(one, bool)
        state = jnp.zeros((*one, state_size(env)), jnp.float32)
        return {
            "actor": init_groups(lambda k: actor.init(k, carry_of(1), obs, reset, None), key_actor, groups),
            "critic": critic.init(key_critic, carry_of(1, *team_axis), state, reset),
        }

    @jax.jit  # a rollout asks twice a step, and this is traced once
    def apply(params: Any, carry: Any, view: View, reset: jax.Array) -> tuple[Any, Any, jax.Array]:
        own_reset = jnp.broadcast_to(reset[..., None], view.alive.shape)
        actor_carry, policy = act(params["actor"], carry[0], view.obs, own_reset, view.mask)
        critic_carry, prediction = carry[1], jnp.zeros(())
        if view.state is not None:  # someone who only acts has no use for the critic
            critic_carry, prediction = criticise(params["critic"], carry[1], view.state, reset)
        return (actor_carry, critic_carry), policy, prediction

    return Networks(init, apply, lambda n: (carry_of(n, env.num_agents), carry_of(n, *team_axis)))


def make(config: Config) -> Algorithm:
    """MAPPO as three pure functions of the train state."""
    env = config.make_env()
    groups = agent_groups(config.sharing, env.roles)
    parts = Parts(config, env, groups, networks(config, env, groups), central=True)
    return Algorithm(partial(ppo.init, parts), partial(ppo.update, parts), partial(act, parts))


def make_train(config: Config) -> Callable[..., tuple[TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return whole_run(make(config), config.num_updates)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: `jaxrl train mappo …`."""
    from jaxrl.cli import run_algorithm

    run_algorithm("mappo", argv)


if __name__ == "__main__":
    main()
