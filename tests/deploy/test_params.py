"""Parameters survive saving and loading bit for bit, and what would be lost is refused."""

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.deploy.params import load_params, save_params
from jaxrl.errors import MissingExtraError

safetensors_numpy = pytest.importorskip("safetensors.numpy")

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint16", "bool", "complex64"]


def test_a_round_trip_changes_nothing(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 256, (3, 5, 8), np.uint8)
    params = {
        "torso": {dtype: (numbers > 99 if dtype == "bool" else numbers).astype(jnp.dtype(dtype)) for dtype in DTYPES},
        "odd": {
            "nan": np.array([np.nan, -0.0, np.inf], np.float32),
            "scalar": np.int32(7),
            "none": np.zeros((0, 3), np.float32),
        },
        "not in order": {"rows": numbers.astype(np.float32).T, "big-endian": np.arange(3, dtype=">f4")},
        "jax": jnp.arange(4.0),
    }
    save_params(tmp_path / "a.safetensors", params)
    loaded = load_params(tmp_path / "a.safetensors")
    assert jax.tree.structure(loaded) == jax.tree.structure(params)
    for (path, saved), found in zip(
        jax.tree_util.tree_flatten_with_path(params)[0], jax.tree.leaves(loaded), strict=True
    ):
        saved = np.asarray(saved)
        assert (found.dtype, found.shape) == (saved.dtype.newbyteorder("="), saved.shape), path
        assert found.tobytes() == saved.astype(found.dtype).tobytes(), path


def test_the_format_is_everybodys(tmp_path: Path) -> None:
    save_params(tmp_path / "a.safetensors", {"dense": {"kernel": np.eye(2, dtype=np.float32)}})
    assert list(safetensors_numpy.load_file(tmp_path / "a.safetensors")) == ["dense/kernel"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize(
    ("params", "kind", "sentence"),
    [
        ({"layers": [np.zeros(2)]}, TypeError, "nested dicts of arrays, but layers is a list"),
        (np.zeros(2), TypeError, "nested dicts of arrays, but params is a ndarray"),
        ({"a": {0: np.zeros(2)}}, TypeError, "keys of parameters are text, but a has the key 0"),
        ({"a": {"b/c": np.zeros(2)}}, ValueError, "a cannot have the key 'b/c'"),
        ({"a": {}}, ValueError, "a is an empty dict"),
        ({"a": "text"}, TypeError, "a is a str"),
        ({"a": None}, TypeError, "a is a NoneType"),
        ({"a": jax.eval_shape(lambda: jax.random.key(0))}, TypeError, "a is a ShapeDtypeStruct"),
    ],
)
def test_what_would_be_lost_is_refused(tmp_path: Path, params: Any, kind: type, sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        save_params(tmp_path / "a.safetensors", params)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.npz", "a"])
def test_a_file_ends_with_its_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"writes the safetensors format; call the file a\.safetensors\."):
        save_params(tmp_path / name, {"a": np.zeros(2)})
    assert list(tmp_path.iterdir()) == []


def test_a_random_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"a is a random key, .* save its jax.random.key_data"):
        save_params(tmp_path / "a.safetensors", {"a": jax.random.key(0)})


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_params(file, {"a": np.arange(8.0)})
    for content in (b"", b"no parameters at all", file.read_bytes()[:-1]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="holds no parameters in the safetensors format"):
            load_params(file)


def test_without_safetensors_it_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'jaxrl\[deploy\]'"):
        save_params(tmp_path / "a.safetensors", {"a": np.zeros(2)})
