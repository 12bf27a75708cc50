"""The watch on time, with a clock and a device that do as they are told: slow-downs, the slow host, likely causes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.train.health.throughput import (
    Change,
    SlowDown,
    Stragglers,
    Throughput,
    likely_cause,
    machine_load,
    slow_host,
    small_work,
)


class Bench:
    """A loop whose device takes `device` seconds a chunk of ten updates and whose host takes `host` in between."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.told: list[tuple[str, str]] = []
        self.throughput = Throughput(lambda kind, text: self.told.append((kind, text)), lambda: self.time)
        self.update = 0
        self._ends: list[float] = []

    def train(self, chunks: int, device: float = 0.5, host: float = 0.01, work: str = "callbacks") -> None:
        """As the loop does: the next chunk is handed over before the host waits for the last one."""
        for _ in range(chunks):
            free = self._ends[-1] if self._ends else self.time
            self.throughput.dispatch(10, idle=free <= self.time)
            self._ends.append(max(free, self.time) + device)
            if len(self._ends) > 1:
                end = self._ends[-2]
                waited = end > self.time
                self.time = max(self.time, end)
                self.update += 10
                self.throughput.finished(self.update, waited)
            with self.throughput.host(work):
                self.time += host

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.quick
def test_an_even_pace_is_not_worth_a_word(bench: Bench) -> None:
    bench.train(1000)
    assert bench.told == []


def test_a_slow_down_is_told_once_with_its_size_and_begin(bench: Bench) -> None:
    bench.train(100)
    bench.train(200, device=0.6)
    [(kind, text)] = bench.told
    assert kind == "slower"
    assert "Since about update 1000 an update takes 20 % longer: 60 ms instead of 50 ms." in text


def test_getting_faster_is_no_complaint(bench: Bench) -> None:
    bench.train(100)
    bench.train(200, device=0.3)
    assert bench.told == []


def test_a_busy_host_is_told_with_what_it_does(bench: Bench) -> None:
    """Work up to the length of a chunk costs nothing; what is longer leaves the device idle."""
    bench.train(200, host=0.45)
    assert bench.told == []
    bench.train(200, host=1.0, work="callbacks")
    [(kind, text)] = bench.told
    assert kind == "waiting"
    share = int(text.removeprefix("The device waited for the host in ").partition(" ")[0])
    assert 20 < share <= 50  # half of the time, but the first window began before
    assert "The host was busy with: callbacks" in text
    assert text.endswith("Let callbacks do less, or log more rarely: --log-every.")


def test_a_host_that_waits_itself_is_not_told_to_do_less(bench: Bench) -> None:
    """As where another process of the same run is late: none of its own work takes a tenth of that."""
    bench.train(20)
    for _ in range(200):
        bench.time += 1.0
        bench.train(1, work="callbacks")
    assert set(bench.kinds()) == {"waiting"}
    assert all("Nothing that is measured here" in text and "callbacks" not in text for _, text in bench.told)


def test_short_chunks_are_put_together(bench: Bench) -> None:
    """Single ones are mostly noise: here every other one takes three times as long."""
    for _ in range(2000):
        bench.train(1, device=0.01, host=0.0)
        bench.train(1, device=0.03, host=0.0)
    assert bench.told == []


def test_a_pause_is_not_the_hosts_fault(bench: Bench) -> None:
    for _ in range(40):
        bench.train(10)
        bench.throughput.pause()
        bench.time += 100.0  # an evaluation
        bench._ends = []
    assert bench.told == []


def test_compiling_while_training_is_told(bench: Bench) -> None:
    with bench.throughput:
        bench.train(30)
        for size in range(3, 6):  # each of another shape
            jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((size, size))).block_until_ready()
        bench.throughput._window[2] += 1.0  # they took no time worth mentioning
        bench.train(60)
    [(kind, text)] = bench.told
    assert kind == "compiled"
    assert "JAX compiled" in text
    assert "callbacks" in text
    before = bench.throughput._compiled
    jax.jit(lambda x: jnp.cos(x))(jnp.ones(7)).block_until_ready()
    assert bench.throughput._compiled == before  # it listens no more


Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.06 * rng.standard_normal(n)


def with_outliers(rng: np.random.Generator, n: int) -> np.ndarray:
    """Three in a hundred take up to five times as long."""
    return normal(rng, n) + (rng.random(n) < 0.03) * np.log1p(4 * rng.random(n))


