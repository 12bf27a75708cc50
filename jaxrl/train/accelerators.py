"""Accelerators that exist only for the compiler: what a program would launch, move and take on GPUs and TPUs.

XLA's compilers for both work on a machine that has neither (extra `accelerators`). `devices_of("h100:8")` are devices
to lower and compile for, `count_work` reads the optimised program, and `time_limits` says which limit binds. Nothing
runs.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
from jax.sharding import SingleDeviceSharding

from jaxrl.errors import suggestion
from jaxrl.rl.devices import compiling_for

__all__ = [
    "ACCELERATORS",
    "GROWING",
    "Accelerator",
    "Work",
    "compile_for",
    "count_flops",
    "count_work",
    "devices_of",
    "named",
    "time_limits",
]


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """What its maker says of one device: data sheets, and for GPUs the specifications that come with XLA."""

    name: str
    platform: str
    """`"gpu"` or `"tpu"`."""
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes a second between memory and cores."""
    flops: float
    """A second, in matrix products of float32 at JAX's default precision: TF32 on a GPU, bfloat16 on a TPU; dense."""
    link: float
    """Bytes a second to the other devices, in one direction."""
    clock: float
    """Hz."""
    compiler: str = ""
    """Fields of XLA's GpuTargetConfigProto that differ between GPUs."""


def _gpu(cores: int, fpus: int, cache: int, shared: int, optin: int, major: int) -> str:
    return (
        f"core_count: {cores} fpus_per_core: {fpus} l2_cache_size: {cache} shared_memory_per_core: {shared} "
        f"shared_memory_per_block_optin: {optin} cuda_compute_capability {{ major: {major} }}"
    )


ACCELERATORS = {
    "a100": Accelerator(
        "NVIDIA A100-SXM4-80GB", "gpu", 85.1e9, 2.04e12, 156e12, 300e9, 1.41e9,
        _gpu(108, 64, 41943040, 167936, 166912, 8),
    ),
    "h100": Accelerator(
        "NVIDIA H100 80GB HBM3", "gpu", 84.9e9, 3.35e12, 495e12, 450e9, 1.98e9,
        _gpu(132, 128, 52428800, 233472, 232448, 9),
    ),
    "h200": Accelerator(
        "NVIDIA H200 141GB HBM3e", "gpu", 151.4e9, 4.8e12, 495e12, 450e9, 1.98e9,
        _gpu(132, 128, 52428800, 233472, 232448, 9),
    ),
    "b200": Accelerator(
        "NVIDIA B200", "gpu", 191.5e9, 7.67e12, 1100e12, 900e9, 1.965e9,
        _gpu(148, 128, 132644864, 233472, 232448, 10),
    ),
    "v4": Accelerator("TPU v4", "tpu", 17.2e9, 0.61e12, 138e12, 150e9, 1.05e9),  # a core; a chip has two
    "v5e": Accelerator("TPU v5e", "tpu", 17.2e9, 0.82e12, 197e12, 200e9, 1.5e9),
    "v5p": Accelerator("TPU v5p", "tpu", 102e9, 2.77e12, 459e12, 600e9, 1.75e9),
    "v6e": Accelerator("TPU v6e", "tpu", 34.4e9, 1.64e12, 918e12, 448e9, 1.75e9),
}  # fmt: skip
"""By the names that `jaxrl plan --on` takes."""

_GPU_TARGET = """\
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: {bandwidth:.0f} device_memory_size: {memory:.0f} clock_rate_ghz: {ghz:g} {compiler}
  dnn_version: "9.10.0" driver_version: "13.0.0" runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{name}"
"""
_TPU_ALONE = {
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}
"""So that libtpu asks no cloud for its metadata, says nothing on stderr, and serves several processes at once."""
GROWING = ("bytes", "FLOPs")
"""The limits of `time_limits` that grow with the number of environments."""
_PER_HOST = 8
_LAUNCH = 2.5e-6
"""Seconds from one small kernel to the next in a stream; CUDA's guide says 2 to 4 us."""
_ASK = 10e-6
"""Seconds to copy a predicate to the host, wait, and launch on."""
_REDUCE = 15e-6
"""Seconds that a small collective takes, whatever its bytes."""


