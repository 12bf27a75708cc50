"""check_env lets the good ones pass, and lists all that is broken."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from walkers import Race, Walk, altered

from jaxrl import check_env
from jaxrl.check import ContractError, dynamic, pictures, static
from jaxrl.wrappers import Wrapper


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


class Plain(Wrapper):
    """Changes nothing."""


class Louder(Wrapper):
    """Multiplies observations, and leaves the space as it is."""

    def step_env(self, key, state, action, params):
        obs, after, reward, terminated, truncated, info = self.env.step_env(key, state, action, params)
        return 10 * obs, after, reward, terminated, truncated, info


class Counting(Wrapper):
    """Returns rewards as whole numbers."""

    def step_env(self, key, state, action, params):
        obs, after, reward, terminated, truncated, info = self.env.step_env(key, state, action, params)
        return obs, after, reward.astype(jnp.int32), terminated, truncated, info


class Rounded(Walk):
    """Itself returns rewards as whole numbers."""

    step_env = altered(reward=lambda reward, _: reward.astype(jnp.int32))


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (Plain(Louder(Plain(Walk()))), "- observations: .* The wrapper Louder is at fault: what it wraps keeps this"),
        (Plain(Counting(Walk())), "- reward_and_flags: .* The wrapper Counting is at fault"),
        (Plain(Rounded()), "- reward_and_flags: .* Rounded itself is at fault, not its wrappers"),
        (Louder(Rounded()), "- reward_and_flags: .* Rounded itself is at fault, not its wrappers"),
    ],
    ids=["dynamic", "static", "inside", "both"],
)
def test_the_wrapper_at_fault_is_named(env, sentence):
    with pytest.raises(ContractError, match=sentence) as caught:
        check_env(env, num_steps=16)
    assert "Plain" not in str(caught.value)


@pytest.mark.quick
def test_every_check_stands_in_the_documentation_with_its_promise():
    """The first table has the promises in the words of the checks, the second the suspicions."""
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
    section = page.partition("| check | promise |")[2].partition("### Your own")[0]
    told, suspected = (dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", part, re.M)) for part in section.split("| name |"))
    running = (*dynamic.DYNAMIC_CHECKS, *pictures.PICTURE_CHECKS)
    checks = (static.check_methods, dynamic.check_intended, *static.BEFORE_TRACING, *static.STATIC_CHECKS, *running)
    promises = {static.check_name(check): " ".join((check.__doc__ or "").split("\n\n")[0].split()) for check in checks}
    assert "six values" in told.pop("trace")
    assert {name: f"{promise}." for name, promise in told.items()} == promises
    assert list(suspected) == [static.check_name(check) for check in dynamic.SUSPICIONS]
