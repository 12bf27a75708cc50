"""A recorded episode: one environment, stepped from the host, and everything that happens in it."""

from __future__ import annotations

import dataclasses
import functools
import html as html_text
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxrl.display import on_host
from jaxrl.environment import Environment, MultiAgentEnvironment, Step, check_environment
from jaxrl.keys import check_key
from jaxrl.render import html
from jaxrl.render.scene import Scene, with_banner
from jaxrl.spaces import Discrete

__all__ = ["Policy", "Recording", "Replay", "record"]

Policy = Callable[[Any, Any, jax.Array, Any], tuple[Any, Any]]
"""`act(obs, carry, key, action_mask) -> (action, carry)`."""

_COLORS = {"won": "#7fc4ff", "lost": "#ffb36b"}
_NEUTRAL = "#e6edf7"


@dataclasses.dataclass(frozen=True)
class Replay:
    """One recorded episode of T steps, with NumPy leaves; a notebook shows it as a player."""

    env: Environment
    params: Any
    states: Any = dataclasses.field(repr=False)
    """Leaves `[1 + T F, …]`: the first state, then the F states that each step passes through. Every F-th state,
    starting with the first, lies between two steps."""
    actions: Any
    """`[T, …]`, the actions."""
    rewards: np.ndarray
    """`[T]`, or `[T, N]` with N agents."""
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    """The last step's `info`, e.g. `info["won"]`."""
    frames_per_step: int
    """F, the frames from one step to the next."""

    @property
    def num_steps(self) -> int:
        """T, the number of steps."""
        return len(self.rewards)

    @property
    def cut(self) -> bool:
        """True if the episode continues after the last recorded step."""
        return not (self.terminated or self.truncated)

    @property
    def episode_return(self) -> float:
        """The sum of rewards, the mean over agents."""
        return float(self.rewards.reshape(self.num_steps, -1).mean(1).sum())

    @property
    def title(self) -> str:
        """A title such as `smax/3m: won after 14 steps`."""
        return f"{self.env.name}: {self.outcome} after {self.num_steps} steps"

    @property
    def outcome(self) -> str:
        """The end in words: "won", "lost" or "time up" if `info` has "won", otherwise the return; or "cut short".

        With several kinds of agents, each kind has its own mean return, unless one gains what the other loses: then the
        winner is named, as it is where two agents of a kind do so.
        """
        if self.cut:
            return "cut short"
        kinds = self.env.kinds if isinstance(self.env, MultiAgentEnvironment) else {}
        if "won" not in self.info and self.rewards.ndim > 1:
            sides = kinds if len(kinds) > 1 else {name: (i,) for i, name in enumerate(getattr(self.env, "agents", ()))}
            returns = {name: self.rewards[:, list(agents)].mean(1) for name, agents in sides.items()}
            if len(sides) == 2 and self.rewards.any() and np.allclose(sum(returns.values()), 0.0, atol=1e-5):
                totals = {name: each.sum() for name, each in returns.items()}
                best = max(totals, key=lambda name: totals[name])
                return f"{best} won" if totals[best] > 1e-5 else "draw"
            if len(kinds) > 1:
                return "  ".join(f"{name} {each.sum():.1f}" for name, each in returns.items())
        if "won" not in self.info:
            return f"return {self.episode_return:.1f}"
        if np.any(self.info["won"]):
            return "won"
        return "lost" if self.terminated else "time up"

    def scene(self) -> Scene:
        """The episode as shapes, with captions and a closing banner: `2 + T F` frames."""
        return self._scene

    @functools.cached_property  # drawn once, for a GIF and an HTML page
    def _scene(self) -> Scene:
        scene = self.env.draw(self.states, self.params)
        return with_banner(scene, self.outcome.upper(), _COLORS.get(self.outcome, _NEUTRAL))

    def _repr_html_(self) -> str:
        page = html_text.escape(html.to_html(self), quote=True)
        # An iframe isolates several replays in one notebook from each other.
        style = "width:100%;max-width:900px;aspect-ratio:4/3;border:0"
        return f'<iframe srcdoc="{page}" style="{style}"></iframe>'


