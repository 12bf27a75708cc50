"""The cooks who know the recipe are those of the kitchen's own tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "envs" / "overcooked"))
