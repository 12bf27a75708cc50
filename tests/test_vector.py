"""VectorEnv: B environments at once are B environments, whichever way they are reset."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import VectorEnv
from jaxrl.check.report import differences, to_numpy

B, T = 5, 30
ENVS = ["CartPole-v1?max_steps=9", "probe/credit", "smax/3m?max_steps=9"]


def random_actions(env: Any, count: int) -> np.ndarray:
    """Legal actions `[count, B, (N)]`."""
    num_actions = env.action_space().n
    agents = (env.num_agents,) if hasattr(env, "num_agents") else ()
    return np.random.default_rng(0).integers(0, num_actions, (count, B, *agents)).astype(np.int32)


@pytest.fixture(scope="module", params=ENVS)
def env(request):
    return jaxrl.make(request.param)


def test_equals_a_python_loop_over_single_environments(env):
    """Same keys, same actions: the same, step after step, through the ends of episodes."""
    venv = VectorEnv(env, B)
    obs, state = jax.jit(venv.reset)(jax.random.key(1))
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    singles = [reset(key) for key in jax.random.split(jax.random.key(1), B)]
    stack = lambda trees: jax.tree.map(lambda *leaves: np.stack(leaves), *to_numpy(trees))  # noqa: E731
    assert not differences(to_numpy((obs, state)), stack(singles))
    vector_step = jax.jit(venv.step)
    ended = 0
    for t, action in enumerate(random_actions(env, 12)):
        outcome = vector_step(jax.random.key(10 + t), state, action)
        keys = jax.random.split(jax.random.key(10 + t), B)
        singles = [step(keys[b], jax.tree.map(lambda v, b=b: v[b], state), action[b]) for b in range(B)]
        assert not differences(to_numpy(outcome), stack(singles))
        state = outcome[1]
        ended += int((outcome[3] | outcome[4]).sum())
    assert ended > 0


def rollout(venv: VectorEnv, length: int = T) -> Any:
    """`(start, steps)` with leaves `[T, B, …]`; one compiled scan."""

    def body(state, inputs):
        seed, action = inputs
        obs, state, *rest = venv.step(jax.random.key(seed), state, action)
        return state, (obs, venv.env_state(state), *rest)

    @jax.jit
    def run(actions):
        start = venv.reset(jax.random.key(0))
        return start, jax.lax.scan(body, start[1], (jnp.arange(length), actions))[1]

    return to_numpy(run(random_actions(venv.env, length)))


@pytest.mark.quick
def test_pool_resets_come_from_the_pool_and_fresh_ones_do_not_repeat():
    env = jaxrl.make("CartPole-v1?max_steps=9")
    (_, start), (obs, _, _, terminated, truncated, _) = rollout(VectorEnv(env, B, reset="pool", pool_size=3))
    pool = {tuple(row) for row in start.pool[0]}
    assert len(pool) == 3
    resets = [tuple(row) for row in obs[terminated | truncated]]
    assert len(resets) >= B * 3
    assert set(resets) == pool  # all of them are drawn, and nothing else

    _, (obs, _, _, terminated, truncated, _) = rollout(VectorEnv(env, B))
    fresh = [tuple(row) for row in obs[terminated | truncated]]
    assert len(set(fresh)) == len(fresh)


def test_pool_changes_nothing_but_the_resets():
    """The first episodes are the same with a pool: keys of steps do not depend on where resets come from."""
    env = jaxrl.make("smax/3m?max_steps=9")
    reset_to = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(4), B))
    _, state = reset_to

    @jax.jit
    def three_ways(action):
        keys = lambda: jax.random.split(jax.random.key(3), B)  # noqa: E731
        fresh = env.batch_step(keys(), state, action)
        pooled = env.batch_step(keys(), state, action, None, reset_to)
        return fresh, pooled, jaxrl.Environment.batch_step(env, keys(), state, action, None, reset_to)

    fresh, pooled, default = to_numpy(three_ways(random_actions(env, 1)[0]))
    assert not differences(fresh, pooled)
    assert not differences(pooled, default)


def test_ends_and_cuts_are_told_apart_and_the_last_observation_is_kept():
    env = jaxrl.make("CartPole-v1?max_steps=12")
    _, (obs, state, _, terminated, truncated, info) = rollout(VectorEnv(env, B))
    final = info["final_observation"]
    fallen = (np.abs(final[..., 2]) > 12 * np.pi / 180) | (np.abs(final[..., 0]) > 2.4)
    np.testing.assert_array_equal(terminated, fallen)
    assert terminated.any()
    assert truncated.any()
    assert not (terminated & truncated).any()
    done = terminated | truncated
    np.testing.assert_array_equal(final[~done], obs[~done])
    assert (np.abs(obs[done]) <= 0.05).all()  # a new episode
    assert (state.step[done] == 0).all()
    assert (state.step[~done] > 0).all()


def test_views_have_a_batch_axis():
    env = jaxrl.make("smax/3m")
    for reset in ("fresh", "pool"):
        venv = VectorEnv(env, B, reset=reset)
        _, state = jax.eval_shape(venv.reset, jax.random.key(0))
        assert jax.eval_shape(venv.action_mask, state).shape == (B, 3, 8)
        assert jax.eval_shape(venv.agent_mask, state).shape == (B, 3)
        assert jax.eval_shape(venv.global_state, state).shape[0] == B
        assert jax.tree.leaves(venv.env_state(state))[0].shape[0] == B


def test_params_are_shared():
    env: Any = jaxrl.make("CartPole-v1")
    venv = VectorEnv(env, B)
    params = jaxrl.make("CartPole-v1?max_steps=1").default_params
    _, state = venv.reset(jax.random.key(0), params)
    action = np.zeros(B, np.int32)
    *_, truncated, _ = venv.step(jax.random.key(1), state, action, params)
    assert truncated.all()


@pytest.mark.parametrize(
    ("kwargs", "kind", "message"),
    [
        ({"num_envs": 0}, ValueError, "num_envs must be at least 1, and whole, got 0"),
        ({"num_envs": 2.5}, ValueError, "num_envs must be at least 1, and whole, got 2.5"),
        ({"num_envs": 2, "reset": "cold"}, ValueError, 'reset must be "fresh" or "pool", got \'cold\''),
        ({"num_envs": 2, "pool_size": 9}, ValueError, 'pool_size is for reset="pool" only'),
        (
            {"num_envs": 2, "reset": "pool", "pool_size": 0},
            ValueError,
            "pool_size must be at least 1, and whole",
        ),
        ({"num_envs": 2, "env": "smax/3m"}, TypeError, r"such as jaxrl.make\('smax/3m'\), not a str"),
    ],
)
def test_nonsense_is_refused(kwargs, kind, message):
    with pytest.raises(kind, match=message):
        VectorEnv(**{"env": jaxrl.make("CartPole-v1"), **kwargs})


def test_one_agent_has_no_agent_mask():
    venv = VectorEnv(jaxrl.make("CartPole-v1"), 2)
    with pytest.raises(TypeError, match="has one agent"):
        venv.agent_mask(None)


@pytest.mark.parametrize("reset", ["fresh", "pool"])
def test_a_part_of_the_keys_steps_a_part_of_the_environments(reset):
    """With a key for each of S shards, the second half by itself does what it does among all."""
    env = jaxrl.make("CartPole-v1?max_steps=3")

    def keys(seed):
        return jax.random.split(jax.random.key(seed), 4)

    size = {"pool_size": 8} if reset == "pool" else {}
    half_size = {"pool_size": 4} if reset == "pool" else {}
    whole, half = VectorEnv(env, 8, reset, **size), VectorEnv(env, 4, reset, **half_size)
    (_, state), (_, part) = whole.reset(keys(0)), half.reset(keys(0)[2:])
    whole_step, half_step = jax.jit(whole.step), jax.jit(half.step)
    for t in range(1, 6):
        stepped = whole_step(keys(t), state, np.ones(8, np.int32))
        alone = half_step(keys(t)[2:], part, np.ones(4, np.int32))
        np.testing.assert_array_equal(stepped[0][4:], alone[0])
        state, part = stepped[1], alone[1]


def test_with_as_many_keys_as_environments_each_has_its_own():
    env = jaxrl.make("smax/3m")
    venv = VectorEnv(env, B)
    _, state = venv.reset(jax.random.key(0))
    keys = lambda: jax.random.split(jax.random.key(1), B)  # noqa: E731
    action = random_actions(env, 1)[0]
    assert not differences(to_numpy(venv.step(keys(), state, action)), to_numpy(env.batch_step(keys(), state, action)))


def test_keys_must_serve_equally_many_environments():
    venv = VectorEnv(jaxrl.make("CartPole-v1"), 6)
    with pytest.raises(ValueError, match="4 keys cannot serve 6 environments alike"):
        venv.reset(jax.random.split(jax.random.key(0), 4))


@pytest.mark.parametrize("reset", ["fresh", "pool"])
def test_old_keys_are_refused(reset):
    venv = jaxrl.VectorEnv(jaxrl.make("classic/cartpole"), 4, reset=reset)
    with pytest.raises(TypeError, match=r"jax\.random\.key\(seed\)"):
        venv.reset(jax.random.PRNGKey(0))
