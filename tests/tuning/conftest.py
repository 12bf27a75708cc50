"""Runs of the same toy share their compilation."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _shared(shared_compilation: None) -> None:
    pass
