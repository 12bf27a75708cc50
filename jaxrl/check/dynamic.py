"""Promises that can only be checked by running the environment, and suspicions.

A suspicion is what is rarely intended: no promise is broken, but most environments in which it occurs have a mistake.
An author who intends it declares it in the class: `intended = ("same_start",)`. The names are those of the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.check.rollout import BATCH, Programs, Recording, params_used, used_leaves
from jaxrl.check.static import Failure, at_index, check_name, differences, listed, to_numpy
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.errors import nearest
from jaxrl.keys import abstract_key
from jaxrl.spaces import Discrete

__all__ = ["DYNAMIC_CHECKS", "SUSPICIONS", "Run", "check_intended"]

_PARTS = ("observation", "state", "reward", "terminated", "truncated", "info")
_MOMENTS = 4  # how many steps of the recording are run again in other ways
_EDITS = 100  # tries of mutate, of which one must change something


class Run:
    """A recording, the programs that made it, and the steps (moments) worth running again."""

    def __init__(
        self, programs: Programs, resets: Any, recording: Recording, strayed: Recording, num_steps: int
    ) -> None:
        self.programs, self.resets, self.recording = programs, resets, recording
        self.strayed = strayed  # where an observation leaves its space, if one does
        self.num_steps = num_steps  # steps in total; a recording is a part of them
        ends = np.flatnonzero(recording.done.any(1))
        spread = np.linspace(0, len(recording.done) - 1, _MOMENTS).astype(int)
        self.moments = list(dict.fromkeys(int(t) for t in [*ends[:2], *spread]))[:_MOMENTS]

    def inputs(self, t: int) -> tuple[Any, Any, Any]:
        """Keys (bits), states and actions of step t, leaves `[B, …]`."""
        rec = self.recording
        return rec.keys[t], at_index(rec.state, t), rec.action[t]

    def outputs(self, t: int) -> tuple[Any, ...]:
        """The results of step t."""
        rec = self.recording
        parts = rec.obs, rec.next_state, rec.reward, rec.terminated, rec.truncated, rec.info
        return jax.tree.map(lambda leaf: leaf[t], parts)

    def lane(self, t: int) -> int:
        """The copy to examine alone in step t: one whose episode ends, if any does."""
        return int(np.argmax(self.recording.done[t]))


def check_reset(run: Run) -> Iterator[Failure]:
    """Resets are in bounds, and batched resets equal single ones."""
    batch, lanes, single = to_numpy(run.resets)
    if not run.programs.inside(batch[0]).all():
        yield Failure("An observation after reset is not in observation_space().", "Widen the space or clip it.")
    if differing := differences(batch, lanes):
        yield Failure(f"batch_reset differs from vmap(reset) in {listed(differing)}.", "Use the keys in the same way.")
    if differing := differences(jax.tree.map(lambda leaf: leaf[0], lanes), single):
        yield Failure(f"vmap(reset) differs from reset in {listed(differing)}.", "Write it for one environment only.")


def check_observations(run: Run) -> Iterator[Failure]:
    """Every number is finite, and observations stay inside their space."""
    rec = run.strayed
    for name, value in (("An observation", rec.obs), ("A final observation", rec.info["final_observation"])):
        if not np.isfinite(value).all():
            yield Failure(f"{name} is not finite after random actions.", "Look for divisions by zero and overflow.")
            return
    if not rec.inside.all():
        t, lane = np.argwhere(~rec.inside)[0]
        worst = float(np.abs(rec.info["final_observation"][t, lane]).max())
        problem = f"An observation leaves observation_space() after random actions (largest magnitude {worst:.4g})."
        yield Failure(problem, "Widen the space, or clip the observation.")


def check_rewards(run: Run) -> Iterator[Failure]:
    """Rewards are finite."""
    if not np.isfinite(run.recording.reward).all():
        yield Failure("A reward is not finite after random actions.", "Look for divisions by zero and overflow.")


def check_teams(run: Run) -> Iterator[Failure]:
    """The members of a team share one reward: a critic of the team's value relies on this."""
    env, reward = run.programs.env, run.recording.reward
    if not isinstance(env, MultiAgentEnvironment):
        return
    for team in set(env.teams):
        of_team = reward[..., np.equal(env.teams, team)]
        if not np.array_equal(of_team, np.broadcast_to(of_team[..., :1], of_team.shape)):
            problem = f"The members of team {team} have different rewards."
            yield Failure(problem, "Give agents with rewards of their own teams of their own; that is the default.")


def check_flags(run: Run) -> Iterator[Failure]:
    """An episode is never terminated and truncated at the same time."""
    if (run.recording.terminated & run.recording.truncated).any():
        yield Failure("A step is terminated and truncated at once.", "Write truncated = (…) & ~terminated.")


