"""A drone that learns to fly: `jaxrl.make("quadrotor/hover")` and `jaxrl.make("quadrotor/track")`."""

from jaxrl.envs.quadrotor.hover import Hover
from jaxrl.envs.quadrotor.track import Track
from jaxrl.envs.quadrotor.world import HoverParams, Motion, State, TrackParams, TrackState
from jaxrl.registry import register

__all__ = ["Hover", "HoverParams", "Motion", "State", "Track", "TrackParams", "TrackState"]

register("quadrotor/hover", Hover)
register("quadrotor/track", Track)
