"""Who plays which agents: named policies that learn, and runs whose policies are held fixed."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from family import agent_of

import jaxrl
from jaxrl.algos import ippo, iql, pqn
from jaxrl.deploy.policy import Policy
from jaxrl.environment import MultiAgentEnvironment
from jaxrl.train.rerun import repeated
from jaxrl.wrappers import FixedPolicies
from jaxrl.wrappers.players import fixed_runs, policy_names, runs_near

SMALL: dict[str, Any] = {"num_envs": 8, "num_steps": 4, "total_timesteps": 64, "hidden": (4,)}
GAME = "matrix/rock_paper_scissors"


def param_sets(policies: Any, **fields: Any) -> tuple[int, ...]:
    config = ippo.Config(env="mpe/simple_tag", policies=policies, **SMALL, **fields)
    env = config.make_env()
    assert isinstance(env, MultiAgentEnvironment)
    return config.param_sets(env)


def test_agents_of_one_policy_share_parameters_and_others_as_sharing_says():
    assert param_sets({"adversary_[01]": "A", "adversary_2": "B", "agent_0": "A"}) == (0, 0, 1, 0)
    assert param_sets({"adversary_1": "B"}) == (0, 1, 0, 2)
    assert param_sets({"adversary_1": "B"}, sharing="all") == (0, 1, 0, 0)
    assert param_sets({"adversary_1": "random"}, sharing="none") == (0, 1, 2)


def test_a_role_stands_for_all_its_agents():
    assert param_sets({"adversary": "A", "agent": "B"}) == param_sets({"adversary_.*": "A", "agent_.*": "B"})
    with pytest.raises(ValueError, match="'adversar' matches no agent"):
        param_sets({"adversar": "A"})


def test_the_rules_of_a_game_play_any_of_its_agents():
    """Three of Hanabi's players follow its rules, so a game brings points whatever the fourth does."""
    config = ippo.Config(env="hanabi/4p", policies={"player_[13]": "scripted", "player_2": "scripted"}, **SMALL)
    env = jaxrl.VectorEnv(config.make_env(), 16)
    obs, state = jax.jit(env.reset)(jax.random.key(0))
    assert obs.shape[1] == 1
    total = np.zeros(16)
    step, allowed = jax.jit(env.step), jax.jit(env.action_mask)
    for key in jax.random.split(jax.random.key(1), 12):
        _, state, reward, *_ = step(key, state, np.argmax(allowed(state), axis=-1))
        total += np.asarray(reward)[:, 0]
    assert total.mean() > 2


def test_where_there_is_no_script_nobody_can_be_played_by_it():
    config = ippo.Config(env="mpe/simple_tag", policies={"agent_0": "scripted"}, **SMALL)
    with pytest.raises(NotImplementedError, match="simple_tag has no script"):
        config.make_env()


@pytest.mark.parametrize("module", [ippo, iql, pqn])
def test_each_policy_has_a_parameter_set_of_its_own(module: Any):
    config = module.Config(env="mpe/simple_spread", policies={"agent_0": "A", "agent_[12]": "B"})
    assert agent_of(module.make(config)).param_sets == (0, 1, 1)


def test_the_policies_of_a_run_play_and_do_not_learn(tmp_path: Path):
    past = ippo.Config(env=GAME, **SMALL, seed=1)
    jaxrl.fit(ippo.make(past), past, tmp_path / "past", num_seeds=2, quiet=True, pictures=False)
    config = ippo.Config(env=GAME, policies={"player_1": str(tmp_path / "past")}, **SMALL)
    env = config.make_env()
    assert isinstance(env, FixedPolicies)
    assert env.agents == ("player_0",)
    result = jaxrl.fit(ippo.make(config), config, tmp_path / "now", quiet=True, pictures=False)
    again = jaxrl.load(tmp_path / "now")
    assert again.config.policies == (f"player_1={tmp_path / 'past'}",)
    jax.tree.map(np.testing.assert_array_equal, again.state.params, result.state.params)
    # One seed of the run alone is another opponent than both.
    both, second = jaxrl.load(tmp_path / "past"), jaxrl.load(f"{tmp_path / 'past'}:1")
    jax.tree.map(np.testing.assert_array_equal, second.state.params, both.member(1).state.params)
    assert second.config.seed == 2
    with pytest.raises(ValueError, match="are trained together; leave out :1"):
        repeated(second)


