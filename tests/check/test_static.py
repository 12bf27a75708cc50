"""Promises that show in traces. Each class breaks one; the decorator names the check that must find it."""

import dataclasses
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import pytest
from walkers import Broken, Params, Race, Walk, altered, must_be_found

from jaxrl.spaces import Box, Discrete

breaks = Broken()


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


@breaks("state_type", "reset_env returns a state without an array. Give it one")
class NoState(Walk):
    def reset_env(self, key, params):
        return super().reset_env(key, params)[0], ()

    def step_env(self, key, state, action, params):
        obs, _, *rest = super().step_env(key, super().reset_env(key, params)[1], action, params)
        return obs, (), *rest


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


@breaks("agents", r"teams is \(0, 2\) for 2 agents. Give one number an agent")
class GapInTeams(Race):
    teams: Any = (0, 2)


@breaks("agents", r"roles is \(0,\) for 2 agents")
class MissingRole(Race):
    roles: Any = (0,)


@breaks("info", "info is a list")
class ListInfo(Walk):
    step_env = altered(info=lambda info, _: [info["far"]])


@breaks("info", r"info\['told'\] has no axis of 2 agents, but agent_info names it. Give it")
class NotOfAgents(Race):
    agent_info = ("told",)
    step_env = altered(info=lambda info, _: {**info, "told": jnp.zeros(3)})


@breaks("info", r'info\["won"\] is not one boolean')
class WonNumber(Walk):
    step_env = altered(info=lambda info, _: {"won": info["far"]})


@breaks("weak_types", "reward of step_env is weakly typed")
class WeakReward(Walk):
    step_env = altered(reward=lambda _, state: jnp.where(state.step > 3, 1.0, 0.0))


@breaks(
    "wide_types", "observation of reset_env, state.position of reset_env, .*, at test_static.py:.*: position = .* zero"
)
class Widening(Walk):
    def reset_env(self, key, params):
        _, state = super().reset_env(key, params)
        zero = jnp.zeros(())
        position = state.position + zero
        state = dataclasses.replace(state, position=position)
        return self.observe(state), state


@breaks(
    "wide_types", r"reward of step_env, at test_static.py:\d+: noise = jax.random.normal\(key\). Give the dtype where"
)
class WideDraw(Walk):
    """The line named is that of the draw, not that of the sum which spreads it."""

    def step_env(self, key, state, action, params):
        key, key_noise = jax.random.split(key)
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        noise = draw(key_noise)
        return obs, after, reward + 2 * noise, *rest


def draw(key: jax.Array) -> jax.Array:
    noise = jax.random.normal(key)
    return jnp.stack([noise, noise]).sum()


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


@breaks("spaces", r"observation_space\(\) has the shape \[0\], without a number")
class NothingToSee(Walk):
    def observation_space(self, params=None):
        return Box(-1.0, 1.0, (0,))

    def observe(self, state):
        return jnp.zeros(0, jnp.float32)


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


@breaks("agents", "agent_action_spaces is a tuple. Make it a dict")
class SpacesWithoutNames(Race):
    @property
    def agent_action_spaces(self):
        return Discrete(3), Discrete(3)


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


@breaks("key_use", "reset_env draws, but not from the given key")
class FixedResetKey(Walk):
    def reset_env(self, key, params):
        return super().reset_env(jax.random.key(7), params)


@breaks("key_use", "step_env draws, but not from the given key")
class FixedStepKey(Walk):
    def step_env(self, key, state, action, params):
        return super().step_env(jax.random.key(7), state, action, params)


@pytest.mark.parametrize(("broken", "check", "message"), breaks)
def test_each_broken_promise_is_found_by_its_check(broken, check, message):
    must_be_found(broken(), check, message)
