"""Other libraries' pictures as scenes: one picture a state, drawn by their own renderers where they have any."""

import io

import jax
import numpy as np
import pytest
from PIL import Image

import jaxrl
from jaxrl.interop.pictures import scene_of
from jaxrl.render import html, rasterise
from jaxrl.render.scene import Picture, Scene


def drawn(name: str, start: bool = False) -> Scene:
    """The scene of three equal states: zeros, which need no compilation, or those at the start of an episode."""
    env = jaxrl.make(name)
    if start:
        _, state = jax.jit(env.reset)(jax.random.key(0))
        return env.draw(jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * 3), state))
    _, state = jax.eval_shape(env.reset, jax.random.key(0))
    return env.draw(jax.tree.map(lambda leaf: np.zeros((3, *leaf.shape), leaf.dtype), state))


@pytest.mark.quick
def test_frames_become_pictures_enlarged_in_whole_numbers() -> None:
    frames = np.zeros((3, 4, 8, 3), np.uint8)
    frames[2, 1, 2] = 255, 0, 0
    scene = scene_of(frames, "theirs", step_seconds=0.5)
    [picture] = scene.shapes
    assert isinstance(picture, Picture)
    assert picture.png[0] is picture.png[1]  # equal frames are encoded once
    decoded = np.asarray(Image.open(io.BytesIO(picture.png[2])))
    np.testing.assert_array_equal(decoded, frames[2].repeat(40, 0).repeat(40, 1))
    assert [list(np.ravel(caption.text)) for caption in scene.captions] == [
        ["theirs"],
        [""],
        ["step 0", "step 1", "step 2"],
    ]
    assert tuple(rasterise(scene, 320)[2, 60, 100]) == (255, 0, 0)


@pytest.mark.quick
def test_a_page_shows_a_picture_that_never_changes() -> None:
    page = html.encode(scene_of(np.zeros((2, 4, 8, 3), np.uint8), "theirs", step_seconds=0.5), frames_per_step=1)
    [picture] = page["shapes"]
    assert picture["png"].startswith("data:image/png;base64,")


def test_gymnax_draws_its_own() -> None:
    pytest.importorskip("gymnax")
    pytest.importorskip("seaborn")
    scene = drawn("gymnax:Breakout-MinAtar")
    assert scene.num_frames == 3
    picture = rasterise(scene, 240)[0]
    assert (picture == 0).all(-1).mean() > 0.3  # the field is black
    with pytest.raises(NotImplementedError, match="FrozenLake-misc has no picture: gymnax has no renderer for it"):
        drawn("gymnax:FrozenLake-misc")
    with pytest.raises(NotImplementedError, match=r'use jaxrl.make\("CartPole-v1"\), which has one'):
        drawn("gymnax:CartPole-v1")


def test_jaxmarl_draws_its_own() -> None:
    pytest.importorskip("jaxmarl")
    picture = rasterise(drawn("jaxmarl:MPE_simple_v3"), 160)[0]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3
    with pytest.raises(NotImplementedError, match="switch_riddle has no picture: JaxMARL prints it as text"):
        drawn("jaxmarl:switch_riddle")


@pytest.mark.slow
def test_jaxmarl_draws_overcooked() -> None:
    pytest.importorskip("jaxmarl")
    picture = rasterise(drawn("jaxmarl:overcooked", start=True), 160)[0]
    for agent in ((255, 0, 0), (0, 0, 255)):
        assert (np.abs(picture.astype(int) - agent).max(-1) < 40).sum() > 50
