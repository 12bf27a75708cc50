"""Spaces: the form of observations and actions. Plain NumPy data, so importing does no device work."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

__all__ = ["Box", "Discrete", "MultiDiscrete", "Space", "check_action", "misfits", "num_actions"]


class Space:
    """The common interface: `shape`, `dtype`, `sample(key)` and `contains(x)`.

    `contains` returns a boolean array, so it also works on traced values inside `jax.jit`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    def sample(self, key: jax.Array) -> jax.Array:
        """One uniformly drawn element, an array of `shape` and `dtype`. Consumes `key`."""
        raise NotImplementedError

    def contains(self, x: Any) -> jax.Array:
        """Whether `x` (an array of `shape`) lies in the space: a boolean scalar."""
        raise NotImplementedError

    def clip(self, x: Any) -> jax.Array:
        """The element of the space nearest to `x`; NaN becomes the lower end, so the result is always defined."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Discrete(Space):
    """The integers 0 … n-1, as an int32 scalar."""

    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.n, Integral) or self.n < 1:
            raise ValueError(f"Discrete needs a whole number of at least one element, got n={self.n!r}.")

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return ()

    @property
    def dtype(self) -> np.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.dtype(np.int32)

    def sample(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (), 0, self.n, self.dtype)

    def contains(self, x: Any) -> jax.Array:
        return _all_between(x, (), 0, self.n - 1)

    def clip(self, x: Any) -> jax.Array:
        return _to_int(x, self.n - 1)


@dataclasses.dataclass(frozen=True)
class MultiDiscrete(Space):
    """A vector of integers, element k in 0 … nvec[k]-1, as int32 `[len(nvec)]`."""

    nvec: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nvec", tuple(int(n) for n in self.nvec))
        if not self.nvec or min(self.nvec) < 1:
            raise ValueError(f"MultiDiscrete needs positive counts, got nvec={self.nvec}.")

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (len(self.nvec),)

    @property
    def dtype(self) -> np.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        return np.dtype(np.int32)

    def sample(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, self.shape, 0, np.asarray(self.nvec, np.int32), self.dtype)

    def contains(self, x: Any) -> jax.Array:
        return _all_between(x, self.shape, 0, np.asarray(self.nvec, np.int32) - 1)

    def clip(self, x: Any) -> jax.Array:
        return _to_int(x, np.asarray(self.nvec, np.int32) - 1)


@dataclasses.dataclass(frozen=True)
class Box(Space):
    """Real vectors between `low` and `high` (scalars or arrays of `shape`; infinite bounds allowed).

    The dtype may also be an integer one, whose range then takes the place of infinite bounds.
    """

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = np.float32

    def __post_init__(self) -> None:
        if isinstance(self.shape, Integral):
            raise ValueError(f"A Box's shape is a tuple; give ({self.shape},) for a vector of {self.shape} numbers.")
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", np.dtype(self.dtype))
        if any(isinstance(bound, jax.core.Tracer) for bound in (self.low, self.high)):
            raise TypeError("A Box's bounds are NumPy arrays, for it is also made while jax.jit traces; use np.array.")
        for bound in (self.low, self.high):
            if not _broadcasts(np.shape(bound), self.shape):
                raise ValueError(f"A bound of shape {np.shape(bound)} does not fit a Box of shape {self.shape}.")
        if not np.all(np.broadcast_to(self.low, self.shape) <= np.broadcast_to(self.high, self.shape)):
            raise ValueError("Box needs low <= high in every component.")
        if np.issubdtype(self.dtype, np.integer):
            limits = np.iinfo(self.dtype)
            object.__setattr__(self, "low", _limited(self.low, limits.min, self.dtype))
            object.__setattr__(self, "high", _limited(self.high, limits.max, self.dtype))

    def sample(self, key: jax.Array) -> jax.Array:
        """A uniform draw between finite bounds; a clipped standard normal one if a bound is infinite."""
        if np.issubdtype(self.dtype, np.integer) or self.dtype == bool:
            return self._sample_whole(key)
        low, high = (np.broadcast_to(np.asarray(b, np.float32), self.shape) for b in (self.low, self.high))
        key_uniform, key_normal = jax.random.split(key)
        bounded = np.isfinite(low) & np.isfinite(high)
        bounds = np.where(bounded, low, np.float32(0)), np.where(bounded, high, np.float32(1))
        uniform = jax.random.uniform(key_uniform, self.shape, jnp.float32, *bounds)
        normal = jnp.clip(jax.random.normal(key_normal, self.shape, jnp.float32), low, high)
        return jnp.where(bounded, uniform, normal).astype(self.dtype)

    def _sample_whole(self, key: jax.Array) -> jax.Array:
        """A uniform draw of integers. It computes modulo 2^32, so that 32 bits are enough for any bounds."""
        low, high = (np.broadcast_to(self._bound(b).astype(np.int64), self.shape) for b in (self.low, self.high))
        count = (high - low + 1).astype(np.uint32)  # 0 for all 2^32 numbers
        drawn = jax.random.randint(key, self.shape, 0, np.maximum(count, 1), jnp.uint32)
        if not count.all():
            drawn = jnp.where(count, drawn, jax.random.bits(jax.random.fold_in(key, 0), self.shape, jnp.uint32))
        return (drawn + low.astype(np.uint32)).astype(jnp.int32).astype(self.dtype)

    def contains(self, x: Any) -> jax.Array:
        x = jnp.asarray(x)
        if x.shape != self.shape:
            return jnp.asarray(False)
        return jnp.all((x >= self._bound(self.low)) & (x <= self._bound(self.high)))

    def clip(self, x: Any) -> jax.Array:
        x, low, high = jnp.asarray(x), self._bound(self.low), self._bound(self.high)
        if jnp.issubdtype(x.dtype, jnp.floating):
            lowest = np.finfo(np.float32).min if np.issubdtype(self.dtype, np.floating) else low
            x = jnp.where(jnp.isnan(x), jnp.maximum(low, lowest), x)
            x = x if np.issubdtype(self.dtype, np.floating) else jnp.rint(x)
        return jnp.clip(x, low, high).astype(self.dtype)

    def _bound(self, bound: Any) -> np.ndarray:
        """A bound in the space's own dtype, so that comparing with it never widens anything."""
        return np.asarray(bound, self.dtype)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Box)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and np.array_equal(np.broadcast_to(self.low, self.shape), np.broadcast_to(other.low, self.shape))
            and np.array_equal(np.broadcast_to(self.high, self.shape), np.broadcast_to(other.high, self.shape))
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))


