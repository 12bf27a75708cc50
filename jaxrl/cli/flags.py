"""Flags that several commands share, and how they and the fields of a configuration are read from a command line."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import shlex
import shutil
import sys
import textwrap
import types
import typing
from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from jaxrl import algos
from jaxrl.cli.common import WHOLE, apart, has_accelerator
from jaxrl.cli.config_file import read_flag_file
from jaxrl.cli.hosts import HostFlags
from jaxrl.config import settled
from jaxrl.errors import UnknownNameError, check_synonyms, nearest
from jaxrl.train.folder.run_folder import config_to_json
from jaxrl.train.loggers import Kind, Names

__all__ = [
    "BaseFlags",
    "LoggerFlags",
    "MeshFlags",
    "RecordFlags",
    "RunFlags",
    "StartFlags",
    "TrustFlags",
    "given_fields",
    "help_text",
    "parse_flags",
    "preset_chosen",
    "value_in",
]


@dataclasses.dataclass(frozen=True)
class BaseFlags:
    """What the other flags override."""

    preset: str | None = None
    """Named defaults of the algorithm; left out, those that suit --env best."""
    config: Path | None = None
    """Flags in a file, in YAML or JSON, or a run with its configuration; they override those of the preset."""


@dataclasses.dataclass(frozen=True)
class MeshFlags:
    """Devices along each axis."""

    member: int = 0
    """Devices to spread the seeds over; 0 chooses automatically."""
    data: int = 0
    """Devices to spread the environments of a seed over; 0 chooses automatically."""


@dataclasses.dataclass(frozen=True)
class LoggerFlags:
    """Where metrics go."""

    logger: Kind = "jsonl"
    """Logger in addition to metrics.jsonl. wandb stays offline unless you are logged in."""
    logger_names: Names = "jaxrl"
    """The logger's names for metrics; the tools of Open RL Benchmark read cleanrl."""
    logger_per_seed: bool = False
    """One wandb run or TensorBoard folder for each seed, instead of one with the mean over all of them."""

    def chosen_logger(self) -> dict[str, Any]:
        """The fields of `LoggerOptions`."""
        return {"kind": self.logger, "names": self.logger_names, "per_seed": self.logger_per_seed}


@dataclasses.dataclass(frozen=True)
class TrustFlags:
    """Whose code may be executed."""

    trust: bool = False
    """Execute the modules that other runs given here name, such as a partner's, although they are not part of jaxrl and
    the runs were not made here."""

    def vouch_for(self, config: Any) -> None:
        """Load what may be executed, so that the environment of the config can have it.

        Raises:
            ValueError: No flag names a run to trust.
        """
        if not self.trust:
            return
        from jaxrl.train.folder.load import load_met

        named = self._named_runs(config)
        if not any(named.values()):
            raise ValueError(f"--trust needs a run: {' or '.join(named) or 'no flag here names one'}.")
        load_met(getattr(config, "policies", ()))

    def _named_runs(self, config: Any) -> dict[str, bool]:
        """The flags that can name other runs, and whether they do."""
        from jaxrl.wrappers.players import fixed_runs

        return {"--policies PATTERN=RUN": bool(fixed_runs(config.policies))} if hasattr(config, "policies") else {}


@dataclasses.dataclass(frozen=True)
class StartFlags(TrustFlags):
    """Parameters to start from."""

    init_from: Path | None = None
    """Start from the parameters of this run, which must have the same spaces and networks. RUN:2 is the seed with index
    2."""
    init_learner: bool = False
    """With --init-from: take over the optimiser and the normalisers too."""
    init_best: bool = False
    """With --init-from: start from its best checkpoint instead of its last one."""
    init_member: int | None = None
    """With --init-from: the index of the seed to start from in a run with several."""

    def chosen_start(self) -> Any:
        """The `InitFrom` that they stand for; None without a run.

        Raises:
            ValueError: A flag needs a run.
        """
        given = (self.init_learner, self.init_best, self.init_member)
        if self.init_from is None:
            if given != (False, False, None):
                raise ValueError("--init-learner, --init-best and --init-member need a run: --init-from RUN.")
            return None
        from jaxrl.train.start import InitFrom

        return InitFrom(self.init_from, *given, self.trust)

    def _named_runs(self, config: Any) -> dict[str, bool]:
        return {**super()._named_runs(config), "--init-from RUN": self.init_from is not None}


