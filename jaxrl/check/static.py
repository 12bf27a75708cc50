"""Promises checked without running anything: spaces, shapes, dtypes, trees, purity. Needs tracing, no compilation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.core
import numpy as np

from jaxrl.check.failure import Failure, first_line
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.keys import abstract_key
from jaxrl.methods import wrong_methods
from jaxrl.spaces import Box, Discrete, Space, misfits

__all__ = ["BEFORE_TRACING", "STATIC_CHECKS", "Shapes", "check_methods", "count_primitives", "trace_shapes"]

_PARTS = ("observation", "state", "reward", "terminated", "truncated", "info")


class Shapes:
    """The shapes and dtypes that `reset_env` and `step_env` return."""

    def __init__(self, env: Environment, params: Any) -> None:
        self.env, self.params = env, params
        self.num_agents = env.num_agents if isinstance(env, MultiAgentEnvironment) else None
        key = abstract_key()
        space = env.action_space(params)
        self.lead = () if self.num_agents is None else (self.num_agents,)
        self.action = jax.ShapeDtypeStruct((*self.lead, *space.shape), space.dtype)
        self.reset = jax.eval_shape(env.reset_env, key, params)
        self.obs, self.state = self.reset
        self.step = jax.eval_shape(env.step_env, key, self.state, self.action, params)
        self.param_names = [
            f"params{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
        ]

    def step_jaxpr(self) -> Any:
        """The traced program of `step_env`."""
        key = abstract_key()
        return jax.make_jaxpr(self.env.step_env)(key, self.state, self.action, self.params)

    def reset_jaxpr(self) -> Any:
        """The traced program of `reset_env`."""
        return jax.make_jaxpr(self.env.reset_env)(abstract_key(), self.params)


def check_methods(env: Environment) -> Iterator[Failure]:
    """Methods are methods, and take the arguments that they get."""
    for problem, advice in wrong_methods(env):
        yield Failure(problem, advice)


def check_agents(env: Environment, params: Any) -> Iterator[Failure]:
    """Agents have unique names, and each agent's space fits into the common one."""
    if not isinstance(env, MultiAgentEnvironment):
        return
    agents = env.agents
    if not isinstance(agents, tuple) or not agents or not all(isinstance(a, str) and a for a in agents):
        yield Failure(f"agents is {agents!r}.", "Make it a tuple of at least one name.")
        return
    if len(set(agents)) < len(agents):
        yield Failure(f"Two agents have the same name in {agents!r}.", "Number them, such as agent_0 and agent_1.")
    for name, numbers in (("teams", env.teams), ("roles", env.roles)):
        if len(numbers) != len(agents) or set(numbers) != set(range(max(numbers, default=0) + 1)):
            advice = "Give one number an agent, counted from 0 without gaps."
            yield Failure(f"{name} is {numbers!r} for {len(agents)} agents.", advice)
    pairs = [
        ("agent_observation_spaces", env.agent_observation_spaces, env.observation_space(params)),
        ("agent_action_spaces", env.agent_action_spaces, env.action_space(params)),
    ]
    for name, spaces, common in pairs:
        for problem, advice in misfits(name, spaces, agents, common):
            yield Failure(problem, advice)


