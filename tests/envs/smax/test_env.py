"""SMAX as an environment: ends, batches, resets, both sides alike."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.smax import SCENARIOS

B = 16


def keys(seed, number=B):
    return jax.random.split(jax.random.key(seed), number)


def random_actions(env, seed, number=B):
    return jax.random.randint(jax.random.key(seed), (number, env.num_agents), 0, env.action_space().n)


def replace(state, **leaves):
    return dataclasses.replace(state, **leaves)


@pytest.fixture(scope="module")
def three():
    """3m, its compiled functions shared by the tests of this module."""
    env = jaxrl.make("smax/3m", walls_cause_death=False, enemy_shoots=False)
    return env, jax.jit(env.batch_reset), jax.jit(env.batch_step)


@pytest.mark.quick
def test_an_undecided_episode_lasts_exactly_max_steps(three):
    _env, reset, step = three
    _, state = reset(keys(0))
    stop = jnp.full((B, 3), 4)
    for t in range(1, 101):
        _, state, _, terminated, truncated, _ = step(keys(t), state, stop)
        assert not terminated.any()
        assert truncated.all() == truncated.any() == (t == 100)
    assert (state.step == 0).all()


def test_compat_plays_one_step_more_and_calls_it_terminated():
    env = jaxrl.make("smax/3m", compat="jaxmarl-0.2", max_steps=3, enemy_shoots=False)
    step = jax.jit(env.step)
    _, state = jax.jit(env.reset)(jax.random.key(0))
    ends = []
    for t in range(4):
        _, state, _, terminated, truncated, _ = step(jax.random.key(t), state, jnp.full(3, 4))
        ends.append((bool(terminated), bool(truncated)))
    assert ends == [(False, False)] * 3 + [(True, False)]


def test_a_win_is_terminated_and_rewarded(three):
    _env, reset, step = three
    _, state = reset(keys(1))
    state = replace(state, health=state.health.at[:, 3:].set(jnp.array([5.0, 0.0, 0.0])),
                    position=state.position.at[:, 3].set(state.position[:, 0] + 2.0))  # fmt: skip
    obs, after, reward, terminated, truncated, info = step(keys(2), state, jnp.full((B, 3), 5))
    assert terminated.all()
    assert not truncated.any()
    assert info["won"].all()
    np.testing.assert_allclose(reward, 1 + 5 / 45 / 3, atol=1e-6)
    assert (after.step == 0).all()  # the next episode
    assert (info["final_observation"] != obs).any()


@pytest.mark.parametrize("name", ["smax/3m", pytest.param("smax/smacv2_5_units", marks=pytest.mark.slow)])
def test_batch_step_is_vmap_of_step(name):
    env = jaxrl.make(name, max_steps=2)
    many, one = jax.jit(env.batch_step), jax.jit(jax.vmap(env.step))
    _, state = jax.jit(env.batch_reset)(keys(0))
    for t in range(3):
        action = random_actions(env, t)
        batched, mapped = many(keys(t), state, action), one(keys(t), state, action)
        chex.assert_trees_all_close(batched, mapped, atol=1e-5)
        state = batched[1]


def test_pool_resets_begin_where_fresh_ones_do():
    """Every ended episode goes on from a state of the pool, and sees what it saw there."""
    env = jaxrl.make("smax/3m", max_steps=1)
    vector = jaxrl.VectorEnv(env, B, reset="pool", pool_size=8)
    obs, state = jax.jit(vector.reset)(jax.random.key(0))
    obs, state, *_ = jax.jit(vector.step)(jax.random.key(1), state, random_actions(env, 0))
    pool_obs, pool_state = state.pool
    match = (state.env.position[:, None] == pool_state.position[None]).all((2, 3))
    assert match.any(1).all()
    np.testing.assert_array_equal(obs, pool_obs[match.argmax(1)])


def test_final_observation_is_the_one_before_the_reset(three):
    env, reset, step = three
    _, state = reset(keys(5))
    state = replace(state, step=state.step + 99)
    action = random_actions(env, 5)
    *_, info = step(keys(6), state, action)
    raw = jax.jit(jax.vmap(lambda k, s, a: env.step_env(jax.random.split(k)[0], s, a, env.default_params)[0]))
    np.testing.assert_allclose(info["final_observation"], raw(keys(6), state, action), atol=1e-6)


@pytest.mark.quick
def test_sub_states_end_in_the_step(three):
    env, reset, _ = three
    state = jax.tree.map(lambda leaf: leaf[0], reset(keys(0))[1])
    ticks = jax.jit(env.sub_states)(jax.random.key(3), state, jnp.array([1, 5, 0]))
    after = jax.jit(env.step_env)(jax.random.key(3), state, jnp.array([1, 5, 0]), env.default_params)[1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[-1], b, atol=1e-6), ticks, after)
    assert ticks.position.shape == (8, 6, 2)


def mirrored(state, env):
    """The same battle with the sides exchanged and left and right swapped (A = E)."""
    n = env.num_allies
    swap = lambda leaf: jnp.concatenate([leaf[:, n:], leaf[:, :n]], axis=1)  # noqa: E731
    flip = jnp.array([-1.0, 1.0])
    state = jax.tree.map(lambda leaf: swap(leaf) if leaf.ndim > 1 else leaf, state)
    # An attack on unit k of the other team is 5 + k for allies, and counted from the other end for enemies.
    attack = jnp.where(state.attack >= 5, 9 + n - state.attack, 0)
    return replace(
        state, position=state.position * flip + jnp.array([32.0, 0.0]), move=state.move * flip, attack=attack
    )


def test_selfplay_looks_the_same_from_both_sides():
    """Exchange the sides of a battle: both teams see, may do and get what the others did, and it goes on mirrored."""
    env = jaxrl.make("smax/2s3z", mode="selfplay")
    n = env.num_allies
    assert env.agents == tuple(f"ally_{i}" for i in range(5)) + tuple(f"enemy_{i}" for i in range(5))
    _, state = jax.jit(env.batch_reset)(keys(0))
    sides = lambda leaf: jnp.concatenate([leaf[:, n:], leaf[:, :n]], axis=1)  # noqa: E731

    @jax.jit
    @jax.vmap
    def look(state):
        return env._observe(state, env.default_params), env.action_mask(state)

    @jax.jit
    @jax.vmap
    def advance(key, state, action):
        return env._advance(key, state, action, env.default_params, np.zeros((8, 10), np.float32))[:2]

    other, hurt = mirrored(state, env), 0.0
    for t in range(20):
        (obs, mask), (obs_other, mask_other) = look(state), look(other)
        np.testing.assert_allclose(sides(obs), obs_other, atol=2e-3)
        np.testing.assert_array_equal(sides(mask), mask_other)
        shoots = mask[..., 5:].any(-1)
        action = jnp.where(shoots, 5 + jnp.argmax(mask[..., 5:], -1), 1)  # to the right is ahead, for both
        state, reward = advance(keys(t), state, action)
        other, reward_other = advance(keys(t), other, sides(action))
        np.testing.assert_allclose(sides(reward), reward_other, atol=1e-5)
        hurt += float(jnp.abs(reward).sum())
    assert hurt > 1


def test_own_losses_say_how_much_a_team_suffers():
    """The same battle under the same actions, in which both teams win some."""
    names = ("smax/3m?mode=selfplay", "smax/3m?mode=selfplay&own_losses=0", "smax/3m?mode=selfplay&own_losses=0.25")
    rewards = []
    for env in map(jaxrl.make, names):
        step, mask, rows = jax.jit(env.batch_step), jax.jit(jax.vmap(env.action_mask)), []
        _, state = jax.jit(env.batch_reset)(keys(0))
        for t in range(60):
            shoots = mask(state)[..., 5:]
            action = jnp.where(shoots.any(-1), 5 + jnp.argmax(shoots, -1), 1)
            _, state, reward, *_ = step(keys(t), state, action)
            rows.append(reward)
        rewards.append(np.stack(rows))
    fair, selfish, between = rewards
    ally, enemy = selfish[..., 0], selfish[..., 3]
    assert min((ally > 0.9).sum(), (enemy > 0.9).sum()) > 3
    for weight, reward in ((1.0, fair), (0.25, between)):
        np.testing.assert_allclose(reward[..., :3], np.repeat((ally - weight * enemy)[..., None], 3, -1), atol=1e-6)
        np.testing.assert_allclose(reward[..., 3:], np.repeat((enemy - weight * ally)[..., None], 3, -1), atol=1e-6)


def test_a_policy_as_the_enemy():
    """It is asked with its parameters, sees mirrored, and attacks whom it says."""
    seen = {}

    def policy(params, obs, mask, key):
        seen.update(obs=obs.shape, mask=mask.shape)
        return jnp.full(6, params["action"])

    env = jaxrl.make("smax/5m_vs_6m", enemy=policy, enemy_params={"action": np.int32(1)})
    step = jax.jit(env.batch_step)
    _, state = jax.jit(env.batch_reset)(keys(0))
    _, after, *_ = step(keys(1), state, jnp.full((B, 5), 4))
    assert seen == {"obs": (6, 140), "mask": (6, 10)}
    assert (after.move[:, 5:] == jnp.array([-1.0, 0.0])).all()  # right is left over there
    attack = dataclasses.replace(env.default_params, enemy={"action": np.int32(5)})
    _, after, *_ = step(keys(1), state, jnp.full((B, 5), 4), attack)
    assert (after.attack[:, 5:] == 5 + 4).all()  # ally 0, as enemies count


def test_a_thousand_different_battles_in_one_program():
    """Statistics are parameters: `vmap` over them. Here the enemies have 1 to 500 points of health."""
    env = jaxrl.make("smax", allies="3m", enemies="3M")
    units = env.default_params.units
    health = jnp.broadcast_to(units.health, (1000, 6)).at[:, 1].set(jnp.linspace(1.0, 500.0, 1000))
    params = dataclasses.replace(env.default_params, units=dataclasses.replace(units, health=health))
    axes = jax.tree.map(lambda _: None, env.default_params)
    axes = dataclasses.replace(axes, units=dataclasses.replace(axes.units, health=0))
    _obs, state = jax.jit(jax.vmap(env.reset, (0, axes)))(keys(0, 1000), params)
    np.testing.assert_allclose(state.health[:, 3:], jnp.repeat(health[:, 1:2], 3, 1))
    out = jax.jit(jax.vmap(env.step, (0, 0, 0, axes)))(keys(1, 1000), state, jnp.ones((1000, 3), int), params)
    assert out[0].shape == (1000, 3, 75)
    assert np.isfinite(out[0]).all()


@pytest.mark.parametrize("compat", [None, "jaxmarl-0.2"])
def test_surrounding_units_stand_on_the_map(compat):
    """By default all of them; in JaxMARL 5.2 % of a surrounding team stand outside, and die at once."""
    env = jaxrl.make("smax/smacv2_10_units", compat=compat)
    _, state = jax.jit(env.batch_reset)(keys(0, 4000))
    outside = ((state.position < 0) | (state.position > 32)).any(-1)
    share = float(outside.mean()) * 4  # a half of the battles, a half of the units
    assert share == 0 if compat is None else 0.045 < share < 0.065
    assert len(np.unique(state.unit_type[:, 0])) == 6
    np.testing.assert_array_equal(state.unit_type[:, :10], state.unit_type[:, 10:])


@pytest.mark.parametrize("name", ["smacv2_5_units", pytest.param("5m_vs_6m", marks=pytest.mark.slow)])
def test_spawns_are_distributed_as_jaxmarls(pair, name):
    """Two-sample Kolmogorov-Smirnov of x, y, the distance to a team-mate and to an opponent."""
    theirs = pair(name).theirs
    env = jaxrl.make(f"smax/{name}", compat="jaxmarl-0.2")
    number = 4000
    ours = np.asarray(jax.jit(env.batch_reset)(keys(3, number))[1].position)
    peer = np.asarray(
        jax.jit(jax.vmap(theirs.reset))(jax.random.split(jax.random.PRNGKey(0), number))[1].unit_positions
    )
    for look in (lambda p: p[:, 0, 0], lambda p: p[:, 0, 1], lambda p: p[:, -1, 0],
                 lambda p: np.linalg.norm(p[:, 0] - p[:, 1], axis=-1),
                 lambda p: np.linalg.norm(p[:, 0] - p[:, -1], axis=-1)):  # fmt: skip
        a, b = np.sort(look(ours)), np.sort(look(peer))
        grid = np.concatenate([a, b])
        gap = np.abs(np.searchsorted(a, grid, "right") - np.searchsorted(b, grid, "right")).max() / number
        assert gap < 1.95 * np.sqrt(2 / number)  # p = 0.001


@pytest.mark.parametrize("action", [-7, 10_000])
def test_actions_outside_are_clipped(three, action):
    _env, reset, step = three
    _, state = reset(keys(0))
    nearest = 0 if action < 0 else 7
    a, b = (step(keys(1), state, jnp.full((B, 3), x))[1] for x in (action, nearest))
    chex.assert_trees_all_equal(a, b)


def test_continuous_actions_aim(three):
    """Shooting with radius r at an angle hits the opponent nearest to the point r times the range away."""
    env = jaxrl.make("smax/3m", action_type="continuous")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    position = jnp.array([[10.0, 10], [10, 20], [10, 28], [14, 10], [10, 13], [25, 25]])
    state = replace(state, position=position)
    step = jax.jit(env.step_env)
    shoot = lambda angle: jnp.array([[0.0, 1.0, 0.8, angle]] * 3)  # noqa: E731
    east = step(jax.random.key(1), state, shoot(0.0), env.default_params)[1]
    north = step(jax.random.key(1), state, shoot(0.25), env.default_params)[1]
    assert (east.attack[0], north.attack[0]) == (5, 6)
    assert east.health[3] < 45 > north.health[4]
    kept = step(jax.random.key(1), east, shoot(0.25).at[:, 0].set(1.0), env.default_params)[1]
    assert kept.attack[0] == 5
    walk = step(jax.random.key(1), state, jnp.array([[0.0, 0.0, 0.5, 0.5]] * 3), env.default_params)[1]
    np.testing.assert_allclose(walk.position[0], [10 - 0.5 * 3.15 * 0.5, 10], atol=1e-4)


def test_conic_sees_the_living_only_and_everybody():
    env = jaxrl.make("smax/3m", observation_type="conic")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    state = replace(state, position=jnp.array([[10.0, 10], [12, 10.1], [9, 14], [10, 7], [14, 12], [30, 30]]))
    seen = lambda s: int((env._observe(s, env.default_params)[:, : 64 * 13].reshape(3, 64, 13)[..., 0] > 0).sum())  # noqa: E731
    assert seen(state) == 12  # each of three sees two mates and two enemies
    assert seen(replace(state, health=state.health.at[3].set(0.0))) == 9


def test_scenarios_have_the_sizes_of_jaxmarl():
    sizes = {"3m": (75, 8), "2s3z": (127, 10), "25m": (647, 30), "5m_vs_6m": (140, 11), "27m_vs_30m": (738, 35)}
    sizes |= {"3s5z_vs_3s6z": (218, 14), "6h_vs_8z": (179, 13), "smacv2_20_units": (517, 25)}
    for name, (observation, actions) in sizes.items():
        env = jaxrl.make(name)
        assert (env.observation_space().shape[0], env.action_space().n) == (observation, actions)
    assert len(SCENARIOS) == 14
