"""The particle world (MPE): `jaxrl.make("mpe/simple_spread")`, or by JaxMARL's id, `"MPE_simple_spread_v3"`."""

from typing import Any

from jaxrl.envs.mpe.adversarial import SimpleAdversary, SimpleCrypto, SimplePush
from jaxrl.envs.mpe.cooperative import Simple, SimpleReference, SimpleSpeakerListener, SimpleSpread
from jaxrl.envs.mpe.env import ParticleEnv
from jaxrl.envs.mpe.pursuit import SimpleFacmac, SimpleTag, SimpleWorldComm
from jaxrl.envs.mpe.world import Agent, Landmark, Params, State, World
from jaxrl.registry import register

__all__ = ["SCENARIOS", "Agent", "Landmark", "Params", "ParticleEnv", "State", "World"]

SCENARIOS: dict[str, tuple[type[ParticleEnv], str, dict[str, Any]]] = {
    "simple": (Simple, "v3", {}),
    "simple_spread": (SimpleSpread, "v3", {}),
    "simple_tag": (SimpleTag, "v3", {}),
    "simple_adversary": (SimpleAdversary, "v3", {}),
    "simple_push": (SimplePush, "v3", {}),
    "simple_reference": (SimpleReference, "v3", {}),
    "simple_speaker_listener": (SimpleSpeakerListener, "v4", {}),
    "simple_crypto": (SimpleCrypto, "v3", {}),
    "simple_world_comm": (SimpleWorldComm, "v3", {}),
    "simple_facmac": (SimpleFacmac, "v1", {}),
    "simple_facmac_3a": (SimpleFacmac, "v1", {"num_adversaries": 3, "score": "min"}),
    "simple_facmac_6a": (SimpleFacmac, "v1", {"num_adversaries": 6, "score": "min"}),
    "simple_facmac_9a": (SimpleFacmac, "v1", {"num_adversaries": 9, "score": "min"}),
}
"""Maps a name to its class, the version in other libraries' ids, and the options that the name implies."""

for _name, (_scenario, _version, _options) in SCENARIOS.items():
    register(f"mpe/{_name}", _scenario, aliases=(f"MPE_{_name}_{_version}",), options=_options)
