"""How objects show themselves in a notebook, environments in a picture, numbers with units, and tables as text."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxrl.keys import abstract_key

__all__ = ["as_html", "data_size", "in_units", "kind_of", "picture", "right_aligned"]


def as_html(title: str, rows: Mapping[str, Any]) -> str:
    """A small table: a title and a row for each name."""
    cells = "".join(
        f'<tr><td style="text-align:left">{html.escape(name)}</td>'
        f'<td style="text-align:left">{html.escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return (
        f"<table><thead><tr><th colspan=2 style='text-align:left'>{html.escape(title)}</th></tr></thead>{cells}</table>"
    )


def data_size(count: float) -> str:
    """A number of bytes, such as `"1.5 GB"`."""
    return in_units(count, ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))


def in_units(number: float, *units: tuple[str, float]) -> str:
    """A number with three digits, in the largest unit that it reaches, or in the last unit if it reaches none.

    Args:
        number: What the units measure.
        units: (name, size), the largest first.
    """
    rounded = float(f"{number:.3g}")
    unit, size = next((each for each in units if rounded >= each[1]), units[-1])
    return f"{rounded / size:.3g} {unit}"


def kind_of(value: Any) -> str:
    """What a value is, such as `"an array [3]"` or `"(an array [], a dict)"`, for messages."""
    if hasattr(value, "shape"):
        return f"an array {list(value.shape)}"
    return f"({', '.join(map(kind_of, value))})" if isinstance(value, tuple) else f"a {type(value).__name__}"


def right_aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines of text, with every column aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def picture(env: Any, state: Any, params: Any) -> np.ndarray:
    """A picture of one state of an environment, uint8 `[H, W, 3]`.

    Raises:
        ValueError: These are the states of several environments.
    """
    from jaxrl.render import compose, rasterise  # imported only when needed

    try:
        scene = env.draw(jax.tree.map(lambda leaf: np.asarray(leaf)[None], state), params)
        return rasterise(compose.with_captions(scene), width=480)[0]
    except (AttributeError, IndexError, TypeError, ValueError) as error:  # such as NumPy's about an axis too many
        _check_one_state(env, state, error)
        raise


def _check_one_state(env: Any, state: Any, error: Exception) -> None:
    """Raise ValueError from `error` if the state is not one of `env` itself."""
    one = jax.eval_shape(env.reset, abstract_key())[1]
    if jax.tree.structure(state) != jax.tree.structure(one):
        raise ValueError(
            f"This is not a state of {env.name}; one of its VectorEnv with a pool is vector_env.env_state(state)."
        ) from error
    leaves = zip(jax.tree.leaves(state), jax.tree.leaves(one), strict=True)
    if any(np.ndim(leaf) == wanted.ndim + 1 for leaf, wanted in leaves):
        raise ValueError(
            "render draws one state, and these are several; give jax.tree.map(lambda leaf: leaf[0], state)."
        ) from error
