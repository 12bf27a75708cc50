"""A gradient step, and optimisers that work on one vector of all parameters.

An optimiser gives the direction of a step; the learning rate gives its length. A kernel for one vector runs faster, and
compiles far faster, than one for each parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from jaxrl.display import kind_of
from jaxrl.rl.devices import pcast_varying, pmean
from jaxrl.rl.minibatch import in_parts

__all__ = ["OPTIMIZERS", "adam", "checked_loss", "gradient_of_parts", "gradient_step", "muon", "new_opt_state", "radam"]

_RMS = 0.2  # of an entry of Muon's steps, about that of Adam's: one learning rate serves both (Liu et al., section 2.2)

# Turns a vector of parameters into a tree.
Unravel = Callable[[jax.Array], Any]


def adam(as_params: Unravel) -> optax.GradientTransformation:
    """Adam (Kingma & Ba 2015, https://arxiv.org/abs/1412.6980)."""
    del as_params
    return optax.scale_by_adam(eps=1e-5)


def muon(as_params: Unravel) -> optax.GradientTransformation:
    """Muon (Jordan 2024, https://kellerjordan.github.io/posts/muon/) for hidden layers, Adam for everything else.

    A layer's momentum is replaced by the nearest orthogonal matrix, which steps equally far in all directions; its
    entries are scaled to a root mean square of 0.2 (Liu et al. 2025, https://arxiv.org/abs/2502.16982). Adam handles
    output layers, biases, convolutions and the like.
    """
    orthogonal = optax.contrib.scale_by_muon(weight_dimension_numbers=_axes)
    hidden = optax.chain(orthogonal, optax.stateless_with_tree_map(_scaled_by_shape))
    inner = optax.partition({"muon": hidden, "adam": optax.flatten(adam(as_params))}, _labels)

    def init(params: Any) -> Any:
        return jax.tree.map(_as_float32, inner.init(as_params(params)))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        step, state = inner.update(as_params(updates), state)
        return ravel_pytree(step)[0], state

    return optax.GradientTransformation(init, update)


def radam(as_params: Unravel) -> optax.GradientTransformation:
    """Rectified Adam (Liu et al. 2020, https://arxiv.org/abs/1908.03265): plain momentum until enough is known of the
    gradient's variance, after about five steps.
    """
    del as_params
    return optax.scale_by_radam(eps=1e-5)


OPTIMIZERS: dict[str, Callable[[Unravel], optax.GradientTransformation]] = {"adam": adam, "muon": muon, "radam": radam}


def new_opt_state(params: Any, optimizer: str) -> Any:
    """The optimiser's state before the first step."""
    flat, as_params = ravel_pytree(params)
    return OPTIMIZERS[optimizer](as_params).init(flat)


def gradient_step(
    loss: Callable[[Any, Any], tuple[jax.Array, dict[str, jax.Array]]],
    params: Any,
    opt_state: Any,
    minibatch: Any,
    optimizer: str,
    lr: Any,
    max_grad_norm: jax.Array | float,
    weight_decay: float = 0.0,
    num_parts: int = 1,
) -> tuple[Any, Any, dict[str, jax.Array]]:
    """One gradient step on a minibatch, over all devices: `(params, opt_state, losses)`.

    Args:
        loss: `loss(params, minibatch) -> (scalar, {name: scalar})`; the mean over devices counts.
        params: Parameters, the same on all devices.
        opt_state: The optimiser's state, initially from `new_opt_state`.
        minibatch: This device's share of the minibatch.
        optimizer: A name in `OPTIMIZERS`.
        lr: Learning rate; or one for each entry along the leaves' first axis, `[P]`; or a tree with one of these for
            each part of the parameters.
        max_grad_norm: The gradient is scaled down to this global norm.
        weight_decay: The share of a layer's weights that is added to their direction; biases do not decay.
        num_parts: See `gradient_of_parts`.

    Returns:
        Losses are this device's and include `grad_norm`.
    """
    grads, losses = gradient_of_parts(loss, pcast_varying(params), minibatch, num_parts)
    gradient, as_params = ravel_pytree(grads)
    gradient = pmean(gradient)
    norm = jnp.linalg.norm(gradient)
    scale = jnp.minimum(1.0, max_grad_norm / (norm + 1e-6))
    direction, opt_state = OPTIMIZERS[optimizer](as_params).update(gradient * scale, opt_state)
    step = as_params(jnp.asarray(direction))
    step = _with_decay(step, params, weight_decay) if weight_decay else step
    params = jax.tree.map(lambda p, u, rate: p - _along(rate, u) * u, params, step, jax.tree.broadcast(lr, params))
    return params, opt_state, {**losses, "grad_norm": norm}


def gradient_of_parts(
    loss: Callable[[Any, Any], tuple[jax.Array, dict[str, jax.Array]]], params: Any, minibatch: Any, num_parts: int
) -> tuple[Any, dict[str, jax.Array]]:
    """The gradient of a loss, and its facts: means over the parts of a minibatch, one part after another.

    So an update needs the memory of one part, and a part that fits into a core's cache is faster.

    Args:
        loss: `loss(params, part) -> (scalar, {name: scalar})`.
        params: What the gradient is taken with respect to.
        minibatch: Leaves `[L, R, ...]`; those of a carry are `[1, R, ...]`.
        num_parts: A divisor of R; 1 for all at once.

    Raises:
        TypeError: The loss returned something else; the message says what to return.
    """

    def checked(params: Any, part: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        total, facts = checked_loss(loss(params, part))
        if "grad_norm" in facts:
            raise TypeError("The loss returned 'grad_norm', which is the norm of its gradient; call it something else.")
        return total, facts

    gradient = jax.grad(checked, has_aux=True)
    if num_parts == 1:
        return gradient(params, minibatch)

    def add(total: Any, part: Any) -> tuple[Any, dict[str, jax.Array]]:
        grads, facts = gradient(params, part)
        return jax.tree.map(jnp.add, total, grads), facts

    grads, facts = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), in_parts(minibatch, num_parts))
    return jax.tree.map(lambda total: total / num_parts, grads), jax.tree.map(lambda fact: fact.mean(0), facts)


