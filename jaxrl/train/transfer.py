"""Using what a run has learned elsewhere: which parts of its train state that is, and where they fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.tree_util import keystr

from jaxrl.algorithm import field_names
from jaxrl.keys import abstract_key
from jaxrl.source_file import algorithm_name
from jaxrl.train.folder.load import Run
from jaxrl.train.folder.run_folder import config_to_json
from jaxrl.train.folder.same_run import differences
from jaxrl.train.members import traced_fields

__all__ = ["check_fits", "in_env", "learned_parts", "what_fits"]


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
    """What fits, and how to train something that fits more."""
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
    """Whether the nested dictionaries `whole` have everything that is in `part`, in the same shapes."""
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
    """What has to be the same, as far as it differs: the spaces, otherwise the fields of the configs."""
    new = config.make_env()
    facts = {
        "the shape of observations": (run.env.observation_space().shape, new.observation_space().shape),
        "the actions": (run.env.action_space(), new.action_space()),
        "the number of agents": (getattr(run.env, "num_agents", 1), getattr(new, "num_agents", 1)),
    }
    apart = [f"{what} is {old} there and {here} here" for what, (old, here) in facts.items() if str(old) != str(here)]
    if apart:
        return f"What fits is an environment with the same spaces: {', '.join(apart)}."
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
