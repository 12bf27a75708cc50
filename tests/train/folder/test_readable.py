"""What was saved can be read: whatever the folder is called, and seen at the first checkpoint if it cannot."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.errors import CheckpointError
from jaxrl.train.folder.checkpoint import Checkpoints, read_manifest


def make_state(value: Any) -> dict[str, jax.Array]:
    return {"w": jnp.full((64, 8), value), "b": jnp.ones(3)}


@pytest.mark.parametrize("name", ["a[64,64]", "a*b?c", "a[b", "a\\b", "\\", "*", "a{b}|c:d%2Fe #;'\"\t$~."])
def test_any_name_of_a_folder_will_do(tmp_path: Path, name: str) -> None:
    """Orbax finds the parts of a checkpoint by a pattern that has the whole path in it."""
    with Checkpoints(tmp_path / name / "checkpoints") as checkpoints:
        for update, value in ((1, 1.0), (2, 2.0)):
            checkpoints.save(update, make_state(value))
        restored = checkpoints.restore(jax.eval_shape(make_state, 0.0)).state
    np.testing.assert_array_equal(restored["w"], 2.0)
    assert {path.name for path in (tmp_path / name / "checkpoints").iterdir()} == {"1", "2"}


def test_the_first_checkpoint_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would spoil every save is seen at the first one, whatever the cause; later ones cost nothing more."""
    read: list[int] = []
    whole = Checkpoints._read

    def spoiled(self: Checkpoints, update: int, target: Any) -> Any:
        read.append(update)
        if update == 1:
            shutil.rmtree(self.folder / "1" / "state")
        return whole(self, update, target)

    monkeypatch.setattr(Checkpoints, "_read", spoiled)
    with Checkpoints(tmp_path / "c") as checkpoints:
        with pytest.raises(CheckpointError, match=r"The checkpoint .*1 was written but cannot be read: "):
            checkpoints.save(1, make_state(1.0))
        assert not checkpoints.updates
        for update in (2, 3):
            checkpoints.save(update, make_state(1.0))
    assert read == [1, 2]


@pytest.mark.parametrize(
    ("forged", "sentence"),
    [
        ({"leaves": [], "extra": {}}, "does not say what is in it"),
        ({"leaves": {}, "extra": [1]}, "does not say what is in it"),
        ({"leaves": {}, "extra": {"evaluation": {"timesteps": 8}}}, "has no return_mean"),
    ],
)
def test_a_forged_manifest_is_no_manifest(tmp_path: Path, forged: dict[str, Any], sentence: str) -> None:
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "metadata").write_text(json.dumps(forged))
    with pytest.raises(ValueError, match=sentence):
        read_manifest(tmp_path)
