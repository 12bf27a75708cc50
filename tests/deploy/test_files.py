"""A policy in a file plays like the policy, without jaxrl."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import flax.linen as nn
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from subjects import KINDS, B, expected, subject

from jaxrl.deploy.inference import Inference
from jaxrl.deploy.numpy_module import numpy_module
from jaxrl.errors import MissingExtraError


def module_in(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_plays_like_the_policy(kind: str, tmp_path: Path) -> None:
    s = subject(kind)
    act, carry = module_in(s.policy.export(tmp_path / "policy.py")).act, None
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        found = act(obs, carry, reset, **s.mask) if s.policy.new_carry() else act(obs, **s.mask)
        found, carry = found if s.policy.new_carry() else (found, None)
        assert (found.dtype, found.shape) == (action.dtype, action.shape)
        np.testing.assert_allclose(found, action, rtol=1e-4, atol=1e-5)


def test_numpy_takes_one_observation_and_what_is_left_out() -> None:
    s = subject("team")
    scope: dict[str, Any] = {}
    exec(numpy_module(s.policy._inference()), scope)
    act, first, second = scope["act"], s.obs[0, 0], s.obs[1, 0]
    action, carry = act(first)
    s.policy.reset()
    np.testing.assert_array_equal(action, s.policy.predict(first))
    np.testing.assert_array_equal(act(second, carry)[0], s.policy.predict(second))


def test_numpy_needs_numpy_alone(tmp_path: Path) -> None:
    s = subject("mlp")
    s.policy.export(tmp_path / "policy.py")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import policy
print(policy.act({s.obs[0].tolist()}).tolist())
assert "jax" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(expected("mlp")[0].tolist()), done.stderr


def test_numpy_refuses_what_it_cannot_compute() -> None:
    def convolved(params: Any, obs: jax.Array) -> Any:
        return nn.Conv(2, (3, 3)).apply(params, obs)

    params = nn.Conv(2, (3, 3)).init(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))
    obs = jax.ShapeDtypeStruct((1, 8, 8, 1), jnp.float32)
    inference = Inference("a picture", convolved, dict(params), {"obs": obs})
    with pytest.raises(NotImplementedError, match=r"operation conv_general_dilated in this .*; export to \.stablehlo"):
        numpy_module(inference)


def odds_and_ends(params: Any, obs: Any) -> jax.Array:
    """Operations of networks that the policies above do not have."""
    x = jnp.concatenate([obs, jnp.flip(obs, 1), jnp.rint(obs[:, ::2])], axis=1)
    x = jnp.pad(x, ((0, 0), (1, 2)), constant_values=0.5)
    x = jnp.cumsum(x, axis=1) + jnp.arange(x.shape[1]) + jax.nn.one_hot(jnp.argmin(x, 1), x.shape[1])
    heads = jnp.einsum("bd,hde->bhe", x, params["heads"])
    attention = jax.nn.softmax(jnp.einsum("bhe,bge->bhg", heads, heads))
    mixed = jnp.einsum("bhg,bge->beh", attention, heads)[..., jnp.asarray([1, 0, 1])]
    mixed = jnp.where(jnp.isfinite(mixed) & ~(mixed > 9), mixed, 0) ** 3
    mixed = nn.elu(jnp.clip(mixed, -2, 2)) + nn.softplus(mixed) + nn.sigmoid(mixed) + jnp.sign(mixed) % 0.7
    return jnp.prod(1 + jnp.tanh(mixed), axis=-1) / jnp.maximum(jnp.abs(mixed).sum(-1), 1e-3) * jnp.any(mixed > 0, -1)


def test_numpy_computes_what_other_networks_have() -> None:
    rng = np.random.default_rng(0)
    (b,) = jax.export.symbolic_shape("b")
    params: Any = {"heads": rng.normal(size=(2, 13, 3)).astype(np.float32)}
    inference = Inference("anything", odds_and_ends, params, {"obs": jax.ShapeDtypeStruct((b, 4), jnp.float32)})
    scope: dict[str, Any] = {}
    exec(numpy_module(inference), scope)
    obs: Any = rng.normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(scope["act"](obs), odds_and_ends(params, obs), rtol=1e-4, atol=1e-5)


def test_names_cannot_become_code() -> None:
    name = '"]; raise SystemExit #"""'
    obs = jax.ShapeDtypeStruct((2, 1), jnp.float32)
    inference = Inference(f"own\n{name}", lambda params, obs: obs * params[name], {name: np.float32(2)}, {"obs": obs})
    scope: dict[str, Any] = {}
    exec(numpy_module(inference), scope)
    assert scope["act"]([[1.0], [2.0]]).tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize("kind", ["continuous", "lstm", "team"])
def test_stablehlo_plays_like_the_policy(kind: str, tmp_path: Path) -> None:
    s = subject(kind)
    exported = jax.export.deserialize(bytearray(s.policy.export(tmp_path / "a.stablehlo").read_bytes()))
    assert {"cpu", "cuda", "tpu"} <= set(exported.platforms)
    carry = s.policy.new_carry(B)
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        found = exported.call(obs, *((carry, reset) if carry else ()), *s.mask.values())
        found, carry = found if carry else (found, ())
        np.testing.assert_allclose(found, action, rtol=1e-4, atol=1e-5)


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    for ending in (".py", ".stablehlo", ".safetensors"):
        assert subject("mlp").policy.export(tmp_path / ending[1:] / "new" / f"policy{ending}").is_file()


def test_the_ending_is_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = subject("mlp").policy
    with pytest.raises(ValueError, match=r"format: \.stablehlo, \.py, \.safetensors; got policy.onnx"):
        policy.export(tmp_path / "policy.onnx")
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaxrl\[deploy\]'"):
        policy.export(tmp_path / "policy.stablehlo")
    assert list(tmp_path.iterdir()) == []
