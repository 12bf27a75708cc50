"""Names to environments: every wrong name or option says what to type instead."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxrl
from jaxrl import algos, registry
from jaxrl.algos import ippo, ppo
from jaxrl.envs.classic import CartPole
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.registry import parse_options, spelled
from jaxrl.wrappers import TimeLimit


@pytest.fixture
def clean_registry(monkeypatch):
    """Names registered in a test are gone after it."""
    jaxrl.list_envs()
    for table in ("_FACTORIES", "_FIXED", "_ALIASES", "_OBJECTS"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))


@pytest.mark.quick
def test_names_aliases_and_options():
    env = jaxrl.make("CartPole-v1", max_steps=30)
    assert isinstance(env, CartPole)
    assert env.name == "classic/cartpole"
    assert env.default_params.max_steps == 30
    assert jaxrl.make("classic/cartpole?max_steps=40").default_params.max_steps == 40  # pyright: ignore
    assert jaxrl.make("classic/cartpole?max_steps=40", max_steps=50).default_params.max_steps == 50  # pyright: ignore


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("CartPole-v1?max_steps=9", "classic/cartpole?max_steps=9"),
        ("./my_env.py:MyEnv", "my_env.py:MyEnv"),
        ("source/my_env.py:MyEnv?size=2", "my_env.py:MyEnv?size=2"),
        ("package.module:MyEnv", "package.module:MyEnv"),
        ("jaxmarl:overcooked", "jaxmarl:overcooked"),
    ],
)
def test_an_environment_is_shown_under_one_name_wherever_it_lies(name, shown):
    assert registry.shown_name(name) == shown


def test_the_name_behind_an_alias():
    assert registry.canonical("CartPole-v1?max_steps=9") == "classic/cartpole?max_steps=9"
    assert registry.canonical("classic/cartpole") == "classic/cartpole"
    assert registry.canonical("somebody/elses") == "somebody/elses"


def test_list_envs_by_pattern():
    assert "smax/3m" in jaxrl.list_envs()
    assert jaxrl.list_envs("classic/mountain*") == ["classic/mountain_car", "classic/mountain_car_continuous"]
    assert jaxrl.list_envs("acro") == ["classic/acrobot"]
    assert jaxrl.list_envs("nothing such") == []


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("smax/3n", "smax/3m"),
        ("3mm", "3m"),
        ("SMAX/3M", "smax/3m"),
        ("cartpole", "classic/cartpole"),
        ("CartPole-v0", "CartPole-v1"),
        ("pendulum-v1", "Pendulum-v1"),
    ],
)
def test_unknown_names_list_the_nearest(name, suggestion):
    with pytest.raises(UnknownNameError, match=f"There is no environment '{name}'.*{suggestion}.*jaxrl envs"):
        jaxrl.make(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("storm_2p", "closest to JaxMARL's is storm, whose rules differ"),
        ("storm_np", "is storm.num_agents=4, whose rules differ"),
        ("ant_4x2", "Say jaxmarl:ant_4x2"),
        ("Catch-bsuite", "Say gymnax:Catch-bsuite"),
    ],
)
def test_names_of_other_libraries_say_where_they_are(name, sentence):
    with pytest.raises(UnknownNameError, match=f"There is no environment '{name}'.*{sentence}"):
        jaxrl.make(name)


def test_far_off_names_list_what_there_is():
    assert nearest("zzzzzz", ["b", "a"]) == "Known: a, b."


def test_a_list_of_names_says_how_many_it_leaves_out():
    named = nearest("zzzzzz", algos.names())
    assert [name for name in algos.names() if name not in named] == []
    assert nearest("zzzzzz", [f"{i:02}" for i in range(25)]).endswith("18, 19 and 5 more.")


@pytest.mark.parametrize(
    ("name", "options", "kind", "message"),
    [
        ("CartPole-v1", {"steps": 5}, TypeError, "classic/cartpole has no option 'steps'. It has max_steps."),
        ("CartPole-v1?steps=5", {}, TypeError, "classic/cartpole has no option 'steps'. It has max_steps."),
        ("probe/credit", {"steps": 5}, TypeError, "probe/credit has no option 'steps'. It has none."),
        (
            "smax/3m",
            {"scenario": "8m"},
            TypeError,
            "The name 'smax/3m' decides 'scenario' itself; type smax/8m instead",
        ),
        ("hanabi", {"players": 3}, TypeError, "'hanabi/2p' decides 'players' itself; type hanabi/3p instead"),
        ("hanabi?players=2", {}, TypeError, "'hanabi/2p' decides 'players' itself; leave that option out"),
        ("CartPole-v1?max_steps", {}, ValueError, "The option 'max_steps' .* needs a value: max_steps=…"),
        ("CartPole-v1?max_steps=", {}, ValueError, "The option 'max_steps' .* needs a value: max_steps=…"),
        ("CartPole-v1?max_steps=9&max_steps=8", {}, ValueError, "'max_steps' stands twice in .*; keep one"),
        ("CartPole-v1?max_steps=soon", {}, ValueError, "max_steps must be a whole number of at least 1, got 'soon'"),
        ("CartPole-v1", {"max_steps": 0}, ValueError, "at least 1, got 0"),
        (3, {}, TypeError, "make takes a name"),
    ],
)
def test_wrong_options_say_what_there_is(name, options, kind, message):
    with pytest.raises(kind, match=message):
        jaxrl.make(name, **options)


@pytest.mark.usefixtures("clean_registry")
def test_an_option_without_a_default_is_asked_for():
    class Sized(CartPole):
        def __init__(self, size, *, walls):
            super().__init__()
            self.size = size + walls

    jaxrl.register("mine/sized", Sized)
    with pytest.raises(TypeError, match=r"mine/sized needs 'size' and 'walls': type mine/sized\?size=…&walls=…\."):
        jaxrl.make("mine/sized")
    with pytest.raises(TypeError, match=r"needs 'walls'"):
        jaxrl.make("mine/sized?size=1")
    env = jaxrl.make("mine/sized?size=1&walls=2")
    assert isinstance(env, Sized)
    assert env.size == 3


@pytest.mark.usefixtures("clean_registry")
def test_register_and_make():
    jaxrl.register("mine/short", CartPole, aliases=("short",), options={"max_steps": 3})
    jaxrl.register("mine/lazy", "jaxrl.envs.classic:CartPole")
    assert jaxrl.make("short").default_params.max_steps == 3  # pyright: ignore
    assert isinstance(jaxrl.make("mine/lazy"), CartPole)
    assert {"mine/short", "mine/lazy"} <= set(jaxrl.list_envs())


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("taken", ["smax/3m", "CartPole-v1"])
def test_names_are_given_once(taken):
    with pytest.raises(ValueError, match="already taken"):
        jaxrl.register(taken, CartPole)
    with pytest.raises(ValueError, match="already taken"):
        jaxrl.register("mine/new", CartPole, aliases=(taken,))


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("name", ["", "mine/a?b=1"])
def test_names_have_no_question_mark(name):
    with pytest.raises(ValueError, match="without a question mark"):
        jaxrl.register(name, CartPole)


@pytest.mark.usefixtures("clean_registry")
def test_a_name_is_given_again_when_asked():
    class Other(CartPole):
        pass

    jaxrl.register("mine/new", CartPole, aliases=("new",))
    with pytest.raises(ValueError, match="or add replace=True"):
        jaxrl.register("mine/new", Other)
    jaxrl.register("mine/new", Other, aliases=("new",), replace=True)
    assert type(jaxrl.make("new")) is Other
    with pytest.raises(ValueError, match="'CartPole-v1' is already taken"):
        jaxrl.register("mine/new", Other, aliases=("CartPole-v1",), replace=True)  # that is somebody else's


@pytest.mark.usefixtures("clean_registry")
def test_a_class_that_a_notebook_defines_anew_takes_the_place_of_the_old_one():
    first, second, another = (type(name, (CartPole,), {"__module__": "__main__"}) for name in ("Mine", "Mine", "Your"))
    jaxrl.register("mine/new", first)
    jaxrl.register("mine/new", second)
    assert type(jaxrl.make("mine/new")) is second
    with pytest.raises(ValueError, match="already taken"):
        jaxrl.register("mine/new", another)


class Computed(CartPole):
    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "computed"


@dataclasses.dataclass(frozen=True)
class Frozen(CartPole):
    size: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_steps", 9)


@pytest.mark.usefixtures("clean_registry")
def test_environments_may_compute_their_name_or_be_frozen():
    for kind, name in ((Computed, "computed"), (Frozen, "mine/Frozen")):
        jaxrl.register(f"mine/{kind.__name__}", kind)
        env = jaxrl.make(f"mine/{kind.__name__}")
        assert (env.name, env.made_as) == (name, f"mine/{kind.__name__}")


@pytest.mark.usefixtures("clean_registry")
def test_a_config_takes_environments_and_classes_and_keeps_their_names():
    assert ppo.Config(env=jaxrl.make("CartPole-v1", max_steps=9)).env == "classic/cartpole?max_steps=9"
    assert ppo.Config(env=CartPole).env == f"{CartPole.__module__}:CartPole"
    assert type(ppo.Config(env=CartPole).make_env()) is CartPole
    game = jaxrl.make("smax/3m?mode=selfplay")
    jaxrl.register("mine/short", lambda: TimeLimit(jaxrl.make("smax/3m?mode=selfplay"), 9))
    wrapped = jaxrl.make("mine/short").against_script()
    for changed in (game.against_script(), game.against_script(0.5), wrapped):
        assert ippo.Config(env=changed).make_env() is changed  # not the game that the name makes

    class Inner(CartPole):
        pass

    config = ppo.Config(env=Inner)
    assert type(config.make_env()) is Inner
    assert registry.lives_here(config.env) == "Inner"
    own = CartPole(max_steps=7)
    config = ppo.Config(env=own)
    assert config.make_env() is own
    assert ppo.Config(env=own) == config
    assert registry.lives_here(config.env) == "CartPole"
    assert registry.lives_here("classic/cartpole") is None
    registry._OBJECTS.clear()
    with pytest.raises(UnknownNameError, match="an object of another process, CartPole; name a class in a file"):
        config.make_env()


def own_game() -> CartPole:
    return CartPole(max_steps=7)


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (3, r"env must be a name, or an environment of jaxrl or its class; got 3\.$"),
        (own_game, r"got <function own_game .*>; give what it returns, env=own_game\(\)\.$"),
        (lambda: CartPole(), r"got <function <lambda> .*>; give what it returns\.$"),
    ],
)
def test_a_config_says_what_it_takes_as_an_environment(env: Any, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        ppo.Config(env=env)


def test_environments_that_step_in_python_are_told_apart():
    with pytest.raises(UnknownNameError, match=r"gymnasium step in Python.*; say CartPole-v1 for jaxrl's own"):
        jaxrl.make("gymnasium:CartPole-v1")
    with pytest.raises(UnknownNameError, match=r"pettingzoo step in Python.*; `jaxrl envs` lists those that it can"):
        jaxrl.make("pettingzoo:chess_v6")


@pytest.mark.parametrize("library", ["gymnasium", "Gymnasium", "pettingzoo"])
def test_their_libraries_are_told_apart_without_a_name_too(library: str):
    with pytest.raises(UnknownNameError, match=rf"{library.lower()} step in Python, .* `jaxrl envs` lists all"):
        jaxrl.make(library)


def test_capitals_of_a_library_make_no_difference_or_are_told():
    pytest.importorskip("pgx")
    assert jaxrl.list_envs("PGX:go*") == jaxrl.list_envs("pgx:go*") != []
    with pytest.raises(UnknownNameError, match=r", or pgx:go_9x9 for another library's environment"):
        jaxrl.make("PGX:go_9x9")


def test_atari_is_said_to_be_elsewhere() -> None:
    with pytest.raises(UnknownNameError, match="Atari's emulator steps outside of compiled programs; minatar/NAME has"):
        jaxrl.make("ALE/Pong-v5")


def test_query_values_are_numbers_booleans_or_text():
    assert parse_options("a=1&b=2.5&c=true&d=False&e=closest") == {
        "a": 1,
        "b": 2.5,
        "c": True,
        "d": False,
        "e": "closest",
    }


def test_lists_are_written_as_in_json():
    assert parse_options('a=[[1,-1],[0.5,2]]&b=["x"]&c=[1,') == {"a": [[1, -1], [0.5, 2]], "b": ["x"], "c": "[1,"}
    assert spelled("matrix", {"payoff": ((1, -1), (-1, 1))}) == "matrix?payoff=[[1,-1],[-1,1]]"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("matrix", {"payoff": [[1, -1], [-1, 1]]}),
        ("memory/battleship", {"size": 3, "ships": (2, 2)}),
        ("smax/3m", {"map_size": (40, 20)}),
        ("smax", {"allies": ["marine", "zealot"], "max_steps": 7}),
    ],
)
def test_the_name_of_an_environment_makes_the_same_one(name, options):
    env = jaxrl.make(name, **options)
    again = jaxrl.make(env.made_as)
    assert again.made_as == env.made_as
    assert (again.observation_space(), again.action_space()) == (env.observation_space(), env.action_space())


@pytest.mark.parametrize("value", ["", "a&b=c", None, np.ones(2), [np.ones(2)], ["a&b"]])
def test_what_no_name_can_hold_has_none(value):
    assert spelled("env", {"option": value}) == ""


BATTLE = """; A battle & its end.
units: smac
m: ally marine
z: enemy zealot

