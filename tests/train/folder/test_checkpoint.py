"""Checkpoints come back exactly, or not at all: each of Orbax's traps has a test."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.errors import CheckpointError
from jaxrl.train.folder.checkpoint import CheckpointReader, Checkpoints


class Moments(NamedTuple):
    mu: Any
    nu: Any


def make_state(value: float = 1.0) -> dict[str, Any]:
    return {
        "params": {"w": jnp.full((64, 8), value), "half": jnp.ones(3, jnp.bfloat16)},
        "moments": Moments(jnp.zeros(2), (jnp.ones(2, bool), None)),
        "key": jax.random.key(7),
        "keys": jax.random.split(jax.random.key(1), 3),
        "update": jnp.int32(5),
    }


def shapes(state: Any) -> Any:
    return jax.eval_shape(lambda: state)


def assert_same(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_array_equal(x, y)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def saved(tmp_path: Path, said: list[str]) -> Checkpoints:
    """Two checkpoints: 1.0 after update 10, 2.0 after update 20."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", say=said.append)
    for update, value in ((10, 1.0), (20, 2.0)):
        checkpoints.save(update, make_state(value), {"seconds": value})
    return checkpoints


def newest(checkpoints: Checkpoints) -> Path:
    return checkpoints.folder / "20"


@pytest.mark.quick
def test_the_whole_state_comes_back(saved: Checkpoints) -> None:
    """Keys, NamedTuples, bfloat16, None; at once after `save`, for whoever opens the folder."""
    with Checkpoints(saved.folder) as other:
        restored = other.restore(shapes(make_state()))
    assert restored.update == 20
    assert restored.extra == {"seconds": 2.0}
    assert_same(restored.state, make_state(2.0))


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    with Checkpoints(tmp_path / "c", keep=2) as checkpoints:
        for update in (1, 2, 3):
            checkpoints.save(update, make_state())
        assert checkpoints.updates == [2, 3]


def test_saving_at_or_below_the_newest_update_rolls_back(saved: Checkpoints) -> None:
    saved.save(20, make_state(3.0))
    assert saved.restore(shapes(make_state())).state["params"]["w"][0, 0] == 3.0
    saved.save(15, make_state(4.0))
    assert saved.updates == [10, 15]
    assert saved.restore(shapes(make_state())).state["params"]["w"][0, 0] == 4.0


def test_random_keys_of_another_kind_are_named_as_such(saved: Checkpoints) -> None:
    """They come from a setting of JAX, so the configuration is not to blame."""
    wanted = shapes({**make_state(), "key": jax.random.key(0, impl="rbg")})
    with pytest.raises(CheckpointError, match=r"another kind of random keys: .*'key'.* Set JAX_DEFAULT_PRNG_IMPL"):
        saved.restore(wanted)


