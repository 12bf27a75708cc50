"""The compiled programs that the dynamic checks share, the recording that they examine, what results depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from jaxrl.check.static import Shapes, to_numpy
from jaxrl.environment import Environment, MultiAgentEnvironment, auto_reset
from jaxrl.keys import abstract_key
from jaxrl.spaces import Box, Discrete, MultiDiscrete

__all__ = ["BATCH", "Programs", "Recording", "params_used", "record", "used_leaves"]

BATCH = 8  # copies that run side by side
_CHUNK = 128  # steps of one recording at most
_PATIENCE = 4096  # steps to wait for an episode to end, if fewer are asked for


class Recording(NamedTuple):
    """Random steps of B copies, NumPy leaves `[T, B, …]`."""

    keys: Any  # the step's key, as bits
    state: Any  # before the step
    action: Any
    obs: Any  # after it, after auto-reset
    next_state: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any
    inside: Any  # whether observation and final observation are in the space
    views: Any  # observation, action_mask, agent_mask, global_state of next_state, those that exist

    @property
    def done(self) -> np.ndarray:
        """Which episodes ended, bool `[T, B]`."""
        return self.terminated | self.truncated


class Programs:
    """The environment's functions, each compiled at most once. Keys are passed as bits, so they can be reused."""

    def __init__(self, shapes: Shapes, key: jax.Array, num_steps: int) -> None:
        self.shapes, self.env, self.params = shapes, shapes.env, shapes.params
        self.wanted, self.num_steps = num_steps, min(num_steps, _CHUNK)  # in all, and in one recording
        methods = ("batch_step", "batch_step_env")
        self.batched = any(getattr(type(self.env), name) is not getattr(Environment, name) for name in methods)
        self.single_traces = 0
        self._bits = np.asarray(jax.random.key_data(key))
        self._impl = jax.random.key_impl(key)
        self.resets = _compiled(self._resets)
        self.chunk = _compiled(self._chunk)
        self.lanes = _compiled(self._lanes)
        self.single = _compiled(self._single)
        self.pooled = _compiled(self._pooled)
        self.passed = _compiled(self._passed)
        self.inside = _compiled(self._inside)
        self.edits = _compiled(self._edits)

    def keys(self, salt: int, count: int = BATCH) -> np.ndarray:
        """`count` fresh keys as bits."""
        key = jax.random.fold_in(self.wrap(self._bits), salt)
        return np.asarray(jax.random.key_data(jax.random.split(key, count)))

    def wrap(self, bits: Any) -> jax.Array:
        """Bits as typed keys."""
        return jax.random.wrap_key_data(jnp.asarray(bits), impl=self._impl)

    def _resets(self, bits: Any) -> tuple[Any, Any, Any]:
        """`batch_reset`, `vmap(reset)` and a single `reset` with the first key."""
        env, params = self.env, self.params
        batch = env.batch_reset(self.wrap(bits), params)
        lanes = jax.vmap(lambda b: env.reset(self.wrap(b), params))(bits)
        return batch, lanes, env.reset(self.wrap(bits[0]), params)

    def _chunk(self, state: Any, action_bits: Any, step_bits: Any) -> tuple[Any, Recording]:
        """`num_steps` random steps through `batch_step`; keys `[T, B]`."""

        def body(state: Any, bits: Any) -> tuple[Any, Recording]:
            action = jax.vmap(self._random_action)(bits[0])
            stepped = self.env.batch_step(self.wrap(bits[1]), state, action, self.params)
            obs, next_state, reward, terminated, truncated, info = stepped
            inside = self._inside(obs) & self._inside(info["final_observation"])
            views = jax.vmap(self.views, in_axes=(0, None))(next_state, self.params)
            flags = reward, terminated, truncated, info, inside, views
            return next_state, Recording(bits[1], state, action, obs, next_state, *flags)

        return jax.lax.scan(body, state, (action_bits, step_bits))

    def _random_action(self, bits: Any) -> jax.Array:
        space, lead = self.env.action_space(self.params), self.shapes.lead
        key = self.wrap(bits)
        return jax.vmap(space.sample)(jax.random.split(key, lead[0])) if lead else space.sample(key)

    def _inside(self, obs: Any) -> jax.Array:
        """True where the observations `[B, …]` of all agents are finite and in their spaces, bool `[B]`."""
        contains = self.env.observation_space(self.params).contains
        if not self.shapes.lead:
            return jax.vmap(contains)(obs)
        return jax.vmap(jax.vmap(contains))(obs).all(1)

    def views(self, state: Any, params: Any) -> dict[str, jax.Array]:
        """The results of the environment's functions of the state, those that it has."""
        env, views = self.env, {}
        if env.has_observation:
            views["observation"] = env.observation(state, params)
        if isinstance(env.action_space(params), Discrete):
            views["action_mask"] = env.action_mask(state, params)
        if isinstance(env, MultiAgentEnvironment):
            views["agent_mask"] = env.agent_mask(state, params)
        if env.has_global_state:
            views["global_state"] = env.global_state(state, params)
        return views

    def _lanes(self, bits: Any, state: Any, action: Any, params: Any) -> Any:
        """`vmap(step)` over everything, including the parameters: leaves `[B, …]`."""
        step = jax.vmap(lambda b, s, a, p: self.env.step(self.wrap(b), s, a, p))
        return step(bits, state, action, params)

    def _single(self, bits: Any, state: Any, action: Any) -> tuple[Any, Any]:
        """`step`, and its expected result: `step_env`, followed by `reset_env` if the episode ended."""
        self.single_traces += 1
        env, params = self.env, self.params
        key_step, key_reset = self.env.split_key(self.wrap(bits))
        expected = auto_reset(env.step_env(key_step, state, action, params), env.reset_env(key_reset, params))
        return env.step(self.wrap(bits), state, action, params), expected

    def _pooled(self, bits: Any, state: Any, action: Any, reset_to: Any) -> Any:
        """`batch_step` with `reset_to`, and with parameters for each environment, though all the same."""
        return self.env.batch_step(self.wrap(bits), state, action, self.stacked_params(), reset_to, own_params=True)

    def _passed(self, bits: Any, state: Any, action: Any) -> Any:
        """`sub_states` of the step that `step` takes with the same arguments: leaves `[F, …]`."""
        return self.env.sub_states(self.env.split_key(self.wrap(bits))[0], state, action, self.params)

    def _edits(self, bits: Any, state: Any) -> tuple[Any, jax.Array, tuple[jax.Array, jax.Array]]:
        """Edits of B starts, whether their observations are in the space, observation and reward of a step from there.

        `bits` are `[B, 3, …]`, leaves of `state` `[B, …]`.
        """
        edited = jax.vmap(lambda b, s: self.env.mutate(self.wrap(b), s, self.params))(bits[:, 0], state)
        action = jax.vmap(self._random_action)(bits[:, 1])
        obs, _, reward, *_ = self.env.batch_step_env(self.wrap(bits[:, 2]), edited, action, self.params)
        return edited, self._inside(self.env.batch_observation(edited, self.params)), (obs, reward)

    def stacked_params(self) -> Any:
        """The parameters repeated for every lane, leaves `[B, …]`."""
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (BATCH, *np.shape(leaf))), self.params)

    def illegal_actions(self) -> np.ndarray:
        """One action outside the space for each lane, `[B, (N,) …]`."""
        space = self.env.action_space(self.params)
        if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
            values = [np.nan, np.inf, -np.inf, 1e30, -1e30, 100.0, -100.0, 3e38]
        else:
            top = max(space.nvec) if isinstance(space, MultiDiscrete) else getattr(space, "n", 2**20)
            values = [-1, top, 2**31 - 1, -(2**31), top + 1, -2, 1000 + top, -1000]
        shape = (BATCH, *self.shapes.action.shape)
        wanted = np.asarray(values).reshape(BATCH, *(1,) * (len(shape) - 1))
        return np.broadcast_to(wanted, shape).astype(space.dtype)


