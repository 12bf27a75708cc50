"""`on_nan="skip"`: an update that is not finite is discarded, and training continues from the parameters before it.

`FiniteWatch` joins this with the check for divergence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics, field_names
from jaxrl.errors import DivergedError
from jaxrl.train.health.divergence import Divergence, who
from jaxrl.train.members import Members

__all__ = ["PATIENCE", "FiniteWatch", "Inspection", "NanGuard", "OnNan", "handle_nan", "skip_bad_updates"]

OnNan = Literal["stop", "skip"]

PATIENCE = 100
"""The number of updates in a row that may be skipped before training counts as hopeless."""


def handle_nan(algo: Algorithm, on_nan: OnNan) -> Algorithm:
    """`algo`, wrapped by `skip_bad_updates` if `on_nan="skip"`.

    Raises:
        ValueError: `on_nan` is neither "stop" nor "skip".
    """
    if on_nan not in get_args(OnNan):
        raise ValueError(f'on_nan must be "stop" or "skip", got {on_nan!r}.')
    return skip_bad_updates(algo) if on_nan == "skip" else algo


def skip_bad_updates(algo: Algorithm) -> Algorithm:
    """`algo` with an `update` that keeps the old learned fields if a loss or a leaf of the new ones is not finite.

    The decision is made inside the compiled program, for each member separately, so the others are not affected; a
    finite update passes through unchanged. Metrics gain `skipped` (0 or 1) and `not_finite`, bool `[L]` for the L
    floating leaves in the order of `names_of`; the losses of a skipped update are left as they are.

    Raises:
        TypeError: Raised by `update` if the train state does not declare which of its fields are learned.
    """

    def update(state: Any) -> tuple[Any, Metrics]:
        new, metrics = algo.checked_update(state)
        before, after = _learned(state), _learned(new)
        bad = _not_finite({"losses": metrics.get("losses", {}), **after})
        skipped = bad.any()
        kept = {
            name: jax.tree.map(lambda old, new: jnp.where(skipped, old, new), before[name], after[name])
            for name in before
        }
        metrics = {**metrics, "skipped": skipped.astype(jnp.float32), "not_finite": bad}
        return dataclasses.replace(new, **kept), metrics

    return algo._replace(update=update)


def names_of(losses: dict[str, Any], state: Any) -> list[str]:
    """The names of the L leaves that are checked, such as `losses ['policy']` and `params ['torso']['kernel']`."""
    leaves = jax.tree_util.tree_leaves_with_path({"losses": losses, **_learned(state)})
    # The first key is the field's name, which reads better bare.
    return [f"{p[0].key} {jax.tree_util.keystr(p[1:])}".strip() for p, leaf in leaves if _is_float(leaf)]


class NanGuard:
    """The host's side: reports skipped updates and removes the NaN that they leave in the metrics.

    Args:
        members: The members of the run.
        num_updates: Updates in the whole run.
        state_shape: The shapes of the train state.
    """

    def __init__(self, members: Members, num_updates: int, state_shape: Any) -> None:
        self._members = members
        self._num_updates = num_updates
        self._state_shape = state_shape
        self._said: set[int] = set()
        self._in_a_row = np.zeros(len(members), int)
        self.total = np.zeros(len(members), int)
        """Skipped updates of each member since this process began."""

    def take(self, metrics: Metrics, done: int) -> tuple[Metrics, list[str], DivergedError | None]:
        """The metrics of n updates without `not_finite` and with 0 for skipped losses, and sentences for the user.

        Args:
            metrics: Leaves `[n, …]` or `[n, M, …]`.
            done: Updates done before these.

        Returns:
            Both, and the error that ends the run if the last `PATIENCE` updates of all members were skipped.
        """
        if "skipped" not in metrics:
            return metrics, [], None
        metrics = dict(metrics)
        bad, skipped = metrics.pop("not_finite"), metrics["skipped"] > 0  # [n, (M,) L], [n, (M)]
        names = names_of(metrics.get("losses", {}), self._state_shape)
        each = skipped.reshape(len(skipped), -1)  # [n, M]
        self.total += each.sum(0)
        said = []
        for member in map(int, np.flatnonzero(each.any(0))):
            if member not in self._said:
                self._said.add(member)
                row = int(np.argmax(each[:, member]))
                where = bad.reshape(*each.shape, -1)[row, member]
                said.append(self._sentence(member, done + row + 1, [names[i] for i in np.flatnonzero(where)]))
        losses = jax.tree.map(lambda leaf: np.where(skipped, 0.0, leaf), metrics.get("losses", {}))
        return {**metrics, "losses": losses}, said, self._hopeless(each, done)

    def _hopeless(self, skipped: np.ndarray, done: int) -> DivergedError | None:
        """Count how many updates in a row each member has skipped, from bool `[n, M]`; return the error if too many."""
        for row, now in enumerate(skipped):
            self._in_a_row = np.where(now, self._in_a_row + 1, 0)
            if self._in_a_row.min() >= PATIENCE:
                return DivergedError(
                    f"The last {PATIENCE} updates up to update {done + row + 1} of {self._num_updates} were not finite "
                    f"and had to be skipped, so nothing is learned any more. Try a lower --lr, or see if the "
                    f"environment returns numbers that are not finite.",
                    done + row + 1,
                )
        return None

    def _sentence(self, member: int, update: int, names: list[str]) -> str:
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return (
            f"Update {update} of {self._num_updates} of {who(self._members, member)} was skipped: not finite: "
            f"{', '.join(names[:4])}{more}. Later ones are counted in the rows, under `skipped`."
        )


def _learned(state: Any) -> dict[str, Any]:
    """The fields that a bad update leaves unchanged. All else moves on: environments, keys and the update count."""
    return {name: getattr(state, name) for name in field_names(state, "learned")}


def _not_finite(tree: Any) -> jax.Array:
    """Bool `[L]`: which of the floating leaves hold NaN or infinity."""
    return jnp.stack([~jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree) if _is_float(leaf)])


def _is_float(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


class Inspection(NamedTuple):
    """The findings in the metrics of some updates."""

    metrics: Metrics
    """The metrics up to the update that ends the run, if one does, without the entries only the NaN guard reads."""
    updates: int
    """The number of updates in `metrics`."""
    sentences: list[str]
    """Sentences for the user."""
    error: DivergedError | None
    """The error that ends the run, once the rows before it are written."""


class FiniteWatch:
    """Runs the NaN guard and the divergence check on the host.

    Args:
        members: The members of the run.
        num_updates: Updates in the whole run.
        state_shape: The shapes of the train state.
        advice: Returns what to try, as the end of the error message.
        revives: Whether a member that has diverged may go on as a copy of another one.
    """

    def __init__(
        self,
        members: Members,
        num_updates: int,
        state_shape: Any,
        advice: Callable[[], str],
        *,
        revives: bool = False,
    ) -> None:
        self.divergence = Divergence(members, num_updates, advice, revives=revives)
        self._guard = NanGuard(members, num_updates, state_shape)

    def inspect(self, metrics: Metrics, updates: int, done: int, state: Any) -> Inspection:
        """Inspect the metrics of n updates.

        Args:
            metrics: Leaves `[n, …]` or `[n, M, …]`.
            updates: n.
            done: Updates done before these.
            state: The train state after these updates or somewhat later, for the names of parameters.
        """
        metrics, skipped, hopeless = self._guard.take(metrics, done)
        said, diverged = self.divergence.check_losses(metrics, done, state)
        error = hopeless or diverged
        if error is not None and error.update is not None:
            updates = error.update - done
            metrics = _first(metrics, updates)
        return Inspection(metrics, updates, skipped + said, error)


def _first(metrics: Metrics, updates: int) -> Metrics:
    if isinstance(metrics, dict):
        return {name: _first(value, updates) for name, value in metrics.items()}
    return metrics[:updates]