def checked_loss(returned: Any, needed: tuple[str, ...] = ()) -> tuple[jax.Array, dict[str, jax.Array]]:
    """What a loss returned, if it is a scalar and a dictionary of scalars.

    Args:
        returned: What it returned.
        needed: The names of scalars that the algorithm takes from the dictionary.

    Raises:
        TypeError: It is something else; the message says what to return.
    """
    among = f"with {' and '.join(map(repr, needed))} among the names" if needed else "such as means over the minibatch"
    wanted = f"return (scalar, {{name: scalar}}), {among}"
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict)):
        raise TypeError(f"The loss returned {kind_of(returned)}; {wanted}.")
    total, facts = returned
    for name in needed:
        if name not in facts:
            raise TypeError(f"The loss returned no {name!r}; {wanted}.")
    for name, value in (("its first value", total), *((f"{name!r}", value) for name, value in facts.items())):
        if not isinstance(value, jax.Array | np.ndarray | np.generic | int | float) or jnp.shape(value):
            raise TypeError(f"The loss returned {name} as {kind_of(value)}; {wanted}.")
    if not jnp.issubdtype(jnp.result_type(total), jnp.floating):
        raise TypeError(f"The loss returned its first value as {jnp.result_type(total)}; return a float there.")
    return total, facts


def _with_decay(step: Any, params: Any, weight_decay: float) -> Any:
    """The step with decoupled weight decay (Loshchilov & Hutter 2019, https://arxiv.org/abs/1711.05101)."""

    def decayed(path: tuple[Any, ...], u: jax.Array, p: jax.Array) -> jax.Array:
        return u + weight_decay * p if _is_kernel(path) else u

    return jax.tree_util.tree_map_with_path(decayed, step, params)


def _is_kernel(path: tuple[Any, ...]) -> bool:
    """Whether parameters are the weights of a layer, as opposed to biases, scales and the like."""
    return path[-1].key in ("kernel", "recurrent")


def _along(rate: Any, step: jax.Array) -> Any:
    """A learning rate to multiply `step[P, ...]` by: a scalar, or `[P]` along the first axis."""
    return jnp.expand_dims(rate, tuple(range(1, step.ndim))) if jnp.ndim(rate) else rate


def _labels(params: Any) -> Any:
    """`"muon"` for the matrices of hidden layers, `[D, H]` or one for each of P parameter sets, `[P, D, H]`."""

    def label(path: tuple[Any, ...], leaf: jax.Array) -> str:
        matrix = _is_kernel(path) and leaf.ndim in (2, 3)
        return "muon" if matrix and "output" not in [entry.key for entry in path] else "adam"

    return jax.tree_util.tree_map_with_path(label, params)


def _as_float32(leaf: Any) -> Any:
    """The leaf in single precision: in 64-bit mode, optax would keep Muon's coefficients, and all steps, in double."""
    return leaf.astype(jnp.float32) if leaf.dtype == np.float64 else leaf


def _axes(params: Any) -> Any:
    """The axes that form the matrix: the last two."""
    return jax.tree.map(lambda leaf: optax.contrib.MuonDimensionNumbers(leaf.ndim - 2, leaf.ndim - 1), params)


def _scaled_by_shape(step: Any, _: Any) -> jax.Array:
    """An orthogonal matrix, whose entries have a root mean square of 1 / sqrt(the larger side), at `_RMS`."""
    return step * np.float32(_RMS * np.sqrt(max(step.shape[-2:])))