def check_params(env: Environment, params: Any) -> Iterator[Failure]:
    """Parameters are 32-bit arrays, so that they can be vmapped and do not retrace."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        name = f"params{jax.tree_util.keystr(path)}"
        if not isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
            yield Failure(f"{name} is a Python {type(leaf).__name__}.", "Pass it through jaxrl.environment.as_arrays.")
        elif leaf.dtype in (np.float64, np.int64, np.uint64):
            yield Failure(f"{name} is {leaf.dtype}.", "Give it a 32-bit dtype, such as np.float32.")


def check_spaces(env: Environment, params: Any) -> Iterator[Failure]:
    """Both spaces are spaces, are not empty and contain their own samples."""
    for name, space in (
        ("observation_space", env.observation_space(params)),
        ("action_space", env.action_space(params)),
    ):
        if not isinstance(space, Space):
            problem = f"{name}() returned a {type(space).__name__}."
            yield Failure(problem, "Return a Discrete, MultiDiscrete or Box of jaxrl.spaces.")
            continue
        if 0 in space.shape:
            yield Failure(f"{name}() has the shape {list(space.shape)}, without a number.", "Give it at least one.")
        sample = space.sample(jax.random.key(0))
        if sample.shape != space.shape or sample.dtype != space.dtype or not bool(space.contains(sample)):
            yield Failure(f"{name}() does not contain its own sample {sample}.", "Check its bounds, shape and dtype.")


def check_entities(env: Environment, params: Any) -> Iterator[Failure]:
    """The declared `Entities` of observations fit the spaces."""
    misfit = env.entities and env.entities.misfit(env.observation_space(params), env.action_space(params))
    if misfit:
        yield Failure(misfit, "Change entities or the spaces; jaxrl.entities describes what they mean.")


def check_observation_type(shapes: Shapes) -> Iterator[Failure]:
    """Observations have the shape and dtype of the space, at reset and at every step."""
    space = shapes.env.observation_space(shapes.params)
    wanted = (*shapes.lead, *space.shape)
    for where, obs in (("reset_env", shapes.obs), ("step_env", shapes.step[0])):
        if not isinstance(obs, jax.ShapeDtypeStruct):
            kind = type(obs).__name__
            yield Failure(f"{where} returns an observation of type {kind}.", f"Return one array {list(wanted)}.")
        elif obs.shape != wanted:
            problem = f"{where} returns an observation of shape {list(obs.shape)}, the space promises {list(wanted)}."
            yield Failure(problem, "Change observation_space() or the observation.")
        elif obs.dtype != space.dtype:
            problem = f"{where} returns an observation of dtype {obs.dtype}, the space promises {space.dtype}."
            yield Failure(problem, f"Finish with .astype({space.dtype}) or change the dtype of the space.")


def check_state_type(shapes: Shapes) -> Iterator[Failure]:
    """The state has an array, and keeps its tree, shapes and dtypes, so that `lax.scan` can carry it."""
    before, after = shapes.state, shapes.step[1]
    if not jax.tree.leaves(before):
        advice = "Give it one, such as the number of steps: vmap tells by it how many environments there are."
        yield Failure("reset_env returns a state without an array.", advice)
        return
    if jax.tree.structure(before) != jax.tree.structure(after):
        problem = f"step_env returns a state of another tree than reset_env: {jax.tree.structure(after)}."
        yield Failure(problem, "Build the same dataclass or NamedTuple in both.")
        return
    leaves = jax.tree_util.tree_flatten_with_path(before)[0]
    for (path, x), y in zip(leaves, jax.tree.leaves(after), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            name = f"state{jax.tree_util.keystr(path)}"
            problem = f"{name} is {x.dtype}{list(x.shape)} after reset_env and {y.dtype}{list(y.shape)} after step_env."
            yield Failure(problem, "Give both the same shape and dtype.")


def check_reward_and_flags(shapes: Shapes) -> Iterator[Failure]:
    """Rewards are float32 (one per agent); terminated and truncated are one boolean each."""
    expected = (shapes.lead, np.float32), ((), np.bool_), ((), np.bool_)
    for name, part, (shape, dtype) in zip(_PARTS[2:5], shapes.step[2:5], expected, strict=True):
        if getattr(part, "shape", None) != shape or getattr(part, "dtype", None) != dtype:
            got = f"{part.dtype}{list(part.shape)}" if hasattr(part, "dtype") else type(part).__name__
            advice = f"Return {np.dtype(dtype).name}{list(shape)}."
            yield Failure(f"{name} is {got}.", advice)


def check_info(shapes: Shapes) -> Iterator[Failure]:
    """`info` is a dict of arrays."""
    info = shapes.step[5]
    if not isinstance(info, dict) or not all(isinstance(k, str) for k in info):
        yield Failure(
            f"info is a {type(info).__name__}.", "Return a dict with text keys; {} if there is nothing to tell."
        )
    elif "won" in info and (info["won"].shape, info["won"].dtype) != ((), np.bool_):
        yield Failure('info["won"] is not one boolean.', "It tells whether the episode was won; evaluation counts it.")


def check_weak_types(shapes: Shapes) -> Iterator[Failure]:
    """Nothing is weakly typed: that would compile the step twice."""
    for source, parts in (("reset_env", shapes.reset), ("step_env", shapes.step)):
        for name, part in zip(_PARTS, parts, strict=False):
            for path, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
                if leaf.weak_type:
                    problem = f"{name}{jax.tree_util.keystr(path)} of {source} is weakly typed, so jit compiles twice."
                    yield Failure(problem, "Give its dtype, such as jnp.float32(0) or jnp.zeros((), jnp.float32).")


def check_wide_types(shapes: Shapes) -> Iterator[Failure]:
    """Nothing becomes 64-bit when a user sets `jax_enable_x64`."""
    advice = "Give the dtype where arrays are made or drawn, such as jax.random.uniform(key, shape, jnp.float32)."
    with jax.enable_x64(True):
        try:
            wide = Shapes(shapes.env, shapes.params)
        except (TypeError, ValueError) as error:
            yield Failure(f"With jax_enable_x64 it cannot be traced: {first_line(error)}.", advice)
            return
        widened = [
            f"{name}{jax.tree_util.keystr(path)} of {source}"
            for source, parts in (("reset_env", wide.reset), ("step_env", wide.step))
            for name, part in zip(_PARTS, parts, strict=False)
            for path, leaf in jax.tree_util.tree_flatten_with_path(part)[0]
            if leaf.dtype in (np.float64, np.int64, np.uint64)
        ]
    if widened:
        yield Failure(f"With jax_enable_x64 these have 64 bits: {', '.join(widened[:4])}.", advice)


def check_pure(shapes: Shapes) -> Iterator[Failure]:
    """Tracing twice gives the same program: no counters, no Python randomness, nothing stored on the instance."""
    first, second = shapes.step_jaxpr(), shapes.step_jaxpr()
    consts = [np.asarray(c) for c in first.consts], [np.asarray(c) for c in second.consts]
    same = len(consts[0]) == len(consts[1]) and all(map(np.array_equal, *consts))
    if not same or _text(first) != _text(second):
        problem = "Tracing step_env twice gives two programs: it depends on something besides its arguments."
        yield Failure(problem, "Keep everything that changes in the state, and draw with jax.random from the key.")
    for name, value in vars(shapes.env).items():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
            yield Failure(f"It keeps a traced value in self.{name}.", "Return it in the state instead.")
    for name in ("pure_callback", "io_callback"):
        if count_primitives(first.jaxpr, name):
            yield Failure(f"step_env calls back to Python ({name}).", "Compute it with jax.numpy.")


def check_key_use(shapes: Shapes) -> Iterator[Failure]:
    """All random draws use the given key."""
    for name, jaxpr in (("reset_env", shapes.reset_jaxpr().jaxpr), ("step_env", shapes.step_jaxpr().jaxpr)):
        given = jaxpr.invars[0]
        used = any(given is operand for eqn in jaxpr.eqns for operand in eqn.invars)
        if not used and count_primitives(jaxpr, "random_bits"):
            yield Failure(f"{name} draws, but not from the given key.", "Draw from key, or from parts of it.")


def check_views_type(shapes: Shapes) -> Iterator[Failure]:
    """Masks and the global state have the promised shapes and dtypes."""
    env, params = shapes.env, shapes.params
    views: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {}
    space = env.action_space(params)
    if isinstance(space, Discrete):
        views["action_mask"] = env.action_mask, (*shapes.lead, space.n)
    if isinstance(env, MultiAgentEnvironment):
        views["agent_mask"] = env.agent_mask, shapes.lead
    for name, (view, shape) in views.items():
        got = jax.eval_shape(view, shapes.state, params)
        if (got.shape, got.dtype) != (shape, np.bool_):
            problem = f"{name} is {got.dtype}{list(got.shape)}."
            yield Failure(problem, f"Return bool{list(shape)}.")
    if env.has_global_state:
        got = jax.eval_shape(env.global_state, shapes.state, params)
        if len(got.shape) != 1 or got.dtype != np.float32:
            yield Failure(f"global_state is {got.dtype}{list(got.shape)}.", "Return one vector, float32[G].")
        misfit = env.state_entities and env.state_entities.misfit(Box(-np.inf, np.inf, got.shape), Discrete(1))
        if misfit:
            yield Failure(misfit, "Change state_entities or global_state; jaxrl.entities describes what they mean.")


BEFORE_TRACING = (check_agents, check_params, check_spaces, check_entities)
STATIC_CHECKS = (
    check_observation_type,
    check_state_type,
    check_reward_and_flags,
    check_info,
    check_weak_types,
    check_wide_types,
    check_pure,
    check_key_use,
    check_views_type,
)


def trace_shapes(env: Environment, params: Any) -> Shapes | Failure:
    """The shapes, or the reason why tracing fails."""
    try:
        shapes = Shapes(env, params)
    except jax.errors.JAXTypeError as error:  # tracer leaks, Python control flow on traced values
        problem = f"It cannot be traced by jax.jit: {first_line(error)}"
        return Failure(problem, "Use jnp.where or jax.lax.cond instead of Python's if, and no NumPy on traced values.")
    except Exception as error:  # whatever an author's code raises is a finding
        problem = f"reset_env or step_env raises {type(error).__name__}: {first_line(error)}."
        return Failure(problem, "Call them once by hand to see where.")
    if not isinstance(shapes.step, tuple) or len(shapes.step) != len(_PARTS):
        return Failure("step_env does not return six values.", f"Return ({', '.join(_PARTS)}).")
    return shapes


def count_primitives(jaxpr: Any, name: str) -> int:
    """How often a primitive occurs in a program, including its inner programs."""
    total = 0
    for eqn in jaxpr.eqns:
        total += eqn.primitive.name == name
        for inner in jax.tree.leaves(eqn.params, is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                total += count_primitives(getattr(inner, "jaxpr", inner), name)
    return total


def _is_jaxpr(x: Any) -> bool:
    return hasattr(x, "eqns")


def _text(jaxpr: Any) -> str:
    return re.sub(r"0x[0-9a-f]+", "", str(jaxpr))
