"""Reports to process 0 which of the other processes stall, and which host is slow.

Hosts that train together wait for each other in every update, so all see the same times and none knows which is slow.
So when training has become slower, each host times the same small piece of work by itself; these times are compared.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.train.devices import hosts
from jaxrl.train.health.change_point import slow_host
from jaxrl.train.health.machine_load import MachineLoad, likely_cause

__all__ = ["Stragglers", "small_work"]


class Stragglers:
    """Carries the reports of `Throughput` to process 0. With one process, it does nothing.

    Args:
        tell: `tell(kind, sentence)`, called on process 0.
        exchange: Shares a fact of each process with all of them, see `hosts.exchange`.
        measure: Returns the seconds that the same work takes on this host, measured several times.
    """

    def __init__(
        self,
        tell: Callable[[str, str], None],
        exchange: Callable[[Any], list[Any]] = hosts.exchange,
        measure: Callable[[], list[float]] | None = None,
    ) -> None:
        self._tell = tell
        self._exchange = exchange
        self._measure = measure or small_work
        self._news: dict[str, str] = {}
        self._machine = MachineLoad.now()

    def note(self, kind: str, text: str) -> None:
        """Record something that this process has noticed."""
        self._news[kind] = text

    def news(self) -> dict[str, str]:
        """Everything noted since the last call, to send to the other processes."""
        news, self._news = self._news, {}
        return news

    def hear(self, everyone: list[dict[str, str]]) -> None:
        """Take in the news of all processes; every process calls it with the same list."""
        if len(everyone) == 1:
            return
        for kind in ("waiting", "compiled"):
            saying = [process for process, news in enumerate(everyone) if kind in news]
            if saying and 0 not in saying and hosts.is_main():  # process 0 has already reported its own
                who = ", ".join(map(str, saying))
                self._tell(kind, f"On process {who}: {everyone[saying[0]][kind]}")
        if any("slower" in news for news in everyone):
            self._find_the_slow_one()

    def _find_the_slow_one(self) -> None:
        cause = likely_cause(self._machine, MachineLoad.now())
        facts = self._exchange([self._measure(), socket.gethostname(), cause])
        if not hosts.is_main():
            return
        found = slow_host(np.array([times for times, _, _ in facts]))
        if found is None:
            self._tell(
                "slower", "The same piece of work takes about as long on every host: none of them is the slow one."
            )
            return
        process, ratio = found
        _, name, cause = facts[process]
        self._tell(
            "slower",
            f"Process {process} on {name} holds up the others: the same piece of work takes {100 * (ratio - 1):.0f} % "
            f"longer there. {cause}",
        )


def small_work(repeats: int = 8) -> list[float]:
    """The seconds that each repetition of fixed matrix products takes on this process's first device."""
    device = jax.local_devices()[0]
    matrix = jax.device_put(np.full((512, 512), 1 / 512, np.float32), device)
    work = jax.jit(lambda m: jax.lax.fori_loop(0, 4, lambda _, x: jnp.dot(x, m), m))
    work(matrix).block_until_ready()  # compiled
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work(matrix).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return seconds
