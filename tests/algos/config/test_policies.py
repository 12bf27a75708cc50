"""Policies that learn side by side with hyperparameters of their own: each learns as if all had its values."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import MODULES, agent_of

import jaxrl
from jaxrl.algos import ippo, mappo, self_play
from jaxrl.algos.on_policy import collect
from jaxrl.cli.flags import parse_flags
from jaxrl.rl.advantage import gae
from jaxrl.tuning.search_space import points

POLICIES = {"adversary_.*": "A", "agent_.*": "B"}
SMALL: dict[str, Any] = {
    "env": "mpe/simple_tag",
    "policies": POLICIES,
    "num_envs": 4,
    "num_steps": 8,
    "total_timesteps": 128,
    "update_epochs": 2,
    "num_minibatches": 2,
    "hidden": (4,),
    "optimizer": "adam",
    "lr": 1e-2,
    "clip_eps": 0.2,
    "normalise_reward": True,
    "max_grad_norm": 1e9,  # it would tie the policies together
}
OTHER = {"lr": 3e-2, "gamma": 0.5, "gae_lambda": 0.3, "clip_eps": 0.01, "ent_coef": 0.3, "vf_coef": 2.0}
ADVANTAGES = ("gamma", "gae_lambda")  # standardised together, so one policy's matter to the other
SEPARATE = [name for name in OTHER if name not in ADVANTAGES]


class Subject:
    """An algorithm, its shared hyperparameters and, compiled, its update."""

    def __init__(self, module: Any, config: Any):
        self.algo = module.make(config)
        self.update = jax.jit(self.algo.update)

    def after(self, state: Any, **shared: float) -> Any:
        """The parameters after an update with other values of shared hyperparameters."""
        return self.update(with_shared(state, **shared))[0].params


def with_shared(state: Any, **shared: float) -> Any:
    """The same state, random numbers included, with other values of shared hyperparameters."""
    now = {name: jnp.float32(value) for name, value in shared.items()}
    h = dataclasses.replace(state.hyperparams, **now)
    return dataclasses.replace(state, hyperparams=h, key=jax.random.clone(state.key))


def owned(*policies: str, names: Any = tuple(OTHER)) -> dict[str, float]:
    return {f"{policy}.{name}": OTHER[name] for policy in policies for name in names}


def of_set(params: Any, number: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[number], params)


def assert_close(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, other)


def furthest(one: Any, other: Any) -> float:
    return max(float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@pytest.fixture(scope="module")
def plain() -> Subject:
    return Subject(ippo, ippo.Config(**SMALL))


@pytest.fixture(scope="module")
def start(plain: Subject) -> Any:
    """A train state in which the old policy is not the new one's twin: values and memories are not at their start."""
    return plain.update(jax.jit(plain.algo.init)(jax.random.key(0)))[0]


@pytest.fixture(scope="module")
def only_a() -> Subject:
    """A has its own values of all that do not reach B."""
    return Subject(ippo, ippo.Config(**SMALL, policy_hyperparams=owned("A", names=SEPARATE)))


@pytest.mark.parametrize("name", OTHER)
def test_every_other_value_matters_to_both(plain: Subject, start: Any, name: str):
    """Otherwise the tests below would show nothing."""
    before, after = plain.after(start), plain.after(start, **{name: OTHER[name]})
    for number in (0, 1):
        assert furthest(of_set(before, number), of_set(after, number)) > 1e-4


def test_values_of_all_policies_are_as_the_shared_ones(plain: Subject, start: Any):
    both = Subject(ippo, ippo.Config(**SMALL, policy_hyperparams=owned("A", "B")))
    assert_close(both.after(start), plain.after(start, **OTHER))


def test_one_policy_learns_with_its_own_values_and_the_other_as_before(plain: Subject, start: Any, only_a: Subject):
    own = only_a.after(start)
    assert_close(of_set(own, 0), of_set(plain.after(start, **{name: OTHER[name] for name in SEPARATE}), 0))
    assert_close(of_set(own, 1), of_set(plain.after(start), 1))


def test_shared_values_are_swept_for_those_who_have_none_of_their_own(plain: Subject, start: Any, only_a: Subject):
    """By vmap: members of one program."""
    members = [{"lr": 1e-3, "vf_coef": 1.0}, {"lr": 5e-2, "vf_coef": 0.1}]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(with_shared(start, **each) for each in members))
    with jax.debug_key_reuse(False):  # it is wrong about keys in a vmapped scan
        swept = jax.jit(jax.vmap(only_a.algo.update))(states)[0].params
    own = only_a.after(start)
    for number, member in enumerate(members):
        trained = of_set(swept, number)
        assert_close(of_set(trained, 0), of_set(own, 0))
        assert_close(of_set(trained, 1), of_set(plain.after(start, **member), 1))


