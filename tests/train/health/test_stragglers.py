"""Across hosts: who stalls and who is slow is named by process 0."""

import pytest

from jaxrl.train.health.stragglers import Stragglers, small_work

EVEN = [1.0, 1.1, 1.0, 0.9]


def told_by(others: list[list[float]], everyone: list[dict[str, str]]) -> list[tuple[str, str]]:
    """What process 0 says, given what the others measure and what all have noticed."""
    told: list[tuple[str, str]] = []

    def exchange(mine: list) -> list:
        return [mine, *([times, f"node{i + 1}", "It is too hot there."] for i, times in enumerate(others))]

    Stragglers(lambda kind, text: told.append((kind, text)), exchange, lambda: EVEN).hear(everyone)
    return told


def test_one_process_has_nobody_to_talk_to() -> None:
    def nobody(*words: object) -> list:
        raise AssertionError

    elsewhere = Stragglers(print, nobody)
    elsewhere.note("slower", "Since update 7 …")
    assert elsewhere.news() == {"slower": "Since update 7 …"}
    assert elsewhere.news() == {}  # it is sent once
    elsewhere.hear([{"slower": "Since update 7 …"}])


def test_the_slow_host_is_named_with_its_own_cause() -> None:
    [(kind, text)] = told_by([EVEN, [1.4 * each for each in EVEN], EVEN], [{"slower": "…"}, {}, {}, {}])
    assert kind == "slower"
    assert "Process 2 on node2 holds up the others: the same piece of work takes 40 % longer there." in text
    assert "It is too hot there." in text


def test_where_no_host_is_slow_it_is_said_too() -> None:
    [(_, text)] = told_by([EVEN, EVEN], [{}, {"slower": "…"}, {}])
    assert "none of them is the slow one" in text


def test_a_host_that_stalls_is_named_and_what_all_share_is_said_once() -> None:
    busy = {"waiting": "The device waited for the host in 20 % of the last 30 s."}
    assert told_by([EVEN, EVEN], [{}, busy, busy]) == [("waiting", f"On process 1, 2: {busy['waiting']}")]
    assert told_by([EVEN, EVEN], [busy, busy, busy]) == []  # process 0 has said it for itself


@pytest.mark.quick
def test_the_small_piece_of_work_takes_some_time() -> None:
    assert len(small_work(3)) == 3
    assert min(small_work(3)) > 0
