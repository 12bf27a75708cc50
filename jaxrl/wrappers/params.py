"""New parameters for every episode: domain randomisation, sets of worlds, curricula."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import Environment, Step
from jaxrl.keys import abstract_key
from jaxrl.spaces import Space
from jaxrl.wrappers.base import StatefulWrapper, Wrapped, Wrapper

if TYPE_CHECKING:
    from jaxrl.render.scene import Scene

__all__ = ["RandomParams", "Stage"]

Draw = Callable[[jax.Array, Any, jax.Array], Any]
Edit = Callable[[jax.Array, Any], Any]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stage:
    """The parameters of `RandomParams`, from which it draws those of each episode."""

    params: Any
    """The parameters of the environment inside, which `draw` may change."""
    progress: Any
    """The share of the training that is done, 0 to 1; outside of training it is 1."""


class RandomParams(StatefulWrapper):
    """Every episode has its own parameters, which are drawn when it begins and kept in its state (`state.own`).

    Args:
        env: The environment.
        draw: `draw(key, params, progress) -> params`: from the environment's parameters, those of one episode;
            `progress` is the share of the training that is done, 0 to 1. Or W worlds to choose from with equal
            probability: parameters with a leading axis, leaves `[W, …]`.
        mutate_params: `mutate_params(key, own) -> own`: a small edit of an episode's own parameters, as part of
            `mutate`; None if these stay as they are. The state inside stays, so edit what steps read, not what the
            start was made from, unless the environment's own `mutate` makes it fit. There is `mutate` if the
            environment has it, or this is given.

    Raises:
        TypeError: The environment has no parameters, or those drawn or edited have another structure.
        ValueError: A parameter has another shape or dtype; the message names it.
    """

    keeps_observation = True

    def __init__(self, env: Environment, draw: Draw | Any, mutate_params: Edit | None = None) -> None:
        super().__init__(env)
        self.intended = (*env.intended, "unused_params")  # a draw need not look at everything
        if not jax.tree.leaves(env.default_params):
            raise TypeError(f"{env.name} has no parameters (default_params), so there is nothing to draw.")
        self.draw_params: Draw = draw if callable(draw) else _choice(draw, env.default_params)
        self.mutate_params = mutate_params
        jax.eval_shape(self._drawn, abstract_key(), self.default_params)  # raises for what does not fit
        if mutate_params is not None:
            jax.eval_shape(self._edited, abstract_key(), env.default_params)

    @property
    def default_params(self) -> Stage:
        return Stage(self.env.default_params, np.float32(1))

    def params_at(self, progress: jax.Array) -> Stage:
        return Stage(self.env.params_at(progress), progress)

    def env_params(self, state: Wrapped, params: Any) -> Any:
        return state.own

    def observation_space(self, params: Stage | None = None) -> Space:
        return self.env.observation_space(None if params is None else params.params)

    def action_space(self, params: Stage | None = None) -> Space:
        return self.env.action_space(None if params is None else params.params)

    def reset_env(self, key: jax.Array, params: Stage) -> tuple[Any, Wrapped]:
        key_draw, key_env = jax.random.split(key)
        own = self._drawn(key_draw, params)
        obs, state = self.env.reset_env(key_env, own)
        return obs, Wrapped(state, own)

    def batch_reset(self, keys: jax.Array, params: Any = None, *, own_params: bool = False) -> tuple[Any, Wrapped]:
        keys_draw, keys_env = jax.vmap(lambda key: tuple(jax.random.split(key)))(keys)
        own = jax.vmap(self._drawn, in_axes=(0, 0 if own_params else None))(keys_draw, self._params(params))
        obs, state = self.env.batch_reset(keys_env, own, own_params=True)
        return obs, Wrapped(state, own)

    def batch_observation(self, state: Wrapped, params: Any = None, *, own_params: bool = False) -> Any:
        return self.env.batch_observation(state.env, state.own, own_params=True)

    @property
    def has_mutate(self) -> bool:
        able = self.env.has_mutate or self.mutate_params is not None
        return able and self.has_observation and type(self).mutate is not Environment.mutate

    def mutate(self, key: jax.Array, state: Wrapped, params: Any = None) -> Wrapped:
        key_own, key_env = jax.random.split(key)
        if self.mutate_params is not None:
            state = state._replace(own=self._edited(key_own, state.own))
            if not self.env.has_mutate:
                return state
        return state._replace(env=Wrapper.mutate(self, key_env, state, params))  # under the edited parameters

    def after_step(self, state: Wrapped, action: Any, stepped: Step) -> Step:
        return stepped[0], Wrapped(stepped[1], state.own), *stepped[2:]

    def batch_step_env(
        self, keys: jax.Array, state: Wrapped, action: Any, params: Any, *, own_params: bool = False
    ) -> Step:
        return super().batch_step_env(keys, state, action, params, own_params=True)

    def draw(self, states: Wrapped, params: Any = None) -> Scene:
        return self.env.draw(states.env, jax.tree.map(lambda leaf: leaf[0], states.own))

    def _drawn(self, key: jax.Array, stage: Stage) -> Any:
        """An episode's parameters, with the shapes and dtypes of the environment's own. Consumes `key`."""
        call = "draw(key, params, progress)"
        return self._made("drawn", call, self.draw_params, key, stage.params, stage.progress)

    def _edited(self, key: jax.Array, own: Any) -> Any:
        """An episode's parameters after `mutate_params`, likewise. Consumes `key`."""
        return self._made("edited", "mutate_params(key, own)", self.mutate_params, key, own)

    def _made(self, how: str, call: str, function: Any, *arguments: Any) -> Any:
        """What a function makes of its arguments, if it can be called like that and the result fits."""
        try:
            made = function(*arguments)
        except (AttributeError, TypeError) as error:  # such as a field that these parameters do not have
            advice = _as_called(function, call, len(arguments))
            raise TypeError(f"The parameters of {self.name} cannot be {how} like that: {error}.{advice}") from error
        like = self.env.default_params
        wanted, got = jax.tree.structure(like), jax.tree.structure(made)
        if wanted != got:
            raise TypeError(f"Parameters {how} for {self.name} must have the structure {wanted}, not {got}.")
        return jax.tree_util.tree_map_with_path(partial(_fitted, how), made, like)


