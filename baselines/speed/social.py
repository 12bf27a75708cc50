"""The social games against jaxmarl, both in this process: `python baselines/speed/social.py`.

Needs `pip install "jaxrl[peers]"`. STORM has two players, as jaxmarl's `storm_2p`. Prints a table and writes all raw
numbers to `baselines/speed/results/`.
"""

from __future__ import annotations

from against import measure

GAMES = ["coin_game", "switch_riddle", "storm"]

if __name__ == "__main__":
    measure(str(__doc__), "social", "game", dict.fromkeys(GAMES, 1024), digits=2, peers=("jaxmarl",), prefix="")
