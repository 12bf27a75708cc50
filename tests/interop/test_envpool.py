"""Scripts written for EnvPool run on our environments: what its own tests promise, and what scripts do with it."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

gymnasium = pytest.importorskip("gymnasium")
dm_env = pytest.importorskip("dm_env")
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics  # noqa: E402

from jaxrl.interop import envpool  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "envpool.md"


def cartpole(**options):
    return envpool.make("CartPole-v1", env_type="gymnasium", **options)


def left(steps, envs):
    """What a pool shows while it is always pushed to the left."""
    return [envs.reset()[0], *(envs.step(np.zeros(len(envs), int))[0] for _ in range(steps))]


def equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


# What EnvPool's own tests promise: make_test, api_test, classic_control_test, minigrid_xla_test.


def test_the_form_must_be_said():
    with pytest.raises(TypeError, match="env_type"):
        envpool.make("CartPole-v1")  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("task", "env_type", "options", "message"),
    [
        ("CartPole-v1", "torch", {}, 'env_type is "dm", "gym" or "gymnasium", not \'torch\''),
        ("CartPole-v7", "gym", {}, "Did you mean CartPole-v1"),
        ("CartPole-v1", "gym", {"num_envs": 0}, "num_envs must be at least 1, got 0"),
        ("CartPole-v1", "gym", {"num_envs": 4, "batch_size": 5}, "batch_size must be from 0 to num_envs=4, got 5"),
        ("CartPole-v1", "gym", {"seed": 2**31}, "seed must be in the range of int32, got 2147483648"),
        ("CartPole-v1", "gym", {"num_envs": 2, "seed": [1, 2, 3]}, "seed is one whole number or 2 for as many"),
        ("CartPole-v1", "gym", {"seed": 0.5}, "seed is one whole number"),
    ],
)
def test_what_is_out_of_range_is_an_assertion_error(task, env_type, options, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        envpool.make(task, env_type, **options)


@pytest.mark.parametrize(
    ("make", "options", "kind", "message"),
    [
        (envpool.make_gym, {"noop_max": 30}, TypeError, "classic/cartpole has no option 'noop_max'"),
        (envpool.make_gym, {"gym_reset_return_info": False}, ValueError, "give legacy=True"),
        (envpool.make_gym, {"render_mode": "human"}, ValueError, 'render_mode is "rgb_array" or None'),
        (envpool.make_dm, {"legacy": True}, ValueError, "legacy=True is the old form"),
    ],
)
def test_other_options_are_refused_by_name(make, options, kind, message):
    with pytest.raises(kind, match=message):
        make("CartPole-v1", **options)


def test_three_forms():
    spec = envpool.make_spec("CartPole-v1", num_envs=2)
    for make in (envpool.make_gym, envpool.make_gymnasium):
        envs = make("CartPole-v1", num_envs=2)
        assert isinstance(envs, gymnasium.Env)
        assert isinstance(envs, gymnasium.vector.VectorEnv)
        assert envs.action_space == envs.single_action_space == spec.action_space == gymnasium.spaces.Discrete(2)
        assert envs.observation_space.shape == spec.observation_space.shape == (4,)
    envs = envpool.make_dm("CartPole-v1", num_envs=2)
    assert isinstance(envs, dm_env.Environment)
    assert envs.action_spec().num_values == spec.action_spec().num_values == 2
    assert envs.observation_spec().obs.shape == (4,)
    assert envs.observation_spec().elapsed_step.dtype == np.int32
    assert {"CartPole-v1", "classic/cartpole", "smax/3m"} <= set(envpool.list_all_envs())


def test_facts_of_a_pool():
    envs = cartpole(num_envs=8, batch_size=4, num_threads=3, thread_affinity_offset=0, episodic_life=True)
    assert (len(envs), envs.num_envs, envs.is_async, cartpole(num_envs=4).is_async) == (8, 8, True, False)
    assert (envs.config["batch_size"], envs.spec.config.num_envs, envs.spec.config.max_episode_steps) == (4, 8, 500)
    assert envs.spec.reward_threshold is None
    np.testing.assert_array_equal(envs.all_env_ids, np.arange(8))
    envs.num_envs, envs.single_action_space = 8, envs.action_space  # as CleanRL's scripts do
    envs.action_space.seed(2)
    first = envs.action_space.sample()
    envs.action_space.seed(2)
    assert envs.action_space.sample() == first
    with pytest.warns(UserWarning, match="Seeds are given when a pool is made"):
        envs.seed(1)


@pytest.mark.parametrize("high", [False, True])
def test_steps_of_dm(high):
    """The last step of an episode is followed by the first of the next, whatever the action."""
    envs = envpool.make_dm("CartPole-v1", num_envs=4)
    if high:
        step, begun = envs.step, envs.reset()
    else:
        envs.async_reset()
        step, begun = lambda action: (envs.send(action), envs.recv())[1], envs.recv()
    assert np.all(begun.first())
    assert begun.observation.obs.shape == (4, 4)
    for field, dtype in ((begun.reward, "float32"), (begun.discount, "float32"), (begun.step_type, "int32")):
        assert (field.shape, field.dtype) == ((4,), dtype)
    ids = begun.observation.env_id
    for field in (ids, begun.observation.players.env_id):
        assert (field.tolist(), field.dtype) == ([0, 1, 2, 3], "int32")
    with pytest.raises(RuntimeError, match="Expected dtype int32 with 'action', got int64"):
        step({"env_id": ids, "action": np.ones(4, int)})
    with pytest.raises(RuntimeError, match="Expected dtype int32 with 'env_id', got int64"):
        step({"env_id": np.arange(4)})
    assert np.all(step({"env_id": ids, "players.env_id": ids, "action": np.ones(4, np.int32)}).mid())
    last = step(np.ones(4))  # of any dtype
    seen = np.zeros(4, int)
    for _ in range(30):
        before, last = last, step(np.ones(4, int))
        np.testing.assert_array_equal(last.first(), before.last())
        np.testing.assert_array_equal(last.discount, ~last.last())
        np.testing.assert_array_equal(last.reward, ~last.first())
        np.testing.assert_array_equal(last.observation.elapsed_step == 0, last.first())
        seen += last.last()
    assert seen.min() >= 2


@pytest.mark.parametrize("high", [False, True])
def test_steps_of_gymnasium(high):
    envs = cartpole(num_envs=3)
    if high:
        (obs, info), step = envs.reset(), envs.step
    else:
        envs.async_reset()
        obs, *_, info = envs.recv()
        step = lambda action: (envs.send(action), envs.recv())[1]  # noqa: E731
    assert (obs.shape, obs.dtype) == ((3, 4), np.float32)
    assert {"env_id", "players", "elapsed_step", "action_mask"} == set(info)
    done = np.zeros(3, bool)
    for _ in range(30):
        before = done
        _, reward, terminated, truncated, info = step(np.ones(3, int))
        assert (reward.dtype, terminated.dtype, truncated.dtype) == (np.float32, bool, bool)
        done = terminated | truncated
        assert not (done & before).any()
        np.testing.assert_array_equal(info["elapsed_step"][before], 0)
    obs[:] = 0  # arrays are the user's own


def test_a_seed_decides_everything():
    """Environment i has the seed + i, or one of its own; none depends on how many there are."""
    runs = {name: left(12, cartpole(num_envs=3, **seeds)) for name, seeds in {
        "7": {"seed": 7}, "again": {"seed": 7}, "list": {"seed": [7, 8, 9]}, "other": {"env_seed": [9, 3, 7]},
    }.items()}  # fmt: skip
    equal(runs["7"], runs["again"])
    equal(runs["7"], runs["list"])
    equal([x[[2, 0]] for x in runs["7"]], [x[[0, 2]] for x in runs["other"]])
    assert not np.array_equal(runs["7"][0][1], runs["other"][0][1])
    np.testing.assert_allclose([x[1:2] for x in runs["7"]], left(12, cartpole(num_envs=1, seed=8)), rtol=1e-5)


def test_lockstep_with_gymnasiums_own_cartpole():
    """Through several falls and time-outs, each episode from the start that the pool has drawn."""
    envs = cartpole(num_envs=2, max_episode_steps=30)
    theirs = [gymnasium.make("CartPole-v1", max_episode_steps=30) for _ in range(2)]

    def place(env, start):
        env.reset(seed=0)
        env.unwrapped.state = tuple(start.astype(np.float64))

    for env, start in zip(theirs, envs.reset()[0], strict=True):
        place(env, start)
    over, ends = np.zeros(2, bool), np.zeros(2, int)
    for t in range(160):
        action = t % 2 if t < 80 else 1
        obs, reward, terminated, truncated, _ = envs.step(np.full(2, action))
        for i, env in enumerate(theirs):
            told = reward[i], terminated[i], truncated[i]
            if over[i]:  # this step has only begun the next episode
                place(env, obs[i])
                assert told == (0, False, False)
            else:
                other, *rest, late, _ = env.step(action)
                np.testing.assert_allclose(obs[i], other, atol=1e-4)
                assert told == (*rest, late and not rest[1])  # of both, ours is the fall
        over = terminated | truncated
        ends += [terminated.sum(), truncated.sum()]
    assert ends.min() >= 2


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")  # Gymnasium, of their spaces
def test_lockstep_with_envpools_own_cartpole():
    peer = pytest.importorskip("envpool")
    theirs = peer.make("CartPole-v1", env_type="gymnasium", num_envs=1)
    handle, _, _, step = cartpole(num_envs=1).xla()
    begun, _ = theirs.reset()
    names = ("position", "velocity", "angle", "angular_velocity")
    state = handle.envs.state
    state = type(state)(**dict(zip(names, jnp.asarray(begun).T, strict=True)), step=state.step)
    handle = handle._replace(envs=handle.envs._replace(state=state, obs=jnp.asarray(begun)))
    fallen, action = False, np.ones(1, np.int32)
    while not fallen:
        (handle, mine), other = step(handle, action), theirs.step(action)
        equal(mine[1:4], other[1:4])
        np.testing.assert_allclose(mine[0], other[0], atol=1e-4)
        assert mine[4]["elapsed_step"] == other[4]["elapsed_step"]
        fallen = other[2][0]
    (handle, mine), other = step(handle, action), theirs.step(action)
    equal(mine[1:4], other[1:4])
    assert mine[4]["elapsed_step"] == other[4]["elapsed_step"] == 0


def test_gymnasiums_wrappers_take_it():
    envs = RecordEpisodeStatistics(NormalizeObservation(cartpole(num_envs=2, max_episode_steps=5)))
    envs.reset()
    *_, info = [envs.step(np.full(2, t % 2)) for t in range(5)][-1]
    assert info["episode"]["r"].tolist() == info["episode"]["l"].tolist() == [5, 5]


def test_a_compiled_step_needs_no_reset():
    handle, _, _, step = envpool.make("MinAtar/Breakout-v1", env_type="gymnasium", num_envs=8).xla()
    handle, (obs, reward, terminated, truncated, info) = jax.jit(step)(handle, jnp.zeros(8, jnp.int32))
    assert obs.shape == (8, 10, 10, 4)
    assert reward.shape == terminated.shape == truncated.shape == info["env_id"].shape == (8,)


def test_rows_of_teams_are_players():
    envs = envpool.make("smax/3m", env_type="gymnasium", num_envs=2, max_episode_steps=3)
    obs, info = envs.reset()
    assert obs.shape == (6, *envs.observation_space.shape)
    assert info["players"]["env_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert (info["action_mask"].shape, info["alive"].shape, info["won"].shape) == ((6, 8), (6,), (2,))
    assert envs.config["max_num_players"] == 3
    actions = np.arange(6) % 4 + 1
    obs, reward, terminated, truncated, info = envs.step(actions)
    assert (reward.shape, terminated.shape) == ((6,), (2,))
    envs.step(actions)
    *_, truncated, info = envs.step(actions)
    assert truncated.all()
    obs, *_, info = envs.step(actions, np.array([1]))
    assert (obs.shape[0], info["players"]["env_id"].tolist()) == (3, [1, 1, 1])
    (mine, _), (handle, _, _, step) = envs.reset(), envs.xla()
    for t in range(5):
        mine = envs.step(np.roll(actions, t))
        handle, theirs = step(handle, np.roll(actions, t))
        equal(mine, theirs)


# What scripts do.


def test_the_host_and_the_program_agree():
    """A handle belongs to what `reset` returns, whichever comes first; after a step, to the next start."""
    envs, action = cartpole(num_envs=2, seed=1), np.ones(2, int)
    handle, _, _, step = envs.xla()  # CleanRL: before reset
    (obs, _), step = envs.reset(), jax.jit(step)
    again, *_ = envs.xla()
    equal(jax.tree.map(_bits, handle), jax.tree.map(_bits, again))
    equal(obs, handle.envs.obs)
    for _ in range(25):
        handle, theirs = step(handle, action)
        equal(envs.step(action), theirs)
    other, *_ = envs.xla()  # purejaxql: after a probe of reset and step, before another reset
    assert not np.array_equal(other.envs.obs, obs)
    equal(envs.reset()[0], other.envs.obs)
    equal(envs.reset()[0], other.envs.obs)  # nothing has moved
    ids = np.array([1, 0], np.int32)
    equal(envs.step(action, ids), step(other, action, ids)[1])


def test_nothing_sent_is_nothing_moved():
    """A synchronous script may receive the first observations in the program as well."""
    envs = cartpole(num_envs=2)
    handle, recv, send, _ = envs.xla()
    envs.async_reset()
    handle, first = recv(handle)
    equal(envs.recv(), first)
    equal(recv(handle)[1], first)
    _, stepped = recv(send(handle, np.ones(2, int)))
    equal(envs.step(np.ones(2, int)), stepped)


def _bits(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_a_first_step_without_reset_only_resets():
    equal(cartpole(num_envs=2).step(np.ones(2, int))[0], cartpole(num_envs=2).reset()[0])


def test_some_environments_move_and_the_others_wait():
    """Stoix's reset within a step, with more actions than environments; Stable-Baselines3's reset of one."""
    envs, action = cartpole(num_envs=3, max_episode_steps=4), np.array([1, 0, 1])
    envs.reset()
    *_, truncated, info = [envs.step(action) for _ in range(4)][-1]
    assert (truncated == (info["elapsed_step"] >= envs.spec.config.max_episode_steps)).all()
    begun, *_, info = envs.step(np.zeros_like(action), np.array([2, 0]))
    assert (info["env_id"].tolist(), info["elapsed_step"].tolist()) == ([2, 0], [0, 0])
    alone, info = envs.reset(np.array([1]))
    assert (alone.shape, info["env_id"].tolist()) == ((1, 4), [1])
    assert (np.abs([*begun, *alone]) <= 0.05).all()
    after, *_, info = envs.step(action)
    assert info["elapsed_step"].tolist() == [1, 1, 1]
    np.testing.assert_allclose(after[:, 0], [s[0] + 0.02 * s[1] for s in (begun[1], alone[0], begun[0])], atol=1e-6)
    masked, _ = envs.reset(options={"reset_mask": np.array([False, False, True])})
    assert not np.array_equal(masked[0], begun[0])
    *_, info = envs.step(action)
    assert info["elapsed_step"].tolist() == [2, 2, 1]
    for options in ({"mask": 1}, {"reset_mask": np.zeros(3, bool)}):
        with pytest.raises(
            ValueError, match=r"reset takes options=.* with 3 booleans, of which some are True, or env_id"
        ):
            envs.reset(options=options)
    envs.close()  # as Stoix does, before it goes on
    assert envs.reset()[0].shape == (3, 4)
    with pytest.warns(UserWarning, match="Seeds are given"):
        envs.reset(seed=3)


def test_asynchronous_results_come_in_the_order_of_sending():
    """The host and the compiled program agree, and each environment does what it does in a synchronous pool."""
    envs, pushes = cartpole(num_envs=5, batch_size=2), lambda ids: (ids % 2).astype(np.int32)
    handle, recv, send, _ = envs.xla()
    envs.async_reset()
    runs, order = {i: [] for i in range(5)}, []
    recv, send = jax.jit(recv), jax.jit(send)
    for _ in range(60):
        obs, *_, info = mine = envs.recv()
        handle, theirs = recv(handle)
        equal(mine, theirs)
        ids = info["env_id"]
        order += ids.tolist()
        for i, row in zip(ids, obs, strict=True):
            runs[i].append(row)
        envs.send(pushes(ids), ids)
        handle = send(handle, pushes(ids), ids)
    assert order == [i % 5 for i in range(120)]
    together = cartpole(num_envs=5)
    expected = [together.reset()[0], *(together.step(pushes(np.arange(5)))[0] for _ in range(23))]
    equal([np.stack(runs[i]) for i in range(5)], list(np.stack(expected, axis=1)))
    first = envs.recv()[4]["env_id"]
    assert envs.step(pushes(first), first)[4]["env_id"].tolist() == [(first[-1] + k) % 5 for k in (1, 2)]


def test_what_would_wait_for_ever_or_be_lost_is_refused():
    envs = cartpole(num_envs=3, batch_size=2)
    with pytest.raises(RuntimeError, match="recv needs 2 environments that were sent actions or reset, not 0"):
        envs.recv()
    envs.send(np.ones(1, int), np.array([1]))
    with pytest.raises(RuntimeError, match="takes one action at a time"):
        envs.send(np.ones(1, int), np.array([1]))
    with pytest.raises(ValueError, match="numbered from 0 to 2"):
        envs.send(np.ones(1, int), np.array([3]))
    with pytest.raises(ValueError, match=r"takes one array of the shape \[3\]"):
        envs.send(np.ones(2, int))
    handle, recv, send, _ = envs.xla()
    with pytest.raises(ValueError, match="handles are values"):  # the overlapped loop of EnvPool's guide
        jax.jit(lambda old: (recv(old), send(old, jnp.ones(2, jnp.int32), jnp.arange(2))))(handle)


class _CleanRL(gymnasium.Wrapper):
    """Episode statistics, as CleanRL and purejaxql count them around old pools."""

    def reset(self, **kwargs):
        self.returns = np.zeros(self.env.num_envs)
        return super().reset(**kwargs)

    def step(self, action):
        obs, reward, done, info = super().step(action)
        self.returns += info["reward"]
        self.returns *= 1 - info["terminated"]
        return obs, reward, done, info


def test_the_form_before_gymnasium():
    pool = envpool.make("CartPole-v1", env_type="gym", num_envs=2, legacy=True, episodic_life=True, reward_clip=True)
    envs = _CleanRL(pool)
    envs.name = "CartPole-v1"
    assert envs.reset().shape == (2, 4)
    *_, done, info = [envs.step(np.ones(2, int)) for _ in range(12)][-1]
    assert set(info) == {
        *("reward", "terminated", "lives", "TimeLimit.truncated", "elapsed_step"),
        *("env_id", "players", "action_mask"),
    }
    assert info["terminated"].dtype == info["lives"].dtype == np.int32
    assert (done.shape, info["TimeLimit.truncated"].tolist()) == ((2,), [False, False])


def test_the_old_form_tells_ends_apart_and_keeps_rewards():
    options = {"legacy": True, "reward_clip": True, "gym_reset_return_info": True, "seed": 1}
    envs = envpool.make_gym("Pendulum-v1", num_envs=1, **options)
    assert envs.reset()[1]["lives"].tolist() == [0]
    handle, _, _, step = envs.xla()
    handle, results = jax.lax.scan(lambda handle, _: step(handle, jnp.zeros((1, 1))), handle, None, 201)
    _, reward, done, info = jax.tree.map(np.ravel, results)
    np.testing.assert_array_equal(np.flatnonzero(done), [199])
    np.testing.assert_array_equal(info["TimeLimit.truncated"], done)
    assert not info["terminated"].any()
    np.testing.assert_array_equal(reward, np.sign(info["reward"]))
    assert (info["reward"][:200] < 0).all()
    assert info["reward"].min() < -1 < info["reward"][:200].max() < -1e-3
    np.testing.assert_array_equal(info["elapsed_step"], [*range(1, 201), 0])


def test_options_wrap_the_environment():
    envs = cartpole(num_envs=1, stack_num=3, frame_skip=2, max_episode_steps=4)
    obs, _ = envs.reset()
    np.testing.assert_array_equal(obs[0], np.tile(obs[0, :4], 3))
    steps = [envs.step(np.full(1, t % 2)) for t in range(4)]
    assert [step[1].item() for step in steps] == [2, 2, 2, 2]
    assert [step[3].item() for step in steps] == [False, False, False, True]
    assert cartpole(frame_skip=3).spec.config.max_episode_steps == 167
    longer = cartpole(max_episode_steps=1000)
    assert longer.core.env.default_params.max_steps == longer.spec.config.max_episode_steps == 1000
    stuck, free = (cartpole(num_envs=1, repeat_action_probability=p, seed=3) for p in (1.0, 0.0))
    for envs in (stuck, free):
        envs.reset()
        envs.step(np.zeros(1, int))
    equal(stuck.step(np.ones(1, int))[0], free.step(np.zeros(1, int))[0])


def test_a_handle_can_be_mapped_and_saved(tmp_path):
    pools = [cartpole(num_envs=2, seed=seed) for seed in (0, 10)]
    handles = [envs.xla()[0] for envs in pools]
    _, recv, send, step = pools[0].xla()
    many = jax.tree.map(lambda *leaves: jnp.stack(leaves), *handles)
    _, (obs, *_) = jax.vmap(step)(many, jnp.ones((2, 2), jnp.int32))
    equal(obs, np.stack([step(handle, jnp.ones(2, jnp.int32))[1][0] for handle in handles]))
    leaves, structure = jax.tree.flatten(jax.tree.map(_bits, handles[0]))
    np.savez(tmp_path / "handle.npz", *leaves)
    saved = jax.tree.unflatten(structure, np.load(tmp_path / "handle.npz").values())
    saved = saved._replace(envs=saved.envs._replace(key=jax.random.wrap_key_data(saved.envs.key)))
    equal(recv(send(saved, np.ones(2, int)))[1], step(handles[0], np.ones(2, int))[1])


def test_a_handle_can_be_differentiated():
    """Pendulum's reward has -0.001 u^2 in it, for a torque u (Gymnasium's source)."""
    handle, _, _, step = envpool.make("Pendulum-v1", env_type="gymnasium", num_envs=2).xla()
    slope = jax.grad(lambda torque: step(handle, torque)[1][1].sum())(jnp.array([[0.5], [-1.0]]))
    np.testing.assert_allclose(slope, [[-0.001], [0.002]], rtol=1e-3)


def test_pictures():
    envs = cartpole(num_envs=3, render_mode="rgb_array")
    with pytest.raises(RuntimeError, match="and then reset"):
        envs.render()
    envs.reset()
    pictures = envs.render([0, 2])
    assert (pictures.shape[0], pictures.shape[3], pictures.dtype) == (2, 3, np.uint8)
    assert envs.render(1).shape == (1, *pictures.shape[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", {name.partition("/")[0]: name for name in jaxrl.list_envs()}.values())
def test_every_family_has_pools(name):
    """One environment of each family, without compiling anything."""
    envs = envpool.make(name, env_type="gymnasium", num_envs=2)
    space, players = envs.core.env.action_space(), envs.config["max_num_players"]
    handle = jax.eval_shape(lambda: envs.xla()[0])
    action = jax.ShapeDtypeStruct((2 * players, *space.shape), space.dtype)
    after, (obs, reward, *_) = jax.eval_shape(lambda *both: envs.xla()[3](*both), handle, action)
    jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype) or pytest.fail(name), handle, after)
    assert obs.shape == (2 * players, *envs.single_observation_space.shape)
    assert reward.shape == (2 * players,)
    assert envs.spec.observation_spec().obs.shape == obs.shape[1:]


@pytest.mark.slow
def test_the_script_of_the_page_learns(capsys):
    (script,) = re.findall(r"^```python\n(import flax.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    exec(compile(script, PAGE.name, "exec"), {})
    assert float(capsys.readouterr().out.split()[-1]) >= 475