def advantages(config: Any) -> Callable[[Any], jax.Array]:
    agent = agent_of(ippo.make(config))

    def of(state: Any) -> jax.Array:
        h = agent.schedule(agent, state)
        _, seen = collect(agent, state, h)
        return gae(seen.reward, seen.discount, seen.cut, seen.traj.extras["value"], seen.next_value, h.gae_lambda)

    return jax.jit(of)


def test_the_advantages_of_each_agent_follow_its_policys_discounts(start: Any):
    """Scaled rewards too."""
    shared, own = (
        advantages(ippo.Config(**SMALL)),
        advantages(ippo.Config(**SMALL, policy_hyperparams=owned("A", names=ADVANTAGES))),
    )
    found = own(with_shared(start))
    elsewhere = shared(with_shared(start, **{name: OTHER[name] for name in ADVANTAGES}))
    assert_close(found[..., :3], elsewhere[..., :3])
    assert_close(found[..., 3], shared(with_shared(start))[..., 3])
    assert furthest(found[..., 3], elsewhere[..., 3]) > 0.01


def test_the_central_critic_of_mappo_has_no_policy_and_learns_at_the_shared_rate():
    names = [name for name in OTHER if name != "lr"]
    fields = {**SMALL, "critic_hidden": (4,)}
    plain = Subject(mappo, mappo.Config(**fields))
    own = Subject(mappo, mappo.Config(**fields, policy_hyperparams={**owned("A", "B", names=names), "A.lr": 3e-2}))
    start = plain.update(jax.jit(plain.algo.init)(jax.random.key(0)))[0]
    others = {name: OTHER[name] for name in names}
    found, slow, fast = own.after(start), plain.after(start, **others), plain.after(start, **others, lr=3e-2)
    assert_close(found["critic"], slow["critic"])
    assert_close(of_set(found["actor"], 1), of_set(slow["actor"], 1))
    assert_close(of_set(found["actor"], 0), of_set(fast["actor"], 0))
    assert furthest(slow["critic"], fast["critic"]) > 1e-3


def now(update: int, **fields: Any) -> Any:
    """The hyperparameters of IPPO in an update."""
    config = ippo.Config(**{**SMALL, **fields})
    state = SimpleNamespace(hyperparams=config.hyperparams, update=jnp.int32(update))
    agent = agent_of(ippo.make(config))
    return agent.schedule(agent, state)


def test_schedules_apply_to_a_policys_own_value():
    h = now(
        1,  # of 4
        policy_hyperparams={"A.lr": 0.4, "B.gamma": 0.8, "B.clip_eps": 0.1},
        schedules=("gamma=linear:0.5",),
        gamma=1.0,
    )
    np.testing.assert_allclose(h.lr, [0.3, 0.0075], rtol=1e-6)
    np.testing.assert_allclose(h.gamma, [0.875, 0.875, 0.875, 0.7], rtol=1e-6)
    np.testing.assert_allclose(h.clip_eps, [0.2, 0.2, 0.2, 0.1], rtol=1e-6)
    assert {name for name, leaf in vars(h).items() if np.ndim(leaf)} == {"lr", "gamma", "clip_eps"}


def test_policies_are_found_whatever_the_order_of_agents_and_patterns():
    """And agents without a policy have the shared values."""
    policies = {"agent_0": "B", "adversary_1": "A"}
    h = now(0, policies=policies, policy_hyperparams={"A.lr": 0.5, "B.lr": 0.25, "A.ent_coef": 0.5}, ent_coef=0.0)
    np.testing.assert_allclose(h.lr, [0.01, 0.5, 0.25])  # sets are numbered by their first agents
    np.testing.assert_allclose(h.ent_coef, [0.0, 0.5, 0.0, 0.0])


def test_a_policy_that_plays_everybody_has_single_values():
    """Its parameters have no axis of parameter sets, and it may learn from some of the agents only."""
    fields = {**SMALL, "policies": {".*": "A"}, "agents_per_step": 2}
    h = now(0, **fields, policy_hyperparams=owned("A"))
    assert {np.shape(leaf) for leaf in vars(h).values()} == {()}
    plain = Subject(ippo, ippo.Config(**fields))
    own = Subject(ippo, ippo.Config(**fields, policy_hyperparams=owned("A")))
    start = jax.jit(plain.algo.init)(jax.random.key(0))
    assert_close(own.after(start), plain.after(start, **OTHER))


