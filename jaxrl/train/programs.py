"""The compiled programs of a run: init, a chunk of updates, evaluation. Each is compiled once, ahead of time."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrl.algorithm import Algorithm, Metrics, RunConfig, without_replay
from jaxrl.rl.devices import MEMBER, SIDE_BY_SIDE, target
from jaxrl.train.devices.hosts import gather
from jaxrl.train.devices.mesh import check_replicas, everywhere, place, spread
from jaxrl.train.evaluate import Evaluation, evaluate
from jaxrl.train.members import Members, seed_keys
from jaxrl.train.metrics import unread

__all__ = ["Programs", "compile_programs", "compiler_options", "initial_state", "member_keys", "side_by_side"]

MAX_CHUNK = 1024
"""The most updates a chunk can have; the metrics of each are a few numbers."""


class Programs(NamedTuple):
    """The programs of a run, compiled for M members; with M = 1 there is no members axis."""

    init: Callable[[], Any]
    """`init() -> state`."""
    chunk: Callable[[Any, int], tuple[Any, Metrics]]
    """`chunk(state, n) -> (state, metrics)`: n <= `max_chunk` updates; of the metrics `[max_chunk]` (`[max_chunk, M]`),
    only the first n are valid. `state` is donated: it cannot be used afterwards."""
    evaluate: Callable[[Any], Evaluation]
    """`evaluate(state)`: a greedy evaluation, with the same keys every time."""
    state_shape: Any
    """The shapes and dtypes of the train state."""
    max_chunk: int
    unread: list[str]
    """The names of metrics that no row holds."""
    revives: bool
    """True if members that have diverged may go on as copies of others."""
    seconds: float
    """Seconds of compilation."""
    cached: bool
    """True if `chunk` came from JAX's persistent compilation cache, in which case `seconds` says little."""
    bind: Callable[[RunConfig, Members], Programs]
    """`bind(config, members)`: the same programs for other members, without compiling. Raises ValueError unless the
    number of members is the same and the config differs in nothing but the seed."""


