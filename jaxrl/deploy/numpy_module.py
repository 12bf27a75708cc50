"""A policy of dense layers, GRU or LSTM as a Python module that needs NumPy alone.

JAX traces the policy into simple operations; each becomes a line of NumPy. Other networks have operations that NumPy
lacks, or that take more than a line.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import re
import string
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from jaxrl.deploy.needed import Program, Step, Value, trace

__all__ = ["numpy_module"]

_MODULE = '''\
"""A greedy policy for {env}, in NumPy alone. `act` chooses actions; W holds the parameters. Written by jaxrl."""

import base64
import io

import numpy as np


def act({signature}):
    """{summary}"""
    obs = np.asarray(obs, "{dtype}")
    alone = obs.ndim == {ndim}
    if alone:
        obs = obs[None]
    b = len(obs)
{preparation}    with np.errstate(all="ignore"):
        {results} = _network({given})
    return {returned}


def _network({given}):
    b = len(obs)
{body}
    return {outputs}


W = """
{weights}
"""
W = dict(np.load(io.BytesIO(base64.b64decode(W))))
'''
_MEMORY = """\
    if carry is None:  # `reset` clears it
        carry, reset = ({zeros}), True
    elif alone:
        carry = tuple(leaf[None] for leaf in carry)
    reset = np.broadcast_to(False if reset is None else reset, (b,))
"""
_MASK = """\
    if action_mask is None:
        raise ValueError("The policy was trained with masks of its actions: give action_mask, True where possible.")
    action_mask = np.broadcast_to(action_mask, {shape}).astype(bool)
"""


def numpy_module(
    env: str, function: Callable[..., Any], params: Mapping[str, Any], arguments: Mapping[str, Any]
) -> str:
    """The source of the module.

    Args:
        env: The name of the environment.
        function: `function(params, obs[, carry, reset][, action_mask])`, see `Policy.export`.
        params: Nested dicts of arrays.
        arguments: Shapes and dtypes of what the function takes besides, in its order; `carry` is a tuple.

    Raises:
        NotImplementedError: NumPy has no counterpart of an operation, or of a parameter's dtype.
    """
    program = trace(function, params, *arguments.values())
    names, weights = _named_inputs(params, arguments, program)
    body = _body(program, names, weights)
    outputs = [names[value] for value in program.outputs]
    memory, given, obs = "carry" in arguments, ", ".join(arguments), arguments["obs"]
    preparation = ""
    if memory:
        zeros = (f'np.zeros({_shape_text(leaf.shape)}, "{leaf.dtype}"),' for leaf in arguments["carry"])
        preparation += _MEMORY.format(zeros=" ".join(zeros))
    if "action_mask" in arguments:
        preparation += _MASK.format(shape=_shape_text(arguments["action_mask"].shape))
    alone = "(action[0], tuple(leaf[0] for leaf in carry))" if memory else "action[0]"
    return _MODULE.format(
        env=re.sub(r"[^\w/:.?=&-]", " ", env),  # it may be anybody's, and this becomes code
        signature=given.replace("carry, reset", "carry=None, reset=None").replace("action_mask", "action_mask=None"),
        summary=_summary(obs.shape, memory),
        dtype=obs.dtype,
        ndim=len(obs.shape) - 1,
        preparation=preparation,
        given=given,
        results="action, carry" if memory else "action",
        returned=f"{alone} if alone else {'(action, carry)' if memory else 'action'}",
        body=textwrap.indent("\n".join(body), "    "),
        outputs=f"{outputs[0]}, ({', '.join(outputs[1:])},)" if memory else outputs[0],
        weights=_packed(weights),
    )


def _summary(shape: tuple[Any, ...], memory: bool) -> str:
    """The first line of `act`'s docstring."""
    returns = "the action, and the carry for the next call" if memory else "the action"
    return f"For `obs[{', '.join(map(str, shape[1:]))}]`, or a batch `obs[{', '.join(map(str, shape))}]`: {returns}."


def _named_inputs(
    params: Mapping[str, Any], arguments: Mapping[str, Any], program: Program
) -> tuple[dict[Value, str], dict[str, np.ndarray]]:
    """The names of the program's inputs, and those of them that are parameters."""
    paths, leaves = zip(*jax.tree_util.tree_flatten_with_path(params)[0], strict=True)
    own = [jax.tree_util.keystr(path, simple=True, separator="/") for path in paths]
    weights = {name: np.asarray(leaf) for name, leaf in zip(own, leaves, strict=True)}
    names = [f"W[{json.dumps(name)}]" for name in own]
    for name, argument in arguments.items():
        names += [f"carry[{i}]" for i in range(len(argument))] if name == "carry" else [name]
    return dict(zip(program.inputs, names, strict=True)), weights


