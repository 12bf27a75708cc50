"""What `--levels` takes, and what it says to what it does not take."""

import pytest
from eleven import Eleven

import jaxrl
from jaxrl.algos import dqn, ippo, ppo, self_play
from jaxrl.levels.options import Levels, levels_of

pytestmark = pytest.mark.quick


def test_methods_and_their_options():
    assert levels_of("") is levels_of("dr") is None
    assert levels_of("plr?share=0.8&score=maxmc&robust=true") == Levels(share=0.8, score="maxmc", robust=True)
    assert levels_of("accel") == Levels(kind="accel", share=0.444, robust=True)
    assert levels_of("sfl?keep=64") == Levels(kind="sfl", size=64)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("paired", "one of dr, plr, accel, sfl"),
        ("plr?candidates=3", "has no option 'candidates'"),
        ("dr?share=1", "has no option 'share'"),
        ("sfl?score=maxmc", "judges by outcomes"),
        ("plr?share=2", "between 0 and 1"),
        ("plr?tries=1&score=variance", "at least 2 tries"),
        ("plr?temperature=0", "must be positive"),
    ],
)
def test_a_method_that_makes_no_sense(text, says):
    with pytest.raises(ValueError, match=says):
        ppo.Config(levels=text)


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        (ppo, "plr?size=100", "use size=104"),
        (ppo, "sfl?keep=100", "use keep=104"),
        (ppo, "sfl?keep=512&candidates=64", "do not fill a pool of 512"),
        (dqn, "plr?score=maxmc&size=64", "needs the critic of ppo"),
        (dqn, "plr?robust=true&size=64", "use robust=false"),
        (self_play, "plr", "depends on the opponent"),
    ],
)
def test_a_method_that_the_algorithm_does_not_allow(module, text, says):
    with pytest.raises(ValueError, match=says):
        module.Config(levels=text)


@pytest.mark.parametrize(
    ("env", "text", "says"),
    [
        ("mpe/simple_spread", "accel?size=64", "has no mutate"),
        ("mpe/simple_spread", "plr?size=64&score=learnability", "use score=variance"),
        ("jaxnav/random?num_agents=1", "sfl?keep=64&steps=10", "use steps=1000"),
    ],
)
def test_a_method_that_the_environment_does_not_allow(env, text, says):
    with pytest.raises(ValueError, match=says):
        ippo.make(ippo.Config(env=env, levels=text))


def test_auto_scores_by_what_the_environment_tells():
    config = ppo.Config(levels="plr")
    for env, score in ((Eleven(), "learnability"), (jaxrl.make("classic/cartpole"), "variance")):
        chosen = config.curriculum(env)
        assert chosen is not None
        assert chosen.options.score == score


def test_levels_take_the_place_of_a_pool_of_starts():
    config = ippo.Config(env="jaxnav/random", reset="pool", levels="sfl?keep=64")
    assert config.reset == "fresh"
