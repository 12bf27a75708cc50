"""Small edits of starts go through wrappers, and what these remember fits the edited start."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.environment import Environment, MultiAgentEnvironment, Symmetries, as_arrays
from jaxrl.spaces import Box, Discrete
from jaxrl.wrappers import (
    ActionRepeat,
    FixedPolicies,
    Flatten,
    FrameStack,
    ObservationFunction,
    OtherPlay,
    RandomParams,
    RewardFunction,
    SharedReward,
    StatefulWrapper,
    StickyActions,
    TimeLimit,
    Wrapped,
    Wrapper,
    as_multi_agent,
    random_policy,
)

pytestmark = pytest.mark.quick


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    reach: Any = 0.5
    count: Any = 3


class Point(Environment):
    """A point in the plane, which an edit moves by at most `reach`."""

    name = "point"

    @property
    def default_params(self) -> Any:
        return as_arrays(Params())

    def observation_space(self, params: Any = None) -> Box:
        return Box(-9.0, 9.0, (2,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        state = jax.random.uniform(key, (2,), jnp.float32)
        return self.observation(state, params), state

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        end = jnp.zeros((), bool)
        return self.observation(state, params), state, jnp.zeros((), jnp.float32), end, end, {}

    def observation(self, state: Any, params: Any = None) -> Any:
        return state

    def mutate(self, key: jax.Array, state: Any, params: Any = None) -> Any:
        return state + self._params(params).reach * jax.random.uniform(key, (2,), jnp.float32, 0.1, 1.0)


class Pair(Point, MultiAgentEnvironment):
    """Two agents that see the same point; the game is the same with x and y exchanged."""

    agents = ("agent_0", "agent_1")

    @property
    def symmetries(self) -> Symmetries:
        order = np.array([[0, 1], [1, 0]], np.int32)
        return Symmetries(order, order)

    def observation(self, state: Any, params: Any = None) -> Any:
        return jnp.stack([state, state])

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        obs, state, reward, *rest = super().step_env(key, state, action, params)
        return obs, state, jnp.stack([reward, reward]), *rest


class Still(Point):
    """Has no edits."""

    mutate = Environment.mutate


class Unseen(Point):
    """Has edits that nobody can see."""

    observation = Environment.observation

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        state = jax.random.uniform(key, (2,), jnp.float32)
        return state, state

    mutate = Point.mutate


class First(StatefulWrapper):
    """Remembers the first observation of the episode."""

    keeps_observation = True

    def after_reset(self, obs: Any, state: Any) -> tuple[Any, Wrapped]:
        return obs, Wrapped(state, obs)

    def after_step(self, state: Wrapped, action: Any, stepped: Any) -> Any:
        return stepped[0], Wrapped(stepped[1], state.own), *stepped[2:]


class Away(Wrapper):
    """Starts elsewhere, and says what is seen of it."""

    def reset_env(self, key: jax.Array, params: Any) -> Any:
        _, state = self.env.reset_env(key, params)
        return self.observation(state - 1, params), state - 1

    def observation(self, state: Any, params: Any = None) -> Any:
        return self.env.observation(state, params)


def same(key: jax.Array, params: Any, progress: Any) -> Any:
    return params


def farther(key: jax.Array, own: Any) -> Any:
    """Reaches farther; its `count` is to be int32 again."""
    farther = own.reach + jax.random.uniform(key, (), jnp.float32, 4.0, 5.0)
    return dataclasses.replace(own, reach=farther, count=jnp.asarray(own.count).astype(jnp.int8))


WRAPPERS = {
    "Wrapper": Wrapper,
    "RewardFunction": lambda env: RewardFunction(env, lambda taken: 2 * taken.reward),
    "ObservationFunction": lambda env: ObservationFunction(env, jnp.tanh),
    "Flatten": Flatten,
    "ActionRepeat": lambda env: ActionRepeat(env, 2),
    "TimeLimit": lambda env: TimeLimit(env, 9),
    "StickyActions": StickyActions,
    "as_multi_agent": as_multi_agent,
    "First": First,
    "several": lambda env: Flatten(TimeLimit(as_multi_agent(First(env)), 9)),
}
TEAMS = {
    "SharedReward": SharedReward,
    "OtherPlay": OtherPlay,
    "FixedPolicies": lambda env: FixedPolicies(env, {"agent_1": random_policy}),
}
ON_TEAMS = WRAPPERS | TEAMS


def innermost(state: Any) -> Any:
    while isinstance(state, Wrapped):
        state = state.env
    return state


def form(state: Any) -> Any:
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)


@pytest.mark.parametrize(
    ("inside", "wrap"),
    [*((Point(), wrap) for wrap in WRAPPERS.values()), *((Pair(), wrap) for wrap in ON_TEAMS.values())],
    ids=[*WRAPPERS, *(f"{name} of a team" for name in ON_TEAMS)],
)
def test_a_wrapper_edits_the_state_inside(inside: Any, wrap: Any) -> None:
    env = wrap(inside)
    assert env.has_mutate
    key_reset, key_edit = jax.random.split(jax.random.key(0))
    _, state = jax.jit(env.reset)(key_reset)
    for params in (None, dataclasses.replace(inside.default_params, reach=np.float32(5))):
        key = jax.random.clone(key_edit)
        edited = jax.jit(env.mutate)(key, state, params)
        wanted = jax.jit(inside.mutate)(jax.random.clone(key_edit), innermost(state), params)
        np.testing.assert_array_equal(innermost(edited), wanted)
        assert (wanted > innermost(state)).all()
        assert form(edited) == form(state)
        assert (env.observation(edited) != env.observation(state)).all()


@pytest.mark.parametrize("wrap", ON_TEAMS.values(), ids=ON_TEAMS)
def test_without_edits_inside_there_are_none(wrap: Any) -> None:
    class StillPair(Pair):
        mutate = Environment.mutate

    env = wrap(StillPair())
    assert not env.has_mutate
    _, state = jax.jit(env.reset)(jax.random.key(0))
    with pytest.raises(NotImplementedError, match=r"point has no mutate\(key, state, params\)"):
        env.mutate(jax.random.key(1), state)


class NewSteps(Wrapper):
    """Might observe anything."""

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        return self.env.step_env(key, state, action, params)


@pytest.mark.parametrize("wrap", [lambda env: FrameStack(env, 2), NewSteps, Away], ids=["stack", "steps", "starts"])
def test_where_an_edited_start_may_be_wrong_there_is_none(wrap: Any) -> None:
    for env in (wrap(Point()), TimeLimit(wrap(Pair()), 3), wrap(TimeLimit(Point(), 3))):
        assert not env.has_mutate
    assert not Wrapper(Unseen()).has_mutate


def test_a_subclass_with_other_starts_has_the_edits_that_it_writes_itself() -> None:
    class Elsewhere(Point):
        def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
            _, state = super().reset_env(key, params)
            return self.observation(state - 1, params), state - 1

        def observation(self, state: Any, params: Any = None) -> Any:
            return state

    class Again(Elsewhere):
        mutate = Point.mutate

    assert not Elsewhere().has_mutate
    with pytest.raises(NotImplementedError, match="point has no mutate"):
        Elsewhere().mutate(jax.random.key(0), jnp.zeros(2))
    assert Again().has_mutate
    assert type("Child", (Again,), {})().has_mutate


def test_what_a_wrapper_remembers_fits_the_edited_start() -> None:
    key_reset, key_edit = jax.random.split(jax.random.key(0))
    first = First(Point())
    _, state = first.reset(key_reset)
    edited = first.mutate(key_edit, state)
    np.testing.assert_array_equal(edited.own, edited.env)
    assert (edited.own != state.own).all()

    fixed = TEAMS["FixedPolicies"](Pair())
    _, state = fixed.reset(jax.random.clone(key_reset))
    edited = fixed.mutate(jax.random.clone(key_edit), state)
    np.testing.assert_array_equal(edited.own[0].obs, edited.env[None])
    assert edited.own[0].begins


def test_other_play_keeps_the_names_of_the_episode() -> None:
    env = OtherPlay(Pair())
    state = Wrapped(jnp.array([1.0, 2.0]), jnp.array([0, 1], jnp.int32))
    edited = env.mutate(jax.random.key(0), state)
    np.testing.assert_array_equal(edited.own, state.own)
    np.testing.assert_array_equal(env.observation(edited), jnp.stack([edited.env, edited.env[::-1]]))


def test_parameters_are_edited_without_and_with_the_state() -> None:
    key = jax.random.key(0)
    for inside, edit, changes in (
        (Still(), farther, (False, True)),
        (Point(), None, (True, False)),
        (Point(), farther, (True, True)),
        (Still(), None, None),
        (Unseen(), farther, None),
    ):
        env = TimeLimit(RandomParams(inside, same, edit), 9)
        assert env.has_mutate == (changes is not None)
        if changes is None:
            continue
        _, state = jax.jit(env.reset)(jax.random.clone(key))
        edited = jax.jit(env.mutate)(jax.random.clone(key), state)
        assert form(edited) == form(state)
        old, new = state.env, edited.env
        assert ((old.env != new.env).all(), old.own.reach != new.own.reach) == changes
        assert old.own.count == new.own.count == 3
        assert ((new.env - old.env > 0.4).all()) == (changes == (True, True))  # as far as the new parameters allow


@pytest.mark.parametrize(
    ("edit", "kind", "message"),
    [
        ("farther", TypeError, r"cannot be edited like that: .* Write def mutate_params\(key, own\)\."),
        (lambda key: key, TypeError, r"cannot be edited like that: .* Write def mutate_params\(key, own\)\."),
        (same, TypeError, r"cannot be edited like that: .* Write def same\(key, own\)\."),
        (lambda key, own: own.length, TypeError, "of point cannot be edited like that: .*'length'"),
        (lambda key, own: own.reach, TypeError, "Parameters edited for point must have the structure"),
        (
            lambda key, own: dataclasses.replace(own, reach=jnp.ones(3)),
            ValueError,
            r"params.reach was edited with shape \[3\]; it must be \[\]",
        ),
        (
            lambda key, own: dataclasses.replace(own, count=own.count + 0.5),
            ValueError,
            "params.count was edited as float32; it must be int32, so round it",
        ),
    ],
)
def test_edits_that_make_no_parameters_are_refused(edit: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        RandomParams(Point(), same, edit)


def test_a_random_map_in_wrappers_keeps_the_promises_of_mutate() -> None:
    inside = jaxrl.make("jaxnav/random", width=7, height=7, num_beams=4)
    env: Any = TimeLimit(RandomParams(inside, same, lambda key, own: own), 9)
    keys = jax.random.split(jax.random.key(0), (2, 16))
    _, state = jax.jit(env.batch_reset)(keys[0])
    edited = jax.jit(jax.vmap(env.mutate))(keys[1], state)
    walls, place, goal = ((a != b).reshape(16, -1).any(1) for a, b in _parts(state, edited))
    assert (walls + place.astype(int) + goal <= 1).all()
    assert (walls | place | goal).sum() > 8


def _parts(*states: Any) -> Any:
    return zip(*((s.env.env.walls, s.env.env.position, s.env.env.goal) for s in states), strict=True)
