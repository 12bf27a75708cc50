"""What a central critic sees without a global state, and how all networks take observations of every kind."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import MODULES, agent_of, collect
from observed import SEEN, Team

from jaxrl.acting.central import central_state, global_state_size, joint_space, state_shape
from jaxrl.algos import mappo, ppo
from jaxrl.nn.torso import Torso, is_picture

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


def test_a_global_state_that_is_no_vector_is_refused():
    class Square(Team):
        def global_state(self, state: Any, params: Any = None) -> jax.Array:
            return jnp.zeros((2, 2))

    with pytest.raises(TypeError, match=r"global_state of .* has the shape \[2, 2\]; return one vector \[G\]"):
        state_shape(Square(next(iter(SEEN))))


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