@dataclasses.dataclass(frozen=True)
class RecordFlags:
    """Rows, evaluations and checkpoints while it trains."""

    log_every: int | None = None
    """Updates per row of metrics.jsonl; left out, there are at most 500 rows."""
    eval_episodes: int = 512
    """Episodes per evaluation."""
    checkpoint_every_updates: int | None = None
    """Updates between checkpoints, in addition to those by time; one is always saved at the end."""
    checkpoint_every_minutes: float | None = None
    """Minutes between checkpoints; left out, 5."""
    quiet: bool = False
    """Show nothing during training."""


@dataclasses.dataclass(frozen=True)
class RunFlags(RecordFlags, StartFlags, LoggerFlags, BaseFlags):
    """The training: seeds, devices, folder and pictures."""

    num_seeds: int = 1
    """Seeds to train side by side; the m-th has seed + m."""
    mesh: MeshFlags = dataclasses.field(default_factory=MeshFlags)
    """Devices to use; left out, as many of the visible ones as possible."""
    run_dir: Path | None = None
    """Output folder; a new one under runs/ if left out."""
    eval_every: int | None = None
    """Updates between greedy evaluations; left out, there is one at the start and one at the end."""
    stop_at: float | None = None
    """End training when a greedy evaluation reaches this win rate (or return, where there is no win rate), averaged
    over the seeds. Without --eval-every there are then 20 evaluations."""
    keep_checkpoints: int = 3
    """Number of the newest checkpoints to keep."""
    on_nan: Literal["stop", "skip"] = "stop"
    """When losses or parameters are not finite: end training, or skip that update and continue."""
    time_split: bool = False
    """First measure how much of training is rollout and how much optimisation; compiles one more program."""
    pictures: bool = True
    """Make curve.png, replay.gif and replay.html at the end."""
    hosts: Annotated[HostFlags, tyro.conf.arg(name="")] = dataclasses.field(default_factory=HostFlags)
    """Other processes of the same run."""

    def options(self) -> dict[str, Any]:
        """The options of `fit` that they stand for, except for the folder."""
        apart = ("preset", "config", "run_dir", "logger_names", "logger_per_seed", "hosts", "trust")
        own = {name: value for name, value in vars(self).items() if name not in apart and not name.startswith("init_")}
        mesh = (self.mesh.member, self.mesh.data)
        return {**own, "logger": self.chosen_logger(), "mesh": mesh, "init_from": self.chosen_start()}


_RARE = """
params reset pool_size pool_refresh num_shards log_info squash torso memory_window channels head_hidden weight_decay
sequence_length value_range critic_hidden clip_value anneal_ent target_kl value_loss policies policy_hyperparams
other_play shared_reward agents_per_step central_critic joint_critic pessimism policy_delay num_critics critic_subset
prior_share priority_exponent priority_correction random_start
target_update_interval burn_in checkpoint_replay dueling double trust init_learner init_best init_member logger_names
logger_per_seed eval_episodes checkpoint_every_updates checkpoint_every_minutes keep_checkpoints log_every on_nan
time_split max_members member data distributed coordinator num_processes process_id memory_gb
"""
"""The flags that only `--help all` shows."""


def help_text(title: str, about: str, parts: tuple[Any, ...], everything: bool) -> str:
    """The flags that stand for the fields of some dataclasses, grouped by the class that has them, with their defaults.

    Args:
        title: The command.
        about: What it does.
        parts: Dataclasses with the defaults.
        everything: Show rare flags too, and the whole text of each; otherwise its first sentence.
    """
    width = min(shutil.get_terminal_size().columns, 120)
    lines = [f"usage: {title} [flags]", "", about, ""]
    for heading, flags in _groups(parts, "").items():
        shown = [flag for flag in flags if everything or flag.field not in _RARE.split()]
        lines += [heading, *(line for flag in shown for line in flag.lines(width, everything)), ""] if shown else []
    lines.append("" if everything else f"`{title} --help all` shows the rare flags, too.")
    return "\n".join(lines).rstrip() + "\n"