def compile_programs(
    algo: Algorithm,
    config: RunConfig,
    members: int | Members = 1,
    episodes: int = 512,
    mesh: Mesh | None = None,
    across: Callable[[Any], Any] | None = None,
) -> Programs:
    """Compile everything a run needs.

    Args:
        algo: The algorithm.
        config: Its config.
        members: M, the number of seeds; or the members themselves.
        episodes: Episodes per evaluation.
        mesh: The devices to use, see `choose_mesh`; None for the default device.
        across: `across(state) -> state`, applied after each update to the state of all members `[M, …]`.
    """
    began = time.perf_counter()
    who = Members.of(config, members) if isinstance(members, int) else members
    members = len(who)
    env, log_info = config.make_env(), getattr(config, "log_info", ())

    init = partial(initial_state, algo, members)

    def play(state: Any, keys: jax.Array) -> Evaluation:
        return side_by_side(lambda s, k: evaluate(algo, env, s, k, episodes, log_info=log_info), members)(state, keys)

    # A chunk is a loop over updates of all members; its length is an argument, so one program serves all chunks.
    keys = jax.eval_shape(who.keys)
    state = place(jax.eval_shape(init, keys, who.hyperparams), mesh, members)
    max_chunk = max(1, min(config.num_updates, MAX_CHUNK, 64 * MAX_CHUNK // members))
    update = spread(side_by_side(algo.checked_update, members), state, mesh, members)
    update = jax.jit(_followed(update, across) if across else update)  # traced once, whatever is asked of it
    metrics = jax.eval_shape(update, state)[1]
    chunk = _chunk(update, metrics, max_chunk)
    places = None if mesh is None else jax.tree.map(lambda leaf: leaf.sharding, state)

    # Compile the three programs of a run: initial state, chunk, evaluation.
    options = compiler_options()
    compiled_init = jax.jit(init, out_shardings=places).lower(keys, who.hyperparams).compile(options)
    # Evaluation needs one device; on a mesh, every device would repeat it.
    alone = jax.local_devices()[0]
    compiled_play = jax.jit(play).lower(_unplaced(without_replay(state)), keys).compile(options)
    with _cache_hits() as hits:
        jitted = jax.jit(chunk, donate_argnums=0, out_shardings=None if mesh is None else (places, everywhere(mesh)))
        compiled_chunk = jitted.lower(state, np.int32(1)).compile(options)

    def gathered(state: Any) -> Any:
        return without_replay(state) if mesh is None else jax.device_put(gather(without_replay(state)), alone)

    def bind(other: RunConfig, who: Members) -> Programs:
        if len(who) != members or _seedless(other) != _seedless(config):
            raise ValueError("Programs serve only the config that they were compiled for, and as many members.")
        return Programs(
            init=lambda: compiled_init(who.keys(), who.hyperparams),
            chunk=_placed(compiled_chunk, places),
            evaluate=lambda state: compiled_play(gathered(state), who.keys(stream=1)),
            state_shape=state,
            max_chunk=max_chunk,
            unread=unread(metrics),
            revives=across is not None,
            seconds=0.0,
            cached=bool(hits),
            bind=bind,
        )

    return bind(config, who)._replace(seconds=time.perf_counter() - began)


def side_by_side(function: Callable[..., Any], members: int) -> Callable[..., Any]:
    """A function of one member, for the leaves `[M, …]` of all, which see each other by `of_all_members`."""
    return jax.vmap(function, axis_name=SIDE_BY_SIDE) if members > 1 else function


def compiler_options() -> dict[str, Any] | None:
    """Options that, on a CPU, cut compilation to three quarters of XLA's default time at the same execution speed.

    Measured by baselines/speed/compile.py; None on other devices.
    """
    return {"xla_backend_optimization_level": 1} if target() == "cpu" else None


def member_keys(seed: int, members: int, stream: int = 0) -> jax.Array:
    """Keys `[M]` (a single key for M = 1): member m gets the key of `seed + m`, so that it can also be run alone.

    All streams are independent of each other.
    """
    return seed_keys(range(seed, seed + members), stream)


def initial_state(algo: Algorithm, members: int, keys: jax.Array, hyperparams: Any = None) -> Any:
    """The initial train state; leaves `[M, …]` for M > 1, with `hyperparams` leaves `[M]`. Consumes `keys`.

    With M > 1, `algo.init` can ask `member_index` which member it is creating.
    """

    def init(key: jax.Array, hyperparams: Any) -> Any:
        state = algo.init(key, hyperparams)
        if jax.tree_util.all_leaves([state]) and not hasattr(state, "dtype"):
            raise TypeError(
                f"init returned a {type(state).__name__}, which is not a pytree; write "
                f"@jax.tree_util.register_dataclass and @dataclasses.dataclass(frozen=True) above its class."
            )
        return state

    return jax.tree.map(_strong, (jax.vmap(init, axis_name=MEMBER) if members > 1 else init)(keys, hyperparams))


def _chunk(update: Callable[[Any], tuple[Any, Metrics]], metrics: Metrics, max_chunk: int) -> Callable[..., Any]:
    """`chunk(state, n)`: n updates in one program, given the shapes of one's metrics.

    n is an argument, not a constant, so that one compilation serves every chunk length, including the shorter last
    chunk, and the arithmetic of an update does not depend on how a run is split into chunks.
    """

    def chunk(state: Any, n: jax.Array) -> tuple[Any, Metrics]:
        def one(i: jax.Array, loop: tuple[Any, Metrics]) -> tuple[Any, Metrics]:
            state, kept = loop
            state, metrics = update(state)
            return state, jax.tree.map(lambda rows, row: rows.at[i].set(row), kept, metrics)

        kept = jax.tree.map(lambda m: jnp.zeros((max_chunk, *m.shape), m.dtype), metrics)
        return jax.lax.fori_loop(0, n, one, (state, kept))

    return chunk


def _placed(chunk: Callable[..., Any], places: Any) -> Callable[[Any, int], tuple[Any, Metrics]]:
    """`chunk` on a mesh, whose devices have to agree after the first one; `places` is None for a single device."""
    checked = places is None

    def placed(state: Any, n: int) -> tuple[Any, Metrics]:
        nonlocal checked
        state = state if places is None else jax.device_put(state, places)  # JAX loses the sharding of empty arrays
        state, metrics = chunk(state, np.int32(n))
        if not checked:
            check_replicas(state, metrics)
            checked = True
        return state, metrics

    return placed


def _followed(update: Callable[[Any], tuple[Any, Metrics]], across: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`update` followed by `across` on its state."""

    def both(state: Any) -> tuple[Any, Metrics]:
        state, metrics = update(state)
        return across(state), metrics

    return both


@contextlib.contextmanager
def _cache_hits() -> Iterator[list[str]]:
    """Collects JAX's cache-hit events: programs that it did not have to compile."""
    hits: list[str] = []

    def listen(event: str, **_: str | int) -> None:
        if event.endswith("/cache_hits"):
            hits.append(event)

    jax.monitoring.register_event_listener(listen)
    try:
        yield hits
    finally:
        jax.monitoring.unregister_event_listener(listen)


def _seedless(config: Any) -> Any:
    """The part of a config that a program depends on."""
    return dataclasses.replace(config, seed=0)


def _unplaced(state: Any) -> Any:
    """The shapes of the state without their placement in a mesh."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), state)


def _strong(leaf: Any) -> Any:
    """`leaf` without a weak type, which the first update would drop and thereby force a second compilation."""
    if jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key):
        return leaf
    return jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype)
