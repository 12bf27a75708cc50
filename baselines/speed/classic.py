"""Classic control against gymnax and EnvPool, all in this process: `python baselines/speed/classic.py`.

Needs `pip install "jaxrl[gymnax,envpool]"`. Prints a table and writes all raw numbers to `baselines/speed/results/`.
EnvPool steps in C++ threads and is called from Python; ours and gymnax's are compiled scans.
"""

from __future__ import annotations

from against import measure

TASKS = ["cartpole", "acrobot", "mountain_car", "mountain_car_continuous", "pendulum"]

if __name__ == "__main__":
    measure(str(__doc__), "classic", "task", dict.fromkeys(TASKS, 1024), digits=2, peers=("gymnax", "envpool"))
