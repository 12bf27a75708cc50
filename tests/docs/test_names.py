"""Every file, link, command, option and module that a page names exists."""

import contextlib
import functools
import importlib
import io
import re
import subprocess
from pathlib import Path

import pytest
from pages import PAGES, ROOT, name, shell_lines, spans

from jaxrl import algos
from jaxrl.cli import _COMMANDS, main

# Names of other projects' files and flags, which pages name for comparison.
THEIRS = {
    *("cleanrl/ppo.py", "ppo_atari.py", "ppo_continuous_action.py", "ppo_lstm.py", "ppo_trxl.py"),
    *("sac_continuous_action.py", "td3_continuous_action.py"),
    *("ippo_ff_hanabi.py", "ippo_ff_mpe.py", "ippo_ff_overcooked.py", "ippo_rnn_smax.py", "mappo_rnn_smax.py"),
    *("iql_rnn.py", "vdn_rnn.py", "vdn_ff.py", "qmix_rnn.py", "pqn_vdn_rnn.py", "pqn_vdn_ff.py"),
    *(
        f"baselines/{path}"
        for path in (
            "IPPO/ippo_ff_mpe.py",
            "IPPO/ippo_ff_overcooked.py",
            "IPPO/ippo_rnn_smax.py",
            "MAPPO/mappo_rnn_smax.py",
        )
    ),
    *("--env-id", "--learning-rate", "--clip-coef", "--clip-vloss", "--norm-adv", "--track", "--capture-video"),
    *("--start-e", "--end-e", "--exploration-fraction", "--train-frequency", "--target-network-frequency"),
    *("--policy-lr", "--q-lr", "--policy-frequency", "--autotune"),
    *(
        "--requeue",
        "--signal",
        "--xla_gpu_deterministic_ops",
        "--logdir",
        "--headless",
        "--screenshot",
        "--window-size",
    ),
}
WRITTEN = {"table.md"}  # by a report
EXAMPLE = re.compile(r"(^|/)my_|[<>$*…]|NAME|RUN|ALGO|FILE|MyEnv")  # names that a reader is to replace
ALGORITHMS = algos.names()
COMMANDS_OF_ALGORITHMS = ("train", "sweep", "search", "plan", "config")

every_page = pytest.mark.parametrize("path", PAGES, ids=name)


@functools.cache
def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for path in done.stdout.splitlines() if (ROOT / path).exists()]


def missing_files(text: str) -> list[str]:
    """The paths in backticks that lead nowhere.

    A path begins at the root, with one of its folders. A file's bare name may be that of any file of the repository.
    """
    tops = {path.partition("/")[0] for path in tracked()}
    names = {path.rpartition("/")[2] for path in tracked()}
    wrong = []
    for token in {word.strip("\"'(),;:.") for code in [*spans(text), *shell_lines(text)] for word in code.split()}:
        if token in THEIRS | WRITTEN or EXAMPLE.search(token) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", token):
            continue
        if "/" in token and token.partition("/")[0] in tops:
            wrong += [] if (ROOT / token).exists() else [token]
        elif re.search(r"\.(py|md|ipynb)$", token):
            wrong += [] if token in names else [token]
    return wrong


def broken_links(path: Path, text: str) -> list[str]:
    """Links to files or headings that do not exist."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+://", target):
            continue
        place, _, anchor = target.partition("#")
        page = (path.parent / place).resolve() if place else path
        if not page.exists() or (anchor and anchor not in headings(page)):
            wrong.append(target)
    return wrong


def headings(path: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@functools.cache
def options(*command: str) -> set[str]:
    """The flags that `jaxrl COMMAND --help all` shows."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*command, "--help", *(["all"] if len(command) > 1 else [])])
    return set(re.findall(r"--[a-z0-9]+(?:[-.][a-z0-9]+)*", out.getvalue()))


@functools.cache
def all_options() -> set[str]:
    """The flags of all commands and of the scripts under baselines."""
    commands = [(c, a) for c in COMMANDS_OF_ALGORITHMS for a in ALGORITHMS]
    commands += [(c,) for c in _COMMANDS if c not in COMMANDS_OF_ALGORITHMS]
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "baselines").glob("**/*.py"))
    return set().union(*(options(*c) for c in commands), re.findall(r'add_argument\("(--[\w-]+)"', scripts))


