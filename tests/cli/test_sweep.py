"""What `jaxrl sweep` says at its end."""

from jaxrl.cli.sweep import summary


def test_each_environment_is_summed_up_by_what_it_knows() -> None:
    """One has a win rate and the other does not; they are not ranked against each other."""
    keys = ("env", "lr", "win_rate", "return_mean", "diverged")
    rows = [
        ("b/wins", 0.1, 0.25, 9.0, False),
        ("a/earns", 0.1, None, 12.0, False),
        ("b/wins", 0.2, 0.75, 8.0, False),
        ("a/earns", 0.2, None, 15.0, False),
    ]
    head, *lines = summary([dict(zip(keys, row, strict=True)) for row in rows], ["env", "lr"]).splitlines()
    assert "win rate or return" in head
    assert [line.split()[:3] for line in lines] == [
        ["b/wins", "0.2", "0.75"],
        ["b/wins", "0.1", "0.25"],
        ["a/earns", "0.2", "15"],
        ["a/earns", "0.1", "12"],
    ]
