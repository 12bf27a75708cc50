"""jaxrl: environments, algorithms and the training loop as pure functions that XLA compiles into one program."""

from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.registry import list_envs, make, register
from jaxrl.vector import VectorEnv

__version__ = "0.1.0"

__all__ = ["Environment", "MultiAgentEnvironment", "VectorEnv", "list_envs", "make", "register"]
