"""Open a run again: its folder says what it is, its checkpoint what it has learned."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from jaxrl.algorithm import Algorithm
from jaxrl.config import settled
from jaxrl.deploy.policy import Policy
from jaxrl.environment import Environment
from jaxrl.errors import CheckpointError
from jaxrl.train.folder.checkpoint import CheckpointReader, Restored
from jaxrl.train.folder.json_file import infinities_as_text
from jaxrl.train.folder.json_lines import check_lengths
from jaxrl.train.folder.run_folder import RunFolder, config_from_json, latest_run
from jaxrl.train.folder.sources import changed
from jaxrl.train.folder.trust import data_asked_for, load_code
from jaxrl.train.members import best_member, member_of, traced_fields
from jaxrl.train.programs import initial_state, member_keys
from jaxrl.wrappers.players import fixed_runs, member_named, runs_near

__all__ = ["Run", "load", "load_met"]


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A run in a folder, ready for use; see `load`. The folder is only read."""

    folder: RunFolder
    about: dict[str, Any]
    """The content of run.json."""
    module: ModuleType
    """The algorithm's module."""
    config: Any
    """The configuration that all members share; for a `member`, with its own seed and hyperparameters."""
    algo: Algorithm
    env: Environment
    checkpoint: Callable[[], Restored]
    """Reads the checkpoint, once."""
    index: int | None = None
    """The number of this member, if the run has several and one of them was chosen."""
    trusted: bool = False
    """True if the user vouches for everything that run.json names; see `load`."""

    def __repr__(self) -> str:
        about, count = self.about, self.num_members
        several = f"{count} {'members' if about['members'] else 'seeds'}"
        whose = several if count > 1 else f"seed {self.config.seed}"
        return f"Run: {about['algorithm']} on {about['env']}, {whose}, {about['status']}, in {self.folder.path}"

    @property
    def num_members(self) -> int:
        """M, the seeds or members that `state` holds."""
        return self.about["num_seeds"] if self.index is None else 1

    @functools.cached_property
    def state(self) -> Any:
        """The train state of the checkpoint; with several seeds its leaves are `[M, …]`.

        Raises:
            CheckpointError: There is none, none is good, or it does not fit the config in run.json.
            ValueError: It is the population of a search, which only that search can load.
        """
        with jax.ensure_compile_time_eval():  # the first to ask may be code that JAX traces, and the state is kept
            state = self.checkpoint().state
            return state if self.index is None else member_of(state, self.index)

    @functools.cached_property
    def policy(self) -> Policy:
        """The policy of a run with one seed, or of a `member`.

        Raises:
            CheckpointError: See `state`.
            ValueError: There are several seeds.
        """
        if self.num_members > 1:
            raise ValueError(
                f"{self.folder.path} holds {self.num_members} seeds, and each has its own policy; choose one by "
                f"run.member(0).policy, or the best by run.member().policy."
            )
        with jax.ensure_compile_time_eval():
            return Policy(self.algo, self.env, self.state)

    @property
    def best_index(self) -> int:
        """The member that `member` takes for None.

        Raises:
            CheckpointError: The evaluation beside the state is of another number of members.
        """
        evaluation = self.checkpoint().extra.get("evaluation") or self.about.get("evaluation")
        if not evaluation or self.num_members == 1:
            return 0
        try:
            check_lengths([evaluation], self.num_members)
        except ValueError as error:
            raise CheckpointError(f"A checkpoint in {self.folder.path} was changed by hand: {error}.") from error
        return best_member(evaluation, self.about.get("diverged"), self.about["config"].get("league"))

    def member(self, index: int | None = None) -> Run:
        """The run of one seed or member out of several: its `state` has no axis of members.

        Args:
            index: The member, from 0. None takes the one with the best score in the final evaluation or, for
                `load(…, best=True)`, in the evaluation of that state; the first one if there was none. Of a league,
                only main members count.

        Raises:
            ValueError: There is no such member, or this run is another one of several already.
        """
        count = self.num_members
        if self.index is not None:
            if index not in (None, self.index):
                raise ValueError(f"{self.folder.path} is named with :{self.index} and with member={index}; drop one.")
            return self
        index = self.best_index if index is None else index
        if not 0 <= index < count:
            raise ValueError(f"member must be from 0 to {count - 1} in {self.folder.path}, got {index}.")
        if count == 1 and not self.about["members"]:
            return self
        own = self.about["members"][index] if self.about["members"] else {"seed": self.config.seed + index}
        config = dataclasses.replace(self.config, **own)
        # An algorithm made from the member's own values trains with them; members that differ in the seed share one.
        algo = self.algo if own.keys() <= {"seed"} else self.module.make(config)
        return dataclasses.replace(self, config=config, algo=algo, index=index if count > 1 else None)


