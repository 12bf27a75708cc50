"""Losses and parameters that are no longer finite: of which member, since when, in which leaves; and gradients of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Metrics
from jaxrl.errors import DivergedError
from jaxrl.train.devices.hosts import fetch
from jaxrl.train.members import Members
from jaxrl.train.metrics import columns, flatten

__all__ = ["Divergence", "Idle", "finite_members", "who"]


class Divergence:
    """Checks the losses and parameters of a run, reports each diverged member, and ends the run when none is left.

    Args:
        members: The members of the run.
        num_updates: Updates in the whole run.
        advice: Returns what to try, as the end of the error message.
        revives: Whether a member that has diverged may go on as a copy of another one.
    """

    def __init__(self, members: Members, num_updates: int, advice: Callable[[], str], *, revives: bool = False) -> None:
        self._members = members
        self._num_updates = num_updates
        self._advice = advice
        self._revives = revives
        self._since: dict[int, int] = {}  # member -> update

    def check_losses(self, metrics: Metrics, done: int, state: Any) -> tuple[list[str], DivergedError | None]:
        """A sentence for each member whose losses have become NaN or infinite in these updates.

        Args:
            metrics: The metrics of n updates, leaves `[n]` or `[n, M]`.
            done: Updates done before these.
            state: The train state after these updates or somewhat later, for the names of parameters.

        Returns:
            The sentences and, if no other member is left, the error that ends the run.
        """
        losses = flatten({"losses": metrics.get("losses", {})})
        if not losses:
            return [], None
        good = np.stack([np.isfinite(values.reshape(len(values), -1)) for values in losses.values()])  # [L, n, M]
        said = []
        bad = [member for member in map(int, np.flatnonzero(~good.all((0, 1)))) if member not in self._since]
        bad.sort(key=lambda member: int(np.argmin(good[:, :, member].all(0))))
        for member in bad:
            row = int(np.argmin(good[:, :, member].all(0)))
            self._since[member] = done + row + 1
            names = [
                name.removeprefix("losses/") for name, fine in zip(losses, good, strict=True) if not fine[row, member]
            ]
            text = self._sentence(member, done + row + 1, names, state)
            if member == bad[-1] and self._nobody_is_left(good):
                return said, DivergedError(f"{text} {self._advice()}", done + row + 1)
            said.append(f"{text} The other members go on.")
        if self._revives:  # a member that is finite again may diverge again
            self._since = {m: update for m, update in self._since.items() if not good[:, -1, m].all()}
        return said, None

    def _nobody_is_left(self, good: np.ndarray) -> bool:
        """True if all members have diverged, given which losses `[L, n, M]` are finite."""
        if self._revives:
            return not good[:, -1].all(0).any()
        return len(self._since) == len(self._members)

    def _sentence(self, member: int, update: int, losses: list[str], state: Any) -> str:
        text = f"After update {update} of {self._num_updates} {who(self._members, member)} has diverged: not finite: "
        params = _not_finite(getattr(state, "params", None), member if len(self._members) > 1 else None)
        return text + ", ".join(losses) + (f"; parameters {', '.join(params[:4])}." if params else ".")

    def check_params(self, state: Any) -> DivergedError | None:
        """The error that ends the run, instead of saving it, if the parameters of its only member are not finite."""
        bad = _not_finite(getattr(state, "params", None)) if len(self._members) == 1 else []
        if not bad:
            return None
        return DivergedError(f"The parameters {', '.join(bad[:4])} are no longer finite. {self._advice()}")

    def found(self, table: list[dict[str, Any]], state: Any) -> list[int]:
        """The members with an unskipped loss in `table`, or a parameter in `state`, that is not finite.

        Where members can go on as copies of others, only their parameters count.
        """
        members = len(self._members)
        bad = np.zeros(members, bool)
        numbers = {name: values.reshape(len(values), -1) for name, values in columns(table).items()}
        # Skipped losses changed nothing; rows made with on_nan="stop" have no such count.
        excused = numbers.get("skipped", np.zeros((len(table), 1))) > 0
        for name, values in numbers.items():
            if name.startswith("losses/") and not self._revives:
                bad |= (~np.isfinite(values) & ~excused).any(0)
        bad |= ~finite_members(getattr(state, "params", None), members)
        return np.flatnonzero(bad).tolist()


def finite_members(params: Any, members: int) -> np.ndarray:
    """The finiteness of the parameters of each member: bool `[M]`, True if all are finite.

    Args:
        params: Leaves `[M, …]`, or without members if there is one.
        members: M.
    """
    fine = np.ones(members, bool)
    for leaf in jax.tree.leaves(params):
        if jnp.issubdtype(leaf.dtype, np.floating):
            fine &= np.isfinite(fetch(leaf)).reshape(members, -1).all(1)
    return fine


def who(members: Members, member: int) -> str:
    """The name of a member in a sentence; a single member is called "training"."""
    return f"{members.names[member]} (member {member})" if len(members) > 1 else "training"


def _not_finite(tree: Any, member: int | None = None) -> list[str]:
    """The names of the floating leaves that hold NaN or infinity."""
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if jnp.issubdtype(leaf.dtype, np.floating):
            value = fetch(leaf) if member is None else fetch(leaf)[member]
            if not np.isfinite(value).all():
                names.append(jax.tree_util.keystr(path))
    return names


PATIENCE = 10
"""Updates without a gradient, once learning has begun, until the user hears of them."""


class Idle:
    """Watches the norms of gradients in a run that learns after `wait` updates, as far as its losses have some."""

    def __init__(self, wait: int) -> None:
        self._wait, self._seen, self._settled = wait, 0, False

    def sentence(self, metrics: Metrics, last: bool) -> str | None:
        """A sentence for the user, once, if all gradients were 0, those of the next n updates too: leaves `[n, …]`."""
        fills = "levels" in metrics and not np.any(metrics["levels"]["trains"])  # robust methods wait for their pool
        if fills and not last:
            return None
        losses = flatten(metrics.get("losses", {}))
        norms = [values for name, values in losses.items() if name.endswith("grad_norm")]
        self._seen += len(norms[0]) if norms else 0
        moved = self._settled or not norms or any(norm.any() for norm in norms)
        self._settled = moved or self._seen >= self._wait + (1 if last else PATIENCE)
        if moved or not self._settled:
            return None
        if fills:
            return (
                "Nothing was learned: robust methods learn from a pool of levels, which is not filled to min_fill yet. "
                "Lower size or min_fill in levels, or train for longer."
            )
        return (
            f"Nothing is learned: the gradient was 0 in all of {self._seen} updates, as if no step counted. Learning "
            f"from a replay buffer leaves out steps that the clock cuts: let episodes last longer than one step, or "
            f"return them as terminated if the task has ended."
        )
