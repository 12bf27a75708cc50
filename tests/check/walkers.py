"""Two small good environments, `Walk` and `Race`, and what it takes to break one promise of theirs at a time."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxrl import Environment, MultiAgentEnvironment, check_env
from jaxrl.check import ContractError
from jaxrl.check.dynamic import Run
from jaxrl.check.rollout import Programs, record
from jaxrl.check.static import Failure, Shapes
from jaxrl.environment import as_arrays
from jaxrl.spaces import Box, Discrete


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    size: Any = 0.1
    max_steps: Any = 12


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    position: jax.Array
    step: jax.Array
    key: jax.Array  # a state may hold a typed key


class Walk(Environment):
    """A random walker on a line that is pushed left, not at all or right, and ends at +-1."""

    name = "walk"

    @property
    def default_params(self) -> Any:
        return as_arrays(Params())

    def observation_space(self, params: Any = None) -> Any:
        return Box(-1.5, 1.5, (1,))

    def action_space(self, params: Any = None) -> Any:
        return Discrete(3)

    def reset_env(self, key: Any, params: Any) -> Any:
        key, kept = jax.random.split(key)
        position = jax.random.uniform(key, (), jnp.float32, -0.3, 0.3)
        state = State(position, jnp.zeros((), jnp.int32), kept)
        return self.observe(state), state

    def observe(self, state: Any) -> Any:
        return state.position[None]

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        push = self.action_space().clip(action).astype(jnp.float32) - 1.0
        gust = jax.random.uniform(key, (), jnp.float32, -0.1, 0.1)
        position = state.position + params.size * (push + gust)
        after = dataclasses.replace(state, position=position, step=state.step + 1)
        terminated = jnp.abs(position) >= 1.0
        truncated = (after.step >= params.max_steps) & ~terminated
        return self.observe(after), after, -jnp.abs(position), terminated, truncated, {"far": jnp.abs(position)}


class Race(Walk, MultiAgentEnvironment):
    """Two walkers with a push each; the second cannot go right."""

    name = "race"
    agents = ("one", "two")

    @property
    def agent_action_spaces(self) -> Any:
        return {"one": Discrete(3), "two": Discrete(2)}

    @property
    def agent_observation_spaces(self) -> Any:
        return {agent: self.observation_space() for agent in self.agents}

    def action_mask(self, state: Any, params: Any = None) -> Any:
        return jnp.asarray([[True, True, True], [True, True, False]])

    def global_state(self, state: Any, params: Any = None) -> Any:
        return state.position[None]

    def observe(self, state: Any) -> Any:
        return jnp.broadcast_to(state.position, (2, 1))

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        pushes = self.action_space().clip(action)
        obs, after, reward, *rest = super().step_env(key, state, pushes.sum() // 2, params)
        return obs, after, jnp.broadcast_to(reward, (2,)), *rest


class Broken(list[Any]):
    """Cases for `parametrize`: the classes decorated by it, with the check that must find what they break."""

    def __call__(self, check: str, message: str) -> Any:
        """Marks a class as breaking a promise that `check` must find, saying `message` (a pattern)."""

        def mark(cls: Any) -> Any:
            self.append(pytest.param(cls, check, message, id=cls.__name__))
            return cls

        return mark


def altered(**changes: Any) -> Any:
    """A `step_env` whose returned parts are changed by functions of (part, state before)."""
    names = ("obs", "state", "reward", "terminated", "truncated", "info")

    def step_env(self: Any, key: Any, state: Any, action: Any, params: Any) -> Any:
        base = Race if isinstance(self, Race) else Walk
        parts: dict[str, Any] = dict(zip(names, base.step_env(self, key, state, action, params), strict=True))
        for name, change in changes.items():
            parts[name] = change(parts[name], state)
        return tuple(parts.values())

    return step_env


def must_be_found(env: Environment, check: str, message: str) -> None:
    """Fail unless `check_env` finds what is broken by that check, and says so."""
    with pytest.raises(ContractError, match=message) as caught:
        check_env(env, num_steps=16)
    assert check in [failure.check for failure in caught.value.failures]


def found_by(check: Callable[[Run], Iterator[Failure]], env: Environment) -> list[str]:
    """What one of the running checks says alone, which compiles less than all of them."""
    with jax.debug_key_reuse(False):
        programs = Programs(Shapes(env, env.default_params), jax.random.key(0), num_steps=16)
        return [f"{problem} {advice}" for problem, advice, _ in check(Run(programs, *record(programs)))]
