"""Cooks for the tests, who know the recipe: they deliver soups in any kitchen, over counters if need be."""

from collections import deque
from typing import Any

import numpy as np

from jaxrl.envs.overcooked import Layout, State
from jaxrl.envs.overcooked.layout import DISH, NOTHING, ONION, SOUP, TOMATO
from jaxrl.envs.overcooked.rules import INTERACT, STAY


class Cooks:
    """All cooks of a kitchen; each action is random with probability `noise`, which gets them past each other."""

    def __init__(
        self, layout: Layout, seed: int = 0, noise: float = 0.25, by_hand: bool = False, starts: Any = None
    ) -> None:
        self.layout, self.noise, self.by_hand = layout, noise, by_hand
        self.rng = np.random.default_rng(seed)
        starts = layout.starts if starts is None else starts  # on which side of a wall each cook is
        self.faces = [self.faced_from(int(start)) for start in starts]  # what each can ever reach

    def __call__(self, state: State) -> np.ndarray:
        """An action for each cook: int32 `[N]`."""
        chosen = [self.choose(state, i) for i in range(len(self.layout.starts))]
        random = self.rng.integers(0, 6, len(chosen))
        return np.where(self.rng.random(len(chosen)) < self.noise, random, chosen).astype(np.int32)

    def walk(self, start: int, blocked: set[int]) -> dict[int, int]:
        """From the floor cell `start`: for each cell of the floor that can be reached the first action towards it."""
        first, queue = {start: STAY}, deque([start])
        while queue:
            cell = queue.popleft()
            for action, offset in enumerate(self.layout.offsets.tolist()):
                new = cell + offset
                if self.layout.tiles[new] == " " and new not in first and new not in blocked:
                    first[new] = action if cell == start else first[cell]
                    queue.append(new)
        return first

    def faced_from(self, start: int) -> set[int]:
        """The cells that a cook who starts there can ever face."""
        return {cell + offset for cell in self.walk(start, set()) for offset in self.layout.offsets.tolist()}

    def choose(self, state: State, i: int) -> int:
        """The next action on the way to what cook `i` should use."""
        goals = self.goals(state, i)
        others = {int(cell) for j, cell in enumerate(state.position) if j != i}
        first = self.walk(int(state.position[i]), others)
        for cell, action in first.items():  # the nearest cells first
            for direction, offset in enumerate(self.layout.offsets.tolist()):
                if cell + offset in goals:
                    if action != STAY:
                        return action
                    return INTERACT if state.direction[i] == direction else direction
        return int(self.rng.integers(0, 5))

    def goals(self, state: State, i: int) -> set[int]:
        """The cells that it would be good to use next."""
        layout, faces, held = self.layout, self.faces[i], int(state.held[i])
        pots = layout.cells("P")
        filling = pots[(state.timer < 0) & ((state.contents & 3) + (state.contents >> 2) < 3)]
        begun = pots[(state.timer >= 0) | ((state.contents > 0) & self.by_hand)]
        wanted: set[int]
        if held == NOTHING:
            return self.things(state, i, filling, begun) & faces
        if held >= SOUP:
            wanted = set(layout.cells("S").tolist())
        elif held == DISH:
            wanted = set(pots[state.timer == 0].tolist()) or set(begun.tolist())
        else:
            wanted = set(filling.tolist())
        free = {int(cell) for cell in layout.cells("X") if state.counters[cell] == NOTHING}
        shared = {cell for cell in free & faces if sum(cell in other for other in self.faces) > 1}
        return wanted & faces or shared or free & faces

    def things(self, state: State, i: int, filling: np.ndarray, begun: np.ndarray) -> set[int]:
        """Where an empty hand gets what is needed."""
        layout, faces = self.layout, self.faces[i]
        lying = {kind: set(np.flatnonzero(state.counters == kind).tolist()) for kind in (DISH, ONION, TOMATO)}
        soups = set(np.flatnonzero(state.counters >= SOUP).tolist())
        full = layout.cells("P")[(state.timer < 0) & ((state.contents & 3) + (state.contents >> 2) == 3)]
        if self.by_hand and faces & set(full.tolist()):
            return set(full.tolist())
        if soups & faces and faces & set(layout.cells("S").tolist()):
            return soups
        cooks_here = bool(faces & set(layout.cells("P").tolist()))
        if len(begun) and not np.any(state.held == DISH) and (cooks_here or not lying[DISH]):
            dishes = lying[DISH] & faces if cooks_here else set()
            return dishes or set(layout.cells("D").tolist())
        if not len(filling):
            return set()
        onions = lying[ONION] | lying[TOMATO] if cooks_here else set()
        return onions & faces or set(layout.cells("O").tolist()) | set(layout.cells("T").tolist())
