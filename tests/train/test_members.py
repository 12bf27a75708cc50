"""Which member is the best, and that looking at one harms no other."""

import jax
import jax.numpy as jnp

from jaxrl.train.members import best_member, member_of, seed_keys


def test_the_best_member_has_the_best_known_score() -> None:
    played = {"return_mean": [5.0, 4.0, 3.0], "win_rate": [0.1, 0.9, float("nan")]}
    assert best_member(played) == 1
    assert best_member(played, diverged=[1]) == 0
    del played["win_rate"]
    assert best_member(played) == 0


def test_among_equal_win_rates_the_best_member_has_the_largest_return() -> None:
    played = {"win_rate": [0.0, 0.0, 0.0], "return_mean": [0.2, 0.5, 0.9]}
    assert best_member(played) == 2
    assert best_member(played, diverged=[2]) == 1
    assert best_member({**played, "win_rate": [0.1, 0.0, 0.0]}) == 0


def test_only_main_members_of_a_league_can_be_the_best() -> None:
    """An exploiter has another task, and its score is of that."""
    played = {"win_rate": [0.2, 0.3, 0.9], "return_mean": [0.0, 0.0, 0.0]}
    assert best_member(played, league=["main", "main", "exploiter"]) == 1
    assert best_member(played, diverged=[1], league=["main", "main", "exploiter"]) == 0
    for none in ((), ["exploiter"] * 3, ["main"]):
        assert best_member(played, league=none) == 2


def test_looking_at_a_member_leaves_its_key_unused() -> None:
    state = {"w": jnp.arange(3.0), "key": jax.random.split(jax.random.key(0), 3)}
    member = member_of(state, 1)
    jax.random.uniform(member["key"])
    jax.vmap(jax.random.uniform)(state["key"])
    assert float(member["w"]) == 1.0


def test_no_stream_has_a_key_that_training_splits_off() -> None:
    """`fold_in(key, i)` alone would be one of them."""
    training = seed_keys([7])
    split = jax.random.key_data(jax.random.split(jax.random.clone(training), 16))
    for stream in (1, 2, 3):
        own = jax.random.key_data(seed_keys([7], stream))
        assert not (own == split).all(-1).any()
        assert (own != jax.random.key_data(training)).any()