def heavy_tails(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.06 * rng.standard_t(3, n)


def in_waves(rng: np.random.Generator, n: int) -> np.ndarray:
    """As on a machine that others use too."""
    noise = normal(rng, n)
    for i in range(1, n):
        noise[i] = 0.3 * noise[i - 1] + np.sqrt(1 - 0.3**2) * noise[i]
    return noise


NOISES = [normal, with_outliers, heavy_tails, in_waves]


def slow_downs(seconds: np.ndarray) -> list[tuple[int, Change]]:
    """The slow-downs that are reported, and when."""
    watch = SlowDown()
    found = [(i, watch.add(float(x))) for i, x in enumerate(seconds)]
    return [(i, change) for i, change in found if change is not None]


@pytest.mark.parametrize("noise", NOISES)
def test_noise_alone_gives_hardly_ever_an_alarm(noise: Noise) -> None:
    """At two samples a second these are more than 6 hours of training."""
    rng = np.random.default_rng(0)
    alarms = sum(len(slow_downs(0.5 * np.exp(noise(rng, 1500)))) for _ in range(30))
    assert alarms <= 1


@pytest.mark.parametrize("noise", NOISES)
def test_a_lasting_slow_down_is_found_within_a_minute(noise: Noise) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        seconds = 0.5 * np.exp(noise(rng, 600))
        seconds[400:] *= 1.12
        when, change = slow_downs(seconds)[0]
        assert 400 <= when < 520
        assert change.after / change.before == pytest.approx(1.12, abs=0.08)
        assert change.before == pytest.approx(0.5, rel=0.03)
        assert abs(when + 1 - change.samples - 400) < 50  # since when, about


def test_what_does_not_last_is_no_slow_down() -> None:
    seconds = np.full(200, 1.0)
    seconds[100:106] = 30.0
    seconds[150:153] = 2.0
    assert slow_downs(seconds) == []


def test_less_than_a_tenth_is_not_worth_a_word() -> None:
    assert slow_downs(np.array([1.0] * 100 + [1.05] * 1000)) == []


def test_in_noisy_times_only_what_stands_out_is_reported() -> None:
    rng = np.random.default_rng(3)
    seconds = np.exp(0.3 * rng.standard_normal(900))
    seconds[400:] *= 1.15
    assert slow_downs(seconds) == []
    seconds[600:] *= 2.0
    assert len(slow_downs(seconds)) == 1


def test_the_new_speed_is_the_new_normal_after_getting_faster_too() -> None:
    found = slow_downs(np.array([1.0] * 100 + [1.5] * 100 + [1.0] * 100 + [1.3] * 100))
    assert [round(change.after / change.before, 2) for _, change in found] == [1.5, 1.3]


def test_the_slow_host_is_named() -> None:
    rng = np.random.default_rng(2)
    times = np.exp(0.1 * rng.standard_normal((4, 30)))
    assert slow_host(times) is None
    times[2] *= 1.3
    found = slow_host(times)
    assert found is not None
    assert found[0] == 2
    assert found[1] == pytest.approx(1.3, rel=0.1)


def test_one_bad_interval_makes_no_slow_host() -> None:
    times = np.ones((2, 10))
    times[1, 3] = 50.0
    assert slow_host(times) is None
    times[1, :] = 1.2
    assert slow_host(times) == (1, pytest.approx(1.2))


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


QUIET = {"load": 1.0, "cores": 8.0, "ghz": 3.0, "swapped": 100.0, "throttled": 0.0}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"throttled": 3.0}, "too hot"),
        ({"swapped": 90_000.0}, "swapping"),
        ({"load": 17.5}, "Other programs want the processor: the load is 17.5 on 8 cores, it was 1.0."),
        ({"ghz": 2.0}, "fell from 3.00 to 2.00 GHz"),
        ({"load": 7.0, "swapped": 150.0}, "Nothing else has changed"),
    ],
)
def test_the_cause_is_what_has_changed(change: dict[str, float], sentence: str) -> None:
    assert sentence in likely_cause(QUIET, {**QUIET, **change})


def test_a_system_that_reports_nothing_has_no_cause() -> None:
    assert "Nothing else has changed" in likely_cause({"cores": 8.0}, {"cores": 8.0})


def test_this_machine_can_be_looked_at() -> None:
    assert machine_load()["cores"] >= 1
