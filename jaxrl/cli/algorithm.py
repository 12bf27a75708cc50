"""The algorithm that `jaxrl train`, `sweep`, `search` and `plan` take as their first word."""

from __future__ import annotations

from jaxrl import algos

__all__ = ["named_algorithm"]


def named_algorithm(argv: list[str], command: str, usage: str) -> str | None:
    """The algorithm named first on a command line; None if the line asks for help instead, which is then printed.

    Args:
        argv: The words after the command.
        command: The command, such as `"train"`.
        usage: The help, with `{names}` where the names of the algorithms go.

    Raises:
        ValueError: The line neither names an algorithm nor asks for help.
    """
    if argv and not argv[0].startswith("-"):
        return argv[0]
    names = ", ".join(algos.names())
    if not {"-h", "--help"} & set(argv):
        raise ValueError(f"Say which algorithm: jaxrl {command} ALGO, where ALGO is one of {names}.")
    print(usage.format(names=names), end="")
    return None
