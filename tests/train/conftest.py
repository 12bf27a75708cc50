"""Makes `toy_algorithm` importable by the tests beside it, and lets runs of the same toy share their compilation."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def _shared(shared_compilation: None) -> None:
    pass