def flip_a_byte(folder: Path) -> None:
    """In every file of array data, in the middle, past the headers."""
    for path in (folder / "state").rglob("d/*"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x10
        path.write_bytes(bytes(data))


def truncate_data(folder: Path) -> None:
    for path in (folder / "state").rglob("d/*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def break_metadata(folder: Path) -> None:
    (folder / "state" / "_METADATA").write_bytes(b"\xff{")


def take_the_arrays_of_another(folder: Path) -> None:
    """These Orbax reads without an error: only the hashes of leaves tell that they are not what was saved."""
    shutil.rmtree(folder / "state")
    shutil.copytree(folder.parent / "10" / "state", folder / "state")


def lie_in_the_manifest(folder: Path) -> None:
    """About the hash of a leaf."""
    path = folder / "manifest" / "metadata"
    text = path.read_text()
    start = text.index('"sha256": "') + len('"sha256": "')
    path.write_text(text[:start] + "0" * 8 + text[start + 8 :])


def change_what_the_host_stored(folder: Path) -> None:
    path = folder / "manifest" / "metadata"
    path.write_text(path.read_text().replace('"seconds": 2.0', '"seconds": 3.0'))


def remove_the_item(folder: Path) -> None:
    shutil.rmtree(folder / "state")


def remove_the_manifest(folder: Path) -> None:
    shutil.rmtree(folder / "manifest")


def empty_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


DAMAGES = [
    flip_a_byte,
    truncate_data,
    break_metadata,
    take_the_arrays_of_another,
    lie_in_the_manifest,
    change_what_the_host_stored,
    remove_the_item,
    remove_the_manifest,
    empty_the_folder,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_aloud(
    saved: Checkpoints, said: list[str], damage: Callable[[Path], None]
) -> None:
    saved.close()
    damage(newest(saved))
    restored = saved.restore(shapes(make_state()))
    assert restored.update == 10
    assert_same(restored.state, make_state(1.0))
    assert len(said) == 1
    assert str(newest(saved)) in said[0]
    assert "damaged" in said[0]


def test_training_on_from_an_older_checkpoint_replaces_the_damaged_one(saved: Checkpoints) -> None:
    saved.close()
    remove_the_item(newest(saved))
    saved.save(20, make_state(5.0))
    assert saved.restore(shapes(make_state())).state["params"]["w"][0, 0] == 5.0


def test_when_none_is_good_nothing_starts_afresh(saved: Checkpoints, tmp_path: Path) -> None:
    saved.close()
    for update in (10, 20):
        remove_the_item(saved.folder / str(update))
    with pytest.raises(CheckpointError, match="None of the 2 checkpoints"):
        saved.restore(shapes(make_state()))
    with pytest.raises(CheckpointError, match=r"There is no checkpoint in .*nowhere"):
        Checkpoints(tmp_path / "nowhere").restore(shapes(make_state()))


def test_another_configuration_is_told_apart_from_damage(saved: Checkpoints) -> None:
    wanted = shapes(make_state())
    floats = {**wanted, "update": jax.ShapeDtypeStruct((), jnp.float32)}  # Orbax would cast without a word
    with pytest.raises(CheckpointError, match=r"\['update'\] is int32\[\] in it and float32\[\] here"):
        saved.restore(floats)
    wider = {**wanted, "params": {**wanted["params"], "w": jax.ShapeDtypeStruct((64, 9), jnp.float32)}}
    with pytest.raises(CheckpointError, match=r"float32\[64, 8\] in it and float32\[64, 9\] here"):
        saved.restore(wider)
    with pytest.raises(CheckpointError, match="absent in it"):
        saved.restore({**wanted, "more": wanted["update"]})
    with pytest.raises(CheckpointError, match="and absent here"):
        saved.restore({name: leaf for name, leaf in wanted.items() if name != "key"})


def test_another_tree_of_the_same_arrays_is_told_apart_from_damage(saved: Checkpoints, said: list[str]) -> None:
    with pytest.raises(CheckpointError, match="same arrays in another tree, so another version of the code wrote it"):
        saved.restore({**shapes(make_state()), "more": None})
    assert not said


def test_what_a_killed_save_leaves_behind_is_ignored(saved: Checkpoints) -> None:
    saved.close()
    unfinished = saved.folder / "30.orbax-checkpoint-tmp-123"
    shutil.copytree(newest(saved), unfinished)
    assert saved.restore(shapes(make_state())).update == 20
    saved.save(30, make_state(3.0))
    assert saved.updates == [10, 20, 30]
    assert not unfinished.exists()


def test_a_save_that_fails_is_an_error_and_harms_no_older_one(
    saved: Checkpoints, caplog: pytest.LogCaptureFixture
) -> None:
    """A file-size limit stands in for the full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = {**make_state(), "large": jax.random.normal(jax.random.key(0), (200_000,))}
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="could not be written"):
            saved.save(30, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not caplog.text  # the error says it all
    assert saved.updates == [10, 20]
    assert not list(saved.folder.glob("*tmp*"))  # they would eat the space that is missing
    assert saved.restore(shapes(make_state())).update == 20
    saved.save(30, make_state(3.0))
    assert saved.restore(shapes(make_state())).update == 30


def test_arrays_without_elements_are_kept(tmp_path):
    state = {"full": jnp.arange(3.0), "empty": jnp.zeros((4, 0, 2), jnp.int32)}
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(1, state)
        restored = checkpoints.restore(jax.eval_shape(lambda: state)).state
    assert restored["empty"].shape == (4, 0, 2)
    assert restored["empty"].dtype == jnp.int32
    np.testing.assert_array_equal(restored["full"], state["full"])


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """Every file and folder, when it was changed and what is in it."""
    everything = [folder, *folder.rglob("*")]
    return {path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in everything}


def test_reading_leaves_a_save_in_progress_alone(saved: Checkpoints, said: list[str]) -> None:
    """What another process is writing lies there under a temporary name, for Orbax of the past and of the present."""
    for name in ("30.orbax-checkpoint-tmp", "30.orbax-checkpoint-tmp-1700000000"):
        shutil.copytree(newest(saved), saved.folder / name)
    before = contents(saved.folder)
    reader = CheckpointReader(saved.folder, said.append)
    assert reader.updates == [10, 20]
    assert reader.restore(shapes(make_state())).update == 20
    assert Checkpoints(saved.folder, say=said.append).restore(shapes(make_state())).update == 20
    assert contents(saved.folder) == before
    assert not said


def test_who_reads_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        CheckpointReader(tmp_path / "nowhere").restore(shapes(make_state()))
    assert not list(tmp_path.iterdir())
    public = {name for name in dir(CheckpointReader) if not name.startswith("_")}
    assert public == {"restore", "updates"}


def test_a_checkpoint_that_its_writer_removes_meanwhile_is_no_damage(
    saved: Checkpoints, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on: the newest it had when somebody began to read is gone, and there is a newer one."""
    reader = CheckpointReader(saved.folder, said.append)
    read = reader._read

    def late(update: int, target: Any) -> Any:
        if update == 20:
            saved.save(30, make_state(3.0))
            shutil.rmtree(newest(saved))
        return read(update, target)

    monkeypatch.setattr(reader, "_read", late)
    assert reader.restore(shapes(make_state())).update == 30
    assert not said


def test_an_older_checkpoint_that_is_damaged_does_not_prevent_saving(saved: Checkpoints) -> None:
    (saved.folder / "10" / "_CHECKPOINT_METADATA").write_text('{"init_timestamp_nsecs": [1]}')
    saved.close()
    saved.save(30, make_state(3.0))
    assert saved.restore(shapes(make_state())).update == 30


def test_numbers_beside_the_state_that_are_not_finite_come_back_as_none(tmp_path: Path) -> None:
    with Checkpoints(tmp_path / "c") as checkpoints:
        checkpoints.save(1, make_state(), {"sums": [1.0, float("nan")]})
        assert "NaN" not in (checkpoints.folder / "1" / "manifest" / "metadata").read_text()
        assert checkpoints.restore(shapes(make_state())).extra == {"sums": [1.0, None]}


def test_a_checkpoint_of_an_earlier_version_is_read(saved: Checkpoints) -> None:
    """Its manifest has no hash of its own."""
    path = newest(saved) / "manifest" / "metadata"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    path.write_text(json.dumps(manifest))
    assert saved.restore(shapes(make_state())).update == 20