....
.m..
=~^"
..z.
"""


@pytest.fixture
def battle(tmp_path, monkeypatch):
    """The current folder has `battle.txt` in it, and `maps/3m.txt`."""
    (tmp_path / "maps").mkdir()
    for file in ("battle.txt", "maps/3m.txt"):
        (tmp_path / file).write_text(BATTLE.replace("&", "and"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_of_text_is_an_environment_whose_name_holds_the_text(battle):
    env = jaxrl.make("smax/battle.txt", max_steps=9)
    assert env.name == "smax/battle"
    assert (env.scenario.map_size, env.scenario.max_steps) == (8.0, 9)
    (battle / "battle.txt").unlink()
    again = jaxrl.make(env.made_as)
    assert again.scenario == env.scenario
    assert (again.name, again.made_as) == (env.name, env.made_as)
    assert registry.name_of(again) == registry.name_of(env.made_as) == env.made_as
    assert registry.shared(env) is registry.shared(again)
    assert registry.shown_name(env.made_as) == "smax/battle?max_steps=9"


def test_runs_keep_the_battle_rather_than_the_file(battle):
    config = ippo.Config(env="smax/battle.txt?max_steps=9")
    assert config.env == jaxrl.make("smax/battle.txt?max_steps=9").made_as
    assert registry.canonical("smax/battle.txt?max_steps=9") == config.env


@pytest.mark.parametrize("name", ["smax/maps/3m.txt", "smax/./maps/3m.txt", "smax/{}/maps/3m.txt"])
def test_files_of_other_folders(battle, name):
    env = jaxrl.make(name.format(battle))
    assert env.name == "smax/3m.txt"  # smax/3m is another one
    assert jaxrl.make(env.made_as).scenario == env.scenario


def test_a_text_without_a_file_survives_in_a_name():
    env = jaxrl.make("smax", scenario=BATTLE.replace("&", "and"))
    assert jaxrl.make(env.made_as).scenario == env.scenario


def test_a_map_of_text(battle):
    (battle / "room.txt").write_text("####\n#1a#\n####\n", encoding="utf-8")
    env = jaxrl.make("jaxnav/room.txt", num_beams=9)
    assert env.name == "jaxnav/room"
    assert jaxrl.make(env.made_as).map == env.map


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (None, UnknownNameError, r"smax/FILE.txt reads a file, but in .*: .*No such file.*my.txt"),
        ("", ValueError, "my.txt is empty"),
        (BATTLE, ValueError, "my.txt, line 1: an & ends a text in an environment's name; leave it out"),
        ("allies: 3m\nenemys: 3m", ValueError, "Line 2, column 1: There is no 'enemys' here. Did you mean enemies"),
    ],
)
def test_files_that_are_no_environment(battle, text, kind, message):
    if text is not None:
        (battle / "my.txt").write_text(text, encoding="utf-8")
    with pytest.raises(kind, match=message):
        jaxrl.make("smax/my.txt")


def test_families_without_texts_read_no_files():
    with pytest.raises(UnknownNameError, match="There is no environment 'classic/my"):
        jaxrl.make("classic/my.txt")
