"""The batched methods that a class must not inherit once it overrides the method for one environment.

A batched kernel knows nothing of a subclass's own `step_env`, and would ignore it.
"""

from __future__ import annotations

__all__ = ["follow_overrides"]

_FOLLOWS = {
    "reset_env": ("batch_reset", "batch_step", "split_key"),
    "step_env": ("batch_step_env", "batch_step", "split_key"),
    "observation": ("batch_observation",),
}
"""The methods for B environments that must do what a method for one environment does; and `split_key`, which may give
the same key to both methods only if it knows what each draws with it."""


def follow_overrides(cls: type, base: type) -> None:
    """Give `cls` the methods of `base`, which vmap, in place of inherited ones that must follow what it overrides.

    Methods that `cls` defines itself stay. `cls.keeps_observation` becomes False if it overrides `reset_env` or
    `step_env` without `observation`, which may no longer hold, and True if it overrides `observation` too.

    Args:
        cls: A new subclass of `base`.
        base: The class whose batched methods vmap the others.
    """
    own = vars(cls)
    overridden = [
        name for name in _FOLLOWS if name in own and getattr(super(cls, cls), name) is not getattr(base, name)
    ]
    for name in {batched for one in overridden for batched in _FOLLOWS[one]} - set(own):
        setattr(cls, name, getattr(base, name))
    if overridden and "keeps_observation" not in own:
        cls.keeps_observation = "observation" in own  # pyright: ignore[reportAttributeAccessIssue]