def named(target: str) -> tuple[str, Accelerator, str]:
    """Kind, facts and topology of a target such as `h100:8` or `v5e:4x4`; without a colon, it is one device.

    Raises:
        ValueError: There is no such kind or topology.
    """
    kind, _, topology = target.partition(":")
    known = ", ".join(ACCELERATORS)
    if kind not in ACCELERATORS:
        raise ValueError(f"Unknown accelerator {target!r}. {suggestion(kind, list(ACCELERATORS))} There are {known}.")
    accelerator = ACCELERATORS[kind]
    gpu = accelerator.platform == "gpu"
    topology = topology or "1"
    if not re.fullmatch(r"[1-9]\d*" if gpu else r"1|[1-9]\d*(x[1-9]\d*){1,2}", topology):
        means = f"{kind}:8 means eight GPUs" if gpu else f"{kind}:4x4 means sixteen chips in a square"
        raise ValueError(f"--on {target}: {topology!r} is no topology; {means}, {kind} alone means one.")
    if gpu and int(topology) > _PER_HOST and int(topology) % _PER_HOST:
        raise ValueError(f"--on {target}: more than {_PER_HOST} GPUs come in hosts of {_PER_HOST} each.")
    return kind, accelerator, topology


def devices_of(target: str) -> list[Any]:
    """The devices of a target, to compile for.

    Raises:
        ValueError: There is no such target, or the plugin that compiles for it is missing or of another version.
    """
    from jax.experimental import topologies

    kind, accelerator, topology = named(target)
    if accelerator.platform == "gpu":
        _need("jax-cuda13-plugin", jax.__version__)
        count = int(topology)
        shape = f"1x1x{count}" if count <= _PER_HOST else f"1x{count // _PER_HOST}x{_PER_HOST}"
        text = _GPU_TARGET.format(**vars(accelerator), ghz=accelerator.clock / 1e9)
        return topologies.get_topology_desc("", platform="cuda", topology=shape, target_config=text).devices
    _need("libtpu", None)
    smallest = {"v4": "2x2x1", "v5p": "2x2x1"}.get(kind, "2x2")
    shape = smallest if topology == "1" else topology
    before = dict(os.environ)
    os.environ.update({name: value for name, value in _TPU_ALONE.items() if name not in before})
    try:
        devices = topologies.get_topology_desc(f"{kind}:{shape}", platform="tpu").devices
    except Exception as error:
        raise ValueError(f"--on {target}: libtpu knows no such topology ({str(error).splitlines()[0]}).") from error
    finally:
        for name in _TPU_ALONE.keys() - before.keys():  # or programs that this one starts take it for a TPU's host
            del os.environ[name]
    return devices[:1] if topology == "1" else devices


def compile_for(target: str, function: Callable[..., Any], *args: Any) -> Any:
    """`function` of arguments of these shapes, compiled for one device of a target."""
    there = SingleDeviceSharding(devices_of(target)[0])
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there), args)
    with compiling_for(named(target)[1].platform):
        return jax.jit(function).lower(*shapes).compile()


def _need(package: str, version: str | None) -> None:
    """Raise ValueError unless the plugin is installed, in this version where one is given."""
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(
            f"Compiling for this accelerator needs {package}: pip install 'jaxrl[accelerators]', or from a clone "
            f"pip install -e '.[accelerators]'. No accelerator is needed."
        ) from None
    if version and found != version:
        raise ValueError(f"{package} is {found}, but jax is {version}: pip install --no-deps {package}=={version}.")


class Work(NamedTuple):
    """What a program launches and moves on one device, loops multiplied out by their turns."""

    kernels: float = 0
    """With the dearest branch of each conditional, as all else here."""
    kernels_at_least: float = 0
    """With the cheapest."""
    turns: float = 0
    """Of loops."""
    asked: float = 0
    """How often a GPU's host waits for a predicate: conditionals, and turns of loops of unknown length."""
    read: float = 0
    """Bytes that kernels read; of an array that is sliced or gathered from, the slices."""
    written: float = 0
    """Bytes that kernels write; of an array that is updated in place, the update."""
    cycles: float = 0
    """XLA's own estimate, which it writes into programs for TPUs."""
    unknown: float = 0
    """Loops of unknown length, which count as one turn."""
    collectives: float = 0
    reduced: float = 0
    """Bytes of the results of collectives."""

    def times(self, turns: float) -> Work:
        """The same `turns` times over."""
        return Work(*(turns * value for value in self))

    def plus(self, other: Work) -> Work:
        """Both, one after the other."""
        return Work(*(a + b for a, b in zip(self, other, strict=True)))


