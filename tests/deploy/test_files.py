"""A policy in a file plays like the policy, without jaxrl."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from subjects import PLAIN, B, expected, subject

from jaxrl.deploy.numpy_module import numpy_module
from jaxrl.errors import MissingExtraError


def module_in(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", PLAIN)
def test_numpy_plays_like_the_policy(kind: str, tmp_path: Path) -> None:
    s = subject(kind)
    act, carry = module_in(s.policy.export(tmp_path / "policy.py")).act, None
    for obs, reset, action in zip(s.obs, s.reset, expected(kind), strict=True):
        found = act(obs, carry, reset, **s.mask) if s.policy.new_carry() else act(obs, **s.mask)
        found, carry = found if s.policy.new_carry() else (found, None)
        assert (found.dtype, found.shape) == (action.dtype, action.shape)
        np.testing.assert_allclose(found, action, rtol=1e-4, atol=1e-5)


def test_numpy_takes_one_observation_and_what_is_left_out(tmp_path: Path) -> None:
    s = subject("gru")
    act, first, second = module_in(s.policy.export(tmp_path / "policy.py")).act, s.obs[0, 0], s.obs[1, 0]
    mask = {"action_mask": s.mask["action_mask"][0]}
    action, carry = act(first, **mask)
    s.policy.reset()
    np.testing.assert_array_equal(action, s.policy.predict(first, **mask))
    np.testing.assert_array_equal(act(second, carry, **mask)[0], s.policy.predict(second, **mask))
    with pytest.raises(ValueError, match="give action_mask"):
        act(first)


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


@pytest.mark.parametrize("kind", ["pictures", "s5", "gtrxl", "deltanet", "in turn"])
def test_numpy_refuses_other_networks(kind: str, tmp_path: Path) -> None:
    sentence = r"dense layers, GRU and LSTM, without the operation \w+ of this policy; export to \.stablehlo"
    with pytest.raises(NotImplementedError, match=sentence):
        subject(kind).policy.export(tmp_path / "policy.py")
    assert list(tmp_path.iterdir()) == []


def test_names_cannot_become_code() -> None:
    name = '"]; raise SystemExit #"""'
    obs = jax.ShapeDtypeStruct((2, 1), jnp.float32)
    source = numpy_module(f"own\n{name}", lambda params, obs: obs * params[name], {name: np.float32(2)}, {"obs": obs})
    scope: dict[str, Any] = {}
    exec(source, scope)
    assert scope["act"]([[1.0], [2.0]]).tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize("kind", ["continuous", "lstm", "pictures", "s5", "gtrxl", "team", "in turn"])
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
