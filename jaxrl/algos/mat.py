"""MAT, the multi-agent transformer: a team decides in turn, each member knowing what those before it do (Wen et al.
2022, https://arxiv.org/abs/2205.14953). Run it: `python algos/mat.py --env smax/2s3z`, or `jaxrl train mat`.

It is IPPO (`jaxrl/algos/ppo.py` holds rollout and update) with one network for the whole team, so it also acts with the
observations of all. The loss takes each member's probability given the actions of those before it, by teacher forcing.
With a memory, each member has one of its own in front of the encoder.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, Networks, act, counted
from jaxrl.acting.rollout import Observation
from jaxrl.algorithm import Algorithm, Metrics, scan_updates
from jaxrl.algos import ppo
from jaxrl.algos.ippo import TeamConfig
from jaxrl.algos.team import team_agent
from jaxrl.config import COUNT, NOT_NEGATIVE, Allowed, Name, check_config, check_loss
from jaxrl.entities import Entities
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.nn.heads import ValueHead
from jaxrl.nn.team import InTurn, Seen, TeamDecoder, TeamEncoder, action_size
from jaxrl.spaces import Box, Space

__all__ = ["PRESETS", "Config", "make", "make_train"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(TeamConfig):
    """MAT's configuration. All members share one network, which numbers them unless its torso takes entities."""

    env: Name = "smax/2s3z"
    num_blocks: int = 1
    """Blocks of encoder and decoder each. Without any, members see only themselves, and of what is done before them
    only how many point at each entity."""
    num_heads: int = 1
    """Heads of each attention; they divide the last layer of hidden."""
    sharing: Literal["all"] = "all"
    """Everybody shares the network of the team."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "num_blocks": NOT_NEGATIVE,
        "num_heads": COUNT,
        "agents_per_step": Allowed(lambda count: count == 0, "be 0: mat learns from whole teams"),
        "share_torso": Allowed(bool, "be True: mat has one torso, for the team"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden[-1] % self.num_heads:
            raise ValueError(
                f"num_heads={self.num_heads} does not divide the {self.hidden[-1]} features of the last layer of "
                f"hidden; use one that does, such as {math.gcd(self.num_heads, self.hidden[-1])}."
            )

    def param_sets(self, env: MultiAgentEnvironment) -> tuple[int, ...]:
        """See `SharingLayer.param_sets`.

        Raises:
            ValueError: `policies` split the team.
        """
        sets = super().param_sets(env)
        if max(sets):
            raise ValueError(f"mat has one network for all who learn, and policies names {max(sets) + 1}; use ippo.")
        return sets


PRESETS: dict[str, Config] = {
    "default": Config(),
    "smax": Config(total_timesteps=4_000_000, torso="entities"),
    "mpe": Config(env="mpe/simple_spread", total_timesteps=1_000_000, gamma=0.95, clip_value=False),
}


class TeamCritic(nn.Module):
    """Maps a team's observations `[T, B, N, ...]` to what the decoder starts from, and predictions of the value."""

    config: Config
    observation_space: Space
    entities: Entities | None
    teams: tuple[int, ...]

    @nn.compact
    def __call__(
        self, carry: Any, obs: jax.Array, reset: jax.Array, mask: jax.Array | None, alive: jax.Array
    ) -> tuple[Any, Seen, jax.Array]:
        c, lead, num_agents = self.config, alive.shape[:-1], len(self.teams)
        encoder = c.encoder(self.observation_space, entities=self.entities)
        own_reset = jnp.broadcast_to(reset[..., None], alive.shape)
        carry, features, pointed = encoder(name="torso")(carry, obs, own_reset)
        if self.entities is None and num_agents > 1:  # entities leave the size of a team open, numbers do not
            number = jnp.broadcast_to(np.eye(num_agents, dtype=np.float32), (*features.shape[:-1], num_agents))
            features = jnp.concatenate([features, number], axis=-1)

        # The dead see zeros, which is known where their deaths are not told; standardised, they would be others.
        numbers = isinstance(self.observation_space, Box) and not c.normalise_obs
        present = alive & (obs != 0).any(axis=tuple(range(alive.ndim, obs.ndim))) if numbers else alive
        mates = (present[..., None, :] | np.eye(num_agents, dtype=bool)) & np.equal.outer(self.teams, self.teams)
        rows = features.reshape(-1, *features.shape[-2:])
        team = TeamEncoder(c.hidden[-1], c.num_blocks, c.num_heads, name="team")
        encoded = team(rows, mates.reshape(-1, num_agents, num_agents)).reshape(*lead, num_agents, -1)
        value = ValueHead((c.hidden[-1], *c.head_hidden), c.activation, c.value.num_bins, name="value")
        seen = Seen(encoded, mask, None if pointed is None else pointed.embeddings, present)
        return carry, seen, value(encoded)


def networks(config: Config, env: MultiAgentEnvironment, param_sets: tuple[int, ...]) -> Networks:
    """One network for the whole team, whose policy is `InTurn`."""
    del param_sets  # all the same
    entities = None if config.torso == "flat" else env.entities
    space = env.action_space()
    actions = sum((group.actions for group in entities.groups), ()) if entities else ()
    critic = TeamCritic(config, env.observation_space(), entities, env.teams)
    judge: Callable[..., tuple[Any, Seen, jax.Array]] = critic.apply  # pyright: ignore[reportAssignmentType]
    sizes = (config.hidden[-1], config.num_blocks, config.num_heads, config.head_hidden, config.activation)
    decoder = TeamDecoder(space, *sizes, config.squash, actions)

    def init(key: jax.Array) -> Any:
        key_critic, key_decoder = jax.random.split(key)
        shape = (1, 1, env.num_agents)
        obs = jnp.zeros((*shape, *env.observation_space().shape), env.observation_space().dtype)
        given = (config.initial_carry(*shape[1:]), obs, jnp.ones((1, 1), bool), None, jnp.ones(shape, bool))
        (_, seen, _), params = critic.init_with_output(key_critic, *given)
        tokens = jnp.zeros((*shape, action_size(space, seen.pointed, actions)), jnp.float32)
        known = jnp.ones((1, env.num_agents, env.num_agents), bool)
        return {"critic": params, "decoder": decoder.init(key_decoder, seen, tokens, None, known)}

    @jax.jit  # a rollout calls it twice per step, and this way it is traced once
    def see(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, Seen, jax.Array]:
        masks = observation.action_mask, observation.agent_mask
        return judge(params["critic"], carry, observation.obs, reset, *masks)

    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> tuple[Any, InTurn, jax.Array]:
        carry, seen, prediction = see(params, carry, observation, reset)
        return carry, InTurn(seen, partial(decoder.apply, params["decoder"]), decoder, env.teams), prediction

    return Networks(init, apply, lambda n: config.initial_carry(n, env.num_agents))


def loss(agent: Agent, h: Any, params: Any, batch: ppo.Batch) -> tuple[jax.Array, dict[str, jax.Array]]:
    """PPO's loss, with each member's policy given what was done before it."""
    carry = jax.tree.map(lambda leaf: leaf[0], batch.carry)
    _, policy, prediction = agent.networks.apply(params, carry, batch.observation, batch.reset)
    return ppo.surrogate(agent, h, batch, counted(policy.given(batch.action), agent.env), prediction)


def make(config: Config, loss: Any = loss) -> Algorithm:
    """MAT as three pure functions of the train state."""
    check_config(config, Config)
    loss = check_loss(loss, make)
    agent = team_agent(config, config.make_env(), networks, loss)
    return Algorithm(partial(ppo.init, agent), partial(ppo.update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[ppo.TrainState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
