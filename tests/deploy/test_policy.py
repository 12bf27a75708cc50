"""A policy does what its algorithm does: as a pure function, in a loop, batched or not, with memory and masks."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from subjects import KINDS, B, expected, subject

from jaxrl.algos import ppo
from jaxrl.deploy.params import load_params, save_params
from jaxrl.deploy.policy import Policy


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_plays_like_the_algorithm(kind: str) -> None:
    s = subject(kind)
    s.policy.reset()
    mask: Any = s.mask
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        found: Any = s.policy.predict(obs, reset=reset, **mask)
        assert (found.dtype, found.shape) == (action.dtype, action.shape)
        np.testing.assert_allclose(found, action, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "lstm", "team"])
def test_one_observation_is_a_batch_of_one(kind: str) -> None:
    s = subject(kind)
    s.policy.reset()
    mask = {name: value[1] for name, value in s.mask.items()}
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        np.testing.assert_array_equal(s.policy.predict(obs[1], reset=reset[1], **mask), action[1])


def test_it_can_be_scanned_and_vmapped() -> None:
    s = subject("lstm")

    def step(carry: Any, inputs: Any) -> Any:
        obs, reset = inputs
        action, carry = s.policy(obs, carry, reset=reset)
        return carry, action

    @jax.jit
    def play(obs: Any, reset: Any) -> Any:
        return jax.lax.scan(step, s.policy.new_carry(B), (obs, reset))[1]

    np.testing.assert_array_equal(play(s.obs, s.reset), expected("lstm"))
    one_by_one = jax.jit(jax.vmap(partial(s.policy.apply, s.policy.params)))
    np.testing.assert_array_equal(one_by_one(s.obs[0])[0], expected("lstm")[0])
    by_params = jax.vmap(s.policy.apply, in_axes=(0, None))
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), s.policy.params)
    np.testing.assert_array_equal(by_params(twice, s.obs[0])[0][1], expected("lstm")[0])


def test_parameters_are_what_actions_depend_on(tmp_path: Path) -> None:
    """Neither critic nor optimiser, but the normaliser; with them alone the policy is the same."""
    s = subject("continuous")
    assert set(s.policy.params) == {"params", "normaliser"}
    assert set(s.policy.params["params"]["params"]) == {"policy", "torso"}
    assert set(subject("roles").policy.params["params"]) == {"actor"}
    save_params(tmp_path / "a.safetensors", s.policy.params)
    zeros = {name: jax.tree.map(jnp.zeros_like, getattr(s.state, name)) for name in ("params", "normaliser")}
    fresh = Policy(s.algo, s.policy.env, dataclasses.replace(s.state, **zeros))
    action, _ = fresh.apply(load_params(tmp_path / "a.safetensors"), s.obs[0])
    np.testing.assert_allclose(action, expected("continuous")[0], rtol=1e-4, atol=1e-5)
    assert not np.allclose(fresh(s.obs[0])[0], action)


def test_samples_follow_the_seed() -> None:
    s = subject("mlp")

    def played(seed: int) -> list[int]:
        s.policy.reset(seed)
        return [int(s.policy.predict(s.obs[0, 0], greedy=False)) for _ in range(20)]

    assert played(0) == played(0) != played(1)
    assert set(played(0)) == {0, 1}
    action, _ = s.policy(s.obs[0], None, jax.random.key(3))
    np.testing.assert_array_equal(action, s.algo.act(s.state, s.obs[0], None, jax.random.key(3))[0])


def test_one_mask_is_everybodys_and_lists_are_taken() -> None:
    policy = subject("mlp").policy
    obs = np.zeros((2, 4))
    for action in (0, 1):
        mask = [number == action for number in range(2)]
        for given in (mask, [mask], [mask] * 2, np.array(mask)):
            policy.reset()
            assert policy.predict(obs, action_mask=given).tolist() == [action] * 2
            assert policy(obs.tolist(), action_mask=given)[0].tolist() == [action] * 2
        assert int(policy(obs[0].tolist(), action_mask=mask)[0]) == action
    for wrong in (np.ones((3, 2), bool), np.ones((2, 3), bool), np.ones((2, 1, 2), bool)):
        with pytest.raises(ValueError, match=r"action_mask is \[.*\]; for these observations it is \[2, 2\]"):
            policy.predict(obs, action_mask=wrong)


def test_what_does_not_fit_is_told() -> None:
    s, other = subject("lstm"), subject("mlp")
    s.policy.reset()
    with pytest.raises(ValueError, match=r"one observation \[4\], or a batch \[B, 4\]; got \[5\]"):
        s.policy.predict(np.zeros(5))
    with pytest.raises(TypeError, match="observes float32, and complex128 cannot be made"):
        s.policy.predict(np.zeros(4, complex))
    s.policy.predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"remembers a batch of 2 and now sees one .*; call policy\.reset\(\)"):
        s.policy.predict(np.zeros(4))
    with pytest.raises(ValueError, match="parameters of another policy: they lack params/params/torso/lstm"):
        s.policy.apply(other.policy.params, np.zeros(4))
    wide = jax.tree.map(lambda leaf: np.zeros((*leaf.shape, 2)), s.policy.params)
    with pytest.raises(ValueError, match=r"parameters of another policy: params/params/\S+ is \[\d+, 2\], not \[\d+\]"):
        s.policy.apply(wide, np.zeros(4))
    with pytest.raises(TypeError, match="not the seed 3"):
        s.policy(np.zeros(4), None, 3)  # pyright: ignore[reportArgumentType]
    for play in (s.policy, s.policy.predict):
        with pytest.raises(ValueError, match=r"reset is \[3\]; for these observations it is \[2\]"):
            play(np.zeros((2, 4)), reset=np.ones(3, bool))
    with pytest.raises(
        ValueError, match=r"carry is \[\(1, 4\), .* its arrays are \[\(2, 1, 4\), .* as policy.new_carry"
    ):
        s.policy(np.zeros((2, 4)), s.policy.new_carry())


def test_the_state_must_be_one_members() -> None:
    s = subject("mlp")
    both = jax.tree.map(lambda leaf: np.zeros((2, *leaf.shape)), s.state)
    with pytest.raises(ValueError, match="holds 2 members, and each has its own policy; choose one"):
        Policy(s.algo, s.policy.env, both)
    config = ppo.Config(hidden=(3,))
    with pytest.raises(ValueError, match=r"not a train state of this algorithm with this configuration: \S+ is"):
        Policy(ppo.make(config), s.policy.env, s.state)


def test_it_says_what_it_is() -> None:
    assert repr(subject("mlp").policy) == "Policy(classic/cartpole, 58 parameters)"
    assert repr(subject("lstm").policy).endswith("with a memory)")
