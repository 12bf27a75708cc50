"""Bodies as teams: what each agent drives and observes, and that joined actions step the body as one agent's do."""

import functools
import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl

pytest.importorskip("brax")
from brax.envs.base import State

from jaxrl.algos import ippo
from jaxrl.interop.brax import FromPhysics
from jaxrl.interop.split import Split

mujoco: Any = pytest.importorskip("mujoco")  # which has no types

CRAWLER = """
<mujoco>
  <worldbody>
    <body name="torso"><freejoint name="root"/><geom size=".1"/>
      <body name="left_upper"><joint name="left_hip"/><geom size=".1"/>
        <body name="left_middle"><geom size=".1"/>
          <body name="left_lower"><joint name="left_knee"/><geom size=".1"/></body></body></body>
      <body name="right_upper"><joint name="right_hip"/><geom size=".1"/>
        <body name="right_lower"><joint name="right_knee"/><geom size=".1"/></body></body>
      <body name="tail"><joint name="tail"/><geom size=".1"/></body>
    </body>
    <body name="ball"><joint name="ball_x" type="slide" axis="1 0 0"/><geom size=".1"/></body>
  </worldbody>
  <actuator>
    <motor name="push" joint="right_hip"/><motor joint="left_knee"/><motor joint="right_knee"/><motor joint="left_hip"/>
  </actuator>
</mujoco>
"""
ROOT = (*(f"qpos root {i}" for i in range(2, 7)), "qpos tail", "qpos ball_x")
ROOT = (*ROOT, *(f"qvel root {i}" for i in range(6)), "qvel tail", "qvel ball_x")
REST = [
    *("left_elbow", "right_elbow", "right_shoulder1", "right_shoulder2", "abdomen_x", "abdomen_y", "abdomen_z"),
    *(f"{side}_{joint}" for side in ("left", "right") for joint in ("hip_x", "hip_y", "hip_z", "knee")),
]
UNEVEN = {"left": ["left_hip", "left_knee", "right_knee"], "right": ["push"]}


class Pose(NamedTuple):
    q: jax.Array
    qd: jax.Array


class Crawler:
    """A body in weightless jelly: forces move its joints, it runs towards small knees and stops at a large one.

    Its actuators stand in another order than its joints, between a hip and a knee is a part without a joint, and
    nothing drives its tail or a ball beside it. It looks like one of brax's, and compiles at once.
    """

    action_size = 4
    unwrapped = property(lambda self: self)

    def __init__(self, xml: str = CRAWLER) -> None:
        self.sys = SimpleNamespace(mj_model=mujoco.MjModel.from_xml_string(xml))

    def reset(self, rng: jax.Array) -> State:
        keys, model = jax.random.split(rng), self.sys.mj_model
        pose = Pose(jax.random.normal(keys[0], (model.nq,)), jax.random.normal(keys[1], (model.nv,)))
        zero = jnp.zeros(())
        return State(pose, jnp.concatenate(pose), zero, zero, {"force": zero})  # pyright: ignore[reportArgumentType]

    def step(self, state: Any, action: jax.Array) -> State:
        model, (q, qd) = self.sys.mj_model, state.pipeline_state
        dof = model.jnt_dofadr[model.actuator_trnid[:, 0]]
        qd = 0.9 * qd.at[dof].add(action)
        q = q.at[dof + 1].add(0.1 * qd[dof])
        knees = q[jnp.array([8, 10])]
        state.metrics["force"] = jnp.abs(action).sum()
        done = (jnp.abs(knees).max() > 4).astype(jnp.float32)
        reward = -jnp.square(knees).sum() - 0.1 * jnp.square(action).sum()
        return state.replace(pipeline_state=Pose(q, qd), obs=jnp.concatenate([q, qd]), reward=reward, done=done)


def crawler(split: Any, **options: Any) -> Split:
    return Split(FromPhysics(Crawler(), "crawler", 20, 1), split, **options)


@functools.cache
def made(name: str) -> Any:
    if name.startswith("mjx"):
        pytest.importorskip("mujoco_playground")
    return jaxrl.make(name)


@functools.cache
def team_of(name: str, split: str, hops: int) -> Split:
    return Split(made(name), split, observe_joints=hops)


