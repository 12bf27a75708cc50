"""Rollouts step by step, what a central critic sees, and how all networks take observations of every kind."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import MODULES, agent_of, collect
from observed import SEEN, Team

import jaxrl
from jaxrl.acting.rollout import (
    Collector,
    Policy,
    central_state,
    global_state_size,
    init_runner,
    joint_space,
    rollout,
    state_shape,
    team_sum,
    team_value,
)
from jaxrl.algos import ippo, mappo, ppo
from jaxrl.nn.encoder import Torso, is_picture
from jaxrl.rl.advantage import bootstrap_values
from jaxrl.vector import VectorEnv
from jaxrl.wrappers import as_multi_agent

B, N = 4, 2
SMALL: dict[str, Any] = {
    "num_envs": B,
    "num_steps": 4,
    "total_timesteps": 32,
    "num_minibatches": 4,
    "hidden": (8,),
    "optimizer": "adam",
}
STREAM: dict[str, Any] = {"num_steps": 4, "total_timesteps": 32, "hidden": (8,), "normalise_obs": False}
REPLAY: dict[str, Any] = {**STREAM, "num_envs": B, "buffer_size": 32, "batch_size": 4, "learning_starts": 16}
OWN: dict[str, dict[str, Any]] = {
    "mappo": SMALL | {"critic_hidden": (8,)},
    "stream_q": STREAM,
    "stream_ac": STREAM,
    **dict.fromkeys(("dqn", "iql", "vdn", "qmix", "sac", "td3"), REPLAY),
}
ALONE = ("ppo", "stream_q", "stream_ac")


def config_of(name: str, seen: str, **fields: Any) -> Any:
    done = "bounded" if name in ("sac", "td3") else "discrete"
    env = f"toy/{'alone' if name in ALONE else 'team'}?seen={seen}&done={done}"
    return MODULES[name].Config(env=env, **OWN.get(name, SMALL) | fields)


def dense_inputs(space: Any, obs: jax.Array) -> np.ndarray:
    """What a torso gives its first dense layer, `[..., D]`: without any, the layers are the identity."""
    variables = Torso(space, ()).init(jax.random.key(0), obs)
    return np.asarray(Torso(space, ()).apply(variables, obs))


@pytest.mark.parametrize("seen", SEEN)
def test_the_joint_observation_is_an_element_of_the_joint_space(seen):
    env = Team(seen)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    joint, space = central_state(env, obs, state), joint_space(env)
    assert space is not None
    assert bool(space.contains(joint))
    assert (joint.shape, joint.dtype) == (space.shape, space.dtype)
    assert (state_shape(env).shape, state_shape(env).dtype) == (space.shape, space.dtype)
    assert global_state_size(env) == joint.size


@pytest.mark.parametrize("seen", [name for name in SEEN if not is_picture(SEEN[name])])
def test_a_critic_gets_what_the_actors_get_side_by_side(seen):
    env = Team(seen)
    obs, state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), B))
    joint = jax.vmap(lambda o, s: central_state(env, o, s))(obs, state)
    got = dense_inputs(joint_space(env), joint)
    np.testing.assert_array_equal(got, dense_inputs(env.observation_space(), obs).reshape(B, -1))
    assert np.abs(got).max() <= 1


def test_pictures_lie_one_behind_the_other_as_channels():
    env = Team("picture")
    obs, state = env.reset(jax.random.key(0))
    joint = central_state(env, obs, state)
    assert joint.shape == (4, 3, N * 2)
    np.testing.assert_array_equal(joint[..., :2], obs[0])
    np.testing.assert_array_equal(joint[..., 2:], obs[1])


# They take all kinds of observations alike, so of the others the kinds that are alike are slow.
THOROUGH = ("ppo", "mappo", "qmix")


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        pytest.param(name, seen, marks=() if name in THOROUGH or seen in ("classes", "picture") else pytest.mark.slow)
        for name in MODULES
        for seen in ("class", "classes", "bytes", "picture")
    ],
)
def test_observations_of_every_kind_train_and_act(name, seen):
    algo = MODULES[name].make(config_of(name, seen))
    trained, losses = jax.eval_shape(algo.update, jax.eval_shape(algo.init, jax.random.key(0)))
    lead = (3,) if name in ALONE else (3, N)
    obs = jax.ShapeDtypeStruct((*lead, *SEEN[seen].shape), SEEN[seen].dtype)
    assert jax.eval_shape(algo.act, trained, obs)[0].shape[: len(lead)] == lead
    assert losses["losses"]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("mappo", "classes"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("ppo", "bytes"), ("ippo", "class"))),
    ],
)
def test_losses_of_an_update_are_finite(name, seen):
    """Of some only: to compile takes seconds."""
    algo = MODULES[name].make(config_of(name, seen))
    losses = jax.eval_shape(algo.update, jax.eval_shape(algo.init, jax.random.key(0)))[1]["losses"]
    _, metrics = jax.jit(algo.update)(jax.jit(algo.init)(jax.random.key(0)))
    assert list(metrics["losses"]) == list(losses)
    assert all(np.isfinite(loss) for loss in jax.tree.leaves(metrics["losses"]))


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("rivals", "seen", "inputs"),
    [
        (False, "classes", 7 * N),
        (True, "class", 5 * N),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (False, "class", 5 * N),
                (False, "bytes", 6 * N),
                (False, "grid", 6 * N),
                (True, "classes", 7 * N),
                (True, "bytes", 6 * N),
                (True, "grid", 6 * N),
            )
        ),
    ],
)
def test_the_team_that_is_meant_is_told_beside_the_encoded_observations(seen, inputs, rivals):
    config = mappo.Config(env=f"toy/team?seen={seen}&rivals={rivals}", critic_hidden=(8,), **SMALL)
    algo = mappo.make(config)
    state = jax.jit(algo.init)(jax.random.key(0))
    kernel = state.params["critic"]["params"]["torso"]["Torso_0"]["MLP_0"]["Dense_0"]["kernel"]
    assert kernel.shape == (inputs + 2 * rivals, 8)
    prediction = collect(algo, state, jax.random.key(1)).extras["value"]
    assert bool((prediction[..., 0] == prediction[..., 1]).all()) is not rivals


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("rivals", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_critic_of_pictures_has_convolutions(rivals):
    config = mappo.Config(env=f"toy/team?seen=picture&rivals={rivals}", critic_hidden=(8,), **SMALL)
    algo = mappo.make(config)
    torso = jax.jit(algo.init)(jax.random.key(0)).params["critic"]["params"]["torso"]["Torso_0"]
    assert torso["CNN_0"]["Conv_0"]["kernel"].shape == (3, 3, 2 * N, 16)
    assert torso["MLP_0"]["Dense_0"]["kernel"].shape == (4 * 3 * 16 + 2 * rivals, 8)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("mappo", "bytes"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("ppo", "counts"), ("ippo", "grid"))),
    ],
)
def test_vectors_of_any_numbers_are_standardised(name, seen):
    """Moments are those of what the networks see, from 0 to 1; who acts sees the same as who learns."""
    algo = MODULES[name].make(config_of(name, seen, normalise_obs=True))
    first = jax.jit(algo.init)(jax.random.key(0))
    state, _ = jax.jit(algo.update)(first)
    for moments in filter(None, (state.normaliser.obs, state.normaliser.global_state)):
        assert np.abs(moments.mean).max() <= 1
        assert 0 < np.max(moments.variance) < 1
    agent = agent_of(algo)
    seen_there = jnp.stack([agent.env.reset(key)[0] for key in jax.random.split(jax.random.key(1), 64)])
    obs = seen_there[:, 0] if name == "ppo" else seen_there
    scaled = dense_inputs(agent.env.observation_space(), seen_there).reshape(seen_there.shape)
    for trained in (first, state):
        action, _ = algo.act(trained, obs)
        same, _ = algo.act(trained, jnp.asarray(scaled[:, 0] if name == "ppo" else scaled))
        np.testing.assert_array_equal(action, same)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("seen", "why"), [("class", "mere names"), ("classes", "mere names"), ("picture", "a convolution takes all places")]
)
@pytest.mark.parametrize("name", MODULES)
def test_what_is_no_quantity_is_not_standardised(name, seen, why):
    with pytest.raises(ValueError, match=f"normalise_obs cannot standardise .*: .*{why}.*; choose normalise_obs=False"):
        MODULES[name].make(config_of(name, seen, normalise_obs=True))


@pytest.mark.usefixtures("toys")
def test_squash_needs_bounds_before_anything_is_compiled():
    ppo.make(ppo.Config(env="toy/alone?done=bounded", squash=True))
    with pytest.raises(ValueError, match="squash=True needs finite bounds"):
        ppo.make(ppo.Config(env="toy/alone?done=unbounded", squash=True))


T, B = 6, 4


def played(env, policy_value, central=False):
    """A rollout in which everybody takes action 1 and the critic is `policy_value(observation)[T, B, N]`."""
    team = as_multi_agent(jaxrl.make(env))
    collector = Collector(VectorEnv(team, B), central, num_shards=2)

    def act(carry, observation, reset, keys):
        action = jnp.ones(observation.agent_mask.shape, jnp.int32)
        return carry, action, {"value": policy_value(observation)}

    policy = Policy(act, lambda carry, observation: policy_value(observation))

    loop = init_runner(collector, (), jax.random.key(0))
    return rollout(collector, policy, loop, jax.random.split(jax.random.key(1), (T, 2, 2)))


def test_values_follow_within_the_episode_and_from_the_final_observation():
    """The critic says what it sees: CartPole's position. Episodes of 4 steps are truncated."""
    loop, seen, sums = jax.jit(lambda: played("CartPole-v1?max_steps=4", lambda observation: observation.obs[..., 0]))()
    following = np.asarray(bootstrap_values(seen.extras["value"], seen.bootstrap, seen.cut[..., None]))[..., 0]
    position = np.asarray(seen.observation.obs)[..., 0, 0]
    velocity = np.asarray(seen.observation.obs)[..., 0, 1]
    np.testing.assert_allclose(following, position + 0.02 * velocity, atol=1e-6)  # Euler's step, at all steps alike
    np.testing.assert_array_equal(np.asarray(seen.cut).any(1), [False, False, False, True, False, False])
    np.testing.assert_array_equal(seen.reset, np.roll(np.asarray(seen.cut), 1, axis=0) | (np.arange(T) == 0)[:, None])
    assert int(sums["episodes"]) == B
    assert int(sums["length_sum"]) == 4 * B
    assert not np.asarray(loop.reset).any()


