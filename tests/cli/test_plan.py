"""How `jaxrl plan` writes numbers."""

import pytest

from jaxrl.cli.plan import _count, _seconds, _size


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (_size(999_936), "1 MB"),
        (_size(12_345), "12.3 kB"),
        (_size(512), "512 B"),
        (_count(2.5e9), "2.5 G"),
        (_count(0), "0 "),
        (_seconds(0.9999), "1 s"),
        (_seconds(2e-8), "0.02 us"),
    ],
)
def test_numbers_have_the_largest_unit_that_they_round_to(shown: str, text: str) -> None:
    """So none is written as 1e+03 of the next smaller unit."""
    assert shown == text
