"""The contract that all environments share: pure functions of (key, state, action, params)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.display import as_html, picture
from jaxrl.keys import check_key
from jaxrl.spaces import Space, check_action, num_actions

__all__ = [
    "Environment",
    "MultiAgentEnvironment",
    "Script",
    "Step",
    "Symmetries",
    "as_arrays",
    "auto_reset",
    "check_environment",
    "select",
    "with_own",
]

if TYPE_CHECKING:
    from jaxrl.entities import Entities
    from jaxrl.render.scene import Scene


# (observation, state, reward, terminated, truncated, info)
Step = tuple[Any, Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]

# (observations [n, D], action masks [n, A], key) -> actions [n] of any n agents
Script = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

Tree = TypeVar("Tree")

_FOLLOWS = {
    "reset_env": ("batch_reset", "batch_step", "split_key", "mutate"),
    "step_env": ("batch_step_env", "batch_step", "split_key"),
    "observation": ("batch_observation",),
}
"""The methods for B environments that a class must not inherit once it overrides the method for one: a batched kernel
knows nothing of a subclass's own `step_env`. Likewise `split_key`, which may give the same key to both methods only if
it knows what each draws with it, and `mutate`, which knows nothing of a subclass's own starts."""


@dataclasses.dataclass(frozen=True, eq=False)
class Symmetries:
    """K ways to rename what an agent sees and does; the first changes nothing, and they form a group.

    An agent under symmetry k sees `obs[observation[k]]` where the observation is `obs[D]`, and its action a means
    `action[k, a]`. If all agents are under the same one, nothing distinguishes their game from the original.
    """

    observation: np.ndarray
    """int32 `[K, D]`, a permutation in each row."""
    action: np.ndarray
    """int32 `[K, A]`, a permutation in each row."""

    def __len__(self) -> int:
        return len(self.action)


def _follow_overrides(cls: type[Environment]) -> None:
    """Give a new class the methods of `Environment` in place of inherited ones that must follow what it overrides.

    Methods that `cls` defines itself stay. `cls.keeps_observation` becomes False if it overrides `reset_env` or
    `step_env` without `observation`, which may no longer hold, and True if it overrides `observation` too.
    """
    own = vars(cls)
    overridden = [
        name for name in _FOLLOWS if name in own and getattr(super(cls, cls), name) is not getattr(Environment, name)
    ]
    for name in {batched for one in overridden for batched in _FOLLOWS[one]} - set(own):
        setattr(cls, name, getattr(Environment, name))
    if overridden and "keeps_observation" not in own:
        cls.keeps_observation = "observation" in own


