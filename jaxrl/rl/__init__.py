"""The mathematics of reinforcement learning, one tested function each. Knows no environment and no algorithm."""
