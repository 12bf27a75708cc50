"""The layer of configurations that describes networks: torsos, memory, heads, or a network of the user's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import flax.linen as nn

from jaxrl.checked import COUNT, LAYERS, SIZES, Allowed, CheckedConfig, Effect
from jaxrl.entities import Entities
from jaxrl.environment import Environment
from jaxrl.fields import Name
from jaxrl.nn.encoder import Encoder
from jaxrl.nn.memory import Core, memory_core
from jaxrl.nn.torso import is_picture
from jaxrl.source_file import class_reference, load_named
from jaxrl.spaces import Space

__all__ = [
    "CHOOSE_MEMORY",
    "ActivationName",
    "NetworkLayer",
    "beside_own_critics",
    "beside_q_heads",
    "has_memory",
    "needs_no_network",
]

ActivationName = Literal["relu", "tanh", "silu", "gelu", "leaky_relu"]

CHOOSE_MEMORY = "choose memory=gru, lstm, s5 or gtrxl"
"""What to do about a field that has no effect without a memory."""


def has_memory(config: Any, _: Any) -> bool:
    """Whether the networks have a memory: a rule for `Effect`."""
    return config.memory != "none"


def _has_pictures(_: Any, env: Callable[[], Environment]) -> bool:
    return is_picture(env().observation_space())


_ENTITIES = "what entities it has, and for relations, where they are"


def _has_entities(config: Any, env: Callable[[], Environment]) -> bool:
    entities = env().entities
    return entities is not None and (config.torso != "relations" or bool(entities.placed))


def needs_no_network(field: str) -> Effect:
    """The rule that a field has no effect with a `network`, unless it is one of `beside_network`."""

    def works(config: Any, _: Any) -> bool:
        return config.network is None or field in config.beside_network

    return Effect(field, ("network",), works, "leave out network")


def _network_name(network: Any) -> str | None:
    """The name by which `_load_network` finds a class of modules; a name stays as it is."""
    if isinstance(network, type):
        return class_reference(network)
    if isinstance(network, str | None):
        return network
    kind = type(network).__name__
    meant = f"network={kind}" if isinstance(network, nn.Module) else "network=Wide"
    raise ValueError(f"network must be the class of a Flax module, as in {meant}, or its name; got a {kind}.")


def _load_network(name: str) -> Callable[..., Any]:
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise ValueError(f"network must be a class in a file or module, such as ./my_net.py:Net; got {name!r}.")
    found = load_named(place, attribute)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise TypeError(f"network={name!r} is not a class of Flax modules; derive it from flax.linen.Module.")
    missing = [
        field.name
        for field in dataclasses.fields(found)
        if field.init and field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise TypeError(f"network={name!r} is made without arguments: give a default to {', '.join(missing)}.")
    return found


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
    """What encodes observations: flat takes them as a whole; entities shares weights among the entities of a kind,
    such as units, and computes the value of an action that points at one from its features; relations also tells each
    entity who is near it."""
    hidden: tuple[int, ...] = (64, 64)
    """Layers of the torso."""
    activation: ActivationName = "tanh"
    """Activation function between layers."""
    memory: Literal["none", "gru", "lstm", "s5", "gtrxl"] = "none"
    """Memory within an episode; none is feed-forward."""
    memory_size: int = 64
    """Number of features in the memory."""
    memory_window: int = 64
    """How many steps each layer of gtrxl looks back."""
    head_hidden: tuple[int, ...] = ()
    """Layers of each head, after torso and memory."""
    layer_norm: bool = False
    """Normalise each layer of the torso before its activation."""
    channels: tuple[int, ...] = ()
    """Features of each convolution for pictures; () means 32 64 64 for large ones and 16 for those below 36 pixels."""
    network: Name | None = None
    """Torso of your own instead of hidden layers and convolutions, ./FILE.py:CLASS, in Python also the class: a Flax
    module that maps vectors or pictures to features."""

    allowed: ClassVar[dict[str, Allowed]] = {
        "hidden": LAYERS,
        **dict.fromkeys(("head_hidden", "channels"), SIZES),
        **dict.fromkeys(("memory_size", "memory_window"), COUNT),
    }
    effects: ClassVar[tuple[Effect, ...]] = (
        Effect("memory_size", ("memory",), has_memory, CHOOSE_MEMORY),
        Effect("memory_window", ("memory",), lambda config, _: config.memory == "gtrxl", "choose memory=gtrxl"),
        Effect("torso", ("env",), _has_entities, f"choose an environment that tells {_ENTITIES}, such as smax/3m"),
        Effect("channels", ("env",), _has_pictures, "choose an environment with pictures"),
        *map(needs_no_network, ("torso", "channels", "hidden", "layer_norm", "activation")),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", _network_name(self.network))
        super().__post_init__()
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
        return memory_core(self.memory, self.memory_size, self.memory_window)

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
        network = _load_network(c.network) if own and c.network else None
        layers = (hidden or c.hidden, c.activation, c._core())
        entities = None if c.torso == "flat" else entities
        return partial(Encoder, *layers, space, c.layer_norm, c.channels, network, entities, c.torso == "relations")
