"""What actors and critics of continuous actions share: distributions of returns by slow NumPy, what is seen, boxes."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family import agent_of
from observed import DONE, Team
from replayed import SMALL, windows

import jaxrl
from jaxrl.acting.rollout import Observation
from jaxrl.algos import iql, sac, td3
from jaxrl.algos.actor_critic import critic_loss, joint_size, joint_view, predictions_of
from jaxrl.algos.off_policy import bootstrap_steps
from jaxrl.nn.distributions import Noisy
from jaxrl.nn.heads import bounds_of
from jaxrl.rl.losses import C51

LOW, HIGH = bounds_of(DONE["wide"])
AGENTS, CRITICS, GAMMA = 2, 2, 0.9
ATOMS = C51(-2.0, 3.0, 51).atoms.astype(float)
WIDTH = ATOMS[1] - ATOMS[0]


def softmax(logits):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def slow_target(seen, row, i, probabilities, bonus, pessimism):
    """The distribution of the return of agent `i` in a window, atom by atom."""

    def joint(t, j):
        own = probabilities[t, row, j]
        return own.mean(0) if pessimism == "mean" else own[np.argmin(own @ ATOMS)]

    total, factor, target = 0.0, 1.0, np.zeros(len(ATOMS))
    outcomes = None
    for t, ends in enumerate(seen.ends[:, row]):
        if t == len(seen.ends) - 1 or (t and ends == "truncated"):
            living = [j for j in range(AGENTS) if seen.alive[t, row, j]]
            who = [i] if seen.alive[t, row, i] else living
            if who:
                mixture = np.mean([joint(t, j) for j in who], axis=0)
                shift = np.mean([bonus[t, row, j] for j in who])
                outcomes = [(p, total + factor * (z + shift)) for p, z in zip(mixture, ATOMS, strict=True)]
            break
        total += factor * seen.reward[t, row, i]
        if ends == "terminated":
            break
        factor *= GAMMA
    for p, outcome in outcomes or [(1.0, total)]:
        place = (np.clip(outcome, ATOMS[0], ATOMS[-1]) - ATOMS[0]) / WIDTH
        below = min(int(place), len(ATOMS) - 2)
        target[below] += p * (below + 1 - place)
        target[below + 1] += p * (place - below)
    return target


@pytest.mark.parametrize(("n", "pessimism"), [pytest.param(1, "min", marks=pytest.mark.slow), (2, "mean"), (2, "min")])
def test_the_distribution_of_returns_is_that_of_a_loop(n, pessimism):
    """All histories of terminated and truncated steps, with the living, the dead, and whole teams of them."""
    fields = {"value_loss": "c51", "value_range": (-2.0, 3.0), "pessimism": pessimism, "n_step": n}
    agent = agent_of(td3.make(td3.Config(**SMALL, env=Team(done="wide"), **fields)))
    seen, rng = windows(n, AGENTS, 4, LOW, HIGH), np.random.default_rng(1)
    seen = dataclasses.replace(seen, alive=seen.alive & (rng.random(seen.ends.shape) < 0.7)[..., None])
    shape = (*seen.alive.shape, CRITICS, len(ATOMS))
    logits, bonus = rng.normal(size=shape), rng.normal(size=shape[:3])
    params = rng.normal(size=(4 + 2, CRITICS, len(ATOMS)))

    def linear(params, observation, action):
        return jnp.tensordot(jnp.concatenate([observation.obs, action], axis=-1), params, 1)

    agent = dataclasses.replace(agent, networks=agent.networks._replace(evaluate=linear))
    after = bootstrap_steps(agent.config, seen.batch.steps)
    # What bootstrap_steps takes of the observations, it takes of anything that lies beside them.
    beside = seen.batch.steps._replace(action=jnp.float32(logits), reward=jnp.float32(bonus))
    taken = bootstrap_steps(agent.config, beside)
    of_params = jax.jit(
        lambda p: critic_loss(agent, GAMMA, p, seen.batch, after, jnp.asarray(taken.action), taken.reward)
    )
    loss, _ = of_params(jnp.float32(params))

    inputs = np.concatenate([seen.obs[0], seen.action[0]], axis=-1)
    predicted = np.log(softmax(np.tensordot(inputs, params, 1)))
    expected = []
    for row, i in seen.learned:
        target = slow_target(seen, row, i, softmax(logits), bonus, pessimism)
        np.testing.assert_allclose(target.sum(), 1.0)
        expected.append(-sum(target @ predicted[row, i, k] for k in range(CRITICS)))
    np.testing.assert_allclose(loss, np.mean(expected), rtol=1e-5)


class Hidden(Team):
    """The global state tells what the observations do not."""

    def global_state(self, state: Any, params: Any = None) -> jax.Array:
        return jnp.stack([jnp.float32(state), jnp.float32(state) ** 2, jnp.float32(1)])


@pytest.mark.parametrize(
    ("module", "sharing"),
    [
        (sac, "none"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((sac, "all"), (td3, "all"), (td3, "none"))),
    ],
)
def test_central_critics_see_the_global_state_and_actors_do_not(module, sharing):
    """Of three numbers in it, each changes the value of an action, and none the action."""
    env = Hidden(done="wide")
    algo = module.make(module.Config(**SMALL, env=env, central_critic=True, sharing=sharing))
    agent, state = agent_of(algo), jax.jit(algo.init)(jax.random.key(0))
    for _ in range(2):
        state, _ = jax.jit(algo.update)(state)
    state, metrics = jax.jit(algo.update)(state)
    assert metrics["losses"]["value"] > 0
    stored = state.replay.steps.observation.global_state
    assert stored.shape[-1] == 3
    assert set(np.unique(stored[..., 0])) == {0, 1, 2}

    rng, one = np.random.default_rng(0), (1, 5)
    obs, action = jnp.float32(rng.normal(size=(*one, 2, 6))), jnp.float32(rng.uniform(LOW, HIGH, size=(*one, 2, 2)))
    alive, reset = jnp.ones((*one, 2), bool), jnp.zeros(one, bool)
    values, actions = [], []
    for world in np.concatenate([np.zeros((1, 3)), np.eye(3)]):
        seen = Observation(obs, jnp.broadcast_to(jnp.float32(world), (*one, 3)), None, alive)
        values.append(predictions_of(agent, state.params, seen, action))
        actions.append(agent.networks.apply(state.params, (), seen, reset)[1].mode())
    assert values[0].shape == (*one, 2, 2)
    for a, b in itertools.combinations(values, 2):
        assert np.abs(a - b).min() > 0
    for other in actions[1:]:
        np.testing.assert_array_equal(actions[0], other)


def test_central_critics_need_a_global_state():
    with pytest.raises(ValueError, match=r"central_critic=True has no effect with env=.*a global state"):
        td3.make(td3.Config(central_critic=True))


@pytest.mark.parametrize(
    "env",
    [
        "mpe/simple_speaker_listener?action_type=continuous",  # a word of three numbers or a move of five, and a state
        "mpe/simple_tag?action_type=continuous",  # two teams
        Team(seen="floats", done="wide"),
        Team(seen="class", done="wide"),
        Team(seen="bytes", done="bounded"),
    ],
    ids=["uneven actions", "two teams", "floats", "classes", "bytes"],
)
def test_a_joint_critic_is_given_what_a_loop_finds(env):
    """The others' actions in half-widths, the agent's number, and the state or the others' observations; no absent."""
    env = jaxrl.make(env) if isinstance(env, str) else env
    rng, count, (low, high) = np.random.default_rng(0), env.num_agents, bounds_of(env.action_space())
    lead = (2, 3, count)
    obs = np.stack([[env.reset(jax.random.key(10 * t + b))[0] for b in range(3)] for t in range(2)])
    action, alive = rng.uniform(low, high, size=(*lead, *low.shape)), rng.random(lead) < 0.6
    state = rng.normal(size=(2, 3, 4)) if env.has_global_state else None

    def encoded(t, b, j):
        if not alive[t, b, j]:
            return np.zeros(5 if obs.ndim == 3 else obs.shape[-1])
        if obs.ndim == 3:
            return np.eye(5)[obs[t, b, j]]
        return obs[t, b, j] / 255 if obs.dtype == np.uint8 else obs[t, b, j]

    wanted = []
    for t, b, i in np.ndindex(*lead):
        numbers = []
        for j in range(count):
            own = env.agent_action_spaces[env.agents[j]].shape[0]
            done = [
                2 * (action[t, b, j, k] - low[k]) / (high[k] - low[k]) - 1 if k < own and alive[t, b, j] else 0.0
                for k in range(low.shape[0])
            ]
            numbers.extend(done if j != i else [])
        numbers.extend(np.eye(count)[i])
        numbers.extend(state[t, b] if state is not None else [])
        others = [encoded(t, b, j) for j in range(count) if j != i] if state is None else []
        wanted.append(np.concatenate([numbers, *others]))
    seen = Observation(jnp.asarray(obs), None if state is None else jnp.float32(state), None, jnp.asarray(alive))
    found = joint_view(env, seen, jnp.float32(action))
    np.testing.assert_allclose(found, np.reshape(wanted, (*lead, -1)), atol=1e-5)
    if not env.has_global_state:
        assert joint_size(env) == found.shape[-1]