def test_all_is_read_from_the_model_by_name() -> None:
    """Neighbours are found over a part without a joint and at the root; what nobody drives, everyone observes."""
    own = ("qpos left_hip", "qvel left_hip")
    near = ("qpos left_knee", "qpos right_hip")
    far = ("qpos right_knee",)
    for hops, seen in enumerate((own, own + near, own + near + far, own + near + far)):
        assert crawler("4x1", observe_joints=hops).observed["agent_0"] == seen + ROOT
    team = crawler("4x1")
    assert team.agents == ("agent_0", "agent_1", "agent_2", "agent_3")
    assert list(team.actuators.values()) == [(3,), (1,), (0,), (2,)]  # the order of the joints
    assert list(crawler("2x2").actuators.values()) == [(3, 1), (0, 2)]
    assert crawler(UNEVEN).actuators == {"left": (3, 1, 2), "right": (0,)}
    assert crawler({"b": ["right_hip", "left_hip"], "a": ["right_knee", "left_knee"]}).actuators == {
        "b": (0, 3),
        "a": (2, 1),
    }


def test_own_joints_come_first_and_short_ones_are_padded() -> None:
    team = crawler(UNEVEN, observe_joints=0)
    model = team.env.sys.mj_model
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = np.arange(model.nq) + 100, np.arange(model.nv) + 200
    ball, tail, hip = data.joint("ball_x"), data.joint("tail"), data.joint("right_hip")
    root = [*data.qpos[2:7], tail.qpos[0], ball.qpos[0], *data.qvel[:6], tail.qvel[0], ball.qvel[0]]
    left = [(data.joint(name).qpos[0], data.joint(name).qvel[0]) for name in ("left_hip", "left_knee", "right_knee")]
    seen = team.observe(jnp.asarray(data.qpos), jnp.asarray(data.qvel))
    np.testing.assert_array_equal(seen[0], [*np.ravel(left), *root])
    np.testing.assert_array_equal(seen[1], [hip.qpos[0], hip.qvel[0], *root, 0, 0, 0, 0])
    assert [space.shape for space in team.agent_observation_spaces.values()] == [(21,), (17,)]
    assert [space.shape for space in team.agent_action_spaces.values()] == [(3,), (1,)]
    assert (team.teams, team.roles, team.kinds) == ((0, 0), (0, 1), {"agent": (0, 1)})


def bodies(splits: dict[str, tuple[str, ...]], fast: tuple[str, ...]) -> list[Any]:
    """The names of bodies with their splits; those that are not fast to load are tested among the slow ones."""
    slow = {name: () if name in fast else pytest.mark.slow for name in splits}
    return [pytest.param(name, split, marks=slow[name]) for name, own in splits.items() for split in own]


SPLITS = {
    "brax:ant": ("4x2", "2x4", "2x4d", "joints"),
    "brax:halfcheetah": ("2x3", "6x1"),
    "brax:hopper": ("3x1",),
    "brax:walker2d": ("2x3", "6x1"),
    "brax:humanoid": ("9|8", "17x1"),
    "brax:pusher": ("3p",),
    "mjx:CheetahRun": ("6x1", "3x2"),
    "mjx:FishSwim": ("5x1",),
}


@pytest.mark.parametrize(("name", "split"), bodies(SPLITS, fast=("brax:ant", "mjx:CheetahRun")))
def test_an_agent_drives_what_it_observes_and_nothing_else(name: str, split: str) -> None:
    """By MuJoCo's own word: its forces act on the joints whose velocities it alone observes."""
    team, model = team_of(name, split, 0), made(name).mj_model
    action = np.random.default_rng(0).uniform(0.1, 1, model.nu).astype(np.float32)
    parts = np.asarray(team.share_out(jnp.asarray(action)))
    np.testing.assert_array_equal(team.join(jnp.asarray(parts)), action)
    assert sorted(actuator for own in team.actuators.values() for actuator in own) == list(range(model.nu))

    def forces(parts: np.ndarray) -> np.ndarray:
        data = mujoco.MjData(model)
        data.ctrl[:] = team.join(jnp.asarray(parts))
        mujoco.mj_forward(model, data)
        return data.qfrc_actuator.copy()

    together = forces(parts)
    for i, seen in enumerate(team.observed.values()):
        joints = [label.removeprefix("qvel ") for label in seen if label.startswith("qvel") and "root " not in label]
        own = np.isin(np.arange(model.nv), [model.joint(joint).dofadr[0] for joint in joints]) & (together != 0)
        alone = np.where(np.arange(len(parts))[:, None] == i, parts, 0)
        assert ((forces(alone) != 0) == own).all()
        np.testing.assert_array_equal(forces(parts - alone)[~own], together[~own])


