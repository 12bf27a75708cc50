"""A policy as a Python module that needs NumPy alone: what its function computes, step by step, and its parameters.

JAX traces the function into simple operations (`jaxrl.deploy.program`); each becomes a line of NumPy.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import re
import textwrap
from typing import Any

import jax
import numpy as np

from jaxrl.deploy.inference import Inference
from jaxrl.deploy.numpy_steps import PASSED_ON, expression, literal, shape_text
from jaxrl.deploy.program import Program, Value, trace

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
    action_mask = np.broadcast_to(True if action_mask is None else action_mask, {shape}).astype(bool)
"""


def numpy_module(inference: Inference) -> str:
    """The source of the module.

    Raises:
        NotImplementedError: NumPy has no counterpart of an operation, or of a parameter's dtype.
    """
    program = trace(inference.function, inference.params, *inference.arguments.values())
    names, weights = _named_inputs(inference, program)
    body = _body(program, names, weights)
    outputs = [names[value] for value in program.outputs]
    arguments, memory = inference.arguments, inference.has_memory
    given, obs = ", ".join(arguments), arguments["obs"]
    preparation = ""
    if memory:
        zeros = (f'np.zeros({shape_text(leaf.shape)}, "{leaf.dtype}"),' for leaf in arguments["carry"])
        preparation += _MEMORY.format(zeros=" ".join(zeros))
    if "action_mask" in arguments:
        preparation += _MASK.format(shape=shape_text(arguments["action_mask"].shape))
    alone = "(action[0], tuple(leaf[0] for leaf in carry))" if memory else "action[0]"
    return _MODULE.format(
        env=re.sub(r"[^\w/:.?=&-]", " ", inference.env),  # it may be anybody's, and this becomes code
        signature=given.replace("carry, reset", "carry=None, reset=None").replace("action_mask", "action_mask=None"),
        summary=_summary(inference),
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


def _summary(inference: Inference) -> str:
    """The first line of `act`'s docstring."""
    obs = inference.arguments["obs"]
    own = ", ".join(str(size) for size in obs.shape[1:])
    returns = "the action, and the carry for the next call" if inference.has_memory else "the action"
    return f"For `obs[{own}]`, or a batch `obs[{', '.join(map(str, obs.shape))}]`: {returns}."


def _named_inputs(inference: Inference, program: Program) -> tuple[dict[Value, str], dict[str, np.ndarray]]:
    """What the inputs of the program are called, and those of them that are parameters."""
    paths, leaves = zip(*jax.tree_util.tree_flatten_with_path(inference.params)[0], strict=True)
    own = [jax.tree_util.keystr(path, simple=True, separator="/") for path in paths]
    weights = {name: np.asarray(leaf) for name, leaf in zip(own, leaves, strict=True)}
    names = [f"W[{json.dumps(name)}]" for name in own]
    for name, argument in inference.arguments.items():
        names += [f"carry[{i}]" for i in range(len(argument))] if name == "carry" else [name]
    return dict(zip(program.inputs, names, strict=True)), weights


def _body(program: Program, names: dict[Value, str], weights: dict[str, np.ndarray]) -> list[str]:
    """The steps as lines; `names` and `weights` grow."""

    def name_of(value: Value) -> str:
        if value not in names and value.shape == ():
            return literal(value.constant)
        if value not in names:
            name = f"constant{len(weights)}"
            weights[name], names[value] = np.asarray(value.constant), f'W["{name}"]'
        return names[value]

    lines, numbers = [], itertools.count()
    for step in program.steps:
        args = [name_of(value) for value in step.args]
        if step.op in PASSED_ON:
            names.update(zip(step.results, args, strict=True))
            continue
        for value in step.results:
            names[value] = f"v{next(numbers)}"
        lines.append(f"{', '.join(names[value] for value in step.results)} = {expression(step, args)}")
    for value in program.outputs:
        names[value] = name_of(value)
    return lines


def _packed(weights: dict[str, np.ndarray]) -> str:
    """The arrays as the text of a .npz file.

    Raises:
        NotImplementedError: NumPy lacks a dtype.
    """
    for name, array in weights.items():
        if array.dtype.kind not in "biufc":
            raise NotImplementedError(f"NumPy has no {array.dtype}, as {name} is; export to .stablehlo instead.")
    file = io.BytesIO()
    kept: dict[str, Any] = weights
    np.savez(file, **kept)
    return "\n".join(textwrap.wrap(base64.b64encode(file.getvalue()).decode(), 120))
