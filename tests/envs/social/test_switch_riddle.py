"""The switch riddle: equal to jaxmarl 0.2.0, which has no bug but that it calls the last day an end."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.social.switch_riddle import NOTHING, SWITCH, TELL, State

NO_HISTORY = jnp.zeros((0, 3, 2), bool)


def in_lock_step(steps: int, agents: int) -> None:
    """Random play on our side; every state is copied into theirs, which takes the same step."""
    jaxmarl = pytest.importorskip("jaxmarl")
    ours, theirs = jaxrl.make("switch_riddle", num_agents=agents), jaxmarl.make("switch_riddle", num_agents=agents)
    blank = theirs.reset(jax.random.key(0))[1]

    def both(state, key):
        key_action, key_step, key_theirs = jax.random.split(key, 3)
        action = jax.random.choice(key_action, 3, (agents,), p=jnp.array([0.5, 0.35, 0.15]))
        copied = blank.replace(
            bulb_state=state.bulb,
            agent_in_room=state.in_room,
            has_been=state.has_been.astype(jnp.int32),
            step=state.step,
        )
        seen = theirs.get_obs(copied)
        _, after, reward, done, _ = theirs.step_env(key_theirs, copied, dict(zip(theirs.agents, action, strict=True)))
        _, next_state, our_reward, terminated, truncated, info = ours.step(key_step, state, action)
        final = info["final_state"]
        rows = {
            "seen": (ours.observation(state), jnp.stack(list(seen.values()))),
            "reward": (our_reward, jnp.stack(list(reward.values()))),
            "done": (terminated | truncated, done["__all__"]),
            "bulb": (final.bulb, after.bulb_state),
            "has_been": (final.has_been, after.has_been),
        }
        return next_state, (rows, terminated, truncated, info["won"])

    _, state = ours.reset(jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), steps)
    rows, terminated, truncated, won = jax.tree.map(
        np.asarray, jax.jit(lambda *x: jax.lax.scan(both, *x)[1])(state, keys)
    )
    for name, (mine, other) in rows.items():
        np.testing.assert_array_equal(mine, other, err_msg=name)
    earned = rows["reward"][0][:, 0]
    np.testing.assert_array_equal(terminated, earned != 0)
    np.testing.assert_array_equal(won, earned > 0)
    assert truncated.any()
    assert won.any()
    assert not (terminated & truncated).any()


def test_equals_jaxmarl():
    in_lock_step(2000, 3)


@pytest.mark.slow
@pytest.mark.parametrize("agents", [3, 4, 7])
def test_equals_jaxmarl_for_long(agents):
    in_lock_step(100_000, agents)


def test_the_last_day_truncates_or_terminates():
    for deadline, ends in (("truncates", (False, True)), ("terminates", (True, False))):
        env = jaxrl.make("switch_riddle", deadline=deadline)
        state = State(jnp.array(True), jnp.int32(1), jnp.array([True, False, False]), jnp.int32(5), NO_HISTORY)
        for action, expected in ((NOTHING, ends), (TELL, (True, False))):
            *_, reward, terminated, truncated, info = env.step_env(
                jax.random.key(0), state, jnp.full(3, action), env.default_params
            )
            assert (bool(terminated), bool(truncated)) == expected
            assert reward.tolist() == [-1.0 if action == TELL else 0.0] * 3
            assert not info["won"]


def test_only_who_is_in_the_room_acts_and_sees():
    env = jaxrl.make("switch_riddle", num_agents=4, initial_bulb=True)
    _, state = env.reset(jax.random.key(5))
    assert state.bulb
    inside = int(state.in_room)
    mask = env.action_mask(state)
    assert mask.sum(1).tolist() == [3 if i == inside else 1 for i in range(4)]
    dark = env.observation(dataclasses.replace(state, bulb=jnp.array(False)))
    changed = np.asarray(dark != env.observation(state))
    assert np.argwhere(changed).tolist() == [[inside, 1]]
    action = jnp.where(jnp.arange(4) == inside, SWITCH, TELL)
    _, after, _, terminated, *_ = env.step_env(jax.random.key(6), state, action, env.default_params)
    assert not terminated
    assert not after.bulb


def test_everybody_is_drawn_equally_often():
    env = jaxrl.make("switch_riddle", num_agents=5)
    _, states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(7), 5000))
    counts = np.bincount(np.asarray(states.in_room), minlength=5)
    assert counts.sum() == 5000
    assert (np.abs(counts - 1000) < 150).all()


def test_the_history_is_what_everybody_saw_day_by_day():
    """Beside an environment without it, for whole riddles: own sights, the newest first, then day and name."""
    plain, env = (jaxrl.make("switch_riddle", num_agents=4, observe=observe) for observe in ("today", "history"))
    days, own = 10, np.eye(4, dtype=bool)
    assert env.observation_space().shape == (3 * days + 4,)
    step, step_plain = jax.jit(env.step), jax.jit(plain.step)
    _, state = env.reset(jax.random.key(8))
    _, state_plain = plain.reset(jax.random.key(8))
    sights, ended = [], 0
    for number in range(60):
        sights.append(np.asarray(plain.observation(state_plain)))
        seen = np.zeros((4, days, 2), bool)
        seen[:, : len(sights)] = np.stack(sights[::-1], 1)
        today = np.tile(np.arange(days) == len(sights) - 1, (4, 1))
        expected = np.concatenate([seen.reshape(4, -1), today, own], 1)
        np.testing.assert_array_equal(env.observation(state), expected)
        key_action, key = jax.random.split(jax.random.fold_in(jax.random.key(9), number))
        action = jax.random.choice(key_action, 3, (4,), p=jnp.array([0.4, 0.55, 0.05]))
        *_, terminated, truncated, _ = after = step(key, state, action)
        state, state_plain = after[1], step_plain(jax.random.clone(key), state_plain, action)[1]
        if terminated | truncated:
            sights, ended = [], ended + 1
    assert ended > 5


@pytest.mark.parametrize(
    "options",
    [
        *("num_agents=1", "deadline=never", "observe=all", "initial_bulb=off", "max_steps=0"),
        *("reward_all_die=bad", "reward_all_die=nan", "reward_all_live=-inf", "reward_all_live=1e39"),
    ],
)
def test_an_option_out_of_range_is_refused(options):
    with pytest.raises(ValueError, match=options.partition("=")[0]):
        jaxrl.make(f"switch_riddle?{options}")


def test_no_day_is_counted_after_the_last_one():
    env = jaxrl.make("switch_riddle", max_steps=6)
    step = jnp.array([0, 5, 6])
    states = State(jnp.zeros(3, bool), jnp.zeros(3, int), jnp.zeros((3, 3), bool), step, jnp.zeros((3, 0, 3, 2), bool))
    assert np.asarray(env.draw(states).captions[2].text).tolist() == ["day 1", "day 6", "day 6"]
    last = jax.tree.map(lambda leaf: leaf[-1], states)
    assert env.text(last, viewer=1) == "day 6: you wait"
    longer = dataclasses.replace(env.default_params, max_steps=7)
    assert env.text(last, 1, longer) == "day 7: you wait"
