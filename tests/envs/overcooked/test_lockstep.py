"""Step for step the same as overcooked-ai 1.1.0, and as JaxMARL 0.2.0 where that one is right."""

import contextlib
import functools
import io
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cooks import Cooks

import jaxrl
from jaxrl.envs.overcooked import LAYOUTS, State
from jaxrl.envs.overcooked.layout import DISH, NOTHING, ONION, SOUP, TOMATO
from jaxrl.envs.overcooked.rules import INTERACT

with contextlib.redirect_stderr(io.StringIO()):  # gym says that it is unmaintained
    mdp = pytest.importorskip("overcooked_ai_py.mdp.overcooked_mdp")
from overcooked_ai_py.mdp.actions import Action, Direction

THREE = "XXPPXX|T 1  O|X2  3X|XDXSXX"
ITEMS = {"dish": DISH, "onion": ONION, "tomato": TOMATO}
FILES = {
    "asymm_advantages": "asymmetric_advantages",
    "coord_ring": "coordination_ring",
    "forced_coord": "forced_coordination",
    "counter_circuit": "counter_circuit_o_1order",
}


class Kitchen(mdp.OvercookedGridworld):
    """The reference, with two changes that it documents itself or has had in other versions."""

    def __init__(self, env: Any, orders: tuple[str, ...] = ("ooo",)) -> None:
        self.ours, self.auto = env, not env.by_hand
        layout, names = env.layout, {"o": "onion", "t": "tomato"}
        terrain = layout.tiles.reshape(layout.height, layout.width).tolist()
        starts = [(int(cell) % layout.width, int(cell) // layout.width) for cell in layout.starts]
        recipes = [{"ingredients": [names[letter] for letter in soup]} for soup in orders]
        super().__init__(terrain, starts, start_all_orders=recipes)

    def step_environment_effects(self, state: Any) -> None:
        """A full pot starts by itself, as in the version of the paper."""
        for soup in state.objects.values():
            if self.auto and soup.name == "soup" and soup.is_idle and len(soup.ingredients) == 3:
                soup.begin_cooking()
        super().step_environment_effects(state)

    def soup_to_be_cooked_at_location(self, state: Any, pos: Any) -> bool:
        return not self.auto and super().soup_to_be_cooked_at_location(state, pos)

    def is_dish_pickup_useful(self, *args: Any) -> bool:
        """Its rule "only works if self.num_players == 2", and is False otherwise; ours is the same for any number."""
        number, self.num_players = self.num_players, 2
        try:
            return super().is_dish_pickup_useful(*args)
        finally:
            self.num_players = number

    def copied(self, state: State) -> Any:
        """Our state as theirs."""
        layout = self.ours.layout

        def place(cell: Any) -> tuple[int, int]:
            return int(cell) % layout.width, int(cell) // layout.width

        def thing(item: int, where: Any) -> Any:
            if item >= SOUP:
                return mdp.SoupState.get_soup(where, item & 3, (item & 15) >> 2, finished=True)
            names = {number: name for name, number in ITEMS.items()}
            return None if item == NOTHING else mdp.ObjectState(names[item], where)

        players = [
            mdp.PlayerState(place(p), Direction.ALL_DIRECTIONS[int(d)], thing(int(h), place(p)))
            for p, d, h in zip(state.position, state.direction, state.held, strict=True)
        ]
        objects = {place(c): thing(int(state.counters[c]), place(c)) for c in np.flatnonzero(state.counters)}
        for cell, contents, timer in zip(layout.cells("P"), state.contents, state.timer, strict=True):
            if contents:
                tick = -1 if timer < 0 else 20 - int(timer)
                objects[place(cell)] = mdp.SoupState.get_soup(place(cell), contents & 3, contents >> 2, tick)
        orders = {"all_orders": self.start_all_orders}
        return mdp.OvercookedState(players, objects, timestep=int(state.step), **orders)

    def encoded(self, theirs: Any) -> dict[str, np.ndarray]:
        """Their state as the fields of ours."""
        layout = self.ours.layout
        number = {tuple(place): place[0] + place[1] * layout.width for place in np.ndindex(layout.width, layout.height)}

        def item(thing: Any) -> int:
            if thing is None:
                return NOTHING
            return SOUP + inside(thing) if thing.name == "soup" else ITEMS[thing.name]

        def inside(soup: Any) -> int:
            return soup.ingredients.count("onion") + 4 * soup.ingredients.count("tomato")

        pots = [theirs.objects.get((int(c) % layout.width, int(c) // layout.width)) for c in layout.cells("P")]
        counters = np.zeros(len(layout.tiles), int)
        for place, thing in theirs.objects.items():
            if number[place] not in layout.cells("P"):
                counters[number[place]] = item(thing)
        return {
            "position": np.array([number[p.position] for p in theirs.players]),
            "direction": np.array([Direction.DIRECTION_TO_INDEX[p.orientation] for p in theirs.players]),
            "held": np.array([item(p.held_object) for p in theirs.players]),
            "counters": counters,
            "contents": np.array([0 if soup is None else inside(soup) for soup in pots]),
            "timer": np.array([-1 if s is None or s.is_idle else s.cook_time_remaining for s in pots]),
            "step": np.array(theirs.timestep),
        }

    def check(self, before: Any, action: np.ndarray, stepped: Any) -> Any:
        """Their state after the step, if it and all else are the same as ours, NumPy leaves."""
        obs, state, reward, shaped = stepped
        after, infos = self.get_state_transition(before, [Action.INDEX_TO_ACTION[a] for a in action])
        for name, wanted in self.encoded(after).items():
            np.testing.assert_array_equal(getattr(state, name), wanted, err_msg=name)
        np.testing.assert_array_equal(reward, np.full(len(action), sum(infos["sparse_reward_by_agent"])))
        np.testing.assert_array_equal(shaped, infos["shaped_reward_by_agent"])
        if len(action) == 2:
            np.testing.assert_array_equal(obs, np.swapaxes(self.lossless_state_encoding(after), 1, 2))
        return after


@functools.cache
def stepper(env: Any) -> Any:
    """Compiled: `(state, action) -> (obs, state, reward, shaped_reward)`, without resets."""

    @jax.jit
    def step(state: State, action: jax.Array) -> Any:
        obs, state, reward, _, _, info = env.step_env(jax.random.key(0), state, action, env.default_params)
        return obs, state, reward, info["shaped_reward"]

    return lambda state, action: jax.tree.map(np.asarray, step(state, jnp.asarray(action)))


def long_game(env: Any, kitchen: Kitchen, seed: int, steps: int, noise: float) -> tuple[int, float]:
    """Both play on from their own states; the number of soups served, and the shaped rewards."""
    cooks, step = Cooks(env.layout, seed, noise, env.by_hand), stepper(env)
    obs, state = jax.tree.map(np.asarray, env.reset(jax.random.key(seed)))
    theirs, shaped = kitchen.get_standard_start_state(), 0.0
    if env.num_agents == 2:
        np.testing.assert_array_equal(obs, np.swapaxes(kitchen.lossless_state_encoding(theirs), 1, 2))
    for _ in range(steps):
        action = cooks(state)
        stepped = step(state, action)
        theirs = kitchen.check(theirs, action, stepped)
        state, shaped = stepped[1], shaped + stepped[3].sum()
    return int(state.delivered), shaped


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_are_the_originals(name):
    theirs = mdp.OvercookedGridworld.from_layout_name(FILES.get(name, name))
    ours = Kitchen(jaxrl.make(f"overcooked/{name}"))
    assert ours.terrain_mtx == theirs.terrain_mtx
    assert ours.start_player_positions == theirs.start_player_positions


@pytest.mark.parametrize(
    "name",
    # The largest, and the one where no cook reaches everything.
    [
        name if name in ("asymm_advantages", "forced_coord") else pytest.param(name, marks=pytest.mark.slow)
        for name in LAYOUTS
    ],
)
def test_cooks_who_deliver(name):
    env = jaxrl.make(f"overcooked/{name}")
    served, shaped = long_game(env, Kitchen(env), seed=0, steps=400, noise=0.25)
    assert served >= 2
    assert shaped >= served * (3 * 3 + 5)


def test_cooking_by_hand():
    env = jaxrl.make("overcooked/cramped_room", cooking="by_hand")
    served, _ = long_game(env, Kitchen(env), seed=1, steps=400, noise=0.3)
    assert served >= 2


@pytest.mark.parametrize("cooking", [pytest.param("auto", marks=pytest.mark.slow), "by_hand"])
def test_three_cooks_with_tomatoes(cooking):
    orders = ("oot", "tt")
    env = jaxrl.make("overcooked", layout=THREE, cooking=cooking, orders=",".join(orders))
    served, _ = long_game(env, Kitchen(env, orders), seed=2, steps=400, noise=0.5)
    assert served >= 1


def from_anywhere(env: Any, episodes: int, steps: int) -> Any:
    """Random episodes from random starts: states before, actions, and what comes of them, leaves `[T, B, …]`."""

    def step(state: State, action: jax.Array) -> Any:
        after = jax.vmap(lambda s, a: env.step_env(jax.random.key(0), s, a, env.default_params))(state, action)
        obs, new, reward, _, _, info = after
        return new, (state, action, obs, new, reward, info["shaped_reward"])

    def whole(keys: jax.Array, key: jax.Array) -> Any:
        _, state = env.batch_reset(keys)
        drawn = jax.random.randint(key, (steps, episodes, env.num_agents), 0, 9)  # half of them are to interact
        return jax.lax.scan(step, state, jnp.minimum(drawn, INTERACT))[1]

    return jax.tree.map(np.asarray, jax.jit(whole)(jax.random.split(jax.random.key(3), episodes), jax.random.key(4)))


def compare_from_anywhere(name: str, cooking: str, episodes: int, steps: int) -> None:
    env = jaxrl.make(f"overcooked/{name}", start="random", cooking=cooking)
    kitchen, played = Kitchen(env), from_anywhere(env, episodes, steps)
    for episode in range(episodes):
        first = jax.tree.map(lambda leaf, e=episode: leaf[0, e], played[0])
        theirs = kitchen.copied(first)
        for t in range(steps):
            _, action, *stepped = jax.tree.map(lambda leaf, e=episode, t=t: leaf[t, e], played)
            theirs = kitchen.check(theirs, action, stepped)
    assert (played[4] > 0).any()


@pytest.mark.parametrize("cooking", ["auto", pytest.param("by_hand", marks=pytest.mark.slow)])
def test_random_episodes_from_anywhere(cooking):
    compare_from_anywhere("cramped_room", cooking, episodes=60, steps=20)


@pytest.mark.slow
@pytest.mark.parametrize("cooking", ["auto", "by_hand"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_many_episodes(name, cooking):
    env = jaxrl.make(f"overcooked/{name}", cooking=cooking)
    for seed in range(20):
        long_game(env, Kitchen(env), seed, steps=400, noise=0.15 + 0.03 * seed)
    compare_from_anywhere(name, cooking, episodes=400, steps=50)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_jaxmarl(name):
    """Rewards and observations, except for its channel of counters, which leaves out those where something lies.

    Its shaped reward for a dish counts pots after the first cook's interaction, so it may differ.
    """
    pytest.importorskip("jaxmarl")
    from jaxmarl.environments.overcooked import Overcooked, overcooked_layouts

    with warnings.catch_warnings():  # it recommends its second version
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = Overcooked(layout=overcooked_layouts[name])
    env = jaxrl.make(f"overcooked/{name}")

    def begin(key: jax.Array) -> Any:
        _, state = theirs.reset(key)
        place = state.agent_pos[:, 0] + state.agent_pos[:, 1] * env.layout.width
        _, own = env.reset_env(jax.random.key(0), env.default_params)
        own = State(
            **{
                **own.__dict__,
                "position": place.astype(jnp.int32),
                "direction": state.agent_dir_idx.astype(jnp.int32),
            }
        )
        return state, own

    def both(carry: Any, action: jax.Array) -> Any:
        state, own = carry
        key = jax.random.key(0)
        seen, state, rewards, _, infos = theirs.step_env(key, state, dict(zip(theirs.agents, action, strict=True)))
        obs, own, reward, _, _, info = env.step_env(jax.random.clone(key), own, action, env.default_params)
        gets = [jnp.stack([x[agent] for agent in theirs.agents]) for x in (seen, rewards, infos["shaped_reward"])]
        return (state, own), (gets, [obs, reward, info["shaped_reward"]], own.counters > 0)

    actions = deliveries(env, begin)
    _, (gets, ours, lying) = jax.jit(lambda key, actions: jax.lax.scan(both, begin(key), actions))(
        jax.random.key(5), actions
    )
    gets[0] = gets[0].at[..., 11].set(gets[0][..., 11] | lying.reshape(-1, 1, env.layout.height, env.layout.width))
    np.testing.assert_array_equal(ours[0], gets[0])
    np.testing.assert_array_equal(ours[1], gets[1])
    assert ours[1].sum() >= 2 * 2 * 20
    different = ours[2] != gets[2]
    assert np.isin(np.abs(ours[2] - gets[2])[different], 3.0).all()


def deliveries(env: Any, begin: Any) -> jax.Array:
    """What cooks do who start as in JaxMARL: `[T, N]`."""
    _, state = jax.tree.map(np.asarray, begin(jax.random.key(5)))
    cooks, step, actions = Cooks(env.layout, seed=6, starts=state.position), stepper(env), []
    for _ in range(300):
        actions.append(cooks(state))
        state = step(state, actions[-1])[1]
    return jnp.asarray(np.stack(actions))
