"""Our multi-agent environments for PettingZoo's parallel API: `to_pettingzoo(env)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxrl.environment import MultiAgentEnvironment, with_own
from jaxrl.interop.common import Extra, Stepper, no_action, split_agents, split_mask, writable
from jaxrl.registry import shared

with Extra("pettingzoo"):  # the extra brings Gymnasium, whose spaces PettingZoo uses
    import pettingzoo

    from jaxrl.interop.gymnasium import space_of

__all__ = ["PettingZooEnv", "to_pettingzoo"]

_global_state = jax.jit(lambda env, state, params: env.global_state(state, params), static_argnums=0)


def to_pettingzoo(env: MultiAgentEnvironment, params: Any = None, render_mode: str | None = None) -> PettingZooEnv:
    """`env` as a `pettingzoo.ParallelEnv`.

    Every agent stays until the episode ends, including dead ones: they still get their team's reward, their actions are
    ignored, and `infos[agent]["alive"]` is False. If actions are Discrete, `infos[agent]["action_mask"]` says which can
    be chosen. `state()` is the global state.

    Args:
        env: The environment.
        params: Its parameters; None for its defaults.
        render_mode: `"rgb_array"` for pictures, or None.

    Raises:
        ValueError: The environment is a single-agent one, or the render mode is unknown.
    """
    return PettingZooEnv(env, params, render_mode)


class PettingZooEnv(pettingzoo.ParallelEnv):
    """See `to_pettingzoo`."""

    def __init__(self, env: MultiAgentEnvironment, params: Any = None, render_mode: str | None = None) -> None:
        self.stepper = Stepper(env, params)
        if not isinstance(env, MultiAgentEnvironment):
            raise ValueError(f"{env.name} has one agent; use to_gymnasium, or jaxrl.wrappers.as_multi_agent first.")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f'render_mode is "rgb_array" or None, not {render_mode!r}.')
        self.env = env
        self.render_mode = render_mode
        self.metadata = {"name": env.name, "render_modes": ["rgb_array"], "is_parallelizable": True}
        self.possible_agents = list(env.agents)
        self.agents: list[str] = []
        self.observation_spaces = {name: space_of(space) for name, space in env.agent_observation_spaces.items()}
        self.action_spaces = {name: space_of(space) for name, space in env.agent_action_spaces.items()}
        self._random = np.random.default_rng()

    def observation_space(self, agent: str) -> Any:
        """The agent's own observation space."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's own action space."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start an episode; a `seed` makes everything that follows reproducible."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        obs, facts = self.stepper.reset(int(self._random.integers(2**31)))
        self.agents = list(self.possible_agents)
        return self._observations(obs), self._infos(facts)

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """One step; call `reset` after an episode ends. Agents missing from `actions` take action 0 (or zeros).

        Raises:
            TypeError: `actions` is not a dict of agents.
            ValueError: It names an unknown agent, or gives an agent something that is not an action.
        """
        if not isinstance(actions, Mapping):
            raise TypeError(f"step takes a dict of actions by agent, not a {type(actions).__name__}.")
        if unknown := [agent for agent in actions if agent not in self.possible_agents]:
            there = ", ".join(self.possible_agents)
            raise ValueError(f"There is no agent {unknown[0]!r} in {self.env.name}; there are {there}.")

        # All actions in one array; those of agents with fewer numbers are padded.
        space = self.env.action_space()
        action = np.zeros((len(self.possible_agents), *space.shape), space.dtype)
        for i, (agent, own) in enumerate(self.env.agent_action_spaces.items()):
            if agent in actions:
                place = (i, *(slice(0, size) for size in own.shape))
                try:
                    action[place] = actions[agent]
                except (TypeError, ValueError, OverflowError) as error:
                    raise no_action(agent, own, actions[agent]) from error

        obs, reward, terminated, truncated, facts = self.stepper.step(action)
        agents = self.agents  # none after the end, so that what is returned for one more step is empty
        if terminated or truncated:
            self.agents = []
        return (
            {name: value for name, value in self._observations(obs).items() if name in agents},
            {name: float(reward[self.env.agents.index(name)]) for name in agents},
            dict.fromkeys(agents, terminated),
            dict.fromkeys(agents, truncated),
            {name: info for name, info in self._infos(facts).items() if name in agents},
        )

    def state(self) -> np.ndarray:
        """The global state, float32 `[G]`.

        Raises:
            RuntimeError: No episode has begun.
        """
        self.stepper.check_begun("state")
        return writable(_global_state(shared(self.env), self.stepper.state, self.stepper.params))

    def render(self) -> np.ndarray | None:
        """A picture, if `render_mode` is set."""
        return self.stepper.render() if self.render_mode else None

    def _observations(self, obs: np.ndarray) -> dict[str, np.ndarray]:
        return {name: np.asarray(own) for name, own in split_agents(self.env, obs).items()}  # pyright: ignore

    def _infos(self, facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The info of each agent; facts about the whole episode are the same for all."""
        masks = split_mask(self.env, facts["action_mask"]) if "action_mask" in facts else {}
        common = {name: value for name, value in facts.items() if name not in ("action_mask", "alive")}
        infos = {}
        for i, agent in enumerate(self.env.agents):
            own = {"action_mask": masks[agent]} if masks else {}
            infos[agent] = {**with_own(common, self.env.agent_info, i), **own, "alive": bool(facts["alive"][i])}
        return infos
