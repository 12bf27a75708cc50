"""What is rarely meant: found, unless the author declares it."""

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from walkers import Broken, Params, Race, State, Walk, altered, found_by, must_be_found

from jaxrl import check_env
from jaxrl.check.dynamic import SUSPICIONS
from jaxrl.environment import as_arrays
from jaxrl.spaces import Box
from jaxrl.wrappers import as_multi_agent

CHECKS = {check.__name__.removeprefix("check_"): check for check in SUSPICIONS}
breaks = Broken()


def start(position: jax.Array) -> State:
    """The start of an episode, with a key that is always the same."""
    return State(position, jnp.zeros((), jnp.int32), jax.random.key(0))


class Brief(Walk):
    """Four steps at most."""

    @property
    def default_params(self) -> Any:
        return as_arrays(Params(max_steps=4))


@breaks("endless", "No episode of 8 copies ended within 4096 random steps. Let the clock end it, truncated = ")
class Endless(Walk):
    def observation_space(self, params=None):
        return Box(-np.inf, np.inf, (1,))

    step_env = altered(terminated=lambda flag, _: flag & False, truncated=lambda flag, _: flag & False)


@breaks("same_start", "All of 256 keys start the same episode. Draw the start from the key")
class SameStart(Walk):
    def reset_env(self, key, params):
        state = start(jnp.zeros((), jnp.float32))
        return self.observe(state), state


@breaks("same_start", "All of 256 keys start the same episode")
class DrawsFromOne(Walk):
    """The upper bound of `randint` does not belong to what is drawn."""

    def reset_env(self, key, params):
        state = start(jax.random.randint(key, (), 0, 1, jnp.int32).astype(jnp.float32))
        return self.observe(state), state


@breaks("unused_params", "Nothing depends on params.size, params.max_steps. Read it from params")
class KnowsBetter(Walk):
    def step_env(self, key, state, action, params):
        return super().step_env(key, state, action, self.default_params)


@breaks("unused_params", "Nothing depends on params.max_steps. Read it from params")
class FixedClock(Walk):
    def step_env(self, key, state, action, params):
        return self.compiled(key, state, action, params)

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(self, key, state, action, params):
        return super().step_env(key, state, action, dataclasses.replace(params, max_steps=np.int32(12)))


@breaks("forbidden_actions", r"forbids action 1 in every state. Allow it .* action space, now Discrete\(n=3\)")
class StandingIsForbidden(Walk):
    def action_mask(self, state, params=None):
        return jnp.asarray([True, False, True])


@breaks("forbidden_actions", "forbids action 0, 1 of two in every state")
class OnlyOneMoves(Race):
    def action_mask(self, state, params=None):
        return jnp.asarray([[True, True, True], [False, False, True]])

    @property
    def agent_action_spaces(self):
        return dict.fromkeys(self.agents, self.action_space())


@breaks("always_won", r'info\["won"\] is True at the end of all \d\d episodes played with random actions. Make it tell')
class EndsAreWins(Brief):
    def step_env(self, key, state, action, params):
        obs, after, reward, terminated, truncated, _ = super().step_env(key, state, action, params)
        return obs, after, reward, terminated, truncated, {"won": terminated | truncated}


@pytest.mark.parametrize(("broken", "check", "message"), breaks)
def test_each_is_found_unless_intended(broken, check, message):
    must_be_found(broken(), check, rf'{message}.*say so in the class: intended = \("{check}",\)')

    class Meant(broken):
        intended = (check,)

    check_env(Meant(), num_steps=16)


# Right twins.


class LongEpisodes(Walk):
    """Much longer than the recording."""

    step_env = altered(
        terminated=lambda flag, _: flag & False, truncated=lambda flag, state: flag & (state.step >= 2999)
    )


class NearlySameStart(Walk):
    """One episode in 16 starts elsewhere: none of the first eight."""

    def reset_env(self, key: Any, params: Any) -> Any:
        state = start(jnp.where(jax.random.bernoulli(key, jnp.float32(1 / 16)), jnp.float32(0.5), jnp.float32(0)))
        return self.observe(state), state


class OnlySeen(Walk):
    """One parameter only tells what is allowed."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        return super().step_env(key, state, action, dataclasses.replace(params, size=np.float32(0.1)))

    def action_mask(self, state: Any, params: Any = None) -> Any:
        return jnp.stack([jnp.asarray(True), self._params(params).size > 0, jnp.asarray(True)])


class RarelyAllowed(Walk):
    """An action that no random player is ever allowed, but others may be."""

    def action_mask(self, state: Any, params: Any = None) -> Any:
        return jnp.stack([jnp.asarray(True), state.position > 1.4, jnp.asarray(True)])


class WonByArriving(Brief):
    """Time runs out as well."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        obs, after, reward, terminated, truncated, _ = super().step_env(key, state, action, params)
        return obs, after, reward, terminated, truncated, {"won": terminated}


TWINS = {
    "endless": LongEpisodes,
    "same_start": NearlySameStart,
    "unused_params": OnlySeen,
    "forbidden_actions": RarelyAllowed,
    "always_won": WonByArriving,
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_right_twin_is_not_suspected(check):
    assert found_by(CHECKS[check], TWINS[check]()) == []


@pytest.mark.quick
def test_intended_must_name_a_check():
    class Misspelt(Walk):
        intended = ("same_strat",)

    class Text(Walk):
        intended: Any = "same_start"

    must_be_found(
        Misspelt(), "intended", "intended has 'same_strat', which no check is called. Did you mean same_start"
    )
    must_be_found(Text(), "intended", r"intended is 'same_start'. Make it a tuple, such as \(\"same_start\",\)")


def test_a_wrapper_means_what_its_environment_means():
    class Meant(SameStart):
        intended = ("same_start",)

    assert as_multi_agent(Meant()).intended == ("same_start",)


def test_the_page_lists_them_all():
    page = Path(__file__).parents[2] / "docs" / "environments.md"
    table = page.read_text(encoding="utf-8").partition("| name | what `check_env` finds")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(CHECKS)
