"""brax's environments as ours, `from_brax(env)`, and what MuJoCo Playground's have in common with them.

States of both have `obs`, `reward`, `done`, `metrics` and `info`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl import spaces
from jaxrl.config import MAX_COUNT, as_whole
from jaxrl.environment import Step, select
from jaxrl.interop.common import (
    Adapted,
    Extra,
    check_name,
    defaults,
    explained,
    fitting,
    narrow,
    observed,
    observed_space,
    raw_key,
)
from jaxrl.interop.split import Split, split_if_asked
from jaxrl.keys import abstract_key

with Extra("brax"):
    from brax import envs

__all__ = ["FromPhysics", "check_unwrapped", "from_brax", "make", "names"]

_PRIVILEGED = "privileged_state"
_ENDING = ("EpisodeWrapper", "AutoResetWrapper", "VmapWrapper")  # how the names of both libraries' wrappers end


def from_brax(env: Any, *, episode_length: int = 1000, action_repeat: int = 1) -> FromPhysics:
    """A brax environment as one of ours, so that it can be trained on.

    Actions are from -1 to 1. An episode in which brax says `done` is `terminated`. Of a dict of observations, those
    other than `privileged_state` are observed, as one vector if there are several; that one is the `global_state`, for
    a critic. JAX's 64-bit mode has no effect on it.

    Args:
        env: The environment that `brax.envs.get_environment` returned.
        episode_length: The number of brax's steps after which an episode is truncated.
        action_repeat: The number of brax's steps that each action lasts.

    Raises:
        TypeError: `env` is not a brax environment, or has a wrapper that ends or restarts episodes.
        ValueError: A number is not a whole number, or less than 1.
    """
    if not isinstance(env, envs.Env):
        hint = "from_brax(brax.envs.get_environment(name)), or jaxrl.make of a name such as brax:ant"
        raise TypeError(f"from_brax takes one of brax's environments, as in {hint}; not a {type(env).__name__}.")
    check_unwrapped(env, "from_brax")
    return FromPhysics(env, f"brax:{type(env.unwrapped).__name__.lower()}", episode_length, action_repeat)


def names() -> list[str]:
    """Brax's names for its environments."""
    return list(envs._envs)


def make(
    name: str,
    *,
    episode_length: int = 1000,
    action_repeat: int = 1,
    split: Any = None,
    observe_joints: Any = None,
    **options: Any,
) -> FromPhysics | Split:
    """`from_brax(brax.envs.get_environment(name, **options))`, such as `backend="spring"`; a team with a `split`.

    Raises:
        UnknownNameError: brax has no environment of that name.
        TypeError: It has no such option.
        ValueError: An option cannot have this value.
        NotImplementedError: It does not run with this version of jax.
    """
    check_name("brax", name, names())
    if name == "swimmer" and "a_min" not in inspect.signature(jnp.clip).parameters:
        raise NotImplementedError(
            f"brax:swimmer does not run with jax {jax.__version__}: brax computes the water's forces with an argument "
            f"that jnp.clip has no longer; MuJoCo Playground's is mjx:SwimmerSwimmer6."
        )
    clock = {"episode_length": episode_length, "action_repeat": action_repeat}
    own = defaults(envs.PipelineEnv) | defaults(envs._envs[name])  # which most hand on
    del own["sys"]  # the bodies, which the class itself decides
    given = fitting(f"brax:{name}", options, own | clock | {"split": split, "observe_joints": observe_joints})
    with jax.enable_x64(False), explained("brax", name):
        theirs = envs.get_environment(name, **given)
    return split_if_asked(from_brax(theirs, **clock), split, observe_joints)


class PhysicsState(NamedTuple):
    """The library's state, and its control steps so far."""

    env_state: Any
    step: jax.Array


