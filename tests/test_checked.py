"""Configurations that check themselves: what stands in the body of a class, and would have no effect."""

import dataclasses
from typing import ClassVar

import pytest

from jaxrl.algos import ppo
from jaxrl.checked import POSITIVE, Allowed


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