def record(env: Environment, act: Policy, key: jax.Array, params: Any = None, max_steps: int | None = None) -> Replay:
    """Play one episode and keep everything about it.

    Args:
        env: The environment (one copy, no batch axis).
        act: `act(obs, carry, key, action_mask) -> (action, carry)`, pure: it is compiled. `carry` is None at first,
            `action_mask` is None if actions are not Discrete.
        key: Determines the episode. Consumed.
        params: The environment's parameters; None for its defaults.
        max_steps: The most steps to record; if the episode continues after them, `Replay.cut` is True. None records
            until the episode ends, however long that takes.

    Raises:
        TypeError: `env` is not an environment, or `key` is not a typed key.
        ValueError: `max_steps` is less than 1.
    """
    check_environment(env, "record")
    check_key(key, "record")
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps must be at least 1 (or None for the whole episode), got {max_steps}.")
    act = jax.jit(act)
    key, key_reset = jax.random.split(key)
    recording, carry = Recording(env, key_reset, params), None
    while not recording.done and recording.num_steps != max_steps:
        key, key_act, key_step = jax.random.split(key, 3)
        action, carry = act(recording.obs, carry, key_act, recording.action_mask)
        recording.step(key_step, action)
    return recording.replay()


class Recording:
    """An episode in progress: step it from the host, and get what happened as a `Replay`.

    Args:
        env: The environment (one copy, no batch axis).
        key: Starts the episode. Consumed.
        params: The environment's parameters; None for its defaults.
    """

    obs: Any
    """The current observation."""
    state: Any
    """The current state."""

    def __init__(self, env: Environment, key: jax.Array, params: Any = None) -> None:
        self.env, self.params = env, env.default_params if params is None else params
        self._masked = isinstance(env.action_space(self.params), Discrete)
        self.obs, self.state = _reset(env, key, self.params)
        self._states = [jax.tree.map(lambda leaf: on_host(leaf)[None], self.state)]
        self._actions: list[Any] = []
        self.rewards: list[np.ndarray] = []
        self.terminated, self.truncated, self.info = False, False, {}

    @property
    def num_steps(self) -> int:
        """T, the steps so far."""
        return len(self.rewards)

    @property
    def done(self) -> bool:
        """True once the episode is over."""
        return self.terminated or self.truncated

    @property
    def action_mask(self) -> jax.Array | None:
        """The actions that can be chosen now, bool; None if they are not Discrete."""
        return _mask(self.env, self.state, self.params) if self._masked else None

    def step(self, key: jax.Array, action: Any) -> None:
        """Take one step. Consumes `key`."""
        stepped, passed = _advance(self.env, key, self.state, action, self.params)
        self.obs, self.state, reward, terminated, truncated, info = stepped
        self._states.append(jax.tree.map(on_host, passed))
        self._actions.append(jax.tree.map(on_host, action))
        self.rewards.append(on_host(reward))
        self.terminated, self.truncated, self.info = bool(terminated), bool(truncated), info

    def recent(self, num_steps: int) -> Any:
        """The states of the last few steps, to draw: leaves `[F, …]`, the current one last."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *self._states[-1 - num_steps :])

    def replay(self) -> Replay:
        """The episode so far.

        Raises:
            ValueError: There was no step yet.
        """
        if not self.rewards:
            raise ValueError("Nothing has been played yet.")
        return Replay(
            env=self.env,
            params=self.params,
            states=self.recent(self.num_steps),
            actions=jax.tree.map(lambda *leaves: np.stack(leaves), *self._actions),
            rewards=np.stack(self.rewards),
            terminated=self.terminated,
            truncated=self.truncated,
            info=jax.tree.map(on_host, self.info),
            frames_per_step=jax.tree.leaves(self._states[-1])[0].shape[0],
        )


# Compiled once per environment, however many episodes are recorded.


@functools.partial(jax.jit, static_argnums=0)
def _reset(env: Environment, key: jax.Array, params: Any) -> tuple[Any, Any]:
    return env.reset_env(key, params)


@functools.partial(jax.jit, static_argnums=0)
def _mask(env: Environment, state: Any, params: Any) -> jax.Array:
    return env.action_mask(state, params)


@functools.partial(jax.jit, static_argnums=0)
def _advance(env: Environment, key: jax.Array, state: Any, action: Any, params: Any) -> tuple[Step, Any]:
    # The same key twice, on purpose: the passed states belong to this step.
    passed = env.sub_states(jax.random.clone(key), state, action, params)
    return env.step_env(key, state, action, params), passed
