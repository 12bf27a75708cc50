"""Values from JSON against types."""

import dataclasses
import json
import math
from typing import Any, Literal, TypedDict

import pytest

from jaxrl.train.folder.typed import dataclass_from_json, from_json, spelled


class Inner(TypedDict):
    count: int


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 1.0
    sloppy: int = None  # pyright: ignore[reportAssignmentType]
    whatever: Any = ()
    names: list[str] = dataclasses.field(default_factory=list)


GOOD: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (float, 3, 3),
    (float, "inf", math.inf),
    (float, "-inf", -math.inf),
    (bool, True, True),
    (str, "inf", "inf"),
    (int | None, None, None),
    (Literal["a"] | tuple[int, ...], [1, 2], (1, 2)),
    (tuple[tuple[str, int], ...], [["a", 1]], (("a", 1),)),
    (tuple[float, float], [0.5, "inf"], (0.5, math.inf)),
    (list[int], [1], [1]),
    (dict[str, float], {"a": 1.0}, {"a": 1.0}),
    (Inner, {"count": 1, "more": "x"}, {"count": 1, "more": "x"}),
]
BAD: list[tuple[Any, Any, str]] = [
    (int, True, "x must be int, got True"),
    (int, 1.0, "x must be int"),
    (int, 2**63, "x must be int"),
    (float, 10**400, "x must be float"),
    (float, "1.0", "x must be float, got '1.0'"),
    (bool, 1, "x must be bool"),
    (str, None, "x must be str"),
    (int | None, "a", "x must be int"),
    (int | str, [], r"x must be int \| str"),
    (Literal["a", 1], True, "x must be Literal"),
    (tuple[int, ...], [1, "a"], r"x\[1\] must be int"),
    (tuple[float, float], [1.0], "x must be tuple"),
    (tuple[int, ...], "12", "x must be tuple"),
    (list[int], {"0": 1}, "x must be list"),
    (dict[str, int], {"a": None}, r"x\.a must be int"),
    (Inner, {}, r"x\.count is missing"),
    (Inner, [], "x must be an object"),
    (Config, {"rate": "x"}, r"x\.rate must be float"),
]


@pytest.mark.parametrize(("hint", "value", "wanted"), GOOD)
def test_what_fits_comes_back_in_the_form_of_its_type(hint: Any, value: Any, wanted: Any) -> None:
    got = from_json(hint, value, "x")
    assert got == wanted
    assert type(got) is type(wanted)


@pytest.mark.parametrize(("hint", "value", "sentence"), BAD)
def test_what_does_not_fit_is_told(hint: Any, value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_json(hint, value, "x")


def test_numbers_that_are_not_finite_survive_as_words() -> None:
    config = Config(rate=math.inf)
    text = json.dumps(spelled(dataclasses.asdict(config)), allow_nan=False)
    assert dataclass_from_json(Config, json.loads(text)) == config


def test_a_default_is_good_whatever_its_annotation_says() -> None:
    assert dataclass_from_json(Config, {"sloppy": None}).sloppy is None
    with pytest.raises(ValueError, match="sloppy must be int"):
        dataclass_from_json(Config, {"sloppy": "x"})


def test_lists_without_a_type_become_tuples_so_that_configs_can_be_hashed() -> None:
    assert hash(dataclass_from_json(Config, {"whatever": [1, [2]]}).whatever) == hash((1, (2,)))
