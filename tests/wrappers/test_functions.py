"""Functions of rewards and observations, against slow loops and Gymnasium."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import VectorEnv
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.envs.classic import CartPole
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space
from jaxrl.wrappers import Flatten, ObservationFunction, RewardFunction, Taken
from jaxrl.wrappers.functions import _flat, _flat_space

B, T = 4, 30


@jax.jit
def battles(weight: float) -> Any:
    """T random steps of B battles through the batched kernel: what each step began with and returned."""

    def shaped(taken: Taken) -> jax.Array:
        lost = taken.state.health[:3].sum() - taken.next_state.health[:3].sum()
        return taken.reward - weight * lost

    env: Any = RewardFunction(jaxrl.make("smax/3m?max_steps=12"), shaped)
    venv = VectorEnv(env, B)

    def step(state: Any, key: jax.Array) -> Any:
        key_action, key_step = jax.random.split(key)
        action = jax.random.randint(key_action, (B, env.num_agents), 0, env.action_space().n)
        stepped = venv.step(key_step, state, action)
        return stepped[1], (state, stepped)

    key_reset, key = jax.random.split(jax.random.key(0))
    return jax.lax.scan(step, venv.reset(key_reset)[1], jax.random.split(key, T))[1]


def test_shaping_is_that_of_a_slow_loop_and_changes_nothing_else():
    before, (obs, _, reward, _, truncated, info) = battles(0.0)
    _, (shaped_obs, _, shaped_reward, *_) = battles(0.01)
    assert truncated.any()
    expected = np.array(reward)
    for t in range(T):
        for b in range(B):
            after = info["final_state"].health[t, b]  # an ended episode's own, not the next one's
            for ally in range(3):
                expected[t, b] -= 0.01 * (float(before.health[t, b, ally]) - float(after[ally]))
    assert (expected != reward).any()
    np.testing.assert_allclose(shaped_reward, expected, atol=1e-5)
    np.testing.assert_array_equal(shaped_obs, obs)


@pytest.mark.quick
def test_a_reward_of_another_shape_is_refused():
    env = RewardFunction(jaxrl.make("smax/3m"), lambda taken: jnp.ones(2))
    with pytest.raises(ValueError, match=r"returns shape \[2\]; return one number, or \[3\], one for each agent"):
        jax.eval_shape(
            lambda key: env.step(jax.random.clone(key), env.reset(key)[1], jnp.zeros(3, int)), jax.random.key(0)
        )


@pytest.mark.quick
@pytest.mark.parametrize("returned", [None, {"a": 1.0}])
def test_a_function_that_returns_no_number_is_refused(returned: Any):
    """Such as one that lacks its `return`."""
    key, given = jax.random.key(0), type(returned).__name__
    rewarded = jaxrl.VectorEnv(RewardFunction(CartPole(), lambda taken: returned), B)
    with pytest.raises(TypeError, match=rf"The reward function returns a {given}; return one number\."):
        jax.eval_shape(lambda: rewarded.step(key, rewarded.reset(key)[1], jnp.zeros(B, int)))
    observed = jaxrl.VectorEnv(ObservationFunction(CartPole(), lambda obs: returned), B)
    with pytest.raises(TypeError, match=rf"The observation function returns a {given}; return one array\."):
        jax.eval_shape(observed.reset, key)


@pytest.mark.quick
def test_final_observations_go_through_the_function_too():
    env = ObservationFunction(CartPole(max_steps=1), lambda obs: obs[:2] + 10, Box(-np.inf, np.inf, (2,)))
    _, state = env.reset(jax.random.key(0))
    obs, after, *_, info = jax.jit(env.step)(jax.random.key(1), state, 1)
    final = info["final_state"]
    assert final.step == 1
    np.testing.assert_allclose(info["final_observation"], [final.position + 10, final.velocity + 10])
    np.testing.assert_allclose(obs, [after.position + 10, after.velocity + 10])


@pytest.mark.quick
@pytest.mark.parametrize("name", ["classic/mountain_car", "mpe/simple_spread"])
def test_an_observation_of_another_shape_needs_its_space(name: str):
    env = ObservationFunction(jaxrl.make(name), lambda obs: obs[:1])
    with pytest.raises(ValueError, match=r"returns shape \[1\]; return \[(2|18)\], or give the space"):
        jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(ValueError, match=r"returns shape \[1\]"):
        jax.eval_shape(jaxrl.VectorEnv(env, 2).reset, jax.random.key(0))


@pytest.mark.quick
def test_functions_are_functions_and_spaces_spaces():
    env = CartPole()
    with pytest.raises(TypeError, match="RewardFunction takes a function of a step that was taken, not 2"):
        RewardFunction(env, 2)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="ObservationFunction takes a function of an observation, not None"):
        ObservationFunction(env, None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"space is one of jaxrl.spaces, such as .*, or None, not \(2,\)"):
        ObservationFunction(env, lambda obs: obs[:2], (2,))  # pyright: ignore[reportArgumentType]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("ours", "theirs", "value"),
    [
        (Discrete(5), lambda spaces: spaces.Discrete(5), np.int32(3)),
        (MultiDiscrete((3, 2)), lambda spaces: spaces.MultiDiscrete([3, 2]), np.array([2, 1])),
        (Box(0.0, 1.0, (2, 3)), lambda spaces: spaces.Box(0, 1, (2, 3)), np.linspace(0, 1, 6).reshape(2, 3)),
    ],
)
def test_flattened_as_by_gymnasium(ours: Any, theirs: Any, value: Any):
    gymnasium = pytest.importorskip("gymnasium")
    space = theirs(gymnasium.spaces)
    np.testing.assert_allclose(_flat(ours, jnp.asarray(value)), gymnasium.spaces.flatten(space, value))
    assert _flat_space(ours).shape == gymnasium.spaces.flatten_space(space).shape


@pytest.mark.quick
def test_pictures_become_vectors():
    pytest.importorskip("gymnax")
    env = Flatten(jaxrl.make("gymnax:Breakout-MinAtar"))
    assert env.observation_space().shape == (10 * 10 * 4,)
    assert jax.eval_shape(env.reset, jax.random.key(0))[0].shape == (400,)


class _Padded(MultiAgentEnvironment):
    """Two agents, the second of which has a smaller observation space."""

    agents = ("wide", "narrow")

    def __init__(self, wide: Space, narrow: Space) -> None:
        self.spaces = wide, narrow

    def observation_space(self, params: Any = None) -> Space:
        return self.spaces[0]

    def action_space(self, params: Any = None) -> Space:
        return Discrete(2)

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        return dict(zip(self.agents, self.spaces, strict=True))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wide", "narrow", "size"),
    [
        (Box(0.0, 1.0, (3, 2)), Box(0.0, 1.0, (2, 2)), 4),
        (Box(0.0, 1.0, (2, 3)), Box(0.0, 1.0, (2, 2)), 6),  # a 0 after each pair
        (Discrete(4), Discrete(3), 3),
        (MultiDiscrete((2, 4)), MultiDiscrete((2, 3)), 5),
        (MultiDiscrete((4, 2)), MultiDiscrete((3, 2)), 6),
    ],
)
def test_an_agents_own_space_is_the_beginning_of_the_flattened_one(wide: Space, narrow: Space, size: int):
    spaces = Flatten(_Padded(wide, narrow)).agent_observation_spaces  # pyright: ignore[reportAttributeAccessIssue]
    assert spaces["wide"].shape == _flat_space(wide).shape
    assert spaces["narrow"].shape == (size,)
    padding = [(0, a - b) for a, b in zip(wide.shape, narrow.shape, strict=True)]
    for key in jax.random.split(jax.random.key(0), 20):
        own = narrow.sample(key)
        kept = _flat(wide, jnp.pad(own, padding) if padding else own)[:size]
        assert kept.sum() == _flat(narrow, own).sum()
