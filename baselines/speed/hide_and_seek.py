"""Hide-and-seek from one world to thousands: `python baselines/speed/hide_and_seek.py`.

Random actions, as for the other families; no other library has it. Writes all raw numbers to
`baselines/speed/results/`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
from pathlib import Path

from against import compare


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["quadrant"])
    parser.add_argument("--num-envs", nargs="+", type=int, default=[1, 16, 64, 256, 1024, 4096])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    results = []
    for name in arguments.scenarios:
        for num_envs in arguments.num_envs:
            # Few worlds take more steps, so that every repeat lasts.
            steps = max(arguments.steps, 10_000 // num_envs)
            result = compare(f"hide_and_seek/{name}", num_envs, steps=steps, repeats=arguments.repeats)
            print(result, flush=True)
            results.append(dataclasses.asdict(result))
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
    path = Path(__file__).parent / "results" / f"hide_and_seek_{stamp}.json"
    path.write_text(json.dumps({"date": stamp, "results": results}, indent=1) + "\n")
    print(f"Raw numbers: {path}")


if __name__ == "__main__":
    main()
