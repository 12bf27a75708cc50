"""When things happen in a run."""

import pytest

from jaxrl.train.intervals import ChunkSizer, Intervals


def walk(intervals: Intervals) -> list[int]:
    """The updates at which the loop pauses."""
    update, stops = 0, []
    while update < intervals.num_updates:
        update += intervals.until_next_stop(update)
        stops.append(update)
    return stops


def test_the_loop_pauses_where_something_is_due() -> None:
    intervals = Intervals(20, eval_every=6, checkpoint_every_updates=9)
    assert walk(intervals) == [6, 9, 12, 18, 20]
    assert [u for u in range(21) if intervals.evaluates(u)] == [6, 12, 18]
    assert [u for u in range(1, 21) if intervals.saves(u, 0.0)] == [9, 18]


def test_by_default_it_pauses_only_at_the_end() -> None:
    assert walk(Intervals(20)) == [20]


def test_minutes_count_beside_updates() -> None:
    intervals = Intervals(20, checkpoint_every_minutes=2)
    assert not intervals.saves(3, 119.0)
    assert intervals.saves(3, 120.0)


def test_saving_by_time_takes_two_hundredths_of_it_at_most() -> None:
    intervals = Intervals(20, checkpoint_every_updates=7, checkpoint_every_minutes=1)
    assert intervals.saves(3, 60.0, save_took=1.2)
    assert not intervals.saves(3, 100.0, save_took=2.4)  # a large state
    assert intervals.saves(3, 120.0, save_took=2.4)
    assert intervals.saves(7, 1.0, save_took=2.4)  # who counts in updates gets what was asked for


@pytest.mark.parametrize(("updates", "in_row"), [(1, 1), (500, 1), (501, 2), (100_000, 200)])
def test_there_are_at_most_500_rows(updates: int, in_row: int) -> None:
    assert Intervals(updates).updates_in_row == in_row


def test_a_run_has_at_least_one_update() -> None:
    with pytest.raises(ValueError, match="total_timesteps is less than one update"):
        Intervals(0)


@pytest.mark.parametrize("seconds", [1e-4, 3e-3, 0.04, 7.0])
def test_chunks_soon_last_between_a_fifth_of_a_second_and_two(seconds: float) -> None:
    chunk_sizer = ChunkSizer(max_chunk=10_000)
    for _ in range(8):
        chunk_sizer.measured(n := chunk_sizer.next(limit=10**9), n * seconds)
    n = chunk_sizer.next(limit=10**9)
    assert 0.2 <= n * seconds <= 2 or n == 1


def test_chunks_respect_what_limits_them() -> None:
    chunk_sizer = ChunkSizer(max_chunk=100)
    for _ in range(8):
        chunk_sizer.measured(chunk_sizer.next(1000), 1e-6)
    assert chunk_sizer.next(1000) == 100
    assert chunk_sizer.next(7) == 7
