"""The probes' own answers are right: solved by exhaustive simulation, not taken on trust."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from walkers import found_by

import jaxrl
from jaxrl.check.dynamic import check_same_start
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.envs.probe import PROBES, Case, Solution
from jaxrl.spaces import Box

B, T = 2000, 40
ONE_STEP = [
    "constant_reward",
    "observation_reward",
    "action_reward",
    "observation_action",
    "multi_discrete_action",
    "continuous_action",
    "action_mask",
    "credit",
    "roles",
    "lift",
]


def best_actions(env: Any, obs: jax.Array) -> jax.Array:
    """The solution's action for every agent `[…, (N)]`; zeros where any will do. Matches cases by observation."""
    team = isinstance(env, MultiAgentEnvironment)
    obs = obs if team else obs[..., None, :]
    space = env.action_space()
    action = jnp.zeros((*obs.shape[:-1], *space.shape), space.dtype)
    for case in env.solution.cases:
        if case.action is None:
            continue
        here = jnp.all(jnp.abs(obs - np.float32(case.observation)) < 1e-3, axis=-1)
        if case.agent is not None:
            here &= np.arange(obs.shape[-2]) == case.agent
        here = here.reshape(*here.shape, *(1,) * len(space.shape))
        action = jnp.where(here, jnp.asarray(case.action, space.dtype), action)
    return action if team else action[..., 0, *(slice(None),) * len(space.shape)]


def rewards_of(env: Any, policy: Any, length: int = T) -> Any:
    """B episodes side by side under `policy(obs, t)`: `(obs, reward, done, mask)`, leaves `[T, B, …]`."""

    def body(carry, t):
        obs, state = carry
        alive = jax.vmap(env.agent_mask)(state) if isinstance(env, MultiAgentEnvironment) else jnp.ones(B, bool)
        action = policy(obs, t)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), t), B)
        next_obs, state, reward, terminated, truncated, _ = env.batch_step(keys, state, action)
        return (next_obs, state), (obs, reward, terminated, truncated, alive)

    start = env.batch_reset(jax.random.split(jax.random.key(0), B))
    return jax.jit(lambda: jax.lax.scan(body, start, jnp.arange(length))[1])()


def returns_of(reward: Any, terminated: Any, gamma: float) -> np.ndarray:
    """Discounted returns at every step, by the definition; the end of the recording counts as zero."""
    reward, terminated = np.asarray(reward, np.float64), np.asarray(terminated)
    out, ahead = np.zeros_like(reward), np.zeros_like(reward[0])
    for t in range(len(reward))[::-1]:
        go_on = ~terminated[t]
        ahead = out[t] = reward[t] + gamma * ahead * (go_on[:, None] if reward.ndim == 3 else go_on)
    return out


# Their best actions depend on what the agent itself does not see.
UNSEEN = {"memory_recall", "memory_leak", "hidden_state", "overhear", "overheard_before"}


