"""A gradient step, and optimisers that work on one vector of all parameters.

An optimiser gives the direction of a step; the learning rate gives its length. A kernel for one vector runs faster, and
compiles far faster, than one for each parameter.

One of the user's own is a function of the learning rate that returns an optax transformation, such as `optax.lion`; it
takes a tree of parameters, and its updates are added to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from jaxrl.display import kind_of
from jaxrl.rl.devices import pmean
from jaxrl.rl.learn import Loss, gradient
from jaxrl.source_file import load_named

__all__ = ["OPTIMIZERS", "adam", "gradient_step", "muon", "new_opt_state", "radam", "take_step"]

_RMS = 0.2  # of an entry of Muon's steps, about that of Adam's: one learning rate serves both (Liu et al., section 2.2)
_OUTPUTS = {"output", "weights", "bias", "output_weights", "output_bias"}  # layers of heads, and of QMIX's mixer

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


def own_optimizer(optimizer: str) -> Callable[[Any], optax.GradientTransformation]:
    """The function of the learning rate behind a name such as `./my_optimizer.py:lion`.

    Raises:
        UnknownNameError: There is none of this name.
        TypeError: It is not a function.
    """
    place, _, name = optimizer.rpartition(":")
    found: Any = load_named(place, name)
    if not callable(found):
        raise TypeError(f"optimizer={optimizer!r} is not a function of the learning rate, but {kind_of(found)}.")
    return cast("Callable[[Any], optax.GradientTransformation]", found)


def new_opt_state(params: Any, optimizer: str) -> Any:
    """The optimiser's state before the first step."""
    if optimizer not in OPTIMIZERS:
        made = own_optimizer(optimizer)(1.0)
        if not (hasattr(made, "init") and hasattr(made, "update")):
            raise TypeError(f"optimizer={optimizer!r} made {kind_of(made)}; return an optax.GradientTransformation.")
        return made.init(params)
    flat, as_params = ravel_pytree(params)
    return OPTIMIZERS[optimizer](as_params).init(flat)


def take_step(
    params: Any,
    opt_state: Any,
    grads: Any,
    optimizer: str,
    lr: Any,
    max_grad_norm: jax.Array | float,
    weight_decay: float = 0.0,
) -> tuple[Any, Any, jax.Array]:
    """One step of the optimiser along the mean gradient of all devices: `(params, opt_state, norm of the gradient)`.

    Args:
        params: Parameters, the same on all devices.
        opt_state: The optimiser's state, initially from `new_opt_state`.
        grads: This device's gradient.
        optimizer: A name in `OPTIMIZERS`, or of a function, see `own_optimizer`.
        lr: Learning rate; or one for each entry along the leaves' first axis, `[P]`; or a tree with one of these for
            each part of the parameters.
        max_grad_norm: The gradient is scaled down to this global norm.
        weight_decay: The share of a layer's weights that is added to their direction; biases do not decay.
    """
    flat, as_params = ravel_pytree(grads)
    flat = pmean(flat)
    norm = jnp.linalg.norm(flat)
    scale = jnp.minimum(1.0, max_grad_norm / (norm + 1e-6))
    if optimizer not in OPTIMIZERS:
        return *_own_step(params, opt_state, as_params(flat * scale), optimizer, lr), norm
    direction, opt_state = OPTIMIZERS[optimizer](as_params).update(flat * scale, opt_state)
    step = as_params(jnp.asarray(direction))
    step = _with_decay(step, params, weight_decay) if weight_decay else step
    params = jax.tree.map(lambda p, u, rate: p - _along(rate, u) * u, params, step, jax.tree.broadcast(lr, params))
    return params, opt_state, norm


def gradient_step(
    loss: Loss,
    params: Any,
    opt_state: Any,
    minibatch: Any,
    optimizer: str,
    lr: Any,
    max_grad_norm: jax.Array | float,
    weight_decay: float = 0.0,
) -> tuple[Any, Any, dict[str, jax.Array]]:
    """One step along the gradient of a loss on a minibatch: `(params, opt_state, losses)`; see `take_step`.

    Losses are this device's and include `grad_norm`.
    """
    grads, losses = gradient(loss, params, minibatch)
    params, opt_state, norm = take_step(params, opt_state, grads, optimizer, lr, max_grad_norm, weight_decay)
    return params, opt_state, {**losses, "grad_norm": norm}


def _own_step(params: Any, opt_state: Any, grads: Any, optimizer: str, lr: Any) -> tuple[Any, Any]:
    """One step of an optimiser of the user's own: `(params, opt_state)`."""
    if jax.tree.structure(lr) != jax.tree.structure(0) or jnp.ndim(lr):
        raise TypeError(f"optimizer={optimizer!r} takes one learning rate; leave lr out of policy_hyperparams.")
    updates, opt_state = own_optimizer(optimizer)(lr).update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


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
        return "muon" if matrix and _OUTPUTS.isdisjoint(entry.key for entry in path) else "adam"

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
