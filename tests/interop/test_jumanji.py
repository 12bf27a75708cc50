"""Environments of jumanji as ours, against jumanji itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("jumanji")
from jumanji import registration

from jaxrl.algos import ippo, ppo
from jaxrl.interop import from_jumanji
from jaxrl.spaces import MultiDiscrete

key = jax.random.key


def side_by_side(env: Any, steps: int) -> Any:
    """Random legal steps of ours and of jumanji's with the same keys: their timesteps, and what ours returns."""
    theirs, count = env.env, len(getattr(env, "agents", ()))
    reset, step = jax.jit(env.reset), jax.jit(env.step_env)
    their_reset, their_step = jax.jit(theirs.reset), jax.jit(theirs.step)
    obs, state = reset(key(0))
    their_state, timestep = their_reset(key(0))
    yield timestep, (obs, state)
    for t in range(steps):
        draws = np.random.default_rng(t)
        rows = np.asarray(env.action_mask(state)).reshape(max(count, 1), -1)
        action = np.array([draws.choice(np.flatnonzero(row)) for row in rows])
        stepped = step(key(100 + t), state, action if count else action[0], None)
        shape = () if count else np.shape(timestep.observation.action_mask)
        theirs_action = np.array(np.unravel_index(action[0], shape)) if len(shape) > 1 else action
        their_state = their_state.replace(key=key(100 + t))
        their_state, timestep = their_step(their_state, theirs_action if count or len(shape) > 1 else action[0])
        yield timestep, stepped
        state = stepped[1]
        if timestep.last():
            break


def test_snake_is_jumanjis_own() -> None:
    env = jaxrl.make("jumanji:Snake-v1", num_rows=4, num_cols=5, time_limit=6)
    for t, (timestep, (obs, state, *rest)) in enumerate(side_by_side(env, 6)):
        np.testing.assert_array_equal(obs, timestep.observation.grid)
        np.testing.assert_array_equal(env.action_mask(state), timestep.observation.action_mask)
        if rest:
            reward, terminated, truncated, info = rest
            assert (float(reward), info) == (float(timestep.reward), {})
            assert bool(terminated | truncated) == bool(timestep.last())
            assert bool(truncated) == (t == 6)
    assert env.observation_space().shape == (4, 5, 5)


def test_an_end_and_the_clock_at_once_is_an_end() -> None:
    env = jaxrl.make("jumanji:Snake-v1", num_rows=4, num_cols=4, time_limit=9)
    _, (state, legal) = jax.jit(env.reset)(key(0))
    late, step = state.replace(step_count=jnp.int32(8), action_mask=jnp.ones(4, bool)), jax.jit(env.step_env)
    against_the_wall = late.replace(action_mask=jnp.zeros(4, bool))
    flags = [step(key(1), (begun, legal), jnp.int32(2), None)[3:5] for begun in (against_the_wall, late)]
    assert [(bool(terminated), bool(truncated)) for terminated, truncated in flags] == [(True, False), (False, True)]


def test_choices_that_are_legal_together_are_one_action() -> None:
    env = jaxrl.make("jumanji:Minesweeper-v0", num_rows=3, num_cols=4, num_mines=2)
    for timestep, (obs, state, *_) in side_by_side(env, 3):
        np.testing.assert_array_equal(obs[..., 0], timestep.observation.board)
        np.testing.assert_array_equal(env.action_mask(state), np.ravel(timestep.observation.action_mask))
    assert env.action_space().n == 12


@pytest.mark.slow  # compiles for half a minute
def test_agents_see_themselves_first() -> None:
    env = jaxrl.make("jumanji:Connector-v3", grid_size=4, num_agents=2, time_limit=4)
    ended = False
    for timestep, (obs, state, *rest) in side_by_side(env, 4):
        grid = np.asarray(timestep.observation.grid)
        for agent in range(2):
            planes = [grid == 1 + 3 * ((agent + k) % 2) + kind for k in range(2) for kind in range(3)]
            np.testing.assert_array_equal(obs[agent], np.stack(planes, -1))
        np.testing.assert_array_equal(env.action_mask(state), timestep.observation.action_mask)
        if rest:
            reward, terminated, truncated, info = rest
            np.testing.assert_array_equal(reward, timestep.reward)
            assert bool(terminated) == bool(timestep.last() & (timestep.discount == 0).all())
            assert bool(truncated) == bool(timestep.last() & (timestep.discount > 0).any())
            assert info.keys() == timestep.extras.keys()
            ended |= bool(timestep.last())
    assert ended
    assert env.teams == (0, 1)


