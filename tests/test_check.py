"""check_env finds what is broken, and says so; it lets the good ones pass.

`Walk` and `Race` are small good environments. Each class below them breaks one promise; the test names the check that
must find it and what it must say.
"""

import dataclasses
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import Environment, MultiAgentEnvironment, check_env
from jaxrl.check import ContractError
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


BROKEN: list[Any] = []


def breaks(check: str, message: str) -> Any:
    """Marks a class as breaking a promise that `check` must find."""

    def mark(cls: Any) -> Any:
        BROKEN.append(pytest.param(cls, check, message, id=cls.__name__))
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


# Found by tracing.


@breaks("observation_type", r"shape \[2\], the space promises \[1\]")
class WrongShape(Walk):
    def observe(self, state):
        return jnp.stack([state.position] * 2)


@breaks("observation_type", "dtype int32, the space promises float32")
class WrongDtype(Walk):
    def observe(self, state):
        return state.step[None]


@breaks("state_type", "state of another tree")
class ChangingTree(Walk):
    step_env = altered(state=lambda after, _: (after, 0))


@breaks("state_type", r"state.step is int32\[\] after reset_env and float32\[\] after step_env")
class ChangingState(Walk):
    step_env = altered(state=lambda after, _: dataclasses.replace(after, step=after.step * jnp.float32(1)))


@breaks("reward_and_flags", r"reward is int32\[\]. Return float32\[\]")
class IntegerReward(Walk):
    step_env = altered(reward=lambda reward, _: reward.astype(jnp.int32))


@breaks("reward_and_flags", r"reward is float32\[\]. Return float32\[2\]")
class OneRewardForTwo(Race):
    step_env = altered(reward=lambda reward, _: reward[0])


@breaks("reward_and_flags", r"terminated is float32\[\]. Return bool\[\]")
class FloatFlag(Walk):
    step_env = altered(terminated=lambda flag, _: flag.astype(jnp.float32))


@breaks("reward_and_flags", r"truncated is bool\[2\]. Return bool\[\]")
class FlagAnAgent(Race):
    step_env = altered(truncated=lambda flag, _: jnp.broadcast_to(flag, (2,)))


@breaks("teams", "The members of team 0 have different rewards")
class UnequalTeam(Race):
    teams: Any = (0, 0)
    step_env = altered(reward=lambda reward, _: reward * jnp.asarray([1.0, 2.0], jnp.float32))


@breaks("agents", r"teams is \(0, 2\) for 2 agents. Give one number an agent")
class GapInTeams(Race):
    teams: Any = (0, 2)


@breaks("agents", r"roles is \(0,\) for 2 agents")
class MissingRole(Race):
    roles: Any = (0,)


@breaks("info", "info is a list")
class ListInfo(Walk):
    step_env = altered(info=lambda info, _: [info["far"]])


@breaks("info", r'info\["won"\] is not one boolean')
class WonNumber(Walk):
    step_env = altered(info=lambda info, _: {"won": info["far"]})


@breaks("weak_types", "reward of step_env is weakly typed")
class WeakReward(Walk):
    step_env = altered(reward=lambda _, state: jnp.where(state.step > 3, 1.0, 0.0))


@breaks("wide_types", "With jax_enable_x64 these have 64 bits: observation of reset_env, state.position of reset_env")
class Widening(Walk):
    def reset_env(self, key, params):
        _, state = super().reset_env(key, params)
        state = dataclasses.replace(state, position=state.position + jnp.zeros(()))
        return self.observe(state), state


@breaks("params", "params.size is a Python float. Pass it through jaxrl.environment.as_arrays")
class PythonParams(Walk):
    @property
    def default_params(self):
        return Params()


@breaks("params", "params.size is float64")
class WideParams(Walk):
    @property
    def default_params(self):
        return Params(np.float64(0.1), np.int32(12))


@breaks("pure", "Tracing step_env twice gives two programs")
class Counting(Walk):
    count = 0

    def step_env(self, key, state, action, params):
        self.count += 1
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        return obs, after, reward + self.count, *rest


@breaks("pure", "Tracing step_env twice gives two programs")
class PythonRandomness(Walk):
    step_env = altered(reward=lambda reward, _: reward + np.float32(np.random.random()))


