"""What a class that writes a method for one environment anew must not inherit: what it says of B of them, or of others.

A batched kernel knows nothing of a `step_env` that a subclass writes, and would go on without it.
"""

from __future__ import annotations

__all__ = ["follow_overrides"]

_FOLLOWS = {
    "reset_env": ("batch_reset", "batch_step", "split_key"),
    "step_env": ("batch_step_env", "batch_step", "split_key"),
    "observation": ("batch_observation",),
}
"""The methods for B environments that have to do what a method for one environment does; and `split_key`, which may
give the same key to both, where it is known which draws each makes of it."""


def follow_overrides(cls: type, base: type) -> None:
    """Let the methods of `cls` follow those that it overrides: they are those of `base`, which vmap.

    What `cls` writes itself stays. `cls.keeps_observation` becomes False if it overrides `reset_env` or `step_env` and
    says nothing of `observation`, which might then be another one, and True if it writes that.

    Args:
        cls: A new subclass of `base`.
        base: The class whose batched methods are the others, vmapped.
    """
    own = vars(cls)
    overridden = [
        name for name in _FOLLOWS if name in own and getattr(super(cls, cls), name) is not getattr(base, name)
    ]
    for name in {batched for one in overridden for batched in _FOLLOWS[one]} - set(own):
        setattr(cls, name, getattr(base, name))
    if overridden and "keeps_observation" not in own:
        cls.keeps_observation = "observation" in own  # pyright: ignore[reportAttributeAccessIssue]
