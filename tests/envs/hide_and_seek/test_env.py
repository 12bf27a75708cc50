"""Names, options, spaces, the pictures: what users rely on."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.envs.hide_and_seek import LAYOUTS, stages
from jaxrl.envs.hide_and_seek.geometry import FAR
from jaxrl.envs.hide_and_seek.layouts import start
from jaxrl.render import rasterise
from jaxrl.render.scene import with_captions
from jaxrl.spaces import MultiDiscrete


def test_names():
    assert jaxrl.list_envs("hide_and_seek/*") == sorted(f"hide_and_seek/{name}" for name in LAYOUTS)


def test_teams_and_roles():
    env = jaxrl.make("hide_and_seek/quadrant?num_hiders=3")
    assert env.agents == ("hider_0", "hider_1", "hider_2", "seeker_0", "seeker_1")
    assert env.teams == env.roles == (0, 0, 0, 1, 1)


def test_only_where_there_are_objects_agents_have_hands():
    assert jaxrl.make("hide_and_seek/chase").action_space() == MultiDiscrete((11,) * 3)
    assert jaxrl.make("hide_and_seek/chase?num_boxes=1&num_buckets=3").action_space() == MultiDiscrete((3, 3, 3, 2, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hiders": 0}, "num_hiders must be a whole number of at least 1, got 0"),
        ({"num_buckets": 4}, "num_buckets must be odd"),
        ({"preparation": 80}, "preparation must be less than max_steps=80, got 80"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        jaxrl.make("hide_and_seek/room", **options)


@pytest.mark.parametrize("name", LAYOUTS)
def test_episodes_begin_in_their_zones_apart_and_out_of_the_walls(name):
    env = jaxrl.make(f"hide_and_seek/{name}")
    params = env._kernel_params(None, False)
    state = jax.jit(lambda keys: start(keys, env.layout, env.cast, params))(jax.random.split(jax.random.key(0), 256))
    state = jax.tree.map(np.asarray, state)
    for w in range(len(state.walls)):
        x, y, half_x, half_y = state.walls[w, :, None]
        away = np.hypot(
            np.maximum(abs(state.position[:, 0] - x) - half_x, 0), np.maximum(abs(state.position[:, 1] - y) - half_y, 0)
        )
        assert (away >= env.default_params.agent_radius).all()
    between = state.position[:, None] - state.position[None]
    apart = np.hypot(between[:, :, 0], between[:, :, 1])[~np.eye(env.num_agents, dtype=bool)]
    assert (apart > 0.3).mean() > 0.98
    if name in ("room", "quadrant"):
        hiders, seekers = state.position[: env.cast.num_hiders], state.position[env.cast.num_hiders :]
        assert (hiders < 2.95 - 0.15).all()
        assert (seekers > 3.05 + 0.15).any(1).all()
    if name == "room":  # one of two doors is closed, and a wall stands there
        np.testing.assert_array_equal(state.doors[:, 2].sum(0), 1)
        np.testing.assert_array_equal((state.walls[:, 0] < FAR).sum(0), 5)
    if name == "random_walls":
        assert (state.doors[:, 2] == 1).all()


@pytest.mark.parametrize("name", ["room", pytest.param("quadrant", marks=pytest.mark.slow)])
def test_boxes_may_begin_before_an_open_door(name):
    """There a box leaves an agent's width to pass, halfway to it it stands halfway, and closed doors get none."""
    env = jaxrl.make(f"hide_and_seek/{name}")
    begin = jax.jit(jax.vmap(env.reset_env, (0, None)))
    worlds = [dataclasses.replace(env.default_params, box_to_door=np.float32(share)) for share in (0.0, 0.5, 1.0)]
    states = [begin(jax.random.split(jax.random.key(0), 64), world)[1] for world in worlds]
    anywhere, halfway, there = (np.asarray(state.object_position) for state in states)
    boxes = slice(env.cast.num_boxes)
    np.testing.assert_allclose(halfway[:, 0], (anywhere + there)[:, 0] / 2, atol=1e-6)  # others avoid those before them
    doors = np.asarray(states[0].doors)
    for w in range(len(doors)):
        own = [o % 2 if doors[w, o % 2, 2] else 1 - o % 2 for o in range(env.cast.num_boxes)]
        away = np.abs(there[w, boxes] - doors[w, own, :2])
        np.testing.assert_allclose(away.max(1), 0.05 + np.sqrt(0.125), atol=1e-5)  # from the wall's middle to the box's
        np.testing.assert_allclose(away.min(1), 0.0, atol=1e-5)


