"""What is rarely intended: no promise is broken, but most environments in which it occurs have a mistake.

An author who intends it declares it in the class: `intended = ("same_start",)`. The names are those of the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.check.dependence import params_used, used_leaves
from jaxrl.check.dynamic import Run
from jaxrl.check.failure import Failure, check_name, listed, to_numpy
from jaxrl.check.rollout import BATCH
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.errors import nearest
from jaxrl.spaces import Discrete

__all__ = ["SUSPICIONS", "check_intended"]

_STARTS = 256  # how many episodes must all start alike to be suspicious
_WINS = 16  # how many episodes must all be won to be suspicious


def check_endless(run: Run) -> Iterator[Failure]:
    """Episodes end: training and evaluation count only ended episodes."""
    if not run.recording.done.any():
        problem = f"No episode of {BATCH} copies ended within {run.num_steps} random steps."
        advice = "Let the clock end it, truncated = (step >= params.max_steps) & ~terminated, or raise num_steps."
        yield Failure(problem, advice)


def check_same_start(run: Run) -> Iterator[Failure]:
    """Episodes start differently."""
    first = None
    for salt in range(_STARTS // BATCH):
        leaves = jax.tree.leaves(to_numpy(run.programs.resets(run.programs.keys(100 + salt))[0]))
        first = [leaf[0] for leaf in leaves] if first is None else first
        if any((leaf != start).any() for leaf, start in zip(leaves, first, strict=True)):
            return
    yield Failure(f"All of {_STARTS} keys start the same episode.", "Draw the start from the key of reset_env.")


def check_unused_params(run: Run) -> Iterator[Failure]:
    """Every parameter has an effect."""
    shapes = run.programs.shapes
    if not shapes.param_names:
        return
    used = params_used(shapes, "reset_env") | params_used(shapes, "step_env")
    used |= used_leaves(run.programs.views, shapes.state, shapes.params)
    if not used.all():
        names = [name for name, is_used in zip(shapes.param_names, used, strict=True) if not is_used]
        advice = "Read it from params wherever a constant or self.… stands in its place, or leave it out."
        yield Failure(f"Nothing depends on {listed(names)}.", advice)


def check_forbidden_actions(run: Run) -> Iterator[Failure]:
    """A mask allows every action in some state. Only a mask that does not depend on the state can be judged."""
    env, shapes = run.programs.env, run.programs.shapes
    mask = run.recording.views.get("action_mask")
    if mask is None or used_leaves(lambda p, s: env.action_mask(s, p), shapes.params, shapes.state).any():
        return
    if isinstance(env, MultiAgentEnvironment):
        spaces = env.agent_action_spaces
        rows = [(f" of {name}", mask[0, 0, i], spaces[name]) for i, name in enumerate(env.agents)]
    else:
        rows = [("", mask[0, 0], env.action_space(shapes.params))]
    for whose, row, space in rows:
        assert isinstance(space, Discrete)
        forbidden = np.flatnonzero(~row[: space.n])
        if len(forbidden):
            problem = f"The action mask forbids action {listed([str(a) for a in forbidden])}{whose} in every state."
            yield Failure(problem, f"Allow it where it works, or leave it out of the action space, now {space}.")


def check_always_won(run: Run) -> Iterator[Failure]:
    """Not every end of an episode is a win."""
    done, won = run.recording.done, run.recording.info.get("won")
    if won is not None and done.sum() >= _WINS and won[done].all():
        problem = f'info["won"] is True at the end of all {done.sum()} episodes played with random actions.'
        yield Failure(problem, "Make it tell a win from any other end, such as running out of time.")


SUSPICIONS = (
    check_endless,
    check_same_start,
    check_unused_params,
    check_forbidden_actions,
    check_always_won,
)


def check_intended(env: Environment, params: Any) -> Iterator[Failure]:
    """`intended` is a tuple of names of suspicions."""
    names = [check_name(check) for check in SUSPICIONS]
    if not isinstance(env.intended, tuple):
        problem = f"intended is {env.intended!r}."
        yield Failure(problem, 'Make it a tuple, such as ("same_start",).')
        return
    for name in env.intended:
        if name not in names:
            yield Failure(f"intended has {name!r}, which no check is called.", nearest(name, names))