def test_several_runs_take_turns(tmp_path: Path):
    """All their seeds and the rules beside them, each as often as the others."""
    for name, num_seeds, hidden in (("one", 1, (4,)), ("two", 2, (8,))):
        past = ippo.Config(env=GAME, **{**SMALL, "hidden": hidden})
        jaxrl.fit(ippo.make(past), past, tmp_path / name, num_seeds=num_seeds, quiet=True, pictures=False)
    runs = (str(tmp_path / "one"), str(tmp_path / "two"))
    config = ippo.Config(env=GAME, policies={"player_1": ",".join((*runs, "random"))}, **SMALL)
    assert fixed_runs(config.policies) == runs
    env = config.make_env()
    assert isinstance(env, FixedPolicies)
    assert [len(kin.policies) for kin in env._players[0].kin] == [1, 2, 1]
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), 256))
    assert np.bincount(state.own[0].member, minlength=4).min() > 40
    (tmp_path / "three,four").mkdir()  # a single run, whose folder has a comma
    assert fixed_runs((f"player_1={tmp_path / 'three,four'}",)) == (str(tmp_path / "three,four"),)


def test_a_run_that_is_trained_further_plays_as_it_has_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In the same process, too; what is left as it is is loaded once. Another folder's run is another one."""
    monkeypatch.chdir(tmp_path)
    past = ippo.Config(env=GAME, **SMALL, lr=0.1)
    quiet: dict[str, Any] = {"quiet": True, "pictures": False, "eval_episodes": 4}
    jaxrl.fit(ippo.make(past), past, "past", **quiet)

    def partner(folder: str = "past") -> Any:
        env = ippo.Config(env=GAME, policies={"player_1": f"./{folder}"}, **SMALL).make_env()
        assert isinstance(env, FixedPolicies)
        return env._players[0].kin[0].policies[0]

    first = partner()
    assert partner() is first
    longer = dataclasses.replace(past, total_timesteps=2 * past.total_timesteps)
    state = jaxrl.fit(ippo.make(longer), longer, "past", resume=True, **quiet).state
    policy = Policy(ippo.make(longer), longer.make_env(), state)
    jax.tree.map(np.testing.assert_array_equal, partner().params, policy.params)
    assert not all(map(np.array_equal, jax.tree.leaves(first.params), jax.tree.leaves(policy.params)))
    (tmp_path / "there").mkdir()
    shutil.copytree("past", "there/past")
    second = partner()
    monkeypatch.chdir(tmp_path / "there")
    assert partner() is not second


def test_random_players_take_any_action_of_any_kind_of_space():
    env = ippo.Config(env="hide_and_seek/chase?num_rays=0", policies={"hider_0": "random"}).make_env()
    assert isinstance(env, FixedPolicies)
    _, state = jax.jit(env.batch_reset)(jax.random.split(jax.random.key(0), 64))
    still = np.full((64, 1, 3), 5)
    state = jax.jit(env.batch_step)(jax.random.split(jax.random.key(1), 64), state, still)[1]
    hider, seeker = np.moveaxis(np.asarray(env.env_state(state).velocity), 1, 0)
    assert np.abs(hider).mean() > 0.05
    assert len(np.unique(hider.round(3), axis=0)) > 30  # all pushed on their own
    assert not seeker.any()


