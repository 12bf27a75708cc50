"""Step for step the same as mpe2 1.1.1, from its states: observations, rewards, ends and the full physical state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

B = 300
VERSIONS = {
    "simple": "v3",
    "simple_spread": "v3",
    "simple_tag": "v3",
    "simple_adversary": "v3",
    "simple_push": "v3",
    "simple_reference": "v3",
    "simple_speaker_listener": "v4",
    "simple_crypto": "v3",
    "simple_world_comm": "v3",
}
KINDS = ["discrete", "continuous"]
OTHER_SIZES = [
    ("simple_spread", {"N": 5, "local_ratio": 0.2}, {"num_agents": 5, "local_ratio": 0.2}),
    ("simple_tag", {"num_good": 3, "num_adversaries": 2, "num_obstacles": 0}, {}),
    ("simple_adversary", {"N": 4}, {"num_good": 4}),
    (
        "simple_world_comm",
        {"num_good": 3, "num_adversaries": 2, "num_obstacles": 2, "num_food": 1, "num_forests": 3},
        {},
    ),
]


def assert_same(env, theirs, step):
    """Compares B steps at a time; the last chunk repeats the first steps to be full."""
    keys = jax.random.split(jax.random.key(0), B)
    for begin in range(0, len(theirs.reward), B):
        index = np.arange(begin, begin + B) % len(theirs.reward)
        part = jax.tree.map(lambda leaf, index=index: leaf[index], theirs)
        action = jnp.asarray(part.action, env.action_space().dtype)
        stepped, before = step(jax.random.clone(keys), jax.tree.map(jnp.asarray, part.state), action)
        obs, state, reward, terminated, truncated, _ = stepped
        close(before, part.obs_before, "observation before the step")
        close(obs, part.obs, "observation")
        close(reward, part.reward, "reward")
        for name in ("position", "velocity", "message", "goal", "step"):
            close(getattr(state, name), getattr(part.next_state, name), name)
        np.testing.assert_array_equal(terminated, part.terminated)
        np.testing.assert_array_equal(truncated, part.truncated)


def close(ours, theirs, what):
    assert ours.shape == theirs.shape, what
    # Forces of bodies pressed into each other reach hundreds; there float32 is good for six digits.
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4, err_msg=what)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERSIONS)
def test_twelve_episodes(env, mpe2, steps, name, kind):
    env = env(name, action_type=kind)
    theirs = mpe2(name, VERSIONS[name], env).play(seed=1, episodes=12)
    assert theirs.truncated.sum() == 12  # the last step of each, and no other
    assert_same(env, theirs, steps(env))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERSIONS)
def test_two_hundred_episodes(env, mpe2, steps, name, kind):
    env = env(name, action_type=kind)
    assert_same(env, mpe2(name, VERSIONS[name], env).play(seed=2, episodes=200), steps(env))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "theirs", "ours"), OTHER_SIZES, ids=lambda value: str(value))
def test_other_numbers_of_bodies(env, mpe2, steps, name, theirs, ours, kind):
    env = env(name, action_type=kind, **(ours or theirs))
    assert_same(env, mpe2(name, VERSIONS[name], env, **theirs).play(seed=3, episodes=24), steps(env))


@pytest.mark.parametrize("name", ["simple_tag"])
def test_collisions_happen(env, mpe2, name):
    """Or the tests above would compare little."""
    env = env(name, action_type="discrete")
    theirs = mpe2(name, VERSIONS[name], env).play(seed=1, episodes=12)
    assert (theirs.reward[:, 0] > 0).sum() > 5
    assert (np.abs(np.diff(theirs.next_state.velocity, axis=0)) > 1.0).any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["simple_spread", "simple_tag", "simple_reference"])
def test_whole_episodes(env, mpe2, steps, name, kind):
    """Each side goes its own way from the same start. Contact is chaotic, so rounding may part a few."""
    env = env(name, action_type=kind)
    theirs = mpe2(name, VERSIONS[name], env).play(seed=4, episodes=B)
    theirs = jax.tree.map(lambda leaf: leaf.reshape(B, 25, *leaf.shape[1:]), theirs)
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[:, 0]), theirs.state)
    keys, parted = jax.random.split(jax.random.key(0), B), np.zeros(B, bool)
    for t in range(25):
        action = jnp.asarray(theirs.action[:, t], env.action_space().dtype)
        (_, state, reward, *_), _ = steps(env)(jax.random.clone(keys), state, action)
        gap = np.abs(np.asarray(state.position) - theirs.next_state.position[:, t]).max((1, 2))
        parted |= np.maximum(gap, np.abs(np.asarray(reward) - theirs.reward[:, t]).max(1)) > 1e-3
    assert parted.sum() <= 6