@pytest.mark.parametrize("name", sorted({*PROBES} - UNSEEN))
def test_values_are_the_returns_of_the_best_actions(name):
    """Averages of simulated returns from each case's observation."""
    env: Any = jaxrl.make(f"probe/{name}")
    obs, reward, terminated, _, alive = rewards_of(env, lambda obs, t: best_actions(env, obs))
    # The clock's cuts are no ends: what follows is worth as much as what would have followed.
    returns = returns_of(reward, terminated, env.solution.gamma)
    early = slice(0, T // 2)  # late ones miss what comes after the recording
    for case in env.solution.cases:
        assert case.value is not None
        here = np.all(np.abs(np.asarray(obs) - np.float32(case.observation)) < 1e-3, axis=-1) & np.asarray(alive)
        if case.agent is not None:
            here &= np.arange(here.shape[-1]) == case.agent
        assert here[early].any(), case
        np.testing.assert_allclose(returns[early][here[early]].mean(), case.value, atol=0.05, err_msg=str(case))


@pytest.mark.parametrize("name", ONE_STEP)
def test_no_other_action_is_better(name):
    """Every action in the space (a grid of the continuous one) earns at most the value, by trying."""
    env: Any = jaxrl.make(f"probe/{name}")
    space, team = env.action_space(), isinstance(env, MultiAgentEnvironment)
    if isinstance(space, Box):
        grid = [[x] for x in np.linspace(-1, 1, 21)]
    elif name == "multi_discrete_action":
        grid = [[i, j] for i in range(2) for j in range(3)]
    else:
        grid = [a for a in range(space.n) if a not in env.solution.never]
    step = jax.jit(jax.vmap(env.step_env, in_axes=(0, 0, 0, None)))
    obs, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), 64))
    for action in grid:
        shape = (64, *((env.num_agents,) if team else ()), *space.shape)
        actions = jnp.broadcast_to(jnp.asarray(action, space.dtype), shape)
        reward = np.asarray(step(jax.random.split(jax.random.key(1), 64), state, actions, None)[2])
        for case in env.solution.cases:
            here = np.all(np.abs(np.asarray(obs) - np.float32(case.observation)) < 1e-3, axis=-1)
            if case.agent is not None:
                here &= np.arange(here.shape[-1]) == case.agent
            assert (reward[here] <= case.value + 1e-6).all()


def test_truncation_is_never_an_end_and_a_wrong_reading_is_far_off():
    env: Any = jaxrl.make("probe/truncation")
    _, reward, terminated, truncated, _ = rewards_of(env, lambda obs, t: jnp.zeros(B, jnp.int32))
    assert not terminated.any()
    assert truncated[4::5].all()
    wrong = returns_of(reward, truncated, 0.5)
    assert abs(wrong.mean() - env.solution.cases[0].value) > 0.3


def test_a_masked_action_would_pay():
    """So that an algorithm without masks is found out."""
    env: Any = jaxrl.make("probe/action_mask")
    _, state = env.reset(jax.random.key(0))
    assert env.action_mask(state).tolist() == [True, True, False]
    assert jax.jit(env.step)(jax.random.key(1), state, jnp.int32(2))[2] == 10.0


def per_episode(reward: Any, done: Any) -> float:
    """Mean return of the episodes that ended."""
    return float(np.asarray(reward).sum() / np.asarray(done).sum())


def test_memory_recall_needs_memory():
    env: Any = jaxrl.make("probe/memory_recall")
    obs, reward, done, _, _ = rewards_of(env, lambda obs, t: jnp.zeros(B, jnp.int32))
    np.testing.assert_allclose(per_episode(reward, done), env.solution.score_without_memory, atol=0.05)
    assert (np.asarray(obs)[np.asarray(done)] == np.array([0.0, 1.0])).all()  # nothing is left to see at the end
    shown = np.asarray(obs)[0, :, 0]
    recalled = rewards_of(env, lambda obs, t: jnp.asarray(shown > 0, jnp.int32), 4)[1]
    assert (np.asarray(recalled)[3] == 1.0).all()
    np.testing.assert_allclose(returns_of(recalled, np.zeros((4, B), bool), 0.9)[0], 0.9**3)


def follow(env: Any, remember: Any) -> float:
    """Return an episode of the policy that names `memory`, with `memory = remember(memory, cue, new_episode)`."""

    def body(carry, t):
        obs, state, new, memory, since = carry
        memory, since = remember(memory, since, obs[:, 0], new)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(2), t), B)
        action = jnp.where(since < 3, memory, 0.0).astype(jnp.int32) + 1
        obs, state, reward, terminated, _, _ = env.batch_step(keys, state, action)
        return (obs, state, terminated, memory, since), (reward, terminated)

    obs, state = env.batch_reset(jax.random.split(jax.random.key(0), B))
    start = (obs, state, jnp.ones(B, bool), jnp.zeros(B), jnp.full(B, 9))
    reward, done = jax.jit(lambda: jax.lax.scan(body, start, jnp.arange(60))[1])()
    return per_episode(reward[20:], done[20:])


