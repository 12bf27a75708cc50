"""A transformer over the agents of a team, whose members decide in turn (Wen et al. 2022, "Multi-agent reinforcement
learning is a sequence modeling problem", https://arxiv.org/abs/2205.14953).

The encoder sees the observations of the whole team at once; the decoder gives the actions of its members one after
another, each knowing those before it. `InTurn` is the distribution that comes of it. Members who see nothing but zeros,
as the dead do, are absent: nobody attends to them, and their actions tell nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.nn.entities import Pointed
from jaxrl.nn.heads import bounds_of, policy_head, spanned
from jaxrl.nn.layers import Dense, on_rows, orthogonal, weights
from jaxrl.spaces import Box, Discrete, MultiDiscrete, Space

__all__ = ["Attention", "InTurn", "Seen", "TeamDecoder", "TeamEncoder", "action_size", "as_numbers"]


class Seen(NamedTuple):
    """What the decoder knows of a team before anybody acts; rows R are time steps and environments, `[L, B]`."""

    encoded: jax.Array  # [*R, N, E]
    mask: jax.Array | None  # [*R, N, A] of actions
    pointed: jax.Array | None  # [*R, N, P, F] what actions point at, see `jaxrl.nn.entities.Pointed`
    present: jax.Array  # [*R, N] False for members who see nothing


class Attention(nn.Module):
    """Scaled dot-product attention with several heads (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762).

    Queries come from `x[R, Q, E]`, keys and values from `y[R, K, E]`; `mask[R, Q, K]` says which are looked at, at
    least one for each query. Given `past[R, N, 2 E]`, the keys and values of N tokens, those of `y` take the places
    from `place` on, and all N are looked at. Initial weights are small, so that a block begins as the identity.
    """

    num_heads: int

    @nn.compact
    def __call__(
        self, x: jax.Array, y: jax.Array, mask: jax.Array, past: jax.Array | None = None, place: Any = 0
    ) -> tuple[jax.Array, jax.Array]:
        size = x.shape[-1]
        query = Dense(size, orthogonal(0.01), name="query")(x)
        known = Dense(2 * size, orthogonal(0.01), name="key_and_value")(y)
        known = known if past is None else jax.lax.dynamic_update_slice_in_dim(past, known, place, axis=1)

        query, key, value = (
            part.reshape(*part.shape[:2], self.num_heads, -1).swapaxes(1, 2)
            for part in (query, *jnp.split(known, 2, axis=-1))
        )
        logits = query @ key.swapaxes(2, 3) / np.float32(math.sqrt(query.shape[-1]))  # [R, heads, Q, K]
        share = nn.softmax(jnp.where(mask[:, None], logits, -jnp.inf), axis=-1)
        found = (share @ value).swapaxes(1, 2).reshape(x.shape)
        return Dense(size, orthogonal(0.01), name="mixed")(found), known


class TeamEncoder(nn.Module):
    """Blocks of attention among the members of a team: features `[R, N, D]` to `[R, N, E]`.

    `mask[R, N, N]` says who attends to whom. Without blocks, each member knows itself alone.
    """

    size: int
    num_blocks: int
    num_heads: int

    @nn.compact
    def __call__(self, features: jax.Array, mask: jax.Array) -> jax.Array:
        x = nn.gelu(Dense(self.size, orthogonal(np.sqrt(2)), name="input")(features))
        x = _norm("input_norm", x)
        for i in range(self.num_blocks):
            x = _norm(f"attention_{i}_norm", x + Attention(self.num_heads, name=f"attention_{i}")(x, x, mask)[0])
            x = _norm(f"thought_{i}_norm", x + _Thought(name=f"thought_{i}")(x))
        return x


class TeamDecoder(nn.Module):
    """Blocks in which what members see queries what was done: the distribution of each one's action.

    Args of a call: the team `[L, B, N or 1, …]`, the actions before each member as tokens `[L, B, N or 1, K]`, the
    `counts[L, B, N or 1, P]` of those who point at each entity, and `mask[R, N or 1, N]`, who knows whose action. With
    the caches of all N and a place, a call is for the single member at that place. It returns the caches as well.
    """

    space: Space
    size: int
    num_blocks: int
    num_heads: int
    head_hidden: tuple[int, ...]
    activation: str
    squash: bool
    actions: tuple[int, ...] = ()
    """The actions that point at entities, `[P]`."""

    @nn.compact
    def __call__(
        self,
        seen: Seen,
        tokens: jax.Array,
        counts: jax.Array | None,
        mask: jax.Array,
        past: Any = None,
        place: Any = 0,
    ) -> tuple[Any, Any]:
        lead = seen.encoded.shape[:-1]
        encoded = seen.encoded.reshape(-1, *seen.encoded.shape[-2:])
        x = Dense(self.size, orthogonal(np.sqrt(2)), use_bias=False, name="input")(tokens)
        x = _norm("input_norm", nn.gelu(x)).reshape(encoded.shape)
        past = [(None, None)] * self.num_blocks if past is None else past
        after = []
        for i, (own, across) in enumerate(past):
            done, own = Attention(self.num_heads, name=f"actions_{i}")(x, x, mask, own, place)
            done = _norm(f"actions_{i}_norm", x + done)
            x, across = Attention(self.num_heads, name=f"observations_{i}")(encoded, done, mask, across, place)
            x = _norm(f"observations_{i}_norm", encoded + x)
            x = _norm(f"thought_{i}_norm", x + _Thought(name=f"thought_{i}")(x))
            after.append((own, across))
        x = x if self.num_blocks else encoded

        x = nn.gelu(Dense(self.size, orthogonal(np.sqrt(2)), name="output_input")(x))
        x = _norm("output_norm", x).reshape(*lead, self.size)
        pointed = None
        if seen.pointed is not None:
            # One more who points at an entity moves its embedding, by as much for all entities.
            moved = weights(self, "count", nn.initializers.zeros_init(), seen.pointed.shape[-1:])
            crowd = 0.0 if counts is None else counts[..., None] * moved
            pointed = Pointed(seen.pointed + crowd, self.actions)
        head = policy_head(self.space, self.head_hidden, self.activation, squash=self.squash, name="policy")
        return head(x, seen.mask, pointed), after


class _Thought(nn.Module):
    """Two layers for each token by itself; the second is small at first."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.gelu(Dense(x.shape[-1], orthogonal(np.sqrt(2)), name="thought")(x))
        return Dense(x.shape[-1], orthogonal(0.01), name="result")(y)


