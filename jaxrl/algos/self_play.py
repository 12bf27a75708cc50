"""Self-play against a pool of past selves: IPPO for both sides of a game between two teams.

An agent that only plays against itself may forget how to beat its past selves: with a cycle among strategies, such as
rock, paper and scissors, it goes round and round. Best responses to a mixture of past selves approach a mixture that
nobody beats (fictitious play, Brown 1951; with networks, Heinrich and Silver 2016, https://arxiv.org/abs/1603.01121).

`update` is IPPO's, with two more steps: some episodes are played against a past self, whose steps are left out of
learning, and from time to time the learner joins the pool. Everything stays on the device.

In a league (Vinyals et al. 2019, https://doi.org/10.1038/s41586-019-1724-z) the members of a run meet: each joins the
pools of all, and exploiters only look for what beats the main ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.acting.agent import Agent, act
from jaxrl.acting.opponents import (
    Opponents,
    Preference,
    Role,
    add_snapshot,
    against_opponents,
    chances,
    count_results,
    is_main,
    meets,
    new_opponents,
    new_seats,
    rollout_of_learners,
    seats_after,
)
from jaxrl.acting.rollout import Transition
from jaxrl.algorithm import Algorithm, Learned, Metrics, PerEnvironment, Replicated, scan_updates
from jaxrl.algos import ippo, ppo
from jaxrl.algos.config.rules import only_random
from jaxrl.algos.on_policy import collect, learn
from jaxrl.algos.team import team_agent
from jaxrl.config import COUNT, SHARE, Allowed, Effect, Name, check_config, check_loss
from jaxrl.rl.advantage import gae
from jaxrl.rl.devices import member_index, of_all_members

__all__ = ["PRESETS", "Config", "make", "make_train"]


def _meets_the_past(config: Any, env: Any) -> bool:
    del env
    return config.past_share > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(ippo.TeamConfig):
    """The configuration of self-play."""

    env: Name = "smax/3m?mode=selfplay&own_losses=0"
    num_opponents: int = 8
    """Past selves in the pool (in a league, of each member); a new one takes the place of the oldest."""
    snapshot_every: int = 20
    """Updates after which the learner joins the pool."""
    past_share: float = 0.5
    """The share of episodes against a past self; in the others, the learner plays both sides and learns from both."""
    opponents: Preference = "hard"
    """Which past selves are drawn more often: all alike, the newest, or those that the learner loses to."""
    script_share: float = 0.0
    """The share of episodes in which the environment's own script plays the second team, for every member of a league;
    the others are as above."""
    league: tuple[Role, ...] = ()
    """The roles of the seeds of a run, which form a league: a main one plays itself and everybody's past, an exploiter
    only the newest main ones. Empty: each seed is alone."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "levels": only_random("be dr, because how hard a level is depends on the opponent"),
        "num_opponents": COUNT,
        "snapshot_every": COUNT,
        "past_share": SHARE,
        "script_share": SHARE,
        "league": Allowed(lambda roles: not roles or "main" in roles, "have a main member, or be empty"),
    }
    effects: ClassVar[tuple[Effect, ...]] = tuple(
        Effect(name, ("past_share",), _meets_the_past, "raise it")
        for name in ("num_opponents", "snapshot_every", "opponents", "league")
    )

    @property
    def roles(self) -> tuple[Role, ...]:
        """The role of each of M members."""
        return self.league or ("main",)

    def check_sweepable(self) -> None:
        if self.league:
            raise ValueError(
                f"The members of a league learn from each other, so they cannot be points of a sweep or a search; "
                f"train one league with --num-seeds {len(self.league)}, or leave out league."
            )


