"""Run by test_mesh.py with 8 forced devices: trains the same on several numbers of devices, prints what came out."""

import dataclasses
import json
import math
import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl.algos import bc, dqn, ippo, mappo, mat, ppo, pqn, pqn_vdn, qmix, sac, self_play, td3, team
from jaxrl.data import Writer
from jaxrl.train.devices.mesh import MeshShape, choose_mesh, place, spread

SMALL = {"num_envs": 32, "num_steps": 8, "total_timesteps": 32 * 8 * 5, "hidden": (8,), "lr": 1e-2}
NORMALISED = {"normalise_obs": True, "normalise_reward": True}
WORLDS = Path(__file__).parents[2] / "wrappers" / "worlds.py"
GRU = {"memory": "gru", "memory_size": 8}
REPLAY = {"buffer_size": 32 * 8 * 3, "learning_starts": 0, "batch_size": 32, "n_step": 2, "tau": 0.5}
MAZE: dict = {"env": "jaxnav/random?num_agents=2&num_beams=8&max_steps=6", "optimizer": "adam"}
team.ENTITIES_AT_ONCE = 128  # one device learns from a minibatch in eight parts, and each of eight from one part


def own_loss(loss, agent, h, params, *rest):
    """A loss as one writes it: with a penalty that belongs to no sample, and a plain mean among its facts."""
    total, facts = loss(agent, h, params, *rest)
    penalty = 1e-2 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
    batch = rest[-1]
    plain = jnp.mean(batch.target if hasattr(batch, "target") else batch.steps.reward)
    return total + penalty, {**facts, "penalty": penalty, "plain": plain}


def with_own_loss(module):
    """The module, whose `make` is given a loss."""
    return SimpleNamespace(make=partial(module.make, loss=partial(own_loss, module.loss)))


RECORDED = Path(tempfile.mkdtemp()) / "recorded"


def recorded() -> str:
    """Made-up steps of CartPole."""
    rng = np.random.default_rng(0)
    steps = {"obs": rng.normal(size=(16, 3, 4)).astype(np.float32), "action": rng.integers(0, 2, (16, 3), np.int32)}
    steps |= {name: rng.random((16, 3)) < 0.2 for name in ("terminated", "reset")}
    steps |= {"truncated": np.zeros((16, 3), bool), "reward": rng.normal(size=(16, 3)).astype(np.float32)}
    steps |= {"final_index": np.zeros((0, 2), np.int32), "final_observation": np.zeros((0, 4), np.float32)}
    Writer(RECORDED, "classic/cartpole", 3, {}).write(steps)
    return str(RECORDED)


VARIANTS = {
    "bc": (bc, bc.Config(env="classic/cartpole", data=recorded(), normalise_obs=True, batch_size=32, **SMALL)),
    "dqn recorded": (
        dqn,
        dqn.Config(env="classic/cartpole", prior_data=str(RECORDED), prior_share=0.25, **REPLAY, **SMALL),
    ),
    "ppo": (ppo, ppo.Config(env="classic/cartpole", normalise_obs=True, reset="pool", pool_refresh=0.5, **SMALL)),
    "ppo worlds": (ppo, ppo.Config(env="classic/cartpole", params=f"{WORLDS}:draw", **SMALL)),
    "ppo gru": (ppo, ppo.Config(env="classic/pendulum", **GRU, **SMALL)),
    "ippo": (ippo, ippo.Config(env="smax/3m", torso="entities", agents_per_step=2, **SMALL)),
    "ippo gru": (ippo, ippo.Config(env="probe/death", **GRU, **SMALL)),
    # These two by Adam: Muon turns weak directions as far as strong ones, and in probes this simple they are rounding.
    "mappo": (mappo, mappo.Config(env="probe/death", optimizer="adam", target_kl=0.05, **NORMALISED, **SMALL)),
    "mat": (mat, mat.Config(env="probe/death", optimizer="adam", **SMALL)),
    "mappo gru": (
        mappo,
        mappo.Config(env="probe/hidden_state", optimizer="adam", critic_hidden=(8,), **GRU, **SMALL),
    ),
    "ippo mpe": (  # hunters and prey see and do different things, and learn in their own ways
        ippo,
        ippo.Config(
            env="mpe/simple_tag",
            policies={"adversary_.*": "A"},
            policy_hyperparams={"A.lr": 5e-3, "A.gamma": 0.9, "A.ent_coef": 0.05},
            **SMALL,
        ),
    ),
    "dqn": (dqn, dqn.Config(env="classic/cartpole", **NORMALISED, **REPLAY, **SMALL)),
    "dqn gru": (  # by priority
        dqn,
        dqn.Config(env="probe/death", burn_in=4, sequence_length=4, priority_exponent=0.6, **GRU, **REPLAY, **SMALL),
    ),
    "qmix": (qmix, qmix.Config(env="probe/two_step", **REPLAY, **SMALL)),
    "sac": (sac, sac.Config(env="classic/pendulum", policy_delay=2, **NORMALISED, **REPLAY, **SMALL)),
    "td3": (td3, td3.Config(env="classic/pendulum", **NORMALISED, **REPLAY, **SMALL)),
    "pqn": (pqn, pqn.Config(env="classic/cartpole", normalise_obs=True, **SMALL)),
    "ppo own loss": (with_own_loss(ppo), ppo.Config(env="classic/cartpole", **SMALL)),
    "ippo own loss": (
        with_own_loss(SimpleNamespace(make=ippo.make, loss=ppo.loss)),
        ippo.Config(env="smax/3m", torso="entities", **SMALL),
    ),
    "dqn own loss": (with_own_loss(dqn), dqn.Config(env="classic/cartpole", **REPLAY, **SMALL)),
    "league": (
        self_play,
        self_play.Config(
            env="matrix/rock_paper_scissors",
            optimizer="adam",
            league=("main", "exploiter"),
            num_opponents=2,
            snapshot_every=1,
            **SMALL,
        ),
    ),
    "ippo plr": (ippo, ippo.Config(levels="plr?size=32&score=maxmc&min_fill=0.2", **MAZE, **SMALL)),
    "ippo accel": (ippo, ippo.Config(levels="accel?size=32&score=l1&min_fill=0.2", **MAZE, **SMALL)),
    "ippo sfl": (ippo, ippo.Config(levels="sfl?keep=16&candidates=40&steps=12&every=2", **MAZE, **SMALL)),
    "pqn_vdn gru": (pqn_vdn, pqn_vdn.Config(env="probe/death", **GRU, **SMALL)),
}


