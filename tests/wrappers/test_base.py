"""A wrapper forwards everything, for one environment and for B in the kernel of the environment inside."""

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import check_env
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.envs.classic import CartPole
from jaxrl.wrappers import (
    ActionRepeat,
    Flatten,
    FrameStack,
    ObservationFunction,
    RandomParams,
    RewardFunction,
    StickyActions,
    TimeLimit,
    Wrapper,
    as_multi_agent,
)
from jaxrl.wrappers.base import _Team

B = 4
FOLLOWS = {"reset", "step", "render", "num_agents", "made_as"}
"""What follows from the methods that a wrapper forwards, and the name of which a wrapped environment is no longer."""


def same_params(key: jax.Array, params: Any, progress: Any) -> Any:
    return params


ALL = {
    "Wrapper": Wrapper,
    "RewardFunction": lambda env: RewardFunction(env, lambda taken: 2 * taken.reward),
    "ObservationFunction": lambda env: ObservationFunction(env, jnp.tanh),
    "Flatten": Flatten,
    "TimeLimit": lambda env: TimeLimit(env, 9),
    "FrameStack": lambda env: FrameStack(env, 2),
    "StickyActions": StickyActions,
    "ActionRepeat": lambda env: ActionRepeat(env, 2),
    "RandomParams": lambda env: RandomParams(env, same_params),
    "several": lambda env: TimeLimit(FrameStack(RandomParams(StickyActions(env), same_params), 2), 20),
}
every_wrapper = pytest.mark.parametrize("wrap", ALL.values(), ids=ALL)


def public(kind: type) -> set[str]:
    own = ("name", "intended", "action_names", "keeps_observation")  # each wrapper has them as attributes
    return {name for name in vars(kind) if not name.startswith("_") and name not in own}


@pytest.mark.quick
def test_everything_that_environments_have_is_forwarded():
    """A new method or property of environments has to be forwarded as well."""
    assert public(Environment) - public(Wrapper) == FOLLOWS - {"num_agents"}
    assert public(MultiAgentEnvironment) - public(Wrapper) - public(_Team) == {"num_agents"}


@pytest.mark.quick
@every_wrapper
def test_a_wrapped_team_is_a_team(wrap: Any):
    inside = jaxrl.make("mpe/simple_tag")
    env: Any = wrap(inside)
    assert isinstance(env, MultiAgentEnvironment)
    assert env.unwrapped is inside  # pyright: ignore[reportAttributeAccessIssue]
    assert (env.name, env.agents, env.teams, env.roles) == (inside.name, inside.agents, inside.teams, inside.roles)
    assert env.action_names == inside.action_names
    assert (env.kinds, env.num_agents) == (inside.kinds, inside.num_agents)
    assert not isinstance(wrap(CartPole()), MultiAgentEnvironment)


@pytest.mark.quick
@every_wrapper
def test_an_environment_has_masks_if_the_one_inside_has_them(wrap: Any):
    for inside, masks in ((jaxrl.make("smax/3m"), True), (CartPole(), False), (as_multi_agent(CartPole()), False)):
        assert (inside.has_action_mask, wrap(inside).has_action_mask) == (masks, masks)


@every_wrapper
@pytest.mark.parametrize("name", ["classic/cartpole", "mpe/simple_spread"])
def test_a_wrapped_environment_can_be_copied(wrap: Any, name: str):
    wrapped = wrap(jaxrl.make(name))
    for copied in (copy.copy(wrapped), copy.deepcopy(wrapped)):
        assert type(copied) is type(wrapped)
        obs = [jax.eval_shape(env.reset, jax.random.key(0))[0] for env in (wrapped, copied)]
        assert obs[0] == obs[1]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["classic/cartpole", "smax/3m"])
