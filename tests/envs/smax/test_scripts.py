"""Scripts of every strength: JaxMARL's is one of them, each beats the one below, and both sides win as often."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxrl
from jaxrl.envs.batching import batch_first, uniform_rows
from jaxrl.envs.smax import SMAX, Zone, battle, orders
from jaxrl.envs.smax.orders import MIXTURES, SCRIPTS, Script
from jaxrl.envs.smax.state import bodies_of, field_of
from tests.envs.smax.sandbox import DUMMY, STOP
from tests.envs.smax.sandbox import battle as make_battle


def test_the_classic_script_is_jaxmarls():
    """The same battles to the bit, as a row of numbers and without one."""
    seen = []
    for script in (None, "classic"):
        env = jaxrl.make("smax/2s3z", script=script)

        @jax.jit
        def run(key, env=env):
            def step(state, key):
                action = jax.random.randint(key, (env.num_agents,), 0, env.action_space().n)
                state, *_ = env._advance(key, state, action, env.default_params)
                return state, (state.position, state.health, state.attack)

            return jax.lax.scan(step, env._spawn(key, env.default_params), jax.random.split(key, 60))[1]

        seen.append(run(jax.random.key(3)))
    for ours, theirs in zip(*seen, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@functools.cache
def arena(name: str, first: Script, second: Script, number: int = 512, steps: int = 120, **options) -> tuple[int, int]:
    """Battles between two scripts that each won, of so many from mirrored starts."""
    env = jaxrl.make(name, script=[first, second], walls_cause_death=False, max_steps=steps, **dict(options))
    assert isinstance(env, SMAX)
    params, kernel = env.default_params, env.battle

    def remember(bodies, team):
        memory = orders.new_memory(jax.tree.map(lambda leaf: leaf[kernel.teams[team]], bodies), field_of(params))
        return memory._replace(script=jnp.full(number, team))

    def step(carry, key):
        state, memories, over, wins = carry
        draws = uniform_rows(jax.random.split(key, number), 5 * env.num_units).reshape(5, env.num_units, number)
        teams = []
        for team in range(2):
            arguments = (team, memories[team], state, draws[1:3], params, draws[3:])
            order, memories[team] = battle.scripted(kernel, env.options, *arguments)
            teams.append(order)
        order, before = orders.join(*teams), bodies_of(state)
        stats = kernel.stats(state.unit_type, params)
        after = kernel.fight(before, state.unit_type, order, stats, params, kernel.deviation(draws[0], params))
        heading = kernel.heading(state, order)
        state = kernel.pack(after, state.unit_type, order, None, state.step + 1, heading)
        dead = [(after.health[rows] <= 0).all(0) for rows in kernel.teams]
        won = jnp.stack([dead[1] & ~dead[0], dead[0] & ~dead[1]]) & ~over
        return (state, memories, over | dead[0] | dead[1], wins + won.sum(1)), None

    @jax.jit
    def run(key):
        key, key_spawn = jax.random.split(key)
        state = env._spawn(jax.random.split(key_spawn, number), params)
        memories = [remember(bodies_of(state), team) for team in range(2)]
        state = dataclasses.replace(state, memory=None)
        first = (state, memories, jnp.zeros(number, bool), jnp.zeros(2, jnp.int32))
        return jax.lax.scan(step, first, jax.random.split(key, steps))[0][3]

    wins = run(jax.random.key(0))
    return int(wins[0]), int(wins[1])


LEVELS = ("random", "novice", "medium", "advanced", "expert")


@pytest.mark.parametrize(("weaker", "stronger"), list(itertools.pairwise(LEVELS)))
def test_each_level_beats_the_one_below(weaker, stronger):
    lost, won = arena("smax/3s5z", SCRIPTS[weaker], SCRIPTS[stronger])
    assert won > 1.2 * lost, (won, lost)


def test_actions_at_random_are_uniform_over_those_that_are_possible():
    """Four ways to walk, to stop, and two targets in range: χ² of what a unit does."""
    places = [(10.0, 10.0), (12.0, 10.0), (25.0, 25.0), (11.0, 11.0)]
    env = make_battle({"dummy": DUMMY}, ["dummy"] * 3, ["dummy"], places, script="random", mode="enemy")
    state = env.reset(jax.random.key(0))[1]

    @jax.jit
    @jax.vmap
    def decide(key):
        order = env._orders(key, state, jnp.full(3, STOP), env.default_params)[0]
        walk = jnp.stack([order.move_x[3], order.move_y[3]])
        return walk, order.enemy_target[0]

    walk, target = decide(jax.random.split(jax.random.key(1), 7000))
    kinds = np.asarray(walk)[:, 0] * 3 + np.asarray(walk)[:, 1] + 100 * (np.asarray(target) + 1)
    _, counts = np.unique(kinds, return_counts=True)
    assert len(counts) == 7
    assert set(np.unique(target)) == {-1, 0, 1}
    assert stats.chisquare(counts).pvalue > 1e-3


def test_every_script_of_a_mixture_is_drawn_as_often():
    env = jaxrl.make("smax/3m", script="mixed")
    _, state = env.batch_reset(jax.random.split(jax.random.key(0), 5000))
    counts = np.bincount(state.memory.script, minlength=len(MIXTURES["mixed"]))
    assert stats.chisquare(counts).pvalue > 1e-3
    # It stays the same through the episode.
    keys, action = jax.random.split(jax.random.key(1), 5000), jnp.full((5000, 3), STOP)
    after = batch_first(
        env._advance(keys, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), state), action.T, env.default_params)[0]
    )
    np.testing.assert_array_equal(after.memory.script, state.memory.script)


def test_a_script_that_retreats_walks_away_from_the_nearest():
    places = [(10.0, 10.0), (14.0, 10.0)]
    coward = Script(retreat=0.5)
    env = make_battle({"dummy": DUMMY}, ["dummy"], ["dummy"], places, script=coward, mode="enemy")
    for health, moves in ((100.0, 0.0), (40.0, 1.0)):
        state = env.reset(jax.random.key(0))[1]
        state = type(state)(**{**vars(state), "health": jnp.asarray([100.0, health])})
        order = env._orders(jax.random.key(1), state, jnp.asarray([STOP]), env.default_params)[0]
        assert order.move_x[1] == moves


MIRRORED = tuple(
    Zone(kind, x, y, 2, 1.5, kind == "slow")
    for kind, y in (("wall", 14), ("slow", 18), ("cover", 16), ("burn", 10))
    for x in (12, 20)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "zones"),
    [
        ("smax/3m", ()),
        ("smax/2s3z", MIRRORED),
        ("smax?units=smac&allies=1medivac2stalker3zealot1baneling1colossus", ()),
    ],
)
def test_both_sides_win_as_often(name, zones):
    """2,000 battles of an expert against itself, from starts and between zones that mirror each other."""
    first, second = arena(name, SCRIPTS["expert"], SCRIPTS["expert"], 2000, zones=zones)
    assert first + second > 500
    assert stats.binomtest(first, first + second).pvalue > 1e-3


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exprt", "script must be one of classic, random"),
        (Script(random=2.0), "random of a script must be a number between 0 and 1"),
        (Script(focus=3), "focus of a script must be 0 or 1 or 2"),
        ([], "script must be one of"),
    ],
)
def test_wrong_scripts(script, says):
    with pytest.raises(ValueError, match=says):
        jaxrl.make("smax/3m", script=script)