def num_actions(space: Space) -> int:
    """The number of actions in a mask; raises TypeError unless they are Discrete."""
    if not isinstance(space, Discrete):
        raise TypeError(f"Action masks exist for Discrete actions only, not for {type(space).__name__}.")
    return space.n


def check_action(action: Any, space: Space, taker: str, *, environments: int = 0, agents: int = 0) -> jax.Array:
    """`action` as one array with these leading axes, which are absent where 0.

    What follows them may be broadcast to the space's shape: a number passes for `[1]`.

    Raises:
        TypeError: It is a dict or None, or it holds something other than numbers.
        ValueError: It has another shape.
    """
    counts = {name: count for name, count in (("environments", environments), ("agents", agents)) if count}
    leading = tuple(counts.values())
    shape = (*leading, *space.shape)
    wanted = f"{taker} takes one array of the shape {list(shape)}"
    wanted += f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""
    if action is None or isinstance(action, dict):
        dicts = "; jaxrl.interop.to_jaxmarl takes dicts of agents" if isinstance(action, dict) else ""
        raise TypeError(f"{wanted}, not a {type(action).__name__}{dicts}.")
    try:
        given = jnp.asarray(action)
    except (TypeError, ValueError):
        raise TypeError(f"{wanted}, of numbers, not {action!r}.") from None
    own = given.shape[len(leading) :]
    if given.shape[: len(leading)] != leading or not _broadcasts(own, space.shape):
        hint = f"; give an action for each of the {agents} agents" if agents else ""
        hint = "; jaxrl.VectorEnv steps many environments at once" if len(given.shape) > len(shape) else hint
        raise ValueError(f"{wanted}, got {list(given.shape)}{'' if environments else hint}.")
    if given.shape == shape:
        return given
    return jnp.broadcast_to(given.reshape(*leading, *(1,) * (len(space.shape) - len(own)), *own), shape)


def misfits(name: str, spaces: Any, agents: Sequence[str], common: Space) -> Iterator[tuple[str, str]]:
    """What is wrong about the agents' own spaces, and what to write instead.

    Args:
        name: What the environment calls them, such as `agent_action_spaces`.
        spaces: The space of each agent by its name, if all is well.
        agents: The names of the agents.
        common: The space that all of them are padded to.
    """
    if not isinstance(spaces, Mapping):
        yield f"{name} is a {type(spaces).__name__}.", "Make it a dict of the agents' names and their spaces."
        return
    if tuple(spaces) != tuple(agents):
        yield f"The keys of {name} are {tuple(spaces)}, the agents {tuple(agents)}.", "Make them equal."
    for agent, space in spaces.items():
        if not _fits(space, common):
            problem = f"{name}[{agent!r}] is {space}, which does not fit into the common {common}."
            yield problem, "Pad the common space to the largest of the agents' own."


def _fits(own: Any, common: Space) -> bool:
    """Whether the elements of a space can be padded to those of the common one."""
    if isinstance(own, Discrete) and isinstance(common, Discrete):
        return own.n <= common.n
    if isinstance(own, MultiDiscrete) and isinstance(common, MultiDiscrete):
        pairs = zip(own.nvec, common.nvec, strict=False)
        return len(own.nvec) <= len(common.nvec) and all(a <= b for a, b in pairs)
    same_kind = isinstance(own, Box) and isinstance(common, Box) and len(own.shape) == len(common.shape)
    return same_kind and all(a <= b for a, b in zip(own.shape, common.shape, strict=True))


def _limited(bound: Any, limit: int, dtype: np.dtype) -> Any:
    """A bound of whole numbers, with `limit` in place of infinity."""
    infinite = np.isinf(bound)
    return np.where(infinite, limit, np.where(infinite, 0, bound).astype(dtype)) if infinite.any() else bound


def _all_between(x: Any, shape: tuple[int, ...], low: Any, high: Any) -> jax.Array:
    """Whether `x` has the shape `shape`, an integer dtype, and values within the bounds."""
    x = jnp.asarray(x)
    if x.shape != shape or not jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.asarray(False)
    return jnp.all((x >= low) & (x <= high))


def _to_int(x: Any, top: Any) -> jax.Array:
    """The nearest int32 from 0 to `top`. NaN is 0; floats are clipped before the cast, which is undefined outside."""
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.rint(jnp.where(jnp.isnan(x), 0, x))
    elif x.dtype.itemsize < 4:
        x = x.astype(jnp.int32)  # `top` might not fit into 8 or 16 bits
    return jnp.clip(x, 0, top).astype(jnp.int32)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False