def _norm(name: str, x: jax.Array) -> jax.Array:
    return on_rows(nn.LayerNorm(name=name), x)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class InTurn:
    """The distribution of a team's actions, `[L, B, N]`, drawn one member after another; see `TeamDecoder`.

    There is no entropy in closed form: that of `given(actions)` is an unbiased estimate of it.
    """

    seen: Seen
    decode: Callable[..., tuple[Any, Any]] = dataclasses.field(metadata={"static": True})
    """`decode(seen, tokens, counts, mask, past, place) -> (distribution, past)`, with parameters of its own."""
    decoder: TeamDecoder = dataclasses.field(metadata={"static": True})
    teams: tuple[int, ...] = dataclasses.field(metadata={"static": True})

    def given(self, action: jax.Array) -> Any:
        """The distribution of each member's action, given the actions `[L, B, N, …]` of those before it."""
        tokens, counts = self._before(action)
        known = self._known().reshape(-1, len(self.teams), len(self.teams))
        return self.decode(self.seen, tokens, counts, known)[0]

    def log_prob(self, action: jax.Array) -> jax.Array:
        """Log-probability of each member's action, given those before it, `[L, B, N]`."""
        return self.given(action).log_prob(action)

    def sample(self, *, seed: jax.Array) -> jax.Array:
        """Actions drawn in turn, `[L, B, N, …]`. Consumes `seed`."""
        keys = jax.random.split(seed, len(self.teams))
        impl = jax.random.key_impl(keys)
        # A scan over bits instead of keys, see `jaxrl.acting.rollout.rollout`.
        return self._play(
            lambda policy, bits: policy.sample(seed=jax.random.wrap_key_data(bits, impl=impl)),
            jax.random.key_data(keys),
        )

    def mode(self) -> jax.Array:
        """The most likely action of each member in turn, `[L, B, N, …]`: not always the team's most likely ones."""
        return self._play(lambda policy, _: policy.mode(), np.zeros(len(self.teams)))

    def _play(self, choose: Callable[[Any, Any], jax.Array], inputs: Any) -> jax.Array:
        """The actions that `choose(policy, input)` gives, member by member."""
        lead, num_agents = self.seen.present.shape[:-1], len(self.teams)
        space, size = self.decoder.space, self.decoder.size
        nobody = jnp.zeros((math.prod(lead), num_agents, 2 * size), jnp.float32)
        past = [(nobody, nobody)] * self.decoder.num_blocks
        kind = jnp.float32 if isinstance(space, Box) else jnp.int32
        known = self._known().reshape(-1, num_agents, num_agents)

        def turn(carry: tuple[jax.Array, Any], given: tuple[Any, Any]) -> tuple[tuple[jax.Array, Any], None]:
            (action, past), (place, own) = carry, given

            def at_place(leaf: jax.Array, axis: int = 2) -> jax.Array:
                return jax.lax.dynamic_slice_in_dim(leaf, place, 1, axis)

            before = jax.tree.map(at_place, self._before(action))
            policy, past = self.decode(
                jax.tree.map(at_place, self.seen), *before, at_place(known, 1), past=past, place=place
            )
            new = choose(policy, own).astype(kind)
            return (jax.lax.dynamic_update_slice_in_dim(action, new, place, axis=2), past), None

        nothing = jnp.zeros((*lead, num_agents, *space.shape), kind)
        (action, _), _ = jax.lax.scan(turn, (nothing, past), (np.arange(num_agents), inputs))
        return action

    def _known(self) -> jax.Array:
        """Who knows whose action, `[L, B, N, N]`: one's own place and those of mates before it who are present."""
        places = np.arange(len(self.teams))
        mates = np.equal.outer(self.teams, self.teams) & (places[:, None] >= places)
        return (self.seen.present[..., None, :] | np.eye(len(places), dtype=bool)) & mates

    def _before(self, action: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Each member's token, which tells the latest action of a mate, and how many mates point at each entity."""
        num_agents = len(self.teams)
        earlier = self._known() & ~np.eye(num_agents, dtype=bool)  # [L, B, N, N]
        latest = jnp.where(earlier, np.arange(num_agents), -1).max(axis=-1)  # [L, B, N], -1 for the first of a team
        told = latest[..., None] == np.arange(num_agents)
        space, actions = self.decoder.space, self.decoder.actions
        numbers = as_numbers(space, action)
        counts = None
        if self.seen.pointed is not None:
            others = [a for a in range(numbers.shape[-1]) if a not in actions]
            points = numbers[..., np.asarray(actions)]  # [L, B, N, P]
            aim = jnp.einsum("...p,...pf->...f", points, self.seen.pointed)
            numbers = jnp.concatenate([numbers[..., np.asarray(others)], points.sum(-1, keepdims=True), aim], axis=-1)
            counts = earlier.astype(jnp.float32) @ points
        first = (latest < 0)[..., None].astype(jnp.float32)
        return jnp.concatenate([first, told.astype(jnp.float32) @ numbers], axis=-1), counts


def action_size(space: Space, pointed: jax.Array | None, actions: tuple[int, ...]) -> int:
    """K, the numbers of a token: who begins, and a mate's action, with the features of what it points at."""
    if isinstance(space, Discrete):
        return 1 + space.n + (0 if pointed is None else 1 + pointed.shape[-1] - len(actions))
    return 1 + (sum(space.nvec) if isinstance(space, MultiDiscrete) else math.prod(space.shape))


def as_numbers(space: Space, action: jax.Array) -> jax.Array:
    """Actions `[..., *space.shape]` as numbers `[..., K]`: one-hot vectors, or half-widths of the box."""
    if isinstance(space, Discrete):
        return jax.nn.one_hot(action, space.n, dtype=jnp.float32)
    if isinstance(space, MultiDiscrete):
        parts = [jax.nn.one_hot(action[..., k], n, dtype=jnp.float32) for k, n in enumerate(space.nvec)]
        return jnp.concatenate(parts, axis=-1)
    assert isinstance(space, Box)
    low, high = bounds_of(space)
    bounded = spanned(space)
    low, high = np.where(bounded, low, np.float32(-1)), np.where(bounded, high, np.float32(1))
    scaled = (action - (high + low) / 2) / ((high - low) / 2)
    return scaled.reshape(*action.shape[: action.ndim - len(space.shape)], math.prod(space.shape))
