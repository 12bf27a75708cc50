"""Relations: who is near whom, against a slow version that looks at one pair after the other."""

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.entities import Entities, Group
from jaxrl.envs.smax.observe import state_entities
from jaxrl.nn.entities import relations

# Two wolves of three numbers, of which the last two are their place, one number of the agent's own, three sheep whose
# place comes first, and a tree without a place.
ENTITIES = Entities(
    17,
    (
        Group("wolf", 2, ((0, 3),), place=(1, 2)),
        Group("sheep", 3, ((7, 2), (13, 1)), place=(0, 1)),
        Group("tree", 1, ((16, 1),)),
    ),
    reaches=(0.5, 1.2),
)
COUNTS = {"wolf": 2, "sheep": 3}
FAR = 2.0

related = jax.jit(relations, static_argnums=0)


def observations() -> np.ndarray:
    """Four of them: a sheep is absent in the second, all wolves in the third, and the last one is of other worlds."""
    obs = np.random.default_rng(0).uniform(-1, 1, (4, 17)).astype(np.float32)
    obs[1, 9:11] = obs[1, 14] = 0
    obs[2, 0:6] = 0
    obs[3] *= 3  # so that some are too far away to matter
    return obs


class Slow:
    """The same for one observation, with loops."""

    def __init__(self, obs: np.ndarray) -> None:
        wolves = {k: obs[3 * k + 1 : 3 * k + 3] for k in range(2) if obs[3 * k : 3 * k + 3].any()}
        sheep = {k: obs[7 + 2 * k : 9 + 2 * k] for k in range(3) if obs[[7 + 2 * k, 8 + 2 * k, 13 + k]].any()}
        self.there: dict[str, dict[int, np.ndarray]] = {"wolf": wolves, "sheep": sheep}

    def distances(self, kind: str, place: Any = (0.0, 0.0)) -> dict[int, float]:
        """To all of a kind, from somewhere or from the agent."""
        return {k: min(float(np.linalg.norm(other - place)), FAR) for k, other in self.there[kind].items()}

    def within(self, distances: Iterable[float]) -> list[float]:
        distances = list(distances)
        return [float(sum(np.clip(2.5 - 2 * d / reach, 0, 1) for d in distances)) for reach in ENTITIES.reaches]

    def agent(self) -> list[float]:
        out = []
        for kind, other in (("wolf", "sheep"), ("sheep", "wolf")):
            own, scale = self.distances(kind), COUNTS[kind] ** -0.5
            wins = sum(
                own[k] < min([FAR, *self.distances(other, place).values()]) for k, place in self.there[kind].items()
            )
            out += [*(share * scale for share in self.within(own.values())), min([FAR, *own.values()]), wins * scale]
        return out

    def entity(self, kind: str, k: int) -> list[float]:
        other = "sheep" if kind == "wolf" else "wolf"
        if k not in self.there[kind]:
            return [0.0] * (2 * len(ENTITIES.reaches) + 4)
        own, theirs = self.distances(kind)[k], self.distances(other, self.there[kind][k])
        nearest, scale = min([FAR, *theirs.values()]), COUNTS[other] ** -0.5
        owned = 0
        for place in self.there[other].values():
            rivals = self.distances(kind, place)
            owned += rivals[k] == min(rivals.values()) < FAR
        around = [share * scale for share in self.within(theirs.values())]
        return [*self.within([own]), own, *around, nearest, float(own < nearest), owned * scale]


def test_who_is_near_whom() -> None:
    obs = observations()
    agent, around = related(ENTITIES, obs)
    assert {kind: rows.shape[1] for kind, rows in around.items()} == COUNTS
    for row, seen in enumerate(map(Slow, obs)):
        np.testing.assert_allclose(agent[row], seen.agent(), atol=1e-5)
        for kind, count in COUNTS.items():
            for k in range(count):
                np.testing.assert_allclose(around[kind][row, k], seen.entity(kind, k), atol=1e-5)


def test_many_observations_are_like_few() -> None:
    """They are worked on in blocks, of which the last one is filled up. Each wolf has one sheep that is nearest."""
    obs = np.random.default_rng(1).uniform(-0.7, 0.7, (3, 431, 17)).astype(np.float32)
    agent, around = related(ENTITIES, obs)
    assert (agent.shape, around["sheep"].shape) == ((3, 431, 8), (3, 431, 3, 8))
    some = related(ENTITIES, obs[2, -5:])
    np.testing.assert_allclose(agent[2, -5:], some.agent, atol=1e-6)
    for kind, rows in some.entities.items():
        np.testing.assert_allclose(around[kind][2, -5:], rows, atol=1e-6)
    nearest = around["sheep"][..., -1].sum(axis=-1) * COUNTS["wolf"] ** 0.5
    np.testing.assert_allclose(nearest, COUNTS["wolf"], rtol=1e-5)


def test_places_on_a_map_say_nothing_about_an_agent() -> None:
    """In a global state there is none at their origin; what entities are to each other stays the same."""
    obs, size = jnp.asarray(observations()), len(ENTITIES.reaches)
    _, seen = related(ENTITIES, obs)
    agent, around = related(dataclasses.replace(ENTITIES, relative=False), obs)
    assert agent.shape == (*obs.shape[:-1], 0)
    for kind, values in around.items():
        about_agent = [*range(size + 1), 2 * size + 2]
        np.testing.assert_array_equal(values, np.delete(seen[kind], about_agent, axis=-1))


def test_many_places_on_a_map_have_the_shapes_of_few() -> None:
    """More rows than one block holds, although nothing is said about an agent."""
    entities = state_entities(3, 3, 6)
    for rows in (512, 513):
        agent, around = jax.eval_shape(partial(relations, entities), jax.ShapeDtypeStruct((rows, 72), jnp.float32))
        assert agent.shape == (rows, 0)
        assert {seen.shape[:2] for seen in around.values()} == {(rows, 3)}


def test_two_at_the_same_place_have_a_gradient() -> None:
    """The square root has none at 0, which would make everything NaN for who learns through observations."""
    obs = jnp.asarray(observations()).at[0, 7:11].set(0.5)
    gradient = jax.grad(lambda obs: sum(leaf.sum() for leaf in jax.tree.leaves(related(ENTITIES, obs))))(obs)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0


@pytest.mark.parametrize("name", ["smax/5m_vs_6m", "mpe/simple_spread", "mpe/simple_tag"])
def test_places_are_where_the_environments_say(name: str) -> None:
    """The distance to an entity is one that its state tells, some steps to the right, where the enemies are."""
    env, unit = jaxrl.make(name), 9.0 if name.startswith("smax") else 1.0  # a marine's sight
    assert env.entities is not None
    team = [i for i, agent in enumerate(env.agents) if agent.startswith(("ally", "agent", "adversary"))]
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    step, right = jax.jit(env.step), jnp.ones(env.num_agents, jnp.int32)
    for key in jax.random.split(jax.random.key(1), 4):
        obs, state, *_ = step(key, state, right)
    place = np.asarray(state.position)
    for group in env.entities.placed:
        rows = np.asarray(group.rows(obs))[team]
        distance = unit * np.linalg.norm(rows[..., list(group.place)], axis=-1)
        seen = (rows != 0).any(axis=-1)
        assert seen.any()
        for i, k in zip(*np.nonzero(seen), strict=True):
            true = np.linalg.norm(place - place[team[i]], axis=-1)
            assert np.abs(true - distance[i, k]).min() < 1e-4
