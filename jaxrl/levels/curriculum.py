"""Training on chosen levels: a level is a start, (observation, state), played again until its environment leaves it.

Each environment leaves its level at most once in a rollout, at the end of an episode, for one that is chosen before the
rollout: from the pool, edited, or new. So nothing is drawn within the rollout, `num_steps` can be any number, and
episodes and memories go on from one rollout to the next.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent, make_collector
from jaxrl.acting.normaliser import deviation_of_returns
from jaxrl.acting.rollout import Collector, Policy, RunnerState, Transition, rollout
from jaxrl.check.quick import info_shapes
from jaxrl.environment import Environment, MultiAgentEnvironment, Step, select
from jaxrl.levels.book import Book, Visits, chances, draw, fingerprints, inserted, new_book, noted
from jaxrl.levels.options import Levels
from jaxrl.levels.scores import BY_OUTCOME, Critique, Tally, add_step, criticised, new_critique, new_tally
from jaxrl.rl.advantage import bootstrap_values, gae
from jaxrl.rl.devices import in_step, joined, num_devices, own_part, shard_keys
from jaxrl.rl.episodes import new_running
from jaxrl.vector import VectorEnv

__all__ = ["Curriculum", "LevelEnv", "LevelState", "Playing"]


class LevelState(NamedTuple):
    """The state of a `LevelEnv` between rollouts."""

    env: Any  # leaves [B, …]
    slot: jax.Array  # int32 [B] where in the pool the level was that each environment plays; -1 for a new one
    start: tuple[Any, Any]  # (observation, state) of that level, leaves [B, …]
    tally: Tally  # [B]
    critique: Critique  # [B]
    pool: tuple[Any, Any]  # (observation, state), leaves [P, …]
    book: Book  # [P]


class Playing(NamedTuple):
    """The state of a `LevelEnv` within a rollout."""

    env: Any  # leaves [B, …]
    moved: jax.Array  # bool [B] whether the level was left in this rollout
    age: jax.Array  # int32 [B] steps since then
    tally: Tally  # [B] of the level that is played
    left: Tally  # [B] of the level that was left


class LevelEnv(VectorEnv):
    """A `VectorEnv` whose ended episodes begin again with their own start, or with the next one.

    Args:
        env: The environment.
        num_envs: B.
        size: P, the levels in the pool.
        episodes: The episodes after which a level can be left.
    """

    def __init__(self, env: Environment, num_envs: int, size: int, episodes: int) -> None:
        super().__init__(env, num_envs)
        self.size = size
        self.episodes = episodes
        self.start: Any = None
        self.next: Any = None

    def part(self, count: int) -> LevelEnv:
        return self if count == 1 else LevelEnv(self.env, self.num_envs // count, self.size // count, self.episodes)

    def between(self, start: Any, following: Any, episodes: int | None = None) -> LevelEnv:
        """The same environments on their way from their levels to the following ones, leaves `[B, …]`."""
        other = copy.copy(self)
        other.start, other.next, other.episodes = start, following, self.episodes if episodes is None else episodes
        return other

    def new_levels(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        """B starts as the environment makes them. Consumes `key`, one or several as in `VectorEnv.reset`."""
        return super().reset(key, params)

    def reset(self, key: Any = None, params: Any = None) -> tuple[Any, LevelState]:
        obs, env_state = start = self.new_levels(key, params)
        empty = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], (self.size, *leaf.shape[1:])), start)
        return obs, LevelState(
            env=env_state,
            slot=jnp.full(self.num_envs, -1, jnp.int32),
            start=start,
            tally=self.new_tally(),
            critique=new_critique(self.num_envs),
            pool=empty,
            book=new_book(self.size),
        )

    def playing(self, env_state: Any, tally: Tally) -> Playing:
        """The state at the beginning of a rollout."""
        nobody = jnp.zeros(self.num_envs, bool)
        return Playing(env_state, nobody, nobody.astype(jnp.int32), tally, self.new_tally())

    def advance(self, key: jax.Array, state: Playing, action: jax.Array, params: Any = None) -> Step:
        ready = (state.tally.plays + 1 >= self.episodes) & ~state.moved
        reset_to = select(state.moved | ready, self.next, self.start)
        obs, env_state, reward, terminated, truncated, info = self.env.batch_step(
            key, state.env, action, params, reset_to
        )
        done = terminated | truncated
        tally, leaves = add_step(state.tally, reward, done, self._success(info)), done & ready
        playing = Playing(
            env=env_state,
            moved=state.moved | leaves,
            age=state.age + state.moved,
            tally=select(leaves, self.new_tally(), tally),
            left=select(leaves, tally, state.left),
        )
        return obs, playing, reward, terminated, truncated, info

    def env_state(self, state: Any) -> Any:
        return state.env

    def new_tally(self) -> Tally:
        """B levels that nobody has played."""
        each = isinstance(self.env, MultiAgentEnvironment) and "arrived" in self.env.agent_info
        return new_tally(self.num_envs, len(self.teams) if each else 1)

    def _success(self, info: dict[str, Any]) -> jax.Array:
        """Who has won, bool `[B, G]`: agents that arrive by themselves, or the team; nobody if nothing says so."""
        if "arrived" in getattr(self.env, "agent_info", ()):
            return info["arrived"]
        return info["won"][:, None] if "won" in info else jnp.zeros((self.num_envs, 1), bool)


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """A method that chooses levels for an environment."""

    options: Levels

    @classmethod
    def of(cls, options: Levels, env: Environment) -> Curriculum:
        """The method for an environment, which says whether episodes are won.

        Raises:
            ValueError: The environment cannot edit starts or does not say who wins, or `steps` are too few.
        """
        score = options.score
        if score in ("auto", "learnability"):
            info = info_shapes(env)
            if score == "learnability" and "won" not in info:
                raise ValueError(
                    f"levels: {env.name} does not say who wins, as learnability needs; use score=variance."
                )
            score = "learnability" if "won" in info else "variance"
        params = getattr(env.default_params, "params", env.default_params)  # inside of RandomParams
        longest = int(getattr(params, "max_steps", 0))
        if options.kind == "sfl" and options.steps < 2 * longest:
            raise ValueError(
                f"levels: an episode of {env.name} has up to {longest} steps, and a level is judged by two; use "
                f"steps={2 * longest}, as in sfl?steps={2 * longest}."
            )
        if options.kind == "accel" and not env.has_mutate:
            raise ValueError(
                f"levels: accel edits levels, and {env.name} has no mutate(key, state, params); use plr or sfl."
            )
        return cls(dataclasses.replace(options, score=score))

    def vector_env(self, env: Environment, num_envs: int) -> LevelEnv:
        """B copies of the environment that play levels."""
        return LevelEnv(env, num_envs, self.options.size, self.options.episodes)

    def rollout(
        self, agent: Agent, state: Any, policy: Policy, num_streams: int
    ) -> tuple[Any, Transition, dict[str, Any], jax.Array]:
        """`jaxrl.acting.agent.next_rollout` on chosen levels, of which scores are noted in the pool's book."""
        config, options, collector = agent.config, self.options, make_collector(agent, state.update)
        for_rollout = (config.num_steps, collector.keys_per_step)
        acting = math.prod(for_rollout)
        key, keys = shard_keys(state.key, config.shards, acting + num_streams + 4)
        *for_levels, for_candidates = keys[acting + num_streams :]
        levels: LevelState = state.runner.env_state
        pool, book = joined((levels.pool, levels.book))  # draws do not depend on the number of devices
        if options.kind == "sfl":
            now = in_step(state.update) % options.every == 0
            bits = jax.random.key_data(for_candidates)  # under `vmap` both branches run, and a key would be used twice
            pool, book = jax.lax.cond(
                now,
                lambda: self._sought(agent, collector, policy, bits, jax.random.key_impl(key)),
                lambda: (pool, book),
            )

        # Play, from the levels of the last rollout to those that are chosen now.
        chance = chances(book, options, state.update)
        slot, following = self._following(collector, pool, book, chance, for_levels)
        venv = _levels_of(collector).between(levels.start, following)
        runner = state.runner._replace(env_state=venv.playing(levels.env, levels.tally))
        shaped = keys[:acting].reshape(*for_rollout, -1)
        runner, traj, sums = rollout(collector._replace(venv=venv), policy, runner, shaped, config.train_length)
        playing: Playing = runner.env_state
        moved, since = playing.moved, config.num_steps - 1 - playing.age
        leaves = moved & (jnp.arange(config.num_steps)[:, None] == since)

        # Judge the levels that were left, and note it; new ones may find a place in the pool.
        score, critique = self._judged(agent, state, traj, playing.left, levels.critique, leaves)
        visits = Visits(fingerprints(levels.start[1]), jnp.where(moved, score, -jnp.inf), playing.left.best)
        stamped = jnp.where(moved & (slot >= 0), slot, options.size)
        visits, stamped, played = joined((visits, stamped, levels.start))
        if options.kind != "sfl":
            book, candidate = noted(
                book._replace(stamp=book.stamp.at[stamped].set(state.update, mode="drop")), visits, options
            )
            book, into = inserted(book, visits, candidate, options, state.update)
            pool = jax.tree.map(lambda old, new: old.at[into].set(new, mode="drop"), pool, played)

        # Where each step was played decides whether it trains.
        then = moved & (jnp.arange(config.num_steps)[:, None] > since)
        replayed = jnp.where(then, slot, levels.slot) >= 0
        if options.robust:
            mask = traj.observation.agent_mask & replayed[..., None]
            traj = traj._replace(observation=traj.observation._replace(agent_mask=mask))
        sums["levels"] = _metrics(chance, book, replayed, options.robust)
        pool, book = own_part((pool, book))
        start = select(moved, following, levels.start)
        after = LevelState(playing.env, jnp.where(moved, slot, levels.slot), start, playing.tally, critique, pool, book)
        state = dataclasses.replace(state, runner=runner._replace(env_state=after), key=key)
        return state, traj, sums, keys[acting : acting + num_streams]

    def _following(
        self, collector: Collector, pool: Any, book: Book, chance: jax.Array, keys: list[jax.Array]
    ) -> tuple[jax.Array, tuple[Any, Any]]:
        """The level that each environment plays next: its slot in the pool, -1 for a new one, and its start.

        Args:
            collector: Observes B environments.
            pool: Starts, leaves `[P, …]`.
            book: Of the whole pool.
            chance: `[P]`, see `chances`.
            keys: Three arrays `[S / devices]`: for draws, new levels, edits. Consumed.
        """
        options, venv = self.options, _levels_of(collector)
        draws, new, edits = keys
        each = venv.num_envs // draws.size
        coin, place, edit = jax.vmap(lambda k: jax.random.uniform(k, (3, each)), out_axes=1)(draws).reshape(3, -1)
        filled = (book.score > -jnp.inf).mean()
        full = filled >= options.min_fill if options.kind != "sfl" else True
        replays = (coin < options.share) & (filled > 0) & full
        slot = draw(chance, place)
        old = jax.tree.map(lambda leaf: leaf[slot], pool)
        fresh = venv.new_levels(new, collector.params)
        if options.kind == "accel":
            edited = self._edited(venv, old[1], collector.params, edits)
            fresh = select((edit < options.edit_share) & (filled > 0) & full, edited, fresh)
        return jnp.where(replays, slot, -1), select(replays, old, fresh)

    def _edited(self, venv: LevelEnv, states: Any, params: Any, keys: jax.Array) -> tuple[Any, Any]:
        """Starts made from others by `edits` edits each. Consumes `keys`."""
        each = venv.num_envs // keys.size * self.options.edits
        keys = jax.vmap(lambda k: jax.random.split(k, each))(keys).reshape(venv.num_envs, self.options.edits)
        for number in range(self.options.edits):
            states = jax.vmap(venv.env.mutate, (0, 0, None))(keys[:, number], states, params)
        return venv.env.batch_observation(states, params), states

    def _judged(
        self, agent: Agent, state: Any, traj: Transition, left: Tally, critique: Critique, leaves: jax.Array
    ) -> tuple[jax.Array, Critique]:
        """The scores `[B]` of levels that were left (for maxmc the mean value), and the critique to continue from."""
        score = self.options.score
        if not self.options.needs_critic:
            return BY_OUTCOME[score](left), critique

        # Values and advantages in units of the rewards, whatever these are divided by for learning.
        scale, alive = deviation_of_returns(state.normaliser, agent.param_sets), traj.observation.agent_mask
        numbers = value = traj.extras["value"] * scale
        if score != "maxmc":
            h, cut = agent.schedule(agent, state), traj.cut[..., None]
            after = bootstrap_values(value, traj.bootstrap * scale, cut)
            discount = h.gamma * (1.0 - traj.terminated[..., None])
            advantage = gae(traj.reward, discount, cut, value, after, h.gae_lambda)
            numbers = jnp.maximum(advantage, 0.0) if score == "pvl" else jnp.abs(advantage)
        numbers = jnp.where(alive, numbers, 0.0).sum(-1) / jnp.maximum(alive.sum(-1), 1)
        critique, means = criticised(critique, numbers, traj.cut, leaves)
        return means / jnp.maximum(left.plays, 1), critique

    def _sought(
        self, agent: Agent, collector: Collector, policy: Policy, bits: jax.Array, impl: Any
    ) -> tuple[tuple[Any, Any], Book]:
        """A pool of the most learnable of new levels, and its book.

        Args:
            agent: The agent.
            collector: Observes B environments.
            policy: How to act.
            bits: Of keys `[S / devices]`.
            impl: Of these keys.
        """
        size, batches = self.options.size, self.options.batches(agent.config.num_envs)
        keys = jax.vmap(lambda k: jax.random.split(k, batches), out_axes=1)(jax.random.wrap_key_data(bits, impl=impl))
        # Scan over bits, as `rollout` does.
        _, tried = jax.lax.scan(
            lambda _, own: (None, self._tried(agent, collector, policy, jax.random.wrap_key_data(own, impl=impl))),
            None,
            jax.random.key_data(keys),
        )
        starts, score = _in_order(tried)
        best = jnp.argsort(-score)[:size]
        pool = jax.tree.map(lambda leaf: leaf[best], starts)
        return pool, new_book(size)._replace(score=score[best], print=fingerprints(pool[1]))

    def _tried(
        self, agent: Agent, collector: Collector, policy: Policy, keys: jax.Array
    ) -> tuple[tuple[Any, Any], jax.Array]:
        """B new levels and their scores, after each has been played for `steps` steps. Consumes `keys[S / devices]`."""
        options, venv, count = self.options, _levels_of(collector), collector.venv.num_envs
        new, acting = jax.vmap(lambda k: tuple(jax.random.split(k)))(keys)
        start = venv.new_levels(new, collector.params)

        # Nobody leaves a level, and each episode begins without memory.
        venv = venv.between(start, start, episodes=options.steps + 1)
        nothing = jnp.zeros((count, len(venv.teams)), jnp.float32)
        runner = RunnerState(
            env_state=venv.playing(start[1], venv.new_tally()),
            obs=start[0],
            reset=jnp.ones(count, bool),
            carry=agent.networks.new_carry(count),
            running=new_running(count, collector.kinds),
            discounted=nothing,
        )
        num_keys = options.steps * collector.keys_per_step
        bits = jax.random.key_data(jax.vmap(lambda k: jax.random.split(k, num_keys))(acting)).swapaxes(0, 1)
        steps = jax.random.wrap_key_data(bits, impl=jax.random.key_impl(keys))
        shaped = steps.reshape(options.steps, -1, keys.size)
        runner, _, _ = rollout(collector._replace(venv=venv), policy, runner, shaped)
        return start, BY_OUTCOME[options.score](runner.env_state.tally)


