"""The slow versions that tests compare with are a module beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
