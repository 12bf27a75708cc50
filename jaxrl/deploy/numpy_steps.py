"""One step of a program as an expression of NumPy."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jaxrl.deploy.program import Step

__all__ = ["PASSED_ON", "expression", "literal", "shape_text"]

PASSED_ON = ("copy", "copy_p", "optimization_barrier", "stop_gradient")
"""Steps whose results are their arguments."""

_FUNCTIONS = {  # JAX's name -> NumPy's, of functions of one element or two
    **{name: name for name in ("exp", "exp2", "expm1", "log", "log1p", "sqrt", "cbrt", "square", "abs", "sign")},
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "real", "imag", "conj")},
    **{"add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "max": "maximum", "min": "minimum"},
    **{"pow": "power", "rem": "fmod", "atan2": "arctan2", "neg": "negative", "is_finite": "isfinite"},
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "invert"},
}
_REDUCTIONS = {"reduce_max": "max", "reduce_min": "min", "reduce_and": "all", "reduce_or": "any"}
_SUMS = {"reduce_sum": "sum", "reduce_prod": "prod"}


def expression(step: Step, args: list[str]) -> str:
    """What NumPy computes for a step, a tuple if it has several results.

    Args:
        step: The step.
        args: The names of its arguments.

    Raises:
        NotImplementedError: NumPy has no counterpart.
    """
    op, params = step.op, step.params
    if op in _FUNCTIONS:
        return f"np.{_FUNCTIONS[op]}({', '.join(args)})"
    if op in _REDUCTIONS:
        return f"np.{_REDUCTIONS[op]}({args[0]}, axis={tuple(params['axes'])})"
    if op in _SUMS:
        return f'np.{_SUMS[op]}({args[0]}, axis={tuple(params["axes"])}, dtype="{step.results[0].dtype}")'
    if op in _OTHERS:
        return _OTHERS[op](step, args)
    raise _no_counterpart(step)


def shape_text(shape: Iterable[Any]) -> str:
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


def literal(value: Any) -> str:
    """A scalar, such as `np.float32(0.5)`."""
    value = np.asarray(value)[()]
    text = repr(value.item())
    return f"np.{value.dtype.name.replace('bool', 'bool_')}({text if np.isfinite(value) else repr(text)})"


def _no_counterpart(step: Step) -> NotImplementedError:
    return NotImplementedError(
        f"NumPy has no counterpart of the operation {step.op} in this policy; export to .stablehlo instead."
    )


def _reshape(step: Step, args: list[str]) -> str:
    return f"np.reshape({args[0]}, {shape_text(step.results[0].shape)})"


def _broadcast(step: Step, args: list[str]) -> str:
    """`broadcast_dimensions` tells which axes of the result are those of the argument."""
    shape, own = step.results[0].shape, step.args[0].shape
    aligned: list[Any] = [1] * len(shape)
    for axis, size in zip(step.params["broadcast_dimensions"], own, strict=True):
        aligned[axis] = size
    x = args[0] if not own or tuple(aligned) == tuple(own) else f"np.reshape({args[0]}, {shape_text(aligned)})"
    return x if own and tuple(aligned) == tuple(shape) else f"np.broadcast_to({x}, {shape_text(shape)})"


def _divide(step: Step, args: list[str]) -> str:
    if step.results[0].dtype.kind not in "fc":  # JAX rounds towards zero
        raise _no_counterpart(step)
    return f"np.divide({args[0]}, {args[1]})"


def _select(step: Step, args: list[str]) -> str:
    if len(args) != 3 or step.args[0].dtype != bool:
        raise _no_counterpart(step)
    which, if_false, if_true = args
    return f"np.where({which}, {if_true}, {if_false})"


def _round(step: Step, args: list[str]) -> str:
    if step.params["rounding_method"].name != "TO_NEAREST_EVEN":
        raise _no_counterpart(step)
    return f"np.rint({args[0]})"


def _slice(step: Step, args: list[str]) -> str:
    p = step.params
    strides = p["strides"] or [1] * len(p["start_indices"])
    parts = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return f"{args[0]}[{', '.join(':'.join(str(number) for number in part) for part in parts)}]"


def _split(step: Step, args: list[str]) -> str:
    return f"np.split({args[0]}, {np.cumsum(step.params['sizes'])[:-1].tolist()}, axis={step.params['axis']})"


def _pad(step: Step, args: list[str]) -> str:
    config = step.params["padding_config"]
    if any(low < 0 or high < 0 or interior for low, high, interior in config):
        raise _no_counterpart(step)
    return f"np.pad({args[0]}, {[(low, high) for low, high, _ in config]}, constant_values={args[1]})"


def _arg(name: str) -> Callable[[Step, list[str]], str]:
    return lambda step, args: f'np.{name}({args[0]}, axis={step.params["axes"][0]}).astype("{step.results[0].dtype}")'


def _iota(step: Step, args: list[str]) -> str:
    shape, axis = step.params["shape"], step.params["dimension"]
    along = [size if number == axis else 1 for number, size in enumerate(shape)]
    numbers = f'np.arange({shape_text([shape[axis]])[1:-2]}, dtype="{step.results[0].dtype}")'
    return f"np.broadcast_to(np.reshape({numbers}, {shape_text(along)}), {shape_text(shape)})"


def _cumsum(step: Step, args: list[str]) -> str:
    if step.params["reverse"]:
        raise _no_counterpart(step)
    return f'np.cumsum({args[0]}, axis={step.params["axis"]}, dtype="{step.results[0].dtype}")'


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
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "broadcast_in_dim": _broadcast,
    "clamp": lambda step, args: f"np.minimum(np.maximum({args[1]}, {args[0]}), {args[2]})",
    "complex": lambda step, args: f'({args[0]} + 1j * {args[1]}).astype("{step.results[0].dtype}")',
    "concatenate": lambda step, args: f"np.concatenate(({', '.join(args)},), axis={step.params['dimension']})",
    "convert_element_type": lambda step, args: f'{args[0]}.astype("{step.results[0].dtype}")',
    "cumsum": _cumsum,
    "div": _divide,
    "dot_general": _product,
    "expand_dims": _reshape,
    "gather": _gather,
    "integer_pow": lambda step, args: f"np.power({args[0]}, {step.params['y']})",
    "iota": _iota,
    "logistic": lambda step, args: f"1 / (1 + np.exp(-{args[0]}))",
    "pad": _pad,
    "reshape": _reshape,
    "rev": lambda step, args: f"np.flip({args[0]}, axis={tuple(step.params['dimensions'])})",
    "round": _round,
    "rsqrt": lambda step, args: f"1 / np.sqrt({args[0]})",
    "select_n": _select,
    "slice": _slice,
    "split": _split,
    "squeeze": _reshape,
    "stack": lambda step, args: f"np.stack(({', '.join(args)},), axis={step.params['axis']})",
    "transpose": lambda step, args: f"np.transpose({args[0]}, {tuple(step.params['permutation'])})",
}
