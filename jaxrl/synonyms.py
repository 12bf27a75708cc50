"""The names that other libraries give to our flags and fields, so that typing one of them gets an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jaxrl.errors import nearest

__all__ = ["check_synonyms", "suggestion"]

_OURS = {
    "learning_rate": "lr",
    "n_envs": "num_envs",
    "n_steps": "num_steps",
    "rollout_length": "num_steps",
    "n_epochs": "update_epochs",
    "epochs": "update_epochs",
    "ppo_epochs": "update_epochs",
    "n_minibatches": "num_minibatches",
    "clip_range": "clip_eps",
    "clip_coef": "clip_eps",
    "clip_param": "clip_eps",
    "entropy_coef": "ent_coef",
    "entropy_coeff": "ent_coef",
    "value_coef": "vf_coef",
    "lam": "gae_lambda",
    "start_e": "eps_start",
    "end_e": "eps_finish",
    "exploration_fraction": "eps_decay",
    "exploration_final_eps": "eps_finish",
    "exploration_initial_eps": "eps_start",
    "lambda": "q_lambda",
    "buffer_capacity": "buffer_size",
    "polyak": "tau",
    "target_network_frequency": "target_update_interval",
    "gradient_clip": "max_grad_norm",
    "env_id": "env",
    "env_name": "env",
    "total_steps": "total_timesteps",
    "timesteps": "total_timesteps",
    "n_seeds": "num_seeds",
    "num_seeds": "tuning_seeds",
}
"""From names in Stable-Baselines3, CleanRL, RLlib and the SMAC code bases; the last is for `jaxrl search`."""


def _ours(name: str, known: Collection[str]) -> str | None:
    """Our name for what other libraries call `name`, perhaps in capitals; None if it is not among the `known` ones."""
    lowered = name.lower()
    here = _OURS.get(lowered, lowered)
    return here if here in known and name not in known else None


def suggestion(name: str, known: Collection[str]) -> str:
    """A sentence that says which of the `known` names an unknown one may mean."""
    here = _ours(name, known)
    return f"Did you mean {here}?" if here else nearest(name, known)


def check_synonyms(given: Iterable[str], known: Collection[str]) -> None:
    """Raise for the first flag that this command calls by another name.

    Args:
        given: The names of the flags on the command line, with underscores.
        known: The names that the command has.

    Raises:
        ValueError: The message says what to type.
    """
    for name in given:
        here = _ours(name, known)
        if here is not None:
            raise ValueError(f"There is no flag --{name.replace('_', '-')}; did you mean --{here.replace('_', '-')}?")