@pytest.mark.slow
def test_one_reward_makes_a_team_and_a_view_is_an_agents_own() -> None:
    warehouse = jaxrl.make("jumanji:RobotWarehouse-v0", num_agents=2, time_limit=3)
    for timestep, (obs, _, *rest) in side_by_side(warehouse, 3):
        np.testing.assert_array_equal(obs[:, :-1], timestep.observation.agents_view)
        if rest:
            assert rest[0].tolist() == [float(timestep.reward)] * 2
    assert (warehouse.num_agents, warehouse.teams) == (2, (0, 0))
    shop = jaxrl.make("jumanji:JobShop-v0", num_jobs=3, num_machines=2, max_num_ops=2, max_op_duration=2)
    for timestep, (obs, state, *_) in side_by_side(shop, 2):
        assert obs[:, -2:].tolist() == [[1, 0], [0, 1]]
        np.testing.assert_array_equal(shop.action_mask(state), timestep.observation.action_mask)
    assert (shop.num_agents, shop.teams, shop.action_space().n) == (2, (0, 0), 4)


def test_boxes_and_several_choices_without_a_mask() -> None:
    cube = jaxrl.make("jumanji:RubiksCube-v0", cube_size=2, num_scrambles_on_reset=1, time_limit=5)
    assert cube.action_space() == MultiDiscrete((6, 1, 3))
    assert not cube.observation_space().shape[1:]  # six faces are no picture


@pytest.mark.slow
def test_searchers_steer() -> None:
    env = jaxrl.make("jumanji:SearchAndRescue-v0", num_searchers=3, num_targets=2, time_limit=2)
    obs, state = jax.jit(env.reset)(key(0))
    step, flags, reward = jax.jit(env.step_env), [], jnp.zeros(())
    for t in range(2):
        obs, state, reward, terminated, truncated, _ = step(key(t), state, jnp.ones((3, 2)), None)
        flags.append((bool(terminated), bool(truncated)))
    assert flags == [(False, False), (False, True)]  # jumanji itself calls this an end
    assert (obs.shape[0], reward.shape, env.action_space().shape) == (3, (3,), (2,))


def test_names_and_options() -> None:
    with pytest.raises(jaxrl.errors.UnknownNameError, match="Did you mean Snake-v1"):
        jaxrl.make("jumanji:Snake")
    with pytest.raises(TypeError, match=r"Snake-v1 has no option 'rows'. It has num_rows, num_cols, time_limit"):
        jaxrl.make("jumanji:Snake-v1?rows=4")
    with pytest.raises(TypeError, match=r"jumanji cannot make Snake-v1 of these options: index is out of bounds"):
        jaxrl.make("jumanji:Snake-v1?num_rows=0")
    with pytest.raises(ValueError, match=r"environments with agents, and this Cleaner has none"):
        jaxrl.make("jumanji:Cleaner-v0?num_agents=0")
    with pytest.raises(TypeError, match=r"TSP-v1 has no option 'cities'. It has num_cities, generator, reward_fn"):
        jaxrl.make("jumanji:TSP-v1?cities=4")
    with pytest.raises(ValueError, match="num_cities must be a whole number; got 'few'"):
        jaxrl.make("jumanji:TSP-v1?num_cities=few")
    with pytest.raises(TypeError, match=r"as in from_jumanji\(jumanji.make\(id\)\)"):
        from_jumanji("Snake-v1")
    env = jaxrl.make("jumanji:TSP-v1?num_cities=5")
    assert (env.action_space().n, env.name) == (5, "jumanji:TSP-v1")


def test_levels_that_cannot_be_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str) -> Any:
        raise FileNotFoundError("no connection")

    monkeypatch.setattr(registration, "make", offline)
    with pytest.raises(OSError, match=r"jumanji cannot make Sokoban-v0, whose levels it downloads: no connection"):
        jaxrl.make("jumanji:Sokoban-v0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Snake-v1",
        "Maze-v0?num_rows=5&num_cols=5",
        "Connector-v3?grid_size=5&num_agents=2",
        "Cleaner-v0?num_rows=5&num_cols=5",
        "Sudoku-v0",
    ],
)
def test_environments_keep_our_contract(name: str) -> None:
    jaxrl.check_env(jaxrl.make(f"jumanji:{name}"))


@pytest.mark.slow
def test_ppo_learns_a_maze() -> None:
    name = "jumanji:Maze-v0?num_rows=4&num_cols=4"
    config = ppo.Config(env=name, total_timesteps=200_000, num_envs=64, num_steps=32, lr=1e-3)
    with jax.debug_key_reuse(False):  # jumanji's mazes use one twice
        _, metrics = jax.jit(ppo.make_train(config))(key(0))
    assert metrics["return_sum"][-5:].sum() / metrics["episodes"][-5:].sum() > 0.9  # the target is always reached


@pytest.mark.slow
def test_ippo_learns_to_connect() -> None:
    name = "jumanji:Connector-v3?grid_size=5&num_agents=2&time_limit=15"
    config = ippo.Config(env=name, total_timesteps=150_000, num_envs=64, num_steps=32, lr=1e-3)
    _, metrics = jax.jit(ippo.make_train(config))(key(0))
    first, last = (
        metrics["return_sum"][span].sum() / metrics["episodes"][span].sum() for span in (slice(5), slice(-5, None))
    )
    assert last > first + 0.3
