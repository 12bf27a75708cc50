"""Carries out `jaxrl` commands that come as lines of JSON, and answers each with its exit code and what it has said."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback

from jaxrl.cli import main


def carry_out(words: list[str]) -> dict[str, int | str]:
    """One command, as if it had a process of its own."""
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception:
            traceback.print_exc()
            code = 1
    return {"code": code, "said": said.getvalue()}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(carry_out(json.loads(line))), flush=True)
