"""Several hosts: joining them, sharing facts that only one of them knows, moving a state between them and process 0.

Every process runs the same program on the same numbers, and all follow one rule: what a process does next depends only
on what all of them know. A signal, a clock or a file is known to one process alone, so it is exchanged first; processes
that took different paths would wait for each other forever. With one process, nothing here costs anything.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = [
    "broadcast",
    "exchange",
    "fetch",
    "gather",
    "is_main",
    "join",
    "leave",
    "main_says",
    "on_main",
    "plain",
    "scratch",
]

HEARTBEAT_SECONDS = 60
"""A host that is silent for this long counts as dead, and the processes that wait for it end."""
JOIN_SECONDS, PATIENCE_SECONDS = 300.0, 10.0
"""The seconds that processes wait for each other at the start, and after which they say for whom."""

T = TypeVar("T")

_WIDTH = 256  # bytes in an exchange, so that most need one round
_HEAD = 8  # of these, for the length


def join(coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None) -> None:
    """Connect this process to the others of the run. Call it before anything touches a device.

    Args:
        coordinator: `host:port` of process 0; None finds all three under SLURM, Open MPI, Kubernetes and on TPUs.
        num_processes: The number of processes.
        process_id: The index of this one, from 0.

    Raises:
        ValueError: Only some of the three are given, or none is given and the environment does not provide them.
        TimeoutError: Not all have come within `JOIN_SECONDS`.
        RuntimeError: JAX is already using devices.
    """
    given = (coordinator, num_processes, process_id)
    # JAX's own SIGTERM handler would replace the one that saves.
    jax.config.update("jax_enable_preemption_service", False)
    if coordinator is not None and num_processes is not None and process_id is not None:
        _meet(coordinator, num_processes, process_id)
    elif any(value is not None for value in given):
        raise ValueError("coordinator, num_processes and process_id go together: give all three, or none of them.")
    # In a thread of its own: where somebody is missing, JAX ends the whole process, with no sentence, a little later.
    joining = futures.ThreadPoolExecutor(1).submit(
        jax.distributed.initialize,
        *given,
        cluster_detection_method=None if coordinator is None else "deactivate",
        initialization_timeout=int(JOIN_SECONDS) + 30,
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
    )
    try:
        joining.result(JOIN_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"Not all processes of this run have come within {JOIN_SECONDS:g} seconds.") from None
    except ValueError as error:
        if coordinator is not None:
            raise
        raise ValueError(
            "Neither SLURM, Open MPI, Kubernetes nor a TPU says which processes belong together; say it on every "
            "host: --distributed --coordinator HOST:PORT --num-processes N --process-id I, where HOST runs process 0."
        ) from error


def _meet(coordinator: str, num_processes: int, process_id: int) -> None:
    """Wait until all processes are there, at the address where JAX's own service begins afterwards.

    Raises:
        ValueError: The address or the numbers cannot be right.
        TimeoutError: Somebody is missing; the message says who, as a line on stderr does after a while.
    """
    host, _, port = coordinator.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ValueError(f"The coordinator is HOST:PORT of process 0, such as 10.0.0.1:1234, got {coordinator!r}.")
    if not 0 <= process_id < num_processes:
        raise ValueError(f"The process id is from 0 to {num_processes - 1}, got {process_id}.")
    began, told = time.monotonic(), False
    waits = _hosted(int(port), num_processes) if process_id == 0 else _as_guest(host.strip("[]"), int(port), process_id)
    for missing in waits:
        waited = time.monotonic() - began
        if waited > JOIN_SECONDS:
            raise TimeoutError(f"{missing} within {JOIN_SECONDS:g} seconds.")
        if waited > PATIENCE_SECONDS and not told:
            told = True
            print(f"jaxrl: {missing} yet. Waits up to {JOIN_SECONDS:g} seconds.", file=sys.stderr, flush=True)


def _hosted(port: int, num_processes: int) -> Iterator[str]:
    """Process 0's part: who has not come, several times a second until all have; all others are told, too."""
    guests: dict[socket.socket, int] = {}  # 0 until it has said which process it is
    try:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        server = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise OSError(f"Process 0 cannot listen at port {port}: {error.strerror}. Name another one.") from error
    with contextlib.closing(server), contextlib.ExitStack() as held:
        while missing := sorted(set(range(1, num_processes)) - set(guests.values())):
            several, who = len(missing) > 1, ", ".join(map(str, missing))
            text = f"Process{'es' * several} {who} of {num_processes} {'have' if several else 'has'} not come"
            yield text
            _tell(guests, text)
            for one in select.select([server, *guests], (), (), 0.2)[0]:
                if one is server:
                    guests[held.enter_context(server.accept()[0])] = 0
                    continue
                del guests[one]  # it has gone, unless it says which process it is
                with contextlib.suppress(OSError, ValueError):
                    guests[one] = int(one.recv(16))
        _tell(guests, "go")


def _tell(guests: Iterable[socket.socket], text: str) -> None:
    for guest in guests:
        with contextlib.suppress(OSError):
            guest.sendall(f"{text}\n".encode())


def _as_guest(host: str, port: int, process_id: int) -> Iterator[str]:
    """The other processes' part: who has not come, until process 0 says that all have."""
    while True:
        missing = f"Process 0 does not answer at {host}:{port}"
        yield missing
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0) as server:
            server.sendall(f"{process_id}\n".encode())
            while said := server.recv(1 << 16):
                if said.endswith(b"go\n") or b"\0" in said:  # the latter is JAX's own service, which waits for this one
                    return
                missing = said.decode(errors="replace").splitlines()[-1]
                yield missing
        time.sleep(0.2)


