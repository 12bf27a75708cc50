"""An author's mistakes in the methods of an environment are told before anything runs."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxrl
from jaxrl.algos import ppo
from jaxrl.check import ContractError
from jaxrl.check.quick import check_methods
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.envs.classic import CartPole
from jaxrl.spaces import Box, Discrete
from jaxrl.wrappers import TimeLimit, Wrapper

pytestmark = pytest.mark.quick
SPACE = Box(-1.0, 1.0, (4,))


def cartpole(**methods: Any) -> Any:
    """CartPole with other methods."""
    return type("Mine", (CartPole,), methods)()


def wrapped(**methods: Any) -> Any:
    """CartPole in a wrapper with these methods."""
    return type("Around", (Wrapper,), methods)(CartPole())


WRONG = [
    (cartpole(step_env=lambda self, key, state, action: None), r"has step_env\(self, key, state, action\)\. Write def"),
    (cartpole(reset_env=lambda self, key: None), r"Write def reset_env\(self, key, params\)"),
    (cartpole(observation_space=SPACE), r"observation_space of Mine is a Box\. Write a method, def observation_space"),
    (cartpole(action_space=lambda self: Discrete(2)), r"Write def action_space\(self, params=None\)"),
    (cartpole(action_space=lambda self, params: Discrete(2)), r"Write def action_space\(self, params=None\)"),
    (cartpole(action_mask=lambda self, state: jnp.ones(2, bool)), r"Write def action_mask\(self, state, params=None\)"),
    (cartpole(mutate=lambda self, key, state: state), r"Write def mutate\(self, key, state, params=None\)"),
    (cartpole(default_params=lambda self: None), "default_params of Mine is a method. Write @property above it"),
    (cartpole(entities=lambda self: None), "entities of Mine is a method. Write @property above it"),
    (wrapped(__init__=lambda self, env: None), r"Around does not say what it wraps\. Begin its __init__ with super"),
]


@pytest.mark.parametrize(("env", "sentence"), WRONG)
def test_check_env_and_training_say_how_a_method_is_written(env: Any, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        jaxrl.check_env(env)
    with pytest.raises(TypeError, match=sentence + ".* finds what else is missing"):
        ppo.Config(env=env).make_env()


def test_what_a_team_says_about_its_agents_is_no_method() -> None:
    team = type("Team", (MultiAgentEnvironment,), {"teams": lambda self: (0, 0)})()
    with pytest.raises(TypeError, match=r"teams of Team is a method\. Write @property above it"):
        check_methods(team)


def test_environments_inside_wrappers_are_checked() -> None:
    with pytest.raises(TypeError, match=r"Write def reset_env\(self, key, params\)"):
        check_methods(TimeLimit(cartpole(reset_env=lambda self, key: None), 5))


class Doubled(Wrapper):
    """As a wrapper of gymnax would be written."""

    def step(self, key: jax.Array, state: Any, action: Any, params: Any = None) -> Any:
        obs, state, reward, *rest = self.env.step(key, state, action, params)
        return obs, state, 2 * reward, *rest


class Reached(Doubled):
    """Steps many environments as it steps one."""

    def batch_step(self, keys: Any, state: Any, action: Any, params: Any = None, *_: Any, **__: Any) -> Any:
        return jax.vmap(self.step, (0, 0, 0, None))(keys, state, action, params)


def test_training_refuses_a_step_that_it_would_never_call() -> None:
    sentence = "Training never calls step of .*Write step_env instead; step follows from it"
    for env in (Doubled(CartPole()), TimeLimit(Doubled(CartPole()), 5), cartpole(step=CartPole.step_env)):
        with pytest.raises(TypeError, match=sentence):
            ppo.Config(env=env).make_env()
    check_methods(Reached(CartPole()))


def test_training_refuses_a_reset_that_it_would_never_call() -> None:
    with pytest.raises(TypeError, match="Training never calls reset of Around"):
        check_methods(wrapped(reset=lambda self, key, params=None: self.env.reset(key, params)))
    with pytest.raises(TypeError, match=r"Training never calls reset of .*Write reset_env instead"):
        check_methods(cartpole(reset=lambda self, key, params=None: CartPole.reset(self, key, params)))
