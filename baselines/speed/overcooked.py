"""Overcooked against jaxmarl, both in this process: `python baselines/speed/overcooked.py`.

Needs `pip install "jaxrl[peers]"`. Prints a table and writes all raw numbers to `baselines/speed/results/`.
"""

from __future__ import annotations

from against import measure

from jaxrl.envs.overcooked import LAYOUTS

if __name__ == "__main__":
    measure(str(__doc__), "overcooked", "layout", dict.fromkeys(LAYOUTS, 1024), digits=2, peers=("jaxmarl",))
