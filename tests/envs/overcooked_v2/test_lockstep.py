"""Step for step the same as JaxMARL 0.2.0, its states copied in, except for the mistakes that are named."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.envs.overcooked_v2 import KITCHENS, State
from jaxrl.envs.overcooked_v2.rules import INTERACT

pytest.importorskip("jaxmarl")
from jaxmarl.environments.overcooked_v2.layouts import overcooked_v2_layouts
from jaxmarl.environments.overcooked_v2.overcooked import OvercookedV2 as Theirs

OURS = {"agent_view_size": "view", "indicate_successful_delivery": "shows_delivery"}


def pair(name: str, **options: Any) -> tuple[Any, Theirs]:
    """Ours and theirs, given their options; theirs begins anywhere."""
    own = {OURS.get(option, option): value for option, value in options.items()}
    if own.pop("start_cooking_interaction", False):
        own["cooking"] = "by_hand"
    if permuted := own.pop("op_ingredient_permutations", None):
        own["mixed"] = ",".join(map(str, permuted))
    return jaxrl.make(f"overcooked_v2/{name}", **own), Theirs(layout=name, random_reset=True, **options)


def copied(env: Any, theirs: Any) -> State:
    """Their state as ours."""
    n, ingredients = env.num_agents, env.kitchen.num_ingredients
    pos = theirs.agents.pos
    plain = jnp.broadcast_to(jnp.arange(ingredients, dtype=jnp.int32), (n, ingredients))
    order = plain if theirs.ingredient_permutations is None else theirs.ingredient_permutations
    return State(
        position=(pos.x + pos.y * env.kitchen.width).astype(jnp.int32),
        direction=theirs.agents.dir.astype(jnp.int32),
        held=theirs.agents.inventory.astype(jnp.int32),
        items=theirs.grid[..., 1].reshape(-1),
        timer=theirs.grid[..., 2].reshape(-1),
        recipe=theirs.recipe.astype(jnp.int32),
        order=order.astype(jnp.int32),
        correct=theirs.new_correct_delivery,
        delivered=jnp.int32(0),
        step=theirs.step.astype(jnp.int32),
    )


def both(name: str, episodes: int, steps: int, **options: Any) -> Any:
    """Both from the same random starts, with the same random actions: `(ours, theirs)`, leaves `[T, B, …]`."""
    env, other = pair(name, **options)

    def compared(state: State, obs: Any, reward: Any, shaped: Any) -> Any:
        fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        del fields["delivered"]
        return {**fields, "obs": obs, "reward": reward, "shaped": shaped}

    def step(carry: Any, action: jax.Array) -> Any:
        ours, theirs = carry
        key = jax.random.key(0)
        acts = dict(zip(other.agents, action, strict=True))
        seen, theirs, rewards, _, infos = other.step_env(key, theirs, acts)
        obs, ours, reward, _, _, info = env.step_env(jax.random.clone(key), ours, action, env.default_params)
        each = [jnp.stack([x[agent] for agent in other.agents]) for x in (seen, rewards, infos["shaped_reward"])]
        one, two = compared(ours, obs, reward, info["shaped_reward"]), compared(copied(env, theirs), *each)
        return (ours, theirs), (one, two)

    def whole(key: jax.Array, actions: jax.Array) -> Any:
        seen, theirs = other.reset(key)
        ours = copied(env, theirs)
        first = (env.observation(ours), jnp.stack([seen[agent] for agent in other.agents]))
        return first, jax.lax.scan(step, (ours, theirs), actions)[1]

    drawn = np.random.default_rng(1).integers(0, 10, (episodes, steps, env.num_agents))  # half of them are to interact
    actions = jnp.asarray(np.minimum(drawn, INTERACT), jnp.int32)
    keys = jax.random.split(jax.random.key(2), episodes)
    with jax.debug_key_reuse(False):  # theirs uses some keys twice
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(whole))(keys, actions))


def assert_equal(name: str, episodes: int, steps: int, **options: Any) -> dict[str, np.ndarray]:
    (first, their_first), (ours, theirs) = both(name, episodes, steps, **options)
    np.testing.assert_array_equal(first, their_first)
    for field, wanted in theirs.items():
        np.testing.assert_array_equal(ours[field], wanted, err_msg=field)
    return ours


def marked(name: str) -> Any:
    return pytest.param(name, marks=() if name == "grounded_coord_simple" else pytest.mark.slow)


@pytest.mark.parametrize("name", [marked(name) for name in KITCHENS])
def test_random_episodes(name):
    """Cooks who see two cells around them, each with another order of the ingredients."""
    some = list(range(jaxrl.make(f"overcooked_v2/{name}").kitchen.num_ingredients))
    options = {"agent_view_size": 2, "indicate_successful_delivery": True, "op_ingredient_permutations": some}
    ours = assert_equal(name, 100, 40, **options)
    assert (ours["reward"] > 0).any()
    assert {0.0, 3.0} <= set(np.unique(ours["shaped"]).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cramped_room", "demo_cook_simple", "grounded_coord_simple"])
def test_the_whole_kitchen_by_hand(name):
    ours = assert_equal(name, 500, 40, start_cooking_interaction=True)
    assert (ours["reward"] > 0).any()
    assert (ours["reward"] < 0).any() == ("L" in jaxrl.make(f"overcooked_v2/{name}").kitchen.tiles)
    assert (ours["shaped"] == 5).any() or name != "cramped_room"


@pytest.mark.quick
@pytest.mark.parametrize("name", KITCHENS)
def test_kitchens_are_theirs(name):
    env, theirs = jaxrl.make(f"overcooked_v2/{name}"), overcooked_v2_layouts[name]
    kitchen = env.kitchen
    codes = {" ": 0, "W": 1, "X": 4, "P": 5, "R": 6, "L": 7, "B": 9, **{str(i): 10 + i for i in range(10)}}
    ours = np.array([codes[tile] for tile in kitchen.tiles.tolist()]).reshape(kitchen.height, kitchen.width)
    np.testing.assert_array_equal(ours, theirs.static_objects)
    places = [(int(cell) % kitchen.width, int(cell) // kitchen.width) for cell in kitchen.starts]
    assert places == theirs.agent_positions
    assert theirs.possible_recipes is not None
    wanted = {sum(4 << 2 * number for number in recipe) for recipe in theirs.possible_recipes}
    assert set(kitchen.recipes.tolist()) == wanted
