"""Two processes on this machine, joined as two hosts are: one run, which loses nothing when one of them dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl.cli.hosts import EXIT_LOST, HostFlags, joined
from jaxrl.train.devices import hosts
from jaxrl.train.folder.load import load

PPO = "train ppo --env classic/cartpole --hidden 8 --num-envs 16 --num-steps 8 --total-timesteps 38400 --log-every 10"
COMMAND = [*PPO.split(), "--eval-episodes", "4", "--checkpoint-every-updates", "50", "--no-pictures"]


def start(run: Path, *more: str, devices: int = 1, first: str = "pass") -> subprocess.Popen:
    """One process of a run, which executes the line `first` before it begins."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(run.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", **cache}
    command = [
        sys.executable,
        "-c",
        f"from jaxrl.cli import main; {first}; main()",
        *COMMAND,
        "--run-dir",
        str(run),
        *more,
    ]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def start_two(run: Path, *more: str, second: Sequence[str] = (), first: str = "pass") -> list[subprocess.Popen]:
    """Two processes with one device each; `second` are flags of process 1 alone, and it alone executes `first`."""
    together = ["--distributed", "--coordinator", free_address(), "--num-processes", "2", *more]
    return [
        start(run, *together, "--process-id", "0"),
        start(run, *together, *second, "--process-id", "1", first=first),
    ]


def ended(processes: list[subprocess.Popen], seconds: float = 240) -> tuple[list[int], list[str]]:
    """Exit codes and outputs."""
    try:
        outputs = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], outputs


def wait_for_rows(run: Path, rows: int, processes: list[subprocess.Popen]) -> None:
    """Return when metrics.jsonl has so many."""
    metrics, until = run / "metrics.jsonl", time.monotonic() + 200
    while not metrics.exists() or len(metrics.read_text().splitlines()) < rows:
        if time.monotonic() > until or any(process.poll() is not None for process in processes):
            raise AssertionError(ended(processes, 1))
        time.sleep(0.02)


def params_of(run: Path) -> list[np.ndarray]:
    return jax.tree.leaves(load(run).state.params)


def losses_of(run: Path) -> list[dict]:
    return [row["losses"] for row in load(run).folder.metrics.read()]