def _metrics(chance: jax.Array, book: Book, replayed: jax.Array, robust: bool) -> dict[str, jax.Array]:
    """What rows of metrics say of the levels, each divided by the number of devices over which it is summed."""
    filled = book.score > -jnp.inf
    metrics = {
        "filled": filled.mean(),
        "effective": jnp.where(chance.any(), 1.0 / jnp.square(jnp.where(chance.any(), chance, 1.0)).sum(), 0.0),
        "score": jnp.where(filled, book.score, 0.0).sum() / jnp.maximum(filled.sum(), 1),
        "replayed": replayed.mean(),
        "trains": replayed.mean() if robust else jnp.float32(1.0),
    }
    return jax.tree.map(lambda number: number / num_devices(), metrics)


def _levels_of(collector: Collector) -> LevelEnv:
    """The environments of a collector that play levels."""
    assert isinstance(collector.venv, LevelEnv)
    return collector.venv


def _in_order(batches: Any) -> Any:
    """Candidates in batches, leaves `[batches, B, …]`, in one row that does not depend on the devices: `[N, …]`."""

    def row(leaf: jax.Array) -> jax.Array:
        devices = joined(leaf[None])
        return devices.swapaxes(0, 1).reshape(-1, *leaf.shape[2:])

    return jax.tree.map(row, batches)