def leave() -> None:
    """Wait until all processes get here, then disconnect."""
    exchange(None)
    jax.distributed.shutdown()


def is_main() -> bool:
    """True if this is process 0, the one that writes files and prints."""
    return jax.process_index() == 0


def exchange(fact: Any, after: Any = None) -> list[Any]:
    """The fact of each process, in process order. All must call it at the same point of the program.

    Args:
        fact: JSON-able data.
        after: Arrays to wait for first: two programs at the same time could receive each other's messages.
    """
    if jax.process_count() == 1:
        return [fact]
    jax.block_until_ready(after)
    data = json.dumps(fact).encode()
    head = len(data).to_bytes(_HEAD, "big")
    rows = _rows((head + data[: _WIDTH - _HEAD]).ljust(_WIDTH, b"\0"))
    sizes = [int.from_bytes(row[:_HEAD], "big") for row in rows]
    if max(sizes) > _WIDTH - _HEAD:
        rows = _rows(head + data.ljust(1 << max(sizes).bit_length(), b"\0"))  # powers of two: few programs
    return [json.loads(row[_HEAD : _HEAD + size]) for row, size in zip(rows, sizes, strict=True)]


def main_says(fact: T, after: Any = None) -> T:
    """The JSON-able `fact` of process 0; see `exchange`."""
    return exchange(fact, after)[0]


def on_main(work: Callable[[], T], error: type[Exception] = RuntimeError) -> T | None:
    """Run `work` in process 0; the others wait and get None.

    Raises:
        Exception: In process 0, whatever `work` raised; in the others, an `error` with the same text.
    """
    if not is_main():
        text = main_says(None)
        if text is not None:
            raise error(text)
        return None
    try:
        result = work()
    except Exception as raised:
        main_says(str(raised))
        raise
    main_says(None)
    return result


@functools.cache
def scratch() -> Path:
    """A temporary folder for the files of processes other than 0: all write the same, and only process 0's are kept."""
    folder = tempfile.TemporaryDirectory(prefix="jaxrl-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def fetch(leaf: Any) -> np.ndarray:
    """The whole array on this host, wherever its parts are; for keys, their data. All processes must call it."""
    leaf = jax.random.key_data(leaf) if _is_key(leaf) else leaf
    if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
        assert isinstance(leaf.sharding, NamedSharding)
        leaf = _replicate(leaf.sharding.mesh)(leaf)
    return np.asarray(leaf)


def gather(tree: Any) -> Any:
    """`tree` with every leaf whole on a device of this host; with one process, `tree` itself. All must call it.

    Leaves are fetched one after the other, so no device holds more than one of them twice.
    """
    if jax.process_count() == 1:
        return tree
    here = jax.local_devices()[0]
    return jax.tree.map(lambda leaf: _placed(fetch(leaf), leaf, here), tree)


def plain(leaf: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of the array that `fetch` returns."""
    return jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def broadcast(arrays: Any, target: Any) -> Any:
    """Arrays that process 0 has fetched, sent to all processes bit for bit and placed on their devices.

    Args:
        arrays: Arrays returned by `fetch`; the other processes may pass anything.
        target: Arrays or shapes with the shardings of the leaves; a leaf without one is whole on a device per host.
    """
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    targets, structure = jax.tree.flatten(target)
    mine = jax.tree.leaves(arrays) if is_main() else [None] * len(targets)
    leaves = [_sent(array, leaf) for array, leaf in zip(mine, targets, strict=True)]
    return structure.unflatten(
        [_placed(value, leaf, leaf.sharding or here) for value, leaf in zip(leaves, targets, strict=True)]
    )


def _sent(array: np.ndarray | None, leaf: Any) -> np.ndarray:
    """The array of process 0, sent as bytes: a sum with zeros would turn -0.0 into 0.0."""
    if jax.process_count() == 1 or not leaf.size:
        return np.zeros(leaf.shape, plain(leaf).dtype) if array is None else array
    shape = plain(leaf)
    size = shape.size * np.dtype(shape.dtype).itemsize
    row = _rows(b"\0" * size if array is None else array.tobytes())[0]
    return np.frombuffer(row, shape.dtype).reshape(shape.shape)


def _placed(value: np.ndarray, leaf: Any, place: Any) -> Any:
    """A fetched array converted back to its kind of leaf, on devices of this host or of all hosts."""
    whole = jax.random.wrap_key_data(jnp.asarray(value)) if _is_key(leaf) else value
    if isinstance(place, NamedSharding) and not place.is_fully_addressable:
        return jax.jit(lambda x: x, out_shardings=place)(whole)
    return jax.device_put(whole, place)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _rows(mine: bytes) -> list[bytes]:
    """The bytes of every process; each must pass the same number."""
    mesh = _hosts()
    split = NamedSharding(mesh, PartitionSpec("host"))
    everyone = jax.make_array_from_process_local_data(split, np.frombuffer(mine, np.uint8)[None])
    return [row.tobytes() for row in np.asarray(_replicate(mesh)(everyone))]


@functools.cache
def _hosts() -> Mesh:
    """One device of every process."""
    first = {device.process_index: device for device in reversed(jax.devices())}
    return Mesh(np.array([first[i] for i in range(jax.process_count())]), ("host",))


@functools.cache
def _replicate(mesh: Any) -> Callable[[Any], Any]:
    return jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, PartitionSpec()))
