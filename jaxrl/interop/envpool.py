"""EnvPool's interface to our environments: `from jaxrl.interop import envpool` in place of `import envpool`.

    envs = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=64)
    obs, info = envs.reset()
    obs, reward, terminated, truncated, info = envs.step(actions)  # or send and recv
    handle, recv, send, step = envs.xla()  # for programs that jax.jit compiles

Options, calls and results are those of EnvPool 1.2 (https://envpool.readthedocs.io) or, by `legacy=True`, of its older
versions. Results are about B = `batch_size` of the E = `num_envs` environments; with N agents, actions, observations
and rewards have a row for each, so what is called `[B, …]` below is `[B N, …]`.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
import weakref
from collections import namedtuple
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import registry
from jaxrl.environment import Environment, MultiAgentEnvironment, select
from jaxrl.errors import UnknownNameError
from jaxrl.interop.common import Extra, look
from jaxrl.interop.dm_env import spec_of
from jaxrl.interop.gymnasium import space_of
from jaxrl.spaces import check_action
from jaxrl.wrappers import ActionRepeat, FrameStack, StickyActions, TimeLimit

with Extra("gymnasium"):
    import gymnasium
    from gymnasium.vector import AutoresetMode
with Extra("dm_env"):
    import dm_env
    from dm_env import specs

__all__ = ["list_all_envs", "make", "make_dm", "make_gym", "make_gymnasium", "make_spec"]

INT_MAX = 2**31 - 1
_DEFAULTS: dict[str, Any] = {
    **{"num_envs": 1, "batch_size": 0, "num_threads": 0, "max_num_players": 1, "thread_affinity_offset": -1},
    **{"base_path": "", "seed": 42, "env_seed": (), "gym_reset_return_info": True, "max_episode_steps": INT_MAX},
    **{"stack_num": 1, "frame_skip": 1, "repeat_action_probability": 0.0, "reward_clip": False},
    **{"episodic_life": False, "render_mode": None, "legacy": False},
}


def make(task_id: str, env_type: str, **options: Any) -> Any:
    """A pool in the form `env_type`: `"dm"`, `"gym"` or `"gymnasium"`, of which the last two are the same.

    Raises:
        AssertionError: There is no such form or task, or a number is out of range, as in EnvPool.
        TypeError: There is no such option, see `make_spec`.
        ValueError: Options contradict each other.
    """
    _check(env_type in ("dm", "gym", "gymnasium"), f'env_type is "dm", "gym" or "gymnasium", not {env_type!r}.')
    return (DMEnvPool if env_type == "dm" else GymnasiumEnvPool)(make_spec(task_id, **options))


def make_dm(task_id: str, **options: Any) -> DMEnvPool:
    """`make(task_id, "dm", …)`, a `dm_env.Environment`."""
    return make(task_id, "dm", **options)


def make_gymnasium(task_id: str, **options: Any) -> GymnasiumEnvPool:
    """`make(task_id, "gymnasium", …)`, both a `gymnasium.Env` and a `gymnasium.vector.VectorEnv`."""
    return make(task_id, "gymnasium", **options)


make_gym = make_gymnasium


def list_all_envs() -> list[str]:
    """The names of all registered environments, and their aliases."""
    return sorted({*registry.list_envs(), *registry.aliases()})


def make_spec(task_id: str, **options: Any) -> EnvSpec:
    """The spaces and options of a pool.

    The options are those of the environment that `jaxrl.make(task_id)` takes, `legacy`, and EnvPool's: `num_envs`,
    `batch_size` (0 for `num_envs`), `seed` (environment i gets seed + i, unless it is a sequence of one for each),
    `env_seed`, `max_episode_steps`, `stack_num`, `frame_skip`, `repeat_action_probability`, `reward_clip` (to its sign)
    and `render_mode`. Its `num_threads`, `thread_affinity_offset`, `base_path` and `episodic_life` change nothing.

    Raises:
        AssertionError, TypeError, ValueError: See `make`.
    """
    given = {**_DEFAULTS, "gym_reset_return_info": not options.get("legacy"), **options}
    own = {name: given.pop(name) for name in options if name not in _DEFAULTS}
    if not given["gym_reset_return_info"] and not given["legacy"]:
        raise ValueError("reset returns (obs, info); for the form before Gymnasium, give legacy=True.")
    if given["render_mode"] not in (None, "rgb_array"):
        raise ValueError(f'render_mode is "rgb_array" or None, not {given["render_mode"]!r}.')
    count, batch_size, steps, skip = (given[n] for n in ("num_envs", "batch_size", "max_episode_steps", "frame_skip"))
    _check(count >= 1, f"num_envs must be at least 1, got {count}.")
    _check(0 <= batch_size <= count, f"batch_size must be from 0 to num_envs={count}, got {batch_size}.")
    given |= {"batch_size": batch_size or count, "seeds": _seeds(given, count)}

    # The innermost wrapper acts first, as in an emulator: single frames stick, and limits count what agents do.
    try:
        env = registry.make(task_id, **own)
        limit = int(getattr(env.default_params, "max_steps", INT_MAX))
        if limit < steps * skip < INT_MAX:
            env = registry.make(task_id, **{**own, "max_steps": steps * skip})
    except UnknownNameError as error:
        raise AssertionError(str(error)) from error
    if given["repeat_action_probability"]:
        env = StickyActions(env, given["repeat_action_probability"])
    env = ActionRepeat(env, skip) if skip != 1 else env
    env = TimeLimit(env, steps) if steps * skip < limit else env
    env = FrameStack(env, given["stack_num"]) if given["stack_num"] != 1 else env
    steps = -(-limit // skip) if steps == INT_MAX else steps
    given |= {"max_num_players": _players(env), "max_episode_steps": steps}
    return EnvSpec(env, {"task_id": task_id, **given, **own})


class EnvSpec:
    """See `make_spec`; `config` has every option as an attribute, and spaces are those of one environment."""

    reward_threshold = None

    def __init__(self, env: Environment, config: dict[str, Any]) -> None:
        self.id, self.config = config["task_id"], namedtuple("Config", config)(**config)
        form, sizes = "legacy" if self.config.legacy else "gymnasium", (self.config.num_envs, self.config.batch_size)
        self.core = _Core(registry.shared(env), *sizes, form, bool(self.config.reward_clip))
        self.observation_space = space_of(env.observation_space())
        self.action_space = space_of(env.action_space())

    def observation_spec(self) -> Any:
        """The fields of dm's observations, each as a `dm_env.specs.Array`."""
        core = dataclasses.replace(self.core, form="dm")
        seen = jax.eval_shape(lambda: _recv(core, _at_start(core, self.config.seeds, 0))[1].observation)
        fields = jax.tree.map(lambda leaf: specs.Array(leaf.shape[1:], leaf.dtype), seen)
        return fields._replace(obs=spec_of(core.env.observation_space(), "obs"))

    def action_spec(self) -> Any:
        """The action of one environment, or agent, as a `dm_env.specs.Array`."""
        return spec_of(self.core.env.action_space(), "action")