@breaks("pure", "keeps a traced value in self.last")
class Remembering(Walk):
    def step_env(self, key, state, action, params):
        self.last = state.position
        return super().step_env(key, state, action, params)


@breaks("pure", "calls back to Python")
class CallingBack(Walk):
    step_env = altered(reward=lambda r, _: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), r))


@breaks("trace", "cannot be traced by jax.jit.*Use jnp.where or jax.lax.cond")
class PythonIf(Walk):
    def step_env(self, key, state, action, params):
        if state.position > 0:
            action = action + 1
        return super().step_env(key, state, action, params)


@breaks("trace", "step_env does not return six values")
class FiveValues(Walk):
    def step_env(self, key, state, action, params):
        obs, after, reward, terminated, _, info = super().step_env(key, state, action, params)
        return obs, after, reward, terminated, info


@breaks("trace", "reset_env or step_env raises KeyError: 'wind'")
class Raising(Walk):
    def step_env(self, key, state, action, params):
        return {}["wind"]


@breaks("spaces", r"action_space\(\) returned a int")
class NumberForSpace(Walk):
    def action_space(self, params=None):
        return 3


@breaks("agents", "Two agents have the same name")
class SameNames(Race):
    agents = ("one", "one")


@breaks("agents", r"The keys of agent_action_spaces are \('one', 'two'\), the agents \('one', 'zwei'\)")
class OtherKeys(Race):
    agents = ("one", "zwei")


@breaks("agents", r"agent_action_spaces\['two'\] is Discrete\(n=9\), which does not fit")
class TooLargeForPadding(Race):
    @property
    def agent_action_spaces(self):
        return {"one": Discrete(3), "two": Discrete(9)}


@breaks("views_type", r"action_mask is bool\[3\]. Return bool\[2, 3\]")
class MaskForOne(Race):
    def action_mask(self, state, params=None):
        return jnp.ones(3, bool)


@breaks("views_type", r"agent_mask is float32\[2\]. Return bool\[2\]")
class FloatAgentMask(Race):
    def agent_mask(self, state, params=None):
        return jnp.ones(2, jnp.float32)


@breaks("views_type", r"global_state is float32\[1, 1\]. Return one vector")
class MatrixGlobalState(Race):
    def global_state(self, state, params=None):
        return state.position[None, None]


# Found by running.


@breaks("reset", "after reset is not in observation_space")
class StartsOutside(Walk):
    def observation_space(self, params=None):
        return Box(0.0, 1.5, (1,))


@breaks("reset", "batch_reset differs from vmap")
class OtherBatchReset(Walk):
    def batch_reset(self, keys, params=None):
        return super().batch_reset(keys[::-1], params)


@breaks("observations", r"leaves observation_space\(\) after random actions \(largest magnitude")
class WalksOutside(Walk):
    def observation_space(self, params=None):
        return Box(-0.5, 0.5, (1,))


@breaks("observations", "An observation is not finite")
class NanLater(Walk):
    def observe(self, state):
        return jnp.where(state.step > 3, jnp.nan, state.position)[None]


@breaks("rewards", "A reward is not finite")
class InfiniteReward(Walk):
    step_env = altered(reward=lambda reward, state: reward / (state.step != 5))


@breaks("flags", "terminated and truncated at once")
class BothFlags(Walk):
    step_env = altered(truncated=lambda truncated, state: state.step >= 4, terminated=lambda t, state: state.step >= 4)


@breaks("views", r"observation\(state\) is not the observation that step returned")
class OtherObservation(Walk):
    def observation(self, state, params=None):
        return state.position[None] + 1.0


@breaks("views", "action mask is False for every action")
class NothingAllowed(Walk):
    def action_mask(self, state, params=None):
        return jnp.broadcast_to(state.step < 6, (3,))


@breaks("views", r"lets two choose actions beyond its own Discrete\(n=2\). Mask the padding")
class OpenPadding(Race):
    def action_mask(self, state, params=None):
        return jnp.ones((2, 3), bool)


@breaks("views", "global state is not finite")
class InfiniteGlobalState(Race):
    def global_state(self, state, params=None):
        return (1.0 / (state.step - 3).astype(jnp.float32))[None]


@breaks("key_use", "reset_env draws, but not from the given key")
class FixedResetKey(Walk):
    def reset_env(self, key, params):
        return super().reset_env(jax.random.key(7), params)


