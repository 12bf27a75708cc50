"""Training on a probe task, and what the trained agent thinks of it (see `jaxrl.envs.probe`)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from family import MODULES, agent_of

import jaxrl
from jaxrl.acting.normaliser import normalised
from jaxrl.acting.rollout import Observation
from jaxrl.algorithm import scan_updates
from jaxrl.algos.actor_critic import q_of
from jaxrl.train.evaluate import evaluate

REPLAY_FIELDS: dict[str, Any] = {
    "num_envs": 8,
    "num_steps": 8,
    "total_timesteps": 64 * 150,
    "buffer_size": 64 * 40,  # it forgets what was learned from wrong values
    "learning_starts": 256,
    "batch_size": 64,
    "lr": 1e-2,
    "n_step": 1,
    "layer_norm": False,
    "tau": 0.1,
    "eps_finish": 0.3,
    "hidden": (32,),
}


def train(algorithm, probe, **fields):
    module = MODULES[algorithm]
    solution = jaxrl.make(f"probe/{probe}").solution
    config = module.Config(env=f"probe/{probe}", gamma=solution.gamma, **fields)
    algo = module.make(config)
    state, _ = jax.jit(scan_updates(algo, config.num_updates))(jax.random.key(0))
    return solution, algo, state


def value_and_action(algo, state, solution, case):
    """What the trained agent thinks of one situation: the value, and the greedy action."""
    agent = agent_of(algo)
    config, agents = agent.config, range(agent.env.num_agents)
    shared = {(c.agent, c.observation) for c in solution.cases}
    others = [
        case.observation if case.agent is None or (a, case.observation) in shared else (0.0,) * len(case.observation)
        for a in agents  # who has no such case is dead by then, and sees nothing
    ]
    obs = jnp.broadcast_to(jnp.asarray(case.observation), (1, 1, len(agents), len(case.observation)))
    central = jnp.asarray(case.global_state or np.ravel(others), jnp.float32)[None, None]
    observation = Observation(obs, central if agent.central else None, None, jnp.ones((1, 1, len(agents)), bool))
    observation = normalised(state.normaliser, observation, agent.param_sets)
    reset = jnp.ones((1, 1), bool)
    _, policy, prediction = agent.networks.apply(state.params, agent.networks.new_carry(1), observation, reset)
    number, takes_actions = case.agent or 0, agent.networks.evaluate is not None
    value = q_of(agent, state.params, observation, policy.mode()) if takes_actions else config.value.decode(prediction)
    return float(value[0, 0, number]), np.asarray(policy.mode()[0, 0, number])


def check(solution, algo, state, cases):
    for case in cases:
        value, action = value_and_action(algo, state, solution, case)
        if case.value is not None:
            np.testing.assert_allclose(value, case.value, atol=0.1, err_msg=str(case))
        if case.action is not None:
            np.testing.assert_allclose(action, case.action, atol=0.1, err_msg=str(case))


def greedy_score(algo, state):
    agent = agent_of(algo)
    env = agent.config.make_env()
    return float(np.mean(evaluate(algo, env, state, jax.random.key(1), episodes=256).returns))