@pytest.mark.parametrize(
    ("module", "sharing"),
    [
        (td3, "none"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((td3, "all"), (sac, "all"), (sac, "none"))),
    ],
)
def test_joint_values_depend_on_all_actions_and_teach_each_agent_its_own(module, sharing):
    """All agents' values follow all actions and observations of the living, and have a gradient to their own action."""
    env = Team(done="wide")
    algo = module.make(module.Config(**SMALL, env=env, joint_critic=True, sharing=sharing))
    agent, state, update = agent_of(algo), jax.jit(algo.init)(jax.random.key(0)), jax.jit(algo.update)
    for _ in range(2):
        state, _ = update(state)
    state, metrics = update(state)
    assert metrics["losses"]["value"] > 0
    assert state.replay.steps.observation.global_state is None  # the observations are not stored twice

    rng = np.random.default_rng(0)
    obs, action = (jnp.float32(rng.uniform(-1, 1, size=(1, 1, AGENTS, size))) for size in (6, 2))

    @jax.jit
    def values(obs, action, alive):
        return predictions_of(agent, state.params, Observation(obs, None, None, alive), action).sum(axis=-1)[0, 0]

    both = jnp.ones((1, 1, AGENTS), bool)
    before = values(obs, action, both)
    assert np.abs(values(obs, action.at[:, :, 1].add(0.5), both) - before).min() > 1e-4
    assert np.abs(values(obs.at[:, :, 1].add(0.5), action, both) - before).min() > 1e-4
    slopes = np.abs(jax.jacobian(values, argnums=1)(obs, action, both)[:, 0, 0]).max(axis=-1)  # [value, agent]
    np.testing.assert_array_equal(slopes > 0, np.eye(AGENTS, dtype=bool))

    alone = both.at[:, :, 1].set(False)
    of_absent = values(obs.at[:, :, 1].add(0.5), action.at[:, :, 1].add(0.5), alone)
    assert of_absent[0] == values(obs, action, alone)[0] != before[0]


