"""With JAX's 64-bit mode everything is float32 as without it, so the same programs run and the same states are kept."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

import jaxrl
from jaxrl.algos import dqn, ippo, iql, mappo, ppo, pqn, pqn_vdn, qmix, sac, self_play, stream_ac, stream_q, td3, vdn

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "num_steps": 8,
    "total_timesteps": 128,
    "hidden": (8,),
}
STREAM: dict[str, Any] = {"num_steps": 8, "total_timesteps": 32, "hidden": (8,)}
GRU: dict[str, Any] = {"memory": "gru", "memory_size": 8}
S5: dict[str, Any] = {"memory": "s5", "memory_size": 8}
NORMALISED: dict[str, Any] = {"normalise_obs": True, "normalise_reward": True}
FRESH: dict[str, Any] = {"num_minibatches": 2}
REPLAY: dict[str, Any] = {"batch_size": 8, "learning_starts": 0, "n_step": 2, "target_update_interval": 2}
BOX: dict[str, Any] = {"env": "mpe/simple_tag?action_type=continuous", "policy_delay": 2, "optimizer": "muon"}
VARIANTS = {
    "ppo": (ppo, ppo.Config(**SMALL, **FRESH, **NORMALISED, target_kl=0.1, anneal_ent=True, reset="pool")),
    "ppo, squashed, hlgauss": (
        ppo,
        ppo.Config(**SMALL, **FRESH, env="classic/mountain_car_continuous", squash=True, value_loss="hlgauss"),
    ),
    "ppo, lstm": (ppo, ppo.Config(**SMALL, **FRESH, env="classic/pendulum", memory="lstm", memory_size=8)),
    "ppo, several choices": (ppo, ppo.Config(**SMALL, **FRESH, env="probe/multi_discrete_action")),
    "ippo": (ippo, ippo.Config(**SMALL, **FRESH, env="smax/3m", agents_per_step=2)),
    "ippo, gru, several kinds": (
        ippo,
        ippo.Config(**SMALL, **FRESH, **GRU, env="mpe/simple_tag", sequence_length=4),
    ),
    "mappo, s5": (
        mappo,
        mappo.Config(**SMALL, **FRESH, **NORMALISED, **S5, env="probe/death", critic_hidden=(8,)),
    ),
    "ippo, gtrxl": (ippo, ippo.Config(**SMALL, **FRESH, env="probe/death", memory="gtrxl", memory_size=8)),
    "self_play, gru": (self_play, self_play.Config(**SMALL, **FRESH, **GRU, env="matrix/rock_paper_scissors")),
    "pqn": (pqn, pqn.Config(**SMALL, **FRESH, **NORMALISED)),
    "dqn": (dqn, dqn.Config(**SMALL, **REPLAY, **NORMALISED, dueling=True)),
    "dqn, hlgauss": (dqn, dqn.Config(**SMALL, **REPLAY, value_loss="hlgauss", dueling=True)),
    "dqn, gru": (dqn, dqn.Config(**SMALL, **GRU, **REPLAY, env="mpe/simple_tag", burn_in=2)),
    "iql": (iql, iql.Config(**SMALL, **REPLAY, env="mpe/simple_tag")),
    "vdn": (vdn, vdn.Config(**SMALL, **REPLAY, env="mpe/simple_tag")),
    "qmix": (qmix, qmix.Config(**SMALL, **REPLAY, **NORMALISED, env="mpe/simple_tag")),
    "sac": (sac, sac.Config(**SMALL, **REPLAY, **NORMALISED, **BOX, value_loss="c51", weight_decay=0.1)),
    "td3": (td3, td3.Config(**SMALL, **REPLAY, **NORMALISED, **BOX, joint_critic=True)),
    "td3, central critics": (
        td3,
        td3.Config(**SMALL, **REPLAY, **BOX, central_critic=True, value_loss="hlgauss", exploration_noise_min=0.01),
    ),
    "pqn_vdn, gru": (pqn_vdn, pqn_vdn.Config(**SMALL, **FRESH, **GRU, env="mpe/simple_tag")),
    "stream_q": (stream_q, stream_q.Config(**STREAM, reset="pool")),
    "stream_ac": (stream_ac, stream_ac.Config(**STREAM, env="classic/mountain_car_continuous", squash=True)),
}


# Between them these have all kinds of states; the others are slow.
FAST = ("ppo, squashed, hlgauss", "mappo, s5", "dqn, gru", "stream_ac")


def shapes(module: Any, config: Any) -> Any:
    """Of the first state, of the next one, and of what an update and an evaluation tell."""
    algo, env = module.make(config), config.make_env()
    state = jax.eval_shape(algo.init, jax.random.key(0))
    played = jax.eval_shape(
        lambda state, key: jaxrl.evaluate(algo, env, state, key, 4, greedy=False), state, jax.random.key(0)
    )
    return state, jax.eval_shape(algo.update, state), played


@pytest.mark.parametrize(
    "variant", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
)
def test_no_leaf_is_wider_than_usual(variant):
    usual = jax.tree_util.tree_leaves_with_path(shapes(*VARIANTS[variant]))
    with jax.enable_x64(True):
        wide = jax.tree.leaves(shapes(*VARIANTS[variant]))
    different = {
        jax.tree_util.keystr(path): (a.dtype, b.dtype) for (path, a), b in zip(usual, wide, strict=True) if a != b
    }
    assert not different


@pytest.mark.slow
def test_environments_step_and_training_runs_and_resumes(tmp_path: Path):
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    command = [sys.executable, str(Path(__file__).parent / "on_x64.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
