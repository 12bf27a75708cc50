"""The configurations of algorithms, in layers: the run, its networks, hyperparameters, and how an algorithm learns.

An algorithm's own `Config` adds its fields and defaults to some of them. `Hyperparams` are those of the PPO family.
"""

from jaxrl.algos.config.learning import Hyperparams, OnPolicyConfig

__all__ = ["Hyperparams", "OnPolicyConfig"]
