"""VectorEnv: B environments at once are B environments, whichever way they are reset."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import VectorEnv
from jaxrl.check.static import differences, to_numpy

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


def pooled(num_envs: int = 8, pool_size: int = 16, seed: int = 0) -> Any:
    """CartPole whose episodes last one step, with a pool: every observation after a step is a start of the pool."""
    venv = VectorEnv(jaxrl.make("CartPole-v1?max_steps=1"), num_envs, "pool", pool_size)
    return venv, venv.reset(jax.random.key(seed))[1]


def starts(state: Any) -> list[tuple[float, ...]]:
    return [tuple(row) for row in np.asarray(state.pool[0]).tolist()]


@pytest.mark.parametrize(("num_envs", "pool_size", "num_keys"), [(16, 4, 8), (16, 12, 8), (8, 12, 4), (4, 6, 4)])
def test_every_environment_draws_from_the_whole_pool(num_envs, pool_size, num_keys):
    """However the keys divide environments and pool; in 300 draws none of 12 starts is missed but by a mistake."""
    venv, state = pooled(num_envs, pool_size)

    @jax.jit
    def drawn(state):
        def body(state, seed):
            obs, state, *_ = venv.step(jax.random.split(jax.random.key(seed), num_keys), state, jnp.zeros(num_envs))
            return state, obs

        return jax.lax.scan(body, state, jnp.arange(300))[1]

    obs = np.asarray(drawn(state))
    for b in range(num_envs):
        assert {tuple(row) for row in obs[:, b].tolist()} == set(starts(state))


@pytest.mark.parametrize(
    ("num_keys", "share", "new"), [(None, 0.25, 4), (4, 0.25, 4), (4, 0.3, 8), (8, 1e-9, 8), (4, 1.0, 16), (4, 0.0, 0)]
)
def test_refresh_replaces_the_oldest_starts_and_nothing_else(num_keys, share, new):
    """Each of S keys renews its own P / S starts; rounded up."""
    venv, state = pooled()
    parts = num_keys or 1

    @jax.jit
    def refresh(seed, state):
        key = jax.random.key(seed)
        return venv.refresh(jax.random.split(key, num_keys) if num_keys else key, state, share)

    after = refresh(5, state)
    before, now = (np.reshape(starts(s), (parts, 16 // parts, -1)) for s in (state, after))
    np.testing.assert_array_equal(now[:, : (16 - new) // parts], before[:, new // parts :])
    assert len(set(starts(after)) - set(starts(state))) == new
    assert not differences(to_numpy(after.env), to_numpy(state.env))
    np.testing.assert_array_equal(after.pool[0][:, 0], after.pool[1].position)  # what is seen belongs to the state
    for seed in range(6, 6 + (16 // new if new else 1)):
        after = refresh(seed, after)
    assert set(starts(after)) & set(starts(state)) == (set() if new else set(starts(state)))
    assert len(set(starts(after))) == 16


def test_a_share_that_is_whole_is_not_rounded_up():
    venv, state = pooled(pool_size=100)
    after = venv.refresh(jax.random.key(1), state, 0.07)  # 0.07 * 100 is a bit more than 7
    assert len(set(starts(after)) - set(starts(state))) == 7


def test_a_part_of_the_keys_refreshes_a_part_of_the_pool():
    venv, state = pooled()
    keys = lambda: jax.random.split(jax.random.key(1), 4)  # noqa: E731
    half = state._replace(pool=jax.tree.map(lambda leaf: leaf[8:], state.pool))
    assert starts(venv.refresh(keys(), state, 0.5))[8:] == starts(venv.refresh(keys()[2:], half, 0.5))


class Levels(jaxrl.Environment):
    """Begins at the level that the parameters name. Its state holds what states may: a key, an array of nothing."""

    @property
    def default_params(self) -> Any:
        return np.float32(0)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        return jnp.asarray(params), (key, jnp.zeros((0, 3)))


def test_new_starts_belong_to_the_parameters_given():
    venv = VectorEnv(Levels(), 2, "pool", pool_size=4)
    _, state = venv.reset(jax.random.key(0), np.float32(1))
    state = venv.refresh(jax.random.key(1), state, 0.5, np.float32(2))
    np.testing.assert_array_equal(state.pool[0], [1, 1, 2, 2])
    np.testing.assert_array_equal(venv.refresh(jax.random.key(1), state, 0.5).pool[0], [2, 2, 0, 0])


@pytest.mark.parametrize(
    ("reset", "num_keys", "share", "message"),
    [
        ("fresh", 1, 0.5, 'There is no pool to refresh.*use reset="pool"'),
        ("pool", 1, 1.5, "share must lie between 0 and 1, got 1.5"),
        ("pool", 1, -0.1, "share must lie between 0 and 1, got -0.1"),
        ("pool", 3, 0.5, "3 keys cannot make equal parts of a pool of 16 starts; use pool_size=18"),
    ],
)
def test_refresh_refuses_nonsense(reset, num_keys, share, message):
    venv, state = pooled()
    if reset == "fresh":
        venv = VectorEnv(venv.env, 8)
    with pytest.raises(ValueError, match=message):
        venv.refresh(jax.random.split(jax.random.key(0), num_keys), state, share)


def test_keys_that_do_not_divide_a_pool_are_refused():
    """Each would have made a part of a state, or none."""
    venv = VectorEnv(jaxrl.make("CartPole-v1"), 16, "pool", pool_size=4)
    with pytest.raises(ValueError, match="8 keys cannot make equal parts of a pool of 4 starts; use pool_size=8"):
        venv.reset(jax.random.split(jax.random.key(0), 8))


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
    *_, truncated, _ = jax.jit(venv.step)(jax.random.key(1), state, action, params)
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
    """With a key for each of S shards, the second half by itself does what it does among all (with the whole pool)."""
    env = jaxrl.make("CartPole-v1?max_steps=3")

    def keys(seed):
        return jax.random.split(jax.random.key(seed), 4)

    size = {"pool_size": 8} if reset == "pool" else {}
    half_size = {"pool_size": 4} if reset == "pool" else {}
    whole, half = VectorEnv(env, 8, reset, **size), VectorEnv(env, 4, reset, **half_size)
    (_, state), (_, part) = whole.reset(keys(0)), half.reset(keys(0)[2:])
    whole_step, half_step = jax.jit(whole.step), jax.jit(half.step)
    if reset == "pool":
        np.testing.assert_array_equal(part.pool[0], state.pool[0][4:])
        part = part._replace(pool=state.pool)
    for t in range(1, 6):
        stepped = whole_step(keys(t), state, np.ones(8, np.int32))
        alone = half_step(keys(t)[2:], part, np.ones(4, np.int32))
        np.testing.assert_array_equal(stepped[0][4:], alone[0])
        state, part = stepped[1], alone[1]


def test_with_as_many_keys_as_environments_each_has_its_own():
    env = jaxrl.make("smax/3m")
    venv = VectorEnv(env, B)
    _, state = jax.jit(venv.reset)(jax.random.key(0))
    keys = lambda: jax.random.split(jax.random.key(1), B)  # noqa: E731
    action = random_actions(env, 1)[0]
    stepped, batch = (jax.jit(step)(keys(), state, action) for step in (venv.step, env.batch_step))
    assert not differences(to_numpy(stepped), to_numpy(batch))


def test_keys_must_serve_equally_many_environments():
    venv = VectorEnv(jaxrl.make("CartPole-v1"), 6)
    with pytest.raises(ValueError, match="4 keys cannot serve 6 environments alike"):
        venv.reset(jax.random.split(jax.random.key(0), 4))


def test_a_state_of_another_number_of_environments_is_refused():
    env = jaxrl.make("smax/3m")
    _, state = jax.jit(VectorEnv(env, 4).reset)(jax.random.key(0))
    with pytest.raises(ValueError, match=r"not that of 8 environments: its leaves are \[8, …\], and one is \[4"):
        VectorEnv(env, 8).step(jax.random.key(1), state, jnp.zeros((8, 3), jnp.int32))


def test_spaces_are_those_of_a_copy():
    env = jaxrl.make("smax/3m")
    assert VectorEnv(env, B).observation_space() == env.observation_space()
    assert VectorEnv(env, B).action_space() == env.action_space()