@pytest.mark.parametrize(
    ("name", "split"), bodies({"brax:ant": ("4x2",), "brax:halfcheetah": ("6x1",)}, fast=("brax:ant",))
)
def test_more_hops_show_more_and_all_shows_everything(name: str, split: str) -> None:
    single, teams = made(name), [team_of(name, split, hops) for hops in range(6)]
    rng, size = np.random.default_rng(1), (single.mj_model.nq, single.mj_model.nv)
    pose = Pose(*(jnp.asarray(rng.normal(size=n, scale=5), jnp.float32) for n in size))
    whole = single.env._get_obs(SimpleNamespace(q=pose.q, qd=pose.qd))
    for i, agent in enumerate(teams[0].agents):
        for fewer, more in itertools.pairwise(teams):
            assert set(fewer.observed[agent]) <= set(more.observed[agent])
        assert np.isin(teams[-1].observe(*pose)[i], [*whole, 0]).all()
    everything = Split(single, split, observe_joints="all")
    state = SimpleNamespace(env_state=SimpleNamespace(obs=whole))
    np.testing.assert_array_equal(everything.observation(state), np.tile(whole, (everything.num_agents, 1)))
    np.testing.assert_array_equal(everything.global_state(state), whole)


@pytest.mark.slow
def test_neighbours_are_those_of_mamujoco() -> None:
    """Its hyperedges: legs meet at the torso, and a humanoid's arms do not."""
    ant = team_of("brax:ant", "joints", 1).observed
    assert ant["agent_0"][:6] == (
        "qpos hip_1",
        "qvel hip_1",
        *(f"qpos {j}" for j in ("ankle_1", "hip_2", "hip_3", "hip_4")),
    )
    assert ant["agent_1"][:3] == ("qpos ankle_1", "qvel ankle_1", "qpos hip_1")
    humanoid = Split(made("brax:humanoid"), {"arm": ["left_shoulder1", "left_shoulder2"], "rest": REST}).observed["arm"]
    assert [label for label in humanoid if "root" not in label] == [
        *("qpos left_shoulder1", "qvel left_shoulder1", "qpos left_shoulder2", "qvel left_shoulder2"),
        *("qpos abdomen_x", "qpos abdomen_y", "qpos abdomen_z", "qpos left_elbow"),
    ]


@pytest.mark.parametrize(
    ("scenario", "split"),
    [
        *(("HalfCheetah", split) for split in ("2x3", "6x1")),
        *(("Ant", split) for split in ("2x4", "2x4d", "4x2")),
        *(("Hopper", "3x1"), ("Walker2d", "2x3"), ("Humanoid", "9|8")),
    ],
)
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_observes_and_acts_as_in_gymnasium_robotics(scenario: str, split: str, hops: int) -> None:
    obsk = pytest.importorskip("gymnasium_robotics.envs.multiagent_mujoco.obsk")
    parts, edges, root = obsk.get_parts_and_edges(scenario, split)
    name, rng = f"brax:{scenario.lower()}", np.random.default_rng(2)
    model, team = made(name).mj_model, team_of(name, split, hops)
    data = SimpleNamespace(qpos=rng.normal(size=model.nq, scale=9), qvel=rng.normal(size=model.nv, scale=9))
    seen = team.observe(jnp.asarray(data.qpos), jnp.asarray(data.qvel))
    for i, (part, own) in enumerate(zip(parts, team.actuators.values(), strict=True)):
        near = obsk.get_joints_at_kdist(part, edges, hops)
        theirs = obsk.build_obs(data, near, [["qpos", "qvel"], ["qpos"], ["qpos"]], root, ("qpos", "qvel"))
        ours = np.asarray(seen[i, : len(theirs)])
        if scenario == "Humanoid":  # whose abdomen_y and abdomen_z are the wrong way round there
            theirs, ours = np.sort(theirs), np.sort(ours)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        assert not seen[i, len(theirs) :].any()
        assert own == tuple(node.act_ids for node in part)


def steps_as_one(team: Split, steps: int) -> None:
    """Step a body by its agents' parts of random actions and by these themselves: every bit is the same."""
    single = team.single
    step, team_step = jax.jit(single.step_env), jax.jit(team.step_env)
    _, state = jax.jit(single.reset)(jax.random.key(0))
    _, shared = jax.jit(team.reset)(jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), steps):
        whole = single.action_space().sample(key)
        with jax.debug_key_reuse(False):
            _, state, reward, *over = step(key, state, 1.2 * whole, None)  # some are out of bounds
            obs, shared, rewards, *overs = team_step(key, shared, team.share_out(1.2 * whole), None)
        expected = (state, jnp.full(team.num_agents, reward), over)
        jax.tree.map(np.testing.assert_array_equal, (shared, rewards, overs), expected)
        np.testing.assert_array_equal(team.observe(*single.joint_state(state)), obs)


def test_joined_actions_step_the_body_as_one_agent_does() -> None:
    steps_as_one(crawler(UNEVEN), 30)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), [("hopper", "3x1"), ("ant", "4x2")])
def test_joined_actions_step_a_body_of_brax_as_one_agent_does(name: str, split: str) -> None:
    steps_as_one(jaxrl.make(f"brax:{name}?backend=spring&split={split}"), 100)