def check_won(run: Run) -> Iterator[Failure]:
    """A win is reported in the step that ends the episode, and depends on state or action."""
    won, shapes = run.recording.info.get("won"), run.programs.shapes
    if won is None:
        return
    if (won & ~run.recording.done).any():
        problem = 'info["won"] is True in a step that does not end the episode.'
        yield Failure(problem, "Make it True only in the step that wins and ends it: won & (terminated | truncated).")

    def told(key: Any, params: Any, what: tuple[Any, Any]) -> Any:
        state, action = what
        return shapes.env.step_env(key, state, action, params)[5]["won"]

    key = abstract_key()
    if not used_leaves(told, key, shapes.params, (shapes.state, shapes.action)).any():
        yield Failure('info["won"] depends on neither state nor action.', "Compute it, or leave it out of info.")


def check_views(run: Run) -> Iterator[Failure]:
    """`observation` agrees with `step`, masks leave an action open but never padding, the global state is finite."""
    env, views = run.programs.env, run.recording.views
    if "observation" in views and differences(views["observation"], run.recording.obs):
        problem = "observation(state) is not the observation that step returned with that state."
        yield Failure(problem, "Return the same from both, or leave the method out.")
    if "action_mask" in views:
        mask = views["action_mask"]
        if not mask.any(-1).all():
            advice = "Leave one action open, such as doing nothing, for the dead as well."
            yield Failure("An action mask is False for every action.", advice)
        if isinstance(env, MultiAgentEnvironment):
            for i, (agent, space) in enumerate(env.agent_action_spaces.items()):
                if isinstance(space, Discrete) and mask[..., i, space.n :].any():
                    problem = f"The action mask lets {agent} choose actions beyond its own {space}."
                    yield Failure(problem, "Mask the padding.")
    if "global_state" in views and not np.isfinite(views["global_state"]).all():
        yield Failure("The global state is not finite after random actions.", "Look for divisions by zero.")


def check_determinism(run: Run) -> Iterator[Failure]:
    """The same keys, states and actions give exactly the same results."""
    programs, start = run.programs, run.resets[0][1]
    bits = programs.keys(7, 2 * programs.num_steps * BATCH).reshape(2, programs.num_steps, BATCH, -1)
    first, again = (to_numpy(programs.chunk(start, *bits)[1]) for _ in range(2))
    if differing := differences(first, again, exact=True):
        problem = f"The same keys, states and actions give different results in {listed(differing)}."
        yield Failure(problem, "Use only the given key for random numbers.")


def check_vmap(run: Run) -> Iterator[Failure]:
    """A single environment, `vmap` with parameters per lane, and `batch_step` all agree."""
    programs = run.programs
    params = programs.stacked_params()
    for t in run.moments:
        lanes = to_numpy(programs.lanes(*run.inputs(t), params))
        found = to_numpy(run.outputs(t))
        if differing := _by_part(lanes, found):
            advice = "Let batch_step use keys and rules as step does; params may be vmapped as well."
            yield Failure(f"batch_step differs from vmap(step) over states and params in {listed(differing)}.", advice)
        lane = run.lane(t)
        single = to_numpy(programs.single(*at_index(run.inputs(t), lane))[0])
        if differing := _by_part(at_index(lanes, lane), single):
            advice = "Write step_env for one environment, without assuming array ranks."
            yield Failure(f"vmap(step) differs from a single step in {listed(differing)}.", advice)
        if differing:
            return


def check_batch_params(run: Run) -> Iterator[Failure]:
    """All reset and step methods use the parameters that `reset_env` and `step_env` use."""
    shapes = run.programs.shapes
    if not shapes.param_names:
        return
    for_reset = params_used(shapes, "reset_env")
    for_step = for_reset | params_used(shapes, "step_env")  # which includes the auto-reset
    ways = ("reset", for_reset), ("step", for_step), ("batch_reset", for_reset), ("batch_step", for_step)
    for method, wanted in ways:
        if getattr(type(shapes.env), method) is getattr(Environment, method):
            continue
        ignored = wanted & ~params_used(shapes, method)
        if ignored.any():
            names = [name for name, is_ignored in zip(shapes.param_names, ignored, strict=True) if is_ignored]
            advice = "Pass params on; only None stands for default_params."
            yield Failure(f"{method} ignores {listed(names)}, unlike reset_env and step_env.", advice)


def check_auto_reset(run: Run) -> Iterator[Failure]:
    """`step` is `step_env`, then a reset if the episode ended; `final_observation` comes from `step_env`."""
    for t in run.moments:
        found, expected = to_numpy(run.programs.single(*at_index(run.inputs(t), run.lane(t))))
        if differing := _by_part(found, expected):
            problem = f"step is not step_env followed by an auto-reset: {listed(differing)} differs."
            yield Failure(problem, 'Keep step as it is, or put what step_env saw into info["final_observation"].')
            return


