"""Many worlds: parameters of its own for every episode or every environment, in training as well."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import VectorEnv
from jaxrl.acting.agent import make_collector
from jaxrl.algos import ippo, ppo
from jaxrl.envs.classic import CartPole
from jaxrl.errors import UnknownNameError
from jaxrl.source_file import load_source
from jaxrl.train.folder.load import load
from jaxrl.wrappers import RandomParams, Stage

B = 8
WORLDS = Path(__file__).with_name("worlds.py")
lengths = load_source(WORLDS).draw
TINY: dict[str, Any] = {"num_envs": 8, "num_steps": 4, "hidden": (4,), "num_minibatches": 1, "update_epochs": 1}


def random_health(key: jax.Array, params: Any, progress: Any) -> Any:
    """Everything about a battle that can differ, differs."""
    keys = jax.random.split(key, 13)

    def scaled(number: Any, key: jax.Array) -> jax.Array:
        return number * jax.random.uniform(key, np.shape(number), jnp.float32, 0.7, 1.3)

    return dataclasses.replace(
        params,
        units=type(params.units)(*map(scaled, jax.tree.leaves(params.units), keys[6:])),
        map_width=scaled(params.map_width, keys[0]),
        map_height=scaled(params.map_height, keys[1]),
        max_steps=jax.random.randint(keys[2], (), 5, 15),
        won_battle_bonus=scaled(params.won_battle_bonus, keys[3]),
        see_enemy_actions=jax.random.bernoulli(keys[4]),
        walls_cause_death=jax.random.bernoulli(keys[5]),
    )


@pytest.mark.quick
def test_parameters_last_for_an_episode_and_are_new_in_the_next():
    venv = VectorEnv(RandomParams(CartPole(max_steps=4), lengths), B)

    def step(state: Any, key: jax.Array) -> Any:
        _, after, _, terminated, truncated, info = venv.step(key, state, jnp.zeros(B, int))
        used = info["final_state"].own.half_length
        return after, (state.own.half_length, used, after.own.half_length, terminated | truncated)

    keys = jax.random.split(jax.random.key(0), 13)
    before, used, after, done = jax.lax.scan(step, jax.jit(venv.reset)(keys[0])[1], keys[1:])[1]
    assert done.sum() == 3 * B
    np.testing.assert_array_equal(used, before)
    np.testing.assert_array_equal(after == before, ~done)
    assert len(np.unique(after[done])) == 3 * B  # no two alike
    assert ((before >= 1.5) & (before <= 1.6)).all()  # outside of training, training is done


@pytest.mark.quick
def test_the_drawn_parameters_are_those_of_the_physics():
    inside, env, push = CartPole(), RandomParams(CartPole(), lengths), jnp.int32(1)
    _, state = env.reset(jax.random.key(0))
    stepped = env.step_env(jax.random.key(1), state, push, env.default_params)
    alone = inside.step_env(jax.random.key(1), state.env, push, state.own)
    np.testing.assert_array_equal(stepped[0], alone[0])
    assert (stepped[0] != inside.step_env(jax.random.key(1), state.env, push, inside.default_params)[0]).any()


@pytest.mark.parametrize("name", ["smax/3m", pytest.param("smax/smacv2_5_units", marks=pytest.mark.slow)])
def test_battles_with_parameters_of_their_own_are_fought_in_the_kernel(name: str):
    """Its results are those of `vmap`, though every battle has another map, other units, another end."""
    env: Any = RandomParams(jaxrl.make(name), random_health)

    @jax.jit
    def step(key: jax.Array) -> Any:
        key_reset, key_steps, key_action = jax.random.split(key, 3)
        keys = jax.random.split(key_reset, B)
        resets = env.batch_reset(keys), jax.vmap(env.reset)(jax.random.clone(keys))
        keys, state, steps = jax.random.split(key_steps, B), resets[0][1], []
        late = state.own.max_steps - 1 - jnp.arange(B) % 2  # half of them end now
        state = state._replace(env=dataclasses.replace(state.env, step=late))
        action = jax.random.randint(key_action, (B, env.num_agents), 0, env.action_space().n)
        for run in (env.batch_step, jax.vmap(env.step)):
            steps.append(run(jax.random.clone(keys), state, action))
        return resets, steps

    for pair in step(jax.random.key(0)):
        for kernel, lane in zip(*map(jax.tree.leaves, pair), strict=True):
            np.testing.assert_allclose(kernel, lane, rtol=1e-5, atol=1e-5)


@pytest.mark.quick
def test_worlds_to_choose_from_are_chosen_alike():
    default = CartPole().default_params
    worlds = jax.tree.map(lambda leaf: np.stack([leaf] * 4), default)
    worlds = dataclasses.replace(worlds, half_length=np.array([1, 2, 3, 4], np.float32))
    _, state = jax.jit(VectorEnv(RandomParams(CartPole(), worlds), 4000).reset)(jax.random.key(0))
    found, counts = np.unique(state.own.half_length, return_counts=True)
    np.testing.assert_array_equal(found, [1, 2, 3, 4])
    assert (abs(counts - 1000) < 120).all()  # more than four deviations


@pytest.mark.quick
@pytest.mark.parametrize(
    ("draw", "kind", "message"),
    [
        (lambda key, params, progress: params.gravity, TypeError, "must have the structure"),
        (lambda key: key, TypeError, r"takes 1 .*were given\. Write def draw\(key, params, progress\)"),
        (lambda key, params, progress: params.units, TypeError, "of environment cannot be drawn like that: .*'units'"),
        (
            lambda key, params, progress: dataclasses.replace(params, gravity=jnp.ones(3)),
            ValueError,
            r"params.gravity was drawn with shape \[3\]; it must be \[\]",
        ),
        (
            lambda key, params, progress: dataclasses.replace(params, max_steps=10.5),
            ValueError,
            "params.max_steps was drawn as float32; it must be int32, so round it",
        ),
        ("worlds.py:draw", TypeError, "takes a function.*but got a str"),
        (CartPole().default_params, ValueError, "a leading axis of the same size"),
    ],
)
def test_what_cannot_be_parameters_is_refused(draw: Any, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        RandomParams(CartPole(), draw)


@pytest.mark.quick
def test_there_has_to_be_something_to_draw():
    with pytest.raises(TypeError, match="probe/credit has no parameters"):
        RandomParams(jaxrl.make("probe/credit"), lengths)


@pytest.mark.quick
def test_each_environment_of_a_vector_has_its_own_world():
    env = CartPole()
    params = jax.tree.map(lambda leaf: np.stack([leaf] * 3), env.default_params)
    params = dataclasses.replace(params, max_steps=np.array([1, 2, 3], np.int32))
    venv = VectorEnv(env, 3, params=params)
    _, state = venv.reset(jax.random.key(0))
    ends = []
    for seed in range(6):
        _, state, _, _, truncated, _ = jax.jit(venv.step)(jax.random.key(seed), state, jnp.zeros(3, int))
        ends.append(truncated)
    np.testing.assert_array_equal(ends, [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
    assert venv.action_mask(state).shape == (3, 2)
    with pytest.raises(ValueError, match="has its own parameters; leave out params"):
        venv.reset(jax.random.key(0), env.default_params)
    with pytest.raises(ValueError, match=r"params.gravity must have the shape \[2\], got \[3\]"):
        VectorEnv(env, 2, params=params)
    with pytest.raises(ValueError, match="RandomParams, whose starts keep theirs"):
        VectorEnv(env, 3, "pool", params=params)
    with pytest.raises(TypeError, match="must have the structure"):
        VectorEnv(env, 3, params=3.0)


def test_a_curriculum_goes_with_the_training():
    """Episodes that begin in an update are drawn with the progress at its beginning."""
    config = ppo.Config(env="CartPole-v1?max_steps=1", params=f"{WORLDS}:draw", total_timesteps=32 * 10, **TINY)
    algo = ppo.make(config)
    state, update = jax.jit(algo.init)(jax.random.key(0)), jax.jit(algo.update)
    drawn = []
    for number in (0, 5, 9):
        state, _ = update(dataclasses.replace(state, update=jnp.int32(number)))
        drawn.append(np.asarray(state.runner.env_state.own.half_length))
    for share, some in zip((0.0, 0.5, 0.9), drawn, strict=True):
        assert ((some >= 0.5 + share - 1e-6) & (some <= 0.6 + share + 1e-6)).all()
        assert len(np.unique(some)) == 8


@pytest.mark.quick
def test_every_team_algorithm_passes_the_progress_on():
    config = ippo.Config(env="CartPole-v1", params=f"{WORLDS}:draw", total_timesteps=32 * 10, **TINY)
    update: Any = ippo.make(config).update
    params = make_collector(update.args[0], 5).params
    assert isinstance(params, Stage)
    assert float(params.progress) == 0.5


@pytest.mark.quick
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("draw", "names nothing; write ./FILE.py:NAME"),
        (f"{WORLDS}:drow", "There is no 'drow' in .*Did you mean draw"),
        ("no_such_module:draw", "The module 'no_such_module' of no_such_module:draw cannot be imported"),
    ],
)
def test_params_that_lead_nowhere_say_what_to_type(params: str, message: str):
    with pytest.raises(UnknownNameError, match=message):
        ppo.Config(params=params).make_env()


@pytest.mark.slow
def test_a_run_keeps_its_worlds_and_goes_on_exactly(tmp_path: Path):
    mine = tmp_path / "mine.py"
    mine.write_text(WORLDS.read_text())
    config = ppo.Config(env="CartPole-v1", params=f"{mine}:draw", total_timesteps=32 * 6, **TINY)
    options: dict[str, Any] = {"quiet": True, "pictures": False, "eval_episodes": 4, "log_every": 1}
    whole = jaxrl.fit(ppo.make(config), config, tmp_path / "whole", **options)
    jaxrl.fit(ppo.make(config), config, tmp_path / "run", callbacks=[lambda row: row["timesteps"] >= 64], **options)
    mine.write_text(WORLDS.read_text() + "\n")
    run = load(tmp_path / "run")
    assert run.about["config"]["params"] == "source/mine.py:draw"
    assert run.about["sources"]["params"]["file"] == "source/mine.py"
    mine.unlink()
    run = load(tmp_path / "run")
    resumed = jaxrl.fit(run.algo, run.config, tmp_path / "run", resume=True, **options)
    for a, b in zip(*(jax.tree.leaves((r.state.params, r.state.runner)) for r in (whole, resumed)), strict=True):
        np.testing.assert_array_equal(a, b)