@pytest.mark.slow
def test_joined_actions_step_a_body_of_playground_as_one_agent_does() -> None:
    pytest.importorskip("mujoco_playground")
    steps_as_one(jaxrl.make("mjx:CheetahRun?split=6x1"), 20)


@pytest.mark.parametrize("hops", [1, pytest.param("all", marks=pytest.mark.slow)])
def test_keeps_our_contract(hops: Any) -> None:
    jaxrl.check_env(crawler(UNEVEN, observe_joints=hops))


def test_a_team_learns_to_keep_its_knees_straight() -> None:
    config = ippo.Config(env=crawler(UNEVEN), total_timesteps=30_000, num_envs=32, num_steps=20, lr=3e-3)
    _, metrics = jax.jit(ippo.make_train(config))(jax.random.key(0))
    returns = metrics["return_sum"] / metrics["episodes"]
    assert returns[-5:].mean() > returns[:5].mean() / 3  # both are negative


def test_wrong_splits_say_what_to_type() -> None:
    with pytest.raises(
        ValueError, match=r"'3x2', because it has 8 actuators\. Type split=1x8, 2x4, 4x2, 8x1, 2x4d or "
    ):
        jaxrl.make("brax:ant?split=3x2")
    with pytest.raises(TypeError, match=r"crawler has no split 4, .* Type split=1x4, 2x2, 4x1 or joints; or name the "):
        crawler(4)
    with pytest.raises(ValueError, match=r"crawler drives nothing called 'left_kne'. Did you mean left_knee"):
        crawler({"left": ["left_kne"]})
    with pytest.raises(ValueError, match=r"push of crawler: named twice"):
        crawler(UNEVEN | {"spare": ["right_hip"]})
    with pytest.raises(ValueError, match=r"left_knee, left_hip of crawler: not named"):
        crawler({"right": ["push", "right_knee"]})
    with pytest.raises(ValueError, match=r"spare drives nothing"):
        crawler(UNEVEN | {"spare": []})
    with pytest.raises(ValueError, match=r"observe_joints must be a whole number of at least 0, got -1"):
        crawler("4x1", observe_joints=-1)
    with pytest.raises(ValueError, match=r"observe_joints=2 is for the agents of a split; add one"):
        jaxrl.make("brax:fast?observe_joints=2")
    with pytest.raises(TypeError, match=r"brax:fast has no MuJoCo model"):
        jaxrl.make("brax:fast?split=joints")
    fewer = CRAWLER.replace('<motor joint="left_hip"/>', "")
    with pytest.raises(TypeError, match=r"crab cannot be split: it takes 4 numbers, and has 3 actuators"):
        Split(FromPhysics(Crawler(fewer), "crab", 20, 1), "3x1")
    jet = CRAWLER.replace('joint="right_hip"/>', 'site="jet"/>').replace("<freejoint", '<site name="jet"/><freejoint')
    with pytest.raises(ValueError, match=r"rocket cannot be split: its actuator push is attached to no joint"):
        Split(FromPhysics(Crawler(jet), "rocket", 20, 1), "4x1")


def test_names_lead_to_teams() -> None:
    team = jaxrl.make("brax:ant?split=2x4d&observe_joints=0&episode_length=7")
    assert (team.name, team.made_as) == ("brax:ant", "brax:ant?split=2x4d&observe_joints=0&episode_length=7")
    assert (team.num_agents, team.single.episode_length, team.observation_space().shape) == (2, 7, (19,))
    assert jaxrl.make("brax:ant?split=4x2&observe_joints=all").observation_space().shape == (27,)
    own = jaxrl.make("brax:hopper", split={"upper": ["thigh_joint"], "lower": ["leg_joint", "foot_joint"]})
    assert (own.agents, own.actuators["lower"]) == (("upper", "lower"), (1, 2))


@pytest.mark.slow
def test_the_page_lists_splits_that_there_are() -> None:
    """With as many agents and actuators as it says."""
    page = Path(__file__).parents[2] / "docs" / "split.md"
    rows = [
        line.replace("\\|", "/").split("|")[1:4]
        for line in page.read_text(encoding="utf-8").splitlines()
        if "| `" in line
    ]
    assert len(rows) > 5
    for bodies, actuators, splits in rows:
        for name in re.findall("`(.*?)`", bodies):
            assert made(name).mj_model.nu == int(actuators), name
            for split in re.findall("`(.*?)`", splits):
                sizes = [len(own) for own in team_of(name, split.replace("/", "|"), 1).actuators.values()]
                agents, _, each = split.removesuffix("d").partition("x")
                assert sizes == {"9/8": [9, 8], "3p": [3, 1, 3]}.get(split) or [int(each)] * int(agents)
