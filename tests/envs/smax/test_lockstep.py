"""Step for step the same as jaxmarl 0.2.0 with `compat="jaxmarl-0.2"`, in hard states and over whole episodes.

Cooldowns are compared with jaxmarl's own draws injected; what we draw ourselves has its own test.
"""

import dataclasses
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

FAST = ["2s3z", "5m_vs_6m"]
ALL = ["3m", "8m", "25m", "3s5z", "10m_vs_11m", "27m_vs_30m", "3s5z_vs_3s6z", "3s_vs_5z", "6h_vs_8z"]
ALL += ["smacv2_5_units", "smacv2_10_units", "smacv2_20_units"]
NAMES = FAST + [pytest.param(name, marks=pytest.mark.slow) for name in ALL]
CONIC = ["smacv2_5_units"] + [pytest.param(n, marks=pytest.mark.slow) for n in (*FAST, *ALL) if n != "smacv2_5_units"]


def legacy_keys(seed, number):
    return jax.random.split(jax.random.PRNGKey(seed), number)  # jaxmarl reuses typed keys, which our tests forbid


def compare(pair, ours, theirs, same):
    (seen, state), (expected, new) = ours, theirs
    same(state.position, new.unit_positions, "positions")
    same(state.health, new.unit_health, "health")
    same(state.alive, new.unit_alive, "alive")
    same(state.cooldown, new.unit_weapon_cooldowns, "cooldowns")
    same(state.move, new.prev_movement_actions, "last movement")
    same(state.attack, new.prev_attack_actions, "last attack")
    same(state.step, new.step, "step")
    for name in ("obs", "world_state", "reward", "ally_reward", "done", "dead"):
        same(seen[name], expected[name], name)
    assert not seen["truncated"].any()
    if "mask" in seen:
        for i, agent in enumerate(pair.theirs.agents):
            mask = expected["masks"][agent]
            same(seen["mask"][:, i, : mask.shape[1]], mask, f"mask of {agent}")
            assert not seen["mask"][:, i, mask.shape[1] :].any()


def step_both(pair, state, action, seed):
    keys = legacy_keys(seed, state.step.shape[0])
    typed = jax.random.split(jax.random.key(seed), state.step.shape[0])
    ours = pair.step_ours(typed, state, action, pair.deviations(keys))
    return ours, pair.step_theirs(keys, pair.as_theirs(state), action)


@pytest.mark.parametrize("name", NAMES)
def test_one_step_from_hard_states(pair, assert_same, name):
    pair = pair(name)
    fights = 0
    for seed in range(4):
        state = pair.states(seed)
        ours, theirs = step_both(pair, state, pair.actions(seed), seed)
        compare(pair, ours, theirs, assert_same)
        fights += int((ours[1].health < state.health).sum())
    assert fights > 50  # or nothing was compared


def test_mutual_kills(pair, assert_same):
    """Five against six, each with one shot's health, weapons ready: who shoots each other dies with the other.

    Ally k and enemy k stand face to face, out of reach of the rest, half of the pairs in one place; enemy 5 is dead.
    """
    pair = pair("5m_vs_6m")
    state, rng = pair.states(0), np.random.default_rng(0)
    spot = np.array([(4.0, 4.0), (16.0, 4.0), (28.0, 4.0), (4.0, 16.0), (16.0, 16.0)])
    apart = rng.choice([0.0, 0.5, 3.0], (64, 5, 1)) * [1.0, 0.5]
    position = np.concatenate([spot - apart / 2, spot + apart / 2, np.full((64, 1, 2), 28.0)], axis=1)
    shoots = rng.random((64, 11)) < 0.9
    shoots[0] = True  # everybody dies in this battle
    health = np.broadcast_to(np.append(np.full(10, 9.0), 0.0), (64, 11))
    state = dataclasses.replace(
        state,
        position=jnp.asarray(position, jnp.float32),
        health=jnp.asarray(health, jnp.float32),
        cooldown=jnp.full((64, 11), -1.0),
        step=jnp.zeros(64, jnp.int32),
    )
    opposite = np.array([5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 5])  # jaxmarl's enemies count the allies from the last
    ours, theirs = step_both(pair, state, jnp.asarray(np.where(shoots, opposite, 4)), 0)
    compare(pair, ours, theirs, assert_same)
    np.testing.assert_array_equal(ours[1].alive[:, :5], ~shoots[:, 5:10])
    np.testing.assert_array_equal(ours[1].alive[:, 5:10], ~shoots[:, :5])
    assert (shoots[:, :5] & shoots[:, 5:10]).sum() > 200
    assert ours[0]["done"][0]
    assert not ours[0]["won"][0]


def episode(pair):
    """Keys, draws and actions of 101 steps: allies act at random, enemies come closer and shoot."""
    for t in range(101):
        keys, action = legacy_keys(1000 + t, 64), pair.actions(1000 + t)
        action = jnp.where(jnp.arange(pair.num_units) < pair.num_allies, action, jnp.where(action < 5, 3, action))
        yield jax.random.split(jax.random.key(t), 64), keys, pair.deviations(keys), action


def spawned(pair):
    return jax.jit(pair.ours.batch_reset)(jax.random.split(jax.random.key(7), 64))[1]


@pytest.mark.parametrize("name", [FAST[0], *(pytest.param(n, marks=pytest.mark.slow) for n in (FAST[1], *ALL))])
def test_every_step_of_whole_episodes(pair, assert_same, name):
    """Jaxmarl takes each step from where we stand, so rounding cannot add up and everything must agree."""
    pair = pair(name)
    state, ended = spawned(pair), np.zeros(64, bool)
    for typed, keys, deviation, action in episode(pair):
        theirs = pair.step_theirs(keys, pair.as_theirs(state), action)
        ours = pair.step_ours(typed, state, action, deviation)
        compare(pair, ours, theirs, assert_same)
        state, ended = ours[1], ours[0]["done"]
    assert ended.all()  # the 101st step ended the last


