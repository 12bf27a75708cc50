"""Overcooked V2 against jaxmarl, both in this process: `python baselines/speed/overcooked_v2.py`.

Needs `pip install "jaxrl[peers]"`. Prints a table and writes all raw numbers to `baselines/speed/results/`.
"""

from __future__ import annotations

from against import measure

LAYOUTS = ["cramped_room", "grounded_coord_simple", "demo_cook_simple"]

if __name__ == "__main__":
    measure(str(__doc__), "overcooked_v2", "layout", dict.fromkeys(LAYOUTS, 1024), digits=2, peers=("jaxmarl",))
