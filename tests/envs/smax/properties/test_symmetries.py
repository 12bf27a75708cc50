"""A battle does not depend on how its units are numbered, nor, in self-play, on which side a team plays."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

SECTIONS = 32  # of a conic observation
EXACT = ("position", "health", "cooldown", "move", "attack", "unit_type")

examples = hypothesis.settings(derandomize=True, deadline=None, database=None, max_examples=25)


def calm(arena, example, action, seen):
    """Which of the B battles a breath of wind does not decide otherwise, bool `[B]`.

    Sums in another order round otherwise. Where units push each other, or a distance is a range to the last bit, that
    grows. Coordinates on the border stay there in this wind.
    """
    rng = np.random.default_rng(example.seed)
    position = np.asarray(example.state.position)
    free = (position > 0) & (position < [example.params.map_width, example.params.map_height])
    still = np.ones(len(position), bool)
    for _ in range(3):
        blown = position + free * rng.choice([-2e-5, 2e-5], position.shape)
        state = dataclasses.replace(example.state, position=jnp.asarray(blown, jnp.float32))
        for a, b in zip(jax.tree.leaves(seen), jax.tree.leaves(arena.play(example, action, state)), strict=True):
            still &= (np.abs(a.astype(np.float64) - b) < 2e-3).reshape(len(still), -1).all(1)
    return still


def in_sections(position):
    """Whether nobody stands exactly between two sections of another's circle, bool `[B]`.

    Units on the border stand in line, for instance: there the rounding says which section.
    """
    x, y = np.moveaxis(position.astype(np.float64), -1, 0)
    turn = np.arctan2(y[:, None] - y[:, :, None], x[:, None] - x[:, :, None]) * SECTIONS / (2 * np.pi)
    together = (x[:, None] == x[:, :, None]) & (y[:, None] == y[:, :, None])
    return ~((np.abs(turn - np.round(turn)) < 1e-3) & ~together).any((1, 2))


def assert_same(ours, other, lanes):
    """Equal in the battles of `lanes`, for dicts of arrays `[B, …]`."""
    for name in ours:
        a, b = (np.asarray(side[name], np.float64)[lanes] for side in (ours, other))
        np.testing.assert_allclose(a, b, atol=2e-3, rtol=0, err_msg=name)


def parts(seen):
    """All that is seen, by name."""
    return {**{name: getattr(seen.state, name) for name in EXACT}, **seen._asdict()}


def replace(state, **leaves):
    return dataclasses.replace(state, **{name: jnp.asarray(leaf) for name, leaf in leaves.items()})


@pytest.mark.parametrize("mode", ["selfplay", pytest.param("continuous", marks=pytest.mark.slow)])
@examples
@hypothesis.given(data=st.data())
def test_mirroring_the_map_mirrors_the_battle(arena, mode, data):
    """Exchange the sides of 3 and 2: both see, may do and get what they did, and end in the mirror image."""
    here, there = arena(3, 2, mode), arena(2, 3, mode)
    example, num_allies = data.draw(here.examples(piles=False)), here.env.num_allies

    def swap(values, axis=1):
        allies, enemies = np.split(np.asarray(values), [num_allies], axis)
        return np.concatenate([enemies, allies], axis)

    def mirror(position, move, attack):
        """Left is right, and an attack on opponent k, 5 + k for allies, counts from the other end for enemies."""
        attack = np.where(attack >= 5, 9 + here.num_opponents - attack, 0)
        x = example.params.map_width - position[..., 0]
        turned = np.asarray(move) * np.array([-1, 1], np.float32)
        return {"position": np.stack([x, position[..., 1]], -1), "move": turned, "attack": attack}

    def mirrored(state):
        arrays = {name: np.asarray(getattr(state, name)) for name in EXACT}
        arrays |= mirror(arrays["position"], arrays["move"], arrays["attack"])
        return {name: swap(array) for name, array in arrays.items()}

    action = here.orders(example.seed)
    seen = here.play(example, action)
    image = example._replace(
        state=replace(example.state, **mirrored(example.state)), deviation=swap(example.deviation, 2)
    )
    other = parts(there.play(image, swap(action)))
    lanes = calm(here, example, action, seen)
    assert_same(mirrored(seen.state), other, lanes)
    names = ["reward", "unit_list", *(["mask"] if mode == "selfplay" else [])]
    assert_same({name: swap(getattr(seen, name)) for name in names}, other, lanes)
    assert_same({"conic": swap(seen.conic)}, other, lanes & in_sections(seen.state.position))
    health = seen.state.health
    lost = seen.terminated & (health[:, :num_allies] == 0).all(1) & (health[:, num_allies:] > 0).any(1)
    assert_same({"won": lost, "terminated": seen.terminated, "truncated": seen.truncated}, other, lanes)
    assert lanes.sum() >= len(lanes) // 4


def by_unit(arena, unit_list):
    """Unit lists `[B, N, D]` by unit instead of by place.

    Gives blocks `[B, N, N, 12]` without the last attack, who attacked whom `[B, N, N]` (a unit, or -1), own blocks.
    """
    (b, n, _), a = unit_list.shape, arena.env.num_allies
    listed, own = unit_list[..., :-10].reshape(b, n, n - 1, 13), unit_list[..., -10:]
    blocks, attacked = np.zeros((b, n, n, 12)), np.full((b, n, n), -1)
    for i in range(n):
        mates, foes = (range(a), range(a, n))[:: 1 if i < a else -1]
        for place, j in enumerate(j for j in (*mates, *foes) if j != i):
            blocks[:, i, j] = np.delete(listed[:, i, place], 5, axis=-1)
            targets = foes if j in mates else mates[::-1]  # opponents are seen to count from the other end
            number = np.round(listed[:, i, place, 5] * (4 + len(targets))).astype(int)
            attacked[:, i, j] = np.where(number >= 5, np.take(targets, np.maximum(number - 5, 0)), -1)
    return blocks, attacked, own


def by_section(conic):
    """What is in each section `[B, N, 32, 12]`, as a sum and without the last attack; zero where both slots are full.

    (Who is left out of a full section depends on the numbering, and is the first thing seen to differ.)
    """
    slots = conic[..., :-10].reshape(*conic.shape[:2], SECTIONS, 2, 13)
    full = (slots[..., 7:] > 0).any(-1).all(-1)
    return np.delete(slots.sum(3), 5, axis=-1) * ~full[..., None]


@examples
@hypothesis.given(data=st.data(), allies=st.permutations(range(3)), enemies=st.permutations(range(3, 5)))
def test_team_mates_are_interchangeable(arena, data, allies, enemies):
    """Numbering units otherwise numbers what they see, may do, get and suffer otherwise, and changes nothing else."""
    arena = arena(3, 2, "selfplay")
    example, a, n = data.draw(arena.examples(piles=False)), arena.env.num_allies, arena.env.num_units
    order = np.array([*allies, *enemies])  # the unit now numbered i was order[i] …
    number = np.argsort(order)  # … and the unit that was i is number[i] now

    def renumber(action, reverse):
        """Actions `[B, N]` under the new numbers; `reverse`: enemies' attacks count from the other end."""
        offset = np.where(arena.is_ally, a, 0)
        last = np.where(arena.is_ally | (not reverse), 0, a - 1)
        target = np.abs(last - np.maximum(np.asarray(action, int) - 5, 0))
        target = np.abs(last - (number[target + offset] - offset))
        return np.where(action >= 5, 5 + target, action)[:, order]

    def shuffled(state):
        arrays = {name: np.asarray(getattr(state, name))[:, order] for name in EXACT}
        return {**arrays, "attack": renumber(np.asarray(state.attack), True).astype(np.int32)}

    action = arena.orders(example.seed)
    seen = arena.play(example, action)
    image = example._replace(
        state=replace(example.state, **shuffled(example.state)), deviation=example.deviation[:, :, order]
    )
    other = arena.play(image, renumber(action, False).astype(np.float32))
    lanes = calm(arena, example, action, seen)
    assert_same(shuffled(seen.state), parts(other), lanes)
    flags = {name: getattr(seen, name) for name in ("terminated", "truncated", "won")}
    assert_same({"reward": seen.reward[:, order], **flags}, parts(other), lanes)

    columns = np.tile(np.arange(seen.mask.shape[2]), (n, 1))
    columns[:a, 5 : 5 + n - a] = 5 + order[a:] - a
    columns[a:, 5 : 5 + a] = 5 + order[:a]
    assert_same({"mask": np.take_along_axis(seen.mask[:, order], columns[None], 2)}, parts(other), lanes)

    (blocks, attacked, own), theirs = by_unit(arena, seen.unit_list), by_unit(arena, other.unit_list)
    attacked = np.where(attacked < 0, -1, number[attacked])
    units = [values[:, : 10 * n].reshape(-1, n, 10) for values in (seen.global_state, other.global_state)]
    shown = {"blocks": blocks[:, order][:, :, order], "attacked": attacked[:, order][:, :, order], "own": own[:, order]}
    names = dict(zip(("blocks", "attacked", "own"), theirs, strict=True))
    assert_same({**shown, "units": units[0][:, order]}, {**names, "units": units[1]}, lanes)
    sections = {"sections": by_section(seen.conic)[:, order]}
    assert_same(sections, {"sections": by_section(other.conic)}, lanes & in_sections(seen.state.position))
    assert lanes.sum() >= len(lanes) // 4
