"""What pictures of environments take, and how numbers are written in units that suit them."""

import jax
import pytest

import jaxrl
from jaxrl.display import data_size, in_units, spreadsheet_cell


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (data_size(999_936), "1 MB"),
        (data_size(12_345), "12.3 kB"),
        (data_size(512), "512 bytes"),
        (data_size(0), "0 bytes"),
        (in_units(0.9999, ("s", 1.0), ("ms", 1e-3)), "1 s"),
        (in_units(2e-5, ("s", 1.0), ("ms", 1e-3)), "0.02 ms"),
    ],
)
def test_numbers_have_the_largest_unit_that_they_round_to(shown: str, text: str) -> None:
    """So none is written as 1e+03 of the next smaller unit."""
    assert shown == text


@pytest.mark.parametrize("name", ["classic/cartpole", "coin_game"])
def test_a_picture_shows_one_state(name: str) -> None:
    """Who draws what a `VectorEnv` holds reads which part of it to give."""
    pytest.importorskip("PIL")
    env = jaxrl.make(name)
    several, pooled = jaxrl.VectorEnv(env, 2), jaxrl.VectorEnv(env, 2, reset="pool")
    states = jax.jit(several.reset)(jax.random.key(0))[1]
    with pytest.raises(ValueError, match=r"give jax.tree.map\(lambda leaf: leaf\[0\], state\)"):
        env.render(states)
    with pytest.raises(ValueError, match=r"a pool is vector_env.env_state\(state\)"):
        env.render(jax.jit(pooled.reset)(jax.random.key(0))[1])
    assert env.render(jax.tree.map(lambda leaf: leaf[0], states)).shape[-1] == 3


def test_what_an_environment_cannot_draw_is_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    env = jaxrl.make("classic/cartpole")
    state = env.reset(jax.random.key(0))[1]
    monkeypatch.setattr(env, "draw", lambda states, params: states.wheels)
    with pytest.raises(AttributeError, match="has no attribute"):
        env.render(state)


@pytest.mark.parametrize(
    ("value", "cell"),
    [("=1+1", "'=1+1"), (" +1", "' +1"), ("-x", "'-x"), ("@a", "'@a"), ("a=1", "a=1"), (-1.5, -1.5), ("a\nb", "a b")],
)
def test_no_cell_is_a_formula(value: object, cell: object) -> None:
    assert spreadsheet_cell(value) == cell
