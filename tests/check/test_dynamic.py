"""Promises that show when the environment runs. Each class breaks one; the decorator names the check for it."""

import dataclasses
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import pytest
from walkers import Broken, Race, Walk, altered, must_be_found

from jaxrl import check_env
from jaxrl.check import ContractError
from jaxrl.spaces import Box

breaks = Broken()


@breaks("reset", "after reset is not in observation_space")
class StartsOutside(Walk):
    def observation_space(self, params=None):
        return Box(0.0, 1.5, (1,))


@breaks("reset", "batch_reset differs from vmap")
class OtherBatchReset(Walk):
    def batch_reset(self, keys, params=None, *, own_params=False):
        return super().batch_reset(keys[::-1], params, own_params=own_params)


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


@breaks("teams", "The members of team 0 have different rewards")
class UnequalTeam(Race):
    teams: Any = (0, 0)
    step_env = altered(reward=lambda reward, _: reward * jnp.asarray([1.0, 2.0], jnp.float32))


@breaks("won", r'info\["won"\] is True in a step that does not end the episode. Make it True only in the step')
class WonBeforeTheEnd(Walk):
    step_env = altered(info=lambda _, state: {"won": state.position > 0})


@breaks("won", r'info\["won"\] depends on neither state nor action')
class WonInAnyCase(Walk):
    step_env = altered(
        info=lambda _, state: {"won": jnp.ones((), bool)},
        terminated=lambda t, _: t | True,
        truncated=lambda t, _: t & False,
    )


@breaks(
    "batch_params", "batch_step ignores params.size, params.max_steps, unlike reset_env and step_env. Pass params on"
)
class BatchOfDefaults(Walk):
    def batch_step(self, keys, state, action, params=None, reset_to=None, *, own_params=False):
        return super().batch_step(keys, state, action, None, reset_to)


@breaks("batch_params", "step ignores params.size, params.max_steps, unlike")
class StepOfDefaults(Walk):
    def step(self, key, state, action, params=None):
        return super().step(key, state, action)


@breaks("batch_params", "batch_reset ignores params.max_steps")
class BatchResetOfDefaults(Walk):
    def reset_env(self, key, params):
        obs, state = super().reset_env(key, params)
        return obs, dataclasses.replace(state, step=params.max_steps // 12 - 1)

    def batch_reset(self, keys, params=None, *, own_params=False):
        return super().batch_reset(keys)


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


@breaks("jit", "consumes a random key twice.*Split the key")
class KeyUsedTwice(Walk):
    def step_env(self, key, state, action, params):
        obs, after, reward, *rest = super().step_env(key, state, action, params)
        return obs, after, reward + jax.random.uniform(key, (), jnp.float32), *rest


@breaks("vmap", "batch_step differs from vmap.*reward")
class OtherBatchStep(Walk):
    def batch_step(self, keys, state, action, params=None, reset_to=None, *, own_params=False) -> Any:
        obs, after, reward, *rest = super().batch_step(keys, state, action, params, reset_to, own_params=own_params)
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


@breaks("reset_to", "batch_step with reset_to and own_params=True differs in observation.*Continue ended episodes")
class IgnoresResetTo(Walk):
    def batch_step(self, keys, state, action, params=None, reset_to=None, *, own_params=False):
        return super().batch_step(keys, state, action, params, own_params=own_params)


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


class Movable(Walk):
    """A start can be moved."""

    def observation(self, state, params=None):
        return state.position[None]

    def mutate(self, key, state, params=None):
        moved = state.position + jax.random.uniform(key, (), jnp.float32, -0.1, 0.1)
        return dataclasses.replace(state, position=jnp.clip(moved, -0.3, 0.3))


def mutated(change):
    """A `mutate` that returns what `change(key, state)` makes."""

    def mutate(self, key, state, params=None):
        return change(key, state)

    return mutate


def moved_to(position):
    return mutated(lambda key, state: dataclasses.replace(state, position=position(key, state)))


@breaks("mutate", r"mutate changes nothing in any of 100 tries. Change something that differs from start to start")
class EditsNothing(Movable):
    mutate = mutated(lambda key, state: state)


@breaks("state_type", r"mutate returns a state of another tree than reset_env: .*Build the same")
class EditsToPair(Movable):
    mutate = mutated(lambda key, state: (state, state))


@breaks("state_type", r"state.position is float32\[\] after reset_env and float32\[1\] after mutate")
class EditsShape(Movable):
    mutate = moved_to(lambda key, state: state.position[None])


@breaks("state_type", r"state.position is float32\[\] after reset_env and int32\[\] after mutate")
class EditsType(Movable):
    mutate = moved_to(lambda key, state: jnp.int32(0))


@breaks("trace", r"step_env or mutate raises AttributeError: .*speed.*Call them once by hand")
class EditsWhatIsNotThere(Movable):
    mutate = moved_to(lambda key, state: state.speed)


@breaks("mutate", r"An observation after mutate is not in observation_space\(\). Return only starts")
class EditsOutside(Movable):
    mutate = moved_to(lambda key, state: jnp.float32(2))


@breaks("mutate", r"An observation or a reward is not finite one step after mutate. Edit all that depends")
class EditsPastTheStep(Movable):
    step_env = altered(reward=lambda reward, state: reward / (state.position != 0))
    keeps_observation = True
    mutate = moved_to(lambda key, state: jnp.float32(0))


@breaks("pure", "Tracing mutate twice gives two programs: .*draw with jax.random from the key")
class EditsByCount(Movable):
    count = 0

    def mutate(self, key, state, params=None):
        type(self).count += 1
        return dataclasses.replace(state, position=jnp.float32(0.001 * self.count))


@breaks("mutate", "mutate consumes a random key twice.*Split the key")
class EditsByOneKey(Movable):
    mutate = moved_to(lambda key, state: 0.1 * jax.random.uniform(key) * jax.random.uniform(key))


@pytest.mark.quick
def test_edits_as_they_should_be():
    assert Movable().has_mutate
    check_env(Movable(), num_steps=16)


class Winnable(Walk):
    """Whoever gets to the right end has won."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, after, reward, terminated, truncated, _ = super().step_env(key, state, action, params)
        return obs, after, reward, terminated, truncated, {"won": terminated & (after.position > 0)}

    def batch_step(
        self,
        keys: Any,
        state: Any,
        action: Any,
        params: Any = None,
        reset_to: Any = None,
        *,
        own_params: bool = False,
    ) -> Any:
        """Its own, and with the given parameters."""
        return super().batch_step(keys, state, action, params, reset_to, own_params=own_params)


@pytest.mark.quick
def test_wins_and_parameters_as_they_should_be():
    check_env(Winnable(), num_steps=16)


@pytest.mark.parametrize(("broken", "check", "message"), breaks)
def test_each_broken_promise_is_found_by_its_check(broken, check, message):
    must_be_found(broken(), check, message)


class RarelyOutside(Walk):
    """About 3 of 1,000 observations are outside of the space."""

    def observe(self, state):
        chance = jax.random.uniform(jax.random.fold_in(state.key, state.step), (), jnp.float32)
        return jnp.where(chance < 0.003, 2.0, state.position)[None]


@pytest.mark.parametrize("seed", [0, 1])
def test_an_observation_is_found_that_is_rarely_outside(seed):
    with pytest.raises(ContractError, match=r"observations: An observation leaves .* \(largest magnitude 2\)"):
        check_env(RarelyOutside(), key=jax.random.key(seed))