def test_the_central_critic_sees_the_state_that_the_final_observation_belongs_to():
    """In this probe the global state is the coin of the episode; after its only step it has not yet been drawn anew."""

    def see(observation):
        return jnp.broadcast_to(observation.global_state[..., :1], observation.agent_mask.shape)

    _, seen, _ = jax.jit(lambda: played("probe/hidden_state", see, central=True))()
    np.testing.assert_array_equal(seen.extras["value"], seen.reward)  # the coin is what the step pays
    last = np.asarray(seen.bootstrap[-1])
    np.testing.assert_array_equal(last, seen.reward[-1])
    assert len(np.unique(np.asarray(seen.extras["value"]))) == 2


def test_the_dead_are_worth_what_their_living_team_mates_are():
    value = jnp.array([[1.0, 3.0, 50.0, 7.0], [1.0, 3.0, 5.0, 7.0]])
    alive = jnp.array([[True, True, False, False], [False, False, False, True]])
    got = team_value(value, alive, teams=(0, 0, 0, 1))
    np.testing.assert_allclose(got, [[1, 3, 2, 0], [0, 0, 0, 7]])


def test_where_there_is_no_global_state_the_critic_sees_all_observations():
    env = as_multi_agent(jaxrl.make("probe/death"))
    assert global_state_size(env) == 2 * env.observation_space().shape[0]
    assert global_state_size(jaxrl.make("smax/3m")) == 72
    assert agent_of(mappo.make(mappo.Config(env="probe/death"))).central
    assert not agent_of(ippo.make(ippo.Config(env="probe/death"))).central


def test_a_teams_value_is_the_sum_over_its_living_members():
    value = jnp.array([[1.0, 2.0, 4.0, 8.0, 16.0]] * 3)
    alive = jnp.array([[True] * 5, [True, False, True, True, False], [False, False, True, True, True]])
    summed = team_sum(value, alive, (0, 1, 0, 1, 1))
    np.testing.assert_array_equal(summed, [[5, 26, 5, 26, 26], [5, 8, 5, 8, 8], [4, 24, 4, 24, 24]])