class _Envs(NamedTuple):
    """Running environments, leaves `[E, …]`."""

    key: jax.Array
    steps: jax.Array  # since the start of all: with the key, it determines the randomness of the next step
    state: Any  # where an episode has ended, that of the next one's start
    obs: Any  # what `state` looks like
    pending: jax.Array  # whether it is a start that nobody has received
    elapsed: jax.Array


class Handle(NamedTuple):
    """The whole state of a pool as a pytree: carry, map, save or differentiate it."""

    envs: _Envs
    action: Any  # [E, …], sent and not yet taken
    place: Any  # int32 [E], the environments' places in the queue, INT_MAX for those that are not in it


@dataclasses.dataclass(frozen=True)
class _Core:
    """All that compiled programs depend on; pools that agree in it share them."""

    env: Environment
    num_envs: int
    batch_size: int
    form: Literal["gymnasium", "legacy", "dm"]
    reward_clip: bool

    def given(self, action: Any, env_id: Any) -> tuple[jax.Array, Any]:
        """Actions as `[K, …]`, or `[K, N, …]` with agents, of the environments `env_id[K]`; a dict may hold both."""
        space = self.env.action_space()
        if isinstance(action, Mapping):
            for name, dtype in (("env_id", np.dtype(np.int32)), ("action", space.dtype)):
                if name in action and action[name].dtype != dtype:
                    raise RuntimeError(f"Expected dtype {dtype} with {name!r}, got {action[name].dtype}.")
            env_id, action = action.get("env_id") if env_id is None else env_id, action["action"]
        count = self.num_envs if env_id is None else np.size(env_id)
        rows = count * _players(self.env)  # Stoix gives more, of which the first count
        action = check_action(action[:rows] if np.ndim(action) else action, space, "step", environments=rows)
        return action.astype(space.dtype).reshape(count, *self.no_actions().shape[1:]), env_id

    def no_actions(self) -> np.ndarray:
        """Zeros in the shape of all environments' actions."""
        space, team = self.env.action_space(), isinstance(self.env, MultiAgentEnvironment)
        return np.zeros((self.num_envs, *(_players(self.env),) * team, *space.shape), space.dtype)


