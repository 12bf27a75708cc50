"""Entity networks: the order of entities means nothing, absent ones count for nothing, and actions point at them."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.entities import Entities, Group
from jaxrl.nn.encoder import Encoder
from jaxrl.nn.entities import EntityTorso
from jaxrl.nn.heads import CategoricalHead, QHead, ValueHead
from jaxrl.nn.layers import ACTIVATIONS
from jaxrl.nn.memory import memory_core

T, B, A = 2, 3, 7
# Two allies, one number of the agent's own, three enemies in two parts, another of its own; actions 2 to 4 point.
ALLIES = Group("ally", 2, ((0, 2),), place=(0, 1))
ENEMIES = Group("enemy", 3, ((5, 1), (8, 2)), first_action=2, place=(1, 2))
ENTITIES = Entities(16, (ALLIES, ENEMIES))
OBS = jax.random.normal(jax.random.key(0), (T, B, 16)).at[0, 0, 0:2].set(0).at[1, 1, jnp.array([6, 10, 11])].set(0)


def ordered(kind, order):
    """The observations with the entities of a kind in another order."""
    obs = np.array(OBS)
    group = next(group for group in ENTITIES.groups if group.kind == kind)
    for start, size in group.parts:
        part = np.asarray(OBS)[..., start : start + group.count * size].reshape(T, B, group.count, size)
        obs[..., start : start + group.count * size] = part[:, :, order].reshape(T, B, -1)
    return jnp.asarray(obs)


class Both(nn.Module):
    """A policy or values of actions, and the value of the state, with a memory."""

    dueling: bool = False
    q: bool = False
    layer_norm: bool = False
    num_bins: int | None = None
    related: bool = False

    @nn.compact
    def __call__(self, obs):
        look = {"entities": ENTITIES, "layer_norm": self.layer_norm, "related": self.related}
        encoder = Encoder((8, 6), core=memory_core("gru", 5, 1), **look)
        _, features, pointed = encoder(jnp.zeros((B, 5)), obs, jnp.zeros((T, B), bool))
        if self.q:
            values = QHead(A, (5,), dueling=self.dueling, num_bins=self.num_bins)(features, pointed)
        else:
            values = CategoricalHead(A, (5,))(features, None, pointed).logits
        return values, ValueHead()(features)


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(Both(), id="policy"),
        pytest.param(Both(related=True), id="relations"),
        pytest.param(Both(q=True), id="q", marks=pytest.mark.slow),
        pytest.param(Both(q=True, dueling=True, layer_norm=True), id="dueling"),
        pytest.param(Both(q=True, num_bins=9), id="bins", marks=pytest.mark.slow),
    ],
)
def test_the_order_of_entities_means_nothing(network):
    params = jax.jit(network.init)(jax.random.key(1), OBS)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: leaf + np.float32(0.3 * rng.normal(size=leaf.shape)), params)
    apply = jax.jit(network.apply)
    values, value = apply(params, OBS)
    assert np.ptp(np.asarray(values), axis=2).min() > 1e-2
    mates, _ = apply(params, ordered("ally", [1, 0]))
    np.testing.assert_allclose(mates, values, atol=1e-5)
    order = [2, 0, 1]
    turned, same = apply(params, ordered("enemy", order))
    np.testing.assert_allclose(same, value, atol=1e-5)
    np.testing.assert_allclose(turned, np.asarray(values)[:, :, [0, 1, *(2 + k for k in order), 5, 6]], atol=1e-5)
    assert np.abs(turned - values).max() > 1e-2


def test_activations_keep_zeros():
    """Or absent entities would count."""
    assert [float(function(jnp.zeros(()))) for function in ACTIVATIONS.values()] == [0.0] * len(ACTIVATIONS)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_absent_entities_are_nothing(layer_norm):
    torso = EntityTorso(ENTITIES, (4,), layer_norm=layer_norm)
    (_, pointed), params = jax.jit(torso.init_with_output)(jax.random.key(1), OBS)
    there = np.abs(np.asarray(pointed.embeddings)).max(-1) > 0
    expected = np.ones((T, B, 3), bool)
    expected[1, 1, 1] = False
    np.testing.assert_array_equal(there, expected)
    gradient = jax.jit(jax.grad(lambda p: torso.apply(p, 0 * OBS)[0].sum()))(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_sums_and_pointers_against_loops():
    torso, extra = EntityTorso(ENTITIES, (4,), embedding=3), jnp.full((T, B, 1), 0.5)
    (features, pointed), params = jax.jit(torso.init_with_output)(jax.random.key(1), OBS, extra)
    head = CategoricalHead(A)
    policy, head_params = head.init_with_output(jax.random.key(2), features, None, pointed)
    head_params = jax.tree.map(lambda leaf: leaf + jax.random.normal(jax.random.key(3), leaf.shape), head_params)
    policy: Any = head.apply(head_params, features, None, pointed)
    p, dense = (params["params"][name] for name in ("ally", "MLP_0"))
    kernels = {"ally": np.asarray(p["kernel"]), "enemy": np.asarray(params["params"]["enemy"]["kernel"])}
    output = head_params["params"]["output"]
    for t in range(T):
        for b in range(B):
            x = np.asarray(OBS[t, b], np.float64)
            own, embedded = [x[4], *x[14:16]], {}
            rows = {"ally": [x[0:2], x[2:4]], "enemy": [[x[5 + k], *x[8 + 2 * k : 10 + 2 * k]] for k in range(3)]}
            for kind, each in rows.items():
                zero = np.zeros(3)
                embedded[kind] = [np.tanh([*r, 1, *own] @ kernels[kind]) if np.any(r) else zero for r in each]
            sums = [sum(e) / np.sqrt(len(e)) for e in embedded.values()]
            inputs = np.concatenate([own, *sums, [0.5]])
            h = np.tanh(inputs @ np.asarray(dense["Dense_0"]["kernel"]) + np.asarray(dense["Dense_0"]["bias"]))
            np.testing.assert_allclose(features[t, b], h, atol=1e-5)
            out = h @ np.asarray(output["kernel"]) + np.asarray(output["bias"])
            # Actions 0, 1, 5, 6; then what is common to those that point; then the query.
            pointing = [out[4] + out[5:] @ e / np.sqrt(3) for e in embedded["enemy"]]
            logits = np.array([*out[:2], *pointing, *out[2:4]])
            logits -= np.log(np.exp(logits).sum())
            np.testing.assert_allclose(policy.logits[t, b], logits, atol=1e-5)


def test_an_observation_may_lack_own_features_and_actions_that_point():
    entities = Entities(4, (Group("tree", 2, ((0, 2),)),))
    (features, pointed), _ = EntityTorso(entities, (5,)).init_with_output(jax.random.key(0), jnp.ones((3, 4)))
    assert pointed is None
    assert features.shape == (3, 5)
