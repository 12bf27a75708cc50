"""The watch on time, with a clock and a device that do as they are told."""

import jax
import jax.numpy as jnp
import pytest

from jaxrl.train.health.throughput import Throughput


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