@partial(jax.jit, static_argnums=0)
def _at_start(core: _Core, seeds: jax.Array, number: int) -> Handle:
    """The start of that number, determined by it and the seeds `[E]`, with all environments in the queue."""
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), number))(seeds)
    places, steps = jnp.arange(core.num_envs, dtype=jnp.int32), jnp.zeros(core.num_envs, jnp.int32)
    obs, state = core.env.batch_reset(jax.vmap(jax.random.fold_in)(keys, steps))
    envs = _Envs(keys, steps, state, obs, jnp.ones(core.num_envs, bool), steps)
    return Handle(envs, jnp.asarray(core.no_actions()), places)


@partial(jax.jit, static_argnums=0)
def _advance(core: _Core, envs: _Envs, action: jax.Array, sent: jax.Array, ids: jax.Array) -> tuple[_Envs, Any]:
    """A step of those of the B environments for which bool `sent[B]` is True, and the result for all of them."""
    keys = jax.vmap(jax.random.fold_in)(envs.key, envs.steps + 1)
    obs, state, reward, terminated, truncated, info = core.env.batch_step(keys, envs.state, action)
    shown = info.pop("final_observation")
    del info["final_state"]

    # Who waits at a start stays there, whatever the action: that is how an episode begins in the step after the end.
    hold = envs.pending | ~sent
    told = (reward.astype(jnp.float32), terminated, truncated, info)
    told = select(hold, jax.tree.map(jnp.zeros_like, told), told)
    state, obs, shown = select(hold, (envs.state, envs.obs, envs.obs), (state, obs, shown))
    pending = jnp.where(sent, told[1] | told[2], envs.pending)
    elapsed = jnp.where(envs.pending & sent, 0, envs.elapsed + sent)
    envs = _Envs(envs.key, envs.steps + ~hold, state, obs, pending, elapsed)
    return envs, _result(core, envs, ids, shown, *told)