PRESETS: dict[str, Config] = {
    "default": Config(),
    # With own_losses=0 in the environment's name as well, nobody learns to stay away: see docs/self_play.md.
    "smax": Config(total_timesteps=2_200_000, torso="entities", script_share=0.3),
    # Averaging over the whole past, some of the present, and much entropy make the last policy itself converge.
    "matrix": Config(
        env="matrix/rock_paper_scissors",
        total_timesteps=500_000,
        num_steps=8,
        num_opponents=128,
        snapshot_every=4,
        past_share=0.7,
        opponents="uniform",
        optimizer="adam",
        ent_coef=0.1,
        hidden=(8,),
    ),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SelfPlayState(ppo.TrainState):
    """PPO's train state, the pool, and how far the learner is ahead in each environment's game."""

    pool: Learned[Opponents]
    score: PerEnvironment[jax.Array]  # float32 [B]
    number: Replicated[jax.Array]  # int32, the place in the league


def init_with_pool(agent: Agent, key: jax.Array, hyperparams: Any = None) -> SelfPlayState:
    """A fresh train state, whose pool holds the untrained learner. Consumes `key`."""
    config, state = agent.config, ppo.init(agent, key, hyperparams)
    count = config.num_opponents * len(config.roles)
    pool = new_opponents(state.params, state.normaliser, count)
    runner = state.runner._replace(carry=new_seats(agent, config.num_envs, count))
    own = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    score, number = jnp.zeros(config.num_envs, jnp.float32), jnp.int32(member_index())
    return SelfPlayState(**{**own, "runner": runner}, pool=pool, score=score, number=number)


def rollout_against_past(
    agent: Agent, state: SelfPlayState, num_streams: int
) -> tuple[SelfPlayState, Transition, dict[str, Any], jax.Array]:
    """The `Agent.rollout` of self-play: past selves play some seats."""
    config = agent.config
    met = meets(state.pool, config.roles, state.number)
    chance = chances(state.pool, config.opponents, len(config.roles), met)
    past_share = jnp.where(is_main(config.roles, state.number), config.past_share, 1.0)
    policy = against_opponents(agent, state, chance, past_share, scripted=config.script_share > 0)
    return rollout_of_learners(agent, state, policy, num_streams)


def update(agent: Agent, state: SelfPlayState) -> tuple[SelfPlayState, Metrics]:
    """One rollout, partly against past selves, and its optimisation."""
    config = agent.config
    h = agent.schedule(agent, state)
    state, experience = collect(agent, state, h)
    traj, reward, discount, cut, next_value, *_ = experience
    pool, score = count_results(state.pool, traj, state.score, agent.env.teams)
    experience = experience._replace(traj=traj._replace(carry=traj.carry.carry))
    advantage = gae(reward, discount, cut, traj.extras["value"], next_value, h.gae_lambda)
    batch = agent.batch(agent, experience, advantage)
    state, metrics = learn(agent, state, h, batch, experience, config.target_kl)

    # The learner joins the pool from time to time, and episodes that begin draw from the new pool.
    now = state.update % config.snapshot_every == 0
    pool = add_snapshot(pool, *newest(config, state), now)
    seats = seats_after(state.runner.carry, pool, now, len(config.roles))
    against_past = pool.wins.sum() / jnp.maximum(pool.games.sum(), 1.0)
    metrics = {**metrics, "losses": {**metrics["losses"], "score_against_past": against_past}}
    state = dataclasses.replace(state, runner=state.runner._replace(carry=seats), pool=pool, score=score)
    return state, metrics


def newest(config: Config, state: SelfPlayState) -> tuple[Any, Any]:
    """The parameters and normalisers `[M, …]` of all members of the league.

    Raises:
        ValueError: The run does not have as many members as the league.
    """
    selves = (state.params, state.normaliser)
    if not config.league:
        return jax.tree.map(lambda leaf: leaf[None], selves)
    selves = of_all_members(selves)
    members = jax.tree.leaves(selves)[0].shape[0]
    if members != len(config.league):
        raise ValueError(
            f"The league {' '.join(config.league)} has {len(config.league)} members, and this run has {members}: train "
            f"with --num-seeds {len(config.league)}, in Python jaxrl.fit(…, num_seeds={len(config.league)})."
        )
    return selves


def make(config: Config, loss: Any = ppo.loss) -> Algorithm:
    """Self-play as three pure functions of the train state.

    Raises:
        ValueError: The environment does not have two teams, or has no script for `script_share`.
    """
    check_config(config, Config)
    loss = check_loss(loss, make)
    env = config.make_env()
    count = len(np.unique(env.teams))
    if count != 2:
        raise ValueError(
            f"{config.env} has {count} team{'s' if count > 1 else ''}, and self_play needs two; use ippo, or an "
            f"environment such as smax/3m?mode=selfplay."
        )
    if config.script_share:
        try:
            env = env.against_script(config.script_share)
        except NotImplementedError as error:
            raise ValueError(f"{error} Use --script-share 0.") from None
    agent = team_agent(config, env, ppo.actor_critic, loss)
    agent = dataclasses.replace(agent, rollout=rollout_against_past)
    return Algorithm(partial(init_with_pool, agent), partial(update, agent), partial(act, agent))


def make_train(config: Config) -> Callable[..., tuple[SelfPlayState, Metrics]]:
    """The whole run as one function, see `jaxrl.algos.ppo.make_train`."""
    return scan_updates(make(config), config.num_updates)


if __name__ == "__main__":
    from jaxrl.cli import run_algorithm

    run_algorithm(__file__)
