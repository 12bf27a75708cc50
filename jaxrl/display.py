"""Display of objects in a notebook, of environments in a picture, of numbers with units, and of tables as text."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.errors import printable
from jaxrl.keys import abstract_key

__all__ = ["as_html", "data_size", "in_units", "kind_of", "on_host", "picture", "right_aligned", "spreadsheet_cell"]


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
    """The kind of a value, such as `"an array [3]"` or `"(an array [], a dict)"`, for messages."""
    if hasattr(value, "shape"):
        return f"an array {list(value.shape)}"
    return f"({', '.join(map(kind_of, value))})" if isinstance(value, tuple) else f"a {type(value).__name__}"


def spreadsheet_cell(value: Any) -> Any:
    """A cell of a CSV file: text that a spreadsheet would compute as a formula begins with an apostrophe."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.lstrip().startswith(("=", "+", "-", "@")) else printable(value)


def right_aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines of text, with every column aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def picture(env: Any, state: Any, params: Any) -> np.ndarray:
    """A picture of one state of an environment, uint8 `[H, W, 3]`.

    Raises:
        ValueError: These are the states of several environments.
    """
    from jaxrl.render import rasterise  # imported only when needed
    from jaxrl.render.scene import with_captions

    try:
        scene = env.draw(jax.tree.map(lambda leaf: on_host(leaf)[None], state), params)
        return rasterise(with_captions(scene), width=480)[0]
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


def on_host(leaf: Any) -> np.ndarray:
    """The leaf as a NumPy array; random keys, which NumPy lacks, as their data."""
    if jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)