def _result(core: _Core, envs: _Envs, ids: jax.Array, obs: Any, reward: Any, end: Any, cut: Any, facts: Any) -> Any:
    """What `step` returns of B environments: those that ended, and those that were only cut, in the pool's form."""
    facts = {**facts, **jax.vmap(partial(look, core.env, params=None))(envs.state)}
    if isinstance(core.env, MultiAgentEnvironment):  # a row for each agent
        own = {name: facts[name] for name in (*core.env.agent_info, "action_mask", "alive") if name in facts}
        obs, reward, own = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (obs, reward, own))
        facts |= own
    if core.reward_clip or core.form == "legacy":
        facts["reward"] = reward
    reward, done = jnp.sign(reward) if core.reward_clip else reward, end | cut
    players = {"env_id": jnp.repeat(ids, _players(core.env))}
    facts |= {"elapsed_step": envs.elapsed, "env_id": ids, "players": players}
    if core.form == "gymnasium":
        return obs, reward, end, cut, facts
    if core.form == "legacy":
        facts |= {"terminated": end.astype(jnp.int32), "lives": jnp.zeros_like(ids), "TimeLimit.truncated": cut}
        return obs, reward, done, facts
    kind = jnp.where(envs.elapsed == 0, 0, jnp.where(done, 2, 1)).astype(jnp.int32)
    discount = jnp.repeat(1 - done.astype(jnp.float32), _players(core.env))
    facts = {"obs": obs, **facts, "players": _tuple_class("env_id")(*players.values()), "truncated": cut}
    return dm_env.TimeStep(kind, reward, discount, _tuple_class(*facts)(*facts.values()))


@partial(jax.jit, static_argnums=0)
def _recv(core: _Core, handle: Handle) -> tuple[Handle, Any]:
    """The step of the first B environments in the queue; where there are fewer, others follow that do not move."""
    ids = jnp.argsort(handle.place)[: core.batch_size].astype(jnp.int32)
    some = jax.tree.map(lambda leaf: leaf[ids], handle.envs)
    some, result = _advance(core, some, handle.action[ids], handle.place[ids] < INT_MAX, ids)
    old, new = handle.envs._replace(key=()), some._replace(key=())  # keys stay: JAX would see them used twice
    envs = jax.tree.map(lambda leaf, row: leaf.at[ids].set(row), old, new)._replace(key=handle.envs.key)
    waits = (handle.place >= core.batch_size) & (handle.place < INT_MAX)
    return Handle(envs, handle.action, jnp.where(waits, handle.place - core.batch_size, INT_MAX)), result


