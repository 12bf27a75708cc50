"""A trained policy: a pure function of its parameters, an object to call in a loop, a file for another program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, without_replay
from jaxrl.deploy.files import export
from jaxrl.deploy.inference import Inference
from jaxrl.deploy.needed import Needed, add_batch, check_state
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.fields import as_seed
from jaxrl.keys import check_key
from jaxrl.spaces import Box, Discrete

__all__ = ["Policy"]


class Policy:
    """The policy in a train state.

    `apply` is a pure function: `jit`, `vmap` and `scan` it. `predict` is for a loop in Python; it takes and returns
    NumPy arrays, and remembers what a policy with a memory has seen. One policy plays one loop at a time.

    All of them take a single observation `[N, D]` or a batch `[B, N, D]` (for a single agent, `[D]` or `[B, D]`). The
    other arguments and the results have the axis of the batch if the observations have it.

    Args:
        algo: The algorithm.
        env: The environment that it was trained in.
        state: The train state of one member.

    Raises:
        ValueError: `state` holds several members, or is not a state of this algorithm.
    """

    params: dict[str, Any]
    """What actions depend on, and nothing else of the train state: nested dicts of arrays. The parameters of a critic
    are not among them; the moments of a normaliser are."""

    def __init__(self, algo: Algorithm, env: Environment, state: Any) -> None:
        state = without_replay(state)
        check_state(algo, state)
        self.algo, self.env = algo, env
        agents = (env.num_agents,) if isinstance(env, MultiAgentEnvironment) else ()
        space, self._action_space = env.observation_space(), env.action_space()
        self._obs = jax.ShapeDtypeStruct((*agents, *space.shape), space.dtype)
        self._mask = None
        if isinstance(self._action_space, Discrete):
            self._mask = jax.ShapeDtypeStruct((*agents, self._action_space.n), bool)
        self._needed = Needed(algo, state, self._obs)
        self.params = self._needed.params
        self._jitted = jax.jit(self._next, static_argnames="greedy")
        self.reset()

    def __repr__(self) -> str:
        count = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        return f"Policy({self.env.name}, {count:,} parameters{', with a memory' if self._needed.carry else ''})"

    def apply(
        self,
        params: Mapping[str, Any],
        obs: Any,
        carry: Any = None,
        key: jax.Array | None = None,
        *,
        action_mask: Any = None,
        reset: Any = None,
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Choose actions. Pure.

        Args:
            params: As in `policy.params`.
            obs: `[B, N, D]`, without B for one observation, without N for a single agent.
            carry: What the last call returned, or `new_carry`; None starts afresh.
            key: Samples the actions, and is consumed; None takes the most likely ones.
            action_mask: bool `[B, N, A]`, which discrete actions can be chosen; None for all.
            reset: bool `[B]`, True where an episode begins: the memory is cleared before it is used.

        Returns:
            The actions `[B, N]`, within the action space, and the carry for the next call: a tuple of arrays
            `[B, …]`, empty for a policy without a memory.

        Raises:
            ValueError: `params` are those of another policy, or another argument has another shape.
        """
        if key is not None:
            check_key(key, "apply")
        alone = self._is_alone(np.shape(obs))

        def of_batch(x: Any) -> jax.Array:
            return jnp.asarray(x)[None] if alone else jnp.asarray(x)

        obs, mask, reset = (None if x is None else of_batch(x) for x in (obs, action_mask, reset))
        carry = jax.tree.map(of_batch, carry)
        if mask is not None and self._mask is not None:
            mask = _broadcast("action_mask", mask.astype(bool), (obs.shape[0], *self._mask.shape))
        if reset is not None:
            reset = _broadcast("reset", reset, obs.shape[:1])
        state, whole = self._needed.state(params), None if carry is None else self._needed.whole(carry, obs.shape[0])
        action, whole = self.algo.act(state, obs, whole, key, action_mask=mask, reset=reset)
        if isinstance(self._action_space, Box):  # every environment here clips actions, other programs may not
            action = self._action_space.clip(action)
        result = (action, self._needed.part(whole))
        return jax.tree.map(lambda x: x[0], result) if alone else result

    def __call__(
        self,
        obs: Any,
        carry: Any = None,
        key: jax.Array | None = None,
        *,
        action_mask: Any = None,
        reset: Any = None,
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """`apply` with the policy's own parameters."""
        return self.apply(self.params, obs, carry, key, action_mask=action_mask, reset=reset)

    def new_carry(self, batch_size: int | None = None) -> tuple[jax.Array, ...]:
        """A carry to begin a `scan` with, for a batch or for one observation; `reset` is True in its first step."""
        batch = () if batch_size is None else (batch_size,)
        return tuple(jnp.zeros((*batch, *leaf.shape), leaf.dtype) for leaf in self._needed.carry)

    def predict(self, obs: Any, *, action_mask: Any = None, reset: Any = None, greedy: bool = True) -> np.ndarray:
        """Actions for a loop in Python: NumPy in, NumPy out. A policy with a memory remembers the last call.

        Args:
            obs: `[B, N, D]`, without B for one observation, without N for a single agent.
            action_mask: bool `[B, N, A]`, which discrete actions can be chosen; None for all.
            reset: bool `[B]`, True where this observation is the first one of an episode; None for nowhere.
            greedy: Whether to take the most likely action; False samples.

        Raises:
            TypeError: `obs` has another kind of numbers.
            ValueError: `obs`, `action_mask` or `reset` has another shape, or there are more or fewer observations than
                in the last call.
        """
        obs, dtype = np.asarray(obs), self._obs.dtype
        if not np.can_cast(obs.dtype, dtype, "same_kind"):
            raise TypeError(f"The policy observes {dtype}, and {obs.dtype} cannot be made {dtype} without loss.")
        batch_size = None if self._is_alone(obs.shape) else len(obs)
        begins = np.asarray(False if reset is None else reset)
        begins = _broadcast("reset", begins, () if batch_size is None else (batch_size,))
        if self._last is None:
            self._last, begins = (self.new_carry(batch_size), batch_size), np.ones_like(begins)
        carry, known = self._last
        if carry and known != batch_size:
            raise ValueError(
                f"The policy remembers {_count(known)} and now sees {_count(batch_size)}; call policy.reset() first."
            )
        action, carry, self._key = self._jitted(
            self.params, obs.astype(dtype), carry, self._key, begins, action_mask, greedy=bool(greedy)
        )
        self._last = carry, batch_size
        return np.asarray(action)

    def reset(self, seed: int = 0) -> None:
        """Forget everything that `predict` has seen; sampling starts again from `seed`."""
        self._key = jax.random.key(as_seed("seed", seed))
        self._last: tuple[Any, int | None] | None = None

    def export(self, path: str | Path) -> Path:
        """Write the greedy policy to a file, in the format of the file's suffix, and return its path.

        * `.stablehlo`: function and parameters, compiled where they are used, on a CPU, GPU or TPU. For programs that
          have JAX but not jaxrl: `jax.export.deserialize(bytearray(path.read_bytes())).call(obs)`.
        * `.py`: a module with the function `act(obs)` and the parameters, for programs that have NumPy alone.
        * `.safetensors`: only the parameters, see `save_params`.

        Both functions take a batch of any size `b`, and `act` one observation as well. They are

        * `(obs) -> action` for a policy without a memory,
        * `(obs, carry, reset) -> (action, carry)` for one with a memory: `carry` is a tuple of arrays `[b, …]`, and
          `reset`, bool `[b]`, is True where an episode begins, whatever `carry` holds,

        with `action_mask`, bool `[b, N, A]`, as one more argument if the environment has masks. In `act`, everything
        but `obs` may be left out.

        Raises:
            MissingExtraError: A package is missing; the message has the command that installs it.
            NotImplementedError: NumPy has no counterpart of an operation of the network.
            ValueError: The file has another suffix.
        """
        return export(self._inference(), Path(path))

    def _inference(self) -> Inference:
        (b,) = jax.export.symbolic_shape("b")
        arguments: dict[str, Any] = {"obs": add_batch(self._obs, b)}
        if self._needed.carry:
            arguments["carry"] = tuple(add_batch(leaf, b) for leaf in self._needed.carry)
            arguments["reset"] = jax.ShapeDtypeStruct((b,), bool)
        if self._mask is not None and self.env.has_action_mask:
            arguments["action_mask"] = add_batch(self._mask, b)

        def function(params: Any, *given: Any) -> Any:
            action, carry = self.apply(params, **dict(zip(arguments, given, strict=True)))
            return (action, carry) if carry else action

        return Inference(self.env.name, function, self.params, arguments)

    def _next(
        self, params: Any, obs: Any, carry: Any, key: jax.Array, reset: Any, action_mask: Any, greedy: bool
    ) -> tuple[jax.Array, Any, jax.Array]:
        """`apply`, and the key of the next call."""
        now = None
        if not greedy:
            key, now = jax.random.split(key)
        action, carry = self.apply(params, obs, carry, now, action_mask=action_mask, reset=reset)
        return action, carry, key

    def _is_alone(self, shape: tuple[Any, ...]) -> bool:
        """Whether it is the shape of one observation, not of a batch.

        Raises:
            ValueError: It is neither.
        """
        own = self._obs.shape
        if shape != own and shape[1:] != own:
            raise ValueError(
                f"The policy takes one observation {list(own)}, or a batch [B, {str(list(own))[1:]}; got {list(shape)}."
            )
        return shape == own


def _broadcast(name: str, value: Any, shape: tuple[Any, ...]) -> Any:
    """An argument for every observation, agent and action; NumPy's stays NumPy's."""
    try:
        return (np if isinstance(value, np.ndarray) else jnp).broadcast_to(value, shape)
    except ValueError:
        raise ValueError(f"{name} is {list(value.shape)}; for these observations it is {list(shape)}.") from None


def _count(batch_size: int | None) -> str:
    return "one observation" if batch_size is None else f"a batch of {batch_size}"
