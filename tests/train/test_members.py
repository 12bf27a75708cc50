"""Which member is the best, and that looking at one harms no other."""

import jax
import jax.numpy as jnp

from jaxrl.train.members import best_member, member_of


def test_the_best_member_has_the_best_known_score() -> None:
    played = {"return_mean": [5.0, 4.0, 3.0], "win_rate": [0.1, 0.9, float("nan")]}
    assert best_member(played) == 1
    assert best_member(played, diverged=[1]) == 0
    del played["win_rate"]
    assert best_member(played) == 0


def test_looking_at_a_member_leaves_its_key_unused() -> None:
    state = {"w": jnp.arange(3.0), "key": jax.random.split(jax.random.key(0), 3)}
    member = member_of(state, 1)
    jax.random.uniform(member["key"])
    jax.vmap(jax.random.uniform)(state["key"])
    assert float(member["w"]) == 1.0