class Environment:
    """A single-agent environment.

    An author writes `reset_env`, `step_env`, `observation_space`, `action_space` and, if there is something to vary,
    `default_params`. Everything else follows. All methods are pure, so `jit`, `vmap` and `scan` apply.

    `params` is a pytree of arrays (physics, levels, limits …); `None` stands for `default_params`. It can be vmapped.
    """

    name: ClassVar[str] | str = "environment"
    made_as: str = ""
    """The name, with options, by which `jaxrl.make` made it; empty if something else did."""
    intended: tuple[str, ...] = ()
    """The names of checks of `jaxrl.check_env` whose findings are intended here, such as `("same_start",)` for a puzzle
    that always starts the same way. docs/environments.md lists them."""
    action_names: tuple[str, ...] = ()
    """The names of the discrete actions, in order; an agent with fewer actions has the first. Empty without names."""
    keeps_observation: ClassVar[bool] = True
    """Whether the inherited `observation` still holds in a class that overrides `reset_env` or `step_env` alone."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _follow_overrides(cls)
        cls.__hash__ = cls.__hash__  # compiled functions need it, and @dataclass leaves what the class itself has

    @property
    def default_params(self) -> Any:
        """The default parameters, a pytree of NumPy arrays (so that making an environment touches no device)."""
        return None

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        """Start an episode: `(observation, state)`. Consumes `key`."""
        raise NotImplementedError(f"{type(self).__name__} has no reset_env; write that method.")

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        """One raw step, without auto-reset: `(obs, state, reward, terminated, truncated, info)`. Consumes `key`.

        `reward` is a float32 scalar, `terminated` (the task ended; no future reward exists) and `truncated` (only the
        clock stopped it) are boolean scalars and never both True. `info` has the same tree at every step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step_env; write that method.")

    def observation_space(self, params: Any = None) -> Space:
        """The space of one agent's observation; it holds for all `params`, which need not change it."""
        raise NotImplementedError(f"{type(self).__name__} has no observation_space; write that method.")

    def action_space(self, params: Any = None) -> Space:
        """The space of one agent's action. Actions outside are clipped, so their effect is always defined."""
        raise NotImplementedError(f"{type(self).__name__} has no action_space; write that method.")

    def reset(self, key: Any = None, params: Any = None) -> tuple[Any, Any]:
        """Start an episode: `(observation, state)`. Consumes `key`, without which it raises TypeError."""
        check_key(key, f"{self.name}.reset")
        return self.reset_env(key, self._checked_params(params))

    def step(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Step:
        """One step; if the episode ends, the returned observation and state belong to the next episode.

        `info["final_observation"]` is always the observation before such a reset, so that a truncated episode can be
        bootstrapped from it, and `info["final_state"]` is the corresponding state. Consumes `key`.
        """
        check_key(key, f"{self.name}.step")
        agents, params = len(getattr(self, "agents", ())), self._checked_params(params)
        action = check_action(action, self.action_space(), f"{self.name}.step", agents=agents)
        key_step, key_reset = self.split_key(key)
        stepped = self._step_from(key_step, state, action, params)
        return auto_reset(stepped, self.reset_env(key_reset, params))

    def split_key(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Split the key of `step` in two: for `step_env`, and for `reset_env` if the episode ends. Consumes `key`."""
        key_step, key_reset = jax.random.split(key)
        return key_step, key_reset

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Any]:
        """`reset` for B environments at once, equal to `vmap(reset_env)`. `keys[B]`.

        `params` is shared; with `own_params`, its leaves are `[B, …]`, and each environment has its own.
        """
        return jax.vmap(self.reset_env, (0, 0 if own_params else None))(keys, self._params(params))

    def batch_step_env(
        self, keys: jax.Array, state: Any, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        """`step_env` for B environments at once, equal to `vmap(step_env)`. Leading axes are `[B]`.

        An environment with a faster batched kernel overrides this, `batch_reset` and, if it has `observation`,
        `batch_observation`. `params`: see `batch_reset`.
        """
        return jax.vmap(self.step_env, (0, 0, 0, 0 if own_params else None))(keys, state, action, params)

    def batch_step(
        self,
        keys: jax.Array,
        state: Any,
        action: Any,
        params: Any = None,
        reset_to: tuple[Any, Any] | None = None,
        *,
        own_params: bool = False,
    ) -> Step:
        """`step` for B environments at once, equal to `vmap(step)`. Leading axes are `[B]`.

        `reset_to` is `(observation, state)` with leading axis B: if given, ended episodes continue from there instead
        of from a fresh reset. `params`: see `batch_reset`.
        """
        params = self._params(params)
        step_keys, reset_keys = jax.vmap(self.split_key)(keys)
        stepped = self.batch_step_env(step_keys, state, action, params, own_params=own_params)
        if reset_to is None:
            reset_to = self.batch_reset(reset_keys, params, own_params=own_params)
        obs, after, *rest = auto_reset(stepped, reset_to)
        if self.has_observation and type(self).batch_observation is not Environment.batch_observation:
            # This builds one observation, instead of one for the end and one for the beginning.
            obs = self.batch_observation(after, params, own_params=own_params)
        return obs, after, *rest  # pyright: ignore[reportReturnType]

    def params_at(self, progress: jax.Array) -> Any:
        """The parameters to train with once this share of the training is done, a float32 scalar from 0 to 1.

        By default they never change; a curriculum changes them.
        """
        return self.default_params

    def observation(self, state: Any, params: Any = None) -> Any:
        """The observation of `state`. It lets a trainer compute final observations only where an episode was cut.

        Not every environment has it: some observations contain more than the state, such as the last action.
        """
        raise NotImplementedError(f"{self.name} observes only as it steps; take the observation from reset and step.")

    def batch_observation(self, state: Any, params: Any = None, *, own_params: bool = False) -> Any:
        """`observation` of B states at once, leaves `[B, …]`. `params`: see `batch_reset`."""
        return jax.vmap(self.observation, in_axes=(0, 0 if own_params else None))(state, params)

    def mutate(self, key: jax.Array, state: Any, params: Any = None) -> Any:
        """A small edit of `state`, the start of an episode: the start of another one, for `--levels accel`. Consumes
        `key`.

        It keeps shapes and dtypes, and its result is a valid start. Only environments with `observation` can have it.
        """
        raise NotImplementedError(
            f"{self.name} has no mutate(key, state, params), which makes a small edit of a start."
        )

    @property
    def has_mutate(self) -> bool:
        """Whether `mutate` is implemented; a wrapper returns the answer of the environment inside."""
        return self.has_observation and type(self).mutate is not Environment.mutate

    @property
    def has_observation(self) -> bool:
        """Whether `observation` is implemented; a wrapper returns the answer of the environment inside."""
        return self.keeps_observation and type(self).observation is not Environment.observation

    @property
    def entities(self) -> Entities | None:
        """What each agent's observation is made of, for networks that share weights among entities; None if that is
        unknown. A wrapper returns the answer of the environment inside, unless it changes the observation.
        """
        return None

    @property
    def symmetries(self) -> Symmetries | None:
        """How the game can be renamed, see `jaxrl.wrappers.OtherPlay`; None if unknown. Wrapped as `entities`."""
        return None

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        """Which discrete actions can be chosen in `state`: bool `[A]` (by default: all of them)."""
        return jnp.ones(num_actions(self.action_space(params)), bool)

    @property
    def has_action_mask(self) -> bool:
        """Whether `action_mask` is implemented; a wrapper returns the answer of the environment inside."""
        return type(self).action_mask not in (Environment.action_mask, MultiAgentEnvironment.action_mask)

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        """The input of a central critic, which may know more than any agent sees: float32 `[G]`."""
        raise NotImplementedError(f"{self.name} has no global state; use observations instead.")

    @property
    def has_global_state(self) -> bool:
        """Whether `global_state` is implemented; a wrapper returns the answer of the environment inside."""
        return type(self).global_state is not Environment.global_state

    @property
    def state_entities(self) -> Entities | None:
        """What the global state is made of, as `entities` says of observations; None if that is unknown."""
        return None

    def sub_states(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
        """The F states that `step_env(key, …)` passes through, for smooth pictures: leaves `[F, …]`, its result last.

        By default F = 1; an environment that integrates in smaller time steps may return them. Consumes `key`.
        """
        _, state, *_ = self.step_env(key, state, action, self._params(params))
        return jax.tree.map(lambda leaf: leaf[None], state)

    def draw(self, states: Any, params: Any = None) -> Scene:
        """Draw successive states of an episode (NumPy leaves `[F, …]`) as shapes, for GIFs and HTML replays."""
        raise NotImplementedError(f"{self.name} has no picture yet; a method draw(states) of its class makes one.")

    def render(self, state: Any, params: Any = None) -> np.ndarray:
        """A picture of one state, uint8 `[H, W, 3]`. Runs on the host, needs Pillow (extra `viz`).

        Raises:
            ValueError: These are the states of several environments.
        """
        return picture(self, state, params)

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(f'{name} {value}' for name, value in self._facts().items())}>"

    def _repr_html_(self) -> str:
        return as_html(self.name, self._facts())

    def _facts(self) -> dict[str, Any]:
        """The facts that a notebook shows."""
        return {"observation": self.observation_space(), "action": self.action_space()}

    def _params(self, params: Any) -> Any:
        """`params`, or the defaults for None."""
        return self.default_params if params is None else params

    def _checked_params(self, params: Any) -> Any:
        """`params`, or the defaults for None; raises TypeError if they are of another kind than the defaults."""
        default = self.default_params
        wanted = type(default)
        if params is None or default is None or isinstance(params, wanted) or jax.tree_util.all_leaves([default]):
            return self._params(params)
        given = f"a {_qualified(wanted)}, not a {_qualified(type(params))}"
        raise TypeError(
            f"{self.name} takes parameters like its default_params, {given}; change those with "
            f"dataclasses.replace(env.default_params, …), or give None."
        )

    def _step_from(self, key: jax.Array, state: Any, action: Any, params: Any) -> Step:
        """`step_env`, or TypeError if the state is another environment's. Consumes `key`."""
        try:
            return self.step_env(key, state, action, params)
        except AttributeError as error:
            if error.obj is not state:
                raise
            given = _qualified(type(state))
            raise TypeError(
                f"{self.name}.step takes the state that its reset or its last step returned, not a {given}."
            ) from error


class MultiAgentEnvironment(Environment):
    """An environment with N agents: arrays with a leading agent axis instead of dicts.

    Observations, actions, rewards and masks are `[N, …]`; `terminated` and `truncated` are scalars and end the episode
    for all agents. Agents with different spaces are padded to the common `observation_space` and `action_space`;
    `agent_observation_spaces` and `agent_action_spaces` give the true ones.
    """

    agents: tuple[str, ...] = ()
    agent_info: tuple[str, ...] = ()
    """What in `info` has a leading agent axis, such as `("shaped_reward",)`; all else is about the whole episode."""

    @property
    def num_agents(self) -> int:
        """N, the number of agents."""
        return len(self.agents)

    @property
    def teams(self) -> tuple[int, ...]:
        """The team of each agent; the members of a team share one reward (by default: each agent is its own team)."""
        return tuple(range(self.num_agents))

    @property
    def roles(self) -> tuple[int, ...]:
        """The role of each agent, from 0: agents with the same role share the kind of observation, action and goal.

        By default, it follows from the names: `"adversary_0"` and `"adversary_1"` have one role, `"agent_0"` another.
        """
        numbers = {agent: role for role, kind in enumerate(self.kinds.values()) for agent in kind}
        return tuple(numbers[i] for i in range(self.num_agents))

    @property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """The agents by the stems of their names; where there are several stems, each has a return of its own.

        `adversary_0`, `adversary_1` and `agent_0` are `{"adversary": (0, 1), "agent": (2,)}`.
        """
        kinds: dict[str, tuple[int, ...]] = {}
        for i, agent in enumerate(self.agents):
            stem = agent.rstrip("0123456789").rstrip("_")
            kinds[stem] = (*kinds.get(stem, ()), i)
        return kinds

    @property
    def agent_observation_spaces(self) -> dict[str, Space]:
        """Each agent's own observation space (the first entries of the padded one)."""
        return {agent: self.observation_space() for agent in self.agents}

    @property
    def agent_action_spaces(self) -> dict[str, Space]:
        """Each agent's own action space (the first actions of the padded one)."""
        return {agent: self.action_space() for agent in self.agents}

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        """Which discrete actions each agent can choose in `state`: bool `[N, A]`."""
        return jnp.ones((self.num_agents, num_actions(self.action_space(params))), bool)

    def agent_mask(self, state: Any, params: Any = None) -> jax.Array:
        """Which agents are alive and acting in `state`: bool `[N]` (by default: all of them)."""
        return jnp.ones(self.num_agents, bool)

    def against_script(self, share: float | None = None) -> MultiAgentEnvironment:
        """The game against a script: for the first team alone, or for all, with the script in a `share` of episodes."""
        raise NotImplementedError(f"{self.name} has no script that plays a team.")

    @property
    def scripted_policy(self) -> Script | None:
        """Rules by which any of the agents can act, each from its own observation; None if there are none."""
        return None

    def _facts(self) -> dict[str, Any]:
        kinds = [f"{len(agents)} {kind}" for kind, agents in self.kinds.items()]
        return {"agents": " + ".join(kinds), **super()._facts()}


def as_arrays(tree: Tree) -> Tree:
    """The tree with its Python numbers as 32-bit NumPy scalars, so that it can be vmapped and never recompiles."""
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    return jax.tree.map(lambda leaf: kinds[type(leaf)](leaf) if type(leaf) in kinds else leaf, tree)


def with_own(facts: dict[str, Any], names: Sequence[str], index: Any) -> dict[str, Any]:
    """The facts, of which those that `names` lists are the entries at `index` of their leaves' first axis."""
    return {**facts, **{name: jax.tree.map(lambda x: x[index], facts[name]) for name in names if name in facts}}


def check_environment(env: Any, taker: str) -> None:
    """Raise TypeError unless `env` is an environment; the message names `taker`, the function that takes it."""
    if not isinstance(env, Environment):
        hint = f"jaxrl.make({env!r})" if isinstance(env, str) else "what jaxrl.make returns"
        given = f"the class {env.__name__}" if isinstance(env, type) else f"a {type(env).__name__}"
        raise TypeError(f"{taker} takes an environment, such as {hint}, not {given}.")


def auto_reset(stepped: Step, reset_to: tuple[Any, Any]) -> Step:
    """Replace the observation and state of ended episodes by `reset_to`, and keep the final ones in `info`.

    Works for one environment (scalar flags) and for a batch (flags `[B]`, leaves `[B, …]`).
    """
    obs, state, reward, terminated, truncated, info = stepped
    next_obs, next_state = select(jnp.asarray(terminated | truncated), reset_to, (obs, state))
    info = {**info, "final_observation": obs, "final_state": state}
    return next_obs, next_state, reward, terminated, truncated, info


def select(mask: jax.Array, on_true: Any, on_false: Any) -> Any:
    """`jnp.where` over two pytrees of the same structure; `mask` has the leading axes of every leaf."""
    return jax.tree.map(
        lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (jnp.ndim(b) - mask.ndim)), a, b), on_true, on_false
    )


def _qualified(kind: type) -> str:
    """A class with its module, as several environments have a `Params` and a `State`."""
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
