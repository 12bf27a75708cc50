"""check_env lets the good ones pass, and lists all that is broken."""

import jax
import jax.numpy as jnp
import pytest
from walkers import Race, Walk, altered

from jaxrl import check_env
from jaxrl.check import ContractError


@pytest.mark.quick
@pytest.mark.parametrize("good", [Walk, Race], ids=lambda cls: cls.__name__)
def test_good_environments_pass(good):
    assert check_env(good(), num_steps=16, key=jax.random.key(3)) is None


def test_all_that_is_broken_is_listed():
    class Broken(Walk):
        step_env = altered(
            reward=lambda reward, _: reward.astype(jnp.int32), terminated=lambda flag, _: flag.astype(jnp.int32)
        )

    with pytest.raises(ContractError) as caught:
        check_env(Broken())
    assert len(caught.value.failures) == 2
    lines = str(caught.value).splitlines()
    assert lines[0] == "The environment 'walk' breaks 2 promises of the environment contract:"
    assert len(lines) == 3
    for failure, line in zip(caught.value.failures, lines[1:], strict=True):
        assert failure.problem.endswith(".")
        assert failure.advice.endswith(".")
        assert line == f"- {failure.check}: {failure.problem} {failure.advice}"


@pytest.mark.quick
def test_what_is_no_environment_is_refused():
    with pytest.raises(TypeError, match=r"such as jaxrl\.make.*, not a str"):
        check_env("smax/3m")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="num_steps must be at least 1"):
        check_env(Walk(), num_steps=0)
