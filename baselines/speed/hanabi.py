"""Hanabi against jaxmarl, both in this process: `python baselines/speed/hanabi.py`. Needs `pip install "jaxrl[peers]"`.

Both draw among the legal moves. Prints a table and writes all raw numbers to `baselines/speed/results/`.
"""

from __future__ import annotations

from against import measure

GAMES = ["2p", "3p", "4p", "5p"]

if __name__ == "__main__":
    measure(str(__doc__), "hanabi", "game", dict.fromkeys(GAMES, 1024), digits=2, peers=("jaxmarl",))
