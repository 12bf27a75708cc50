"""The scripts of `jaxrl new` learn the right values and actions of probes, and are small, alike and free of jaxrl."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from budgets import ON_POLICY, REPLAY

import jaxrl
from jaxrl import templates
from jaxrl.cli.new import scripts

SMALL: dict[str, Any] = {"hidden": (32,), "num_lines": 2, "plot": ""}
FIELDS: dict[str, dict[str, Any]] = {
    "ppo": ON_POLICY,
    "ippo": ON_POLICY,
    "mappo": ON_POLICY,
    "pqn": ON_POLICY,
    "qmix": REPLAY,
    "ppo_rnn": ON_POLICY | {"num_envs": 32, "total_timesteps": 512 * 150, "hidden": (16,), "memory_size": 16},
    "dqn": REPLAY,
    "sac": REPLAY | {"gradient_steps": 16},
}


def train(name: str, probe: str, **fields: Any) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """The parts, the parameters of the first member, and the curves."""
    script = importlib.import_module(f"jaxrl.templates.{name}")
    gamma = jaxrl.make(f"probe/{probe}").solution.gamma
    config = script.Config(**{"env": f"probe/{probe}", "gamma": gamma, **SMALL, **FIELDS[name], **fields})
    with jax.debug_key_reuse(False):  # it takes keys that pass a scan under vmap for consumed
        state, curves = script.train(config)
    return script.make(config), jax.tree.map(lambda leaf: leaf[0], state.params), curves


@pytest.mark.parametrize("probe", ["discounting", "truncation", "observation_action", "continuous_action"])
def test_ppo_learns_values_and_actions(probe: str) -> None:
    parts, params, _ = train("ppo", probe)
    for case in jaxrl.make(f"probe/{probe}").solution.cases:
        policy, value = parts.network.apply(params, jnp.array(case.observation), None)
        assert float(value) == pytest.approx(case.value, abs=0.15)
        if case.action is not None:
            np.testing.assert_allclose(policy.mode(), case.action, atol=0.15)


@pytest.mark.parametrize("name", ["ppo", "dqn", "pqn"])
def test_masked_actions_are_never_chosen(name: str) -> None:
    _, _, curves = train(name, "action_mask")
    assert curves["return"].max() <= 1.0  # a masked one would bring 10
    assert curves["return"][-1, 0] > 0.9


@pytest.mark.parametrize(
    ("name", "probe"),
    [
        ("dqn", "truncation"),
        ("dqn", "off_policy"),
        ("dqn", "observation_action"),
        ("pqn", "truncation"),
        ("pqn", "chain"),
    ],
)
def test_values_of_actions_are_learned(name: str, probe: str) -> None:
    parts, params, _ = train(name, probe, eps_finish=0.3)
    for case in jaxrl.make(f"probe/{probe}").solution.cases:
        values = parts.network.apply(params, jnp.array(case.observation))
        assert float(values.max()) == pytest.approx(case.value, abs=0.15)
        assert case.action is None or int(values.argmax()) == case.action


def test_qmix_finds_the_risky_game() -> None:
    _, _, curves = train("qmix", "two_step", eps_decay=0.8, total_timesteps=64 * 300, num_lines=10)
    assert curves["return"][-1, 0] > 7.2  # the safe game brings 7


def test_ppo_rnn_recalls_a_cue() -> None:
    _, _, curves = train("ppo_rnn", "memory_recall")
    assert curves["return"][-1, 0] > 0.9


@pytest.mark.slow
def test_the_memory_of_ppo_rnn_does_not_leak_into_the_next_episode() -> None:
    solution = jaxrl.make("probe/memory_leak").solution
    _, _, curves = train("ppo_rnn", "memory_leak", total_timesteps=512 * 300, num_lines=10)
    assert curves["return"][-1, 0] > (solution.score + solution.score_if_leaking) / 2


def test_sac_learns_values_and_actions() -> None:
    parts, params, _ = train("sac", "continuous_action")
    for case in jaxrl.make("probe/continuous_action").solution.cases:
        obs, action = jnp.array(case.observation), jnp.array(case.action)
        mean = jnp.tanh(parts.actor.apply(params["actor"], obs).distribution.mean())
        np.testing.assert_allclose(mean, action, atol=0.15)
        np.testing.assert_allclose(parts.critics.apply(params["critics"], obs, action), case.value, atol=0.15)


@pytest.mark.parametrize("probe", ["hidden_state", "death"])
def test_mappos_critic_learns_values_that_only_the_global_state_tells(probe: str) -> None:
    parts, params, _ = train("mappo", probe)
    for case in jaxrl.make(f"probe/{probe}").solution.cases:
        obs, mask = jnp.tile(jnp.array(case.observation), (2, 1)), jnp.ones((2, 2), bool)
        seen = case.global_state if case.global_state else np.ravel(obs)
        policy, value = parts.network.apply(params, obs, mask, jnp.array(seen))
        if probe == "hidden_state":
            np.testing.assert_allclose(value, case.value, atol=0.15)
        else:
            assert int(policy.mode()[case.agent or 0]) == case.action


@pytest.mark.parametrize(("probe", "ids"), [("credit", False), ("roles", True), ("death", False)])
def test_ippo_learns_values_and_actions(probe: str, ids: bool) -> None:
    parts, params, _ = train("ippo", probe, agent_ids=ids)
    for case in jaxrl.make(f"probe/{probe}").solution.cases:
        number = case.agent or 0
        obs = jnp.array((*case.observation, *(np.eye(2)[number] if ids else ())))
        policy, value = parts.network.apply(params, obs, jnp.ones(2, bool))
        assert float(value) == pytest.approx(case.value, abs=0.3)
        assert int(policy.mode()) == case.action


def test_every_line_of_every_member_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, float]] = []
    run = SimpleNamespace(log=lambda row, step: rows.append({"step": step, **row}), finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda project, config: run))
    _, _, curves = train("ppo", "discounting", lr=(1e-2, 5e-3), total_timesteps=256 * 4, wandb="demo")
    assert [row["step"] for row in rows] == [512, 1024]
    assert [row["return/lr=0.005/0"] for row in rows] == list(curves["return"][:, 1])


@pytest.mark.parametrize("members", [("--num-seeds", "2", "--lr", "1e-2", "5e-3"), ("--num-seeds", "2")])
def test_four_devices_share_members_or_environments(members: tuple[str, ...]) -> None:
    """Four members are dealt out; of two, the environments."""
    flags = ["--env", "probe/action_reward", "--total-timesteps", "16384", "--num-lines", "2", "--plot", "", *members]
    done = subprocess.run(
        [sys.executable, "-m", "jaxrl.templates.ppo", *flags],
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    returns = [float(x) for x in done.stdout.splitlines()[-1].partition("return")[2].split()]
    assert len(returns) == (4 if "--lr" in members else 2)
    assert min(returns) > 0.9


@pytest.mark.parametrize("name", scripts())
def test_a_script_is_small_and_needs_of_jaxrl_environments_and_few_formulas(name: str) -> None:
    text = scripts()[name]
    assert 150 <= len(text.splitlines()) <= 300
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
    own = {alias.name for node in imports if str(node.module).startswith("jaxrl.") for alias in node.names}
    assert len(own - {"Box", "Discrete"}) <= 4
    modules = {str(node.module) for node in imports if str(node.module).startswith("jaxrl")}
    assert all(module.startswith(("jaxrl.rl.", "jaxrl.spaces", "jaxrl.nn.distributions")) for module in modules)


def test_in_a_users_folder_they_have_no_lint_and_are_formatted(tmp_path: Path) -> None:
    """With ruff's own settings, but for the order of imports, which depends on whose jaxrl is, and kinds of errors."""
    for name, text in scripts().items():
        (tmp_path / f"my_{name}.py").write_text(text, encoding="utf-8")
    for command in (["check", "--ignore", "I001,TRY004"], ["format", "--check", "--line-length", "120"]):
        words = [sys.executable, "-m", "ruff", *command, "--isolated", "."]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_all_are_typed() -> None:
    [folder] = templates.__path__
    words = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, folder]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_stands_beside_the_algorithms_is_the_same_in_all() -> None:
    assert len({text[text.index("def spread(") :] for text in scripts().values()}) == 1


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("ppo", {"env": "smax/3m"}, "try `jaxrl new ippo`"),
        ("ippo", {"env": "classic/cartpole"}, "try `jaxrl new ppo`"),
        ("sac", {"env": "classic/cartpole"}, "try `jaxrl new dqn`"),
        ("dqn", {"env": "classic/pendulum"}, "try `jaxrl new ppo`"),
        ("ppo", {"num_minibatches": 7}, "num_minibatches=7 does not divide"),
    ],
)
def test_what_does_not_fit_is_told(name: str, fields: dict[str, Any], words: str) -> None:
    script = importlib.import_module(f"jaxrl.templates.{name}")
    with pytest.raises(ValueError, match=words):
        script.make(script.Config(**fields))
