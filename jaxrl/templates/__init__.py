"""Algorithms as scripts, a file each: `jaxrl new ppo > my_ppo.py` writes one, to be read, changed and run by Python.

They need from jaxrl only environments and formulas, and nothing else here needs them. What stands beside a script's
algorithm (`spread`, `train`) is the same in all of them.
"""