def _body(program: Program, names: dict[Value, str], weights: dict[str, np.ndarray]) -> list[str]:
    """The steps as lines; `names` and `weights` grow."""

    def name_of(value: Value) -> str:
        if value not in names and value.shape == ():
            return _literal(value.constant)
        if value not in names:
            name = f"constant{len(weights)}"
            weights[name], names[value] = np.asarray(value.constant), f'W["{name}"]'
        return names[value]

    lines, numbers = [], itertools.count()
    for step in program.steps:
        args = [name_of(value) for value in step.args]
        if step.op in _PASSED_ON:
            names.update(zip(step.results, args, strict=True))
            continue
        for value in step.results:
            names[value] = f"v{next(numbers)}"
        lines.append(f"{', '.join(names[value] for value in step.results)} = {_expression(step, args)}")
    for value in program.outputs:
        names[value] = name_of(value)
    return lines


def _packed(weights: dict[str, np.ndarray]) -> str:
    """The arrays as the text of a .npz file.

    Raises:
        NotImplementedError: NumPy lacks a dtype.
    """
    for name, array in weights.items():
        if array.dtype.kind not in "biuf":
            raise NotImplementedError(f"NumPy has no {array.dtype}, as {name} is; export to .stablehlo instead.")
    file = io.BytesIO()
    kept: dict[str, Any] = weights
    np.savez(file, **kept)
    return "\n".join(textwrap.wrap(base64.b64encode(file.getvalue()).decode(), 120))


_PASSED_ON = ("copy", "copy_p", "optimization_barrier", "stop_gradient")
"""Steps whose results are their arguments."""

_FUNCTIONS = {  # JAX's name -> NumPy's, of functions of one element or two
    **{name: name for name in ("exp", "log", "sqrt", "square", "abs", "tanh")},
    **{"add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "max": "maximum", "min": "minimum"},
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"and": "bitwise_and", "or": "bitwise_or", "not": "invert", "neg": "negative"},
}
_REDUCTIONS = {"reduce_max": "max", "reduce_min": "min", "reduce_and": "all", "reduce_or": "any"}


def _expression(step: Step, args: list[str]) -> str:
    """The expression of NumPy for a step, a tuple if it has several results.

    Args:
        step: The step.
        args: The names of its arguments.

    Raises:
        NotImplementedError: It is of another network than those of dense layers, GRU and LSTM.
    """
    op, params, (first, *_) = step.op, step.params, args
    dtype = step.results[0].dtype
    if op in _FUNCTIONS:
        return f"np.{_FUNCTIONS[op]}({', '.join(args)})"
    if op in _REDUCTIONS:
        return f"np.{_REDUCTIONS[op]}({first}, axis={tuple(params['axes'])})"
    if op in ("reshape", "squeeze", "expand_dims"):
        return f"np.reshape({first}, {_shape_text(step.results[0].shape)})"
    if op == "div" and dtype.kind == "f":  # of whole numbers, JAX rounds towards zero
        return f"np.divide({first}, {args[1]})"
    if op == "select_n" and len(args) == 3 and step.args[0].dtype == bool:
        return f"np.where({first}, {args[2]}, {args[1]})"
    if op in _OTHERS:
        return _OTHERS[op](step, args)
    raise _no_counterpart(step)


def _no_counterpart(step: Step) -> NotImplementedError:
    return NotImplementedError(
        f"A .py file holds networks of dense layers, GRU and LSTM, without the operation {step.op} of this policy; "
        f"export to .stablehlo instead."
    )


def _shape_text(shape: Iterable[Any]) -> str:
    """A shape such as `(1, b, 64)`, where `b` is the size of the batch.

    Raises:
        NotImplementedError: A size depends on `b` in a way that NumPy cannot compute.
    """
    sizes = [str(size) for size in shape]
    for size in sizes:
        if not re.fullmatch(r"[\db+* -]+", size):
            raise NotImplementedError(
                f"NumPy cannot compute the size {size} of an array; export to .stablehlo instead."
            )
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _literal(value: Any) -> str:
    """A scalar, such as `np.float32(0.5)`."""
    value = np.asarray(value)[()]
    text = repr(value.item())
    return f"np.{value.dtype.name.replace('bool', 'bool_')}({text if np.isfinite(value) else repr(text)})"


