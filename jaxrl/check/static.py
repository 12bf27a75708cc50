"""Promises checked without running anything: spaces, shapes, dtypes, trees, purity. Needs tracing, no compilation.

The message of a failed check and the comparison of two trees, which the other checks use as well, stand at the top.
"""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.core
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from jaxrl.check.quick import wrong_methods
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.keys import abstract_key
from jaxrl.spaces import Box, Discrete, Space, misfits

__all__ = [
    "BEFORE_TRACING",
    "STATIC_CHECKS",
    "ContractError",
    "Failure",
    "Shapes",
    "at_index",
    "check_methods",
    "check_name",
    "count_primitives",
    "differences",
    "first_line",
    "listed",
    "to_numpy",
    "trace_shapes",
]


class Failure(NamedTuple):
    """One broken promise."""

    problem: str
    """The problem, in one sentence."""
    advice: str
    """The remedy, in one sentence."""
    check: str = ""
    """The name of the check that found it."""


class ContractError(ValueError):
    """An environment breaks the contract; `failures` lists every broken promise that was found."""

    def __init__(self, name: str, failures: list[Failure]) -> None:
        self.failures = failures
        lines = [f"- {f.check}: {f.problem} {f.advice}" for f in failures]
        count = f"{len(failures)} promise{'s' if len(failures) > 1 else ''}"
        super().__init__("\n".join([f"The environment {name!r} breaks {count} of the environment contract:", *lines]))


def check_name(check: Callable[..., Any]) -> str:
    """The name of a check in reports."""
    return getattr(check, "__name__", "check").removeprefix("check_")


def at_index(tree: Any, index: int) -> Any:
    """The tree's leaves at one index of their leading axis, on the host if they are there."""
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree)):
        return _on_device(tree, np.int32(index))  # as one program, not one a shape
    return _leaves_at(tree, index)