def assert_same_run(one: Path, other: Path) -> None:
    """The same rows, none missing and none twice, and the same parameters at the end."""
    for a, b in zip(losses_of(one), losses_of(other), strict=True):
        np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-3, atol=1e-5)
    for a, b in zip(params_of(one), params_of(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process with two devices, never disturbed."""
    run = tmp_path_factory.mktemp("alone") / "run"
    codes, outputs = ended([start(run, devices=2)])
    assert codes == [0], outputs
    return run


@pytest.mark.slow
def test_two_processes_stop_together_and_go_on_as_one_run(tmp_path: Path, alone: Path):
    run = tmp_path / "run"
    two = start_two(run)
    wait_for_rows(run, 3, two)
    two[1].send_signal(signal.SIGTERM)  # process 0 was not told
    codes, outputs = ended(two)
    assert codes == [75, 75], outputs
    assert "Stopped by SIGTERM" in outputs[0]
    assert "steps" not in outputs[1]  # process 0 alone speaks

    codes, outputs = ended(start_two(run))  # the same command again
    assert codes == [0, 0], outputs
    assert load(run).about["mesh"] == {"member": 1, "data": 2}
    assert_same_run(run, alone)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_all_and_all_go_on_from_the_last_checkpoint(tmp_path: Path, alone: Path, killed: int):
    run = tmp_path / "run"
    two = start_two(run)
    wait_for_rows(run, 10, two)
    two[killed].kill()
    since = time.monotonic()
    codes, outputs = ended(two, hosts.HEARTBEAT_SECONDS)
    assert time.monotonic() - since < hosts.HEARTBEAT_SECONDS
    survivor = 1 - killed
    if codes[survivor] == EXIT_LOST:
        assert "Another process of this run is gone" in outputs[survivor]
    else:  # JAX has seen it first
        assert codes[survivor] == -signal.SIGABRT
        assert "another task died" in outputs[survivor]

    codes, outputs = ended(start_two(run))
    assert codes == [0, 0], outputs
    assert_same_run(run, alone)


@pytest.mark.slow
def test_seeds_on_two_processes(tmp_path: Path):
    run, single = tmp_path / "run", tmp_path / "single"
    two = start_two(run, "--num-seeds", "2", "--eval-every", "100")
    codes, outputs = ended(two)
    assert codes == [0, 0], outputs
    assert load(run).about["mesh"] == {"member": 2, "data": 1}
    codes, outputs = ended([start(single, "--num-seeds", "2", "--eval-every", "100", devices=2)])
    assert codes == [0], outputs
    assert_same_run(run, single)


@pytest.mark.slow
def test_processes_that_would_train_differently_say_in_what(tmp_path: Path):
    changed = "import jaxrl.train.folder.provenance as p; p._PACKAGES = ('jaxrl',)"  # as if it had other versions
    codes, outputs = ended(start_two(tmp_path / "run", second=["--lr", "0.5", "--eval-every", "7"], first=changed))
    assert codes == [2, 2], outputs
    for output in outputs:
        assert "lr is 0.002 in process 0 and 0.5 in process 1" in output
        assert "eval_every is left out in process 0 and 7 in process 1" in output
        assert f"versions.jax is {jax.__version__} in process 0 and left out in process 1" in output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_processes_that_began_with_other_parameters_say_so(tmp_path: Path):
    """Settings, files and versions are equal, and still one process draws other parameters."""
    other = (
        "import jaxrl.train.members as m; keys = m.seed_keys; m.seed_keys = lambda n, s=0: keys([i + 1 for i in n], s)"
    )
    codes, outputs = ended(start_two(tmp_path / "run", first=other))
    assert codes == [2, 2], outputs
    assert all("params of TrainState differ between hosts" in output for output in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("there", [0, 1])
def test_who_does_not_come_is_named(tmp_path: Path, there: int):
    address = free_address()
    soon = "from jaxrl.train.devices import hosts; hosts.JOIN_SECONDS, hosts.PATIENCE_SECONDS = 2.0, 0.2"
    flags = ["--distributed", "--coordinator", address, "--num-processes", "2", "--process-id", str(there)]
    codes, [output] = ended([start(tmp_path / "run", *flags, first=soon)])
    missing = f"Process 0 does not answer at {address}" if there else "Process 1 of 2 has not come"
    assert codes == [EXIT_LOST], output
    assert output.startswith(f"jaxrl: {missing} yet. Waits up to 2 seconds.\njaxrl: {missing} within 2 seconds.")
    assert "Traceback" not in output


def test_all_hear_who_is_missing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """A stranger knocks, process 1 comes and goes, process 2 comes and waits until process 1 is back."""
    monkeypatch.setattr(hosts, "PATIENCE_SECONDS", 0.7)
    address = free_address()
    with futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(hosts._meet, address, 3, 0)]
        time.sleep(0.3)
        for said in (b"GET / HTTP/1.1\r\n", b"1\n"):
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as knocking:
                knocking.sendall(said)
        waiting.append(pool.submit(hosts._meet, address, 3, 2))
        time.sleep(1.5)
        assert not any(process.done() for process in waiting)
        hosts._meet(address, 3, 1)
        for process in waiting:
            process.result(10)
    assert capfd.readouterr().err.count("Process 1 of 3 has not come yet") == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("127.0.0.1", 2, 0), "HOST:PORT of process 0, such as 10.0.0.1:1234, got '127.0.0.1'"),
        (("127.0.0.1:1", 2, 2), "from 0 to 1, got 2"),
    ],
)
def test_an_address_or_a_number_that_cannot_be_is_refused(given: tuple[str, int, int], message: str):
    with pytest.raises(ValueError, match=message):
        hosts.join(*given)


@pytest.mark.slow
def test_what_process_0_cannot_do_ends_all(tmp_path: Path):
    (tmp_path / "something").write_text("in the way")
    codes, outputs = ended(start_two(tmp_path))
    assert codes == [2, 2]
    assert all("name another one with --run-dir" in output for output in outputs)


def test_one_process_agrees_with_itself():
    assert hosts.exchange({"n": 3}) == [{"n": 3}]
    assert hosts.main_says(0.5) == 0.5
    assert hosts.on_main(lambda: "done") == "done"
    with pytest.raises(OSError, match="full"):
        hosts.on_main(lambda: (_ for _ in ()).throw(OSError("full")))


def test_the_processes_have_to_be_named_somehow(monkeypatch: pytest.MonkeyPatch):
    def nowhere(*_: object, **__: object) -> None:
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", nowhere)
    with pytest.raises(ValueError, match="go together"):
        hosts.join("127.0.0.1:1")
    with pytest.raises(ValueError, match="--coordinator HOST:PORT --num-processes N --process-id I"):
        hosts.join()
    with pytest.raises(ValueError, match="belong to --distributed"), joined(HostFlags(process_id=1)):
        pass