def test_a_wrapped_environment_can_be_pickled(name: str):
    """As a pool of processes needs it."""
    wrapped: Any = TimeLimit(FrameStack(RandomParams(jaxrl.make(name), same_params), 2), 20)
    again = pickle.loads(pickle.dumps(wrapped))
    assert type(again) is type(wrapped)
    assert (again.name, again.max_steps) == (name, 20)
    obs = [jax.eval_shape(env.reset, jax.random.key(0))[0] for env in (wrapped, again)]
    assert obs[0] == obs[1]


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda env: TimeLimit(env, 9), marks=pytest.mark.slow),
        lambda env: RandomParams(env, same_params),
        pytest.param(
            lambda env: RandomParams(env, jax.tree.map(lambda leaf: np.stack([leaf, leaf]), env.default_params)),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_wrapped_game_has_its_script(wrap: Any):
    game = wrap(jaxrl.make("smax/3m?mode=selfplay&own_losses=0"))
    allies = game.against_script()
    assert allies.agents == ("ally_0", "ally_1", "ally_2")
    assert game.num_agents == 6
    _, state = jax.jit(allies.reset)(jax.random.key(0))
    jax.jit(allies.step)(jax.random.key(1), state, jnp.zeros(3, jnp.int32))


def test_rules_do_not_read_what_a_function_makes_of_observations():
    hanabi = jaxrl.make("hanabi/2p")
    limited = TimeLimit(hanabi, 9)
    assert isinstance(limited, MultiAgentEnvironment)
    assert limited.scripted_policy is not None
    changed = ObservationFunction(hanabi, lambda obs: ~obs)
    assert isinstance(changed, MultiAgentEnvironment)
    assert changed.scripted_policy is None


@pytest.mark.quick
def test_states_are_looked_at_by_the_environment_inside():
    inside = jaxrl.make("smax/3m")
    env: Any = TimeLimit(StickyActions(inside), 20)
    _, state = env.reset(jax.random.key(0))
    for name in ("observation", "action_mask", "agent_mask", "global_state"):
        np.testing.assert_array_equal(getattr(env, name)(state), getattr(inside, name)(state.env.env))
    assert env.has_global_state
    assert env.render(state).shape == inside.render(state.env.env).shape
    assert env.agent_action_spaces == inside.agent_action_spaces


class Counted(CartPole):
    """Counts how often its batched methods are traced."""

    def __init__(self) -> None:
        super().__init__()
        self.traced: list[str] = []

    def batch_reset(self, *args: Any, **options: Any) -> Any:
        self.traced.append("batch_reset")
        return super().batch_reset(*args, **options)

    def batch_step_env(self, *args: Any, **options: Any) -> Any:
        self.traced.append("batch_step_env")
        return super().batch_step_env(*args, **options)


@pytest.mark.quick
@every_wrapper
@pytest.mark.parametrize("team", [False, True])
def test_batches_go_through_the_kernel_inside(wrap: Any, team: bool):
    inside = Counted()
    env = as_multi_agent(wrap(inside)) if team else wrap(inside)
    keys = jax.random.split(jax.random.key(0), B)
    _, state = jax.eval_shape(env.batch_reset, keys)
    assert inside.traced == ["batch_reset"]
    jax.eval_shape(env.batch_step, keys, state, jax.ShapeDtypeStruct((B, 1)[: 1 + team], jnp.int32))
    assert set(inside.traced[1:]) == {"batch_reset", "batch_step_env"}


class Plain(CartPole):
    """Rewards and flags are Python's, where nothing is traced."""

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        obs, after, *_ = super().step_env(key, state, action, params)
        return obs, after, 1.0, False, False, {}


@pytest.mark.quick
@every_wrapper
@pytest.mark.parametrize("team", [False, True])
def test_numbers_and_flags_may_be_pythons(wrap: Any, team: bool):
    env = as_multi_agent(wrap(Plain())) if team else wrap(Plain())
    _, state = env.reset(jax.random.key(0))
    *_, reward, terminated, truncated, _ = env.step(jax.random.key(1), state, jnp.zeros((1,) * team, int))
    assert jnp.shape(reward) == (1,) * team
    assert (jnp.result_type(terminated), jnp.result_type(truncated)) == (bool, bool)


class Slow(Wrapper):
    """Written for one environment only."""

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        obs, after, reward, *rest = self.env.step_env(key, state, action, params)
        return obs, after, reward - 3.0, *rest


class Away(Wrapper):
    """Starts elsewhere."""

    def reset_env(self, key: jax.Array, params: Any) -> Any:
        obs, state = self.env.reset_env(key, params)
        return obs + 1.0, state


@pytest.mark.quick
def test_what_is_written_for_one_environment_holds_for_many():
    keys = [jax.random.split(jax.random.key(seed), B) for seed in range(4)]
    env = Slow(RewardFunction(CartPole(max_steps=1), lambda taken: taken.reward))
    _, state = env.batch_reset(keys[0])
    assert (jax.jit(env.batch_step)(keys[1], state, jnp.zeros(B, int))[2] == -2.0).all()
    env = Away(CartPole(max_steps=1))
    assert (env.batch_reset(keys[2])[0] > 0.5).all()
    assert (env.batch_step(keys[3], state, jnp.zeros(B, int))[0] > 0.5).all()  # every episode ends


@pytest.mark.quick
def test_only_environments_are_wrapped():
    with pytest.raises(TypeError, match=r"TimeLimit takes an environment, such as jaxrl.make.*, not a str"):
        TimeLimit("smax/3m", 5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="max_steps must be a whole number of at least 1, got 0"):
        TimeLimit(CartPole(), 0)


def test_a_stack_of_wrappers_keeps_the_contract():
    check_env(as_multi_agent(ALL["several"](CartPole())), num_steps=16)


@pytest.mark.slow
@every_wrapper
@pytest.mark.parametrize("name", ["classic/cartpole", "smax/3m"])
def test_every_wrapper_keeps_the_contract(wrap: Any, name: str):
    if wrap is not ALL["ObservationFunction"] or name == "smax/3m":  # tanh leaves no bounded space
        check_env(wrap(jaxrl.make(name)), num_steps=32)
