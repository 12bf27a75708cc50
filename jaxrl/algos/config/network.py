"""The layer of configurations that describes networks: torsos, memory, heads, or a network of the user's own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import flax.linen as nn

from jaxrl.algos.config import rules
from jaxrl.config import CheckedConfig, Name
from jaxrl.entities import Entities
from jaxrl.nn.encoder import Encoder
from jaxrl.nn.memory import CORES, Core, memory_core
from jaxrl.source_file import class_reference, load_named
from jaxrl.spaces import Space

__all__ = [
    "ActivationName",
    "NetworkLayer",
    "beside_own_critics",
    "beside_q_heads",
    "load_own",
    "own_name",
]

ActivationName = Literal["relu", "tanh", "silu", "gelu", "leaky_relu"]


def own_name(field: str, given: Any) -> Any:
    """The name by which `load_own` finds a class or a function that a field was given; anything else stays as it is."""
    if isinstance(given, str | None):
        return given
    if isinstance(given, type) or (field == "optimizer" and inspect.isfunction(given)):
        return class_reference(given)
    kind = type(given).__name__
    what = "a function of the learning rate" if field == "optimizer" else "the class of a Flax module"
    meant = {"network": "Wide", "memory": "Cell", "optimizer": "lion"}[field]
    meant = kind if isinstance(given, nn.Module) else meant
    raise ValueError(f"{field} must be {what}, as in {field}={meant}, or its name; got a {kind}.")


def load_own(field: str, name: str) -> Callable[..., Any]:
    """The class of Flax modules that a field names.

    Raises:
        UnknownNameError: There is none.
        ValueError: The name is not that of code in a file or module.
        TypeError: It is something else.
    """
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"{field} must be a class in a file or module, such as ./my_net.py:Net; got {name!r}.")
    found = load_named(place, attribute)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise TypeError(f"{field}={name!r} is not a class of Flax modules; derive it from flax.linen.Module.")
    return found


def _check_complete(name: str, network: Any) -> None:
    """Raise TypeError unless a network of the user's own can be made without arguments."""
    missing = [
        field.name
        for field in dataclasses.fields(network)
        if field.init and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise TypeError(f"network={name!r} is made without arguments: give a default to {', '.join(missing)}.")


def beside_q_heads(head_hidden: tuple[int, ...]) -> tuple[str, ...]:
    """`NetworkLayer.beside_network` for values of actions, whose heads are normalised like torsos."""
    return ("activation", "layer_norm") if head_hidden else ()


def beside_own_critics(critic_hidden: tuple[int, ...]) -> tuple[str, ...]:
    """`NetworkLayer.beside_network` where critics keep torsos of their own; without layers, they have the policy's."""
    return ("activation", "layer_norm", "channels", "critic_hidden" if critic_hidden else "hidden")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkLayer(CheckedConfig):
    """The networks."""

    torso: Literal["flat", "entities", "relations"] = "flat"
    """Encoder of observations: flat takes them as a whole; entities shares weights among the entities of a kind,
    such as units, and computes the value of an action that points at one from its features; relations also tells each
    entity who is near it."""
    hidden: tuple[int, ...] = (64, 64)
    """Layers of the torso."""
    activation: ActivationName = "tanh"
    """Activation function between layers."""
    memory: Literal["none", "gru", "lstm", "s5", "gtrxl", "retention", "deltanet"] | Name = "none"
    """Memory within an episode; none is feed-forward. Or one of your own, ./FILE.py:CLASS, in Python also the class, a
    Flax module that keeps the contract of `jaxrl.nn.memory`."""
    memory_size: int = 64
    """Number of features in the memory."""
    memory_window: int = 64
    """Steps that each layer of gtrxl looks back."""
    head_hidden: tuple[int, ...] = ()
    """Layers of each head, after torso and memory."""
    layer_norm: bool = False
    """Normalise each layer of the torso before its activation."""
    channels: tuple[int, ...] = ()
    """Features of each convolution for pictures; () means 32 64 64 for large ones and 16 for those below 36 pixels."""
    network: Name | None = None
    """Torso of your own instead of hidden layers and convolutions, ./FILE.py:CLASS, in Python also the class: a Flax
    module that maps vectors or pictures to features."""

    allowed, effects = rules.NETWORK

    def __post_init__(self) -> None:
        for name in ("network", "memory"):
            object.__setattr__(self, name, own_name(name, getattr(self, name)))
        super().__post_init__()
        if self.memory in CORES:  # a configuration executes no code of the user's own
            self._core()  # raises ValueError unless the size suits the memory
        if self.torso != "flat" and getattr(self, "normalise_obs", False):
            raise ValueError(
                f"torso={self.torso} takes entities whose features are all 0 for absent, and standardised they would "
                "not be 0; choose normalise_obs=False."
            )

    @property
    def beside_network(self) -> tuple[str, ...]:
        """The fields for torsos that matter with a `network` too, because it does not replace every torso."""
        return ("activation",) if self.head_hidden else ()

    def _core(self) -> Callable[[], Core]:
        own = self.memory not in CORES
        return memory_core(
            load_own("memory", self.memory) if own else self.memory, self.memory_size, self.memory_window
        )

    def initial_carry(self, *batch_shape: int) -> Any:
        """The memory at the start of an episode: leaves with the axes `batch_shape` in front."""
        return self._core()().carry_of(batch_shape)

    def encoder(
        self,
        space: Space | None,
        hidden: tuple[int, ...] = (),
        own: bool = True,
        entities: Entities | None = None,
    ) -> Callable[..., Encoder]:
        """`encoder(name=…)` gives the torso and the memory.

        Args:
            space: What it encodes; None for vectors.
            hidden: The layers of the torso; () means `self.hidden`.
            own: Whether `network` replaces the torso.
            entities: What the observations are made of, if they are; it matters unless `torso` is flat.

        Raises:
            UnknownNameError: There is no such network.
            TypeError: It is no class of Flax modules, or one with fields that have no default.
        """
        c = self
        network = load_own("network", c.network) if own and c.network else None
        if c.network is not None and network is not None:
            _check_complete(c.network, network)
        layers = (hidden or c.hidden, c.activation, None if c.memory == "none" else c._core())
        entities = None if c.torso == "flat" else entities
        return partial(Encoder, *layers, space, c.layer_norm, c.channels, network, entities, c.torso == "relations")
