"""The mathematics of reinforcement learning as small tested functions, independent of environments and algorithms."""
