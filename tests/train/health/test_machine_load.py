"""The likely cause is what has changed on the machine."""

import pytest

from jaxrl.train.health.machine_load import MachineLoad, likely_cause

QUIET = MachineLoad(load=1.0, cores=8, frequency=3.0, swapped=100, throttled=0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"throttled": 3}, "too hot"),
        ({"swapped": 90_000}, "swapping"),
        ({"load": 17.5}, "Other programs want the processor: the load is 17.5 on 8 cores, it was 1.0."),
        ({"frequency": 2.0}, "fell from 3.00 to 2.00 GHz"),
        ({"load": 7.0, "swapped": 150}, "Nothing else has changed"),
        ({"load": None, "frequency": None, "swapped": None, "throttled": None}, "Nothing else has changed"),
    ],
)
def test_the_cause_is_what_has_changed(change: dict[str, float | None], sentence: str) -> None:
    assert sentence in likely_cause(QUIET, QUIET._replace(**change))


def test_this_machine_can_be_looked_at() -> None:
    assert MachineLoad.now().cores >= 1