def load(path: str | Path | None = None, *, best: bool = False, trust: bool = False) -> Run:
    """The run in a folder, or the latest one in runs/ for None: its `config`, `state` and `policy`.

    Args:
        path: The folder, which is only read. `"RUN:2"` is its seed or member with index 2.
        best: Whether to take the state that had the best score in an evaluation during training (they are made with
            `eval_every`), instead of the last one.
        trust: Whether the folder, and those of runs that its policies have met, may name a module to import that is not
            one of jaxrl's algorithms, although this user has not made the run on this machine.

    Raises:
        FileNotFoundError: There is no run, or no best state was kept, or its code reads a file that was not kept.
        UntrustedRunError: Code would be executed that nobody has vouched for.
        ValueError: run.json is damaged, or describes a run that cannot be made here.
    """
    # The code, which is checked before any of it runs.
    path, index = (latest_run(), None) if path is None else member_named(path)
    folder = RunFolder.open(path)
    about = folder.read()
    code = load_code(about, folder.path, trust)
    for sentence in changed(about) if code.own else ():
        print(sentence, file=sys.stderr)
    if trust:
        RunFolder.trusted.add(folder.path.resolve())
    if best and not folder.best.exists():
        raise FileNotFoundError(f"{folder.path} has no best checkpoint: they are kept when --eval-every is given.")
    # The config and the members, as numbers for that code.
    module = sys.modules[code.config_class.__module__]
    with _in_a_sentence(folder.path), data_asked_for(about, folder.path):
        # Fields that had no effect then would be refused now, so they are left out.
        content = {"env": about["env"], **about["config"], **code.names}
        if content.get("policies"):
            content["policies"] = list(runs_near(content["policies"], folder.path))
            if trust:
                load_met(content["policies"])
        config = settled(config_from_json(code.config_class, content))
        free = {"seed", *traced_fields(config)}
        for own in about["members"] or ():
            config_from_json(code.config_class, {**about["config"], **infinities_as_text(own)})
            if fixed := sorted(own.keys() - free):
                raise ValueError(f"its members differ in {', '.join(fixed)}, and members have their own {sorted(free)}")
        algo = module.make(config)
        checkpoint = functools.cache(lambda: _restored(folder, about, algo, best))
        run = Run(folder, about, module, config, algo, config.make_env(), checkpoint, trusted=code.trusted)
    return run if index is None else run.member(index)


def load_met(policies: Iterable[str]) -> None:
    """Load the runs that a config's `policies` hold fixed, trusting them: what a process has imported it may use."""
    for name in fixed_runs(policies):
        load(name, trust=True)


def _restored(folder: RunFolder, about: dict[str, Any], algo: Algorithm, best: bool) -> Restored:
    """The newest good checkpoint, or the best one."""
    if "generations" in about.get("population", ()):
        raise ValueError(
            f"{folder.path} holds the population of a search, which only the search can load; its best is trained "
            f"again in {folder.path.absolute().parent.parent / 'test'}."
        )
    members = about["num_seeds"]
    with _in_a_sentence(folder.path):
        keys = jax.eval_shape(lambda: member_keys(0, members))
        shape = jax.eval_shape(partial(initial_state, algo, members), keys)
    return CheckpointReader(folder.best if best else folder.checkpoints).restore(shape)


@contextlib.contextmanager
def _in_a_sentence(path: Path) -> Iterator[None]:
    """Turn any error from a config of another version, or a changed one, into a sentence."""
    try:
        yield
    except (ImportError, FileNotFoundError):  # they name the package and the line that installs it, or the file
        raise
    except Exception as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0].rstrip(".")
        raise ValueError(f"The run in {path} cannot be made again here: {reason}.") from error