class _Op(NamedTuple):
    name: str
    shape: str
    kind: str
    operands: list[str]
    line: str


_FREE = re.compile(
    "parameter|tuple|get-tuple-element|bitcast|constant|after-all|opt-barrier|partition-id|replica-id|add-dependency|"
    "iota|copy-start|async-update|[a-z-]+-done"
)
_COLLECTIVE = re.compile(r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?")
_BYTES = {"pred": 1, "8": 1, "16": 2, "32": 4, "64": 8}
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|[^ ]+) ([\w\-]+)\((.*)$")


def count_work(text: str, platform: str) -> tuple[Work, tuple[tuple[float, float], ...]]:
    """The work of a compiled program; and turns and kernels of each loop that is in no other, the largest first.

    Args:
        text: The optimised program, `compiled.as_text()`.
        platform: `"gpu"` or `"tpu"`. Only a GPU's host is asked for predicates.
    """
    found, entry = _computations(text)
    known: dict[str, Work] = {}
    loops: dict[str, tuple[float, float]] = {}

    def walk(name: str, inside: bool) -> Work:
        if name not in known:
            ops = found.get(name, ())
            shapes = {op.name: op.shape for op in ops}
            known[name] = _sum(work(op, shapes, inside) for op in ops if not _FREE.fullmatch(op.kind))
        return known[name]

    def work(op: _Op, shapes: dict[str, str], inside: bool) -> Work:
        if op.kind == "while":
            turns = _turns(op, found)
            whole = walk(_called(op, "body")[0], True).times(turns or 1).plus(Work(turns=turns or 1))
            if not turns:
                whole = whole.plus(walk(_called(op, "condition")[0], True)).plus(Work(asked=1, unknown=1))
            if not inside:
                loops[op.name] = turns or 1, whole.kernels
            return whole
        if op.kind == "conditional":
            branches = _called(op, "branch_computations") or _called(op, "(?:true|false)_computation")
            works = sorted((walk(branch, inside) for branch in branches), key=lambda one: one.kernels)
            return works[-1]._replace(kernels_at_least=works[0].kernels_at_least).plus(Work(asked=1))
        if op.kind == "call" or op.kind.startswith("async-start"):
            return _sum(walk(name, inside) for name in _called(op, "to_apply") or _called(op, "calls"))
        return _one_kernel(op, shapes, found)

    whole = walk(entry, False)
    ordered = sorted(loops.values(), key=lambda loop: -loop[1])
    return whole if platform == "gpu" else whole._replace(asked=0), tuple(ordered)


def _sum(works: Iterable[Work]) -> Work:
    total = Work()
    for work in works:
        total = total.plus(work)
    return total


def _computations(text: str) -> tuple[dict[str, list[_Op]], str]:
    """The operations of each computation of a program, and the name of its entry."""
    found: dict[str, list[_Op]] = {}
    current, entry = None, ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = found[head[2]] = []
            entry = head[2] if head[1] else entry
        elif line.startswith("}"):
            current = None
        elif current is not None and (step := _LINE.match(line)):
            inside = step[4].split("), ")[0]
            current.append(_Op(step[1], step[2], step[3], re.findall(r"%([\w.\-]+)", inside), line))
    return found, entry


def _called(op: _Op, attribute: str) -> list[str]:
    """The computations that an operation names under an attribute."""
    named = re.findall(rf"\b{attribute}=(\{{[^}}]*\}}|%?[\w.\-]+)", op.line)
    return [name.strip(" %") for group in named for name in group.strip("{}").split(",")]


def _turns(op: _Op, found: dict[str, list[_Op]]) -> int | None:
    """The turns of a loop: GPUs' programs say so, TPUs' compare a counter, which begins at 0, with a constant."""
    if known := re.search(r'known_trip_count"?:\{"n":"(\d+)"', op.line):
        return int(known[1])
    condition = found.get(_called(op, "condition")[0], [])
    limits = [c for other in condition if (c := re.search(r"= s32\[\]\S* constant\((\d+)\)", other.line))]
    counts = any("direction=LT" in other.line for other in condition)
    return int(limits[0][1]) if counts and len(limits) == 1 else None


def _one_kernel(op: _Op, shapes: dict[str, str], found: dict[str, list[_Op]]) -> Work:
    """The work of one kernel, copy or collective, given the shapes of all that its computation makes."""
    called = found.get(next(iter(_called(op, "calls")), ""), []) if op.kind == "fusion" else []
    if called:
        read, written = _traffic(called)
    else:
        read = sum(_size(shapes.get(name, "")) for name in op.operands)
        written = _size(op.shape)
        if op.kind in ("dynamic-slice", "slice", "gather"):
            read = written
        elif op.kind == "dynamic-update-slice":
            read = written = _size(shapes.get(op.operands[1], ""))
    cycles = re.search(r'estimated_cycles":"(\d+)"', op.line)
    one = Work(1, 1, read=read, written=written, cycles=int(cycles[1]) if cycles else 0)
    return one._replace(collectives=1, reduced=_size(op.shape)) if _COLLECTIVE.fullmatch(op.kind) else one


def _traffic(fusion: list[_Op]) -> tuple[int, int]:
    """The bytes that a fusion reads and writes."""
    shapes = {op.name: op.shape for op in fusion}
    by_name = {op.name: op for op in fusion}
    read = 0
    for op in fusion:
        if op.kind != "parameter":
            continue
        users = [other for other in fusion if op.name in other.operands]
        parts = 0
        for user in users:
            if user.kind in ("dynamic-slice", "slice", "gather") and user.operands[0] == op.name:
                parts += _size(user.shape)
            elif user.kind != "dynamic-update-slice" or user.operands[0] != op.name:
                parts = _size(op.shape)
                break
        read += min(parts, _size(op.shape))
    root = next((op for op in fusion if op.line.lstrip().startswith("ROOT")), fusion[-1])
    outs = [by_name[name] for name in root.operands if name in by_name] if root.kind == "tuple" else [root]
    written = 0
    for out in outs:
        while out.kind == "bitcast" and out.operands[0] in by_name:
            out = by_name[out.operands[0]]
        written += _size(shapes[out.operands[1]] if out.kind == "dynamic-update-slice" else out.shape)
    return read, written


def _size(shape: str) -> int:
    """Bytes of a shape as programs write it, such as `(f32[8,3]{1,0}, pred[8])`; keys and tokens have none."""
    total = 0
    for kind, bits, dims in re.findall(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]", shape):
        total += _BYTES.get(bits or kind, 0) * math.prod(int(d) for d in dims.split(",") if d)
    return total


def count_flops(jaxpr: Any) -> float:
    """The FLOPs of matrix products and convolutions on one device, those of a scan as often as it turns."""
    total = 0.0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "dot_general":
            contracted = params["dimension_numbers"][0][0]
            left = equation.invars[0].aval.shape
            total += 2 * equation.outvars[0].aval.size * math.prod(left[axis] for axis in contracted)
        elif name == "conv_general_dilated":
            kernel, out = equation.invars[1].aval, equation.outvars[0].aval
            total += 2 * out.size * kernel.size / kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        else:
            inner = [
                count_flops(getattr(value, "jaxpr", value))
                for value in jax.tree.leaves(tuple(params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns"))
                if hasattr(getattr(value, "jaxpr", value), "eqns")
            ]
            total += max(inner, default=0.0) if name == "cond" else params.get("length", 1) * sum(inner)
    return total


def time_limits(work: Work, flops: float, accelerator: Accelerator) -> dict[str, float]:
    """Seconds that each limit alone asks for; the longest is the prediction of the program's time.

    A GPU launches its kernels one after the other, each at least 2.5 us after the last, and 10 us after each predicate
    that its host waits for. A TPU launches a program once; XLA's estimate of its cycles holds about 1,800 for the start
    of each fusion. A collective takes at least 15 us, and sends its bytes twice. All of these are assumptions.
    """
    limits = {
        "bytes": (work.read + work.written) / accelerator.bandwidth,
        "FLOPs": flops / accelerator.flops,
        "links": work.collectives * _REDUCE + 2 * work.reduced / accelerator.link,
    }
    if accelerator.platform == "gpu":
        return {"launches": work.kernels * _LAUNCH + work.asked * _ASK} | limits
    return {"cycles": work.cycles / accelerator.clock} | limits