class _Flag(NamedTuple):
    """A flag in a help."""

    field: str
    prefix: str
    hint: Any
    default: Any
    text: str

    def lines(self, width: int, everything: bool) -> list[str]:
        """The flag, and beside or below it what it means."""
        name = self.prefix + self.field.replace("_", "-")
        flag = f"--{name}, --no-{name}" if self.hint is bool else f"--{name} {_form(self.hint)}"
        value = " ".join(map(str, self.default)) if isinstance(self.default, tuple) else self.default
        default = "" if value in (None, "") else f" (default: {value})"
        text = self.text if everything else self.text.split(". ")[0]
        words = textwrap.wrap(text + default, max(width - 28, 20), break_on_hyphens=False)
        first = [f"  {flag:<25} {words[0] if words else ''}"] if len(flag) <= 25 else [f"  {flag}", *words[:1]]
        return [*first[:1], *(f"{'':28}{line}" for line in [*first[1:], *words[1:]])]


def _groups(parts: tuple[Any, ...], prefix: str) -> dict[str, list[_Flag]]:
    """The flags under the first line of the docstring of the most general class that has them."""
    groups: dict[str, list[_Flag]] = {}
    for part in parts:
        hints, texts = typing.get_type_hints(type(part)), _docstrings(type(part))
        owner = {name: kind for kind in type(part).__mro__ for name in vars(kind).get("__annotations__", ())}
        general_first = {kind: place for place, kind in enumerate(reversed(type(part).__mro__))}
        for field in sorted(dataclasses.fields(part), key=lambda field: general_first[owner[field.name]]):
            value = getattr(part, field.name)
            if dataclasses.is_dataclass(value):
                groups |= _groups((value,), "" if isinstance(value, HostFlags) else f"{field.name}.")
                continue
            heading = (owner[field.name].__doc__ or owner[field.name].__name__).split(". ")[0].split("\n\n")[0]
            flag = _Flag(field.name, prefix, hints[field.name], value, texts.get(field.name, ""))
            groups.setdefault(" ".join(heading.split()), []).append(flag)
    return groups


@functools.cache
def _docstrings(kind: type) -> dict[str, str]:
    """The text below each field of a class, or of a class that it is derived from."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        try:
            [body] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        except (OSError, TypeError, SyntaxError, ValueError):  # a class that was made without a source
            continue
        for field, text in itertools.pairwise(getattr(body, "body", ())):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found


def _form(hint: Any) -> str:
    """The form of a flag's value."""
    origin, arms = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return f"{{{','.join(map(str, arms))}}}"
    if origin in (typing.Union, types.UnionType):
        return "|".join(dict.fromkeys(_form(arm) for arm in arms if arm is not type(None)))
    if origin is tuple:
        return f"[{_form(arms[0])} ...]" if arms[-1] is Ellipsis else " ".join(map(_form, arms))
    return {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}.get(hint, "VALUE")


def parse_flags(
    name: str,
    module: ModuleType,
    argv: list[str],
    flags: Any = RunFlags(),
    command: str = "train",
    tried: Collection[str] = (),
) -> tuple[Any, Any]:
    """Parse the algorithm's config and the command's own flags (with their defaults) from one flat list of flags.

    Flags in the file of --config come before those that are typed, which override them. Without --preset, it is the one
    that suits the environment; `preset` of the returned flags says which. Values of a preset or of the file that have
    no effect with flags that override it go back to their defaults. Flags that are `tried` with several values are
    ignored for this.
    """
    # The preset decides the defaults of all other flags, so it is needed first.
    presets: dict[str, Any] = module.PRESETS
    given = given_fields(argv)
    file = read_flag_file(value_in(argv, "--config"), given)
    preset = value_in(argv, "--preset") or file.values.get("preset")
    if preset is not None and str(preset) not in presets:
        raise UnknownNameError(f"{name} has no preset {preset!r}. {nearest(str(preset), list(presets))}")
    if preset is None:  # several environments are compared with the same settings
        env = value_in(argv, "--env") or str(file.values.get("env") or module.Config().env)
        # A sweep fills an accelerator with its members, and a process that joins others must do so before JAX starts.
        alone = command in ("train", "plan", "config") and "distributed" not in {*given, *file.values}
        preset = "default" if "env" in tried else algos.preset_for(presets, env, lambda: alone and has_accelerator())
    default = presets[preset] if preset in presets else module.Config()
    flags = dataclasses.replace(flags, preset=preset)
    config_type = Annotated[type(default), tyro.conf.arg(name="")]
    run_type = Annotated[type(flags), tyro.conf.arg(name="")]

    # Help, and mistakes about which tyro would say less.
    if asked := {"-h", "--help"} & set(argv):
        about = f"{(module.__doc__ or name).strip()}\n\nPresets: {', '.join(presets)}."
        everything = argv[argv.index(asked.pop()) + 1 :][:1] == ["all"]
        print(help_text(f"jaxrl {command} {name}", about, (default, flags), everything), end="")
        sys.exit(0)
    _check_values(argv, (default, flags))
    _check_names(name, default, flags, command)
    config_to_json(default)  # or a field that run.json cannot hold would surprise tyro
    check_synonyms(given, {field.name for each in (default, flags) for field in dataclasses.fields(each)})

    # The configuration and the command's own flags are one flat list, in which the last of several values counts.
    known = {flag.prefix + flag.field: flag.hint for group in _groups((default, flags), "").values() for flag in group}
    written = file.words({flag: hint for flag, hint in known.items() if flag not in ("config", "trust")})
    arguments = dataclasses.make_dataclass(
        "Arguments", [("config", config_type, default), ("run", run_type, flags)], frozen=True
    )
    parsed = tyro.cli(arguments, args=[*written, *argv], prog=f"jaxrl {command} {name}", registry=WHOLE)
    parsed.run.vouch_for(parsed.config)
    config = settled(parsed.config, given - set(tried), given)
    return settled(config, file.values.keys() - set(tried), {*file.values, *given}), parsed.run


