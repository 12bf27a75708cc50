"""Hyperparameters that need no recompilation: how the train state holds them, and how they change over a run."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algos.config.run import RunLayer
from jaxrl.checked import POSITIVE, SHARE, Allowed
from jaxrl.environment import Environment
from jaxrl.nn.torso import is_picture
from jaxrl.rl.annealing import annealed, by_name, lost_later
from jaxrl.spaces import Box

__all__ = ["HyperparamsLayer"]

_CHECKED_UPDATES = 101
"""How many updates of a run, evenly spread, a schedule is checked at."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HyperparamsLayer(RunLayer):
    """What every algorithm that learns has: a learning rate, a discount factor, schedules and normalisation."""

    lr: float = 2.5e-4
    """Learning rate."""
    anneal_lr: bool = True
    """Decrease the learning rate linearly to zero."""
    schedules: tuple[str, ...] = ()
    """Hyperparameters that change over the run, such as lr=cosine, gamma=linear:0.9 or lr=warmup:0.05+cosine: see
    `jaxrl.rl.annealing`. One for lr takes the place of anneal_lr."""
    gamma: float = 0.99
    """Discount factor."""
    normalise_obs: bool = False
    """Standardise observations by the mean and deviation of all observations so far."""
    normalise_reward: bool = False
    """Divide rewards by the deviation of the discounted returns."""

    hyperparams_class: ClassVar[type[Any]]
    """The hyperparameters that need no recompilation: a dataclass and pytree whose fields the configuration has too."""
    allowed: ClassVar[dict[str, Allowed]] = {"lr": POSITIVE, "gamma": SHARE}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_hyperparams()
        for name, schedule in self.scheduled.items():
            self._check_schedule(name, schedule)

    @property
    def hyperparams(self) -> Any:
        """The fields that are part of the train state, as float32 scalars."""
        return self.hyperparams_class(**{name: np.float32(getattr(self, name)) for name in self._hyperparameters()})

    def initial_hyperparams(self, given: Any = None) -> Any:
        """The hyperparameters of a new train state: what `init` was given, or the configuration's for None.

        Raises:
            TypeError: They are of another class; the message says how to make them.
        """
        h = self.hyperparams if given is None else given
        if not isinstance(h, self.hyperparams_class):
            raise TypeError(
                f"init takes the hyperparameters in a {self.hyperparams_class.__name__}, not a {type(given).__name__}; "
                f"give dataclasses.replace(config.hyperparams, lr=…), where config is what the algorithm is made of."
            )
        return jax.tree.map(jnp.float32, h)

    @property
    def falling(self) -> tuple[str, ...]:
        """The hyperparameters that decrease linearly to zero."""
        return ("lr",) if self.anneal_lr else ()

    def annealed(self, h: Any, update: jax.Array | int) -> Any:
        """The hyperparameters as they are in an update, given their initial values and the number of updates before."""
        schedules = dict.fromkeys(self.falling, "linear") | self.scheduled
        now = {name: annealed(how, getattr(h, name), update, self.num_updates) for name, how in schedules.items()}
        return dataclasses.replace(h, **now)

    @property
    def scheduled(self) -> dict[str, str]:
        """The schedules by the names of their hyperparameters."""
        return by_name(self.schedules, self._hyperparameters())

    def warnings(self) -> list[str]:
        """What the user should know when a run begins, one sentence each."""
        return super().warnings() + lost_later(self.scheduled.values(), type(self).__module__)

    def make_env(self) -> Environment:
        """The environment that `env` names.

        Raises:
            ValueError: There is none, or a field has no effect or makes no sense in it; the message says which.
        """
        env = super().make_env()
        space = env.observation_space()
        if self.normalise_obs and (not isinstance(space, Box) or is_picture(space)):
            why = "a convolution takes all places alike" if isinstance(space, Box) else "their numbers are mere names"
            raise ValueError(
                f"normalise_obs cannot standardise observations in {space}: {why}; choose normalise_obs=False."
            )
        return env

    def _check_schedule(self, name: str, schedule: str) -> None:
        """Raise ValueError if a schedule takes a field out of its allowed range, above its initial value or below 0."""
        with jax.ensure_compile_time_eval():
            done = jnp.linspace(0, self.num_updates - 1, _CHECKED_UPDATES).round()
            factors = np.asarray(annealed(schedule, 1.0, done, self.num_updates))
        for factor in (factors.max(), factors.min()):
            if not 0 <= factor <= 1:
                try:
                    self.check_value(name, getattr(self, name) * float(factor))
                except ValueError as error:
                    raise ValueError(f"The schedule {name}={schedule} goes too far: {error}") from None

    def _hyperparameters(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self.hyperparams_class)]

    def _check_hyperparams(self) -> None:
        """Raise TypeError unless the hyperparameters are a pytree of numbers that the configuration has as well."""
        kind, own = self.hyperparams_class.__name__, type(self).__name__
        for name in self._hyperparameters():
            if not hasattr(self, name):
                raise TypeError(f"{kind} has {name}, and {own} does not; add a line {name}: float = … to {own}.")
            if isinstance(value := getattr(self, name), str | None):  # NumPy takes None for NaN
                raise TypeError(
                    f"{own} has {name}={value!r}, and the hyperparameters in {kind} are numbers; give one, or leave "
                    f"{name} out of {kind}."
                )
        if jax.tree_util.all_leaves([self.hyperparams]):
            raise TypeError(f"{kind} is not a pytree; write @jax.tree_util.register_dataclass above @dataclass.")
