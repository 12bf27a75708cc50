"""Replayed sequences: DQN's loss with a memory, which begins where it was stored, in a loop over every step."""

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
from jaxrl.algos import dqn
from jaxrl.algos.off_policy import Batch, Steps
from jaxrl.nn.distributions import EpsilonGreedy

BURN_IN, LENGTH, N_STEP, ROWS = 2, 3, 2, 40
WINDOW = BURN_IN + LENGTH + N_STEP


def recurrent_agent(config: dqn.Config) -> Any:
    """DQN whose memory is `decay * memory + obs` and whose values are linear in both, with parameters [2, 4].

    The first row weighs the observed number and then the memory, for two actions; the second begins with `decay`.
    """
    agent = agent_of(dqn.make(config))

    def apply(params: Any, carry: Any, observation: Observation, reset: jax.Array) -> Any:
        def step(memory: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            obs, reset = inputs
            memory = params[1, 0] * jnp.where(reset[:, None], 0.0, memory) + obs[..., 0]
            return memory, jnp.stack([obs[..., 0], memory], -1) @ params[0].reshape(2, 2)

        carry, values = jax.lax.scan(step, carry, (observation.obs, reset))
        return carry, EpsilonGreedy(values), values

    return dataclasses.replace(agent, networks=agent.networks._replace(apply=apply))


def slow_values(params: np.ndarray, warm: np.ndarray, obs: np.ndarray, reset: np.ndarray, memory: Any) -> np.ndarray:
    """The values of both actions in each step of one agent's window, `[W, 2]`; `warm` are the burn-in's parameters."""
    values = []
    for t in range(WINDOW):
        now = warm if t < BURN_IN else params
        memory = now[1, 0] * (0.0 if reset[t] else memory) + obs[t]
        values.append(obs[t] * now[0, :2] + memory * now[0, 2:])
    return np.array(values)


@pytest.mark.parametrize("double", [True, False])
def test_the_loss_of_sequences_and_its_gradient_are_those_of_a_loop(double: bool) -> None:
    """Burn-in moves the memory and teaches nothing; each network has a memory of its own; ends reset and cut."""
    config = dqn.Config(
        env="probe/death",
        memory="gru",
        sequence_length=LENGTH,
        num_steps=2 * LENGTH,
        burn_in=BURN_IN,
        n_step=N_STEP,
        double=double,
        value_loss="mse",
        gamma=0.9,
    )
    rng, shape = np.random.default_rng(0), (WINDOW, ROWS, 2)
    obs, reward, action = rng.normal(size=shape), rng.normal(size=shape), rng.integers(0, 2, shape)
    ends = rng.choice(["", "terminated", "truncated"], shape[:2], p=[0.7, 0.15, 0.15])
    memory = rng.normal(size=shape[1:])
    reset = np.concatenate([rng.random((1, ROWS)) < 0.3, ends[:-1] != ""])
    params, target = rng.normal(size=(2, 2, 4))

    def slow(moved: np.ndarray) -> float:
        errors = []
        for row, i in np.ndindex(ROWS, 2):
            inputs = (obs[:, row, i], reset[:, row], memory[row, i])
            learned, chooser = slow_values(moved, params, *inputs), slow_values(params, params, *inputs)
            wanted = slow_values(target, target, *inputs)
            for first in range(BURN_IN, BURN_IN + LENGTH):
                if ends[first, row] == "truncated":
                    continue
                total, factor = 0.0, 1.0
                for t in range(first, first + N_STEP + 1):
                    if t == first + N_STEP or (t > first and ends[t, row] == "truncated"):
                        total += factor * wanted[t, (chooser if double else wanted)[t].argmax()]
                        break
                    total += factor * reward[t, row, i]
                    if ends[t, row] == "terminated":
                        break
                    factor *= 0.9
                errors.append(learned[first, action[first, row, i]] - total)
        return float(np.mean(0.5 * np.square(errors)))

    mask, alive = jnp.ones((*shape, 2), bool), jnp.ones(shape, bool)
    observation = Observation(jnp.float32(obs[..., None]), None, mask, alive)
    flags = (jnp.asarray(ends == "terminated"), jnp.asarray(ends == "truncated"))
    steps = Steps(observation, jnp.asarray(reset), jnp.asarray(action), jnp.float32(reward), *flags)
    loss = partial(dqn.loss, recurrent_agent(config), config.hyperparams)
    batch = Batch(steps, jnp.float32(memory))
    of_params = jax.jit(jax.value_and_grad(lambda p: loss(p, jnp.float32(target), batch)[0]))
    got, slopes = of_params(jnp.float32(params))
    np.testing.assert_allclose(got, slow(params), rtol=1e-5)
    np.testing.assert_allclose(slopes, slope(slow, params), atol=1e-4)
