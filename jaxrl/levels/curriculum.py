"""Training on chosen levels: a level is a start, (observation, state), played again until its environment leaves it.

Each environment leaves its level at most once in a rollout, at the end of an episode, for one that is chosen before the
rollout: from the pool, edited, or new. So nothing is drawn within the rollout, `num_steps` can be any number, and
episodes and memories go on from one rollout to the next.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.acting.agent import Agent
from jaxrl.acting.normaliser import deviation_of_returns
from jaxrl.acting.rollout import Collector, Policy, RunnerState, Transition, new_runner, rollout
from jaxrl.check.quick import info_numbers
from jaxrl.environment import Environment, Step, select
from jaxrl.levels.book import Book, chances, draw, fingerprints, inserted, new_book, noted
from jaxrl.levels.options import Levels
from jaxrl.levels.scores import BY_OUTCOME, Critique, Tally, add_step, criticised, new_tally
from jaxrl.rl.advantage import bootstrap_values, gae
from jaxrl.rl.devices import in_step, joined, num_devices, own_part
from jaxrl.vector import VectorEnv

__all__ = ["Curriculum", "LevelEnv", "LevelState"]


class LevelState(NamedTuple):
    """The state of a `LevelEnv`; the last three are None between rollouts, pool and book within."""

    env: Any  # leaves [B, …]
    slot: jax.Array | None  # int32 [B] where in the pool the level was that each environment plays; -1 for a new one
    start: tuple[Any, Any]  # (observation, state) of that level, leaves [B, …]
    tally: Tally  # [B]
    critique: Critique | None  # [B]
    pool: tuple[Any, Any] | None = None  # (observation, state), leaves [P, …]
    book: Book | None = None  # [P]
    following: Any = None  # (observation, state) of the next level, leaves [B, …]
    since: Any = None  # int32 [B] steps since the level was left, with that one; 0 if it was not
    left: Any = None  # the tally [B] of the level that was left


class LevelEnv(VectorEnv):
    """A `VectorEnv` whose ended episodes begin again with their own start, or after `episodes` episodes with the next
    one. `size` is P, the levels in the pool.
    """

    def __init__(self, env: Environment, num_envs: int, size: int, episodes: int) -> None:
        super().__init__(env, num_envs)
        self.size = size
        self.episodes = episodes
        self.arrive = "arrived" in getattr(env, "agent_info", ())  # by itself, each agent

    def part(self, count: int) -> LevelEnv:
        return self if count == 1 else LevelEnv(self.env, self.num_envs // count, self.size // count, self.episodes)

    def new_levels(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        """B starts as the environment makes them. Consumes `key`, one or several as in `VectorEnv.reset`."""
        return super().reset(key, params)

    def reset(self, key: Any = None, params: Any = None) -> tuple[Any, LevelState]:
        start = self.new_levels(key, params)
        new, critique = jnp.full(self.num_envs, -1, jnp.int32), Critique(*jnp.zeros((3, self.num_envs), jnp.float32))
        empty = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], (self.size, *leaf.shape[1:])), start)
        return start[0], LevelState(start[1], new, start, self.new_tally(), critique, empty, new_book(self.size))

    def advance(self, key: jax.Array, state: LevelState, action: jax.Array, params: Any = None) -> Step:
        moved = state.since > 0
        ready = (state.tally.plays + 1 >= self.episodes) & ~moved
        reset_to = select(moved | ready, state.following, state.start)
        obs, env_state, reward, terminated, truncated, info = self.env.batch_step(
            key, state.env, action, params, reset_to
        )
        done = terminated | truncated
        won = info["arrived"] if self.arrive else info.get("won", jnp.zeros(self.num_envs, bool))[:, None]
        tally, leaves = add_step(state.tally, reward, done, won), done & ready
        after = state._replace(
            env=env_state,
            since=state.since + (moved | leaves),
            tally=select(leaves, self.new_tally(), tally),
            left=select(leaves, tally, state.left),
        )
        return obs, after, reward, terminated, truncated, info

    def env_state(self, state: Any) -> Any:
        return state.env

    def new_tally(self) -> Tally:
        """B levels that nobody has played."""
        return new_tally(self.num_envs, len(self.teams) if self.arrive else 1)


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """A method that chooses levels for an environment."""

    options: Levels

    keys: ClassVar[int] = 4
    """Random keys that each shard needs to choose levels for a rollout."""

    @classmethod
    def of(cls, options: Levels, env: Environment) -> Curriculum:
        """The method for an environment, which says whether episodes are won.

        Raises:
            ValueError: The environment cannot edit starts or does not say who wins, or `steps` are too few.
        """
        tells = "won" in info_numbers(env)
        score = ("learnability" if tells else "variance") if options.score == "auto" else options.score
        if score == "learnability" and not tells:
            raise ValueError(f"levels: {env.name} does not say who wins, as learnability needs; use score=variance.")
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
        self, agent: Agent, state: Any, collector: Collector, policy: Policy, keys: jax.Array, for_levels: jax.Array
    ) -> tuple[RunnerState, Transition, dict[str, Any]]:
        """`jaxrl.acting.rollout.rollout` on chosen levels, of which scores are noted in the pool's book.

        `for_levels` are keys `[4, S / devices]`. Consumes these and `keys`.
        """
        options, levels = self.options, state.runner.env_state
        *for_following, for_candidates = for_levels
        pool, book = joined((levels.pool, levels.book))  # draws do not depend on the number of devices
        if options.kind == "sfl":
            # Under `vmap` both branches run, and a key would be used twice.
            bits, impl = jax.random.key_data(for_candidates), jax.random.key_impl(for_levels)
            pool, book = jax.lax.cond(
                in_step(state.update) % options.every == 0,
                lambda: self._sought(agent, collector, policy, jax.random.wrap_key_data(bits, impl=impl)),
                lambda: (pool, book),
            )

        # Play, from the levels of the last rollout to those that are chosen now.
        chance = chances(book, options, state.update)
        slot, following = self._following(collector, pool, book, chance, for_following)
        since = jnp.zeros_like(slot)
        within = levels._replace(pool=None, book=None, following=following, since=since, left=levels.tally)
        runner = state.runner._replace(env_state=within)
        runner, traj, sums = rollout(collector, policy, runner, keys, agent.config.train_length)
        after: LevelState = runner.env_state
        moved, past = after.since > 0, jnp.arange(len(keys))[:, None] + after.since - len(keys)  # 0 where it is left

        # Judge the levels that were left, and note it; new ones may find a place in the pool.
        score, critique = self._judged(agent, state, traj, after.left, levels.critique, past == 0)
        score, now = jnp.where(moved, score, -jnp.inf), jnp.full_like(slot, state.update)
        visits = Book(score, after.left.best, now, fingerprints(levels.start[1]))
        stamped = jnp.where(moved & (slot >= 0), slot, options.size)
        visits, stamped, played = joined((visits, stamped, levels.start))
        if options.kind != "sfl":
            book = book._replace(stamp=book.stamp.at[stamped].set(state.update, mode="drop"))
            book, candidate = noted(book, visits, options)
            book, into = inserted(book, visits, candidate, options, state.update)
            pool = jax.tree.map(lambda old, new: old.at[into].set(new, mode="drop"), pool, played)

        # Where each step was played decides whether it trains.
        replayed = jnp.where(past > 0, slot, levels.slot) >= 0
        if options.robust:
            mask = traj.observation.agent_mask & replayed[..., None]
            traj = traj._replace(observation=traj.observation._replace(agent_mask=mask))
        sums["levels"] = _metrics(chance, book, replayed, options.robust)
        pool, book = own_part((pool, book))
        start, slot = select(moved, (following, slot), (levels.start, levels.slot))
        levels = LevelState(after.env, slot, start, after.tally, critique, pool, book)
        return runner._replace(env_state=levels), traj, sums

    def _following(
        self, collector: Collector, pool: Any, book: Book, chance: jax.Array, keys: list[jax.Array]
    ) -> tuple[jax.Array, tuple[Any, Any]]:
        """The level that each of B environments plays next: its slot in the pool, -1 for a new one, and its start.

        `chance[P]` is that of each level of the pool. Consumes the three `keys`, each `[S / devices]`.
        """
        options, venv = self.options, collector.venv
        assert isinstance(venv, LevelEnv)
        draws, new, edits = keys
        each = venv.num_envs // draws.size
        coin, place, edit = jax.vmap(lambda k: jax.random.uniform(k, (3, each)), out_axes=1)(draws).reshape(3, -1)
        filled = (book.score > -jnp.inf).mean()
        starts = (filled > 0) & (filled >= options.min_fill if options.kind != "sfl" else True)
        replays = (coin < options.share) & starts
        slot = draw(chance, place)
        old = jax.tree.map(lambda leaf: leaf[slot], pool)
        fresh = venv.new_levels(new, collector.params)
        if options.kind == "accel":
            edited = self._edited(venv, old[1], collector.params, edits)
            fresh = select((edit < options.edit_share) & starts, edited, fresh)
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
        self, agent: Agent, collector: Collector, policy: Policy, keys: jax.Array
    ) -> tuple[tuple[Any, Any], Book]:
        """A pool of the most learnable of new levels, and its book. Consumes `keys[S / devices]`."""
        size, batches, impl = self.options.size, self.options.batches(agent.config.num_envs), jax.random.key_impl(keys)
        keys = jax.vmap(lambda k: jax.random.split(k, batches), out_axes=1)(keys)
        tried = jax.lax.map(  # over bits, as `rollout` scans
            lambda bits: self._tried(agent, collector, policy, jax.random.wrap_key_data(bits, impl=impl)),
            jax.random.key_data(keys),
        )
        # From [batches, B, …] on each device to [N, …], in an order that does not depend on the devices.
        starts, score = jax.tree.map(lambda leaf: joined(leaf[None]).swapaxes(0, 1).reshape(-1, *leaf.shape[2:]), tried)
        best = jnp.argsort(-score)[:size]
        pool = jax.tree.map(lambda leaf: leaf[best], starts)
        return pool, new_book(size)._replace(score=score[best], print=fingerprints(pool[1]))

    def _tried(
        self, agent: Agent, collector: Collector, policy: Policy, keys: jax.Array
    ) -> tuple[tuple[Any, Any], jax.Array]:
        """B new levels and their scores, after each has been played for `steps` steps. Consumes `keys[S / devices]`."""
        steps, venv = self.options.steps, collector.venv
        assert isinstance(venv, LevelEnv)
        new, acting = jax.vmap(lambda k: tuple(jax.random.split(k)))(keys)
        start = venv.new_levels(new, collector.params)

        # Nobody leaves a level, as if all had done so, and each episode begins without memory.
        tally, since = venv.new_tally(), jnp.ones(venv.num_envs, jnp.int32)
        levels = LevelState(start[1], None, start, tally, None, following=start, since=since, left=tally)
        runner = new_runner(collector, agent.networks.new_carry(venv.num_envs), start[0], levels)
        num_keys = steps * collector.keys_per_step
        split = jax.vmap(lambda k: jax.random.split(k, num_keys), out_axes=1)(acting)
        runner, _, _ = rollout(collector, policy, runner, split.reshape(steps, -1, keys.size))
        return start, BY_OUTCOME[self.options.score](runner.env_state.tally)


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