def _broadcast(step: Step, args: list[str]) -> str:
    """`broadcast_dimensions` tells which axes of the result are those of the argument."""
    shape, own = step.results[0].shape, step.args[0].shape
    aligned: list[Any] = [1] * len(shape)
    for axis, size in zip(step.params["broadcast_dimensions"], own, strict=True):
        aligned[axis] = size
    x = args[0] if not own or tuple(aligned) == tuple(own) else f"np.reshape({args[0]}, {_shape_text(aligned)})"
    return x if own and tuple(aligned) == tuple(shape) else f"np.broadcast_to({x}, {_shape_text(shape)})"


def _slice(step: Step, args: list[str]) -> str:
    p = step.params
    strides = p["strides"] or [1] * len(p["start_indices"])
    parts = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return f"{args[0]}[{', '.join(':'.join(str(number) for number in part) for part in parts)}]"


def _product(step: Step, args: list[str]) -> str:
    """A matrix product `x @ y`, or with other axes an `einsum`: batch axes first, then those of x, then those of y."""
    (contract_x, contract_y), (batch_x, batch_y) = step.params["dimension_numbers"]
    dims_x, dims_y = (len(value.shape) for value in step.args)
    if (dims_x, dims_y, tuple(contract_x), tuple(contract_y)) == (2, 2, (1,), (0,)):
        return f"{args[0]} @ {args[1]}"
    letters = iter(string.ascii_letters)
    x, y = [next(letters) for _ in range(dims_x)], [next(letters) for _ in range(dims_y)]
    for i, j in (*zip(contract_x, contract_y, strict=True), *zip(batch_x, batch_y, strict=True)):
        y[j] = x[i]
    free_x = [x[i] for i in range(dims_x) if i not in (*contract_x, *batch_x)]
    free_y = [y[j] for j in range(dims_y) if j not in (*contract_y, *batch_y)]
    out = "".join([*(x[i] for i in batch_x), *free_x, *free_y])
    return f'np.einsum("{"".join(x)},{"".join(y)}->{out}", {args[0]}, {args[1]})'


def _gather(step: Step, args: list[str]) -> str:
    """Whole slices at indices along one axis, as in `x[:, 0]` or `x[indices]`; there are other kinds of gather."""
    numbers, operand, indices = step.params["dimension_numbers"], *step.args
    along = tuple(numbers.start_index_map)
    whole = [size for axis, size in enumerate(operand.shape) if axis not in along]
    taken = [size for axis, size in enumerate(step.params["slice_sizes"]) if axis not in along]
    one_axis = len(along) == 1 and tuple(numbers.collapsed_slice_dims) == along
    if not one_axis or numbers.operand_batching_dims or whole != taken or "FILL" in str(step.params["mode"]):
        raise _no_counterpart(step)
    count, (axis,) = len(indices.shape) - 1, along
    places = [i for i in range(len(step.results[0].shape)) if i not in numbers.offset_dims]
    took = f'np.take({args[0]}, {args[1]}[..., 0], axis={axis}, mode="clip")'
    now = list(range(axis, axis + count))
    return took if now == places else f"np.moveaxis({took}, {now}, {places})"


_OTHERS: dict[str, Callable[[Step, list[str]], str]] = {
    "argmax": lambda step, args: (
        f'np.argmax({args[0]}, axis={step.params["axes"][0]}).astype("{step.results[0].dtype}")'
    ),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda step, args: f"np.concatenate(({', '.join(args)},), axis={step.params['dimension']})",
    "convert_element_type": lambda step, args: f'{args[0]}.astype("{step.results[0].dtype}")',
    "dot_general": _product,
    "gather": _gather,
    "integer_pow": lambda step, args: f"np.power({args[0]}, {step.params['y']})",
    "logistic": lambda step, args: f"1 / (1 + np.exp(-{args[0]}))",
    "reduce_sum": lambda step, args: (
        f'np.sum({args[0]}, axis={tuple(step.params["axes"])}, dtype="{step.results[0].dtype}")'
    ),
    "rsqrt": lambda step, args: f"1 / np.sqrt({args[0]})",
    "slice": _slice,
    "split": lambda step, args: (
        f"np.split({args[0]}, {np.cumsum(step.params['sizes'])[:-1].tolist()}, axis={step.params['axis']})"
    ),
    "transpose": lambda step, args: f"np.transpose({args[0]}, {tuple(step.params['permutation'])})",
}
