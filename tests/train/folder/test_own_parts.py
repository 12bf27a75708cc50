"""An optimiser and a memory of the user's own: trained with, kept by the run, evaluated, and refused from strangers."""

from pathlib import Path
from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from own_files import forget

from jaxrl.algos import dqn, ppo
from jaxrl.cli import main
from jaxrl.train.folder.load import load
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.trust import UntrustedRunError

PARTS = """\
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


def lion_like(lr):
    return optax.lion(lr)


class Fading(nn.Module):
    features: int

    @nn.compact
    def __call__(self, carry, x, reset):
        x = nn.Dense(self.features)(x)

        def step(carry, now):
            x, reset = now
            carry = 0.9 * jnp.where(reset[..., None], 0.0, carry) + x
            return carry, carry

        return jax.lax.scan(step, carry, (x, reset))

    @nn.nowrap
    def carry_of(self, batch_shape):
        return jnp.zeros((*batch_shape, self.features))
"""
TINY: dict[str, Any] = {"env": "probe/constant_reward", "num_envs": 2, "num_steps": 4, "total_timesteps": 16}
EPOCHS: dict[str, Any] = {"num_minibatches": 1, "update_epochs": 1}


def slow(lr: Any) -> optax.GradientTransformation:
    return optax.sgd(lr)


class Last(nn.Module):
    """A memory of the step before, without the field that it needs."""

    def carry_of(self, batch_shape: tuple[int, ...]) -> jax.Array:
        return jnp.zeros(batch_shape)


def number(config: Any) -> Any:
    return config


def test_training_with_both_is_saved_found_again_and_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my_parts.py"
    file.write_text(PARTS)
    run_dir = tmp_path / "run"
    own = f"--optimizer {file}:lion_like --memory {file}:Fading --memory-size 3"
    tiny = "--num-envs 2 --num-steps 4 --num-minibatches 1 --total-timesteps 16 --no-pictures --eval-episodes 2"
    main(f"train ppo --env probe/constant_reward {own} {tiny} --run-dir {run_dir}".split())
    about = RunFolder(run_dir).read()
    assert about["config"]["optimizer"] == "source/my_parts.py:lion_like"
    assert about["config"]["memory"] == "source/my_parts.py:Fading"
    file.unlink()
    forget()
    run = load(run_dir)
    assert run.config.memory == str(run_dir / "source" / "my_parts.py:Fading")
    assert any(
        "Fading" in jax.tree_util.keystr(path) or "memory" in jax.tree_util.keystr(path)
        for path, _ in jax.tree_util.tree_leaves_with_path(run.state.params)
    )
    main(["eval", str(run_dir), "--episodes", "2"])
    assert "2 greedy episodes" in capsys.readouterr().out
    RunFolder(run_dir).write({name: value for name, value in about.items() if name != "trust_id"})
    forget()
    with pytest.raises(UntrustedRunError, match=r"source/my_parts.py, where its memory is defined"):
        load(run_dir)


def test_its_updates_are_those_of_optax() -> None:
    config = ppo.Config(**TINY, **EPOCHS, optimizer=slow, lr=0.5, anneal_lr=False, max_grad_norm=1e9)
    assert config.optimizer.endswith(":slow")
    algo = ppo.make(config)
    before = algo.init(jax.random.key(0))
    after, metrics = jax.jit(algo.update)(before)
    steps = jax.tree.map(lambda new, old: jnp.sum((new - old) ** 2), after.params, before.params)
    moved = jnp.sqrt(sum(jax.tree.leaves(steps)))
    np.testing.assert_allclose(moved, 0.5 * metrics["losses"]["grad_norm"], rtol=1e-4)


def test_values_are_learned_with_one_too() -> None:
    config = dqn.Config(**TINY, optimizer=slow, batch_size=2, learning_starts=0, gradient_steps=2)
    algo = dqn.make(config)
    state = jax.jit(algo.update)(algo.init(jax.random.key(0)))[0]
    chex.assert_tree_all_finite(state.params)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"memory": "gruu"},
            "memory must be one of none, gru, lstm, s5, gtrxl, retention, deltanet, or your own, as in ./my_cell.py",
        ),
        ({"optimizer": "adamw"}, "optimizer must be one of adam, muon, radam, or your own, as in"),
        (
            {"optimizer": optax.adam(1e-3)},
            "optimizer must be a function of the learning rate, .* got a Gradient",
        ),
    ],
)
def test_what_is_neither_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ppo.Config(**TINY, **EPOCHS, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": int}, "memory=.* is not a class of Flax modules; derive it from flax.linen.Module"),
        ({"memory": Last}, r"memory=Last needs a field features: int and a method carry_of\(batch_shape\)"),
        ({"optimizer": number}, "optimizer=.* made a float; return an optax.GradientTransformation"),
    ],
)
def test_code_of_another_kind_is_told_what_to_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        jax.eval_shape(ppo.make(ppo.Config(**TINY, **EPOCHS, **fields)).init, jax.random.key(0))


def test_weights_decay_as_the_users_optimiser_says() -> None:
    with pytest.raises(ValueError, match=r"weight_decay=0.1 has no effect with optimizer=.*let your optimizer decay"):
        ppo.Config(**TINY, **EPOCHS, optimizer=slow, weight_decay=0.1).make_env()