@breaks("key_use", "step_env draws, but not from the given key")
class FixedStepKey(Walk):
    def step_env(self, key, state, action, params):
        return super().step_env(jax.random.key(7), state, action, params)


@breaks("jit", "consumes a random key twice.*Split the key")
class KeyUsedTwice(Walk):
    def step_env(self, key, state, action, params):
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        return obs, after, reward + jax.random.uniform(key, (), jnp.float32), *rest


@breaks("vmap", "batch_step differs from vmap.*reward")
class OtherBatchStep(Walk):
    def batch_step(self, keys, state, action, params=None, reset_to=None) -> Any:
        obs, after, reward, *rest = super().batch_step(keys, state, action, params, reset_to)
        return obs, after, reward - reward.mean(), *rest


@breaks("auto_reset", r"step is not step_env followed by an auto-reset: info\['final_observation'\]")
class LostFinalObservation(Walk):
    def step(self, key, state, action, params=None) -> Any:
        obs, *rest, info = super().step(key, state, action, params)
        return obs, *rest, {**info, "final_observation": obs}


@breaks("auto_reset", "step is not step_env followed by an auto-reset: observation")
class NoReset(Walk):
    def step(self, key, state, action, params=None) -> Any:
        params = self._params(params)
        key, _ = jax.random.split(key)
        obs, *rest, info = self.step_env(key, state, action, params)
        return obs, *rest, {**info, "final_observation": obs}


@breaks("reset_to", "does not continue ended episodes from reset_to")
class IgnoresResetTo(Walk):
    def batch_step(self, keys, state, action, params=None, reset_to=None):
        return super().batch_step(keys, state, action, params)


@breaks("illegal_actions", "action -1 is outside the space")
class UnclippedDiscrete(Walk):
    def step_env(self, key, state, action, params):
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        return obs, after, reward + action.astype(jnp.float32), *rest


@breaks("illegal_actions", "action nan is outside the space")
class UnclippedBox(Walk):
    def action_space(self, params=None):
        return Box(-1.0, 1.0, (2,))

    def step_env(self, key, state, action, params):
        obs, after, reward, *rest = Walk().step_env(key, state, jnp.int32(1), params)
        return obs, after, reward + action.sum(), *rest


@breaks("jit", "step gives another reward with jit than without")
class KnowsJit(Walk):
    def step_env(self, key, state, action, params):
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        return obs, after, reward + float(isinstance(reward, jax.core.Tracer)), *rest


@breaks("render", r"render returns float64\[4, 4, 3\]. Return a NumPy array uint8")
class FloatPicture(Walk):
    def render(self, state, params=None):
        return np.zeros((4, 4, 3))


@pytest.mark.parametrize(("broken", "check", "message"), BROKEN)
def test_each_broken_promise_is_found_by_its_check(broken, check, message):
    with pytest.raises(ContractError, match=message) as caught:
        check_env(broken(), num_steps=16)
    assert check in [failure.check for failure in caught.value.failures]


@pytest.mark.quick
@pytest.mark.parametrize("good", [Walk, Race], ids=lambda cls: cls.__name__)
def test_good_environments_pass(good):
    assert check_env(good(), num_steps=16, key=jax.random.key(3)) is None


def test_all_that_is_broken_is_listed():
    class Broken(Walk):
        step_env = altered(
            reward=lambda reward, _: reward.astype(jnp.int32), terminated=lambda flag, _: flag.astype(jnp.int32)
        )

    with pytest.raises(ContractError) as caught:
        check_env(Broken())
    assert len(caught.value.failures) == 2
    lines = str(caught.value).splitlines()
    assert lines[0] == "The environment 'walk' breaks 2 promises of the environment contract:"
    assert len(lines) == 3
    for failure, line in zip(caught.value.failures, lines[1:], strict=True):
        assert failure.problem.endswith(".")
        assert failure.advice.endswith(".")
        assert line == f"- {failure.check}: {failure.problem} {failure.advice}"


@pytest.mark.quick
def test_what_is_no_environment_is_refused():
    with pytest.raises(TypeError, match=r"such as jaxrl\.make gives, not a str"):
        check_env("smax/3m")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="num_steps must be at least 1"):
        check_env(Walk(), num_steps=0)
