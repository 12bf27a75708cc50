"""JSON files: whole or as they were, valid for every parser, and with a sentence for what is wrong with them."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
import toy_algorithm as toy
from toy_runs import run

from jaxrl.train.folder.json_file import (
    DamagedFileError,
    dataclass_from_json,
    from_json,
    infinities_as_text,
    plain,
    read_json,
    to_json,
    write_json,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    return path


def strictly(text: str) -> Any:
    """As other languages read it."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_is_written_is_read(file: Path) -> None:
    content = {"a": [1, 2.5, None, True, {"b": "é"}], "t": (1, 2)}
    write_json(file, content)
    assert read_json(file) == plain(content) == {"a": [1, 2.5, None, True, {"b": "é"}], "t": [1, 2]}


def test_the_content_is_on_the_disk_before_it_has_the_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut leaves depends on this order alone: content, name, folder."""
    happened: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(place: int) -> None:
        happened.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{place}'))}")
        sync(place)

    def rename(old: Path, new: Path) -> None:
        assert json.loads(old.read_text()) == {"a": 2}  # nothing waits in a buffer
        happened.append(f"rename {new.name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    write_json(file, {"a": 2})
    assert happened == ["sync x.json.new", "rename x.json", f"sync {file.parent.name}"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_everything_as_it_was(file: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_json(file, {"a": 2})
    assert read_json(file) == {"a": 1}
    assert list(file.parent.iterdir()) == [file]


def test_a_link_under_the_temporary_name_is_not_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "x.json.new").symlink_to(tmp_path / "mine")
    write_json(file, {"a": 2})
    assert (tmp_path / "mine").read_text() == "precious"
    assert read_json(file) == {"a": 2}


def test_numbers_that_are_not_finite_become_null() -> None:
    text = to_json({"a": [float("nan"), (float("inf"), 1.0)], "b": {"c": -float("inf")}})
    assert strictly(text) == {"a": [None, [None, 1.0]], "b": {"c": None}}


def test_a_bare_nan_of_an_older_version_is_read_as_null(file: Path) -> None:
    file.write_text('{"a": NaN, "b": [-Infinity, 1]}')
    assert read_json(file) == {"a": None, "b": [None, 1]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"\0\0\0", "Expecting value"),
        (b'{"a": ', "Expecting value"),
        (b'{"a": "\xff"}', "can't decode byte 0xff"),
        (b"[1]", "it should hold an object, not a list"),
        (b'{"a":' * 100_000, "recursion"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    ],
)
def test_damage_is_one_kind_of_error_with_the_file_and_the_reason(file: Path, data: bytes, reason: str) -> None:
    file.write_bytes(data)
    with pytest.raises(DamagedFileError, match=rf"x\.json is damaged: .*{reason}") as error:
        read_json(file)
    assert "\n" not in str(error.value)


def test_what_cannot_be_read_is_told_apart_from_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no .*y\.json"):
        read_json(tmp_path / "y.json")
    with pytest.raises(OSError, match="cannot be read: Is a directory"):
        read_json(tmp_path)


def test_every_file_of_a_run_is_valid_json_even_where_losses_are_nan(tmp_path: Path) -> None:
    """Member 0 diverges in the middle of a row, and checkpoints are saved there."""
    config = toy.Config(nan_at=5, nan_above=0.0)
    seeds = {"num_seeds": 4, "log_every": 4, "eval_every": 2, "checkpoint_every_updates": 2, "keep_checkpoints": 9}
    result = run(toy.make(config), config, tmp_path / "run", **seeds)
    assert 0 < len(result.diverged) < 4
    texts = [path.read_text() for path in (tmp_path / "run").rglob("*.json")]
    manifests = [path.read_text() for path in (tmp_path / "run").rglob("manifest/metadata")]
    rows = [line for path in (tmp_path / "run").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(texts) >= 2
    assert len(rows) >= 8
    read = [strictly(text) for text in (*texts, *manifests, *rows)]
    assert any(None in each["losses"]["policy"] for each in read if "losses" in each)
    sums = [each["extra"]["rows"]["sums"] for each in read if "rows" in each.get("extra", {})]
    assert any(None in each.get("losses/policy", ()) for each in sums)  # saved in the middle of a row


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
    text = json.dumps(infinities_as_text(dataclasses.asdict(config)), allow_nan=False)
    assert dataclass_from_json(Config, json.loads(text)) == config


def test_a_default_is_good_whatever_its_annotation_says() -> None:
    assert dataclass_from_json(Config, {"sloppy": None}).sloppy is None
    with pytest.raises(ValueError, match="sloppy must be int"):
        dataclass_from_json(Config, {"sloppy": "x"})


def test_lists_without_a_type_become_tuples_so_that_configs_can_be_hashed() -> None:
    assert hash(dataclass_from_json(Config, {"whatever": [1, [2]]}).whatever) == hash((1, (2,)))
