"""The train state that a run starts from: a fresh one, one that takes over what another run learned, or any state."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr

from jaxrl.algorithm import Algorithm, RunConfig, field_names
from jaxrl.config import typed
from jaxrl.keys import abstract_key
from jaxrl.source_file import algorithm_name
from jaxrl.train.devices import hosts
from jaxrl.train.folder.load import Run, load
from jaxrl.train.folder.run_folder import config_to_json
from jaxrl.train.folder.same_run import differences
from jaxrl.train.members import Members, member_of, traced_fields
from jaxrl.train.programs import Programs, initial_state

__all__ = ["InitFrom", "Start", "check_fits", "in_env", "learned_parts", "what_fits"]


@dataclasses.dataclass(frozen=True)
class InitFrom:
    """Another run, and what to take over from it."""

    run: str | Path
    """Its folder. An index after a colon selects one of its seeds, as `member` does."""
    learner: bool = False
    """Take over everything that updates learn, with the optimiser and the normalisers, instead of parameters only."""
    best: bool = False
    """From its best checkpoint instead of its last one."""
    member: int | None = None
    """The index of the seed in a run with several. None: with as many seeds here as there, each starts from its own;
    otherwise all start from the one that is best in the final evaluation or, with `best`, in that of the best state."""
    trust: bool = False
    """Execute the module that the run names, although it is not part of jaxrl and the run was not made here."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", str(Path(self.run).absolute()))
        for name, hint in (("learner", bool), ("best", bool), ("member", int | None), ("trust", bool)):
            object.__setattr__(self, name, typed(f"init_from: {name}", hint, getattr(self, name)))

    def to_json(self) -> dict[str, Any]:
        """For run.json, which does not say whom to trust."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "trust"}


class Start:
    """The way in which a run gets its first train state.

    Args:
        algo: The algorithm of the run.
        config: Its config.
        members: Its members.
        init_from: Another run to take over from; `alike` members, which differ in their seeds alone, can each start
            from their own counterpart there.
        initial_state: A train state to start from instead, leaves `[M, …]` for M > 1.
        alike: Whether the members are alike.
    """

    def __init__(
        self,
        algo: Algorithm,
        config: RunConfig,
        members: Members,
        init_from: str | Path | InitFrom | None = None,
        initial_state: Any = None,
        alike: bool = True,
    ) -> None:
        if init_from is not None and initial_state is not None:
            raise ValueError("init_from and initial_state are two ways to start; leave one of them out.")
        self.init_from = InitFrom(init_from) if isinstance(init_from, str | Path) else init_from
        self.initial_state = initial_state
        self._algo = algo
        self._config = config
        self._members = members
        self._alike = alike

    @property
    def description(self) -> dict[str, Any] | None:
        """The other run, for run.json."""
        return None if self.init_from is None else self.init_from.to_json()

    def check(self) -> None:
        """Raise what `first` would raise, before anything is compiled or written.

        Raises:
            ValueError: A leaf has another shape, the message names it and says what differs; or there is no such
                member.
            TypeError: `initial_state` is not a train state.
            FileNotFoundError: There is no run.
            CheckpointError: It has no good checkpoint.
            UntrustedRunError: See `load`.
        """
        if self.initial_state is not None:
            if not isinstance(self.initial_state, type(self._shape)):
                kind = type(self.initial_state).__name__
                raise TypeError(f"initial_state must be a train state such as result.state, got {kind}.")
            advice = "It must come from the same algorithm with the same config."
            check_fits(self._shape, self.initial_state, "initial_state", lambda: advice)
        if self.init_from is not None:
            _ = self._learned

    def first(self, programs: Programs) -> tuple[Any, str | None]:
        """The train state, and a sentence about it unless it is fresh.

        Of a state that was given, the count of its updates (if it has one) begins anew, and the hyperparameters are
        those of this run, which run.json has.
        """
        self.check()
        if self.initial_state is not None:
            arrays = jax.tree.map(hosts.fetch, self.initial_state)
            state = hosts.broadcast(arrays, programs.state_shape)  # a copy: the loop donates its state
            if hasattr(state, "update"):
                state = dataclasses.replace(state, update=jax.tree.map(lambda count: count * 0, state.update))
            return _with(state, _hyperparams_in(programs.init())), "Starts with the given train state."
        state = programs.init()
        if self.init_from is None:
            return state, None
        arrays, said = self._learned
        assert self.init_from is not None
        return _with(state, hosts.broadcast(arrays, learned_parts(state, self.init_from.learner))), said

    @functools.cached_property
    def _shape(self) -> Any:
        """The shapes of a fresh state."""
        init = functools.partial(initial_state, self._algo, len(self._members))
        return jax.eval_shape(init, jax.eval_shape(self._members.keys), self._members.hyperparams)

    @functools.cached_property
    def _learned(self) -> tuple[dict[str, Any], str]:
        """The fields that are taken over, as arrays on the host, and a sentence that says which."""
        source = self.init_from
        assert source is not None
        run = load(source.run, best=source.best, trust=source.trust)
        count = len(self._members)
        member = _chosen_member(run, source.member, count if self._alike else 0)
        old = run.state if member is None else member_of(run.state, member)
        one_for_all = count > 1 and (member is not None or run.num_members == 1)
        here, there = learned_parts(self._shape, source.learner), learned_parts(old, source.learner)
        wanted = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), here)
        check_fits(
            wanted if one_for_all else here, there, f"The run in {source.run}", lambda: what_fits(run, self._config)
        )
        arrays = jax.tree.map(hosts.fetch, there)
        if one_for_all:
            arrays = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *leaf.shape)), arrays)
        whose = source.run if member is None else f"{source.run}, member {member}"
        names = _names(self._shape, source.learner)
        copied = tuple(name.removesuffix("params") + "target" for name in names)
        anew = ", ".join(name for name in _names(self._shape, everything=True) if name not in (*names, *copied))
        return arrays, f"Starts with {', '.join(names)} of {whose}." + (f" New are: {anew}." if anew else "")


def _chosen_member(run: Run, member: int | None, members: int) -> int | None:
    """The member of another run to start from; None if it has one for each of the new run's, or only one.

    Args:
        run: The other run.
        member: The member that was asked for.
        members: The number of members that can start from their counterparts, 0 if none can.
    """
    count = run.num_members
    if run.index is not None and member not in (None, run.index):
        raise ValueError(f"init_from: {run.folder.path} is named with :{run.index} and with member={member}; drop one.")
    if run.index is not None:
        return None
    if member is not None and not 0 <= member < count:
        raise ValueError(f"init_from: member must be from 0 to {count - 1} in {run.folder.path}, got {member}.")
    if count == 1 or (member is None and members == count):
        return None
    return run.best_index if member is None else member


def _with(state: Any, fields: dict[str, Any]) -> Any:
    """A train state with fields of another one, as `learned_parts` or `_hyperparams_in` returns them."""
    nested = field_names(state, "nested")
    new = {name: _with(getattr(state, name), value) if name in nested else value for name, value in fields.items()}
    return dataclasses.replace(state, **new)


def _hyperparams_in(state: Any) -> dict[str, Any]:
    """The hyperparameters of a train state, for `_with`."""
    own = {"hyperparams": state.hyperparams} if hasattr(state, "hyperparams") else {}
    return own | {name: _hyperparams_in(getattr(state, name)) for name in field_names(state, "nested")}


def _names(state: Any, everything: bool) -> list[str]:
    """The names of the fields that `learned_parts` returns, `toy.params` in a nested state."""
    own = [name for name in field_names(state, "learned") if everything or name == "params"]
    nested = field_names(state, "nested")
    return own + [f"{name}.{inner}" for name in nested for inner in _names(getattr(state, name), everything)]


def in_env(run: Run, env: str) -> Run:
    """The run in another environment, to be played there: its policy must fit.

    Networks of entities (`torso="entities"`) fit battles of any size, so a policy of smax/8m plays smax/25m. A critic
    has to fit, too.

    Args:
        run: A run with one seed or several.
        env: The environment's name.

    Raises:
        ValueError: Something that was learned has another shape there; the message says what differs.
    """
    config = dataclasses.replace(run.config, env=env, log_info=())  # the info may have other numbers there
    algo = run.module.make(config)
    here, there = jax.eval_shape(algo.init, abstract_key()), run.member(run.index or 0).state
    for everything in (False, True):  # parameters first, since their names say most
        wanted, given = learned_parts(here, everything), learned_parts(there, everything)
        check_fits(wanted, given, f"The run in {run.folder.path}", lambda: _advice(run, config))
    return dataclasses.replace(run, config=config, algo=algo, env=config.make_env())


def _advice(run: Run, config: Any) -> str:
    """A sentence about what fits, and how to train something that fits more."""
    more = getattr(config, "torso", "") == "flat" and config.make_env().entities is not None
    entities = " Networks of entities (--torso entities) would fit battles of any size." if more else ""
    return what_fits(run, config) + entities


def learned_parts(state: Any, everything: bool) -> dict[str, Any]:
    """The parameters in a train state, or everything that updates learn, by field; for nested states, dictionaries.

    A target network begins as a copy of the parameters, so if only these are taken over, the target is a copy too.
    """
    learned = field_names(state, "learned")
    own = {name: getattr(state, name) for name in learned if everything or name == "params"}
    if not everything and {"params", "target"} <= set(learned) and _is_part(state.target, state.params):
        own["target"] = _part_like(state.target, state.params)
    return own | {name: learned_parts(getattr(state, name), everything) for name in field_names(state, "nested")}


def _is_part(part: Any, whole: Any) -> bool:
    """True if the nested dictionaries `whole` have everything that is in `part`, in the same shapes."""
    if isinstance(part, Mapping):
        inside = isinstance(whole, Mapping) and part.keys() <= whole.keys()
        return inside and all(_is_part(own, whole[name]) for name, own in part.items())
    return getattr(part, "shape", None) == getattr(whole, "shape", ())


def _part_like(part: Any, whole: Any) -> Any:
    """The part of the nested dictionaries `whole` that has the keys of `part`."""
    return {name: _part_like(own, whole[name]) for name, own in part.items()} if isinstance(part, Mapping) else whole


def check_fits(here: Any, there: Any, what: str, advice: Callable[[], str]) -> None:
    """Raise ValueError unless two trees have leaves with the same names, shapes and dtypes."""
    wanted, given = _described(here), _described(there)
    for name in [*wanted, *given]:
        if wanted.get(name) != given.get(name):
            raise ValueError(
                f"{what} does not fit: {name} is {given.get(name, 'absent')} there and "
                f"{wanted.get(name, 'absent')} here. {advice()}"
            )


def what_fits(run: Run, config: Any) -> str:
    """The differences in what has to be the same: the spaces, otherwise the fields of the configs."""
    # The spaces, which no training of another algorithm mends.
    new = config.make_env()
    facts = {
        "the shape of observations": (run.env.observation_space().shape, new.observation_space().shape),
        "the actions": (run.env.action_space(), new.action_space()),
        "the number of agents": (getattr(run.env, "num_agents", 1), getattr(new, "num_agents", 1)),
    }
    apart = [f"{what} is {old} there and {here} here" for what, (old, here) in facts.items() if str(old) != str(here)]
    if apart:
        return f"What fits is an environment with the same spaces: {', '.join(apart)}."
    # Otherwise the fields of the config that shape the networks.
    free = {"seed", "env", "total_timesteps", "num_envs", "num_steps", *traced_fields(config)}
    old, here = (
        {name: value for name, value in content.items() if name not in free}
        for content in (run.about["config"], config_to_json(config))
    )
    then, now = run.about["algorithm"], algorithm_name(type(config))
    if then != now:  # only the fields that both have can be made the same
        old, here = (
            {name: value for name, value in own.items() if name in old and name in here} for own in (old, here)
        )
    algorithms = [f"the algorithm is {then} there and {now} here"] if then != now else []
    differing = ", ".join([*algorithms, *differences(old, here)])
    return f"What fits is the same algorithm with the same networks: {differing}."


def _described(tree: Any) -> dict[str, str]:
    """The dtype and shape of each leaf, by name: `params['torso']['kernel']`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        f"{keystr(path[:1], simple=True)}{keystr(path[1:])}": f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves
    }
