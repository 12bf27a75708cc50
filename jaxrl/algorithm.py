"""The whole interface between training and algorithms: three functions, a train state, a configuration."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.display import as_html, kind_of
from jaxrl.source_file import check_not_loading

__all__ = [
    "Act",
    "Algorithm",
    "Learned",
    "Metrics",
    "Nested",
    "PerEnvironment",
    "Replayed",
    "Replicated",
    "Role",
    "RunConfig",
    "TrainState",
    "check_algorithm",
    "check_module",
    "field_names",
    "made_from",
    "map_fields",
    "scan_updates",
    "with_replay",
    "without_replay",
]

# The metrics of one update, reduced on the device to scalars:
#   episodes, return_sum, length_sum     over the episodes that ended in this rollout (agents' mean return)
#   won_sum                              only where the environment's info has "won"
#   return_sums: {kind: sum}             only with several kinds of agents (see `MultiAgentEnvironment.kinds`)
#   info_sums: {name: sum}               numbers of the info at the end of an episode, by name
#   losses: {name: mean over the update's minibatches}
Metrics = dict[str, Any]

Role = Literal["learned", "per_environment", "replayed", "replicated", "nested"]
"""The role of a field in a train state: see `Learned`, `PerEnvironment`, `Replayed`, `Replicated` and `Nested`."""

T = TypeVar("T")

Learned = Annotated[T, "learned"]
"""A field that updates learn: a NaN guard restores it, population-based training copies it.

