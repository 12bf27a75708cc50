"""What goes wrong with files is said with the reason, the place and the bytes."""

import errno
import os
import re
from pathlib import Path

import pytest

from jaxrl.train.folder.disk import check_writable, why


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.ENOENT, "No such file"), "its folder is missing, perhaps moved or removed"),
        (OSError(errno.ENOTDIR, "Not a directory"), "a file is where a folder is needed"),
        (ValueError("RESOURCE_EXHAUSTED: Error writing\nNo space left on device [OS error 28]"), "the disk is full"),
        (OSError(errno.EROFS, "x"), "the file system is read-only"),
        (PermissionError(errno.EACCES, "x"), "writing there is not allowed"),
        (ValueError("Something else.\nA long tale"), "Something else"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_reason_is_found(error: Exception, reason: str, tmp_path: Path) -> None:
    assert re.fullmatch(rf"{reason} \([\d.]+ [kMG]B are free in .*\)", why(error, tmp_path / "not" / "yet"))


def test_bytes_are_named(tmp_path: Path) -> None:
    text = why(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), tmp_path, needed=3_200_000)
    assert "the disk is full (up to 3.2 MB are needed, " in text


def test_a_folder_is_tried_before_it_is_used(tmp_path: Path) -> None:
    check_writable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match=r"Nothing can be written in .*Choose another --run-dir"):
        check_writable(tmp_path / "missing")
