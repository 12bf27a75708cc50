"""Two processes never train in the same folder."""

from pathlib import Path

import pytest

from jaxrl.train.lock import locked


def test_a_folder_is_locked_once_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(FileExistsError, match="Another process is training in"), locked(tmp_path):
        pass
    with locked(tmp_path):  # free again
        pass


def test_no_folder_needs_no_lock() -> None:
    with locked(None), locked(None):
        pass
