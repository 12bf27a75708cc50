"""The members of a run: M of them train side by side, each with its own seed and perhaps its own hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics
from jaxrl.config import as_seed
from jaxrl.train.metrics import metric_of, rank

__all__ = [
    "Lineage",
    "Members",
    "at_generation",
    "best_member",
    "describe_member",
    "follow_lineage",
    "member_of",
    "point_at",
    "roles_in",
    "seed_keys",
    "traced_fields",
]

_FIRST_STREAM = 1 << 31  # fold_in(key, i) is split(key, n)[i] if i < n, and training splits its key


@dataclasses.dataclass(frozen=True)
class Members:
    """M members. With M = 1 neither keys nor hyperparameters have a members axis."""

    seeds: tuple[int, ...]
    names: tuple[str, ...]
    """The words for each member in messages."""
    hyperparams: Any = None
    """In the form that the algorithm's `init` takes, leaves `[M]`; None uses the ones in the config."""

    def __len__(self) -> int:
        return len(self.seeds)

    @classmethod
    def of(cls, config: Any, members: int | Sequence[Mapping[str, Any]]) -> Members:
        """Make the members of a run from its config.

        Args:
            config: The run's config.
            members: Their number, in which case member m has `config.seed + m`; or, for each member, the fields in
                which it differs from `config`: its seed, and fields of `config.hyperparams`.

        Raises:
            ValueError: A field needs its own program, or a value or a seed is invalid.
        """
        if isinstance(members, int):
            members = [{"seed": config.seed + m} for m in range(members)]
        configs = [dataclasses.replace(config, **own) for own in members]
        names = {name for own in members for name in own} - {"seed"}
        fixed = sorted(names - set(traced_fields(config)))
        if fixed:
            raise ValueError(f"{', '.join(fixed)} cannot differ between members: each value needs its own program.")
        hyperparams = None
        if names:
            leaves = [each.hyperparams for each in configs]
            hyperparams = leaves[0] if len(leaves) == 1 else jax.tree.map(lambda *each: np.stack(each), *leaves)
        seeds = tuple(as_seed("seed", each.seed) for each in configs)
        return cls(seeds, tuple(map(describe_member, members)), hyperparams)

    def keys(self, stream: int = 0) -> jax.Array:
        """See `seed_keys`."""
        return seed_keys(self.seeds, stream)


def seed_keys(seeds: Sequence[int], stream: int = 0) -> jax.Array:
    """A key for each seed `[M]`, or a single key for M = 1. All streams are independent of each other.

    Members that share a seed, like the points of a sweep or a search, share its keys on purpose: points are compared
    on the same initial parameters, the same environments and the same evaluation episodes. A member that needs a key
    of its own must also fold in its number, as the members of a population do.
    """
    keys = [jax.random.key(seed) for seed in seeds]
    if stream:
        keys = [jax.random.fold_in(key, _FIRST_STREAM + stream) for key in keys]
    if len(keys) == 1:
        return keys[0]
    return jax.random.wrap_key_data(jnp.stack([jax.random.key_data(key) for key in keys]))


def traced_fields(config: Any) -> list[str]:
    """The fields of a config, apart from the seed, that can differ between members of one program."""
    hyperparams = getattr(config, "hyperparams", None)
    return [] if hyperparams is None else [field.name for field in dataclasses.fields(hyperparams)]


def describe_member(own: Mapping[str, Any]) -> str:
    """A short description of a member, for example `seed 3, lr=0.1`."""
    values = (f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in own.items() if k != "seed")
    return ", ".join([f"seed {own['seed']}" if "seed" in own else "", *values]).removeprefix(", ")


def roles_in(league: Any, members: int) -> tuple[str, ...]:
    """The role of each member if a config's `league` says so; empty if there is no league."""
    roles = tuple(league) if isinstance(league, (list, tuple)) else ()
    return roles if len(roles) == members and "main" in roles else ()


def best_member(evaluation: Mapping[str, Any], diverged: Sequence[int] | None = None, league: Any = None) -> int:
    """The number of the member with the best score in an evaluation's summary, whose numbers are lists.

    See `rank`. Members that have `diverged` still act, and may be lucky, but are never the best. Nor are the exploiters
    of a `league`, the field of its config: their task is another one, so their scores say nothing about main members.
    """
    count = len(evaluation["return_mean"])
    lost, metrics = set(diverged or ()), {metric_of(evaluation), "return_mean"}
    roles = roles_in(league, count) or ("main",) * count

    def merit(member: int) -> tuple[bool, tuple[float, float]]:
        return member not in lost, rank({name: evaluation[name][member] for name in metrics})

    return max((member for member in range(count) if roles[member] == "main"), key=merit)


def member_of(state: Any, member: int | Sequence[int]) -> Any:
    """The state of one member, or the states of several, taken from leaves `[M, …]`."""
    return _member_of(state, np.asarray(member, np.int32))  # as one program, whichever they are


@jax.jit
def _member_of(state: Any, member: jax.Array) -> Any:
    def pick(leaf: jax.Array) -> jax.Array:
        # Cloning does not consume the keys: the whole state can still be trained on.
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return (jax.random.clone(leaf) if is_key else leaf)[member]

    return jax.tree.map(pick, state)


class Lineage(TypedDict):
    """The entry `lineage` of run.json."""

    every_updates: int
    """Updates per generation; the last generation lasts to the end."""
    points: Sequence[Mapping[str, Any]]
    """The hyperparameters of each generation."""


def point_at(lineage: Lineage, update: int) -> Mapping[str, Any]:
    """The hyperparameters of the generation of an update, as `at_generation` takes them."""
    points = lineage["points"]
    return points[min(update // lineage["every_updates"], len(points) - 1)]


def follow_lineage(algo: Algorithm, lineage: Lineage) -> Algorithm:
    """The algorithm with hyperparameters that change every `every_updates` updates and keep their last values.

    Its train state must have the fields `hyperparams` and `update`, as in the PPO family.
    """
    points, every = lineage["points"], lineage["every_updates"]
    values = {name: np.array([point[name] for point in points], np.float32) for name in points[0]}

    def update(state: Any) -> tuple[Any, Metrics]:
        return algo.checked_update(at_generation(values, state, every))

    return algo._replace(update=update)


def at_generation(values: Mapping[str, np.ndarray | jax.Array], state: Any, every_updates: int) -> Any:
    """The train state with the hyperparameters of its generation.

    Args:
        values: A column `[G]` for each hyperparameter that changes.
        state: The train state of one member, with the fields `hyperparams` and `update`.
        every_updates: Updates per generation.
    """
    last = len(next(iter(values.values()))) - 1
    generation = jnp.minimum(state.update // every_updates, last)
    now = {name: jnp.asarray(column)[generation] for name, column in values.items()}
    return dataclasses.replace(state, hyperparams=dataclasses.replace(state.hyperparams, **now))