def test_memory_leak_costs_what_the_solution_says():
    env: Any = jaxrl.make("probe/memory_leak")

    def cleared(memory, since, cue, new):
        memory = jnp.where(new, cue, memory)
        return memory, jnp.zeros_like(since)

    def leaking(memory, since, cue, new):
        """Never told of new episodes; best is to believe the last cue for two more steps."""
        since = jnp.where(cue != 0, 0, since + 1)
        return jnp.where(cue != 0, cue, memory), since

    solution = env.solution
    assert follow(env, cleared) == pytest.approx(solution.score, abs=0.03)
    assert follow(env, leaking) == pytest.approx(solution.score_if_leaking, abs=0.03)
    without = follow(env, lambda memory, since, cue, new: (cue, jnp.zeros_like(since)))
    assert without == pytest.approx(solution.score_without_memory, abs=0.03)
    assert solution.cases[0].value == pytest.approx(1 / (1 - 0.9 / 2))


def test_only_the_global_state_tells_the_reward():
    env: Any = jaxrl.make("probe/hidden_state")
    obs, state = env.batch_reset(jax.random.split(jax.random.key(0), 64))
    seen = jax.vmap(env.global_state)(state)
    actions = jnp.zeros((64, 2), jnp.int32)
    _, _, reward, *_ = jax.jit(env.batch_step)(jax.random.split(jax.random.key(1), 64), state, actions)
    assert not obs.any()
    np.testing.assert_array_equal(reward, np.repeat(seen, 2, axis=1))
    assert {(c.global_state, c.value) for c in env.solution.cases} == {((-1.0,), -1.0), ((1.0,), 1.0)}
    assert set(np.unique(seen)) == {-1.0, 1.0}


def test_each_agents_credit_is_its_own():
    """Changing one agent's action changes nobody else's reward."""
    env: Any = jaxrl.make("probe/credit")
    _, state = env.reset(jax.random.key(0))
    rewards = [env.step(jax.random.key(1), state, jnp.array(a, jnp.int32))[2] for a in ((0, 0), (1, 0), (0, 1))]
    assert rewards[0][1] == rewards[1][1]
    assert rewards[0][0] != rewards[1][0]
    assert rewards[0][0] == rewards[2][0]
    assert rewards[0][1] != rewards[2][1]


def test_what_the_dead_do_has_no_effect():
    env: Any = jaxrl.make("probe/death")
    _, state = env.reset(jax.random.key(0))
    for t in range(4):
        assert env.agent_mask(state).tolist() == [True, t < 2]
        outcomes = [env.step(jax.random.key(t), state, jnp.array([1, a], jnp.int32)) for a in (0, 1)]
        same = all(map(np.array_equal, jax.tree.leaves(outcomes[0]), jax.tree.leaves(outcomes[1])))
        assert same == (t >= 2)
        if t >= 2:
            assert outcomes[0][0][1] == 0.0 or t == 3
        state = outcomes[0][1]


@pytest.mark.quick
def test_every_probe_has_a_solution():
    assert sorted(f"probe/{name}" for name in PROBES) == jaxrl.list_envs("probe/*")
    for probe in PROBES.values():
        assert isinstance(probe.solution, Solution)
        assert probe.solution.cases
        assert all(isinstance(case, Case) for case in probe.solution.cases)
        assert (probe.__doc__ or "").count("Observation:") == 1


@pytest.mark.parametrize("name", sorted(PROBES))
def test_a_probe_that_always_starts_alike_says_so(name: str) -> None:
    """By `check_env`'s own check; the slow tests check the rest of the contract."""
    env: Any = jaxrl.make(f"probe/{name}")
    assert ("same_start" in env.intended) == bool(found_by(check_same_start, env))
