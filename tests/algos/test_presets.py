"""Every algorithm on every family of environments, at the sizes of its presets: shapes only, nothing is compiled.

Other tests are small, and what depends on a size or on the device is out of their reach (minutes: `make test-slow`).
"""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import jax
import pytest

import jaxrl
from jaxrl import algos
from jaxrl.algos.config.network import NetworkLayer
from jaxrl.keys import abstract_key

KINDS = typing.get_type_hints(NetworkLayer)
TORSOS, MEMORIES = (typing.get_args(KINDS[field]) for field in ("torso", "memory"))


def environments() -> list[str]:
    """One of each family, and with numbers as actions where a family has them."""
    names = {name.partition("/")[0]: name for name in reversed(jaxrl.list_envs())}
    return [*names.values(), "mpe/simple_spread?action_type=continuous", "probe/box_action"]


def presets(module: Any) -> Iterator[Any]:
    """The algorithm's presets, and for each environment the one that it chooses."""
    yield from module.PRESETS.values()
    for env in environments():
        yield dataclasses.replace(module.PRESETS[algos.preset_for(module.PRESETS, env)], env=env)


def accepted(module: Any, torso: str, memory: str) -> list[Any]:
    """What can be made of the presets with this torso and memory; others are refused with a sentence."""
    found = []
    for preset in presets(module):
        try:
            config = dataclasses.replace(preset, torso=torso, memory=memory)
            module.make(config)
        except (ValueError, TypeError):
            continue
        found.append(config)
    return list(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.parametrize("torso", TORSOS)
@pytest.mark.parametrize("name", algos.names())
def test_presets_can_be_traced(name: str, torso: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is accepted has an update that keeps the train state's shapes, on a CPU and on an accelerator.

    Only networks of entities ask for the backend.
    """
    module = algos.load(name)
    for memory in MEMORIES:
        for config in accepted(module, torso, memory):
            for backend in ("cpu",) if torso == "flat" else ("cpu", "gpu"):
                monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
                algo = module.make(config)
                state = jax.eval_shape(algo.init, abstract_key())
                after, metrics = jax.eval_shape(algo.update, state)
                assert jax.tree.map(lambda leaf: leaf.shape, after) == jax.tree.map(lambda leaf: leaf.shape, state)
                assert {leaf.shape for leaf in jax.tree.leaves(metrics)} == {()}, config
