"""Small battles with units of their own, whose actions a test gives, and whose weapons need exactly their cooldown."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.envs.smax import SMAX, Scenario, State, UnitType
from jaxrl.envs.smax.terrain import Zone

STOP = 4
UP, RIGHT, DOWN, LEFT = range(4)
# A target that does nothing, and a rifle that shoots once a step.
DUMMY = UnitType(health=100, damage=0, range=5, cooldown=0.4, speed=2, radius=0.1, sight=12)
RIFLE = DUMMY._replace(damage=10)


def attack(k: int) -> int:
    """The action that attacks opponent k."""
    return 5 + k


def battle(
    types: dict[str, UnitType],
    allies: Sequence[str],
    enemies: Sequence[str],
    places: Sequence[tuple[float, float]],
    zones: Sequence[Zone] = (),
    **options: Any,
) -> SMAX:
    """A battle in which the test commands both teams, and nobody dies at the border."""
    names = ("marine", "marauder", "stalker", "zealot", "zergling", "hydralisk", *types)
    ours, theirs = (tuple(names.index(name) for name in team) for team in (allies, enemies))
    scenario = Scenario(ours, theirs, own_types=tuple(types.items()), places=tuple(places), zones=tuple(zones))
    options = {"mode": "selfplay", "walls_cause_death": False, **options}
    return SMAX(scenario, **options)


def start(env: SMAX, **changed: Any) -> State:
    """The start of a battle, with some of its arrays changed."""
    state = env.reset(jax.random.key(0))[1]
    return type(state)(**{**vars(state), **{name: jnp.asarray(value, jnp.float32) for name, value in changed.items()}})


def play(env: SMAX, state: State, actions: Sequence[int], steps: int = 1) -> tuple[State, Any]:
    """The states after each of some steps with the same actions, leaves `[steps, …]`, and the rewards `[steps, N]`."""

    def body(state: State, key: jax.Array) -> tuple[State, Any]:
        exact = jnp.zeros((8, env.num_units))
        state, reward, *_ = env._advance(key, state, jnp.asarray(actions), env.default_params, exact)
        return state, (state, reward)

    keys = jax.random.split(jax.random.key(1), steps)
    return jax.jit(lambda state: jax.lax.scan(body, state, keys)[1])(state)