def trained(module, config, data: int) -> dict:
    """Five updates on `data` devices: the parameters and losses, and the collectives in the compiled program."""
    algo = module.make(config)
    mesh = choose_mesh(config, 1, MeshShape(1, data))
    state = algo.init(jax.random.key(0))
    shapes = place(jax.eval_shape(lambda: state), mesh, 1)
    places = jax.tree.map(lambda leaf: leaf.sharding, shapes) if mesh is not None else jax.devices()[0]
    state = jax.device_put(state, places)
    compiled = jax.jit(spread(algo.update, state, mesh, 1)).lower(state).compile()

    def update(state):  # JAX forgets where arrays without elements belong, which mpe has
        return compiled(jax.device_put(state, places))

    losses, different = [], different_shards(update, state, config)
    for _ in range(5):
        state, metrics = update(state)
        losses.append({k: float(v) for k, v in metrics["losses"].items()})
    numbers = flat((state.params, state.normaliser))
    fewest = len(flat(state.params))
    if isinstance(state.opt_state, dict):  # an optimiser each for parts of the parameters
        fewest = min(max(leaf.size for leaf in jax.tree.leaves(each)) for each in state.opt_state.values())
    reduced = with_gradients(str(compiled.as_text()), fewest)
    return {"params": numbers, "losses": losses, "reduced": reduced, "different_shards": different}


def different_shards(update, state, config) -> int:
    """How many shards went ways of their own from the same beginning, which only their actions can lead to."""

    def first_everywhere(leaf):
        return jax.device_put(jax.numpy.broadcast_to(leaf[:1], leaf.shape), leaf.sharding)

    same, _ = update(dataclasses.replace(state, runner=jax.tree.map(first_everywhere, state.runner)))
    return len(np.unique(np.asarray(same.runner.obs).reshape(config.shards, -1), axis=0))


def with_gradients(program: str, num_params: int) -> list[list[int]]:
    """The collectives of each computation that reduces gradients, as the numbers of elements that each one moves.

    Gradients are of at least `num_params` parameters.
    """
    found = []
    for computation in program.split("\n\n"):
        results = re.findall(r"= (.*) (all-reduce|all-gather|all-to-all|collective-permute)(?:-start)?\(", computation)
        shapes = [re.findall(r"\w\d+\[([\d,]*)\]", result) for result, _ in results]
        moved = [sum(math.prod(map(int, filter(None, s.split(",")))) for s in shape) for shape in shapes]
        kinds = [kind for _, kind in results]
        if any(kind == "all-reduce" and size >= num_params for kind, size in zip(kinds, moved, strict=True)):
            found.append(sorted(moved))
    return found


def flat(tree) -> list[float]:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)]).tolist()


def restored() -> dict:
    """A run of 2 updates on 8 devices, resumed on 1, 2, 4 and 8 for 3 more: the final parameters."""
    module, config = VARIANTS["ppo"]
    algo, options, outcome = module.make(config), {"quiet": True, "pictures": False, "eval_episodes": 4}, {}
    with tempfile.TemporaryDirectory() as folder:
        stopped = Path(folder) / "stopped"
        stop_early = lambda row: row["timesteps"] >= 2 * config.steps_per_update  # noqa: E731
        jaxrl.fit(algo, config, stopped, log_every=1, callbacks=[stop_early], mesh=MeshShape(1, 8), **options)
        for data in (8, 4, 2, 1):
            run = shutil.copytree(stopped, Path(folder) / f"on {data}")
            result = jaxrl.fit(algo, config, run, log_every=1, resume=True, mesh=MeshShape(1, data), **options)
            outcome[data] = flat(result.state.params)
    return outcome


def members(name: str) -> dict:
    """Two seeds on 2 x 4 devices and on one: the final parameters, of a league those of the pools."""
    module, config = VARIANTS[name]
    config = dataclasses.replace(config, total_timesteps=32 * 8 * 2)
    outcome = {}
    for devices, mesh in (("8", None), ("1", MeshShape(1, 1))):
        result = jaxrl.fit(module.make(config), config, num_seeds=2, mesh=mesh, quiet=True, eval_episodes=4)
        outcome[devices] = flat(result.state.pool.params if name == "league" else result.state.params)
    return outcome


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "train":
        name, counts = rest[0], [int(n) for n in rest[1:]]
        module, config = VARIANTS[name]
        print(json.dumps({n: trained(module, config, n) for n in counts}))
    else:
        print(json.dumps(restored() if what == "restored" else members(rest[0])))
