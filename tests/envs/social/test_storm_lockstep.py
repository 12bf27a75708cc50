"""STORM beside jaxmarl 0.2.0: random states are copied into theirs, and both take the same step.

Where theirs is wrong, the test says so, and ours is compared with what their own functions say is right.
"""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from storm_states import grid_of, random_state, to_theirs, to_two_players

import jaxrl
from jaxrl.envs.social import storm_rules as rules

jaxmarl = pytest.importorskip("jaxmarl")
pytestmark = pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")  # theirs


@pytest.fixture(autouse=True)
def _their_keys_are_reused():
    with jax.debug_key_reuse(False):
        yield


def their_storm(monkeypatch, n: int):
    """Their environment, with a few of the 43,758 rows that it draws from: what is drawn is not compared."""
    module = importlib.import_module("jaxmarl.environments.storm.storm_env")
    monkeypatch.setattr(module, "AGENT_SPAWNS", module.AGENT_SPAWNS[:4])
    return jaxmarl.make("storm", num_agents=n)


def compare(monkeypatch, n: int, count: int) -> None:
    ours, theirs = jaxrl.make("storm", num_agents=n), their_storm(monkeypatch, n)
    blank = theirs.reset(jax.random.key(0))[1]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]

    def both(key):
        key_state, key_action, key_step, key_theirs = jax.random.split(key, 4)
        state = random_state(key_state, n)
        action = jax.random.choice(key_action, 5, (n,), p=jnp.array([0.05, 0.05, 0.2, 0.65, 0.05]))
        _, after, reward, *_ = ours.step_env(key_step, state, action, ours.default_params)
        copied = to_theirs(state, blank)
        _, their_after, their_reward, done, _ = theirs.step_env(key_theirs, copied, dict(enumerate(action)))
        fair = jnp.stack([theirs.get_reward(their_after, pair) for pair in pairs])
        seen = ours.observation(state), theirs.get_obs(copied)["observations"]
        return state, action, after, reward, their_after, their_reward, fair, done["__all__"], seen

    keys = jax.random.split(jax.random.key(n), count)
    batch = min(count, 1000)
    run = jax.jit(lambda keys: jax.lax.map(both, keys, batch_size=batch))
    found = jax.tree.map(np.asarray, run(keys))
    same_dynamics(n, *found[:6], fair=found[6], pairs=pairs)
    assert not found[7].any()
    same_view(n, *found[8])


def same_dynamics(n, state, action, after, reward, theirs, their_reward, *, fair, pairs):
    """Everything that is not drawn, in the steps in which theirs keeps its rules."""
    action = np.where(state.frozen > 0, rules.STAY, action)
    ahead = rules.STEPS[state.direction] * (action == rules.FORWARD)[..., None]
    wanted = rules.place(np.clip(state.position + ahead, 0, 7))
    # Theirs ignores collisions of two players, and lets players overlap in longer chains.
    clear = np.array([len(set(row)) == n for row in wanted.tolist()])
    back = state.frozen == 1
    free = clear[:, None] & ~back
    np.testing.assert_array_equal(after.position[free], theirs.agent_positions[..., :2][free])
    np.testing.assert_array_equal(after.direction[free], theirs.agent_positions[..., 2][free])
    assert clear.mean() > 0.2

    wants = possible_pairs(n, state, action, after)
    single = clear & (wants.sum((1, 2)) <= 2)  # at most one pair: theirs may forget or freeze others
    kept = single if n <= 3 else clear & ~wants.any((1, 2))
    np.testing.assert_array_equal(
        np.where(after.frozen > 0, after.frozen, -1)[kept], theirs.agent_freezes[kept].clip(-1)
    )
    np.testing.assert_array_equal(after.inventory[clear & ~back.any(1)], theirs.agent_inventories[clear & ~back.any(1)])
    lasting = kept & ~back.any(1)
    mine = jax.vmap(lambda state: grid_of(state, 9, 12))(after)
    np.testing.assert_array_equal(mine[lasting], theirs.grid[lasting])
    assert lasting.sum() > 20

    met = np.flatnonzero(clear & (wants.sum((1, 2)) == 2))
    assert len(met) > 5
    for row in met:
        i, j = np.argwhere(wants[row])[0]
        np.testing.assert_allclose(reward[row, [i, j]], fair[row, pairs.index((i, j))], atol=1e-5)
        others = [k for k in range(n) if k not in (i, j)]
        assert not reward[row, others].any()
    if n == 2:  # theirs forgets the reward of the only pair
        assert not their_reward.any()
        assert reward.any()
    nobody = clear & ~wants.any((1, 2))
    assert not reward[nobody].any()
    assert not their_reward[nobody].any()


def possible_pairs(n, state, action, after) -> np.ndarray:
    """Bool `[S, N, N]`, slowly: who could meet whom. Both zap, hold a coin and are in the other's reach."""
    zaps = (action == rules.INTERACT) & (state.inventory.sum(-1) > 0)
    result = np.zeros((len(action), n, n), bool)
    for row in np.flatnonzero(zaps.sum(1) >= 2):
        for i in range(n):
            x, y = state.position[row, i]
            (dx, dy), (sx, sy) = rules.STEPS[state.direction[row, i]], rules.STEPS[(state.direction[row, i] + 1) % 4]
            reach = {(x + dx, y + dy), (x + 2 * dx, y + 2 * dy), (x + dx + sx, y + dy + sy), (x + dx - sx, y + dy - sy)}
            result[row, i] = [j != i and tuple(state.position[row, j]) in reach for j in range(n)]
        result[row] &= result[row].T & zaps[row] & zaps[row][:, None]
    return result


def same_view(n, mine, theirs):
    """Their planes are those of eight players, with oneself and player 0 swapped; the turns are wrong (see below)."""
    planes = mine[..., : 25 * (n + 8)].reshape(-1, n, 5, 5, n + 8)
    for i in range(n):
        channels = [0, *(i if j == 0 else j for j in range(n) if j != i), 8, 9, 10, 11]
        np.testing.assert_array_equal(planes[:, i, ..., : n + 4], theirs[:, i][..., channels])


def test_equals_jaxmarl(monkeypatch):
    compare(monkeypatch, 3, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_equals_jaxmarl_in_many_states(monkeypatch, n):
    compare(monkeypatch, n, 20_000)


def test_two_players_see_what_they_see_in_the_game_for_two():
    """`storm_2p` has the right turns, and inventories only for who may see them."""
    ours, theirs = jaxrl.make("storm"), jaxmarl.make("storm_2p")
    blank = theirs.reset(jax.random.key(0))[1]

    def both(key):
        state = random_state(key, 2, together=True)
        seen = theirs.get_obs(to_two_players(state, blank))
        flat = [jnp.concatenate([own["observation"].reshape(-1), own["inventory"]]) for own in seen]
        return ours.observation(state), jnp.stack(flat)

    mine, other = jax.jit(jax.vmap(both))(jax.random.split(jax.random.key(1), 2000))
    np.testing.assert_array_equal(mine, other)