class _EnvPool:
    """What both kinds of pools share."""

    def __init__(self, spec: EnvSpec, core: _Core) -> None:
        self.spec: Any = spec
        self.core, self.is_async = core, core.batch_size < core.num_envs
        self.config, self.render_mode = spec.config._asdict(), spec.config.render_mode
        self.all_env_ids = np.arange(core.num_envs, dtype=np.int32)
        self._start, self._moved = 0, False  # its number, and whether an environment has moved since
        self._envs: Any = None
        self._action, self._place = core.no_actions(), np.full(core.num_envs, INT_MAX, np.int32)
        self._received: Any = lambda: None

    def __len__(self) -> int:
        return self.core.num_envs

    def seed(self, seed: Any = None) -> None:
        """Only warns, as in EnvPool."""
        warnings.warn("Seeds are given when a pool is made: envpool.make(…, seed=…).", stacklevel=2)

    def async_reset(self) -> None:
        """Start all environments anew; `recv` returns their first observations."""
        self._start, self._moved = self._start + self._moved, False
        self._envs, _, place = _at_start(self.core, self.spec.config.seeds, self._start)
        self._place = np.array(place)

    def send(self, action: Any, env_id: Any = None) -> None:
        """Give the environments `env_id[K]`, None for all, `action[K, …]`; those whose episode has ended ignore it.

        Raises:
            RuntimeError: One has not been received since its last, or a dict of both holds another dtype.
            TypeError, ValueError: There are no such actions or environments.
        """
        action, env_id = self.core.given(action, env_id)
        self._action[self._queued(self.all_env_ids if env_id is None else env_id)] = action

    def recv(self) -> Any:
        """The results of the first B environments that were sent actions or reset, in that order.

        Raises:
            RuntimeError: There are too few; EnvPool would wait for ever.
        """
        waiting = int((self._place < INT_MAX).sum())
        size = self.core.batch_size if self.is_async else max(waiting, 1)
        if waiting < size:
            raise RuntimeError(f"recv needs {size} environments that were sent actions or reset, not {waiting}.")
        (self._envs, _, place), result = _recv(self.core, Handle(self._envs, self._action, self._place))
        self._place = np.array(place)
        return jax.tree.map(lambda leaf: np.array(leaf)[: len(leaf) * size // self.core.batch_size], result)

    def step(self, action: Any, env_id: Any = None) -> Any:
        """`send`, then `recv`."""
        self.send(action, env_id)
        return self.recv()

    def render(self, env_ids: Any = None, camera_id: int | None = None) -> np.ndarray:
        """Pictures of environments, by default the first: uint8 `[K, H, W, 3]`.

        Raises:
            RuntimeError: The pool was made without `render_mode`, or nothing has begun.
        """
        if self.render_mode is None or self._envs is None:
            raise RuntimeError('render needs a pool that was made with render_mode="rgb_array", and then reset.')
        ids = np.atleast_1d(0 if env_ids is None else env_ids)
        states = (jax.tree.map(lambda leaf, i=i: leaf[i], self._envs.state) for i in ids)
        return np.stack([self.core.env.render(state) for state in states])

    def xla(self) -> tuple[Handle, Any, Any, Any]:
        """`handle, recv, send, step`: the state of the pool at a start, and pure functions.

        It is the start where the environments are, or the next one if they have moved; `reset` goes there as well.
        `recv(handle)` and `step(handle, action, env_id=None)` return another handle and a result, and
        `send(handle, action, env_id=None)` returns a handle.
        """
        handle = _at_start(self.core, self.spec.config.seeds, self._start + self._moved)
        if not self.is_async:  # as after reset, not after async_reset
            nobody = jnp.full(len(self), INT_MAX, jnp.int32)
            handle = Handle(handle.envs._replace(pending=nobody < 0), handle.action, nobody)
        return handle, self._pure_recv, self._pure_send, self._pure_step

    def _pure_recv(self, handle: Handle) -> tuple[Handle, Any]:
        self._received = weakref.ref(handle.place)
        return _recv(self.core, handle)

    def _pure_send(self, handle: Handle, action: Any, env_id: Any = None) -> Handle:
        if self.is_async and handle.place is self._received():
            raise ValueError("send takes the handle that recv returned, not the one that it took: handles are values.")
        action, ids = self.core.given(action, env_id)
        ids = self.all_env_ids if ids is None else jnp.asarray(ids)
        place, sent = jnp.asarray(handle.place), jnp.asarray(handle.action)  # a saved one's are NumPy's
        places = jnp.sum(place < INT_MAX, dtype=jnp.int32) + jnp.arange(ids.size, dtype=jnp.int32)
        return Handle(handle.envs, sent.at[ids].set(action), place.at[ids].set(places))

    def _pure_step(self, handle: Handle, action: Any, env_id: Any = None) -> tuple[Handle, Any]:
        actions, ids = self.core.given(action, env_id)
        if self.is_async or ids is not None:
            return self._pure_recv(self._pure_send(handle, action, env_id))
        envs, result = _advance(self.core, handle.envs, actions, np.ones(len(self), bool), self.all_env_ids)
        return handle._replace(envs=envs), result

    def _queued(self, env_id: Any) -> np.ndarray:
        """Environments as int `[K]`, now at the end of the queue."""
        ids = np.atleast_1d(env_id)
        if not np.isin(ids, self.all_env_ids).all():
            raise ValueError(f"Environments are numbered from 0 to {len(self) - 1}, got {ids.tolist()}.")
        if len(np.unique(ids)) < len(ids) or (self._place[ids] < INT_MAX).any():
            raise RuntimeError("An environment takes one action at a time; call recv before it is sent the next.")
        if self._envs is None:  # the first step resets, as in EnvPool
            self._envs = _at_start(self.core, self.spec.config.seeds, self._start).envs
        self._place[ids] = (self._place < INT_MAX).sum() + np.arange(len(ids))
        self._moved = True
        return ids

    def _reset(self, env_id: Any) -> Any:
        if env_id is None:
            self.async_reset()
            return self.recv()
        chosen = jnp.zeros(len(self), bool).at[self._queued(env_id)].set(True)
        self._start, old = self._start + 1, self._envs
        new = _at_start(self.core, self.spec.config.seeds, self._start).envs
        state, obs = select(chosen, (new.state, new.obs), (old.state, old.obs))
        self._envs = old._replace(state=state, obs=obs, pending=old.pending | chosen)
        return self.recv()


class DMEnvPool(_EnvPool, dm_env.Environment):
    """See `make_dm`. Observations are named tuples of `obs` and what `info` has, and `truncated`: discounts are 0 at
    every end, as in EnvPool.
    """

    def __init__(self, spec: EnvSpec) -> None:
        if spec.config.legacy:
            raise ValueError('legacy=True is the old form of env_type="gym"; leave it out.')
        super().__init__(spec, dataclasses.replace(spec.core, form="dm"))

    def reset(self, env_id: Any = None) -> dm_env.TimeStep:
        """Start the environments `env_id`, None for all, and return their first observations."""
        return self._reset(env_id)

    def observation_spec(self) -> Any:
        """See `EnvSpec.observation_spec`."""
        return self.spec.observation_spec()

    def action_spec(self) -> Any:
        """See `EnvSpec.action_spec`."""
        return self.spec.action_spec()


class GymnasiumEnvPool(_EnvPool, gymnasium.vector.VectorEnv, gymnasium.Env):  # pyright: ignore[reportIncompatibleMethodOverride]
    """See `make_gymnasium`. Spaces are those of one environment, or agent, by all of their names."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": ["rgb_array"]}  # noqa: RUF012
    is_vector_env = True

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec, spec.core)
        self.num_envs = len(self)
        self.observation_space = self.single_observation_space = spec.observation_space
        self.action_space = self.single_action_space = spec.action_space

    def reset(self, env_id: Any = None, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Start the environments `env_id`, None for all: `(obs, info)`, or with `legacy` the observations alone.

        `seed` only warns, as in EnvPool, and `options={"reset_mask": …}`, bool `[E]`, starts some of them as well.

        Raises:
            ValueError: There are other options, a mask that fits no environments, or both it and `env_id`.
        """
        if seed is not None:
            self.seed(seed)
        if options:
            mask = np.asarray(options.get("reset_mask", ()), bool)
            if len(options) > 1 or mask.shape != (len(self),) or not mask.any() or env_id is not None:
                wanted = f'options={{"reset_mask": …}} with {len(self)} booleans, of which some are True, or env_id'
                raise ValueError(f"reset takes {wanted}; got {options}.")
            env_id = np.flatnonzero(mask)
        obs, *_, info = self._reset(env_id)
        return (obs, info) if self.spec.config.gym_reset_return_info else obs


@cache
def _tuple_class(*fields: str) -> Any:
    return namedtuple("State", [re.sub(r"\W", "_", field) for field in fields])


def _players(env: Environment) -> int:
    return env.num_agents if isinstance(env, MultiAgentEnvironment) else 1


def _check(holds: bool, sentence: str) -> None:
    """Raise AssertionError, as EnvPool does, unless it holds."""
    if not holds:
        raise AssertionError(sentence)


def _seeds(given: dict[str, Any], count: int) -> np.ndarray:
    """The seed of each environment, uint32 `[E]`."""
    seed = given["env_seed"] if len(given["env_seed"]) else given["seed"]
    each = np.asarray(seed)
    fits = each.shape in ((), (count,)) and each.dtype.kind in "iu"
    _check(fits, f"seed is one whole number or {count} for as many environments, got {seed}.")
    _check(each.min() >= -(2**31) and each.max() < 2**31, f"seed must be in the range of int32, got {seed}.")
    return (each if each.ndim else each + np.arange(count)).astype(np.uint32)
