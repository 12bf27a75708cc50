"""One game of a person, who acts for one agent, with a policy, which acts for the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from jaxrl.config import as_seed
from jaxrl.data.record import seen_now
from jaxrl.deploy.policy import Policy
from jaxrl.environment import Environment, MultiAgentEnvironment, Script
from jaxrl.replay import Recording, Replay
from jaxrl.spaces import Discrete
from jaxrl.train.members import seed_keys
from jaxrl.wrappers import OtherPlay, Wrapper, as_multi_agent

__all__ = ["ByRules", "ForSome", "Partner", "Session", "Turn"]

_STREAM = 4  # of the seed's key, which itself belongs to the partner; see `seed_keys`
_STEPS_DRAWN = 12  # enough for pictures that follow what moves


@runtime_checkable
class _Readable(Protocol):
    """An environment that tells in words what an agent may know."""

    def text(self, state: Any, viewer: int, params: Any = None) -> str: ...


@runtime_checkable
class _Lettered(Protocol):
    """An environment that draws its picture in letters."""

    def board(self, state: Any) -> str: ...


class Turn(NamedTuple):
    """The actions and rewards of a step, for each of the N agents."""

    actions: tuple[str, ...]
    rewards: np.ndarray
    """float32 `[N]`."""


class Session:
    """A game, from its start to its end.

    Args:
        env: The environment; actions are Discrete.
        partner: Acts for the other agents, such as the policy of a run; None draws their actions among the legal ones.
        seat: The person's agent.
        seed: Determines the game, apart from what the person does.
        greedy: The partner takes the most likely actions; False draws them.

    Raises:
        ValueError: Actions are not Discrete, there is no such seat, or an `OtherPlay` renames what is seen.
    """

    def __init__(
        self, env: Environment, partner: Partner | None = None, *, seat: int = 0, seed: int = 0, greedy: bool = True
    ) -> None:
        self.env: MultiAgentEnvironment = as_multi_agent(env)
        own = list(self.env.agent_action_spaces.values())
        spaces = [space for space in own if isinstance(space, Discrete)]
        if len(spaces) < len(own):
            raise ValueError(f"Only Discrete actions can be played by hand, and {env.name} has {own[0]}.")
        if not 0 <= seat < self.env.num_agents:
            raise ValueError(f"The seats of {env.name} are 0 to {self.env.num_agents - 1}, got {seat}.")
        if any(isinstance(wrapper, OtherPlay) for wrapper in self._wrappers()):
            raise ValueError(f"OtherPlay renames what each player of {env.name} sees; play the game without it.")
        self.seat, self.partner, self._greedy = seat, partner, greedy
        self._names = tuple(_names(self.env, space.n) for space in spaces)
        self._draws = np.random.default_rng(as_seed("seed", seed))
        if partner is not None:
            partner.reset(seed)
        self._key, key = jax.random.split(seed_keys([seed], _STREAM))
        self._recording = Recording(self.env, key)
        self._steps: list[dict[str, Any]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the actions of the person's agent."""
        return self._names[self.seat]

    @property
    def state(self) -> Any:
        """The present state, which may hold more than the person's agent may know."""
        return self._recording.state

    @property
    def obs(self) -> np.ndarray:
        """The observation of the person's agent."""
        return np.asarray(self._recording.obs)[self.seat]

    @property
    def legal(self) -> list[int]:
        """The actions that the person can choose now."""
        return np.flatnonzero(self._mask()[self.seat, : len(self.names)]).tolist()

    @property
    def done(self) -> bool:
        """True once the game is over."""
        return self._recording.done

    @property
    def num_steps(self) -> int:
        """The steps so far."""
        return self._recording.num_steps

    @property
    def returns(self) -> np.ndarray:
        """The sum of rewards of each agent so far, `[N]`."""
        return np.sum([np.zeros(self.env.num_agents), *self._recording.rewards], axis=0)

    def step(self, action: int) -> Turn:
        """Take a step; all others act at the same time.

        Raises:
            ValueError: The action is not legal, or the game is over.
        """
        if self.done or action not in self.legal:
            raise ValueError("The game is over." if self.done else f"Action {action} is not possible now.")
        actions = self._others()
        actions[self.seat] = action
        recording = self._recording
        seen = _seen(self.env, recording.obs, recording.state, recording.params)
        self._key, key = jax.random.split(self._key)
        recording.step(key, actions)
        ends = {"terminated": recording.terminated, "truncated": recording.truncated, "reset": not self._steps}
        won = {"won": recording.info["won"]} if "won" in recording.info else {}
        self._steps.append({**seen, "action": actions, "reward": recording.rewards[-1], **ends, **won})
        said = tuple(names[min(a, len(names) - 1)] for names, a in zip(self._names, actions.tolist(), strict=True))
        return Turn(said, self._recording.rewards[-1])

    def text(self) -> str | None:
        """The present moment in words, as the person's agent may know it; None if the environment has no words."""
        env, state, params = self._innermost()
        if not isinstance(env, _Readable):
            return None
        # Wrappers may leave out agents, but they keep the names of those who are left.
        several = isinstance(env, MultiAgentEnvironment)
        return env.text(state, env.agents.index(self.env.agents[self.seat]) if several else 0, params)

    def board(self) -> str | None:
        """The present moment in letters, for where there are no pictures; None if the environment draws none."""
        env, state, _ = self._innermost()
        return env.board(state) if isinstance(env, _Lettered) else None

    def scene(self) -> Any:
        """The last few moments as shapes, of which the last frame is the present one.

        Raises:
            NotImplementedError: The environment has no picture.
        """
        return self.env.draw(self._recording.recent(_STEPS_DRAWN), self._recording.params)

    def replay(self) -> Replay:
        """The game so far.

        Raises:
            ValueError: There was no step yet.
        """
        return self._recording.replay()

    def steps(self) -> dict[str, np.ndarray]:
        """The game so far as a shard of a `jaxrl.data.Dataset`, with one environment: arrays `[T, 1, …]`.

        Raises:
            ValueError: There was no step yet.
        """
        if not self._steps:
            raise ValueError("Nothing has been played yet.")
        arrays = {name: np.stack([np.asarray(step[name]) for step in self._steps])[:, None] for name in self._steps[0]}
        index = np.array([[len(self._steps) - 1, 0]], np.int32)[: int(self.done)]
        final = np.asarray(self._recording.obs)[None][: int(self.done)]
        return {**arrays, "final_index": index, "final_observation": final}

    def _wrappers(self) -> Iterator[Wrapper]:
        """The wrappers around the environment, from the outside in."""
        env: Environment = self.env
        while isinstance(env, Wrapper):
            yield env
            env = env.env

    def _innermost(self) -> tuple[Environment, Any, Any]:
        """The environment inside all wrappers, its present state, and the parameters of this game."""
        env: Environment = self.env
        state, params = self.state, self._recording.params
        for wrapper in self._wrappers():
            env, state, params = wrapper.env, wrapper.env_state(state), wrapper.env_params(state, params)
        return env, state, params

    def _mask(self) -> np.ndarray:
        """The legal actions of all agents, bool `[N, A]`."""
        return np.asarray(self._recording.action_mask)

    def _others(self) -> np.ndarray:
        """An action for each agent, the person's included: int32 `[N]`."""
        mask = self._mask()
        if self.partner is None:
            return np.array([self._draws.choice(np.flatnonzero(row)) for row in mask], np.int32)
        chosen = self.partner.predict(np.asarray(self._recording.obs), action_mask=mask, greedy=self._greedy)
        return np.array(chosen, np.int32)