def test_stages_end_with_the_true_world():
    env = jaxrl.make("hide_and_seek/room")
    own = env.default_params

    def drawn(stage, progress):
        keys = jax.random.split(jax.random.key(0), 512)
        return jax.vmap(stage, (0, None, None))(keys, own, np.float32(progress))

    assert 1.6 < drawn(stages.narrowing_doors, 0.0).door_width.max() <= 1.8
    assert drawn(stages.narrowing_doors, 0.0).door_width.min() >= own.door_width
    np.testing.assert_array_equal(drawn(stages.narrowing_doors, 2 / 3).door_width, own.door_width)
    np.testing.assert_array_equal(drawn(stages.boxes_by_doors, 0.0).box_to_door, 1.0)
    shares = np.asarray(drawn(stages.boxes_by_doors, 2 / 3).box_to_door)
    assert shares.std() > 0.25
    assert shares.max() > 0.98
    easy = stages.easy_room(jax.random.key(0), own, jnp.float32(0))
    assert (easy.door_spread, easy.half_vision) == (0, np.float32(np.pi))
    for stage, last in (
        (stages.boxes_by_doors, own),
        (stages.easy_room_for_hiders, easy),
        (stages.easy_room_for_seekers, easy),
    ):
        for own_leaf, leaf in zip(jax.tree.leaves(last), jax.tree.leaves(drawn(stage, 1.0)), strict=True):
            np.testing.assert_array_equal(leaf[0], own_leaf)
    reach = np.asarray(drawn(stages.easy_room_for_hiders, 0.0).reach)
    assert own.reach <= reach.min() < 0.3
    assert 1.9 < reach.max() <= 2.0


def test_pictures():
    """Every agent is drawn where it is, and a locked box shows it."""
    env = jaxrl.make("hide_and_seek/room")
    params = env._kernel_params(None, False)
    state = jax.jit(lambda keys: start(keys, env.layout, env.cast, params))(jax.random.split(jax.random.key(0), 3))
    states = jax.tree.map(lambda leaf: np.moveaxis(np.asarray(leaf), -1, 0), state)
    states = dataclasses.replace(states, locked_by=np.array([[-1], [0], [-1]], np.int32))
    scene = env.draw(states)
    discs = {s.tip.title: s for s in scene.shapes if s.tip is not None and s.tip.title in env.agents}
    for i, agent in enumerate(env.agents):
        np.testing.assert_allclose(np.stack([discs[agent].x, discs[agent].y], 1), states.position[:, i], atol=1e-6)
    [box] = [s for s in scene.shapes if s.tip is not None and s.tip.title == "box 0"]
    assert list(box.tip.rows["locked"]) == ["no", "by hiders", "no"]  # pyright: ignore
    frames = rasterise(with_captions(scene), width=96)
    assert frames.shape[0] == 3
    assert (frames[0] != frames[1]).any()


def test_it_is_trained_with_returns_and_numbers_of_the_game():
    config = ippo.Config(
        env="hide_and_seek/chase?max_steps=8",
        num_envs=4,
        num_steps=8,
        total_timesteps=64,
        hidden=(8,),
        log_info=("seen_fraction",),
    )
    algo = ippo.make(config)
    metrics = jax.eval_shape(lambda key: algo.update(algo.init(key))[1], jax.random.key(0))
    assert set(metrics["return_sums"]) == {"hider", "seeker"}
    assert set(metrics["info_sums"]) == {"seen_fraction"}
