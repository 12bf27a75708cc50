"""MinAtar against gymnax, both in this process: `python baselines/speed/minatar.py`.

Needs `pip install "jaxrl[gymnax]"`. Prints a table and writes all raw numbers to `baselines/speed/results/`. Ours draw
random numbers for sticky actions, which gymnax does not have.
"""

from __future__ import annotations

from against import measure

GAMES = ["asterix", "breakout", "freeway", "seaquest", "space_invaders"]

if __name__ == "__main__":
    measure(str(__doc__), "minatar", "game", dict.fromkeys(GAMES, 1024), digits=2, peers=("gymnax",))
