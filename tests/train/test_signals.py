"""The first signal asks, the second one ends."""

import signal
import threading
from collections.abc import Iterator

import pytest

from jaxrl.train.signals import StopRequest, until_a_signal


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """A shell's background jobs are told to ignore Ctrl-C; these tests are to pass there too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_signal_is_noted_and_the_second_does_what_it_always_did() -> None:
    with StopRequest() as stop:
        assert not stop
        signal.raise_signal(signal.SIGINT)
        assert stop
        assert stop.name == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has none")
def test_a_terminal_that_is_closed_may_say_so_twice() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.name == "SIGHUP"
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGTERM) != stop._handle
    assert signal.getsignal(signal.SIGHUP) == before
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_afterwards_the_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_request_inside_another_is_the_same_one() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        with StopRequest():
            pass
        signal.raise_signal(signal.SIGINT)  # between two trainings
        with StopRequest() as inner:
            assert inner.name == "SIGINT"
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert stop.name == "SIGINT"
    assert signal.getsignal(signal.SIGINT) == before
    with StopRequest() as stop:
        assert not stop


def test_other_threads_can_train_too() -> None:
    results = []

    def work() -> None:
        with StopRequest() as stop:
            results.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]


def test_a_signal_may_end_what_is_inside_and_nothing_else() -> None:
    before = signal.getsignal(signal.SIGTERM)
    reached = []
    with until_a_signal() as request:
        signal.raise_signal(signal.SIGTERM)
        reached.append("the rest")
    assert (request.name, reached, signal.getsignal(signal.SIGTERM)) == ("SIGTERM", [], before)
    with StopRequest() as stop:
        with until_a_signal() as request:
            signal.raise_signal(signal.SIGTERM)
            reached.append("the rest")
        assert (stop.name, request.name, reached) == ("SIGTERM", None, ["the rest"])
    with pytest.raises(KeyboardInterrupt), until_a_signal():  # raised by something else
        raise KeyboardInterrupt
