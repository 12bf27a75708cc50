"""SMAX against jaxmarl, both in this process: `python baselines/speed/smax.py`. Needs `pip install "jaxrl[peers]"`.

Prints a table and writes all raw numbers to `baselines/speed/results/`. On a GPU add, say,
`--num-envs 1024 16384 65536`.
"""

from __future__ import annotations

from against import measure

SETTINGS = {"3m": 1024, "8m": 256, "2s3z": 256, "25m": 128, "smacv2_10_units": 256}

if __name__ == "__main__":
    measure(str(__doc__), "smax", "battle", SETTINGS, digits=1, peers=("jaxmarl",))