def _check_names(name: str, config: Any, flags: Any, command: str) -> None:
    """Raise TypeError if a field of an algorithm has the name of one of the command's own flags."""
    # Those of --hosts have no prefix.
    taken = {field.name for part in (flags, HostFlags()) for field in dataclasses.fields(part)}
    for field in dataclasses.fields(config):
        if field.name in taken:
            flag = f"--{field.name.replace('_', '-')}"
            raise TypeError(
                f"{name} has a field {field.name}, and {flag} is a flag of `jaxrl {command}` itself; give the field "
                f"another name."
            )


def _check_values(argv: list[str], parts: tuple[Any, ...]) -> None:
    """Raise ValueError for an environment without its flag, a switch with True or False, and numbers with commas."""
    if argv and not argv[0].startswith("-"):
        raise ValueError(f"{argv[0]} stands without a flag; did you mean --env {shlex.quote(argv[0])}?")
    fields = [(f, getattr(part, f.name)) for part in parts for f in dataclasses.fields(part)]
    switches = {f.name for f, default in fields if isinstance(default, bool)}
    numbers = {f.name for f, _ in fields if str(f.type) in ("tuple[int, ...]", "tuple[float, ...]")}
    for word, value in itertools.pairwise([*argv, ""]):
        flag, _, joined = word.partition("=")
        field = flag.removeprefix("--").replace("-", "_")
        said = (joined or value).lower()
        if flag.startswith("--") and field in switches and said in ("true", "false"):
            meant = flag if said == "true" else f"--no-{flag[2:]}"
            raise ValueError(f"{flag} takes no value; {meant} says it.")
        if flag.startswith("--") and field in numbers and "," in said:
            raise apart(flag, said)


def preset_chosen(name: str, preset: Any, config: Any, given: Collection[str]) -> str:
    """A sentence about the preset that an environment has chosen, and which of its values have no effect there.

    Args:
        name: The name of the preset.
        preset: The preset.
        config: The config that the preset, the flags and the environment give together.
        given: The fields that flags have replaced.
    """
    fields = [field.name for field in dataclasses.fields(preset) if field.name not in {*given, "env"}]
    idle = [f"{each}={getattr(preset, each)}" for each in fields if getattr(preset, each) != getattr(config, each)]
    but = f", without {', '.join(idle)}, which would have no effect here" if idle else ""
    return f"Uses the preset {name}, which suits {config.env}{but}; --preset default takes the general defaults."


def given_fields(argv: list[str]) -> set[str]:
    """The field names of the flags on a command line; `--no-anneal-lr` gives `anneal_lr`."""
    names = [word[2:].partition("=")[0].replace("-", "_") for word in argv if word.startswith("--")]
    return {*names, *(name.removeprefix("no_") for name in names)}


def value_in(argv: list[str], flag: str) -> str | None:
    """The last value of a flag that is needed before parsing, because the defaults of other flags depend on it."""
    value = None
    for word, following in itertools.pairwise([*argv, ""]):
        if word == flag:
            value = following
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value or None