class FromPhysics(Adapted):
    """An environment with `reset(key)` and `step(state, action)` as brax has them, as one of ours.

    Both libraries leave the clock to a wrapper, so it is here: an episode is truncated after `episode_length` of the
    library's steps, of which ours has `action_repeat`. The rest of a step is not simulated once `done` ends the
    episode. `info` has the library's metrics.

    Args:
        env: The library's environment, without wrappers that end or restart episodes.
        name: The name that messages and pictures show.
        episode_length: The number of the library's steps after which the clock ends an episode.
        action_repeat: The number of the library's steps that each action lasts; their rewards are added up.

    Raises:
        ValueError: One of the numbers is not a whole number, or less than 1.
    """

    intended = ("endless", "same_start")  # most episodes last a thousand steps; brax's `fast` always starts alike

    def __init__(self, env: Any, name: str, episode_length: int, action_repeat: int) -> None:
        self.env = env
        self.name = name
        self.episode_length = as_whole("episode_length", episode_length, most=MAX_COUNT)
        self.action_repeat = as_whole("action_repeat", action_repeat, most=MAX_COUNT)
        state = jax.eval_shape(self._begun, abstract_key())
        self._observation_space = observed_space(_policys(state.obs))
        self._knows_more = isinstance(state.obs, Mapping) and _PRIVILEGED in state.obs and len(state.obs) > 1
        self._action_space = spaces.Box(-1.0, 1.0, (int(env.action_size),))

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, PhysicsState]:
        state = PhysicsState(self._begun(key), jnp.zeros((), jnp.int32))
        return self.observation(state), state

    def step_env(self, key: jax.Array, state: PhysicsState, action: jax.Array, params: Any) -> Step:
        after, reward = narrow(self._repeated, state.env_state, self._action_space.clip(action))
        step = state.step + self.action_repeat
        terminated = jnp.asarray(after.done, bool)
        truncated = (step >= self.episode_length) & ~terminated
        state = PhysicsState(after, step)
        return self.observation(state), state, reward, terminated, truncated, dict(after.metrics)

    def observation(self, state: PhysicsState, params: Any = None) -> jax.Array:
        return observed(_policys(state.env_state.obs))

    @property
    def mj_model(self) -> Any:
        """MuJoCo's model of the body; None if there is none."""
        model = getattr(self.env, "mj_model", None)  # Playground's; brax has it in its system
        return getattr(getattr(self.env, "sys", None), "mj_model", None) if model is None else model

    def joint_state(self, state: PhysicsState) -> tuple[jax.Array, jax.Array]:
        """The positions and velocities of all joints, MuJoCo's `qpos` and `qvel`."""
        if hasattr(state.env_state, "pipeline_state"):
            return state.env_state.pipeline_state.q, state.env_state.pipeline_state.qd
        return state.env_state.data.qpos, state.env_state.data.qvel

    @property
    def has_global_state(self) -> bool:
        """True if the library has an observation that is for a critic alone."""
        return self._knows_more

    def global_state(self, state: PhysicsState, params: Any = None) -> jax.Array:
        """The library's privileged state, as one vector."""
        if not self._knows_more:
            return super().global_state(state, params)
        return observed(jax.tree.leaves(state.env_state.obs[_PRIVILEGED]))

    def _begun(self, key: jax.Array) -> Any:
        """The library's first state. Its keys are of the old kind: both use some twice, and keep others in states."""
        return narrow(self.env.reset, raw_key(key))

    def _repeated(self, state: Any, action: jax.Array) -> tuple[Any, jax.Array]:
        """The state after a step of ours, and its reward."""
        if self.action_repeat == 1:
            after = self._once(state, action)
            return after, _number(after.reward)

        def again(carry: tuple[Any, jax.Array], _: None) -> tuple[tuple[Any, jax.Array], None]:
            before, total = carry
            after, over = self._once(before, action), jnp.asarray(before.done, bool)
            return (select(over, before, after), total + jnp.where(over, 0.0, _number(after.reward))), None

        return jax.lax.scan(again, (state, jnp.zeros((), jnp.float32)), length=self.action_repeat)[0]

    def _once(self, state: Any, action: jax.Array) -> Any:
        copied = jax.tree.map(lambda leaf: leaf, state)  # both libraries write into the dicts of the state they step
        return self.env.step(copied, action)


def check_unwrapped(env: Any, taker: str) -> None:
    """Raise TypeError if a wrapper around `env` ends, restarts or batches episodes; `taker` is in the message."""
    layer = env
    while layer is not None:
        if (kind := type(layer).__name__).endswith(_ENDING):
            raise TypeError(
                f"{taker} ends, restarts and batches episodes itself and takes an environment without {kind}: give "
                f"env.unwrapped, and episode_length and action_repeat to {taker}."
            )
        layer = vars(layer).get("env")


def _policys(obs: Any) -> Any:
    """The observation of the policy: nothing that is privileged, and a single entry of a dict as it is."""
    if not isinstance(obs, Mapping):
        return obs
    open_to_it = {name: value for name, value in obs.items() if name != _PRIVILEGED} or dict(obs)
    return next(iter(open_to_it.values())) if len(open_to_it) == 1 else open_to_it


def _number(reward: Any) -> jax.Array:
    return jnp.asarray(reward, jnp.float32).reshape(())