def test_joint_critics_need_mates_and_have_the_state_already():
    with pytest.raises(ValueError, match=r"joint_critic=True has no effect with env=.*; .* with several agents"):
        sac.make(sac.Config(joint_critic=True))
    env = "mpe/simple_spread?action_type=continuous"
    with pytest.raises(ValueError, match=r"central_critic=True has no effect with joint_critic=True; .* leave out joi"):
        td3.make(td3.Config(env=env, joint_critic=True, central_critic=True))


def test_pessimism_needs_several_critics():
    with pytest.raises(ValueError, match=r"pessimism=mean has no effect with num_critics=1; .* choose num_critics=2"):
        sac.make(sac.Config(num_critics=1, pessimism="mean"))
    sac.make(sac.Config(num_critics=1))


def test_noise_grows_from_environment_to_environment():
    """From its least in the first to its most in the last, over all devices."""
    config = td3.Config(**SMALL, env=Team(done="bounded"), exploration_noise=0.4, exploration_noise_min=0.1)
    agent = agent_of(td3.make(config))
    state = jax.jit(td3.make(config).init)(jax.random.key(0))
    still = Noisy(*(jnp.full((1, 4, AGENTS, 2), bound) for bound in (0.0, -1.0, 1.0)))
    noisy = agent.behaviour(dataclasses.replace(state, update=jnp.int32(9)), still).policy
    np.testing.assert_allclose(noisy.std[0, :, 0, 0], [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    np.testing.assert_array_equal(noisy.std, np.broadcast_to(noisy.std[:, :, :1, :1], noisy.std.shape))
    falling = dataclasses.replace(config, schedules=("exploration_noise=linear",))
    noise_at_the_end = agent_of(td3.make(falling)).behaviour(
        dataclasses.replace(state, update=jnp.int32(falling.num_updates)), still
    )
    np.testing.assert_allclose(noise_at_the_end.policy.std, 0.0, atol=1e-6)
    with pytest.raises(ValueError, match=r"exploration_noise_min=0.5 is more than exploration_noise=0.1; use at most"):
        td3.Config(exploration_noise_min=0.5)


@pytest.mark.usefixtures("toys")
def test_actions_need_a_finite_box():
    with pytest.raises(TypeError, match=r"Discrete\(n=2\), and sac needs those of a Box; use dqn, ppo or ippo"):
        sac.make(sac.Config(env="classic/cartpole"))
    with pytest.raises(TypeError, match=r"MultiDiscrete.*, and sac needs those of a Box; use ppo or ippo"):
        sac.make(sac.Config(env="toy/alone?done=several"))
    for done in ("unbounded", "widest"):  # the width of the widest is no float
        with pytest.raises(ValueError, match="sac needs finite bounds that differ; use ppo or ippo"):
            sac.make(sac.Config(env=f"toy/alone?done={done}"))


def test_where_actions_do_not_fit_ppo_is_not_named_for_several_agents():
    with pytest.raises(TypeError, match="sac needs those of a Box; use dqn or ippo"):
        sac.make(sac.Config(env="mpe/simple_spread"))
    with pytest.raises(TypeError, match="iql needs Discrete ones; use sac, td3 or ippo"):
        iql.make(iql.Config(env="mpe/simple_spread?action_type=continuous"))


@pytest.mark.usefixtures("toys")
def test_the_buffer_holds_the_actions_of_a_box_of_whole_numbers_as_they_were_drawn():
    """The actor draws them between whole numbers too, and is told what they are worth there."""
    algo = sac.make(sac.Config(**{**SMALL, "env": "toy/alone?done=whole"}))
    state, _ = jax.jit(algo.update)(jax.jit(algo.init)(jax.random.key(0)))
    action = np.asarray(state.replay.steps.action)[:, 0]
    assert np.all((action >= 0) & (action <= 10))
    assert np.all(action != np.round(action))


@pytest.mark.parametrize(
    ("module", "interval", "wanted"),
    [
        (sac, 6, [False, True, True, False]),  # of the critics' steps 1 to 4, 5 to 8, 9 to 12 and 13 to 16, each sixth
        (td3, 4, [False, True, False, True]),  # of the actor's steps 1 and 2, 3 and 4, and so on, each fourth
    ],
)
def test_targets_move_at_every_so_many_steps(module, interval, wanted):
    config = module.Config(**{**SMALL, "learning_starts": 0}, policy_delay=2, target_update_interval=interval)
    algo, moved = module.make(config), []
    update, state = jax.jit(algo.update), jax.jit(algo.init)(jax.random.key(0))
    for _ in wanted:
        before, (state, _) = state.target, update(state)
        moved.append(not np.array_equal(jax.tree.leaves(before)[1], jax.tree.leaves(state.target)[1]))
    assert moved == wanted
