"""Lines are neither lost nor spoilt when the disk is full or a writer is killed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxrl.train.folder.json_file import DamagedFileError
from jaxrl.train.folder.json_lines import JsonLines


@pytest.fixture
def lines(tmp_path: Path) -> JsonLines:
    lines = JsonLines(tmp_path / "x.jsonl")
    assert lines.append({"a": 1}) is None
    return lines


def full(self: Path, mode: str = "r", **options: object) -> object:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))


def test_lines_can_be_cut_back(lines: JsonLines) -> None:
    size = lines.size
    lines.append({"a": 2})
    assert lines.truncate(size) == 0
    assert lines.read() == [{"a": 1}]


def test_lines_that_cannot_be_written_wait(lines: JsonLines) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", full)
        error = lines.append({"a": 2})
        assert error is not None
        assert error.errno == errno.ENOSPC
        assert lines.append({"a": 3}) is None  # it is said once
        with pytest.raises(OSError, match="No space left"):
            lines.flush()
    assert lines.read() == [{"a": 1}, {"a": 2}, {"a": 3}]  # they are not forgotten
    assert JsonLines(lines.path).read() == [{"a": 1}]
    lines.append({"a": 4})
    assert JsonLines(lines.path).read() == [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]


def test_a_line_that_was_written_in_part_is_taken_back(lines: JsonLines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on the size of files stands in for the last bytes of a disk."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (lines.size + 5, limits[1]))
    try:
        assert lines.append({"a": 2}) is not None
        assert lines.path.read_text() == '{"a": 1}\n'
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    lines.flush()
    assert lines.path.read_text() == '{"a": 1}\n{"a": 2}\n'


def test_a_line_that_a_killed_process_left_unfinished_is_not_read(lines: JsonLines) -> None:
    with lines.path.open("a") as file:
        file.write('{"a": ')
    assert lines.read() == [{"a": 1}]


def test_a_file_that_has_become_shorter_is_not_filled_with_zeros(lines: JsonLines) -> None:
    assert lines.truncate(100) == 100 - lines.size
    assert lines.read() == [{"a": 1}]


def test_half_a_line_that_a_power_cut_has_left_does_not_spoil_the_next(lines: JsonLines) -> None:
    with lines.path.open("a") as file:
        file.write('{"a": ')
    assert lines.truncate(100) == 100 - len('{"a": 1}\n{"a": ')
    lines.append({"a": 2})
    assert lines.read() == [{"a": 1}, {"a": 2}]


def test_numbers_that_are_not_finite_are_written_as_null(lines: JsonLines) -> None:
    lines.append({"a": float("nan"), "b": [1.0, float("inf")]})
    assert lines.path.read_text().splitlines()[1] == '{"a": null, "b": [1.0, null]}'


@pytest.mark.parametrize("line", [b'{"a": 1', b"\0\0\0", b'{"a": "\xff"}', b"[1]", b""])
def test_a_damaged_line_is_named(lines: JsonLines, line: bytes) -> None:
    with lines.path.open("ab") as file:
        file.write(line + b'\n{"a": 3}\n')
    with pytest.raises(DamagedFileError, match=r"x\.jsonl, line 2, is damaged: "):
        lines.read()


def test_what_ends_lines_elsewhere_does_not_end_them_here(lines: JsonLines) -> None:
    with lines.path.open("ab") as file:
        file.write('{"a": "one\u2028row"}\n'.encode())
    assert len(lines.read()) == 2


def test_rows_are_checked_one_after_the_other(tmp_path: Path) -> None:
    """Every reading begins with a check of its own."""

    def make_check() -> Callable[[dict[str, Any]], None]:
        seen: list[int] = []

        def check(row: dict[str, Any]) -> None:
            if row["a"] in seen:
                raise ValueError("says the same again")
            seen.append(row["a"])

        return check

    lines = JsonLines(tmp_path / "x.jsonl", make_check)
    for number in (1, 2):
        lines.append({"a": number})
    tail = lines.tail()
    assert len(lines.read()) == len(lines.read()) == len(list(tail.new())) == 2
    lines.append({"a": 1})
    with pytest.raises(DamagedFileError, match="line 3, is damaged: it says the same again"):
        lines.read()
    with pytest.raises(DamagedFileError, match="line 3"):
        list(tail.new())


@pytest.mark.parametrize("more", [0, 1, 9])
def test_a_file_that_was_cut_is_read_again_however_long_it_is_now(lines: JsonLines, more: int) -> None:
    """As a run does that goes back to its checkpoint between two looks at it."""
    rows: list[dict[str, float]] = [{"a": 1}, {"a": 22}, {"a": 333}]  # the fixture has written the first
    for row in rows[1:]:
        lines.append(row)
    tail = lines.tail()
    assert list(tail.new()) == rows
    assert not list(tail.new())
    lines.truncate(len(b'{"a": 1}\n'))
    rows[1:] = [{"a": 4.5 + i} for i in range(more)]
    for row in rows[1:]:
        lines.append(row)
    assert list(tail.new()) == rows
    lines.append({"a": 6})
    assert list(tail.new()) == [{"a": 6}]
