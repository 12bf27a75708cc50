"""The scripted enemy decides as jaxmarl 0.2.0's does, and fights itself to a draw."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.batching import batch_first, batch_last
from jaxrl.envs.smax import SMAX, orders
from jaxrl.envs.smax.state import bodies_of

jaxmarl_script = pytest.importorskip("jaxmarl.environments.smax.heuristic_enemy_smax_env")

NAME, B = "5m_vs_6m", 64


def make(name, **options) -> SMAX:
    env = jaxrl.make(name, **options)
    assert isinstance(env, SMAX)
    return env


@pytest.fixture(scope="module")
def both(pair, heuristic):
    """`decide(state, goal, target, seed) -> (ours, theirs)`, each (action [B, E], goal [B, E, 2], target [B, E])."""
    pair, theirs = pair(NAME), heuristic(NAME)
    env, split = make(f"smax/{NAME}", compat="jaxmarl-0.2"), pair.num_allies

    @jax.jit
    def ours(key, state, goal, target):
        state, goal, target = batch_last((state, goal, target))
        bodies, stats = bodies_of(state), env.battle.stats(state.unit_type, env.default_params)
        enemies, allies = (jax.tree.map(lambda v, s=s: v[s], bodies) for s in (slice(split, None), slice(None, split)))
        memory = orders.Memory(goal, target)
        draws = jax.random.uniform(key, (2, pair.num_units - split, B))
        move, shot, memory = orders.decide(
            memory, orders.TeamView(enemies, allies, stats.range[split:], stats.sight[split:]), draws
        )
        action = jnp.where(shot >= 0, 5 + split - 1 - shot, move)
        return action.T, jnp.moveaxis(memory.goal, -1, 0), memory.target.T

    @jax.jit
    @jax.vmap
    def their(key, state, goal, target):
        obs = pair.theirs.get_obs_unit_list(state)
        seen = jnp.stack([obs[a] for a in theirs.enemy_agents])
        initial = theirs.get_enemy_policy_initial_state(key)
        memory = initial.replace(default_target=goal, last_attacked_enemy=jnp.where(target < 0, -1, split - 1 - target))
        action, memory = theirs.get_enemy_actions(key, memory, seen)
        target = memory.last_attacked_enemy
        action = jnp.stack([action[a] for a in theirs.enemy_agents])
        return action, memory.default_target, jnp.where(target < 0, -1, split - 1 - target)

    def decide(state, goal, target, seed):
        keys = jax.random.split(jax.random.PRNGKey(seed), B)
        mine = ours(jax.random.key(seed), state, goal, target)
        return mine, their(keys, pair.as_theirs(state), goal, target)

    return pair, decide


def test_same_shots_and_memory(both):
    """Whom it shoots is certain; where it walks is, too, while it sees one opponent at most."""
    pair, decide = both
    compared = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        state, shape = pair.states(seed), (B, pair.num_units - pair.num_allies)
        goal = jnp.asarray(rng.uniform(1, 31, (*shape, 2)), jnp.float32)
        target = jnp.asarray(rng.integers(-1, pair.num_allies, shape))
        ours, theirs = decide(state, goal, target, seed)
        position, alive = np.asarray(state.position), np.asarray(state.alive)
        gap = np.linalg.norm(position[:, pair.num_allies :, None] - position[:, None, : pair.num_allies], axis=-1)
        visible = (gap < 9) & alive[:, None, : pair.num_allies] & alive[:, pair.num_allies :, None]
        lives = alive[:, pair.num_allies :]
        sure = lives & ((visible.sum(-1) <= 1) | (np.asarray(theirs[0]) >= 5))
        np.testing.assert_array_equal(np.asarray(ours[0])[sure], np.asarray(theirs[0])[sure])
        np.testing.assert_array_equal(np.asarray(ours[2])[lives], np.asarray(theirs[2])[lives])
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-5)
        compared += (sure & (np.asarray(theirs[0]) >= 5)).sum()
    assert compared > 100


def test_whole_steps_against_the_script(pair, heuristic, assert_same):
    """One ally lives, so the script has nobody to choose: its orders, what it remembers and what follows agree."""
    pair, theirs, split = pair(NAME), heuristic(NAME), 5
    ours = make(f"smax/{NAME}", compat="jaxmarl-0.2")
    params = ours.default_params

    @jax.jit
    def step_ours(key, state, action, deviation):
        state, action = batch_last((state, action))
        out = ours._advance(key, state, action, params, deviation)
        return batch_first((ours._observe(out[0], params), *out))

    @jax.jit
    @jax.vmap
    def step_theirs(key, state, goal, target, action):
        memory = theirs.get_enemy_policy_initial_state(key)
        target = jnp.where(target < 0, -1, split - 1 - target)
        memory = memory.replace(default_target=goal, last_attacked_enemy=target)
        both = jaxmarl_script.State(state=state, enemy_policy_state=memory)
        actions = {agent: action[i] for i, agent in enumerate(theirs.agents)}
        obs, new, reward, done, _ = theirs.step_env(key, both, actions)
        target = new.enemy_policy_state.last_attacked_enemy
        seen = jnp.stack([obs[a] for a in theirs.agents]), reward["ally_0"], done["__all__"]
        return *seen, new.state, jnp.where(target < 0, -1, split - 1 - target)

    fights = 0
    for seed in range(4):
        rng, state = np.random.default_rng(seed), pair.states(seed)
        alone = jnp.asarray(np.arange(11) >= split) | (np.arange(11) == rng.integers(0, split, (B, 1)))
        goal = jnp.asarray(rng.uniform(1, 31, (B, 6, 2)), jnp.float32)
        target = jnp.asarray(rng.integers(-1, split, (B, 6)), jnp.int32)
        memory = orders.Memory(goal, target)
        state = dataclasses.replace(state, health=jnp.where(alone, state.health, 0.0), memory=memory)
        action, keys = pair.actions(seed)[:, :split], jax.random.split(jax.random.PRNGKey(seed), B)
        typed = jax.random.split(jax.random.key(seed), B)
        obs, after, reward, done, *_ = step_ours(typed, state, action, pair.deviations(keys))
        expected = step_theirs(keys, pair.as_theirs(state), goal, target, action)
        new, lives = expected[3], np.asarray(state.alive)[:, split:]
        assert_same(obs, expected[0], "obs")
        assert_same(reward[:, 0], expected[1], "reward")
        assert_same(done, expected[2], "done")
        assert_same(after.position, new.unit_positions, "positions")
        assert_same(after.health, new.unit_health, "health")
        assert_same(after.cooldown, new.unit_weapon_cooldowns, "cooldowns")
        assert_same(np.asarray(after.memory.target)[lives], np.asarray(expected[4])[lives], "memory")
        fights += int((after.health < state.health).sum())
    assert fights > 30


def test_chases_everybody_alike(both):
    """Three opponents in sight, out of range, in three directions: each is chased a third of the time, in both."""
    pair, decide = both
    state = pair.states(0)
    position = jnp.zeros_like(state.position).at[:].set(jnp.array([2.0, 2.0]))
    position = position.at[:, :3].set(jnp.array([[16.0, 23.0], [23.0, 16.0], [9.0, 16.0]]))
    position = position.at[:, pair.num_allies :].set(16.0)
    health = jnp.full_like(state.health, 45.0)
    state = type(state)(**{**{f: getattr(state, f) for f in state.__dataclass_fields__},
                           "position": position, "health": health})  # fmt: skip
    nobody = jnp.full((B, 6), -1)
    counts = np.zeros((2, 4))
    for seed in range(10):
        for i, (action, *_) in enumerate(decide(state, jnp.ones((B, 6, 2)), nobody, seed)):
            counts[i] += np.bincount(np.asarray(action).ravel(), minlength=4)
    assert not counts[:, 2].any()
    shares = counts[:, [0, 1, 3]] / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.04)  # 3,840 draws: four standard errors are 0.03


def test_first_goal_is_the_mirrored_spawn():
    env = make("smax/3m")
    _, state = jax.jit(env.reset)(jax.random.key(0))
    np.testing.assert_allclose(state.memory.goal, 32 - state.position[3:], atol=1e-5)


def scripted_battles(name, number, steps=160):
    """Won by allies, won by enemies, of so many battles between two scripted teams from mirrored starts."""
    env = make(f"smax/{name}", mode="selfplay", max_steps=steps)
    split, params = env.num_allies, env.default_params

    def order(key, bodies, stats, memory, own, other):
        team, foes = (jax.tree.map(lambda v, s=s: v[s], bodies) for s in (own, other))
        draws = jax.random.uniform(key, (2, *team.x.shape))
        move, target, memory = orders.decide(
            memory, orders.TeamView(team, foes, stats.range[own], stats.sight[own]), draws
        )
        return move, target, memory

    @jax.jit
    def run(key):
        key, key_spawn = jax.random.split(key)
        state = env._spawn(jax.random.split(key_spawn, number), params)
        left = state.position[:split]
        mirrored = jnp.concatenate([left, left.at[:, 0].set(32 - left[:, 0])])
        state = type(state)(**{**{f: getattr(state, f) for f in state.__dataclass_fields__}, "position": mirrored})
        field = orders.Field(jnp.float32(32), jnp.float32(32), jnp.float32(1 / 16), jnp.bool_(True))
        teams = (slice(None, split), slice(split, None))
        memories = [orders.new_memory(jax.tree.map(lambda v, s=s: v[s], bodies_of(state)), field) for s in teams]

        def body(carry, key):
            state, memories, over, wins = carry
            keys = jax.random.split(key, 3)
            bodies, stats = bodies_of(state), env.battle.stats(state.unit_type, params)
            actions, remembered = [], []
            for side, (own, other) in enumerate((teams, teams[::-1])):
                move, target, memory = order(keys[side], bodies, stats, memories[side], own, other)
                if side == 1:  # self-play's enemies act mirrored
                    move = jnp.array([0, 3, 2, 1])[move]
                actions.append(jnp.where(target >= 0, 5 + target, move))
                remembered.append(memory)
            step_keys = jax.random.split(keys[2], number)
            state, _, terminated, truncated, info = env._advance(step_keys, state, jnp.concatenate(actions), params)
            lost = terminated & ~info["won"] & (state.health[split:] > 0).any(0)
            wins = wins + jnp.stack([(info["won"] & ~over).sum(), (lost & ~over).sum()])
            return (state, remembered, over | terminated | truncated, wins), None

        start = (state, memories, jnp.zeros(number, bool), jnp.zeros(2, jnp.int32))
        return jax.lax.scan(body, start, jax.random.split(key, steps))[0][3]

    return np.asarray(run(jax.random.key(0)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3m", "2s3z"])
def test_even_battles_are_even(name):
    """2,000 mirrored battles, scripted against scripted: 95 % of the time within two standard errors of one half."""
    wins = scripted_battles(name, 2000)
    decided = wins.sum()
    assert decided > 1500
    assert abs(wins[0] / decided - 0.5) < 1.96 * 0.5 / np.sqrt(decided)