def _compiled(function: Callable[..., Any]) -> Any:
    """`jit` without optimisation: these programs run for milliseconds, and most of the time goes into compiling."""
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=options)


def record(programs: Programs, salt: int = 1) -> tuple[Any, Recording, Recording, int]:
    """`(resets, recording, strayed, steps)`: random steps until enough are made and an episode has ended.

    A recording is one chunk of them: the first in which an episode ends, or else the last. `strayed` is the first in
    which an observation leaves its space, or else the same; `steps` is the total.
    """
    resets = programs.resets(programs.keys(salt))
    state, recording, strayed, steps = resets[0][1], None, None, 0
    while steps < programs.wanted or (steps < _PATIENCE and not (recording and recording.done.any())):
        bits = programs.keys(salt + 1000 + steps, 2 * programs.num_steps * BATCH)
        state, latest = programs.chunk(state, *bits.reshape(2, programs.num_steps, BATCH, *bits.shape[1:]))
        steps += programs.num_steps
        if not (recording and recording.done.any()):
            recording = latest
        if not (strayed or latest.inside.all()):
            strayed = latest
    assert recording
    return resets, _on_host(recording), _on_host(strayed or recording), steps


def _on_host(recording: Recording) -> Recording:
    """The recording as NumPy arrays, but for states: they are used as inputs again, and may hold typed keys."""
    return to_numpy(recording)._replace(state=recording.state, next_state=recording.next_state)


def used_leaves(function: Callable[..., Any], *args: Any) -> np.ndarray:
    """True where anything that `function(*args)` returns depends on each leaf of the last argument, bool `[leaves]`.

    `args` are pytrees of arrays or of their shapes. A leaf counts as used if it takes part in a computation whose
    result is returned, even if its value turns out not to matter.
    """
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    _, used = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    count = len(jax.tree.leaves(args[-1]))
    return np.array(used[len(used) - count :], bool)


def params_used(shapes: Shapes, method: str) -> np.ndarray:
    """Which parameters affect the results of a method of the environment, bool `[leaves]`.

    `method` is a reset method, such as `"batch_reset"`, or a step method, such as `"step_env"`.
    """
    key = abstract_key()
    inputs = (key,) if "reset" in method else (key, shapes.state, shapes.action)
    if method.startswith("batch_"):
        inputs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype), inputs)
    return used_leaves(getattr(shapes.env, method), *inputs, shapes.params)
