"""PPO's loss and its gradient against a loop over every agent's steps, with weights in all of its means."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of
from replayed import slope

from jaxrl.acting.rollout import Observation
from jaxrl.algos import ippo, ppo
from jaxrl.nn.distributions import categorical

SHAPE, ACTIONS, SIZE = (2, 12, 2), 3, 2  # steps, sequences, agents; and numbers that each of them sees


def linear_agent(config: Any) -> Any:
    """Logits and a value that are linear in the observation, with parameters [D, A + 1]."""
    agent = agent_of(ippo.make(config))

    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> Any:
        outputs = jnp.tensordot(observation.obs, params, 1)
        return carry, categorical(outputs[..., :-1]), outputs[..., -1]

    return dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))


@pytest.mark.parametrize("clip_value", [True, False])
def test_the_loss_and_its_gradient_are_those_of_a_loop(clip_value: bool) -> None:
    config = ippo.Config(env="probe/death", clip_eps=0.2, ent_coef=0.3, vf_coef=0.7, clip_value=clip_value)
    rng = np.random.default_rng(0)
    params = rng.normal(size=(SIZE, ACTIONS + 1))
    obs, action = rng.normal(size=(*SHAPE, SIZE)), rng.integers(0, ACTIONS, SHAPE)
    advantage, weight = rng.normal(1.0, 2.0, SHAPE), rng.integers(0, 3, SHAPE)
    samples = [index for index in np.ndindex(SHAPE) if weight[index]]
    shares = np.array([weight[index] for index in samples]) / weight.sum()

    def said(params: np.ndarray, index: Any) -> tuple[np.ndarray, float]:
        outputs = obs[index] @ params
        exp = np.exp(outputs[:-1])
        return np.log(exp / exp.sum()), outputs[-1]

    # The policy that acted was near, so that some ratios are clipped and others are not.
    then = params + 0.3 * rng.normal(size=params.shape)
    log_prob = np.array([said(then, index)[0][action[index]] for index in np.ndindex(SHAPE)]).reshape(SHAPE)
    value = np.array([said(then, index)[1] for index in np.ndindex(SHAPE)]).reshape(SHAPE)
    value = value + rng.choice([-0.4, 0.0, 0.4], SHAPE)
    mean = sum(share * advantage[index] for share, index in zip(shares, samples, strict=True))
    variance = sum(share * (advantage[index] - mean) ** 2 for share, index in zip(shares, samples, strict=True))

    def slow(params: np.ndarray) -> dict[str, float]:
        told: dict[str, list[float]] = {name: [] for name in ("policy", "value", "entropy", "approx_kl", "clipped")}
        for index in samples:
            log_probs, new = said(params, index)
            ratio = np.exp(log_probs[action[index]] - log_prob[index])
            gain, target = (advantage[index] - mean) / np.sqrt(variance), advantage[index] + value[index]
            told["policy"].append(-min(ratio * gain, np.clip(ratio, 0.8, 1.2) * gain))
            near = np.clip(new, value[index] - 0.2, value[index] + 0.2)
            errors = [float(new - target) ** 2, float(near - target) ** 2 if clip_value else 0.0]
            told["value"].append(0.5 * max(errors))
            told["entropy"].append(float(-np.sum(np.exp(log_probs) * log_probs)))
            told["approx_kl"].append(float(ratio - 1 - np.log(ratio)))
            told["clipped"].append(float(abs(ratio - 1) > 0.2))
        means = {name: float(shares @ each) for name, each in told.items()}
        return {**means, "total": means["policy"] + 0.7 * means["value"] - 0.3 * means["entropy"]}

    observation = Observation(jnp.float32(obs), None, None, jnp.asarray(weight > 0))
    numbers = (jnp.float32(each) for each in (log_prob, value, advantage, advantage + value, weight))
    batch = ppo.Batch(observation, jnp.zeros(SHAPE[:2], bool), jnp.asarray(action), *numbers, carry=())
    batch = ppo.normalised_minibatch(batch)
    loss = partial(ppo.loss, linear_agent(config), config.hyperparams)
    of_params = jax.jit(jax.value_and_grad(lambda p: loss(p, batch), has_aux=True))
    (total, losses), slopes = of_params(jnp.float32(params))
    wanted = slow(params)
    assert 0.1 < wanted["clipped"] < 0.9
    wanted["clip_fraction"] = wanted.pop("clipped")
    np.testing.assert_allclose(total, wanted["total"], rtol=1e-4)
    for name, each in losses.items():
        np.testing.assert_allclose(each, wanted[name], rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(slopes, slope(lambda p: slow(p)["total"], params), atol=1e-4)