def _as_called(function: Any, call: str, count: int) -> str:
    """What to write instead of a function that takes another number of arguments; empty if `count` are right."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        default, _, arguments = call.partition("(")
        name = getattr(function, "__name__", "")
        return f" Write def {name if name.isidentifier() else default}({arguments}."
    return ""


def _choice(worlds: Any, like: Any) -> Draw:
    """A draw of one of W worlds, leaves `[W, …]`.

    Raises:
        TypeError: They are not parameters of the environment.
        ValueError: They do not all have the same leading axis.
    """
    if jax.tree.structure(worlds) != jax.tree.structure(like):
        raise TypeError(
            f"RandomParams takes a function (key, params, progress), or parameters with a leading axis and the "
            f"structure {jax.tree.structure(like)}, but got a {type(worlds).__name__}."
        )
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(worlds)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError("Worlds to choose from are parameters whose leaves all have a leading axis of the same size.")
    (size,) = sizes.pop()
    if not size:
        raise ValueError("There are no worlds to choose from: the leading axis of the parameters has size 0.")

    def choose(key: jax.Array, params: Any, progress: jax.Array) -> Any:
        index = jax.random.randint(key, (), 0, size)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], worlds)

    return choose


def _fitted(how: str, path: Any, made: Any, like: Any) -> jax.Array:
    made, like = jnp.asarray(made), np.asarray(like)
    name = f"params{jax.tree_util.keystr(path)}"
    if made.shape != like.shape:
        raise ValueError(f"{name} was {how} with shape {list(made.shape)}; it must be {list(like.shape)}.")
    if not np.can_cast(made.dtype, like.dtype, "same_kind"):
        raise ValueError(f"{name} was {how} as {made.dtype}; it must be {like.dtype}, so round it with .astype.")
    return made.astype(like.dtype)
