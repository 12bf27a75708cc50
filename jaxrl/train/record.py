"""The file that says what a sweep or a search was asked for and how far it is, so that it can be continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxrl.train.json_file import DamagedFileError, plain, read_json, write_json
from jaxrl.train.run_folder import RunFolder, config_to_json, describe_run

__all__ = ["Record"]


class Record:
    """One JSON file in a folder of its own.

    Args:
        path: The folder; None writes nothing.
        name: Of the file.
        config: The configuration from which all else is taken.
        plan: What else decides the outcome.
        num_seeds: For `describe_run`.

    Raises:
        ValueError: The folder holds one with another plan, or a damaged one.
        FileExistsError: It holds something else.
    """

    def __init__(self, path: str | Path | None, name: str, config: Any, plan: dict[str, Any], num_seeds: int) -> None:
        self.path = None if path is None else Path(path)
        if self.path is None:
            return
        self._file = self.path / name
        plan = plain(plan)
        self._about = describe_run(config, num_seeds) | plan
        if not self._file.is_file():
            RunFolder.create(self.path)
            self.write("running")
            return
        try:
            before = read_json(self._file)
        except DamagedFileError as error:
            raise DamagedFileError(f"{error} It cannot be continued; name another folder.") from error
        asked = {"config": config_to_json(config), "algorithm": self._about["algorithm"], **plan}
        differing = [name for name in asked if asked[name] != before.get(name)]
        if differing:
            raise ValueError(
                f"{self.path} holds a {self._file.stem} with another {', '.join(differing)}; repeat that one to "
                f"continue it, or name another folder."
            )

    def write(self, status: str, **content: Any) -> None:
        """Replace the file in one go.

        Raises:
            OSError: It is as it was.
        """
        if self.path is not None:
            write_json(self._file, {**self._about, "status": status, **content})
