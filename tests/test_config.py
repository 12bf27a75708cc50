"""Configurations that check themselves: what a class says in vain, values that users type, and losses of their own."""

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algos import ppo
from jaxrl.config import (
    MAX_COUNT,
    MAX_SEED,
    POSITIVE,
    Allowed,
    as_seed,
    as_whole,
    checked_loss,
    settled,
    typed,
)


class NotDecorated(ppo.Config):
    lr: float = 1e-2


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithoutType(ppo.Config):
    lr = 1e-2


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleForNothing(ppo.Config):
    penalty: float = 1.0

    allowed: ClassVar[dict[str, Allowed]] = {"penlty": POSITIVE}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NotDecorated, r"has the field lr .* write @dataclasses.dataclass\(frozen=True, kw_only=True\) above"),
        (WithoutType, "says lr = 0.01 without a type, which has no effect; write lr: float = 0.01"),
        (RuleForNothing, r"RuleForNothing.allowed has a rule for 'penlty', which is not a field. Did you mean penalty"),
    ],
)
def test_what_a_subclass_says_without_effect_is_explained(kind: type[ppo.Config], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kind()


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (lambda x: x.sum(), r"The loss returned an array \[\]; return \(scalar, "),
        (lambda x: (x.sum(), x.sum()), r"returned \(an array \[\], an array \[\]\); return"),
        (lambda x: (x, {}), r"its first value as an array \[2\]"),
        (lambda x: (x.sum(), {"each": x}), r"'each' as an array \[2\]"),
        (lambda x: (x.sum(), {"grad_norm": x.sum()}), "'grad_norm', which is the norm of its gradient; call it"),
        (lambda x: (x.sum(), {"parts": {"one": x.sum()}}), "'parts' as a dict"),
        (lambda x: (x.sum(), {"kind": "clipped"}), "'kind' as a str; return"),
        (lambda x: ((x.sum() > 0).astype(int), {}), "its first value as int32; return a float there"),
    ],
)
def test_a_loss_of_another_form_is_told_what_to_return(returned, sentence):
    with pytest.raises(TypeError, match=sentence):
        checked_loss(returned(jnp.ones(2)))


def test_a_loss_of_ones_own_is_checked_when_an_update_is_traced():
    algo = ppo.make(ppo.Config(num_envs=4, num_steps=4), lambda agent, h, params, batch: batch.value.sum())
    with pytest.raises(TypeError, match=r"The loss returned an array \[\]; return \(scalar, "):
        jax.eval_shape(lambda key: algo.update(algo.init(key)), jax.random.key(0))


SHARING = Literal["all", "none"] | tuple[int, ...]


@pytest.mark.parametrize(
    ("hint", "value", "wanted"),
    [
        (int, 3, 3),
        (int, 2e4, 20_000),
        (int, np.int64(3), 3),
        (int, np.float32(8.0), 8),
        (int, -1, -1),
        (float, 1, 1.0),
        (float, np.float32(0.5), 0.5),
        (float, jnp.float32(0.5), 0.5),
        (int, jnp.int32(8), 8),
        (float, 0.0, 0.0),
        (bool, np.True_, True),
        (float | None, None, None),
        (float | None, 2, 2.0),
        (Literal["relu", "tanh"], "tanh", "tanh"),
        (Literal[1, 2, "all", True], 2, 2),
        (Literal[0, 1, True], True, True),
        (tuple[int, ...], [64, 32.0], (64, 32)),
        (tuple[int, ...], (), ()),
        (tuple[float, float], [0, 1], (0.0, 1.0)),
        (SHARING, "all", "all"),
        (SHARING, [0, 0, 1], (0, 0, 1)),
        (str, "smax/3m", "smax/3m"),
        (dict[str, int], {"a": "b"}, {"a": "b"}),  # an annotation that says nothing here
    ],
)
def test_what_is_meant_is_taken(hint: Any, value: Any, wanted: Any) -> None:
    got = typed("field", hint, value)
    assert got == wanted
    assert type(got) is type(wanted)  # NumPy's numbers are no JSON, lists no keys
    if isinstance(got, tuple):
        assert list(map(type, got)) == list(map(type, wanted))


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (int, 2.5, "a whole number; got 2.5"),
        (int, "3", "a whole number; got '3'"),
        (int, True, "a whole number; got True"),
        (int, np.True_, "a whole number"),
        (int, float("inf"), "a whole number; got inf"),
        (int, float("nan"), "a whole number; got nan"),
        (int, None, "a whole number; got None"),
        (float, float("nan"), "a finite number that float32 has; got nan"),
        (float, float("-inf"), "a finite number that float32 has; got -inf"),
        (float, 1e39, "a finite number that float32 has"),
        (float, 1e-60, "a finite number that float32 has"),  # 0 in float32
        (float, "1e-3", "a finite number that float32 has; got '1e-3'"),
        (float, False, "a finite number that float32 has; got False"),
        (float, 1 + 2j, "a finite number that float32 has"),
        (float | None, "x", "a finite number that float32 has or None; got 'x'"),
        (bool, 1, "True or False; got 1"),
        (bool, "False", "True or False; got 'False'"),
        (Literal["relu", "tanh"], "sigmoid", "one of relu, tanh; got 'sigmoid'"),
        (Literal["relu", "tanh"], ["relu"], "one of relu, tanh"),
        (Literal[1, 2], True, "one of 1, 2; got True"),
        (Literal[1, 2], 3, "one of 1, 2; got 3"),
        (tuple[int, ...], 64, "a tuple, each entry a whole number; got 64"),
        (tuple[int, ...], "64", "a tuple"),
        (tuple[int, ...], (64, 0.5), "a tuple"),
        (tuple[float, float], (1.0,), "a tuple of 2"),
        (tuple[float, float], (1.0, float("inf")), "a tuple of 2, each entry a finite number"),
        (SHARING, "some", "one of all, none or a tuple, each entry a whole number; got 'some'"),
        (str, 3, "text; got 3"),
    ],
)
def test_everything_else_is_refused(hint: Any, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"^field must be ") as error:
        typed("field", hint, value)
    assert words in str(error.value)


def test_seeds_are_those_that_differ_for_jax() -> None:
    assert as_seed("seed", MAX_SEED) == MAX_SEED == 2**32 - 1
    assert type(as_seed("seed", np.uint32(7))) is int
    for wrong in (-1, 2**32):
        with pytest.raises(ValueError, match=f"seed must be a whole number from 0 to 4294967295, got {wrong}"):
            as_seed("seed", wrong)
    with pytest.raises(ValueError, match=r"seed must be a whole number from 0 to 4294967295, got 0\.5"):
        as_seed("seed", 0.5)


@pytest.mark.parametrize(
    ("value", "most", "bounds"),
    [
        (0, None, "of at least 1"),
        (2.5, None, "of at least 1"),
        (True, MAX_COUNT, "of at least 1"),
        (10**10, MAX_COUNT, "from 1 to 2147483647"),
        (6, 5, "from 1 to 5"),
    ],
)
def test_counts_have_bounds(value: Any, most: int | None, bounds: str) -> None:
    assert as_whole("count", 2.0, most=most) == 2
    with pytest.raises(ValueError, match=f"^count must be a whole number {bounds}, got {value}.$"):
        as_whole("count", value, most=most)


def test_a_config_that_knows_of_no_effects_is_settled() -> None:
    config = object()
    assert settled(config) is config
