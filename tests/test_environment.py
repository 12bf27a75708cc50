"""The contract's own machinery: auto-reset, selection, defaults."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl.algos import ippo
from jaxrl.environment import Environment, MultiAgentEnvironment, as_arrays, auto_reset, select
from jaxrl.spaces import Box, Discrete, MultiDiscrete


@pytest.mark.quick
def test_select_chooses_by_leading_axes():
    mask = jnp.array([True, False])
    a, b = jnp.ones((2, 3)), jnp.zeros((2, 3))
    chosen = select(mask, {"x": a, "y": a[:, 0]}, {"x": b, "y": b[:, 0]})
    assert chosen["x"].tolist() == [[1] * 3, [0] * 3]
    assert chosen["y"].tolist() == [1, 0]
    assert select(jnp.array(True), a, b).tolist() == a.tolist()


def test_select_takes_typed_keys():
    """A state may hold one, alone or a row of them."""
    a, b = jax.random.split(jax.random.key(0), 2), jax.random.split(jax.random.key(1), 2)
    data = jax.random.key_data
    wanted = np.stack([data(a)[0], data(b)[1]])
    np.testing.assert_array_equal(data(select(jnp.array([True, False]), a, b)), wanted)
    first, second = jax.random.key(2), jax.random.key(3)
    np.testing.assert_array_equal(data(select(jnp.array(False), first, second)), data(jax.random.key(3)))


def test_select_refuses_different_trees():
    with pytest.raises(ValueError, match=r"[kK]ey"):
        select(jnp.array(True), {"a": jnp.ones(2)}, {"b": jnp.ones(2)})


@pytest.mark.quick
@pytest.mark.parametrize(("terminated", "truncated"), [(False, False), (True, False), (False, True)])
def test_auto_reset(terminated, truncated):
    flags = jnp.array(terminated), jnp.array(truncated)
    stepped = (jnp.array(1.0), {"s": jnp.array(2)}, jnp.array(3.0), *flags, {"won": jnp.array(True)})
    obs, state, reward, *out_flags, info = auto_reset(stepped, (jnp.array(10.0), {"s": jnp.array(20)}))
    done = terminated or truncated
    assert (obs, state["s"]) == ((10.0, 20) if done else (1.0, 2))
    assert reward == 3.0
    assert [bool(f) for f in out_flags] == [terminated, truncated]
    assert info == {"won": True, "final_observation": 1.0, "final_state": {"s": 2}}  # from before the reset, always


def test_actions_may_be_a_list_and_a_number_stands_for_an_action_of_one():
    """Of Pendulum, an action is `[1]`."""
    for name, actions, wanted in (("CartPole-v1", [0, 1], [0, 1]), ("Pendulum-v1", [0.5, -1.0], [[0.5], [-1.0]])):
        venv = jaxrl.VectorEnv(jaxrl.make(name), 2)
        _, state = jax.jit(venv.reset)(jax.random.key(0))
        step = jax.jit(venv.step)
        given, same = (step(jax.random.key(1), state, action) for action in (actions, np.array(wanted)))
        chex.assert_trees_all_equal(given, same)


def test_as_arrays_makes_numbers_strong():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Params:
        gravity: float
        steps: int
        windy: bool
        table: np.ndarray

    params = as_arrays(Params(9.8, 100, True, np.zeros(2, np.float32)))
    assert [leaf.dtype for leaf in jax.tree.leaves(params)] == [np.float32, np.int32, np.bool_, np.float32]
    double = jax.jit(chex.assert_max_traces(lambda p: p.gravity * 2, n=1))
    double(params)
    double(as_arrays(dataclasses.replace(params, gravity=1.5)))


class Fixed(Environment):
    def action_space(self, params=None):
        return Discrete(3)


class Pair(MultiAgentEnvironment):
    agents = ("a", "b")

    def action_space(self, params=None):
        return Discrete(3)

    def observation_space(self, params=None):
        return Box(0.0, 1.0, (2,))


class Steered(Fixed):
    def action_space(self, params=None):  # pyright: ignore[reportIncompatibleMethodOverride]
        return Box(-1.0, 1.0, (2,))


def test_environments_that_are_dataclasses_can_be_given_to_compiled_functions():
    @dataclasses.dataclass
    class Sized(Fixed):
        size: int = 4

    twice = jax.jit(lambda env, x: env.size * x, static_argnums=0)
    assert [twice(Sized(size), 2).item() for size in (4, 5)] == [8, 10]


def test_defaults_of_what_an_author_leaves_out():
    assert Fixed().action_mask(None).tolist() == [True] * 3
    pair = Pair()
    assert pair.num_agents == 2
    assert pair.action_mask(None).shape == (2, 3)
    assert pair.agent_mask(None).tolist() == [True, True]
    assert pair.agent_action_spaces == {"a": Discrete(3), "b": Discrete(3)}
    assert pair.agent_observation_spaces["b"] == Box(0.0, 1.0, (2,))


GYMNASIUM = (0, 0.0, True, False, {})  # a step as Gymnasium returns it, without a state


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Pair().global_state(None), NotImplementedError, "has no global state; use observations"),
        (lambda: Fixed().render(None), NotImplementedError, "no picture"),
        (lambda: Steered().action_mask(None), TypeError, "Discrete actions only, not for Box"),
        (lambda: Environment().action_space(), NotImplementedError, "Environment has no action_space; write"),
    ],
)
def test_what_there_is_not_says_so(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


class Shaped(MultiAgentEnvironment):
    """A team of two whose reset and step return what they are told to."""

    name = "shaped"
    agents = ("a_0", "a_1")

    def __init__(self, **parts: Any) -> None:
        one = jnp.bool_(False)
        self.parts = {"obs": jnp.zeros((2, 3)), "reward": jnp.zeros(2), "terminated": one, "truncated": one, "info": {}}
        self.mask = parts.pop("mask", jnp.ones((2, 4), bool))
        self.alive = parts.pop("alive", jnp.ones(2, bool))
        self.after = parts.pop("after", lambda state: state + 1)
        self.seen_by_all = parts.pop("state", jnp.zeros(2))
        self.begun = parts.pop("begun", None)
        self.stepped = parts.pop("stepped", ())
        self.parts |= parts

    def observation_space(self, params: Any = None) -> Box:
        return Box(-1.0, 1.0, (3,))

    def action_space(self, params: Any = None) -> Discrete:
        return Discrete(4)

    def action_mask(self, state: Any, params: Any = None) -> jax.Array:
        return self.mask

    def agent_mask(self, state: Any, params: Any = None) -> jax.Array:
        return self.alive

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        return self.seen_by_all

    def reset_env(self, key: jax.Array, params: Any) -> Any:
        return self.begun or (self.parts["obs"], jnp.zeros((), jnp.int32))

    def step_env(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        if self.stepped != ():
            return self.stepped
        obs, *rest = self.parts.values()
        return obs, self.after(state), *rest


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (
            {"obs": {"a_0": jnp.zeros(3), "a_1": jnp.zeros(3)}},
            r"of type dict; return one array \[2, 3\]",
        ),
        ({"obs": jnp.zeros((2, 5))}, r"an observation of shape \[2, 5\]; return one array \[2, 3\]"),
        ({"begun": (jnp.zeros((2, 3)), ())}, "a state without an array; give it one"),
        ({"begun": (jnp.zeros((2, 3)), 0, {})}, r"a tuple of 3; return \(obs, state\)"),
        ({"begun": [jnp.zeros((2, 3))]}, r"a list; return \(obs, state\)"),
        ({"reward": jnp.float32(0)}, r"reward of shape \[\]; return \[2\]: one number for each of the 2 agents"),
        ({"reward": {"a_0": 0.0, "a_1": 0.0}}, r"a dict as reward; return an array \[2\]"),
        ({"terminated": jnp.zeros(2, bool)}, r"terminated of shape \[2\]; return \[\]: one boolean"),
        ({"terminated": {"a_0": False, "__all__": False}}, "a dict as terminated"),
        ({"truncated": jnp.float32(0)}, "truncated as float32; return one boolean"),
        ({"info": None}, "a NoneType as info; return a dict"),
        ({"info": {"unit": {"name": "marine"}}}, r"info\['unit'\]\['name'\] as a str; make it a number, or leave it"),
        ({"info": {"final_observation": jnp.zeros((2, 3))}}, "call step_env of the environment inside: its step"),
        ({"truncated": jnp.int32(0)}, "truncated as int32; return one boolean"),
        (
            {"obs": jnp.zeros((2, 1)), "begun": (jnp.zeros((2, 3)), jnp.int32(0))},
            r"step_env returned an observation of shape \[2, 1\]; return one array \[2, 3\]",
        ),
        ({"after": lambda state: state[None]}, r"state as int32\[1\], and reset_env as int32\[\]; return the same"),
        ({"after": lambda state: state + 0.5}, r"state as float32\[\], and reset_env as int32\[\]; return the same"),
        ({"after": lambda state: {"t": state}}, r"state as PyTreeDef\(.*'t'.*, and reset_env as PyTreeDef"),
        ({"info": {"won": jnp.zeros(2, bool)}}, r'info\["won"\] as bool\[2\]; return one boolean'),
        ({"info": {"won": jnp.float32(0)}}, r'info\["won"\] as float32\[\]; return one boolean'),
        ({"stepped": GYMNASIUM}, r"step_env returned 5 values; return \(obs, state"),
        ({"stepped": None}, r"step_env returned a NoneType; return \(obs, state"),
        ({"stepped": [0]}, r"step_env returned 1 values; return \(obs, state"),
        ({"state": jnp.zeros((2, 2))}, r"global_state of .* has the shape \[2, 2\]; return one vector \[G\]"),
        ({"mask": jnp.ones((2, 3), bool)}, r"action_mask of .* is bool\[2, 3\]; return bool\[2, 4\]"),
        ({"mask": jnp.ones((2, 4), jnp.int32)}, r"action_mask of .* is int32\[2, 4\]; return bool\[2, 4\]"),
        ({"alive": jnp.ones((), bool)}, r"agent_mask of .* is bool\[\]; return bool\[2\]"),
        ({"alive": jnp.ones(2)}, r"agent_mask of .* is float32\[2\]; return bool\[2\]"),
    ],
)
def test_training_says_what_a_step_should_return(parts: dict[str, Any], sentence: str) -> None:
    """Instead of an error about shapes that names no line of the environment."""
    config = ippo.Config(env=Shaped(**parts), num_envs=4, num_steps=4, total_timesteps=16, num_minibatches=1)
    with pytest.raises(TypeError, match=sentence + ".* finds what else is missing"):
        ippo.make(config)


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ({"agents": ()}, "has no agents; name them, such as agents = "),
        ({"agents": (), "num_agents": 2}, "has no agents; name them"),
        ({"teams": (0,)}, r"teams of .* is \(0,\) for 2 agents; give one"),
        (
            {"action_space": lambda env, params=None: 4},
            "action_space of .* returned a int; return a Box, a Discrete or",
        ),
        (
            {"observation_space": lambda env, params=None: Box(-1.0, 1.0, (0,))},
            r"observation_space of .* has the shape \[0\], without a number; give it at least one",
        ),
        ({"roles": (0, 0, 0)}, r"roles of .* is \(0, 0, 0\) for 2 agents; give one"),
        (
            {"agent_action_spaces": {"one": Discrete(4), "two": Discrete(4)}},
            r"The keys of agent_action_spaces are \('one', 'two'\), the agents \('a_0', 'a_1'\). Make them equal",
        ),
        (
            {"agent_action_spaces": {"a_0": Discrete(4), "a_1": Discrete(9)}},
            r"agent_action_spaces\['a_1'\] is Discrete\(n=9\), which does not fit into the common Discrete\(n=4\)",
        ),
        (
            {
                "action_space": lambda env, params=None: MultiDiscrete((4, 2)),
                "agent_action_spaces": {"a_0": MultiDiscrete((4,)), "a_1": MultiDiscrete((9, 2))},
            },
            r"agent_action_spaces\['a_1'\] is .*9, 2.*, which does not fit into the common .*4, 2",
        ),
        (
            {"agent_observation_spaces": [Box(-1.0, 1.0, (3,))] * 2},
            "agent_observation_spaces is a list. Make it a dict",
        ),
    ],
)
def test_training_says_what_is_missing_about_the_agents(says: dict[str, Any], sentence: str) -> None:
    config = ippo.Config(env=type("Said", (Shaped,), says)(), num_envs=4, num_steps=4)
    with pytest.raises(TypeError, match=sentence):
        ippo.make(config)


def test_what_can_be_trained_on_is_left_alone() -> None:
    """Python booleans and whole numbers as rewards pass."""
    env = Shaped(terminated=False, truncated=False, reward=jnp.zeros(2, jnp.int32))
    _, state = env.reset(jax.random.key(0))
    env.step(jax.random.key(1), state, jnp.zeros(2, int))
    venv = jaxrl.VectorEnv(env, 3)
    _, state = venv.reset(jax.random.key(2))
    venv.step(jax.random.key(3), state, jnp.zeros((3, 2), int))