def _leaves_at(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


_on_device = jax.jit(_leaves_at)


def to_numpy(tree: Any) -> Any:
    """The tree on the host; typed keys become their bits."""

    def convert(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(convert, tree)


def differences(a: Any, b: Any, *, exact: bool = False) -> list[str]:
    """The names of the leaves that differ between two trees (of NumPy arrays); NaN equals NaN.

    Unless `exact`, floats may differ by rounding, since XLA orders sums differently from program to program.
    """
    leaves_a, tree_a = jax.tree_util.tree_flatten_with_path(a)
    leaves_b, tree_b = jax.tree_util.tree_flatten_with_path(b)
    if tree_a != tree_b:
        return [f"the tree itself ({tree_a} and {tree_b})"]
    return [
        jax.tree_util.keystr(path) or "the value"
        for (path, x), (_, y) in zip(leaves_a, leaves_b, strict=True)
        if not _same(np.asarray(x), np.asarray(y), exact)
    ]


def _same(x: np.ndarray, y: np.ndarray, exact: bool) -> bool:
    if x.shape != y.shape:
        return False
    if not np.issubdtype(x.dtype, np.inexact):
        return np.array_equal(x, y)
    if exact:
        return np.array_equal(x, y, equal_nan=True)
    return np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True)


def listed(names: list[str]) -> str:
    """The first three names, and the number of further ones."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def first_line(error: Exception) -> str:
    """The first line of an error's message without its full stop, or the error's type if it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


_WIDE = (np.float64, np.int64, np.uint64)
_NOT_OWN = tuple(
    str(Path(file).parent) for file in (jax.__file__, np.__file__, __file__)
)  # whose code is not the author's
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
        self.edited = jax.eval_shape(env.mutate, key, self.state, params) if env.has_mutate else self.state
        self.methods = ("reset_env", "step_env", "mutate")[: 2 + env.has_mutate]
        self.param_names = [
            f"params{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
        ]

    def jaxpr(self, method: str) -> Any:
        """The traced program of one of the `methods`."""
        given = {"reset_env": (), "step_env": (self.state, self.action), "mutate": (self.state,)}[method]
        return jax.make_jaxpr(getattr(self.env, method))(abstract_key(), *given, self.params)


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
        elif leaf.dtype in _WIDE:
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
    if not jax.tree.leaves(shapes.state):
        advice = "Give it one, such as the number of steps: vmap tells by it how many environments there are."
        yield Failure("reset_env returns a state without an array.", advice)
        return
    yield from _other_form(shapes.state, shapes.step[1], "step_env")
    yield from _other_form(shapes.state, shapes.edited, "mutate")


def _other_form(before: Any, after: Any, source: str) -> Iterator[Failure]:
    """What differs in tree, shapes or dtypes between the state of `reset_env` and that of `source`."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        problem = f"{source} returns a state of another tree than reset_env: {jax.tree.structure(after)}."
        yield Failure(problem, "Build the same dataclass or NamedTuple in both.")
        return
    leaves = jax.tree_util.tree_flatten_with_path(before)[0]
    for (path, x), y in zip(leaves, jax.tree.leaves(after), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            name = f"state{jax.tree_util.keystr(path)}"
            problem = f"{name} is {x.dtype}{list(x.shape)} after reset_env and {y.dtype}{list(y.shape)} after {source}."
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
    elif isinstance(shapes.env, MultiAgentEnvironment):
        for name in shapes.env.agent_info:
            leaves = jax.tree.leaves(info.get(name))
            if not leaves or any(leaf.shape[:1] != shapes.lead for leaf in leaves):
                problem = f"info[{name!r}] has no axis of {shapes.num_agents} agents, but agent_info names it."
                yield Failure(problem, "Give it that axis, or leave it out of agent_info.")


def check_weak_types(shapes: Shapes) -> Iterator[Failure]:
    """Nothing is weakly typed: that would compile the step twice."""
    for source, parts in (("reset_env", shapes.reset), ("step_env", shapes.step)):
        for name, path, leaf in _named(parts):
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
            frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
            where = _in_own_code(frames[::-1])
            yield Failure(f"With jax_enable_x64 it cannot be traced: {first_line(error)}{where}.", advice)
            return
        widened = [
            (f"{name}{jax.tree_util.keystr(path)} of {source}", _where_wide(traced, result))
            for source, parts, traced in (
                ("reset_env", wide.reset, wide.jaxpr("reset_env").jaxpr),
                ("step_env", wide.step, wide.jaxpr("step_env").jaxpr),
            )
            for (name, path, leaf), result in zip(_named(parts), traced.outvars, strict=True)
            if leaf.dtype in _WIDE
        ]
    if widened:
        names, places = zip(*widened, strict=True)
        where = next(filter(None, places), "")
        yield Failure(f"With jax_enable_x64 these have 64 bits: {', '.join(names[:4])}{where}.", advice)


def _named(parts: Any) -> Iterator[tuple[str, Any, Any]]:
    """`(part, path, leaf)` of all that a reset or a step returns."""
    for name, part in zip(_PARTS, parts, strict=False):
        for path, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
            yield name, path, leaf


def _where_wide(jaxpr: Jaxpr, var: Any) -> str:
    """The line at which a result gets its 64 bits, going back from it; nothing if it comes in with them."""
    makers = {made: eqn for eqn in jaxpr.eqns for made in eqn.outvars}
    eqn = None
    while not isinstance(var, Literal) and var in makers:
        eqn = makers[var]
        var = next((each for each in _wide_operands(eqn) if not _is_widening(makers.get(each))), None)
    frames = eqn.source_info.traceback.frames if eqn and eqn.source_info.traceback else ()
    return _in_own_code([(frame.file_name, frame.line_num) for frame in frames])


def _wide_operands(eqn: JaxprEqn) -> list[Any]:
    operands: list[Any] = [operand for operand in eqn.invars if not isinstance(operand, Literal)]
    return [each for each in operands if each.aval.dtype in _WIDE and not each.aval.weak_type]


def _is_widening(eqn: JaxprEqn | None) -> bool:
    """True if an equation only gives a narrow operand the 64 bits of the one beside it."""
    return eqn is not None and eqn.primitive.name == "convert_element_type" and not _wide_operands(eqn)


def _in_own_code(frames: Sequence[tuple[str, int | None]]) -> str:
    """The first of these frames, from the innermost outwards, that belongs to neither JAX nor the checks."""
    for file, line in frames:
        if line is not None and not file.startswith(_NOT_OWN):
            return f", at {Path(file).name}:{line}: {linecache.getline(file, line).strip()}"
    return ""


def check_pure(shapes: Shapes) -> Iterator[Failure]:
    """Tracing twice gives the same program: no counters, no Python randomness, nothing stored on the instance."""
    for method in shapes.methods[1:]:
        first, second = shapes.jaxpr(method), shapes.jaxpr(method)
        consts = [np.asarray(c) for c in first.consts], [np.asarray(c) for c in second.consts]
        same = len(consts[0]) == len(consts[1]) and all(map(np.array_equal, *consts))
        if not same or _text(first) != _text(second):
            problem = f"Tracing {method} twice gives two programs: it depends on something besides its arguments."
            yield Failure(problem, "Keep everything that changes in the state, and draw with jax.random from the key.")
        for name in ("pure_callback", "io_callback"):
            if count_primitives(first.jaxpr, name):
                yield Failure(f"{method} calls back to Python ({name}).", "Compute it with jax.numpy.")
    for name, value in vars(shapes.env).items():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
            yield Failure(f"It keeps a traced value in self.{name}.", "Return it in the state instead.")


def check_key_use(shapes: Shapes) -> Iterator[Failure]:
    """All random draws use the given key."""
    for name in shapes.methods:
        jaxpr = shapes.jaxpr(name).jaxpr
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
    """The shapes, or the reason why the reset and the step cannot be traced by `jax.jit`."""
    try:
        shapes = Shapes(env, params)
    except jax.errors.JAXTypeError as error:  # tracer leaks, Python control flow on traced values
        problem = f"It cannot be traced by jax.jit: {first_line(error)}"
        return Failure(problem, "Use jnp.where or jax.lax.cond instead of Python's if, and no NumPy on traced values.")
    except Exception as error:  # whatever an author's code raises is a finding
        either = "reset_env, step_env or mutate" if env.has_mutate else "reset_env or step_env"
        problem = f"{either} raises {type(error).__name__}: {first_line(error)}."
        return Failure(problem, "Call them once by hand to see where.")
    if not isinstance(shapes.step, tuple) or len(shapes.step) != len(_PARTS):
        return Failure("step_env does not return six values.", f"Return ({', '.join(_PARTS)}).")
    return shapes


def count_primitives(jaxpr: Any, name: str) -> int:
    """The number of times that a primitive occurs in a program, including its inner programs."""
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
