"""What the tests of policies share is a module beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