If it is called `target` and has the tree of `params`, or a part of it, it is the target network: a run that starts from
the parameters of another one starts with a target network like them.
"""

PerEnvironment = Annotated[T, "per_environment"]
"""A field whose leaves all begin with the axis of environments, `[B, …]`, which is split over devices."""

Replayed = Annotated[T, "replayed"]
"""A field like `PerEnvironment` that holds a replay buffer. Only updates use it, so evaluations and best/ leave it out.
"""

Replicated = Annotated[T, "replicated"]
"""A field that is the same on every device, such as a random key or a counter."""

Nested = Annotated[T, "nested"]
"""A field that is itself a train state, whose fields have their own roles."""


class TrainState(Protocol):
    """A train state: a frozen dataclass, registered as a pytree, whose fields each declare one of five roles.

        class TrainState:
            params: Learned[Any]
            runner: PerEnvironment[RunnerState]
            key: Replicated[jax.Array]

    `fit` needs `params` for the NaN guard, divergence and `plan`; population-based training and schedules of
    hyperparameters also need `hyperparams`, `key` and `update`. All other names are the algorithm's own.
    """

    @property
    def params(self) -> Any:
        """The parameters of the networks."""


class RunConfig(Protocol):
    """What `fit` needs from an algorithm's configuration, a frozen dataclass."""

    @property
    def env(self) -> str:
        """The name of the environment."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        ...

    @property
    def num_updates(self) -> int:
        """Updates in the whole run."""
        ...

    @property
    def steps_per_update(self) -> int:
        """Environment steps in one update."""
        ...

    def make_env(self) -> Any:
        """The environment to train in."""
        ...


class Act(Protocol):
    """Chooses actions with a trained state; see `Algorithm.act`."""

    def __call__(
        self,
        state: Any,
        obs: Any,
        carry: Any = None,
        key: jax.Array | None = None,
        *,
        action_mask: jax.Array | None = None,
        reset: jax.Array | None = None,
    ) -> tuple[Any, Any]: ...


class Algorithm(NamedTuple):
    """Three pure functions, in the style of optax; `jit`, `vmap` and `scan` them as you like."""

    init: Callable[..., Any]
    """`init(key, hyperparams=None) -> state`: the whole train state, a pytree. Consumes `key`."""
    update: Callable[[Any], tuple[Any, Metrics]]
    """`update(state) -> (state, metrics)`: one rollout of `num_envs * num_steps` steps, and optimisation on it."""
    act: Act
    """`act(state, obs, carry=None, key=None, *, action_mask=None, reset=None) -> (action, carry)`.

    `obs[B, N, D]` (no N for a single agent) gives `action[B, N]`. `carry` is the memory returned by the last call;
    `None` starts afresh, and so does every environment with `reset[B]` True. Without a `key` the action is greedy.
    """

    def checked_update(self, state: Any) -> tuple[Any, Metrics]:
        """`update(state)`, if it is a state like this one, and metrics.

        It is called while an update is traced, so it costs nothing in the compiled program.

        Raises:
            TypeError: It is something else; the message says what to return.
        """
        returned = self.update(state)
        _check_returned(state, returned)
        return returned

    def __repr__(self) -> str:
        functions = (getattr(function, "func", function) for function in self)
        names = [f"{getattr(f, '__module__', '?')}.{getattr(f, '__name__', '?')}" for f in functions]
        return f"Algorithm(init={names[0]}, update={names[1]}, act={names[2]})"

    def _repr_html_(self) -> str:
        return as_html(
            "Algorithm",
            {"init(key)": "→ state", "update(state)": "→ (state, metrics)", "act(state, obs)": "→ (action, carry)"},
        )


def made_from(algo: Algorithm) -> Any:
    """What `make` has bound to an algorithm's `init`, such as an `Agent` with its `config` and `loss`.

    None for an algorithm that keeps its configuration elsewhere, or a wrapped one.
    """
    return next((part for part in getattr(algo.init, "args", ()) if hasattr(part, "config")), None)


def check_algorithm(algo: Any, taker: str) -> None:
    """Raise unless `algo` is an `Algorithm`.

    Args:
        algo: The given value.
        taker: The function that takes it, as the subject of the message.

    Raises:
        TypeError: It is a module, a configuration or something else; the message says what to give.
    """
    if isinstance(algo, Algorithm):
        return
    if isinstance(algo, ModuleType):
        name = algo.__name__.rpartition(".")[2]
        raise TypeError(f"{taker} takes an algorithm, not the module {name}; give {name}.make(config).")
    raise TypeError(f"{taker} takes an algorithm, such as ppo.make(config), not a {type(algo).__name__}.")


def _check_returned(state: Any, returned: Any) -> None:
    """Raise TypeError unless `returned` is what an update of `state` returns: the next state, and metrics."""
    parts = returned if isinstance(returned, tuple) else (returned,)
    kinds, kind = [type(part).__name__ for part in parts], type(state)
    if len(parts) != 2 or not isinstance(parts[0], kind) or not isinstance(parts[1], Mapping):
        raise TypeError(f"update returned ({', '.join(kinds)}); return (state, metrics), a {kind.__name__} and a dict.")
    _check_alike(state, parts[0])
    metrics = parts[1]
    if "episodes" not in metrics:
        raise TypeError(
            "update returned no metric 'episodes'; return the rollout's sums over episodes that ended: their number "
            "as episodes, return_sum and length_sum."
        )
    losses = jax.tree_util.tree_leaves_with_path(metrics.get("losses", {}), is_leaf=lambda leaf: leaf is None)
    for path, leaf in losses:
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float) or np.shape(leaf):
            raise TypeError(
                f"update returned metrics['losses']{jax.tree_util.keystr(path)} as {kind_of(leaf)}; return a scalar, "
                f"such as the mean, or one with a name of its own for each entry."
            )


def _check_alike(before: Any, after: Any) -> None:
    """Raise TypeError unless two train states have arrays of the same names, shapes and dtypes, as a loop needs."""
    old, new = (jax.tree_util.tree_leaves_with_path(state) for state in (before, after))
    old, new = ({jax.tree_util.keystr(path): _array(leaf) for path, leaf in leaves} for leaves in (old, new))
    for name in {**old, **new}:
        was, now = old.get(name, "no array"), new.get(name, "no array")
        if was != now:
            (kind, _, shape), (_, _, other) = was.partition("["), now.partition("[")
            cure = f"return .astype(jnp.{kind})" if shape == other else "return it as it was"
            raise TypeError(
                f"update got {type(before).__name__}{name} as {was} and returned it as {now}; {cure}, or begin with "
                f"the other in init."
            )


def _array(leaf: Any) -> str:
    """The dtype and shape of an array or a number, such as `int32[3]`."""
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float):
        return kind_of(leaf)
    return f"{jnp.result_type(leaf)}{list(np.shape(leaf))}"


def check_module(module: Any, taker: str) -> None:
    """Raise TypeError unless `module` has an algorithm's `make`; `taker` is the subject of the message."""
    if not hasattr(module, "make"):
        given = "what its make returned" if isinstance(module, Algorithm) else f"a {type(module).__name__}"
        raise TypeError(f"{taker} takes an algorithm's module, such as jaxrl.algos.ppo, not {given}.")