def test_self_play_trains_and_records_them(tmp_path: Path):
    config = self_play.Config(
        env="matrix/rock_paper_scissors",
        policies={"player_0": "A", "player_1": "B"},
        policy_hyperparams={"A.lr": 1e-30},
        num_opponents=1,
        snapshot_every=100,
        **{name: SMALL[name] for name in ("num_envs", "num_steps", "total_timesteps", "hidden", "num_minibatches")},
    )
    jaxrl.fit(self_play.make(config), config, tmp_path / "run", num_seeds=2, quiet=True, pictures=False)
    run = jaxrl.load(tmp_path / "run")
    assert run.config == config
    assert run.config.policy_hyperparams == ("A.lr=1e-30",)
    trained = run.member(1).state
    untrained = of_set(trained.pool.params, 0)
    assert furthest(of_set(trained.params, 0), of_set(untrained, 0)) < 1e-20
    assert furthest(of_set(trained.params, 1), of_set(untrained, 1)) > 1e-3


def test_the_command_line_takes_them():
    words = ["--env", "mpe/simple_tag", "--policies", "adversary_.*=A", "agent_.*=B"]
    words += ["--policy-hyperparams", "A.lr=1e-3", "B.ent_coef=0.02"]
    config = parse_flags("ippo", MODULES["ippo"], words)[0]
    assert config.own_hyperparams == {"lr": {"A": 1e-3}, "ent_coef": {"B": 0.02}}


def test_a_shared_value_that_every_policy_overrides_cannot_be_swept():
    both = {**SMALL, "policy_hyperparams": {"A.lr": 0.1, "B.lr": 0.2, "A.ent_coef": 0.5}}
    with pytest.raises(ValueError, match="lr changes nothing: policy_hyperparams gives every policy its own"):
        points(ippo.Config(**both), {"lr": [0.1, 0.2]}, 1)
    assert len(points(ippo.Config(**both), {"ent_coef": [0.1, 0.2]}, 1)) == 2  # B has the shared one
    assert len(points(mappo.Config(**both), {"lr": [0.1, 0.2]}, 1)) == 2  # and so has the central critic
    some = {**SMALL, "policies": {"agent_0": "A"}, "policy_hyperparams": {"A.lr": 0.1}}
    assert len(points(ippo.Config(**some), {"lr": [0.1, 0.2]}, 1)) == 2  # and so have agents without a policy


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (("lr=0.1",), r"needs POLICY.NAME=VALUE, such as A.lr=0.001; got 'lr=0.1'"),
        (("A.lr",), r"needs POLICY.NAME=VALUE"),
        ({"C.lr": 0.1}, r"policies has no C that learns; there is A, B"),
        ({"A.rate": 0.1}, r"can have its own lr, gamma, gae_lambda, clip_eps, ent_coef, vf_coef; got 'A.rate=0.1'"),
        ({"A.hidden": 8}, r"can have its own lr"),
        ({"A.max_grad_norm": 0.1}, r"all policies together, so A has none of its own; use max_grad_norm=0.1"),
        ({"A.lr": "fast"}, r"'fast' in 'A.lr=fast' is not a number"),
        ({"A.lr": "nan"}, r"A.lr=nan is not allowed: lr must be a finite number"),
        ({"A.lr": 0.0}, r"A.lr=0.0 is not allowed: lr must be positive, got 0.0"),
        ({"B.gamma": 1.5}, r"B.gamma=1.5 is not allowed: gamma must lie between 0 and 1"),
        (("A.lr=0.1", "A.lr=0.2"), r"two entries for A.lr; leave one out"),
    ],
)
def test_what_no_policy_can_have_is_told(pairs: Any, message: str):
    with pytest.raises(ValueError, match=f"policy_hyperparams.*{message}"):
        ippo.Config(**SMALL, policy_hyperparams=pairs)


def test_a_policy_that_is_held_fixed_has_none():
    fields = {**SMALL, "policies": {"agent_0": "random"}}
    with pytest.raises(ValueError, match=r'no random that learns; name one, such as policies="agent_.\*=A"'):
        ippo.Config(**fields, policy_hyperparams={"random.lr": 0.1})


def test_without_policies_there_is_nobody_to_have_them():
    fields = {**SMALL, "policies": ()}
    with pytest.raises(ValueError, match=r"policy_hyperparams=.* has no effect with policies=\(\).*name policies"):
        ippo.Config(**fields, policy_hyperparams={"A.lr": 0.1}).make_env()
