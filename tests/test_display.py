"""How numbers are written in units that suit them."""

import pytest

from jaxrl.display import data_size, in_units


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (data_size(999_936), "1 MB"),
        (data_size(12_345), "12.3 kB"),
        (data_size(512), "512 bytes"),
        (data_size(0), "0 bytes"),
        (in_units(0.9999, ("s", 1.0), ("ms", 1e-3)), "1 s"),
        (in_units(2e-5, ("s", 1.0), ("ms", 1e-3)), "0.02 ms"),
    ],
)
def test_numbers_have_the_largest_unit_that_they_round_to(shown: str, text: str) -> None:
    """So none is written as 1e+03 of the next smaller unit."""
    assert shown == text
