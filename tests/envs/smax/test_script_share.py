"""Self-play in which the script plays the enemies of some battles, drawn as each begins."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.check import check_env
from jaxrl.envs.smax import SMAX

B = 64


@dataclasses.dataclass
class Played:
    """Battles under the same keys and actions, in four environments: states `[T, B, …]`, masks, and how they ended."""

    script: Any
    """Of the allies against the script."""
    selfplay: Any
    always: Any
    """Self-play in which the script plays every battle."""
    mixed: Any
    """Self-play in which it plays half of them."""


@pytest.fixture(scope="module")
def played() -> Played:
    env = jaxrl.make("smax/3m", mode="selfplay")
    assert isinstance(env, SMAX)
    action = jax.random.randint(jax.random.key(1), (80, B, 6), 0, 8)

    def run(env: SMAX) -> Any:
        @jax.jit
        def whole() -> Any:
            def step(state: Any, inputs: Any) -> Any:
                seed, action = inputs
                keys = jax.random.split(jax.random.fold_in(jax.random.key(2), seed), B)
                masks = jax.vmap(env.agent_mask)(state), jax.vmap(env.action_mask)(state)
                _, after, *_ = env.batch_step(keys, state, action[:, : env.num_agents])
                return after, (state, *masks)

            _, state = env.batch_reset(jax.random.split(jax.random.key(0), B))
            return jax.lax.scan(step, state, (jnp.arange(80), action))[1]

        return whole()

    return Played(run(env.against_script()), run(env), run(env.against_script(1.0)), run(env.against_script(0.5)))


def assert_same_battles(one: Any, other: Any, where: Any = slice(None)) -> None:
    for name in ("position", "health", "cooldown", "attack", "step"):
        np.testing.assert_array_equal(getattr(one, name)[:, where], getattr(other, name)[:, where], err_msg=name)


def test_the_script_plays_as_it_does_against_the_allies_alone(played: Played):
    """What the agents of the second team want has no effect."""
    assert_same_battles(played.always[0], played.script[0])
    assert np.asarray(played.script[0].step[1:] == 0).any(), "no battle has ended"


def test_a_battle_belongs_to_the_script_from_its_beginning_to_its_end(played: Played):
    scripted, step = np.asarray(played.mixed[0].memory.plays), np.asarray(played.mixed[0].step)
    goes_on = step[1:] > 0
    np.testing.assert_array_equal(scripted[1:][goes_on], scripted[:-1][goes_on])
    assert 0.3 < scripted[step == 0].mean() < 0.7
    before_any_end = np.logical_and.accumulate(step == np.arange(80)[:, None])
    for other, rows in ((played.always, scripted[0]), (played.selfplay, ~scripted[0])):
        same = np.asarray(played.mixed[0].health == other[0].health).all(-1) | ~before_any_end
        assert same[:, rows].all()


def test_nobody_of_the_second_team_acts_in_the_scripts_battles(played: Played):
    state, agent_mask, action_mask = played.mixed
    scripted, alive = np.asarray(state.memory.plays)[..., None], np.asarray(state.alive)
    np.testing.assert_array_equal(agent_mask[..., :3], alive[..., :3])
    np.testing.assert_array_equal(agent_mask[..., 3:], alive[..., 3:] & ~scripted)
    idle = ~np.asarray(agent_mask)
    np.testing.assert_array_equal(np.asarray(action_mask)[idle], np.broadcast_to(np.arange(8) == 4, (idle.sum(), 8)))


@pytest.mark.slow
def test_the_contract_holds():
    env = jaxrl.make("smax/5m_vs_6m", mode="selfplay")
    assert isinstance(env, SMAX)
    check_env(env.against_script(0.5))


def test_a_share_is_between_zero_and_one():
    env = jaxrl.make("smax/3m", mode="selfplay")
    assert isinstance(env, SMAX)
    with pytest.raises(ValueError, match="from 0 to 1"):
        env.against_script(1.5)
    with pytest.raises(ValueError, match='needs mode="selfplay"'):
        env.against_script().against_script(0.5)
