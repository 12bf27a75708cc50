"""The pages that people read, and what the tests need of them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "baselines").glob("**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def name(path: Path) -> str:
    """`docs/ppo.md`."""
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return [code for found, code in FENCE.findall(path.read_text(encoding="utf-8")) if found == language]


def shell_lines(text: str) -> list[str]:
    """The commands of a page: lines of shell blocks and of indented ones, without comments, continued lines joined."""
    shown = [code for language, code in FENCE.findall(text) if language in ("bash", "text")]
    shown += re.findall(r"(?:^ {4}.*\n)+", FENCE.sub("", text), re.M)
    lines = "\n".join(shown).replace("\\\n", " ").splitlines()
    return [re.sub(r"(^|\s)#.*", "", line).strip(" $") for line in lines]


def spans(text: str) -> list[str]:
    """What stands between backticks in the prose."""
    return [span.replace("\n", " ") for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text))]
