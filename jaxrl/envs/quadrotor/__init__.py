"""A drone that learns to fly: `jaxrl.make("quadrotor/hover")` and `jaxrl.make("quadrotor/track")`."""

from jaxrl.envs.quadrotor.env import Hover, Track
from jaxrl.envs.quadrotor.physics import HoverParams, Motion, State, TrackParams, TrackState
from jaxrl.registry import register

__all__ = ["Hover", "HoverParams", "Motion", "State", "Track", "TrackParams", "TrackState"]

register("quadrotor/hover", Hover)
register("quadrotor/track", Track)
