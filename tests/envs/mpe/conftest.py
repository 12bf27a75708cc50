"""Episodes of mpe2 written down step by step, and our steps from the same states."""

import functools
import importlib
import os
from typing import NamedTuple

import jax
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.mpe import ParticleEnv, State

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

B = 300  # steps compared at once: 12 episodes of mpe2


class Steps(NamedTuple):
    """T steps of mpe2, NumPy leaves `[T, …]`."""

    state: State
    action: np.ndarray
    next_state: State
    obs_before: np.ndarray  # [T, N, D], padded with zeros
    obs: np.ndarray
    reward: np.ndarray  # [T, N]
    terminated: np.ndarray
    truncated: np.ndarray


def make(name, **options) -> ParticleEnv:
    env = jaxrl.make(f"mpe/{name}", **options)
    assert isinstance(env, ParticleEnv)
    return env


class Mpe2:
    """A scenario of mpe2 whose state is read after every step, and at each start made hard on purpose."""

    def __init__(self, name, version, ours, **options):
        module = importlib.import_module(f"mpe2.{name}_{version}")
        continuous = ours.action_type == "continuous"
        self.env = module.parallel_env(continuous_actions=continuous, **options)
        self.raw, self.ours = self.env.unwrapped, ours
        assert tuple(self.env.possible_agents) == ours.agents

    def play(self, seed, episodes):
        rng = np.random.default_rng(seed)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *self._steps(rng, episodes))

    def _steps(self, rng, episodes):
        steps = []
        for episode in range(episodes):
            self.env.reset(seed=int(rng.integers(2**31)))
            self._make_hard(rng, episode % 4)
            for time in range(self.raw.max_cycles):
                state, before = self._state(time), self._observe()
                actions = {agent: self._action(rng, agent) for agent in self.env.agents}
                agents = tuple(actions)
                _, reward, terminated, truncated, _ = self.env.step(dict(actions))
                step = Steps(
                    state=state,
                    action=self._padded([np.atleast_1d(actions[agent]) for agent in agents]),
                    next_state=self._state(time + 1),
                    obs_before=before,
                    obs=self._observe(),
                    reward=np.array([reward[agent] for agent in agents], np.float32),
                    terminated=np.array(any(terminated.values())),
                    truncated=np.array(all(truncated.values())),
                )
                steps.append(step)
        return steps

    def _make_hard(self, rng, kind):
        """Crowds (1), the far outside (2), high speeds (3)."""
        for body in self.raw.world.entities:
            body.state.p_pos = body.state.p_pos * (1.0, 0.2, 1.6, 0.8)[kind]
            if body.movable and kind == 3:
                body.state.p_vel = rng.normal(size=2)

    def _state(self, time):
        world = self.raw.world
        speakers = [agent.state.c for agent in world.agents if not agent.silent]
        return State(
            position=np.array([body.state.p_pos for body in world.entities], np.float32),  # pyright: ignore
            velocity=np.array([agent.state.p_vel for agent in world.agents], np.float32),  # pyright: ignore
            message=np.array(speakers, np.float32).reshape(len(speakers), self.ours.world.words),  # pyright: ignore
            goal=np.array(self._goal(), np.int32),  # pyright: ignore
            step=np.array(time, np.int32),  # pyright: ignore
        )

    def _goal(self):
        agents, landmarks = self.raw.world.agents, self.raw.world.landmarks
        if hasattr(agents[-1], "_key"):  # crypto
            return landmarks.index(agents[0].goal_a), int(np.argmax(agents[2].key))
        if hasattr(agents[0], "_goal_b"):
            return tuple(landmarks.index(a._goal_b) for a in agents if a._goal_b is not None)
        return (landmarks.index(agents[0].goal_a),) if hasattr(agents[0], "_goal_a") else ()

    def _observe(self):
        return self._padded([self.raw.observe(agent) for agent in self.ours.agents])

    def _action(self, rng, agent):
        space = self.env.action_space(agent)
        if self.ours.action_type == "discrete":
            return int(rng.integers(space.n))
        return (rng.random(space.shape) * (rng.random() > 0.1)).astype(np.float32)  # sometimes nothing at all

    def _padded(self, vectors):
        longest = max(len(vector) for vector in vectors)
        rows = np.stack([np.pad(vector, (0, longest - len(vector))) for vector in vectors])
        return rows[:, 0] if np.issubdtype(rows.dtype, np.integer) else rows


@pytest.fixture(scope="package")
def mpe2():
    """`mpe2(name, version, ours, **options)`: the peer's scenario with the same options."""
    pytest.importorskip("mpe2")
    return Mpe2


@pytest.fixture(scope="package")
def steps():
    """`steps(env)`: compiled `(keys[B], states, actions) -> step_env(…)` for B environments, once a scenario."""

    @functools.cache
    def compiled(env):
        def step(key, state, action):
            before = env._observe(state, env.default_params)
            return env.step_env(key, state, action, env.default_params), before

        keys = jax.random.split(jax.random.key(0), B)
        _, state = jax.eval_shape(env.batch_reset, keys)
        space = env.action_space()
        action = jax.ShapeDtypeStruct((B, env.num_agents, *space.shape), space.dtype)
        return jax.jit(jax.vmap(step)).lower(keys, state, action).compile()

    return compiled


@pytest.fixture(scope="package")
def env():
    """`env(name, **options)`, made once."""
    return functools.lru_cache(maxsize=None)(make)