@pytest.mark.slow
def test_the_best_answer_to_a_fixed_policy_is_found(tmp_path: Path):
    """Scissors are the best answer to chance where they count double, and rock is the best answer to scissors."""
    sizes: dict[str, Any] = {**SMALL, "env": "matrix/dear_scissors", "num_envs": 64, "total_timesteps": 50_000}
    past = ippo.Config(policies={"player_1": "random"}, **sizes)
    first = jaxrl.fit(ippo.make(past), past, tmp_path / "past", quiet=True, pictures=False)
    config = ippo.Config(policies={"player_1": str(tmp_path / "past")}, **sizes)
    second = jaxrl.fit(ippo.make(config), config, tmp_path / "now", quiet=True, pictures=False)
    assert first.evaluation is not None
    assert second.evaluation is not None
    assert np.mean(first.evaluation["return_mean"]) == pytest.approx(1 / 3, abs=0.15)
    assert np.mean(second.evaluation["return_mean"]) > 0.9


def test_a_script_plays_its_team():
    config = ippo.Config(env="smax/3m?mode=selfplay", policies={"enemy_.*": "scripted"}, **SMALL)
    env = config.make_env()
    assert isinstance(env, MultiAgentEnvironment)
    assert env.agents == ("ally_0", "ally_1", "ally_2")
    with pytest.raises(ValueError, match="The script of smax/3m plays enemy_0, enemy_1, enemy_2"):
        ippo.Config(env="smax/3m?mode=selfplay", policies={"ally_.*": "scripted"}, **SMALL).make_env()
    with pytest.raises(ValueError, match="smax/3m has no script that could take turns with others, as in scripted,run"):
        ippo.Config(env="smax/3m?mode=selfplay", policies={"enemy_.*": "scripted,runs/a"}, **SMALL).make_env()


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (("ally_.*",), 'needs PATTERN=POLICY, such as "ally_.*=A"'),
        (("=A",), "needs PATTERN=POLICY"),
        (("ally_0=A", "ally_0=B"), "names a pattern twice"),
    ],
)
def test_what_is_no_pair_is_told(policies: Any, message: str):
    with pytest.raises(ValueError, match=message):
        ippo.Config(policies=policies)


def test_a_folder_may_have_an_equals_sign_in_its_name():
    """As may groups of a pattern that look ahead or behind."""
    policies = {"(?=agent)agent_.*": "A", r".*(?<=sary_0)": "B", "adversary_[12]": "./lr=0.1"}
    pairs = ippo.Config(env="mpe/simple_tag", policies=policies, **SMALL).policies
    assert fixed_runs(pairs) == ("./lr=0.1",)
    assert policy_names(jaxrl.make("mpe/simple_tag"), pairs) == ("B", None, None, "A")  # pyright: ignore[reportArgumentType]


def test_a_run_that_is_not_there_is_told():
    with pytest.raises(FileNotFoundError, match="no_such_run"):
        ippo.Config(env=GAME, policies={"player_1": "./no_such_run"}, **SMALL).make_env()


def test_a_single_agent_has_nobody_beside_it():
    with pytest.raises(ValueError, match=r"policies=.* has no effect"):
        pqn.Config(env="classic/cartpole", policies={"agent": "A"}).make_env()


def test_a_name_that_is_a_run_too_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without ./ it trains a new policy, which one may not have meant."""
    monkeypatch.chdir(tmp_path)
    config = ippo.Config(env="mpe/simple_tag", policies=("agent_0=mine",))
    assert config.warnings() == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.json").touch()
    assert "for the run in the folder of that name, write ./mine" in config.warnings()[0]


def test_the_runs_that_a_run_met_are_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By their path seen from a folder above the run; what is found here, learns, or is nowhere stays as it is."""
    theirs, here = tmp_path / "runs" / "theirs", tmp_path / "here"
    for run in (theirs, here / "mine"):
        run.mkdir(parents=True)
        (run / "run.json").touch()
    monkeypatch.chdir(here)
    pairs = ("a=runs/theirs", "f=runs/theirs:1", "b=./mine", "c=runs/nowhere", "d=random", "e=B", "g=./mine:1")
    found = runs_near((*pairs, "h=./mine,runs/theirs,random"), tmp_path / "runs" / "ours")
    assert found == (f"a={theirs}", f"f={theirs}:1", *pairs[2:], f"h=./mine,{theirs},random")
