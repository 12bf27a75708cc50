"""A trained policy: a pure function of its parameters, an object to call in a loop, a file for another program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, made_from, without_replay
from jaxrl.config import as_seed
from jaxrl.deploy.needed import Needed, add_batch, check_state
from jaxrl.deploy.params import save_params
from jaxrl.durable import replace_file
from jaxrl.environment import Environment, MultiAgentEnvironment
from jaxrl.errors import MissingExtraError
from jaxrl.keys import check_key
from jaxrl.spaces import Box, Discrete

__all__ = ["FORMATS", "Policy"]

FORMATS = (".stablehlo", ".py", ".safetensors")
"""The suffixes of the files, one for each format."""

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


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
    """All that actions depend on, and nothing else of the train state: nested dicts of arrays. The parameters of a
    critic are not among them; the moments of a normaliser are."""

    def __init__(self, algo: Algorithm, env: Environment, state: Any) -> None:
        state = without_replay(state)
        check_state(algo, state)
        self.algo, self.env = algo, env
        agents = (env.num_agents,) if isinstance(env, MultiAgentEnvironment) else ()
        space, self._action_space = env.observation_space(), env.action_space()
        self._obs = jax.ShapeDtypeStruct((*agents, *space.shape), space.dtype)
        self._mask, self._has_mask = None, False
        if isinstance(self._action_space, Discrete):
            self._mask = jax.ShapeDtypeStruct((*agents, self._action_space.n), bool)
            self._has_mask = env.has_action_mask
        self._needed = Needed(algo, state, self._obs)
        self.params = self._needed.params
        self._jitted = jax.jit(self._next, static_argnames="greedy")
        self.reset()
        self._told = False

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
            action_mask: bool `[B, N, A]`, which discrete actions can be chosen; None only where the environment has no
                masks.
            reset: bool `[B]`, True where an episode begins: the memory is cleared before it is used.

        Returns:
            The actions `[B, N]`, within the action space, and the carry for the next call: a tuple of arrays
            `[B, …]`, empty for a policy without a memory.

        Raises:
            TypeError: `obs` is a dict by agent.
            ValueError: `params` are those of another policy, another argument has another shape, or `action_mask` is
                missing.
        """
        if key is not None:
            check_key(key, "apply")
        alone, obs, carry, mask, reset = self._batched(obs, carry, action_mask, reset)
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

    def log_prob(
        self, obs: Any, action: Any, carry: Any = None, *, action_mask: Any = None, reset: Any = None
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The log-probability (of continuous actions: log-density) with which the policy draws an action. Pure.

        That of Q-learning counts its random actions at this stage of training. Continuous actions are taken as they
        are drawn, before they are clipped.

        Args:
            obs: See `apply`.
            action: `[B, N]`, without B for one observation, without N for a single agent.
            carry: See `apply`: the same memory.
            action_mask: See `apply`.
            reset: See `apply`.

        Returns:
            `[B, N]` in nats, and the carry for the next call.

        Raises:
            TypeError: See `apply`.
            ValueError: See `apply`; or `action` has another shape.
            NotImplementedError: The policy is deterministic, as TD3's, or its algorithm is no agent of jaxrl.
        """
        alone, obs, carry, mask, reset = self._batched(obs, carry, action_mask, reset)
        whole = None if carry is None else self._needed.whole(carry, obs.shape[0])
        policy, _, whole = self._judged(obs, whole, mask, reset)
        if not hasattr(policy, "log_prob"):
            raise NotImplementedError(f"The policy of {self.env.name} is deterministic: its actions have no density.")

        # The algorithm's agents are an axis even where the environment has one agent and no such axis.
        agents = self._obs.shape[: len(self._obs.shape) - len(self.env.observation_space().shape)]
        shape = (*agents, *self._action_space.shape)
        action = _broadcast("action", jnp.asarray(action)[None] if alone else jnp.asarray(action), (len(obs), *shape))
        found = policy.log_prob(action[None] if agents else action[None, :, None])[0]
        result = (found if agents else found[:, 0], self._needed.part(whole))
        return jax.tree.map(lambda x: x[0], result) if alone else result

    def value(
        self, obs: Any, carry: Any = None, *, action_mask: Any = None, reset: Any = None, global_state: Any = None
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The value of what is observed, the expected discounted return, by the algorithm's critic. Pure.

        It has the unit of the rewards that the critic learned from, which `normalise_reward` divides by a number. Where
        critics rate actions, it is the value of the greedy action; a sum over the team in VDN.

        Args:
            obs: See `apply`.
            carry: What the last call of `value` returned: the memory of the critic too, which actions do without; None
                starts afresh.
            action_mask: See `apply`.
            reset: See `apply`.
            global_state: `[B, G]`, without B for one observation: `env.global_state(state)`, which a central critic
                sees where the environment has one.

        Returns:
            `[B, N]`, and the carry for the next call.

        Raises:
            TypeError: See `apply`.
            ValueError: See `apply`; or `global_state` is missing.
            NotImplementedError: Agents have values only together, as QMIX's, or the algorithm is no agent of jaxrl.
        """
        alone, obs, carry, mask, reset = self._batched(obs, carry, action_mask, reset)
        if global_state is not None:
            global_state = jnp.asarray(global_state)[None] if alone else jnp.asarray(global_state)
        whole = None if carry is None else self._needed.tree(carry, obs.shape[0])
        agent: Any = made_from(self.algo)
        if getattr(agent, "central", False) and self.env.has_global_state and global_state is None:
            raise ValueError(
                f"The critic sees the global state of {self.env.name}: give global_state, [B, G], without B for one "
                f"observation; env.global_state(state) returns it."
            )
        _, value, whole = self._judged(obs, whole, mask, reset, global_state)
        if value is None:
            raise NotImplementedError("The agents' values are mixed into the team's, so none has a value of its own.")
        value = value if isinstance(self.env, MultiAgentEnvironment) else value[:, 0]
        result = (value, tuple(jax.tree.leaves(whole)))
        return jax.tree.map(lambda x: x[0], result) if alone else result

    def new_carry(self, batch_size: int | None = None) -> tuple[jax.Array, ...]:
        """A carry to begin a `scan` with, for a batch or for one observation; `reset` is True in its first step."""
        batch = () if batch_size is None else (batch_size,)
        return tuple(jnp.zeros((*batch, *leaf.shape), leaf.dtype) for leaf in self._needed.carry)

    def predict(self, obs: Any, *, action_mask: Any = None, reset: Any = None, greedy: bool = True) -> np.ndarray:
        """Actions for a loop in Python: NumPy in, NumPy out. A policy with a memory remembers the last call.

        Args:
            obs: `[B, N, D]`, without B for one observation, without N for a single agent.
            action_mask: bool `[B, N, A]`, which discrete actions can be chosen; None only where the environment has no
                masks.
            reset: bool `[B]`, True where this observation is the first one of an episode; None for nowhere. A policy
                with a memory asks for it, unless `policy.reset()` begins each episode.
            greedy: Whether to take the most likely action; False samples.

        Raises:
            TypeError: `obs` has another kind of numbers, or is a dict by agent.
            ValueError: `obs`, `action_mask` or `reset` has another shape or is missing, or there are more or fewer
                observations than in the last call.
        """
        alone = self._is_alone(obs)
        obs, dtype = np.asarray(obs), self._obs.dtype
        if not np.can_cast(obs.dtype, dtype, "same_kind"):
            raise TypeError(f"The policy observes {dtype}, and {obs.dtype} cannot be made {dtype} without loss.")
        batch_size = None if alone else len(obs)
        if self._needed.carry and reset is None and not self._told:
            raise ValueError(
                "The policy has a memory: say where an episode begins, by reset=True in its first step and reset=False "
                "in the others, or by policy.reset() before it."
            )

        # The first call begins all episodes; later ones go on with what it remembers of as many.
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
        self._told = True  # by whoever plays, where an episode begins

    def export(self, path: str | Path) -> Path:
        """Write the greedy policy to a file, in the format of the file's suffix, and return its path.

        * `.stablehlo`: function and parameters, compiled where they are used, on a CPU, GPU or TPU. For programs that
          have JAX but not jaxrl: `jax.export.deserialize(bytearray(path.read_bytes())).call(obs)`.
        * `.py`: a module with the function `act(obs)` and the parameters, for programs that have NumPy alone. For
          policies of dense layers, GRU and LSTM.
        * `.safetensors`: only the parameters, see `save_params`.

        Both functions take a batch of any size `b`, and `act` one observation as well. They are

        * `(obs) -> action` for a policy without a memory,
        * `(obs, carry, reset) -> (action, carry)` for one with a memory: `carry` is a tuple of arrays `[b, …]`, and
          `reset`, bool `[b]`, is True where an episode begins, whatever `carry` holds,

        with `action_mask`, bool `[b, N, A]`, as one more argument if the environment has masks. In `act`, `carry` and
        `reset` may be left out: the memory starts afresh.

        Raises:
            MissingExtraError: A package is missing; the message has the command that installs it.
            NotImplementedError: A `.py` file cannot hold such a network; the message names the operation.
            ValueError: The file has another suffix.
        """
        path = Path(path)
        if path.suffix not in FORMATS:
            raise ValueError(f"The file's suffix gives the format: {', '.join(FORMATS)}; got {path.name}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        arguments = self._arguments()

        def function(params: Any, *given: Any) -> Any:
            action, carry = self.apply(params, **dict(zip(arguments, given, strict=True)))
            return (action, carry) if carry else action

        if path.suffix == ".safetensors":
            save_params(path, self.params)
        elif path.suffix == ".py":
            from jaxrl.deploy.numpy_module import numpy_module  # a generator of code, which few need

            replace_file(path, numpy_module(self.env.name, function, self.params, arguments).encode())
        else:
            replace_file(path, _stablehlo(partial(function, self.params), arguments))
        return path

    def _arguments(self) -> dict[str, Any]:
        """The arguments of an exported function besides the parameters, in its order, for batches of any size `b`."""
        (b,) = jax.export.symbolic_shape("b")
        arguments: dict[str, Any] = {"obs": add_batch(self._obs, b)}
        if self._needed.carry:
            arguments["carry"] = tuple(add_batch(leaf, b) for leaf in self._needed.carry)
            arguments["reset"] = jax.ShapeDtypeStruct((b,), bool)
        if self._mask is not None and self._has_mask:
            arguments["action_mask"] = add_batch(self._mask, b)
        return arguments

    def _batched(self, obs: Any, carry: Any, action_mask: Any, reset: Any) -> tuple[bool, Any, Any, Any, Any]:
        """True for one observation without an axis of the batch, and the arguments with that axis.

        Raises:
            TypeError: `obs` is a dict by agent.
            ValueError: An argument has another shape, or `action_mask` is missing.
        """
        alone = self._is_alone(obs)
        if self._mask is not None and self._has_mask and action_mask is None:
            raise ValueError(
                f"The policy of {self.env.name} was trained with masks of its actions: give action_mask, bool [B, "
                f"{str(list(self._mask.shape))[1:]}, without B for one observation; env.action_mask(state) returns it."
            )

        def of_batch(x: Any) -> jax.Array:
            return jnp.asarray(x)[None] if alone else jnp.asarray(x)

        obs, mask, reset = (None if x is None else of_batch(x) for x in (obs, action_mask, reset))
        carry = jax.tree.map(of_batch, carry)
        if mask is not None and self._mask is not None:
            mask = _broadcast("action_mask", mask.astype(bool), (obs.shape[0], *self._mask.shape))
        if reset is not None:
            reset = _broadcast("reset", reset, obs.shape[:1])
        return alone, obs, carry, mask, reset

    def _judged(
        self, obs: Any, carry: Any, action_mask: Any, reset: Any, global_state: Any = None
    ) -> tuple[Any, Any, Any]:
        """The judgement of the algorithm's agent on a batch: see `Agent.evaluate`.

        Raises:
            NotImplementedError: The algorithm has no such agent.
        """
        agent = made_from(self.algo)
        if not hasattr(agent, "evaluate"):
            raise NotImplementedError(
                "This policy tells its actions alone, because what make has bound to its algorithm's init is no agent "
                "of jaxrl, which has an `evaluate`."
            )
        if not isinstance(self.env, MultiAgentEnvironment):  # alone, the algorithm's agent is a team of one
            obs, action_mask = (None if x is None else x[:, None] for x in (obs, action_mask))
        return agent.evaluate(
            self._needed.state(self.params),
            obs,
            carry,
            action_mask=action_mask,
            reset=reset,
            global_state=global_state,
        )

    def _next(
        self, params: Any, obs: Any, carry: Any, key: jax.Array, reset: Any, action_mask: Any, greedy: bool
    ) -> tuple[jax.Array, Any, jax.Array]:
        """`apply`, and the key of the next call."""
        now = None
        if not greedy:
            key, now = jax.random.split(key)
        action, carry = self.apply(params, obs, carry, now, action_mask=action_mask, reset=reset)
        return action, carry, key

    def _is_alone(self, obs: Any) -> bool:
        """True for one observation, False for a batch.

        Raises:
            TypeError: It is a dict by agent.
            ValueError: It is neither.
        """
        if isinstance(obs, Mapping):
            raise TypeError(
                "The policy takes the observations of all agents in one array, not a dict by agent: give "
                "np.stack([obs[agent] for agent in env.agents]), each padded to the size of the largest."
            )
        own, shape = self._obs.shape, np.shape(obs)
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


def _stablehlo(function: Callable[..., Any], arguments: Mapping[str, Any]) -> bytes:
    """The function, for every platform and every size of the batch."""
    try:
        import flatbuffers  # noqa: F401  (JAX needs it to write the file)
    except ImportError as error:
        raise MissingExtraError("A .stablehlo file needs flatbuffers: pip install 'jaxrl[deploy]'") from error
    return bytes(jax.export.export(jax.jit(function), platforms=_PLATFORMS)(*arguments.values()).serialize())