_seen = jax.jit(seen_now, static_argnums=0)  # compiled once per environment


def _names(env: Environment, count: int) -> tuple[str, ...]:
    """The names of an agent's actions: their numbers if the environment names too few."""
    named = env.action_names
    return named[:count] if len(named) >= count else tuple(map(str, range(count)))


class Partner(Protocol):
    """Chooses the actions of all N agents; the person's is not taken."""

    def reset(self, seed: int = 0) -> Any:
        """Forget the last game."""

    def predict(self, obs: Any, *, action_mask: Any = None, greedy: bool = True) -> Any:
        """Actions `[N]` for observations `[N, D]` and masks bool `[N, A]`."""


class ForSome:
    """The policy of a run that was trained for some of the agents.

    Args:
        policy: It acts for n agents.
        agents: Their indices, `[n]`.
    """

    def __init__(self, policy: Policy, agents: Sequence[int]) -> None:
        self._policy, self._agents = policy, np.array(agents)

    def reset(self, seed: int = 0) -> None:
        """Forget the last game."""
        self._policy.reset(seed)

    def predict(self, obs: Any, *, action_mask: Any = None, greedy: bool = True) -> np.ndarray:
        """Actions `[N]`; those of other agents are 0."""
        mask = None if action_mask is None else action_mask[self._agents]
        actions = np.zeros(len(obs), np.int32)
        actions[self._agents] = self._policy.predict(obs[self._agents], action_mask=mask, greedy=greedy)
        return actions


class ByRules:
    """An environment's `scripted_policy`."""

    def __init__(self, script: Script) -> None:
        self._script = jax.jit(script)
        self.reset()

    def reset(self, seed: int = 0) -> None:
        """Begin the draws of another game."""
        self._key = jax.random.key(seed)

    def predict(self, obs: Any, *, action_mask: Any = None, greedy: bool = True) -> np.ndarray:
        """Actions `[N]`; rules draw where they do not decide, whether greedy or not."""
        self._key, key = jax.random.split(self._key)
        return np.asarray(self._script(obs, action_mask, key))
