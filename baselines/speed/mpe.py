"""MPE against jaxmarl, both in this process: `python baselines/speed/mpe.py`. Needs `pip install "jaxrl[peers]"`.

Prints a table and writes all raw numbers to `baselines/speed/results/`. On a GPU add, say,
`--num-envs 1024 16384 65536`.
"""

from __future__ import annotations

from against import measure

SCENARIOS = ["simple_spread", "simple_tag", "simple_world_comm", "simple_reference", "simple_facmac_6a"]

if __name__ == "__main__":
    measure(str(__doc__), "mpe", "scenario", dict.fromkeys(SCENARIOS, 1024), digits=2, peers=("jaxmarl",))