@pytest.mark.parametrize("name", [pytest.param(FAST[0], marks=pytest.mark.slow), FAST[1]])
def test_whole_episodes(pair, name):
    """From a spawn to the end, each side going its own way.

    Units that push each other are chaotic, so rounding may part a few of the 64 battles, and no more.
    """
    pair = pair(name)
    state = spawned(pair)
    theirs_state = pair.as_theirs(state)
    going, parted = np.ones(64, bool), np.zeros(64, bool)
    for typed, keys, deviation, action in episode(pair):
        seen, state = pair.step_ours(typed, state, action, deviation)
        expected, theirs_state = pair.step_theirs(keys, theirs_state, action)
        for what in ("obs", "reward", "ally_reward", "done", "dead"):
            gap = np.abs(np.asarray(seen[what], np.float64) - np.asarray(expected[what], np.float64)).reshape(64, -1)
            parted |= going & (gap.max(1) > 1e-3)
        going &= ~parted & ~np.asarray(seen["done"])
    assert parted.sum() <= 3
    assert not going.any()


def certain_actions(pair, seed):
    """Continuous actions, the two random decisions made certain (0 or 1), the rest anywhere."""
    rng = np.random.default_rng(seed)
    certain = rng.integers(0, 2, (64, pair.num_units, 2)).astype(np.float32)
    return jnp.asarray(np.concatenate([certain, rng.random((64, pair.num_units, 2), np.float32)], -1))


def compare_conic(pair, actions, same):
    """A unit exactly between two sections stands where rounding says, so battles that have one are left out."""
    for seed in range(2):
        state = pair.states(seed)
        state = dataclasses.replace(state, position=4 + 0.75 * state.position)  # walls would line the dead up
        ours, theirs = step_both(pair, state, actions(seed), seed)
        x, y = np.moveaxis(np.asarray(ours[1].position, np.float64), -1, 0)
        turn = np.arctan2(y[:, None] - y[:, :, None], x[:, None] - x[:, :, None]) * 32 / (2 * np.pi)
        between = np.abs(turn - np.round(turn)) < 2e-5
        clear = ~(between & ~np.eye(pair.num_units, dtype=bool)).any((1, 2))
        assert clear.sum() > 16
        ours, theirs = jax.tree.map(operator.itemgetter(clear), (ours, theirs))
        compare(pair, ours, theirs, same)


@pytest.mark.parametrize("name", CONIC)
def test_conic_observations(pair, assert_same, name):
    pair = pair(name, "conic")
    compare_conic(pair, pair.actions, assert_same)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAST, *ALL])
def test_conic_observations_and_continuous_actions(pair, assert_same, name):
    pair = pair(name, "conic", "continuous")
    compare_conic(pair, lambda seed: certain_actions(pair, seed), assert_same)


@pytest.mark.parametrize("name", [FAST[1], *(pytest.param(n, marks=pytest.mark.slow) for n in ("2s3z", *ALL))])
def test_continuous_actions(pair, assert_same, name):
    pair = pair(name, "unit_list", "continuous")
    for seed in range(3):
        state = pair.states(seed)
        ours, theirs = step_both(pair, state, certain_actions(pair, seed), seed)
        compare(pair, ours, theirs, assert_same)


def test_continuous_actions_are_as_random(pair):
    """Shoots with probability 1 - a1, in both."""
    pair = pair(FAST[1], "unit_list", "continuous")
    state = pair.states(0)
    action = jnp.broadcast_to(jnp.array([1.0, 0.3, 0.5, 0.1]), (64, pair.num_units, 4))
    shots = np.zeros(2)
    for seed in range(40):
        ours, theirs = step_both(pair, state, action, seed)
        shots += [(ours[1].attack > 0).mean() / 40, (theirs[1].prev_attack_actions > 0).mean() / 40]
    np.testing.assert_allclose(shots, 0.7, atol=0.01)


def test_own_cooldowns(pair):
    """A weapon fired in tick f is ready its cooldown, plus -1 to +2 ticks drawn evenly, later."""
    pair = pair("2s3z")
    env, dt = pair.ours, 1 / 16
    state = pair.states(3)
    duel = {
        "position": jnp.full_like(state.position, 16.0) + jnp.arange(10)[:, None] * 1.0,
        "health": state.health * 0 + 1000.0,
        "cooldown": state.cooldown * 0,
        "step": state.step * 0,
    }
    state = type(state)(**{**{f: getattr(state, f) for f in state.__dataclass_fields__}, **duel})
    step = jax.jit(jax.vmap(lambda key, state: env._advance(key, state, jnp.full(10, 5), env.default_params)[0]))
    cooldown = np.concatenate([step(jax.random.split(jax.random.key(s), 64), state).cooldown for s in range(30)])
    fired = cooldown[:, 4]  # unit 4 is next to enemy 5; it fired in the first tick
    wc = float(env.default_params.units.cooldown[3])
    drawn = (fired + 7 * dt - wc) / dt
    assert drawn.min() >= -1 - 1e-3
    assert drawn.max() <= 2 + 1e-3
    counts = np.histogram(drawn, 12, (-1, 2))[0]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 31.3  # chi-square, 11 degrees, p = 0.001
    np.testing.assert_allclose(cooldown[:, 0], -8 * dt, atol=1e-6)  # unit 0 is out of range and waits
