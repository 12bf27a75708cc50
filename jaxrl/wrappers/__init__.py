"""Wrappers: an environment around another one, which changes one thing and forwards all others.

    env = TimeLimit(RewardFunction(jaxrl.make("smax/3m"), shaped), 50)

The innermost environment acts first. Every wrapper takes single-agent environments and teams, and keeps the batched
kernel of the environment inside (SMAX has one).
"""

from jaxrl.wrappers.base import StatefulWrapper, Wrapped, Wrapper
from jaxrl.wrappers.episodes import ActionRepeat, FrameStack, StickyActions, TimeLimit
from jaxrl.wrappers.fixed import FixedPolicies, random_policy
from jaxrl.wrappers.functions import Flatten, ObservationFunction, RewardFunction, Taken
from jaxrl.wrappers.other_play import OtherPlay
from jaxrl.wrappers.params import RandomParams, Stage
from jaxrl.wrappers.team import SharedReward, as_multi_agent

__all__ = [
    "ActionRepeat",
    "FixedPolicies",
    "Flatten",
    "FrameStack",
    "ObservationFunction",
    "OtherPlay",
    "RandomParams",
    "RewardFunction",
    "SharedReward",
    "Stage",
    "StatefulWrapper",
    "StickyActions",
    "Taken",
    "TimeLimit",
    "Wrapped",
    "Wrapper",
    "as_multi_agent",
    "random_policy",
]