def check_reset_to(run: Run) -> Iterator[Failure]:
    """A batched kernel continues ended episodes from `reset_to` (reset="pool" needs it), and takes `own_params`."""
    if not run.programs.batched:
        return
    start = to_numpy(run.resets[0])
    for t in run.moments:
        found = to_numpy(run.programs.pooled(*run.inputs(t), run.resets[0]))
        obs, state, *outcome = to_numpy(run.outputs(t))  # with fresh resets; the rest is the same
        expected = *_choose(run.recording.done[t], start, (obs, state)), *outcome
        if differing := _by_part(found, expected):
            problem = f"batch_step with reset_to and own_params=True differs in {listed(differing)}."
            yield Failure(
                problem,
                "Continue ended episodes from reset_to, use the first half of each split key for the step, and let the "
                "leaves of params be [B, …] with own_params.",
            )
            return


def check_illegal_actions(run: Run) -> Iterator[Failure]:
    """Actions outside the space have the same effect as the nearest action inside."""
    programs = run.programs
    illegal = programs.illegal_actions()
    legal = np.asarray(programs.env.action_space(programs.params).clip(illegal))
    params = programs.stacked_params()
    for t in run.moments:
        bits, state, _ = run.inputs(t)
        found, expected = (to_numpy(programs.lanes(bits, state, action, params)) for action in (illegal, legal))
        for lane in range(BATCH):
            if _by_part(at_index(found, lane), at_index(expected, lane), exact=True):
                value = illegal[lane].ravel()[0]
                problem = f"The action {value} is outside the space and is not treated as the nearest one inside."
                yield Failure(problem, "Begin step_env with action = self.action_space(params).clip(action).")
                return


def check_jit(run: Run) -> Iterator[Failure]:
    """Results are the same without `jit`, and one compilation is enough with it. No key is consumed twice."""
    programs = run.programs
    bits, state, action = at_index(run.inputs(0), 0)
    compiled = programs.single(bits, state, action)[0]
    programs.single(bits, compiled[1], action)
    if programs.single_traces > 1:
        problem = f"step was compiled {programs.single_traces} times for equal shapes."
        yield Failure(problem, "Return the same dtypes, weak types included, as came in.")
    try:
        with jax.disable_jit(), jax.debug_key_reuse(True):
            interpreted = programs.env.step(programs.wrap(bits), state, action, programs.params)
    except jax.errors.KeyReuseError as error:
        problem = f"step consumes a random key twice: {str(error).splitlines()[0]}."
        yield Failure(problem, "Split the key, one part for each use.")
        return
    if differing := _by_part(to_numpy(compiled), to_numpy(interpreted)):
        problem = f"step gives another {listed(differing)} with jit than without."
        yield Failure(problem, "Compute with jax.numpy only, and keep nothing outside the state.")


def check_mutate(run: Run) -> Iterator[Failure]:
    """`mutate` returns states that can be seen and stepped, and changes at least 1 in 100."""
    programs = run.programs
    if not programs.env.has_mutate:
        return
    starts = jax.tree.map(lambda leaf: leaf[np.arange(_EDITS) % BATCH], run.resets[0][1])
    bits = programs.keys(8, 3 * _EDITS).reshape(_EDITS, 3, -1)
    try:
        with jax.debug_key_reuse(True):
            edited, inside, stepped = to_numpy(programs.edits(bits, starts))
    except jax.errors.KeyReuseError as error:
        problem = f"mutate consumes a random key twice: {str(error).splitlines()[0]}."
        yield Failure(problem, "Split the key, one part for each use.")
        return
    if not differences(edited, to_numpy(starts), exact=True):
        advice = "Change something that differs from start to start, such as a place, and draw from the key what."
        yield Failure(f"mutate changes nothing in any of {_EDITS} tries.", advice)
    if not inside.all():
        advice = "Return only starts that reset_env could return, or the state as it was."
        yield Failure("An observation after mutate is not in observation_space().", advice)
    elif not all(np.isfinite(part).all() for part in stepped):
        advice = "Edit all that depends on the change, and return only starts that reset_env could return."
        yield Failure("An observation or a reward is not finite one step after mutate.", advice)


DYNAMIC_CHECKS = (
    check_reset,
    check_observations,
    check_rewards,
    check_teams,
    check_flags,
    check_won,
    check_views,
    check_determinism,
    check_vmap,
    check_batch_params,
    check_auto_reset,
    check_reset_to,
    check_illegal_actions,
    check_jit,
    check_mutate,
)


def _choose(mask: np.ndarray, on_true: Any, on_false: Any) -> Any:
    """`np.where` over trees with leading axis `[B]`."""

    def pick(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(mask.reshape(-1, *(1,) * (b.ndim - 1)), a, b)

    return jax.tree.map(pick, on_true, on_false)


def _by_part(a: Any, b: Any, *, exact: bool = False) -> list[str]:
    """The `differences` of two steps, each with the name of its part."""
    found = []
    for name, x, y in zip(_PARTS, a, b, strict=True):
        found += [name if where == "the value" else f"{name}{where}" for where in differences(x, y, exact=exact)]
    return found


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