def scan_updates(algo: Algorithm, num_updates: int) -> Callable[..., tuple[Any, Metrics]]:
    """`train(key, hyperparams=None) -> (state, metrics)`: init and all U updates as one function, metrics `[U]`."""

    def train(key: jax.Array, hyperparams: Any = None) -> tuple[Any, Metrics]:
        check_not_loading()
        return jax.lax.scan(
            lambda state, _: algo.checked_update(state), algo.init(key, hyperparams), length=num_updates
        )

    return train


def field_names(state: Any, role: Role) -> tuple[str, ...]:
    """The fields of a train state, or of its class, that have the given role, in order.

    Raises:
        TypeError: It is not a dataclass, or one of its fields declares no role.
    """
    return tuple(name for name, own in _roles(state if isinstance(state, type) else type(state)).items() if own == role)


def map_fields(function: Callable[[Role, Any], Any], state: Any) -> Any:
    """The train state with each field's value replaced by `function(role, value)`; nested states are mapped by field.

    Raises:
        TypeError: See `field_names`.
    """
    new = {}
    for name, role in _roles(type(state)).items():
        value = getattr(state, name)
        new[name] = map_fields(function, value) if role == "nested" else function(role, value)
    return dataclasses.replace(state, **new)


def without_replay(state: Any) -> Any:
    """The train state with `()` for its replay buffer; one without a buffer or without roles is returned unchanged."""
    try:
        replayed, nested = field_names(state, "replayed"), field_names(state, "nested")
    except TypeError:
        return state
    new = dict.fromkeys(replayed, ()) | {name: without_replay(getattr(state, name)) for name in nested}
    return dataclasses.replace(state, **new) if new else state


def with_replay(state: Any, other: Any) -> Any:
    """The train state with the replay buffer of another one of the same kind."""
    new = {name: getattr(other, name) for name in field_names(other, "replayed")}
    new |= {name: with_replay(getattr(state, name), getattr(other, name)) for name in field_names(other, "nested")}
    return dataclasses.replace(state, **new)


@functools.cache
def _roles(kind: type) -> dict[str, Role]:
    """The role of each field of a train state's class."""
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"A train state is a dataclass that declares its fields' roles, not a {kind.__name__}.")
    hints = get_type_hints(kind, include_extras=True)
    roles = {}
    for field in dataclasses.fields(kind):
        declared = [word for word in getattr(hints[field.name], "__metadata__", ()) if word in get_args(Role)]
        if not declared:
            raise TypeError(
                f"{kind.__name__}.{field.name} declares no role, so nothing says how to spread it over devices: write "
                f"`{field.name}: PerEnvironment[Any]` if its leaves begin with the axis of environments, `Learned[Any]`"
                f" if updates learn it, or `Replicated[Any]` (from jaxrl.algorithm)."
            )
        roles[field.name] = declared[0]
    return roles