def wrong_commands(text: str) -> list[str]:
    """Commands of jaxrl and targets of make that do not exist, and flags that a command does not have."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wrong = []
    for line in [*shell_lines(text), *spans(text)]:
        for part in re.split(r"[;|>]|&&", line):
            words = part.split()
            if words[:1] == ["make"] and len(words) == 2:
                wrong += [] if re.search(rf"^{re.escape(words[1])}:", makefile, re.M) else [part]
            if words[:1] == ["python"] and len(words) > 2 and not EXAMPLE.search(words[1]):
                wrong += wrong_flags_of_script(words[1], words[2:])
            if "jaxrl" in words and len(words) > words.index("jaxrl") + 1 and words[0] in ("jaxrl", "do", "exec"):
                wrong += wrong_flags(words[words.index("jaxrl") + 1 :])
    return wrong


def wrong_flags(words: list[str]) -> list[str]:
    """What is wrong with the words after `jaxrl`."""
    command, flags = words[0], {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    if command.startswith("-") or EXAMPLE.search(command) or "COMMAND" in command:
        return []
    if command not in _COMMANDS:
        return [f"jaxrl {command}"]
    if command == "launch" and "--" in words:  # the rest is another command's
        at = words.index("--")
        return wrong_flags(["launch", *words[1:at]]) + wrong_flags(words[at + 1 :])
    known = options(command)
    if command in COMMANDS_OF_ALGORITHMS:
        algorithms = [word for word in words[1:2] if word in ALGORITHMS] or ALGORITHMS
        known = set().union(*(options(command, algorithm) for algorithm in algorithms))
    return [f"jaxrl {command} {flag}" for flag in sorted(flags - known - {"--help"})]


def wrong_flags_of_script(script: str, words: list[str]) -> list[str]:
    """What is wrong with the words after `python SCRIPT`; missing scripts are found as files."""
    flags = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
    if script.startswith("algos/"):
        return wrong_flags(["train", Path(script).stem, *flags])
    if script.startswith("-") or not (ROOT / script).is_file():
        return []
    known = re.findall(r'add_argument\("(--[\w-]+)"', (ROOT / script).read_text(encoding="utf-8"))
    return [f"python {script} {flag}" for flag in sorted(flags - set(known))]


def unknown_flags(text: str) -> list[str]:
    """Flags in backticks, standing alone, that no command has."""
    named = {span.split()[0].partition("=")[0] for span in spans(text) if re.match(r"--[a-z]", span)}
    return sorted(named - all_options() - THEIRS)


def unknown_modules(text: str) -> list[str]:
    """Dotted names in backticks, such as `jaxrl.rl.advantage`, that cannot be imported."""
    return [
        word
        for word in {word for span in spans(text) for word in re.findall(r"(?<![\w./])jaxrl(?:\.[a-z]\w*)+", span)}
        if not importable(word) and word != "jaxrl.envs"
    ]


def importable(dotted: str) -> bool:
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[size:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@every_page
def test_what_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert missing_files(text) == []
    assert broken_links(path, text) == []
    assert wrong_commands(text) == []
    assert unknown_flags(text) == []
    assert unknown_modules(text) == []


def test_no_page_counts_the_lines_of_a_file() -> None:
    counted = [name(p) for p in PAGES if re.search(r"`[\w/]+\.py`, \d+ lines", p.read_text(encoding="utf-8"))]
    assert counted == []


def test_mistakes_are_found() -> None:
    text = """Read `jaxrl/algos/pppo.py`, `test_nothing.py` or `python baselines/lost.py`; `my_ppo.py` and `runs/a` are
examples. See [this](docs/lost.md), [that](docs/ppo.md#nowhere) and [there](docs/ppo.md#equations).
Flags: `--learning-rats`, `--lr 1e-3`; modules: `jaxrl.rl.advantages`, `jaxrl.rl.advantage.gae`.
`jaxrl trian ippo`, `make tests` or `python baselines/reached.py RUN --wins 0.9`.

```bash
jaxrl train ppo --env CartPole-v1 --sharing all   # only teams share
jaxrl render runs/a --fps 3
python algos/nothing.py --env smax/3m
jaxrl launch --slurm --nodes 2 -- train ippo --evn smax/3m
make docs
```
"""
    assert sorted(missing_files(text)) == [
        *("algos/nothing.py", "baselines/lost.py", "jaxrl/algos/pppo.py", "test_nothing.py"),
    ]
    assert broken_links(ROOT / "README.md", text) == ["docs/lost.md", "docs/ppo.md#nowhere"]
    assert sorted(wrong_commands(text)) == [
        *("jaxrl render --fps", "jaxrl train --evn", "jaxrl train --sharing", "jaxrl trian", "make tests"),
        "python baselines/reached.py --wins",
    ]
    assert unknown_flags(text) == ["--learning-rats"]
    assert unknown_modules(text) == ["jaxrl.rl.advantages"]
